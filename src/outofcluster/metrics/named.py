"""A metric of a set of records as plain data, from which it is made anew: in an audit that was read from a file.

It is made from its name and numbers of classes, which stand in for the labels. A metric for which this gives another
one, such as a function of the user's own, is not known by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster.metrics.base import Metric
from outofcluster.metrics.facts import MetricFacts
from outofcluster.metrics.resolve import resolve_scoring


class _StandIn:
    """An estimator that can do everything: its predictions are there already."""

    predict = predict_proba = decision_function = None

    def __init__(self, kind: str) -> None:
        self._estimator_type = kind


@dataclass(frozen=True)
class NamedMetric:
    """A metric of a set of records.

    Attributes
    ----------
    name : str
        The name by which it is known.
    uses : str
        The predictions that it needs.
    n_classes : int
        How many classes there are; 0 where targets are numbers.
    positive : int
        Number of the positive one of two classes.
    """

    name: str
    uses: str
    n_classes: int = 0
    positive: int = 1

    @classmethod
    def of(cls, metric: Metric) -> Self | None:
        """What a metric is made from; None for one that has losses of records, needs the model, or has no known name.

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> from outofcluster.metrics.named import NamedMetric
        >>> from outofcluster.metrics.resolve import resolve_scoring
        >>> auc, accuracy = resolve_scoring(["roc_auc", "accuracy"], LogisticRegression(), ["no", "yes"])
        >>> NamedMetric.of(auc), NamedMetric.of(accuracy)
        (NamedMetric(name='roc_auc', uses='scores', n_classes=2, positive=1), None)
        """
        if metric.is_mean or metric.uses is None:
            return None
        positive = getattr(metric, "positive", dict(getattr(metric, "options", ())).get("positive"))
        n_classes = 0 if metric.classes is None else len(metric.classes)
        named = cls(metric.name, metric.uses, n_classes, 1 if positive is None else int(positive))
        try:
            return named if named.made(metric.facts) == metric else None
        except InputError:
            return None

    def made(self, facts: MetricFacts) -> Metric:
        """The metric, for targets that are numbers of classes."""
        estimator: Any = _StandIn("regressor" if self.uses == "values" else "classifier")
        targets = np.arange(self.n_classes) if self.n_classes else np.array([0.0, 0.5, 1.0])
        positive = self.positive if self.n_classes == 2 else None
        (metric,) = resolve_scoring(self.name, estimator, targets, pos_label=positive)
        return replace(metric, facts=facts)

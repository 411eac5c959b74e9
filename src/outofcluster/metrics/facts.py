"""What there is to know about a metric to show it: its name, its sign, its range, and how folds are pooled.

Inside the package everything is a loss, and a lower one is better. A metric of which a greater value is better is minus
its loss there. `MetricFacts.shown` turns a loss into the value that a user knows; errors of scikit-learn, which its
scorers negate ("neg_mean_squared_error"), are shown as the positive errors that they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

Value = TypeVar("Value", float, np.ndarray)
_UNIT, _SIGNED, _POSITIVE = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf)
_UP_TO_ONE, _ANY = (-math.inf, 1.0), (-math.inf, math.inf)

# The losses of this package that have a name.
LOSSES = ("zero_one", "squared_error", "absolute_error", "log_loss", "brier")


@dataclass(frozen=True)
class MetricFacts:
    """A metric as it is shown.

    Attributes
    ----------
    name : str
        The name by which it was asked for: "roc_auc", "brier", or the name of the user's function.
    label : str
        What a sentence, an axis or a table calls it: "AUC", "Brier score", "error rate".
    greater_is_better : bool
        Whether a greater value is better, so that the shown value is minus the loss.
    range : tuple of float
        Smallest and largest possible value, as shown.
    pool : {"records", "folds"}
        Whether the metric of an audit is the mean over all records, or the mean of the metrics of the folds.

    Examples
    --------
    >>> from outofcluster.metrics.facts import known_facts
    >>> auc = known_facts("roc_auc")
    >>> auc.label, auc.shown(-0.76), auc.shown_interval(-0.80, -0.71)
    ('AUC', 0.76, (0.71, 0.8))
    >>> known_facts("neg_mean_squared_error").label
    'mean squared error'
    """

    name: str
    label: str
    greater_is_better: bool = False
    range: tuple[float, float] = _ANY
    pool: str = "records"

    def __read__(self) -> Self:
        """The facts as they were written: plain data hold no infinite number, so that such an end is not known."""
        low, high = self.range
        return replace(self, range=(-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high))

    @property
    def title(self) -> str:
        """The label as it begins a sentence, an axis or a heading."""
        return self.label[:1].upper() + self.label[1:]

    @property
    def noun(self) -> str:
        """What running text calls it: "loss" for a loss, and the label for a metric that was asked for by name."""
        named = self.greater_is_better or (self.name in _KNOWN and self.name not in LOSSES)
        return self.label if named else "loss"

    @property
    def loss_range(self) -> tuple[float, float]:
        """Smallest and largest possible loss."""
        return self.shown_interval(*self.range)

    @property
    def target(self) -> float | None:
        """The best value, where that is neither the greatest nor the smallest one: 1 for a calibration slope."""
        return _TARGETS.get(self.name)

    @property
    def better(self) -> str:
        """Which of two values is the better one: the "greater", the "smaller", or the one that is "nearer to 1"."""
        if self.target is not None:
            return f"nearer to {self.target:g}"
        return "greater" if self.greater_is_better else "smaller"

    @property
    def flattered(self) -> str:
        """What a value is where leakage flatters the model: "too high", "too low" for an error, or "too near to 1"."""
        if self.target is not None:
            return f"too near to {self.target:g}"
        return "too high" if self.greater_is_better else "too low"

    def badness(self, value: Value) -> Value:
        """How bad a shown value is: its loss, or its distance from the target where there is one."""
        return self.shown(value) if self.target is None else abs(value - self.target)

    def badness_between(self, low: Value, high: Value) -> tuple[Value, Value]:
        """How bad the values between two shown ones are, at best and at worst."""
        if self.target is None:
            return self.shown_interval(low, high)
        one, other = abs(low - self.target), abs(high - self.target)
        inside = (low <= self.target) & (high >= self.target)
        nearest: Any = np.where(inside, 0.0, np.minimum(one, other))[()]
        return nearest, np.maximum(one, other)

    def shown(self, loss: Value) -> Value:
        """The value of a loss as a user knows it; and the loss of such a value, since both differ by the sign only."""
        return 0.0 - loss if self.greater_is_better else loss

    def shown_interval(self, low: Value, high: Value) -> tuple[Value, Value]:
        """An interval of losses as an interval of the metric, its lower end first."""
        return (self.shown(high), self.shown(low)) if self.greater_is_better else (low, high)


# A loss of which no more is known.
SOME_LOSS = MetricFacts("loss", "loss")


def _averaged(name: str, label: str) -> dict[str, tuple[str, bool, tuple[float, float], str]]:
    """A metric of two classes and its averages over several."""
    words = {"macro": "macro average", "micro": "micro average", "samples": "sample average", "weighted": "weighted"}
    facts = {name: (label, True, _UNIT, "folds")}
    return facts | {f"{name}_{how}": (f"{label} ({word})", True, _UNIT, "folds") for how, word in words.items()}


# The best value of metrics for which that is neither the greatest nor the smallest one, or that are distances from it.
_TARGETS = {"calibration_slope": 1.0, "calibration_intercept": 0.0}
# Name: label, whether greater is better, range as shown, how folds are pooled.
_KNOWN: dict[str, tuple[str, bool, tuple[float, float], str]] = {
    # Losses of this package.
    "zero_one": ("error rate", False, _UNIT, "records"),
    "squared_error": ("mean squared error", False, _POSITIVE, "records"),
    "absolute_error": ("mean absolute error", False, _POSITIVE, "records"),
    "log_loss": ("log loss", False, _POSITIVE, "records"),
    "brier": ("Brier score", False, _UNIT, "records"),
    # Scorers of scikit-learn that are means over records.
    "accuracy": ("accuracy", True, _UNIT, "records"),
    "top_k_accuracy": ("top-k accuracy", True, _UNIT, "records"),
    "neg_brier_score": ("Brier score", False, _UNIT, "records"),
    "neg_log_loss": ("log loss", False, _POSITIVE, "records"),
    "neg_mean_squared_error": ("mean squared error", False, _POSITIVE, "records"),
    "neg_mean_absolute_error": ("mean absolute error", False, _POSITIVE, "records"),
    "neg_mean_absolute_percentage_error": ("mean absolute percentage error", False, _POSITIVE, "records"),
    "neg_mean_squared_log_error": ("mean squared log error", False, _POSITIVE, "records"),
    "neg_mean_gamma_deviance": ("mean gamma deviance", False, _POSITIVE, "records"),
    "neg_mean_poisson_deviance": ("mean Poisson deviance", False, _POSITIVE, "records"),
    # Scorers of scikit-learn that are not.
    "roc_auc": ("AUC", True, _UNIT, "folds"),
    "roc_auc_ovr": ("AUC (one against the rest)", True, _UNIT, "folds"),
    "roc_auc_ovr_weighted": ("AUC (one against the rest, weighted)", True, _UNIT, "folds"),
    "roc_auc_ovo": ("AUC (one against one)", True, _UNIT, "folds"),
    "roc_auc_ovo_weighted": ("AUC (one against one, weighted)", True, _UNIT, "folds"),
    "average_precision": ("average precision", True, _UNIT, "folds"),
    "balanced_accuracy": ("balanced accuracy", True, _UNIT, "folds"),
    **_averaged("f1", "F1"),
    **_averaged("precision", "precision"),
    **_averaged("recall", "recall"),
    **_averaged("jaccard", "Jaccard index"),
    "matthews_corrcoef": ("Matthews correlation", True, _SIGNED, "folds"),
    "positive_likelihood_ratio": ("positive likelihood ratio", True, _POSITIVE, "folds"),
    "neg_negative_likelihood_ratio": ("negative likelihood ratio", False, _POSITIVE, "folds"),
    "r2": ("R²", True, _UP_TO_ONE, "folds"),
    "explained_variance": ("explained variance", True, _UP_TO_ONE, "folds"),
    "d2_absolute_error_score": ("D² (absolute error)", True, _UP_TO_ONE, "folds"),
    "d2_brier_score": ("D² (Brier score)", True, _UP_TO_ONE, "folds"),
    "d2_log_loss_score": ("D² (log loss)", True, _UP_TO_ONE, "folds"),
    "neg_max_error": ("largest error", False, _POSITIVE, "folds"),
    "neg_median_absolute_error": ("median absolute error", False, _POSITIVE, "folds"),
    "neg_root_mean_squared_error": ("root mean squared error", False, _POSITIVE, "folds"),
    "neg_root_mean_squared_log_error": ("root mean squared log error", False, _POSITIVE, "folds"),
    # Metrics of this package.
    "sensitivity": ("sensitivity", True, _UNIT, "folds"),
    "specificity": ("specificity", True, _UNIT, "folds"),
    "concordance": ("concordance", True, _UNIT, "folds"),
    "calibration_slope": ("calibration slope", True, _ANY, "folds"),
    "calibration_intercept": ("absolute calibration intercept", False, _POSITIVE, "folds"),
}


FACTS = {name: MetricFacts(name, *about) for name, about in _KNOWN.items()}


def known_facts(name: str) -> MetricFacts | None:
    """The facts of a loss of this package or a scorer of scikit-learn, by its name."""
    return FACTS.get(name)

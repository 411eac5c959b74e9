"""What `leakage_test` returns: the numbers, and words that claim no more than the test has shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import copysign, inf, isfinite
from typing import Any, Self

import numpy as np

from outofcluster._base.markup import element, fragment, table
from outofcluster._base.plain import (
    check_schema,
    data_frame,
    flag,
    number,
    numbers,
    plain,
    read_json,
    reading,
    text,
    whole,
)
from outofcluster._base.validation import Array
from outofcluster.sampling.audit_samples import FoldSizes

__all__ = ["POWER", "LeakageTest"]

_SCHEMA = 1

POWER = 0.8
"""Probability with which a detectable effect is found."""


@dataclass(frozen=True, eq=False)
class LeakageTest:
    """Result of `leakage_test`; ``print`` it to see what was shown and what was not.

    Two results are equal when all their numbers are equal.

    Attributes
    ----------
    statistic, df, pvalue : float
        T, its degrees of freedom, and the one-sided p-value.
    rejected : bool
        Whether the p-value is at most ``alpha``.
    difference : float
        Mean of z minus mean of z': by how much training on records of the validation clusters lowers their loss.
    detectable : float
        Difference that folds as noisy as these would have shown with a probability of 80 %.
    losses_train, losses_validation : array of shape (n_folds, folds of a split)
        z and z': mean losses of the models trained on T̂ and on V̂.
    sizes : FoldSizes
        Number and size of the folds of each split.
    n_folds : int
        Splits that were used.
    alpha, loss : float, str
        Level of the test, and name of the loss.
    """

    statistic: float
    df: float
    pvalue: float
    rejected: bool
    alpha: float
    difference: float
    detectable: float
    losses_train: Array
    losses_validation: Array
    sizes: FoldSizes
    n_folds: int
    loss: str

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.rejected:
            return f"A cluster effect was found (p = {self.pvalue:.2g}): there is something for leakage to act on."
        if not isfinite(self.detectable):
            return f"No cluster effect was found (p = {self.pvalue:.2g}), from losses that do not vary."
        return (
            f"No cluster effect was found (p = {self.pvalue:.2g}); one of {self.detectable:.3g} would have been found "
            f"with a probability of {POWER:.0%}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; numbers that are not finite are None.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        return {"schema": _SCHEMA, **plain(self)}

    def to_json(self) -> str:
        """Everything as JSON.

        Returns
        -------
        str
            The JSON text.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The test that `to_dict` was called on.

        Parameters
        ----------
        data : dict
            What `to_dict` returned.

        Returns
        -------
        LeakageTest
            An equal test.
        """
        check_schema(data, _SCHEMA)
        with reading("a leakage test"):
            difference = number(data["difference"])
            statistic = data["statistic"]
            return cls(
                statistic=copysign(inf, difference) if statistic is None else number(statistic),
                df=number(data["df"]),
                pvalue=number(data["pvalue"]),
                rejected=flag(data["rejected"]),
                alpha=number(data["alpha"]),
                difference=difference,
                detectable=number(data["detectable"]),
                losses_train=np.array([numbers(row) for row in data["losses_train"]]),
                losses_validation=np.array([numbers(row) for row in data["losses_validation"]]),
                sizes=FoldSizes(**{name: whole(size) for name, size in data["sizes"].items()}),
                n_folds=whole(data["n_folds"]),
                loss=text(data["loss"]),
            )

    @classmethod
    def from_json(cls, written: str) -> Self:
        """The test that `to_json` was called on.

        Parameters
        ----------
        written : str
            What `to_json` returned.

        Returns
        -------
        LeakageTest
            An equal test.
        """
        return cls.from_dict(read_json(written))

    def to_frame(self) -> Any:
        """The losses of all models as a table.

        Returns
        -------
        pandas.DataFrame
            One row per model, with the columns split, trained_on and loss.
        """
        kinds = {"other clusters": self.losses_train, "validation clusters": self.losses_validation}
        rows = [
            (split, kind, float(loss))
            for kind, losses in kinds.items()
            for split, of_split in enumerate(losses)
            for loss in of_split
        ]
        return data_frame(dict(zip(("split", "trained_on", "loss"), zip(*rows, strict=True), strict=True)))

    def plot(self, ax: Any = None) -> Any:
        """Draw the losses of the models by what they were trained on; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LeakageTestDisplay
        """
        from outofcluster.present.display import LeakageTestDisplay

        return LeakageTestDisplay.from_test(self).plot(ax)

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, LeakageTest) else NotImplemented

    def __str__(self) -> str:
        power = f"an effect of {self.detectable:.3g} would have been found with a probability of {POWER:.0%}"
        if not isfinite(self.detectable):
            power = "the losses do not vary, which leaves unknown what effect would have been found"
        verdict = (
            "A cluster effect was found: training on records of the validation clusters lowers their loss, e(p0) > e(1)"
            ".\nSo there is something for leakage to act on: any error of the clustering makes the score optimistic."
            "\nThis does not show that leakage happened, nor how much: that depends on the errors of the clustering."
            if self.rejected
            else "No cluster effect was found: training on records of the validation clusters did not lower their loss "
            f"by more than chance explains.\nThis does not show that there is none: with these sizes {power}."
        )
        number, splits = self.losses_train.size, "one split" if self.n_folds == 1 else f"{self.n_folds} splits"
        return (
            f"{verdict}\nMean loss ({self.loss}): {self.losses_train.mean():.4g} trained on other clusters, "
            f"{self.losses_validation.mean():.4g} trained on the validation clusters, difference {self.difference:.3g}."
            f"\nWelch's t = {self.statistic:.3g} with {self.df:.3g} degrees of freedom, one-sided p = {self.pvalue:.2g}"
            f", level {self.alpha:g}; {number} + {number} models of {self.sizes.n_train} records, each scored on "
            f"{self.sizes.n_scored}, over {splits}."
        )

    def _repr_html_(self) -> str:
        rows = [
            ("other clusters", f"{self.losses_train.mean():.4g}", str(self.losses_train.size)),
            ("the validation clusters", f"{self.losses_validation.mean():.4g}", str(self.losses_validation.size)),
        ]
        header = ("trained on", f"mean loss ({self.loss})", "models")
        *sentences, _, numbers_of_test = str(self).split("\n")
        return fragment(
            element("p", element("strong", self.sentence)),
            table(header, rows),
            *(element("p", line) for line in (sentences[-1], numbers_of_test)),
        )

"""What `leakage_test` returns: the numbers, and words that claim no more than the test has shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import copysign, inf, isfinite, nan
from typing import Any, Self

import numpy as np

from outofcluster._base.markup import element, fragment, table
from outofcluster._base.plain import (
    check_schema,
    data_frame,
    finite,
    flag,
    number,
    numbers,
    plain,
    read_json,
    reading,
    share,
    text,
    whole,
)
from outofcluster._base.text import printable
from outofcluster._base.validation import Array
from outofcluster.inference.estimates import percent
from outofcluster.sampling.audit_samples import FoldSizes
from outofcluster.sampling.metrics.facts import known_facts

__all__ = ["POWER", "LeakageTest"]

_SCHEMA = 2

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
        By how much training on records of held-out clusters lowers their loss.
    detectable : float
        Difference that losses as noisy as these would have shown with a probability of 80 %.
    losses_train, losses_validation : array of shape (n_folds, models)
        Mean losses of models on held-out records: of models that were trained on other clusters, and of models that
        were trained on other records of the same clusters.
    sizes : FoldSizes
        Number of models of each kind in a drawing, the records that each is trained on, and those that are scored.
    n_folds : int
        Drawings of pairs of models; for the paper's test the splits that were used.
    alpha, loss : float, str
        Level of the test, and name of the loss or metric.
    method : {"paired", "welch"}
        The test with power, or the paper's own.
    units, n_units : str, int
        The independent units, "clusters" or "records", and their number; "models" for the paper's test.
    power : float
        Probability with which the test finds an effect as large as the one it measured.
    greater_is_better : bool
        Whether the losses are those of a metric of which more is better, with the sign turned.
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
    method: str = "paired"
    units: str = "clusters"
    n_units: int = 0
    power: float = nan
    greater_is_better: bool = False

    @property
    def _chance(self) -> str:
        """The p-value, and the power of the paper's test beside it."""
        power = (
            f", power {100 * self.power:.0f} % against the effect that was measured" if self.method == "welch" else ""
        )
        return f"p = {self.pvalue:.2g}{power}"

    @property
    def outcome(self) -> str:
        """Whether an effect was found, and the p-value, and nothing else."""
        return f"{'A' if self.rejected else 'No'} cluster effect was found ({self._chance})."

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.rejected:
            return f"A cluster effect was found ({self._chance}): there is something for leakage to act on."
        if not isfinite(self.detectable):
            return f"No cluster effect was found ({self._chance}), from losses that do not vary."
        return (
            f"No cluster effect was found ({self._chance}); one of {self.detectable:.3g} would have been found "
            f"with a probability of {percent(POWER)}."
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
            difference = finite(data["difference"])
            statistic = data["statistic"]
            return cls(
                statistic=copysign(inf, difference) if statistic is None else number(statistic),
                df=number(data["df"]),
                pvalue=share(data["pvalue"]),
                rejected=flag(data["rejected"]),
                alpha=share(data["alpha"]),
                difference=difference,
                detectable=number(data["detectable"]),
                losses_train=np.array([numbers(row) for row in data["losses_train"]]),
                losses_validation=np.array([numbers(row) for row in data["losses_validation"]]),
                sizes=FoldSizes(**{name: whole(size) for name, size in data["sizes"].items()}),
                n_folds=whole(data["n_folds"]),
                loss=text(data["loss"]),
                method=text(data["method"]),
                units=text(data["units"]),
                n_units=whole(data["n_units"]),
                power=nan if data["power"] is None else share(data["power"]),
                greater_is_better=flag(data["greater_is_better"]),
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
        kinds = {"other clusters": self.losses_train, "the same clusters": self.losses_validation}
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

    @property
    def _label(self) -> str:
        known = known_facts(self.loss)
        return self.loss if known is None else known.label.removeprefix("mean ")

    @property
    def _means(self) -> tuple[float, float]:
        """Mean losses of both kinds of models, as the metric shows them."""
        sign = -1 if self.greater_is_better else 1
        return sign * float(self.losses_train.mean()), sign * float(self.losses_validation.mean())

    @property
    def _lines(self) -> tuple[str, str, str, str]:
        """The verdict, what it does not show, the losses, and the numbers of the test."""
        power = f"an effect of {self.detectable:.3g} would have been found with a probability of {percent(POWER)}"
        if not isfinite(self.detectable):
            power = "the losses do not vary, which leaves unknown what effect would have been found"
        if self.rejected:
            verdict = "A cluster effect was found: models are better on clusters that they were trained on."
            limit = (
                "So there is something for leakage to act on. This does not show that a score is inflated: that "
                "depends on the errors of the clustering, and the optimism of an audit says by how much."
            )
        else:
            verdict = (
                "No cluster effect was found: models are not better on clusters that they were trained on, by more "
                "than chance explains."
            )
            limit = f"This does not show that there is none: with these records {power}."
        other, own = self._means
        losses = (
            f"Mean {self._label} on held-out records: {_number(other, 4)} by models of other clusters, "
            f"{_number(own, 4)} by models of the same clusters, difference {_number(self.difference, 3)}."
        )
        name = "Student's" if self.method == "paired" else "Welch's"
        models = (
            f"{self.n_folds} pairs of models of {self.sizes.n_train:,} records; "
            f"the units are {self.n_units:,} {self.units}"
            if self.method == "paired"
            else f"the paper's test, {self.losses_train.size} + {self.losses_train.size} models of "
            f"{self.sizes.n_train:,} records, each scored on {self.sizes.n_scored:,}"
        )
        freedom = f"{self.df:.3g}" if self.df < 999.5 else f"{self.df:,.0f}"
        numbers_of_test = (
            f"{name} t = {_number(self.statistic, 3)} with {freedom} degrees of freedom, one-sided {self._chance}, "
            f"level {self.alpha:g}; {models}."
        )
        return verdict, limit, losses, numbers_of_test

    def __str__(self) -> str:
        return printable("\n".join(self._lines))

    def _repr_html_(self) -> str:
        other, own = self._means
        rows = [
            ("other clusters", _number(other, 4), str(self.losses_train.size)),
            ("the same clusters", _number(own, 4), str(self.losses_validation.size)),
        ]
        header = ("trained on", f"mean {self._label} on held-out records", "models")
        _, limit, _, numbers_of_test = self._lines
        return fragment(
            element("p", element("strong", self.outcome)),
            table(header, rows),
            *(element("p", line) for line in (limit, numbers_of_test)),
        )


def _number(value: float, digits: int) -> str:
    """A number with so many digits and a true minus sign."""
    written = f"{value:.{digits}g}"
    return f"−{written[1:]}" if written.startswith("-") else written

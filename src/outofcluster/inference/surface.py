"""The corrected value over leakage rates of both ways, as a table that can be printed, drawn and written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from outofcluster._base.markup import fragment, table
from outofcluster._base.plain import data_frame, number, numbers, plain, reading
from outofcluster._base.validation import Array, check_vector
from outofcluster.inference.estimates import percent
from outofcluster.sampling.metrics.facts import SOME_LOSS, MetricFacts

__all__ = ["SensitivitySurface"]

_TABLES = ("values", "low", "high")


@dataclass(frozen=True, eq=False)
class SensitivitySurface:
    """The corrected loss or metric over leakage rates of both ways; each pair of rates is taken as known.

    Attributes
    ----------
    rates : array of shape (m,)
        Shares of the training records that truly belong to held-out clusters.
    validation_rates : array of shape (k,)
        Shares of the held-out records that truly belong to training clusters.
    values, low, high : array of shape (m, k)
        The corrected value in the metric's own sign, and the ends of its interval.
    confidence_level : float
        Confidence level of the intervals.
    metric : MetricFacts
        What is measured.

    Examples
    --------
    >>> from outofcluster import SensitivitySurface
    >>> print(SensitivitySurface([0, 0.1], [0, 0.2], [[0.3, 0.32], [0.34, 0.37]], [[0, 0]] * 2, [[1, 1]] * 2))
    Corrected loss by share of training records (down) and of held-out records (across) on the wrong side
               0.0%   20.0%
      0.0%   0.3000  0.3200
     10.0%   0.3400  0.3700
    """

    rates: Array
    validation_rates: Array
    values: Array
    low: Array
    high: Array
    confidence_level: float = 0.95
    metric: MetricFacts = SOME_LOSS

    def __post_init__(self) -> None:
        for name in ("rates", "validation_rates", *_TABLES):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data.

        Returns
        -------
        dict
            The attributes by their names.
        """
        return dict(plain(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The surface that `to_dict` was called on.

        Parameters
        ----------
        data : dict
            What `to_dict` returned.

        Returns
        -------
        SensitivitySurface
            An equal surface.
        """
        with reading("a sensitivity surface"):
            rates, other = (check_vector(name, numbers(data[name])) for name in ("rates", "validation_rates"))
            tables = [np.array([numbers(row) for row in data[name]]) for name in _TABLES]
            if any(table.shape != (len(rates), len(other)) for table in tables):
                raise ValueError("its tables do not have one row per rate")
            values, low, high = tables
            level, metric = number(data["confidence_level"]), MetricFacts.from_dict(data["metric"])
            return cls(rates, other, values, low, high, level, metric)

    def to_frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per pair of rates, with the columns rate, validation_rate, value, low and high.
        """
        rate, other = (grid.ravel() for grid in np.meshgrid(self.rates, self.validation_rates, indexing="ij"))
        tables = dict(zip(("value", "low", "high"), (getattr(self, name).ravel() for name in _TABLES), strict=True))
        return data_frame({"rate": rate, "validation_rate": other, **tables})

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, SensitivitySurface) else NotImplemented

    def __str__(self) -> str:
        head = (
            f"Corrected {self.metric.noun} by share of training records (down) and of held-out records (across) on the "
            "wrong side"
        )
        lines = [" " * 8 + "".join(f"{share:8.1%}" for share in self.validation_rates)]
        for rate, row in zip(self.rates, self.values, strict=True):
            lines.append(f"{rate:7.1%} " + "".join(f"{value:8.4f}" for value in row))
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        header = ("", *(f"{share:.1%}" for share in self.validation_rates))
        rows = [
            (
                f"{rate:.1%}",
                *(f"{value:.4f} ({low:.4f} to {high:.4f})" for value, low, high in zip(*cells, strict=True)),
            )
            for rate, *cells in zip(self.rates, self.values, self.low, self.high, strict=True)
        ]
        about = (
            f"Corrected {self.metric.noun} with {percent(self.confidence_level)} intervals, by share of training "
            "records (down) and of held-out records (across) on the wrong side"
        )
        return fragment(about, table(header, rows))

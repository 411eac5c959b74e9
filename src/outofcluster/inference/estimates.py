"""An estimate with its interval, and the corrected value over leakage rates of one way or both, as they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array, check_vector
from outofcluster._base.plain import PlainData, data_frame
from outofcluster._base.text import Markup, band, fragment, percentage, span, table
from outofcluster.metrics.facts import SOME_LOSS, MetricFacts

_ARRAYS = ("rates", "values", "low", "high")
_MOST_DECIMALS = 12
# Rates of a sensitivity that are printed.
_SHOWN = 11


@dataclass(frozen=True)
class Estimate(PlainData, what="an estimate"):
    """A value with its interval, and the standard errors it comes from.

    Attributes
    ----------
    value : float
        The estimate.
    interval : tuple of float
        Interval at ``confidence_level``, within the range of the loss or metric.
    se_monte_carlo : float
        Standard error from finitely many fits.
    se_data : float
        Standard error from having these records and clusters, from the choice between curves, and from the
        leakage rate where that is uncertain.
    confidence_level : float
        Confidence level of the interval.

    Examples
    --------
    >>> from outofcluster import Estimate
    >>> print(Estimate(0.3817, (0.31, 0.46), se_monte_carlo=0.004, se_data=0.036))
    0.3817 (0.3100 to 0.4600)
    """

    value: float
    interval: tuple[float, float]
    se_monte_carlo: float
    se_data: float
    confidence_level: float = 0.95

    def shown_as(self, metric: MetricFacts) -> Self:
        """The same estimate of a loss, or of a difference of losses, in the metric's own sign.

        Parameters
        ----------
        metric : MetricFacts
            What is measured.

        Returns
        -------
        Estimate
        """
        return replace(self, value=metric.shown(self.value), interval=metric.shown_interval(*self.interval))

    def to_frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row with the columns value, low, high, se_monte_carlo, se_data and confidence_level.
        """
        return data_frame([self.columns])

    @property
    def columns(self) -> dict[str, float]:
        """The numbers as one row of a table."""
        low, high = self.interval
        named = {"value": self.value, "low": low, "high": high, "se_monte_carlo": self.se_monte_carlo}
        return named | {"se_data": self.se_data, "confidence_level": self.confidence_level}

    def __str__(self) -> str:
        value, interval = _in_words(self, decimals(self))
        return f"{value} ({interval})"

    def _repr_html_(self) -> str:
        return fragment(estimates_table({"estimate": self}))


@dataclass(frozen=True, eq=False)
class Sensitivity(PlainData, what="a sensitivity"):
    """The corrected loss or metric over a range of leakage rates; each rate is taken as known.

    Attributes
    ----------
    rates, values : array
        Leakage rates, and the corrected value at each of them, in the metric's own sign.
    low, high : array
        Ends of the intervals.
    confidence_level : float
        Confidence level of the intervals.
    error_model : str
        How clustering errors happen, which decides what the rates are shares of.
    metric : MetricFacts
        What is measured.

    Examples
    --------
    >>> from outofcluster import Sensitivity
    >>> print(Sensitivity([0, 0.1], [0.31, 0.34], [0.28, 0.29], [0.34, 0.39]))
    Corrected loss by leakage rate, with 95 % intervals
         0 %  0.3100 (0.2800 to 0.3400)
        10 %  0.3400 (0.2900 to 0.3900)
    """

    rates: Array
    values: Array
    low: Array
    high: Array
    confidence_level: float = 0.95
    error_model: str = "records"
    metric: MetricFacts = SOME_LOSS

    @property
    def loss(self) -> str:
        """Name of the loss or metric."""
        return self.metric.name

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))

    def __read__(self) -> Self:
        check_vector("rates", self.rates)
        if any(getattr(self, name).shape != self.rates.shape for name in _ARRAYS):
            raise ValueError("its lists differ in length")
        return self

    def to_frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per rate, with the columns rate, value, low and high.
        """
        return data_frame({"rate": self.rates, "value": self.values, "low": self.low, "high": self.high})

    def plot(self, ax: Any = None) -> Any:
        """Draw the corrected value over the rates; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SensitivityDisplay
        """
        from outofcluster.present.display import SensitivityDisplay

        return SensitivityDisplay.from_sensitivity(self).plot(ax)

    def __str__(self) -> str:
        head = f"Corrected {self.metric.noun} by leakage rate, with {percentage(self.confidence_level)} intervals"
        return "\n".join([head, *(f"  {percentage(rate):>6}  {estimate}" for rate, estimate in self._shown)])

    def _repr_html_(self) -> str:
        rows = [(percentage(rate), *_in_words(estimate, decimals(estimate))) for rate, estimate in self._shown]
        header = ("leakage rate", f"corrected {self.metric.noun}", f"{percentage(self.confidence_level)} interval")
        return fragment(self.drawing, table(header, rows))

    @property
    def drawing(self) -> Markup:
        """The corrected value within its intervals, as a line within a band (SVG)."""
        level = percentage(self.confidence_level)
        described = f"Corrected {self.metric.noun} by leakage rate, within its {level} intervals"
        return band(self.rates, self.values, self.low, self.high, described)

    @property
    def _shown(self) -> list[tuple[float, Estimate]]:
        """A few of the rates, both ends among them."""
        count = len(self.rates)
        some = np.unique(np.linspace(0, count - 1, min(count, _SHOWN)).round().astype(int))
        rows = zip(*(getattr(self, name)[some] for name in _ARRAYS), strict=True)
        return [(float(rate), Estimate(value, (low, high), math.nan, math.nan)) for rate, value, low, high in rows]


def chance_in_words(chance: float) -> str:
    """A chance as a percentage: whole ones in the middle, and bounds at both ends."""
    if not math.isfinite(chance):
        return "not known"
    if 0 < chance < 0.005:
        return "below 0.5 %"
    if 0.995 < chance < 1:
        return "above 99.5 %"
    return percentage(round(chance, 2))


def decimals(*estimates: Estimate) -> int:
    """Decimals that suit the narrowest interval: four for most losses, else three digits of its width."""
    widths = [high - low for low, high in (estimate.interval for estimate in estimates)]
    known = [width for width in widths if 0 < width < math.inf]
    needed = 2 - math.floor(math.log10(min(known))) if known else 4
    return 4 if 2 <= needed <= 4 else min(max(needed, 0), _MOST_DECIMALS)


def fixed(value: float, digits: int) -> str:
    """A number with so many decimals and a true minus sign; no sign where it is zero once rounded."""
    written = f"{value:.{digits}f}"
    return written.lstrip("-") if float(written) == 0 else written.replace("-", "−")


def between(estimate: Estimate, digits: int) -> str:
    """The interval in words; it has more decimals where it would be one from 0 to 0."""
    low, high = estimate.interval
    farthest = max(abs(low), abs(high))
    while digits < _MOST_DECIMALS and farthest > 0 and float(f"{farthest:.{digits}f}") == 0:
        digits += 1
    return f"{fixed(low, digits)} to {fixed(high, digits)}" if math.isfinite(low + high) else "interval unknown"


def _in_words(estimate: Estimate, digits: int) -> tuple[str, str]:
    """The value and the interval, as they stand in a row of a table."""
    return fixed(estimate.value, digits), between(estimate, digits)


def estimates_table(
    named: Mapping[str, Estimate], label: str = "loss", *, apart: Mapping[str, Estimate] | None = None
) -> Markup:
    """Estimates as a table, with their intervals drawn on one axis; the last of several in another colour.

    Those of ``apart`` are of another size, such as differences, and have rows without a drawing.
    """
    digits = decimals(*named.values())
    known = [end for estimate in named.values() for end in (*estimate.interval, estimate.value) if math.isfinite(end)]
    ends = (min(known), max(known)) if known else (math.nan, math.nan)
    rows = []
    for number, (name, estimate) in enumerate(named.items(), start=1):
        drawn = span(estimate.value, *estimate.interval, ends, accent=1 < number == len(named))
        rows.append((name, *_in_words(estimate, digits), drawn))
    rows += [(name, *_in_words(estimate, digits), Markup("")) for name, estimate in (apart or {}).items()]
    level = next(iter(named.values())).confidence_level
    return table(("", label, f"{percentage(level)} interval", ""), rows)


_TABLES = ("values", "low", "high")
_BY_SHARES = "by share of training records (down) and of held-out records (across) on the wrong side"


@dataclass(frozen=True, eq=False)
class SensitivitySurface(PlainData, what="a sensitivity surface"):
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
                0 %    20 %
       0 %   0.3000  0.3200
      10 %   0.3400  0.3700
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

    def __read__(self) -> Self:
        shape = tuple(len(check_vector(name, getattr(self, name))) for name in ("rates", "validation_rates"))
        if any(getattr(self, name).shape != shape for name in _TABLES):
            raise ValueError("its tables do not have one row per rate")
        return self

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

    def __str__(self) -> str:
        lines = [
            f"Corrected {self.metric.noun} {_BY_SHARES}",
            " " * 8 + "".join(f"{percentage(share):>8}" for share in self.validation_rates),
        ]
        for rate, row in zip(self.rates, self.values, strict=True):
            lines.append(f"{percentage(rate):>7} " + "".join(f"{value:8.4f}" for value in row))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        header = ("", *(percentage(share) for share in self.validation_rates))
        rows = []
        for rate, *cells in zip(self.rates, self.values, self.low, self.high, strict=True):
            written = [f"{value:.4f} ({low:.4f} to {high:.4f})" for value, low, high in zip(*cells, strict=True)]
            rows.append((percentage(rate), *written))
        about = f"Corrected {self.metric.noun} with {percentage(self.confidence_level)} intervals, {_BY_SHARES}"
        return fragment(about, table(header, rows))

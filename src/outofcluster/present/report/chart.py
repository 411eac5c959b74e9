"""From numbers to the coordinates of an SVG picture, with round ticks.

Everything here is plain data, and the template draws it. Every picture has two sizes, one for wide and one for narrow
screens, so that its text can be read on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from outofcluster._base.arguments import Array
from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import fixed
from outofcluster.present.display.unmixing import UnmixingDisplay, shown_fractions

SIZES = (("wide", 720, 364), ("narrow", 360, 334))
_RIGHT, _BOTTOM = 16, 54
_ENDS = ((0.2, 0.3), (0.5, 0.5), (1.0, 0.9))
"""Assumed rates up to which the slider ends at the rate beside them."""


@dataclass(frozen=True)
class Tick:
    """A place on an axis and what is written there."""

    at: float
    label: str


@dataclass(frozen=True)
class Frame:
    """Axes of a picture in pixels.

    Attributes
    ----------
    name : str
        "wide" or "narrow".
    width, height : int
        Size of the whole picture.
    x_range, y_range : tuple of float
        Smallest and largest value on the axes.
    """

    name: str
    width: int
    height: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    left: ClassVar[int] = 58
    top: ClassVar[int] = 28

    @property
    def right(self) -> int:
        """Right end of the x axis."""
        return self.width - _RIGHT

    @property
    def bottom(self) -> int:
        """Lower end of the y axis."""
        return self.height - _BOTTOM

    def x(self, value: float) -> float:
        """Where a value lies, from the left."""
        low, high = self.x_range
        return round(self.left + (self.right - self.left) * (value - low) / (high - low), 1)

    def y(self, value: float) -> float:
        """Where a value lies, from the top."""
        low, high = self.y_range
        return round(self.bottom - (self.bottom - self.top) * (value - low) / (high - low), 1)

    def line(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        """The points of a polyline; points that are not finite are left out."""
        points = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x) and math.isfinite(y)]
        return " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)

    @property
    def x_ticks(self) -> list[Tick]:
        """Round shares, as percentages."""
        values = _round_values(*self.x_range, 7 if self.name == "wide" else 4)
        return [Tick(self.x(value), f"{round(100 * value, 6):g} %".replace("-", "−")) for value in values]

    @property
    def y_ticks(self) -> list[Tick]:
        """Round values."""
        values = _round_values(*self.y_range, 5)
        step = values[1] - values[0] if len(values) > 1 else 1.0
        # A step of 0.25 needs two decimals, one of 0.2 needs one.
        digits = next((digits for digits in range(9) if math.isclose(round(step, digits), step, rel_tol=1e-6)), 8)
        return [Tick(self.y(value), fixed(value, digits)) for value in values]


def _round_values(low: float, high: float, about: int) -> list[float]:
    """Some multiples of 1, 2, 2.5 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    reach = share * (high - low) or max(abs(high) * share, 1e-6)
    return low - reach, high + reach


def _frames(x_range: tuple[float, float], y_range: tuple[float, float]) -> list[Frame]:
    return [Frame(name, width, height, x_range, y_range) for name, width, height in SIZES]


# --- the curve --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurveChart:
    """The loss by leakage, in one size."""

    frame: Frame
    seen: str
    extrapolated: str
    first: float
    points: list[tuple[float, float, float, float]]
    naive: tuple[float, float]
    corrected: tuple[float, float] | None
    interval: tuple[float, float] | None


def curve_chart(summary: Summary) -> list[CurveChart]:
    """The measured losses and the curve through them, both moved as in `LossCurveDisplay`."""
    curve, corrected = summary.curve, summary.corrected
    levels = np.array(summary.levels if curve is None else curve.at)
    losses = np.array(summary.losses if curve is None else curve.observed)
    moved = summary.naive.value - losses[0]
    if curve is not None and corrected is not None:
        moved = corrected.value - curve.loss[0]
    errors = np.nan_to_num(ndtri(0.5 + summary.confidence_level / 2) * np.array(summary.standard_errors))
    low, high = losses + moved - errors, losses + moved + errors
    p, fitted = (np.array([]), np.array([])) if curve is None else (np.array(curve.p), np.array(curve.loss) + moved)
    ends = [] if corrected is None else [corrected.value, *corrected.interval]
    y_range = _padded([*low, *high, *fitted, summary.naive.value, *ends])
    first = float(levels.min())
    at_first = float(np.interp(first, p, fitted)) if len(p) else math.nan
    drawn = []
    for frame in _frames((0.0, float(levels.max()) * 1.02), y_range):
        known = corrected is not None and math.isfinite(sum(corrected.interval))
        drawn.append(
            CurveChart(
                frame=frame,
                seen=frame.line([first, *p[p > first]], [at_first, *fitted[p > first]])
                if len(p)
                else frame.line(levels, losses + moved),
                extrapolated=frame.line([*p[p < first], first], [*fitted[p < first], at_first]) if len(p) else "",
                first=frame.x(first),
                points=[
                    (frame.x(a), frame.y(b), frame.y(bottom), frame.y(top))
                    for a, b, bottom, top in zip(levels, losses + moved, low, high, strict=True)
                ],
                naive=(frame.x(summary.rate or 0.0), frame.y(summary.naive.value)),
                corrected=None if corrected is None else (frame.x(0), frame.y(corrected.value)),
                interval=(frame.y(corrected.interval[0]), frame.y(corrected.interval[1]))
                if known and corrected is not None
                else None,
            )
        )
    return drawn


# --- below the leakage rate -------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnmixingChart:
    """The loss by injected fraction, from negative to positive, in one size."""

    frame: Frame
    zero: float
    left_out: list[tuple[float, float, float, float]]
    injected: list[tuple[float, float, float, float]]
    joined: str
    seen: str
    extrapolated: str
    naive: tuple[float, float]
    corrected: tuple[float, float] | None
    interval: tuple[float, float] | None


def unmixing_chart(summary: Summary) -> list[UnmixingChart]:
    """What `UnmixingDisplay` draws; empty where nothing was measured below the leakage rate."""
    if summary.unmixed is None:
        return []
    display = UnmixingDisplay.from_audit(summary)
    corrected, clean = display.corrected, display.clean
    start, stop = shown_fractions(clean, display.fractions)
    inside = (display.fractions >= start - 1e-12) & (display.fractions <= stop + 1e-12)
    fractions, losses = display.fractions[inside], display.losses[inside]
    reach = np.nan_to_num(ndtri(0.5 + summary.confidence_level / 2) * display.standard_errors[inside])
    low, high = losses - reach, losses + reach
    grids = [np.zeros(0), np.zeros(0)]
    if clean is not None:
        grids = [np.linspace(clean, 0, 41), np.linspace(0, float(fractions.max()), 41)]
    curves = [
        np.interp(grid, display.extrapolated_fractions, display.extrapolated_losses) for grid in grids if len(grid)
    ]
    ends = [] if corrected is None else [corrected.value, *corrected.interval]
    y_range = _padded([*low, *high, *(value for curve in curves for value in curve), *ends])
    known = corrected is not None and math.isfinite(sum(corrected.interval))
    left = fractions <= 0

    def points(frame: Frame, which: NDArray[np.bool_]) -> list[tuple[float, float, float, float]]:
        rows = zip(fractions[which], losses[which], low[which], high[which], strict=True)
        return [(frame.x(a), frame.y(b), frame.y(bottom), frame.y(top)) for a, b, bottom, top in rows]

    return [
        UnmixingChart(
            frame=frame,
            zero=frame.x(0.0),
            left_out=points(frame, fractions < 0),
            injected=points(frame, fractions > 0),
            joined=frame.line(fractions[left], losses[left]),
            extrapolated=frame.line(grids[0], curves[0]) if curves else "",
            seen=frame.line(grids[1], curves[1]) if curves else frame.line(fractions[~left], losses[~left]),
            naive=(frame.x(0.0), frame.y(summary.naive.value)),
            corrected=None if corrected is None or clean is None else (frame.x(clean), frame.y(corrected.value)),
            interval=(frame.y(corrected.interval[0]), frame.y(corrected.interval[1]))
            if known and corrected is not None
            else None,
        )
        for frame in _frames(
            _padded([min(float(fractions.min()), clean or 0.0), float(fractions.max())], 0.03), y_range
        )
    ]


# --- sensitivity ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SensitivityChart:
    """The corrected loss by leakage rate, in one size."""

    frame: Frame
    band: str
    line: str
    naive: float


def slider_end(summary: Summary) -> float:
    """The highest rate of the slider: 30 %, because little can be told beyond, and more if the assumed rate is high."""
    return next(end for most, end in _ENDS if (summary.rate or 0.0) <= most)


def sensitivity_chart(summary: Summary) -> list[SensitivityChart]:
    """The corrected loss and its interval; ends that lie far outside the rest are cut off at the edge."""
    over = summary.sensitivity
    if over is None:
        return []
    shown = over.rates <= slider_end(summary) + 1e-9
    rates, values, low, high = (part[shown] for part in (over.rates, over.values, over.low, over.high))
    width = summary.naive.interval[1] - summary.naive.interval[0]
    reach = 1.5 * width if math.isfinite(width) and width > 0 else math.inf
    inside: list[Array] = [np.maximum(low, values.min() - reach), np.minimum(high, values.max() + reach)]
    drawn = []
    for frame in _frames((0.0, slider_end(summary)), _padded([*values, *inside[0], *inside[1], summary.naive.value])):
        around = np.isfinite(low + high).all()
        band = frame.line([*rates, *rates[::-1]], [*low, *high[::-1]]) if around else ""
        drawn.append(SensitivityChart(frame, band, frame.line(rates, values), frame.y(summary.naive.value)))
    return drawn


# --- intervals --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """An interval and its value, in hundredths of the width that all rows share, and the ends of that width."""

    value: float
    low: float
    high: float
    ends: tuple[float, float] = (0.0, 1.0)


def interval_chart(rows: Sequence[tuple[float, tuple[float, float]]]) -> list[Span | None]:
    """Values with their intervals on one axis; None where an interval is not known."""
    known = [number for value, ends in rows for number in (value, *ends) if math.isfinite(number)]
    low, high = _padded(known)

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    return [
        Span(place(value), place(ends[0]), place(ends[1]), (low, high)) if math.isfinite(value + sum(ends)) else None
        for value, ends in rows
    ]

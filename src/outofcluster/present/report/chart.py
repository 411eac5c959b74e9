"""From numbers to the coordinates of an SVG picture, with round ticks.

Everything here is plain data, and the template draws it. Every picture has two sizes, one for wide and one for narrow
screens, so that its text can be read on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from outofcluster._base.arguments import Array
from outofcluster._base.text import percentage
from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import Estimate, fixed
from outofcluster.present.display.by_leakage import LossCurveDisplay, UnmixingDisplay

SIZES = (("wide", 720, 364), ("narrow", 360, 334))
_RIGHT, _BOTTOM = 16, 54
# Assumed rates up to which the slider ends at the rate beside them.
_ENDS = ((0.2, 0.3), (0.5, 0.5), (1.0, 0.9))


# The smallest and the largest value on an axis.
Range = tuple[float, float]
# Positions on an axis, and what is written there.
Ticks = list[tuple[float, str]]


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
    x_range: Range
    y_range: Range

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
    def x_ticks(self) -> Ticks:
        """Round shares, as percentages."""
        values = _round_values(*self.x_range, 7 if self.name == "wide" else 4)
        return [(self.x(value), percentage(value, 6)) for value in values]

    @property
    def y_ticks(self) -> Ticks:
        """Round values."""
        values = _round_values(*self.y_range, 5)
        step = values[1] - values[0] if len(values) > 1 else 1.0
        # A step of 0.25 needs two decimals, one of 0.2 needs one.
        digits = next((digits for digits in range(9) if math.isclose(round(step, digits), step, rel_tol=1e-6)), 8)
        return [(self.y(value), fixed(value, digits)) for value in values]


def _round_values(low: float, high: float, about: int) -> list[float]:
    """Some multiples of 1, 2, 2.5 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _padded(values: Sequence[float], share: float = 0.06) -> Range:
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    reach = share * (high - low) or max(abs(high) * share, 1e-6)
    return low - reach, high + reach


def _frames(x_range: Range, y_range: Range) -> list[Frame]:
    return [Frame(name, width, height, x_range, y_range) for name, width, height in SIZES]


# --- losses by leakage ------------------------------------------------------------------------------------

# Positions along the horizontal axis, and losses there.
Curve = tuple[Sequence[float] | Array, Sequence[float] | Array]

# The curve below the leakage that was measured, and the curve above.
Curves = Sequence[Curve]

_NO_CURVE: Curve = ((), ())

# Positions of measured losses, these losses, and their standard errors.
Measured = tuple[Array, Array, Array]

# Measured losses: their positions, and the lower and the upper ends of their error bars.
Points = list[tuple[float, float, float, float]]


@dataclass(frozen=True)
class LossChart:
    """Measured losses and the curve through them, in one size; left of ``edge`` there is less leakage than measured."""

    frame: Frame
    edge: float
    points: Points
    left_out: Points
    joined: str
    seen: str
    extrapolated: str
    naive: tuple[float, float]
    corrected: tuple[float, float] | None
    interval: tuple[float, float] | None


def curve_chart(summary: Summary) -> list[LossChart]:
    """What `LossCurveDisplay` draws."""
    display = LossCurveDisplay.from_audit(summary)
    levels, losses = display.levels, display.losses + display.shift
    curves = display.curve_parts() if len(display.curve_levels) else (_NO_CURVE, (levels, losses))
    measured, ends = (levels, losses, display.standard_errors), (0.0, float(levels.max()) * 1.02)
    edge, rate = float(levels.min()), summary.rate or 0.0
    return _loss_charts(summary, ends, measured, curves, edge=edge, rate=rate, clean=0.0)


def unmixing_chart(summary: Summary) -> list[LossChart]:
    """What `UnmixingDisplay` draws; empty where nothing was measured below the leakage rate."""
    if summary.unmixed is None:
        return []
    display = UnmixingDisplay.from_audit(summary).shown()
    right = display.fractions > 0
    curves = display.curve_parts(41) or (_NO_CURVE, (display.fractions[right], display.losses[right]))
    away = display.fractions != 0  # At 0 stands the user's own model, which is drawn as such.
    measured = (display.fractions[away], display.losses[away], display.standard_errors[away])
    ends = _padded(display.ends, 0.03)
    return _loss_charts(summary, ends, measured, curves, edge=0.0, rate=0.0, clean=display.clean)


def _loss_charts(
    summary: Summary, ends: Range, measured: Measured, curves: Curves, *, edge: float, rate: float, clean: float | None
) -> list[LossChart]:
    """The charts of all sizes; ``rate`` and ``clean`` are the positions of the leakage that is there, and of none."""
    (x, losses, errors), (extrapolated, seen) = measured, curves
    reach = np.nan_to_num(ndtri(0.5 + summary.confidence_level / 2) * errors)
    low, high = losses - reach, losses + reach
    naive, corrected = summary.naive.value, None if clean is None else summary.corrected
    answer = [] if corrected is None else [corrected.value, *corrected.interval]
    y_range = _padded([*low, *high, *extrapolated[1], *seen[1], naive, *answer])
    left = x < 0

    def chart(frame: Frame) -> LossChart:
        rows = zip(x, losses, low, high, strict=True)
        points = [(frame.x(a), frame.y(loss), frame.y(bottom), frame.y(top)) for a, loss, bottom, top in rows]
        return LossChart(
            frame=frame,
            edge=frame.x(edge),
            points=[point for point, below in zip(points, left, strict=True) if not below],
            left_out=[point for point, below in zip(points, left, strict=True) if below],
            joined=frame.line([*x[left], rate], [*losses[left], naive]) if left.any() else "",
            seen=frame.line(*seen),
            extrapolated=frame.line(*extrapolated),
            naive=(frame.x(rate), frame.y(naive)),
            corrected=(frame.x(clean), frame.y(answer[0])) if clean is not None and answer else None,
            interval=(frame.y(answer[1]), frame.y(answer[2])) if answer and math.isfinite(sum(answer)) else None,
        )

    return [chart(frame) for frame in _frames(ends, y_range)]


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
    inside = [*np.maximum(low, values.min() - reach), *np.minimum(high, values.max() + reach)]
    around = ([*rates, *rates[::-1]], [*low, *high[::-1]]) if np.isfinite(low + high).all() else _NO_CURVE
    naive = summary.naive.value
    return [
        SensitivityChart(frame, frame.line(*around), frame.line(rates, values), frame.y(naive))
        for frame in _frames((0.0, slider_end(summary)), _padded([*values, *inside, naive]))
    ]


# --- intervals --------------------------------------------------------------------------------------------


def interval_chart(estimates: Sequence[Estimate]) -> list[dict[str, Any] | None]:
    """Values with their intervals in hundredths of one axis, and its ends; None where an interval is not known."""
    rows = [(estimate.value, *estimate.interval) for estimate in estimates]
    low, high = _padded([number for row in rows for number in row])
    placed = np.round(100 * (np.array(rows) - low) / (high - low), 2).tolist()
    return [
        {"value": value, "low": left, "high": right, "ends": (low, high)} if math.isfinite(left + right) else None
        for value, left, right in placed
    ]

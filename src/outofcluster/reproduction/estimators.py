"""The estimators compared: the paper's with its hand-set parameters, and the package's own default.

*IID* is the loss over random splits, *LOCO* (naive) the loss at p0. *T4+mono*, *Sketch* and *Basis* are fitted as the
paper fitted them: all levels weighted alike, with the table's penalties per index, number of groups and degree.
Sketch is Section 5.2's, the first column alone and k groups of the others. The published code has k - 1 groups, the
first not alone; it is in the tables as *Sketch, published code*.

The default is what a user gets who sets nothing: its own levels, sizes of training sets, and weights.
"""

from __future__ import annotations

import math
from typing import Any

from outofcluster._base.exceptions import SolverError
from outofcluster.curves import AutoCurve, Curve, PolynomialCurve, SketchCurve, TrendFilterCurve
from outofcluster.design.automatic import least_size, placed_levels, placed_sizes
from outofcluster.design.extrapolation import Design, allocate
from outofcluster.reproduction.means import Means
from outofcluster.reproduction.parameters import LEAKAGE, Study
from outofcluster.sampling.fitting import one_blas_thread

__all__ = ["CURVES", "LABELS", "default_curve", "default_designs", "estimate", "fit", "paper_curves"]

LABELS = {
    "iid": "IID",
    "naive": "LOCO (naive)",
    "trend": "T4+mono",
    "sketch": "Sketch",
    "basis": "Basis",
    "default": "package default",
    "sketch_code": "Sketch, published code",
}
"""Every estimator by its name in print."""

CURVES = ("trend", "sketch", "basis", "default", "sketch_code")
"""Those that fit a curve."""


def paper_curves(study: Study) -> dict[str, Curve]:
    """The paper's estimators with its parameters for a study."""
    return {
        "trend": TrendFilterCurve(order=4, penalty=study.trend_penalty, scale="index"),
        "sketch": SketchCurve(n_groups=study.groups, penalty=study.sketch_penalty),
        "basis": PolynomialCurve(study.degree),
        "sketch_code": SketchCurve(n_groups=study.groups - 1, penalty=study.sketch_penalty, first_alone=False),
    }


def default_curve(study: Study) -> Curve:
    """The curve that ``audit`` takes when none is asked for."""
    return AutoCurve(1.0 if study.loss == "zero_one" else math.inf)


def default_designs(n: int, n_fits: int, *, y: Any = None, largest: float = 1.0) -> dict[int, Design]:
    """The sizes that ``audit`` takes when no method is asked for, the full one first, and the fits at their levels.

    ``y`` are the classes, where there are some.
    """
    levels, of_levels = placed_levels(largest)
    sizes, of_sizes = placed_sizes(n, least_size(y))
    fits = allocate(of_sizes, n_fits)
    return {size: Design(levels, allocate(of_levels, int(count))) for size, count in zip(sizes, fits, strict=True)}


def fit(curve: Curve, means: Means | tuple[Means, ...]) -> Curve | None:
    """Fit a curve at the paper's leakage rate; None where its solver fails.

    Losses of several sizes are for the default, which weighs them; the paper's methods weigh all levels alike.
    """
    try:
        with one_blas_thread():
            if isinstance(means, tuple):
                return curve.fit(means if len(means) > 1 else means[0], LEAKAGE)
            return curve.fit_points(means.levels(LEAKAGE), means.means, means.size)
    except SolverError:
        return None


def estimate(curve: Curve, means: Means | tuple[Means, ...]) -> float:
    """The estimate of e_0; NaN where the solver fails."""
    fitted = fit(curve, means)
    return math.nan if fitted is None else fitted.e0_

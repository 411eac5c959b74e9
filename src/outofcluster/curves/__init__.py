"""Curve methods: from losses b at levels p to the curve e_0, …, e_n. One file per method."""

from outofcluster.curves.auto import AutoCurve
from outofcluster.curves.base import Curve, Needs
from outofcluster.curves.basis import BasisCurve
from outofcluster.curves.bezier import Bezier
from outofcluster.curves.completely_monotone import CompletelyMonotoneCurve
from outofcluster.curves.least_squares import LeastSquaresCurve
from outofcluster.curves.polynomial import PolynomialCurve
from outofcluster.curves.sketch import SketchCurve
from outofcluster.curves.trend_filter import TrendFilterCurve

__all__ = [
    "AutoCurve",
    "BasisCurve",
    "Bezier",
    "CompletelyMonotoneCurve",
    "Curve",
    "LeastSquaresCurve",
    "Needs",
    "PolynomialCurve",
    "SketchCurve",
    "TrendFilterCurve",
]

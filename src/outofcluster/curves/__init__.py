"""Curve methods: from losses b at levels p to the curve e_0, …, e_n. One file per method."""

from outofcluster.curves.auto import AutoCurve
from outofcluster.curves.base import Bezier, Curve, Needs
from outofcluster.curves.monotone import CompletelyMonotoneCurve
from outofcluster.curves.paper.basis import BasisCurve, LeastSquaresCurve
from outofcluster.curves.paper.sketch import SketchCurve
from outofcluster.curves.paper.trend_filter import TrendFilterCurve
from outofcluster.curves.polynomial import PolynomialCurve

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

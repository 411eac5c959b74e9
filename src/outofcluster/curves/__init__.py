"""Curve methods: from losses b at levels p to the curve e_0, …, e_n. One file per kind of method."""

from outofcluster.curves.auto import AutoCurve
from outofcluster.curves.monotone import CompletelyMonotoneCurve
from outofcluster.curves.paper.basis import BasisCurve, LeastSquaresCurve, PolynomialCurve
from outofcluster.curves.paper.sketch import SketchCurve
from outofcluster.curves.paper.trend_filter import TrendFilterCurve

__all__ = [
    "AutoCurve",
    "BasisCurve",
    "CompletelyMonotoneCurve",
    "LeastSquaresCurve",
    "PolynomialCurve",
    "SketchCurve",
    "TrendFilterCurve",
]

"""Cross-validation on clustered records whose clusters are known only imperfectly."""

from outofcluster import datasets
from outofcluster.audit import audit
from outofcluster.binomial import BinomialOperator
from outofcluster.comparison import Comparison, compare
from outofcluster.curves import (
    AutoCurve,
    BasisCurve,
    CompletelyMonotoneCurve,
    LeastSquaresCurve,
    PolynomialCurve,
    SketchCurve,
    TrendFilterCurve,
)
from outofcluster.estimates import Estimate, Sensitivity
from outofcluster.leakage import Leakage
from outofcluster.leakage_test import LeakageTest, leakage_test
from outofcluster.results import Audit
from outofcluster.sampling import LossSamples, sample_losses
from outofcluster.shape import ShapeDiagnosis, diagnose_curve, diagnose_points
from outofcluster.split import simulate_leakage
from outofcluster.summary import Summary

__version__ = "0.1.0.dev0"

__all__ = [
    "Audit",
    "AutoCurve",
    "BasisCurve",
    "BinomialOperator",
    "Comparison",
    "CompletelyMonotoneCurve",
    "Estimate",
    "Leakage",
    "LeakageTest",
    "LeastSquaresCurve",
    "LossSamples",
    "PolynomialCurve",
    "Sensitivity",
    "ShapeDiagnosis",
    "SketchCurve",
    "Summary",
    "TrendFilterCurve",
    "__version__",
    "audit",
    "compare",
    "datasets",
    "diagnose_curve",
    "diagnose_points",
    "leakage_test",
    "sample_losses",
    "simulate_leakage",
]

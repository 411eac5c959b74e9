"""Cross-validation on clustered records whose clusters are known only imperfectly."""

from outofcluster.binomial import BinomialOperator
from outofcluster.curves import (
    BasisCurve,
    CompletelyMonotoneCurve,
    LeastSquaresCurve,
    PolynomialCurve,
    SketchCurve,
    TrendFilterCurve,
)
from outofcluster.sampling import LossSamples, sample_losses
from outofcluster.shape import ShapeDiagnosis, diagnose_curve, diagnose_points
from outofcluster.split import simulate_leakage

__version__ = "0.1.0.dev0"

__all__ = [
    "BasisCurve",
    "BinomialOperator",
    "CompletelyMonotoneCurve",
    "LeastSquaresCurve",
    "LossSamples",
    "PolynomialCurve",
    "ShapeDiagnosis",
    "SketchCurve",
    "TrendFilterCurve",
    "__version__",
    "diagnose_curve",
    "diagnose_points",
    "sample_losses",
    "simulate_leakage",
]

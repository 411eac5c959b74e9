"""Cross-validation on clustered records whose clusters are known only imperfectly."""

from outofcluster.binomial import BinomialOperator
from outofcluster.curves import (
    BasisCurve,
    CompletelyMonotoneCurve,
    LeastSquaresCurve,
    PolynomialCurve,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "BasisCurve",
    "BinomialOperator",
    "CompletelyMonotoneCurve",
    "LeastSquaresCurve",
    "PolynomialCurve",
    "__version__",
]

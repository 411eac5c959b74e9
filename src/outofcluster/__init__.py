"""Cross-validation on clustered records whose clusters are known only imperfectly."""

from outofcluster import datasets
from outofcluster._base.exceptions import (
    CheckpointWarning,
    FitError,
    InputError,
    MissingExtraError,
    NotFittedError,
    SolverError,
)
from outofcluster._base.version import __version__
from outofcluster.auditing.checklist import Checklist
from outofcluster.auditing.comparison import Comparison, Difference, compare
from outofcluster.auditing.effect_test import LeakageTest, leakage_test
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.planning import ClusterPlan, ReviewPlan, plan_clusters, plan_review
from outofcluster.auditing.price import Cost
from outofcluster.auditing.result import Audit
from outofcluster.auditing.run import audit, corrected_cross_validate
from outofcluster.auditing.spread import Spread
from outofcluster.auditing.subgroups import Subgroups
from outofcluster.auditing.summary import Summary
from outofcluster.auditing.sweep import Sweep, sweep
from outofcluster.auditing.tipping import TippingPoint
from outofcluster.curves.auto import AutoCurve
from outofcluster.curves.monotone import CompletelyMonotoneCurve
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.paper.basis import BasisCurve, LeastSquaresCurve, PolynomialCurve
from outofcluster.curves.paper.sketch import SketchCurve
from outofcluster.curves.paper.trend_filter import TrendFilterCurve
from outofcluster.curves.shape import ShapeDiagnosis, diagnose_curve, diagnose_points
from outofcluster.inference.estimates import Estimate, Sensitivity, SensitivitySurface
from outofcluster.leakage.blocking import capture_recapture
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.simulate import simulate_leakage
from outofcluster.sampling.sample import sample_losses
from outofcluster.sampling.samples import LossSamples

__all__ = [
    "Audit",
    "AutoCurve",
    "BasisCurve",
    "BinomialOperator",
    "Checklist",
    "CheckpointWarning",
    "ClusterPlan",
    "Comparison",
    "CompletelyMonotoneCurve",
    "Cost",
    "Difference",
    "Estimate",
    "Finding",
    "FitError",
    "InputError",
    "Leakage",
    "LeakageTest",
    "LeastSquaresCurve",
    "LossSamples",
    "MissingExtraError",
    "NotFittedError",
    "PolynomialCurve",
    "ReviewPlan",
    "Sensitivity",
    "SensitivitySurface",
    "ShapeDiagnosis",
    "SketchCurve",
    "SolverError",
    "Spread",
    "Subgroups",
    "Summary",
    "Sweep",
    "TippingPoint",
    "TrendFilterCurve",
    "__version__",
    "audit",
    "capture_recapture",
    "compare",
    "corrected_cross_validate",
    "datasets",
    "diagnose_curve",
    "diagnose_points",
    "leakage_test",
    "plan_clusters",
    "plan_review",
    "sample_losses",
    "simulate_leakage",
    "sweep",
]

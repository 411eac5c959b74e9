"""Pictures of results. Like scikit-learn's displays they have ``from_…``, ``.plot(ax=None)`` and ``.frame()``.

A display holds plain numbers, so it can be changed, kept and drawn again without the result. matplotlib is imported
when something is drawn, pandas when a frame is asked for, and nothing that computes imports this room. The colours are
those of Okabe and Ito, which readers of any colour vision can tell apart. Line styles and markers differ as well, so
that prints in grey show the same.
"""

from outofcluster.present.display.comparison import ComparisonDisplay
from outofcluster.present.display.folds import FoldsDisplay
from outofcluster.present.display.leakage_test import LeakageTestDisplay
from outofcluster.present.display.loss_curve import LossCurveDisplay
from outofcluster.present.display.loss_samples import LossSamplesDisplay
from outofcluster.present.display.sensitivity import SensitivityDisplay
from outofcluster.present.display.sweep import SweepDisplay
from outofcluster.present.display.unmixing import UnmixingDisplay

__all__ = [
    "ComparisonDisplay",
    "FoldsDisplay",
    "LeakageTestDisplay",
    "LossCurveDisplay",
    "LossSamplesDisplay",
    "SensitivityDisplay",
    "SweepDisplay",
    "UnmixingDisplay",
]

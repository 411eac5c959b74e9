"""Pictures of results, as scikit-learn's displays: ``from_audit``, ``.plot(ax=None)``, ``.frame()``.

A display holds plain numbers, so that it can be changed, kept and drawn again without the audit. matplotlib is
imported when something is drawn, pandas when a frame is asked for, and nothing that computes imports this room.
Colours are those of Okabe and Ito, told apart by readers of any colour vision; line styles and markers say the
same, so that prints in grey do too.
"""

from outofcluster.present.display.comparison import ComparisonDisplay
from outofcluster.present.display.folds import FoldsDisplay
from outofcluster.present.display.loss_curve import LossCurveDisplay
from outofcluster.present.display.sensitivity import SensitivityDisplay

__all__ = ["ComparisonDisplay", "FoldsDisplay", "LossCurveDisplay", "SensitivityDisplay"]

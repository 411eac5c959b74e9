"""Pictures of results. Like scikit-learn's displays they have ``from_…``, ``.plot(ax=None)`` and ``.to_frame()``.

A display holds plain numbers, so it can be changed, kept and drawn again without the result. matplotlib is imported
when something is drawn, pandas when a frame is asked for, and nothing that computes imports this room. The colours are
those of Okabe and Ito, which readers of any colour vision can tell apart. Line styles and markers differ as well, so
that prints in grey show the same.
"""

from outofcluster.present.display.by_cluster import SpreadDisplay, SubgroupsDisplay
from outofcluster.present.display.by_leakage import (
    LossCurveDisplay,
    LossSamplesDisplay,
    SensitivityDisplay,
    UnmixingDisplay,
)
from outofcluster.present.display.side_by_side import (
    ComparisonDisplay,
    FoldsDisplay,
    LeakageTestDisplay,
    PlanDisplay,
    SweepDisplay,
)

__all__ = [
    "ComparisonDisplay",
    "FoldsDisplay",
    "LeakageTestDisplay",
    "LossCurveDisplay",
    "LossSamplesDisplay",
    "PlanDisplay",
    "SensitivityDisplay",
    "SpreadDisplay",
    "SubgroupsDisplay",
    "SweepDisplay",
    "UnmixingDisplay",
]

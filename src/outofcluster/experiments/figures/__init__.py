"""The figures of a reproduction, each drawn from a study's plain results and from nothing else."""

from outofcluster.experiments.figures.curves import draw_curves
from outofcluster.experiments.figures.errors import draw_errors
from outofcluster.experiments.figures.shape import draw_shape
from outofcluster.experiments.figures.style import check_matplotlib, rendered
from outofcluster.experiments.figures.timing import draw_scaling

__all__ = ["check_matplotlib", "draw_curves", "draw_errors", "draw_scaling", "draw_shape", "rendered"]

"""The figures of a reproduction, each drawn from a study's plain results and from nothing else."""

from outofcluster.reproduction.figures.curves import draw_curves
from outofcluster.reproduction.figures.errors import draw_errors
from outofcluster.reproduction.figures.shape import draw_shape
from outofcluster.reproduction.figures.style import check_matplotlib, rendered
from outofcluster.reproduction.figures.timing import draw_scaling

__all__ = ["check_matplotlib", "draw_curves", "draw_errors", "draw_scaling", "draw_shape", "rendered"]

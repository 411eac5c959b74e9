"""Compiled loops that draw, fit and score common linear models, for millions of small fits."""

from outofcluster.kernels._draw import draw_records
from outofcluster.kernels._find import find_kernel
from outofcluster.kernels._kernel import BlockResult, Kernel

__all__ = ["BlockResult", "Kernel", "draw_records", "find_kernel"]

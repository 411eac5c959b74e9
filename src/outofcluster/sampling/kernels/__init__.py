"""Compiled loops that draw, fit and score common linear models, for millions of small fits."""

from outofcluster.sampling.kernels._draw import draw_records
from outofcluster.sampling.kernels._find import find_kernel
from outofcluster.sampling.kernels._kernel import BlockResult, Kernel, Units
from outofcluster.sampling.kernels._worth import worth_compiling

__all__ = ["BlockResult", "Kernel", "Units", "draw_records", "find_kernel", "worth_compiling"]

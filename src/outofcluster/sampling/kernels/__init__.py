"""Compiled loops that draw, fit and score common linear models, for millions of small fits.

``kernel`` says which estimators have a loop and runs blocks of replicates; it and the draw in numpy (``draw``) do not
need a compiler. The loops do: ``replicate`` has what surrounds a fit, ``models`` the fits, ``algebra`` their linear
algebra, and ``compile`` how all of it is compiled.
"""

from outofcluster.sampling.kernels.draw import draw_records
from outofcluster.sampling.kernels.kernel import Kernel, Units, find_kernel, require_compiler, worth_compiling

__all__ = ["Kernel", "Units", "draw_records", "find_kernel", "require_compiler", "worth_compiling"]

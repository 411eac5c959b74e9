"""Whether a job is long enough for a kernel: from the job alone, since its bits must not depend on what is on disk.

Compiling a kernel takes as long as thousands of plain fits with scikit-learn, each of which takes about

    start + step · n · d

seconds for n records of d columns. The constants below were measured side by side on one core (numba 0.68,
scikit-learn 1.9): on another machine all of them are longer or shorter together. A job is long enough if its plain fits
take twice as long as compiling. The margin pays for the kernel's own time, and for a second worker, since workers share
the plain fits but not the compiling.
"""

from __future__ import annotations

_COMPILE = {"squared_hinge": 14.0, "logistic": 12.0, "least_squares": 10.0}
"""Seconds to compile the loop of a model."""
_PLAIN = {"squared_hinge": (1.8e-3, 5.5e-8), "logistic": (3.4e-3, 2e-8), "least_squares": (1.5e-3, 1.5e-8)}
"""Start and step of a plain fit, in seconds."""
_MARGIN = 2.0


def worth_compiling(model: str, n_fits: int, n_train: int, n_features: int) -> bool:
    """Whether the plain fits of a job take longer than compiling the kernel, with a margin.

    Examples
    --------
    >>> from outofcluster.sampling.kernels import worth_compiling
    >>> worth_compiling("squared_hinge", 3000, 800, 12), worth_compiling("squared_hinge", 60_000, 100, 12)
    (False, True)
    """
    start, step = _PLAIN[model]
    return n_fits * (start + step * n_train * n_features) > _MARGIN * _COMPILE[model]

r"""One draw of training records (Algorithm 1): n records of which a fraction a, on average, comes from V.

With replacement each record takes one uniform u: position ⌊u n_V / a⌋ of V where u < a, else position
⌊(u - a) n_T / (1 - a)⌋ of T. Without replacement, m is the number of the first n uniforms below a, moved into
[n - n_T, n_V]; then a partial Fisher-Yates shuffle takes m positions of V, and another n - m of T, one uniform each.
An attempt so uses n or 2n uniforms, whatever it draws, and attempt k of a stream starts at k times that many.

The draw in numpy is here; the compiled one (module ``replicate``) gives the same positions in the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Draws tried before a replicate fails, when none leaves a record to validate on and, in a classifier, two classes.
MAX_ATTEMPTS = 100

Positions = NDArray[np.int64]


def draw_records(
    rng: np.random.Generator, a: float, n_train: int, n_T: int, n_V: int, replace: bool
) -> tuple[Positions, Positions]:
    """Positions drawn from T and from V, by one attempt of the algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> draw_records(np.random.default_rng(0), 0.5, 4, 10, 10, True)
    (array([2]), array([5, 0, 0]))
    """
    u = rng.random(n_train)
    from_V = u < a
    if replace:
        v = (u[from_V] / a * n_V).astype(np.int64) if a > 0 else np.zeros(0, np.int64)
        t = ((u[~from_V] - a) / (1 - a) * n_T).astype(np.int64) if a < 1 else np.zeros(0, np.int64)
        return np.minimum(t, n_T - 1), np.minimum(v, n_V - 1)
    m = min(max(int(from_V.sum()), n_train - n_T), n_V)
    v = _shuffle(rng.random(m), n_V)
    return _shuffle(rng.random(n_train - m), n_T), v


def _shuffle(u: NDArray[np.float64], size: int) -> Positions:
    """The head of a Fisher-Yates shuffle of 0..size-1; positions not moved yet need no memory."""
    left = size - np.arange(len(u))
    targets = np.arange(len(u)) + np.minimum((u * left).astype(np.int64), left - 1)
    moved: dict[int, int] = {}
    drawn = np.empty(len(u), np.int64)
    for k, j in enumerate(targets.tolist()):
        drawn[k] = moved.get(j, j)
        moved[j] = moved.get(k, k)
    return drawn

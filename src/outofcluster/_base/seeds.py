"""The argument ``random_state``, in all the forms that scikit-learn's users know, as one seed."""

from __future__ import annotations

import numpy as np

from outofcluster._base.arguments import check_integer

RandomState = int | np.random.RandomState | np.random.Generator | None

_END = 2**32  # Every library takes a seed below this.


def seed_of(random_state: RandomState) -> int | None:
    """Turn an argument ``random_state`` into a seed.

    Examples
    --------
    >>> from outofcluster._base.seeds import seed_of
    >>> seed_of(7), seed_of(None)
    (7, None)
    >>> seed_of(np.random.default_rng(0)) == seed_of(np.random.default_rng(0))
    True
    """
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_END))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_END, dtype=np.int64))
    return check_integer("random_state", random_state, least=0)

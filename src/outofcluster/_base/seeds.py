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


class Seeds:
    """Streams of random numbers by name, all from one seed: another stream changes none of the others."""

    def __init__(self, entropy: int | None, n_folds: int) -> None:
        self._root = np.random.SeedSequence(entropy)
        self.own, self.random, self.effect, *self._folds = self._root.spawn(3 + n_folds)

    @property
    def entropy(self) -> str:
        """The seed of all streams, as text."""
        return str(self._root.entropy)

    def stream(self, name: str) -> np.random.SeedSequence:
        if name in ("own", "random", "effect"):
            return getattr(self, name)
        number = {"entities": 2, "training": 3, "train": 4}[name]
        return np.random.SeedSequence([*self._root.generate_state(4).tolist(), number])

    def fold(self, index: int, name: str) -> np.random.SeedSequence:
        number = {"sides": 1, "exchanged": 5}[name]
        return np.random.SeedSequence([*self._folds[index].generate_state(4).tolist(), number])

    def run(self, index: int, role: str, sizes=()) -> int:
        if role.startswith("exchanged"):
            states = self.fold(index, "exchanged").generate_state(1 + len(sizes), np.uint64)
            return int(states[0 if role == "exchanged" else 1 + sizes.index(role.removeprefix("exchanged, "))])
        states = self._folds[index].generate_state(4 + len(sizes), np.uint64)
        if role in sizes:
            return int(states[2 + sizes.index(role)])
        return int(
            states[{"main": 0, "second piece": 1, "unmixed": 2 + len(sizes), "without pieces": 3 + len(sizes)}[role]]
        )

"""The argument ``random_state``, in all the forms that scikit-learn's users know, as one seed; and named streams."""

from __future__ import annotations

import hashlib

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
    """Streams of random numbers by name, all from one seed: a further stream changes none of the others.

    Examples
    --------
    >>> from outofcluster._base.seeds import Seeds
    >>> Seeds(7).number("fold", 2, "main") == Seeds(7).number("fold", 2, "main")
    True
    >>> Seeds(7).number("fold", 2, "main") == Seeds(7).number("fold", 3, "main")
    False
    """

    def __init__(self, entropy: int | None, within: tuple[str | int, ...] = ()) -> None:
        self._entropy, self._within = np.random.SeedSequence(entropy).entropy, within

    @property
    def entropy(self) -> str:
        """The seed of all streams, as text."""
        return str(self._entropy)

    def stream(self, *names: str | int) -> np.random.SeedSequence:
        """The stream of this name, such as ("fold", 2, "sides")."""
        digest = hashlib.sha256("/".join(map(str, (*self._within, *names))).encode()).digest()
        key = tuple(int.from_bytes(digest[start : start + 4], "little") for start in range(0, 16, 4))
        return np.random.SeedSequence(self._entropy, spawn_key=key)

    def number(self, *names: str | int) -> int:
        """A seed as a number, from the stream of this name."""
        return int(self.stream(*names).generate_state(1, np.uint64)[0])

    def of_round(self, number: int) -> Seeds:
        """Streams of the same names for a further round of fits; those of the first round are these."""
        return self if number == 1 else Seeds(self._entropy, ("round", number))  # type: ignore[arg-type]

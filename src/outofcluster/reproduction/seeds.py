"""Seeds by name: every part has its own, whatever else is run and in whatever order."""

from __future__ import annotations

import hashlib

__all__ = ["seed_for"]


def seed_for(root: int, *words: object) -> int:
    """A seed of 63 bits out of the run's seed and the name of a part.

    Examples
    --------
    >>> seed_for(0, "heart", "paper", 3) != seed_for(0, "heart", "paper", 4)
    True
    """
    name = "/".join(map(str, (root, *words)))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1

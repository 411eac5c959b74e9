"""What a result was made with."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["machine", "versions"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "clarabel", "matplotlib", "cvxpy")


@cache
def versions() -> dict[str, str | None]:
    """Versions of Python, of this package and of what it stands on; None for what is not installed."""
    from outofcluster._base.version import __version__

    found: dict[str, str | None] = {"python": platform.python_version(), "outofcluster": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def machine() -> dict[str, str | int | None]:
    """What times depend on."""
    return {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()}

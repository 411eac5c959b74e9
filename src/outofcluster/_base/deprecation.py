"""Arguments and methods that have a better name now: the old one still works, and says what to write instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from outofcluster._base.exceptions import InputError

__all__ = ["old_names", "warn_renamed"]


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller of a public function that a name has changed.

    Parameters
    ----------
    old, new : str
        The name that was used, and the one to use.
    """
    # Three levels up: this function, the wrapper, and then the line that the user wrote.
    warnings.warn(f"{old} is now called {new}; the old name will go away.", DeprecationWarning, stacklevel=3)


def old_names(**renamed: str) -> Callable[[Callable[..., Any]], Any]:
    """Let a function accept old names of its keyword arguments, with a warning.

    Parameters
    ----------
    **renamed : str
        The new name of an argument by its old name.

    Returns
    -------
    decorator

    Examples
    --------
    >>> import warnings
    >>> from outofcluster._base.deprecation import old_names
    >>> @old_names(colour="color")
    ... def paint(*, color="red"):
    ...     return color
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     paint(colour="blue")
    'blue'
    >>> str(caught[0].message)
    'colour= is now called color=; the old name will go away.'
    """

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def accepting(*args: Any, **options: Any) -> Any:
            for old, new in renamed.items():
                if old in options:
                    if new in options:
                        raise InputError(f"{new} must be given once, got {new}= and its old name {old}= as well.")
                    warn_renamed(f"{old}=", f"{new}=")
                    options[new] = options.pop(old)
            return function(*args, **options)

        return accepting

    return decorate

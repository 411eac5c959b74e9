"""Every exception that the package raises on purpose, by the kind of problem.

Each message is one sentence that names the argument, its value and what is allowed. It is one line, whatever the values
and the errors of other packages that it quotes: `one_line` sees to that when an exception is made.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

# Characters of another package's message that ours quote.
_MOST = 300


def one_line(text: object, most: int | None = None) -> str:
    r"""A text on one line: whitespace becomes single spaces, and characters that cannot be printed are left out.

    Examples
    --------
    >>> from outofcluster._base.exceptions import one_line
    >>> one_line("Input contains NaN.\n\tLine two\x1b[0m")
    'Input contains NaN. Line two[0m'
    """
    words = " ".join("".join(c for c in str(text) if c.isprintable() or c.isspace()).split())
    return words if most is None or len(words) <= most else words[: most - 3] + "..."


def described(error: BaseException) -> str:
    """An error by its type and its message, on one line that ends with a full stop; ours by the message alone."""
    if isinstance(error, _OneLine):
        return str(error)
    try:
        message = one_line(error, _MOST).rstrip(".")
    except Exception:
        message = "its message cannot be read"
    end = "..." if len(message) == _MOST - 3 else "."
    return (f"{type(error).__name__}: {message}" if message else type(error).__name__) + end


def portable(error: Exception) -> Exception:
    """The error if another process can read it, else a plain one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return FitError(described(error))
    return error


class _OneLine(Exception):
    """An exception whose message is one line."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


class InputError(_OneLine, ValueError):
    """An argument is outside what is allowed; raised before any work is done."""


class CheckpointError(InputError):
    """A checkpoint that this run cannot go on from: of another problem, or no checkpoint at all."""


class NotFittedError(_OneLine, ValueError, AttributeError):
    """A fitted quantity was asked for before anything was fitted."""


class SolverError(_OneLine, RuntimeError):
    """A solver stopped without reaching its tolerance; its status is in the message."""


class MissingExtraError(_OneLine, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Say ``what`` needs a package that cannot be imported here, and which extra installs it."""
    try:
        yield
    except ImportError:
        raise MissingExtraError(f"{what}: pip install 'outofcluster[{extra}]'.") from None


class FitError(_OneLine, RuntimeError):
    """A model could not be fitted or scored; the message says where.

    Attributes
    ----------
    samples : LossSamples or None
        What was computed before the failure.
    """

    def __init__(self, message: object = "", samples: object = None) -> None:
        super().__init__(message)
        self.samples = samples


class CheckpointWarning(UserWarning):
    """Finished work cannot be kept, and the run goes on without; its result is the same."""

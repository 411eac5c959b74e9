"""Models that fail: what went wrong and where, and never another package's traceback.

A function that fits and scores models and is marked by `returns_failures` returns a `Failed` instead of raising, so
that the error of a model reaches the caller even where it cannot be sent from one process to another; `succeeded` then
raises a `FitError` that names the place. A worker process that is killed, for lack of memory as a rule, and work that
cannot be sent to one, become a `FitError` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pickle import PicklingError
from typing import Any

from outofcluster._base.exceptions import FitError, described, portable

__all__ = ["Failed", "lost_workers", "returns_failures", "succeeded"]


@dataclass(frozen=True)
class Failed:
    """What went wrong in a call."""

    error: Exception


def returns_failures(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which returns its errors.

    Parameters
    ----------
    function : callable
        A function of a module, which worker processes can import by its name.

    Returns
    -------
    callable
    """

    @wraps(function)
    def attempt(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            return Failed(portable(error))

    return attempt


def succeeded(results: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """The results, if no call has failed; otherwise a FitError that names the first one that did.

    Parameters
    ----------
    results : sequence
        What the calls returned.
    names : sequence of str
        Where each of them belongs, such as "fold 3".

    Returns
    -------
    list
    """
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Failed):
            raise FitError(f"The estimator failed in {name}: {described(result.error)}") from result.error
    return list(results)


@contextmanager
def lost_workers(doing: str, samples: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """Turn the loss of a worker process into a FitError.

    Parameters
    ----------
    doing : str
        What the workers were doing, in words that go on after "while".
    samples : callable, optional
        What was computed so far.
    """
    try:
        yield
    except BrokenExecutor as error:
        raise FitError(
            f"A worker process was lost while {doing}, as happens when memory runs out; try fewer workers by n_jobs.",
            samples(),
        ) from error
    except PicklingError as error:
        raise FitError(
            f"Work could not be sent to a worker process while {doing}, use n_jobs=1: {described(error)}", samples()
        ) from error

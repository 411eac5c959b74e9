"""Models that are fitted side by side: what fails is named, and never comes back as another package's traceback.

A call that fails returns a `Failed` instead of raising, so that the error of a model reaches the caller even where it
cannot be sent from one process to another. A worker process that is killed, for lack of memory as a rule, or work that
cannot be sent to one, becomes a `FitError` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

from outofcluster._base.exceptions import FitError, described, portable

__all__ = ["Failed", "in_parallel", "lost_workers"]


@dataclass(frozen=True)
class Failed:
    """What went wrong in a call."""

    error: Exception


@contextmanager
def lost_workers(doing: str, samples: Callable[[], Any] | None = None) -> Iterator[None]:
    """Turn the loss of a worker process into a FitError.

    Parameters
    ----------
    doing : str
        What the workers were doing, to end "A worker process was lost while".
    samples : callable, optional
        What was computed so far.
    """
    try:
        yield
    except BrokenExecutor as error:
        raise FitError(
            f"A worker process was lost while {doing}, as happens when memory runs out; try fewer workers by n_jobs.",
            None if samples is None else samples(),
        ) from error
    except PicklingError as error:
        raise FitError(
            f"Work could not be sent to a worker process while {doing}, use n_jobs=1: {described(error)}",
            None if samples is None else samples(),
        ) from error


def in_parallel(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], names: Sequence[str], n_jobs: int | None
) -> list[Any]:
    """The results of a function that fits and scores models, for several calls.

    Parameters
    ----------
    function : callable
        A function of a module, which worker processes can import.
    calls : sequence of tuple
        Its arguments.
    names : sequence of str
        Where each of the calls belongs, such as "fold 3".
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    list
        One result per call; the first call that fails raises a FitError.
    """
    from joblib import Parallel, delayed

    with lost_workers(f"models were fitted for {names[0]} and others"):
        results = Parallel(n_jobs=n_jobs)(delayed(_attempt)(function, call) for call in calls)
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Failed):
            raise FitError(f"The estimator failed in {name}: {described(result.error)}") from result.error
    return list(results)


def _attempt(function: Callable[..., Any], call: tuple[Any, ...]) -> Any:
    try:
        return function(*call)
    except Exception as error:
        return Failed(portable(error))

"""The price of an audit: what is about to be fitted, how far the fits have come, and what they took in the end.

Between the checks and the fits there is a moment for those who want to say something. Whatever is wrong with the input
has been refused by then, and nothing has been fitted yet. The command line shows its account of the table at this
moment, with an estimate of the time; so a refused command shows nothing but its sentence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from outofcluster._base.rows import take_rows
from outofcluster.auditing.fits import AuditPlan, RoundProgress, count_baselines
from outofcluster.errormodels.base import Choices
from outofcluster.inference.estimates import decimals
from outofcluster.problem.account import TableAccount
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task


@dataclass(frozen=True)
class Announcement:
    """What is about to be fitted.

    Attributes
    ----------
    task : Task
        The checked problem.
    fold : Fold
        One of the folds.
    account : TableAccount
        The account of the table.
    fits : int
        Models that will be fitted one by one.
    compiled_fits : int
        Models that a compiled kernel will fit, which is far faster.
    error_model : str
        The error model of an audit; empty for a test.
    cross_validations : float
        Cross-validations that these models amount to; 0 for a test.
    fixed : bool
        Whether these are all models; else further rounds may follow.
    """

    task: Task
    fold: Fold
    account: TableAccount
    fits: int
    compiled_fits: int = 0
    error_model: str = ""
    cross_validations: float = 0.0
    fixed: bool = True

    @classmethod
    def of(cls, task: Task, plan: AuditPlan, choices: Choices, account: TableAccount) -> Announcement:
        """What an audit is about to fit."""
        n_folds, fixed = len(plan.folds) + len(plan.left_out), choices.n_fits is not None or not choices.corrects
        fits = plan.budget + count_baselines(choices, n_folds, plan.n_measured)
        one_by_one, fold = fits - plan.compiled_fits, plan.folds[0].fold
        return cls(task, fold, account, one_by_one, plan.compiled_fits, choices.model.name, fits / n_folds, fixed)

    def seconds_per_fit(self) -> float:
        """Fit and score one model, as the audit will, and say how long it took; 0 where that fails."""
        from sklearn.base import clone

        task, train, held_out = self.task, self.fold.train, self.fold.validation
        if task.params:
            return 0.0
        start = time.perf_counter()
        try:
            model = clone(task.estimator).fit(take_rows(task.X, train), take_rows(task.y, train))
            model.predict(take_rows(task.X, held_out))
        except Exception:
            # What is wrong with the model is said by the audit, which knows better where it happened.
            return 0.0
        return time.perf_counter() - start


_listener: ContextVar[Callable[[Announcement], Any] | None] = ContextVar("listener", default=None)


@contextmanager
def before_fits(listener: Callable[[Announcement], Any]) -> Iterator[None]:
    """Call a function when the checks of the first audit or test within this context are done."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(make: Callable[[], Announcement]) -> None:
    """Tell the listener, if there is one, that the fits begin; it is told once."""
    listener = _listener.get()
    if listener is not None:
        _listener.set(None)
        listener(make())


def progress_of(result: Any, precision: float) -> RoundProgress:
    """How far an audit is from a precision: a Monte-Carlo standard error of the optimism, as a share of its own."""
    ratio, optimism = result.solution.imprecision / precision, result.optimism
    if ratio <= 1 or optimism is None:
        return RoundProgress(0.0)
    error, places = math.hypot(optimism.se_data, optimism.se_monte_carlo), decimals(optimism)
    levels = result.pooled.noisy_levels(result.solution.correction.estimate)
    return RoundProgress(ratio**2 - 1, levels, f"optimism {optimism.value:.{places}f} ± {error:.{places}f} so far")


@dataclass(frozen=True)
class Cost:
    """What an audit took.

    Attributes
    ----------
    fits : int
        Models that were fitted, baselines included.
    cross_validations : float
        Cross-validations with as many folds that these amount to.
    seconds : float or None
        How long the audit took; None for an audit from a file.

    Examples
    --------
    >>> from outofcluster import Cost
    >>> print(Cost(60, 12.0, 3.14))
    60 fits, as many as in 12 cross-validations, in 3.1 seconds
    """

    fits: int
    cross_validations: float
    seconds: float | None = None

    def __str__(self) -> str:
        took = "" if self.seconds is None else f", in {self.seconds:.{1 if self.seconds < 10 else 0}f} seconds"
        return f"{self.fits:,} fits, as many as in {self.cross_validations:.0f} cross-validations{took}"

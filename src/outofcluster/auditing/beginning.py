"""The moment between the checks of an audit and its fits, for those who want to say something at it.

Whatever is wrong with the input has been refused by then, and nothing has been fitted yet. The command line shows its
account of the table at this moment, with an estimate of the time; so a refused command shows nothing but its sentence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from outofcluster._base.rows import take_rows
from outofcluster.auditing.fits import AuditPlan, count_baselines
from outofcluster.errormodels.base import Choices
from outofcluster.problem.account import TableAccount
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task


@dataclass(frozen=True)
class Beginning:
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
    """

    task: Task
    fold: Fold
    account: TableAccount
    fits: int
    compiled_fits: int = 0

    @classmethod
    def of(cls, task: Task, plan: AuditPlan, choices: Choices, account: TableAccount) -> Beginning:
        """What an audit is about to fit."""
        fits = plan.budget - plan.compiled_fits + count_baselines(choices, len(plan.folds) + len(plan.left_out))
        return cls(task, plan.folds[0].fold, account, fits, plan.compiled_fits)

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


_listener: ContextVar[Callable[[Beginning], Any] | None] = ContextVar("listener", default=None)


@contextmanager
def before_fits(listener: Callable[[Beginning], Any]) -> Iterator[None]:
    """Call a function when the checks of the first audit or test within this context are done."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(make: Callable[[], Beginning]) -> None:
    """Tell the listener, if there is one, that the fits begin; it is told once."""
    listener = _listener.get()
    if listener is not None:
        _listener.set(None)
        listener(make())

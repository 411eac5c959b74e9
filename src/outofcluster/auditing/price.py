"""The price of an audit: what is about to be fitted, how far the fits have come, and what they took in the end.

Between the checks and the fits there is a moment for those who want to say something. Whatever is wrong with the input
has been refused by then, and nothing has been fitted yet. The command line shows its account of the table at this
moment; so a refused command shows nothing but its sentence. About how long all of it takes is said once the first
models are fitted, which the audit needs anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from outofcluster._base.text import Printed
from outofcluster.auditing.fits import AuditPlan, RoundProgress, count_baselines
from outofcluster.errormodels.base import Choices
from outofcluster.inference.estimates import decimals
from outofcluster.problem.account import TableAccount, estimator_in_words
from outofcluster.problem.problem import Task
from outofcluster.sampling.progress import Progress, time_in_words

# Seconds up to which an estimate says no more than that it is quick.
_QUICK = 10.0


@dataclass(frozen=True)
class Announcement:
    """What is about to be fitted.

    Attributes
    ----------
    task : Task
        The checked problem.
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
    finished : bool
        Whether a checkpoint holds all of them.
    """

    task: Task
    account: TableAccount
    fits: int
    compiled_fits: int = 0
    error_model: str = ""
    cross_validations: float = 0.0
    fixed: bool = True
    finished: bool = False

    @classmethod
    def of(
        cls, task: Task, plan: AuditPlan, choices: Choices, account: TableAccount, *, finished: bool = False
    ) -> Announcement:
        """What an audit is about to fit."""
        n_folds = len(plan.folds) + len(plan.left_out)
        fits = plan.budget + sum(count_baselines(choices, n_folds, plan.n_measured).values())
        one_by_one = fits - plan.compiled_fits
        cross_validations = fits / n_folds
        counted = (one_by_one, plan.compiled_fits, choices.model.name, cross_validations)
        return cls(task, account, *counted, choices.fixed, finished)

    def in_words(self, *, n_times: int = 1) -> str:
        """Which model is fitted how many times, at each of so many thresholds."""
        model = estimator_in_words(self.task.printed)
        if self.finished:
            return f"Model: {model}. All models are in the checkpoint, so that nothing will be fitted."
        words = f"{self.fits + self.compiled_fits:,} models will be fitted"
        words = words if self.fixed else f"At least {words}"
        if n_times > 1:
            words += f" at each of {n_times} thresholds"
        if self.cross_validations:
            words += f", as many as in {self.cross_validations:.0f} cross-validations"
        further = "" if self.fixed else "; rounds follow until more of them would hardly help"
        return f"Model: {model}. {words}{further}."


def time_they_take(seconds: float) -> str:
    """A sentence about how long the models that were announced will take."""
    return f"They take {'some seconds' if seconds < _QUICK else f'about {time_in_words(seconds)}'}."


# Told what is about to be fitted; gives what is to be told about the seconds that it takes.
Listener = Callable[[Announcement], Callable[[float], Any] | None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def before_fits(listener: Listener) -> Iterator[None]:
    """Call a function when the checks of the first audit or test within this context are done."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(make: Callable[[], Announcement], bar: Progress) -> None:
    """Tell the listener that the fits begin, once; where there is none, write it above the bar."""
    listener = _listener.get()
    if listener is None:
        if bar.wanted:
            bar.note(make().in_words())
            bar.when_known.append(lambda: bar.note(time_they_take(bar.seconds_left or 0.0)))
        return
    # Of several audits the first one is told of.
    _listener.set(lambda _: None)
    with bar.paused():
        tell_time = listener(make())
    if tell_time is not None:

        def tell() -> None:
            with bar.paused():
                tell_time(bar.seconds_left or 0.0)

        bar.when_known.append(tell)


def progress_of(result: Any, precision: float) -> RoundProgress:
    """How far an audit is from a precision: a Monte-Carlo standard error of the optimism, as a share of its own."""
    ratio, optimism = result.solution.imprecision / precision, result.optimism
    if optimism is None:
        return RoundProgress(0.0)
    error, places = math.hypot(optimism.se_data, optimism.se_monte_carlo), decimals(optimism)
    words = f"optimism {optimism.value:.{places}f} ± {error:.{places}f}"
    if ratio <= 1:
        return RoundProgress(0.0, words=words)
    levels = result.pooled.noisy_levels(result.solution.correction.estimate)
    return RoundProgress(ratio**2 - 1, levels, f"{words} so far")


@dataclass(frozen=True)
class Cost(Printed):
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

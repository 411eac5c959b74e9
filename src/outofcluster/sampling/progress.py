r"""How far the fits have come and how long the rest takes: a bar on a terminal or in a notebook, nothing elsewhere.

*The time that is left.* Fits are of several kinds k: the user's own models, those of the test for a cluster effect, and
so on. Of kind k, :math:`n_k` fits took their workers :math:`s_k` seconds together, and :math:`m_k` are to come. A
weight :math:`w_k` says beforehand how long such a fit takes, as a multiple of the user's own. With
:math:`c = \sum s_k / \sum w_k n_k` the seconds of a fit of weight 1, a fit of kind k is expected to take

.. math:: c_k = \frac{s_k + c\,w_k}{n_k + 1} ,

so that a kind of which nothing was fitted yet takes what its weight says, and others what they took. Workers and
whatever else is done between the fits make the clock run at another pace: after e seconds on the clock, with W workers,

.. math:: \text{left} = \frac{\sum m_k c_k}{v} , \qquad v = \frac{\sum s_k + 4 c W}{e + 4 c} .

At first v is W, the number of workers, and soon the pace that was seen. The first fit of every worker also loads what
the model needs. Where the next one took less than half as long, the first ones count as much as that one, and the pace
is watched from there on.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from outofcluster._base.exceptions import MissingExtraError

if TYPE_CHECKING:
    from rich import progress as rich_progress

# Fits per worker after which the pace on the clock counts as much as the number of workers.
_FITS_OF_A_PACE = 4.0
# Seconds that are not counted in words.
_SOME_SECONDS = 7.5
# The kind of fits that are not planned yet.
_FORESEEN = "further rounds"
# Seconds of a first fit from which on it says how long all take. A faster one may have loaded what the model needs.
_LONG_FIT = 2.0
# Seconds after which the line of a notebook is written over.
_SECONDS_BETWEEN_LINES = 0.3


@dataclass
class _Kind:
    """Fits that take about as long: how many are to come, how many were made, and their seconds."""

    weight: float
    to_come: int = 0
    made: int = 0
    seconds: float = 0.0


class TimeLeft:
    """The seconds that are left, by the formula in the head of this module.

    Parameters
    ----------
    workers : int
        Fits that run at once.
    clock : callable
        Gives seconds.
    """

    def __init__(self, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers, self._clock, self._kinds = workers, clock, dict[str, _Kind]()
        # Since when the pace on the clock is watched, and the seconds that fits had taken by then.
        self._began: float | None = None
        self._spent_before = 0.0
        self._first: list[tuple[_Kind, float]] | None = []
        # The time of the last estimate, and the seconds that were left then.
        self._estimate: tuple[float, float] | None = None

    def begin(self) -> None:
        """Start the clock."""
        if self._began is None:
            self._began = self._clock()

    def kind(self, name: str, weight: float = 1.0) -> _Kind:
        """The fits of a name; new ones with a weight."""
        return self._kinds.setdefault(name, _Kind(weight))

    @property
    def is_known(self) -> bool:
        """Whether enough was fitted to say how long the rest takes."""
        made = [each for each in self._kinds.values() if each.made]
        return sum(each.made for each in made) > 1 or any(each.seconds >= _LONG_FIT for each in made)

    def add(self, name: str, count: int, seconds: float) -> None:
        """Count fits that were made in so many seconds of their workers."""
        self.begin()
        kind = self.kind(name)
        if self._first is not None and len(self._first) < self._workers:
            self._first.append((kind, seconds / count))
        elif self._first is not None:
            self._forget_loading(self._first, seconds / count / kind.weight)
            self._first = None
        kind.to_come, kind.made, kind.seconds = max(kind.to_come - count, 0), kind.made + count, kind.seconds + seconds
        self._estimate = self._clock(), self._seconds_left()

    def _forget_loading(self, first: list[tuple[_Kind, float]], unit: float) -> None:
        """Take off what the first fit of every worker took beyond a later one, if that is more than half of it."""
        over = [max(seconds - unit * kind.weight, 0.0) for kind, seconds in first]
        if sum(over) > sum(seconds for _, seconds in first) / 2:
            for (kind, _), seconds in zip(first, over, strict=True):
                kind.seconds -= seconds
            self._began, self._spent_before = self._clock(), self._spent

    def _seconds_left(self) -> float:
        kinds, spent = self._kinds.values(), self._spent
        unit = spent / sum(each.weight * each.made for each in kinds)
        left = sum(each.to_come * (each.seconds + unit * each.weight) / (each.made + 1) for each in kinds)
        elapsed = self._clock() - (self._began or 0.0)
        soon = _FITS_OF_A_PACE * unit
        return left * (elapsed + soon) / (spent - self._spent_before + soon * self._workers) if spent > 0 else 0.0

    @property
    def _spent(self) -> float:
        return sum(each.seconds for each in self._kinds.values())

    @property
    def seconds(self) -> float | None:
        """The seconds that are left; None where that is not known yet. They run down while a fit takes its time."""
        if not self.is_known or self._estimate is None:
            return None
        then, left = self._estimate
        to_come = sum(each.to_come for each in self._kinds.values())
        # All fits but the one that is under way are left in any case.
        return max(left - (self._clock() - then), left * (1 - 1 / max(to_come, 1)))

    def settle(self) -> int:
        """Expect nothing more, and say how much that was."""
        to_come = sum(each.to_come for each in self._kinds.values())
        for each in self._kinds.values():
            each.to_come = 0
        self.expected()
        return to_come

    def expected(self) -> None:
        """Estimate anew, after more fits or fewer are to come."""
        if self._estimate is not None:
            self._estimate = self._clock(), self._seconds_left()


class Part:
    """The fits of one kind, for whoever makes them."""

    def __init__(self, bar: Progress, name: str) -> None:
        self._bar, self._name, self._made = bar, name, 0

    def add(self, count: int, seconds: float | None = None) -> None:
        """Report finished fits, and the seconds that they took their workers together; by default those since."""
        self._made += count
        self._bar.made(self._name, count, seconds)

    def skip(self, count: int) -> None:
        """Report fits that a checkpoint already holds: they do not count for the time that is left."""
        self._made += count
        self._bar.skipped(self._name, count)

    @contextmanager
    def counting(self, count: int) -> Iterator[Self]:
        """So many fits are made within this context; a checkpoint held those that are not, or nothing needs them."""
        before = self._made
        try:
            yield self
        finally:
            self.skip(max(count - (self._made - before), 0))


class Progress:
    """Counts the fits of one run or of several, and shows them while it is entered as a context.

    Parameters
    ----------
    total : int
        Number of fits of a single kind; those of several are announced by ``expect``.
    show : bool
        Whether a bar is wanted; it is shown on a terminal or in a notebook only.
    stream : file, optional
        Where the bar is written; standard error by default.
    workers : int
        Fits that run at once.
    clock : callable
        Gives seconds.
    """

    def __init__(
        self,
        total: int = 0,
        *,
        show: bool = True,
        stream: TextIO | None = None,
        workers: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.done, self.wanted = 0, 0, show
        # Whether more fits than are known may follow, and what is done once the time that is left is known.
        self.may_grow, self.when_known = False, list[Callable[[], None]]()
        self._left, self._clock, self._last = TimeLeft(workers, clock), clock, clock()
        self._stream = sys.stderr if stream is None else stream
        kind = _Line if _in_notebook() else _RichBar if self._stream.isatty() else None
        self._bar = kind(self, self._stream) if show and kind is not None else None
        self.expect(total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            # Where the input is refused, the sentence that says so is all that stays.
            self._bar.stop(leave=kind is None or self.done > 0)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all fits that are known are made; None where that cannot be said yet."""
        return self._left.seconds

    def part(self, name: str = "") -> Part:
        """The fits of a kind, for whoever is about to make them."""
        self._last = self._clock()
        self._left.begin()
        return Part(self, name)

    def expect(self, count: int, name: str = "", weight: float = 1.0) -> None:
        """Announce further fits of a kind, each of which takes so many times as long as the user's own."""
        self._left.kind(name, weight).to_come += count
        self._left.expected()
        self.total += count
        self._update(total=self.total or None)

    def foresee(self, count: int) -> None:
        """Announce how many fits are likely to follow those that are known, in the place of what was said before."""
        self.expect(count - self._left.kind(_FORESEEN).to_come, _FORESEEN)

    def settle(self) -> None:
        """Wait for none of the fits that were announced any more: nothing needs them."""
        self.total -= self._left.settle()
        self._update(total=self.total or None)

    def say(self, words: str) -> None:
        """Show what is being done, or the estimate as it stands."""
        self._update(description=words, refresh=True)

    def note(self, words: str) -> None:
        """Write a line that stays, above the bar or, where nobody watches, in its place."""
        if self._bar is not None:
            self._bar.note(words)
        elif self.wanted:
            _print_to(self._stream, words)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the bar off the screen, for somebody else to write there."""
        if self._bar is None:
            yield
            return
        self._bar.stop(leave=False)
        try:
            yield
        finally:
            self._bar.start()

    def skipped(self, name: str, count: int) -> None:
        """Report fits that nobody has to wait for."""
        kind = self._left.kind(name)
        kind.to_come = max(kind.to_come - count, 0)
        self._left.expected()
        self._count(count)

    def made(self, name: str, count: int, seconds: float | None) -> None:
        """Report finished fits of a kind."""
        self._left.add(name, count, self._clock() - self._last if seconds is None else seconds)
        self._count(count)
        while self.when_known and self._left.is_known:
            self.when_known.pop()()

    def _count(self, count: int) -> None:
        self.done, self._last = self.done + count, self._clock()
        self._update(completed=self.done)

    @property
    def parts(self) -> tuple[str, str]:
        """How many fits of how many are made, and how long the rest takes, in words."""
        fits = f"{self.done:,}/{self.total:,} fits" if self.total else ""
        left = self.seconds_left
        if left is None or self.done >= self.total:
            return fits, ""
        about = "" if left < _SOME_SECONDS else "at least " if self.may_grow else "about "
        return fits, f"{about}{time_in_words(left)} left"

    def _update(self, **changes: Any) -> None:
        if self._bar is not None:
            self._bar.update(**changes)


def time_in_words(seconds: float) -> str:
    """A time as a person would say it.

    Examples
    --------
    >>> [time_in_words(seconds) for seconds in (4, 38, 100, 1000, 9000)]
    ['some seconds', '40 seconds', '2 minutes', '17 minutes', '2.5 hours']
    """
    if seconds < _SOME_SECONDS:
        return "some seconds"
    if seconds < 55:
        return f"{5 * round(seconds / 5)} seconds"
    if seconds < 90:
        return "a minute"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _print_to(stream: TextIO, words: str) -> None:
    with suppress(OSError, ValueError):
        print(words, file=stream, flush=True)


class _Line:
    """A line of a cell that is written over: a notebook that is run without a browser keeps what it says at the end."""

    def __init__(self, shown: Progress, _: TextIO) -> None:
        self._shown, self._words, self._written = shown, "", -math.inf
        self._notes, self._display = list[str](), cast(Any, None)

    def start(self) -> None:
        """The line appears when there is something to say."""

    def stop(self, *, leave: bool = True) -> None:
        """Leave the line as it is now, or take it away."""
        if self._display is not None:
            self._write(self._text if leave else "")

    def note(self, words: str) -> None:
        """Write a line that stays, above the other one."""
        self._notes.append(words)
        self._write(self._text)

    def update(self, *, description: str | None = None, **_: Any) -> None:
        """Show what changed, a few times a second at most."""
        self._words = self._words if description is None else description
        if time.monotonic() - self._written > _SECONDS_BETWEEN_LINES:
            self._write(self._text)

    @property
    def _text(self) -> str:
        return ", ".join(words for words in (*self._shown.parts, self._words) if words)

    def _write(self, words: str) -> None:
        lines = [*self._notes, *([words] if words else [])]
        self._written, content = time.monotonic(), {"text/plain": "\n".join(lines)}
        if self._display is None:
            show = import_module("IPython.display").display
            self._display = show(content, raw=True, display_id=True)
        else:
            self._display.update(content, raw=True)


class _RichBar:
    """A bar on a terminal."""

    def __init__(self, shown: Progress, stream: TextIO) -> None:
        try:
            from rich import progress as rich_progress
            from rich.console import Console
            from rich.text import Text
        except ImportError:
            raise MissingExtraError("progress=True needs rich: pip install 'outofcluster[cli]'.") from None

        class Part(rich_progress.ProgressColumn):
            def __init__(self, position: int) -> None:
                super().__init__()
                self._position = position

            def render(self, task: rich_progress.Task) -> Text:
                return Text(shown.parts[self._position])

        self._bar = rich_progress.Progress(
            rich_progress.BarColumn(20),
            Part(0),
            Part(1),
            rich_progress.TextColumn("{task.description}"),
            console=Console(file=stream, force_terminal=True, force_jupyter=False),
            # What a script prints goes to its own standard output, not to the stream of the bar.
            redirect_stdout=False,
        )
        self._task = self._bar.add_task("", total=None)

    def start(self) -> None:
        """Show the bar."""
        self._bar.live.transient = False
        self._bar.start()

    def stop(self, *, leave: bool = True) -> None:
        """Leave the bar as it is now, or take it off the screen."""
        self._bar.live.transient = not leave
        self._bar.stop()

    def note(self, words: str) -> None:
        """Write a line that stays, above the bar."""
        self._bar.console.print(words, highlight=False)

    def update(self, **changes: Any) -> None:
        """Show what changed."""
        self._bar.update(self._task, **changes)

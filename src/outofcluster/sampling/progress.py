"""A progress bar for people: rate and remaining time on a terminal or in a notebook, nothing anywhere else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self, TextIO

from outofcluster._base.exceptions import MissingExtraError

if TYPE_CHECKING:
    from rich import progress as rich_progress


class Progress:
    """Counts the fits of one run or of several, and shows them while it is entered as a context.

    Parameters
    ----------
    total : int
        Number of fits.
    show : bool
        Whether a bar is wanted; it is shown on a terminal or in a notebook only.
    stream : file, optional
        Where the bar is written; standard error by default.
    """

    def __init__(self, total: int, *, show: bool = True, stream: TextIO | None = None) -> None:
        self.total, self.done = total, 0
        stream = sys.stderr if stream is None else stream
        self._bar = _rich_bar(total, stream) if show and (stream.isatty() or _in_notebook()) else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, count: int) -> None:
        """Announce further fits."""
        self.total += count
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=self.total)

    def say(self, words: str) -> None:
        """Show the estimate as it stands."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=words)

    def skip(self, count: int) -> None:
        """Report fits that a checkpoint already holds: they do not count for the rate."""
        self.done += count
        if self._bar is not None and count:
            self._bar.reset(self._bar.task_ids[0], completed=self.done)

    def add(self, count: int) -> None:
        """Report finished fits."""
        self.done += count
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], count)


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _rich_bar(total: int, stream: TextIO) -> rich_progress.Progress:
    try:
        from rich import progress as rich_progress
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        raise MissingExtraError("progress=True needs rich: pip install 'outofcluster[cli]'.") from None

    class Rate(rich_progress.ProgressColumn):
        def render(self, task: rich_progress.Task) -> Text:
            return Text(f"{task.finished_speed or task.speed or 0:,.0f}/s")

    bar = rich_progress.Progress(
        rich_progress.BarColumn(30),
        rich_progress.TaskProgressColumn(),
        rich_progress.TextColumn("{task.completed:,.0f}/{task.total:,.0f} fits"),
        Rate(),
        rich_progress.TimeRemainingColumn(),
        rich_progress.TextColumn("left"),
        rich_progress.TextColumn("{task.description}"),
        # A notebook gets what a terminal gets: rich's own way would need ipywidgets.
        console=Console(file=stream, force_terminal=True, force_jupyter=False),
        # What a script prints goes to its own standard output, not to the stream of the bar.
        redirect_stdout=False,
    )
    bar.add_task("", total=total)
    return bar

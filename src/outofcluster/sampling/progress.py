"""A progress bar for people: rate and remaining time on a terminal or in a notebook, nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import Self, TextIO

__all__ = ["Progress"]

_WIDTH = 30


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """Counts the fits of one run or of several; writes a line that overwrites itself, a few times a second.

    Parameters
    ----------
    total : int
        Fits in all.
    show : bool
        Whether a bar is wanted; it is shown on a terminal or in a notebook only.
    """

    def __init__(self, total: int, *, show: bool = True, stream: TextIO | None = None) -> None:
        self.total, self.done, self._before = total, 0, 0
        self._stream = sys.stderr if stream is None else stream
        self._shown = show and (self._stream.isatty() or _in_notebook())
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def found(self, count: int) -> None:
        """Report fits that a checkpoint already holds: they do not count for the rate."""
        self.done += count
        self._before += count

    def add(self, count: int) -> None:
        """Report finished fits."""
        self.done += count
        now = time.monotonic()
        if self._shown and (now - self._last > 0.2 or self.done >= self.total):
            self._last = now
            self._stream.write("\r" + self.line(now - self._start))
            self._stream.flush()

    def line(self, seconds: float) -> str:
        """The bar after so many seconds."""
        share = self.done / self.total if self.total else 1.0
        filled = round(share * _WIDTH)
        rate = (self.done - self._before) / seconds if seconds > 0 else 0.0
        remaining = (self.total - self.done) / rate if rate else float("inf")
        bar = "█" * filled + "·" * (_WIDTH - filled)
        return f"{bar} {share:4.0%}  {self.done:,}/{self.total:,} fits  {rate:,.0f}/s  {_clock(remaining)} left "

    def close(self) -> None:
        """End the line."""
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "--:--"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"

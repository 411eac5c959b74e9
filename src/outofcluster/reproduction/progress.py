"""Progress of a run: a line for each finished part, on standard error."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

__all__ = ["Reporter"]

_EVERY = 2.0
"""Seconds between lines of parts that follow each other quickly; slower parts get a line each."""


@dataclass
class Reporter:
    """Writes lines for people, or nothing.

    Parameters
    ----------
    show : bool
        Whether lines are wanted.
    stream : file, optional
        Where they go; standard error by default.
    """

    show: bool = True
    stream: TextIO | None = None
    _study: str = field(default="", init=False)
    _last: float = field(default=float("-inf"), init=False)
    _start: float = field(default_factory=time.monotonic, init=False)
    _found: int = field(default=0, init=False)

    def study(self, name: str) -> None:
        """A study begins."""
        self.settle()
        self._study, self._last = name, float("-inf")

    def done(self, told: str, seconds: float) -> None:
        """A part was computed."""
        self.settle()
        now = time.monotonic()
        if seconds > _EVERY or now - self._last > _EVERY:
            self._last = now
            self._write(f"{told} ({seconds:.1f} s)")

    def found(self, told: str) -> None:
        """A part was there already."""
        self._found += 1

    def settle(self) -> None:
        """Say how many parts were found, once they have all been counted."""
        if self._found:
            self._write(f"{self._found} finished part{'s' if self._found > 1 else ''} found")
            self._found = 0

    def line(self, text: str) -> None:
        """Say something."""
        self.settle()
        self._write(text)

    def _write(self, text: str) -> None:
        if self.show:
            minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
            stream = sys.stderr if self.stream is None else self.stream
            print(f"{minutes:3d}:{seconds:02d}  {self._study:9s}  {text}", file=stream, flush=True)

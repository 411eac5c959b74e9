"""What the benchmarks share: timing side by side, and a table of figures with their bounds."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One measured figure; the bound is None where it is shown for information only."""

    what: str
    value: float
    bound: float | tuple[float, float] | None
    kind: str = "at most"
    standard_error: float | None = None

    @property
    def holds(self) -> bool | None:
        if self.bound is None:
            return None
        if isinstance(self.bound, tuple):
            return self.bound[0] <= self.value <= self.bound[1]
        return self.value <= self.bound if self.kind == "at most" else self.value >= self.bound


@dataclass
class Figures:
    """Figures as they are measured, printed one by one and kept for the end."""

    rows: list[Figure] = field(default_factory=list)

    def at_most(self, what: str, value: float, bound: float, standard_error: float | None = None) -> None:
        self._add(Figure(what, float(value), bound, "at most", standard_error))

    def at_least(self, what: str, value: float, bound: float, standard_error: float | None = None) -> None:
        self._add(Figure(what, float(value), bound, "at least", standard_error))

    def between(self, what: str, value: float, least: float, most: float, standard_error: float | None = None) -> None:
        self._add(Figure(what, float(value), (least, most), "between", standard_error))

    def note(self, what: str, value: float, standard_error: float | None = None) -> None:
        self._add(Figure(what, float(value), None, "", standard_error))

    def _add(self, figure: Figure) -> None:
        self.rows.append(figure)
        mark = {True: "holds", False: "SHORT", None: "     "}[figure.holds]
        limits = figure.bound if isinstance(figure.bound, tuple) else (figure.bound,)
        bound = "" if figure.bound is None else f"({figure.kind} {' and '.join(f'{limit:g}' for limit in limits)})"
        error = "" if figure.standard_error is None else f" ± {figure.standard_error:.2g}"
        print(f"{mark}  {figure.what:<78} {figure.value:>10.3g}{error}  {bound}", flush=True)

    def write(self, path: Path, packages: tuple[str, ...]) -> None:
        """Figures with the versions they were measured with."""
        about = {"versions": versions(packages), "figures": [asdict(row) for row in self.rows]}
        path.write_text(json.dumps(about, indent=2) + "\n")

    def exit_status(self) -> int:
        return int(any(row.holds is False for row in self.rows))


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of Python and of packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def run(about: str, measure: Callable[..., None], packages: tuple[str, ...], **numbers: int) -> int:
    """A benchmark's command line: measure, print, keep what is asked for; 1 if a figure falls short.

    ``measure`` takes the figures, whether to be quick, and by name the numbers, each of which is an option as well.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures, with versions, to this file")
    parser.add_argument("--quick", action="store_true", help="leave out what takes long")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{default} by default")
    options = parser.parse_args()
    figures = Figures()
    measure(figures, options.quick, **{name: getattr(options, name) for name in numbers})
    if options.json:
        figures.write(options.json, packages)
    return figures.exit_status()


def median_seconds(function: Callable[[], object], repeats: int) -> float:
    """Median wall time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def ratio(numerator: Callable[[], object], denominator: Callable[[], object], repeats: int, rounds: int = 5) -> float:
    """How many times longer one call takes than another: the median over rounds that alternate between the two."""
    numerator(), denominator()
    ratios = [median_seconds(numerator, repeats) / median_seconds(denominator, repeats) for _ in range(rounds)]
    return sorted(ratios)[rounds // 2]

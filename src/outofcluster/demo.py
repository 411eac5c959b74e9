"""The demonstration: losses simulated from a known curve, and what each method makes of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from outofcluster._validation import check_integer, check_number
from outofcluster.binomial import BinomialOperator
from outofcluster.curves import (
    CompletelyMonotoneCurve,
    Curve,
    LeastSquaresCurve,
    PolynomialCurve,
    SketchCurve,
    TrendFilterCurve,
)
from outofcluster.errors import InputError
from outofcluster.shape import ShapeDiagnosis, diagnose_points

__all__ = ["Demo", "DemoEstimate", "run_demo"]

_FLOOR, _FALL, _DECAY = 0.22, 0.10, 4.0
"""The true curve e_j = 0.22 + 0.10 (1 - 4/n)^j."""

_LOSS_DEVIATION = 0.05
"""Standard deviation of one fit's mean loss, as for some 100 validation records."""


@dataclass(frozen=True)
class DemoEstimate:
    """What one method says."""

    method: str
    e0: float
    error: float


@dataclass(frozen=True)
class Demo:
    """The simulated problem and its answers."""

    n_train: int
    leakage: float
    truth: float
    naive: float
    naive_error: float
    estimates: tuple[DemoEstimate, ...]
    shape: ShapeDiagnosis

    def to_json(self) -> str:
        """All of it as JSON."""
        return json.dumps(asdict(self), indent=2)

    def show(self) -> None:
        """Print a table on the terminal."""
        from rich.console import Console
        from rich.table import Table

        console = Console()
        console.print(
            f"Simulated losses: {self.n_train} training records, of which {self.leakage:.0%} truly belong to "
            f"validation clusters.\nThe cross-validated loss is [bold]{self.naive:.4f}[/bold]; on genuinely new "
            f"clusters it is [bold]{self.truth:.4f}[/bold]. Nothing in the cross-validation shows the difference.\n"
        )
        table = Table("curve method", title="Loss on new clusters, extrapolated to no leakage")
        table.add_column("estimate", justify="right")
        table.add_column("error", justify="right")
        table.add_row("none: the cross-validated loss", f"{self.naive:.4f}", f"{self.naive_error:+.4f}")
        for estimate in self.estimates:
            table.add_row(estimate.method, f"{estimate.e0:.4f}", f"{estimate.error:+.4f}")
        table.add_section()
        table.add_row("the truth", f"{self.truth:.4f}", "")
        console.print(table)
        console.print(f"\nShape of the losses over the levels:\n{self.shape}", highlight=False)


def run_demo(*, n_train: int = 100, leakage: float = 0.1, n_fits: int = 20_000, seed: int = 0) -> Demo:
    """Simulate losses at twelve levels of leakage and fit every curve method to them.

    Parameters
    ----------
    n_train : int, default=100
        Training records in each resample.
    leakage : float, default=0.1
        Share of training records that truly belong to validation clusters, above 0 and at most 0.5.
    n_fits : int, default=20_000
        Model fits behind the losses, over all levels.
    seed : int, default=0
        Seed of the simulated losses.

    Returns
    -------
    Demo

    Examples
    --------
    >>> from outofcluster.demo import run_demo
    >>> result = run_demo(seed=1)
    >>> round(result.truth, 2), result.naive < result.truth
    (0.32, True)
    """
    n = check_integer("n_train", n_train, least=12)
    rate = check_number("leakage", leakage, least=0, strict=True)
    if rate > 0.5:
        raise InputError(f"leakage must be at most 0.5, got {rate:g}.")
    fits = check_integer("n_fits", n_fits, least=12)
    rng = np.random.default_rng(check_integer("seed", seed, least=0))
    p = np.linspace(rate, 1, 12)
    standard_errors = np.full(len(p), _LOSS_DEVIATION / np.sqrt(fits / len(p)))
    b = _FLOOR + _FALL * BinomialOperator(p, n).geometric(_DECAY / n) + standard_errors * rng.standard_normal(len(p))
    truth = _FLOOR + _FALL
    methods: dict[str, Curve] = {
        "least squares (B3)": LeastSquaresCurve(),
        "trend filter (T4+mono)": TrendFilterCurve(),
        "polynomial, degree 2": PolynomialCurve(degree=2),
        "sketch, 7 groups": SketchCurve(),
        "completely monotone": CompletelyMonotoneCurve(),
    }
    estimates = []
    for name, curve in methods.items():
        e0 = curve.fit_points(p, b, n).e0_
        estimates.append(DemoEstimate(name, e0, e0 - truth))
    naive = float(b[0])
    shape = diagnose_points(p, b, standard_errors)
    return Demo(n, rate, truth, naive, naive - truth, tuple(estimates), shape)

"""A model, its scaler and its loss as numbers, and the block of replicates they are run on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_Draw = tuple[float, int, bool, Any, int, int]
"""The injected fraction, n, whether with replacement, the key, the level and the first replicate."""


@dataclass(frozen=True)
class Units:
    """A partition of one pool: the unit of each position, and how many records each unit has."""

    of: Integers
    sizes: Integers

    @property
    def count(self) -> int:
        """Number of units."""
        return len(self.sizes)


@dataclass(frozen=True)
class BlockResult:
    """What a block of replicates gives; the sums are over the replicates that were handled, in their order."""

    losses: Floats
    """Mean loss over the records of V that were not drawn; NaN where not handled."""
    redraws: Integers
    """Draws that had to be rejected; 100 says that no attempt could be used."""
    handled: NDArray[np.bool_]
    """Whether the draw could be used and the fit reached its optimum."""
    train_sums: tuple[Floats, ...]
    """For each partition of T, one row per unit: the sums of N, Nt, N², N²t, N²t², NM, NMt, NMt²."""
    validation_sums: tuple[Floats, ...]
    """For each partition of V, one row per unit: the same sums, then those of E, E², NE, NEt, ME, MEt."""


@dataclass(frozen=True)
class Kernel:
    """A linear model whose draws, fits and scores run in one compiled loop.

    Parameters
    ----------
    model : {"squared_hinge", "logistic", "least_squares"}
        The objective.
    strength : float
        C, or alpha in least squares.
    loss : str
        Loss of a validation record.
    classifier : bool
        Whether y holds the classes 0 and 1.
    intercept : bool
        Whether an intercept is fitted.
    intercept_scaling : float
        Value of the column that stands for the intercept in the squared hinge.
    exact : bool
        Whether there is no penalty, so that a near singular fit is left to scikit-learn.
    with_mean, with_std : bool
        Whether the columns of the draw are centred, and scaled, before the fit.
    """

    model: str
    strength: float
    loss: str
    classifier: bool
    intercept: bool = True
    intercept_scaling: float = 1.0
    exact: bool = False
    with_mean: bool = False
    with_std: bool = False

    @property
    def usable(self) -> bool:
        """Whether the loop of the model can be compiled here; it is then ready to run."""
        return _compiles(self.model)

    def start(self, X: Floats, y: Floats, train: Integers) -> Floats:
        """Coefficients fitted on all of T, from which every replicate's fit starts; zeros if they cannot be fitted."""
        from outofcluster.sampling.kernels._work import make_solver, make_work

        n, d = len(train), X.shape[1]
        coefficients = np.zeros(d + 1)
        labels = y[train]
        if self.model == "least_squares" or (self.classifier and labels.min() == labels.max()):
            return coefficients
        work, solver = make_work(n, d, 0, 0, 0, 0, replace=True), make_solver(n, d)
        work.rows[:, :d] = X[train]
        work.targets[:] = labels
        nothing = np.zeros(0, np.int64)
        draw = (0.0, n, True, np.zeros(2), 0, 0)
        # Without pools to draw from, the loop fits the rows that are there.
        out = self._loop(X, y, nothing, nothing, draw, 1, (), (), coefficients, work, solver)
        return solver.w[: d + 1].copy() if out.handled[0] else coefficients

    def run_block(
        self,
        X: Floats,
        y: Floats,
        train: Integers,
        validation: Integers,
        *,
        injected: float,
        n_train: int,
        replace: bool,
        key: NDArray[np.uint64],
        level: int,
        first_replicate: int,
        count: int,
        train_units: tuple[Units, ...],
        validation_units: tuple[Units, ...],
        start: Floats,
    ) -> BlockResult:
        """Draw, fit and score the replicates first_replicate, ..., first_replicate + count - 1 of a level.

        ``train`` and ``validation`` hold rows of X; sums are kept for each partition of them into units.
        Every replicate has a random stream of its own, so that its loss does not depend on the block it is in.
        """
        draw = (injected, n_train, replace, key, level, first_replicate)
        return self._run(X, y, train, validation, draw, count, train_units, validation_units, start)[0]

    def coefficients(
        self,
        X: Floats,
        y: Floats,
        train: Integers,
        validation: Integers,
        *,
        injected: float,
        n_train: int,
        replace: bool,
        key: NDArray[np.uint64],
        level: int,
        replicate: int,
        start: Floats,
    ) -> Floats:
        """Coefficients on the columns of X, and the intercept, of one replicate; NaN if it was not handled."""
        draw = (injected, n_train, replace, key, level, replicate)
        result, weights = self._run(X, y, train, validation, draw, 1, (), (), start)
        return weights if result.handled[0] else np.full_like(weights, np.nan)

    def _run(
        self,
        X: Floats,
        y: Floats,
        train: Integers,
        validation: Integers,
        draw: _Draw,
        count: int,
        train_units: tuple[Units, ...],
        validation_units: tuple[Units, ...],
        start: Floats,
    ) -> tuple[BlockResult, Floats]:
        from outofcluster.sampling.kernels._work import make_solver, make_work

        _, n, replace, *_ = draw
        n_T, n_V, d = len(train), len(validation), X.shape[1]
        if not replace and n > n_T + n_V:
            raise InputError(
                f"n_train must be at most {n_T + n_V}, the number of records, without replacement, got {n}."
            )
        numbers = [np.cumsum([units.count for units in partitions]) for partitions in (train_units, validation_units)]
        work = make_work(n, d, n_T, n_V, *(int(ends[-1]) if len(ends) else 0 for ends in numbers), replace=replace)
        units = (train_units, validation_units)
        out = self._loop(X, y, train, validation, draw, count, *units, start, work, make_solver(n, d))
        train_sums, validation_sums = (
            tuple(np.split(sums, ends)[:-1])
            for sums, ends in zip((out.train_sums, out.validation_sums), numbers, strict=True)
        )
        return BlockResult(out.losses, out.redraws, out.handled, train_sums, validation_sums), work.weights

    def _loop(
        self,
        X: Floats,
        y: Floats,
        train: Integers,
        validation: Integers,
        draw: _Draw,
        count: int,
        train_units: tuple[Units, ...],
        validation_units: tuple[Units, ...],
        start: Floats,
        work: Any,
        solver: Any,
    ) -> Any:
        """Run the compiled loop of the model on the buffers."""
        from outofcluster.sampling.kernels._work import Out, Problem

        injected, _, replace, key, level, first = draw
        problem = Problem(
            _read_only(X, np.float64),
            _read_only(y, np.float64),
            _read_only(train, np.int64),
            _read_only(validation, np.int64),
            _read_only(_numbered(train_units, len(train)), np.int64),
            _read_only(_numbered(validation_units, len(validation)), np.int64),
            _read_only(key, np.uint64),
            int(level),
            float(injected),
            bool(replace),
        )
        out = Out(
            np.full(count, np.nan),
            np.zeros(count, np.int64),
            np.zeros(count, np.bool_),
            np.zeros((work.t_unit_counts.size, 8)),
            np.zeros((work.v_unit_counts.size, 14)),
        )
        _loop(self.model)(problem, self._settings(), _read_only(start, np.float64), int(first), work, solver, out)
        return out

    def _settings(self) -> Any:
        from outofcluster.sampling.kernels._work import LOSSES, Settings

        return Settings(
            float(self.strength),
            self.intercept,
            float(self.intercept_scaling),
            self.exact,
            self.with_mean,
            self.with_std,
            LOSSES.index(self.loss),
            self.classifier,
        )


def _numbered(partitions: tuple[Units, ...], size: int) -> Integers:
    """One row per partition of a pool; the units of each are numbered on from those of the one before it."""
    numbered = np.zeros((len(partitions), size), np.int64)
    first = 0
    for row, units in zip(numbered, partitions, strict=True):
        row[:] = units.of + first
        first += units.count
    return numbered


def _read_only(values: Any, dtype: Any) -> Any:
    """A contiguous array, marked read-only: one that is shared between processes is, and would else compile anew."""
    view = np.ascontiguousarray(values, dtype).view()
    view.flags.writeable = False
    return view


@cache
def _compiles(model: str) -> bool:
    """Whether a few records can be fitted: there is no compiler where it is switched off, or where it does not load."""
    regression = model == "least_squares"
    loss = "squared_error" if regression else "zero_one"
    y = np.tile([0.0, 1.0], 4)
    rows = np.arange(len(y))
    try:
        import numba

        if getattr(numba.config, "DISABLE_JIT", False):
            return False
        Kernel(model, 1.0, loss, not regression).run_block(
            y[:, None],
            y,
            rows[:4],
            rows[4:],
            injected=0.0,
            n_train=4,
            replace=True,
            key=np.zeros(2, np.uint64),
            level=0,
            first_replicate=0,
            count=1,
            train_units=(),
            validation_units=(),
            start=np.zeros(2),
        )
    except Exception:
        return False
    return True


# The compiler is imported when a kernel runs, and the loop of one model is compiled without those of the others.
def _loop(model: str) -> Any:
    if model == "squared_hinge":
        from outofcluster.sampling.kernels._squared_hinge import run_squared_hinge

        return run_squared_hinge
    if model == "logistic":
        from outofcluster.sampling.kernels._logistic import run_logistic

        return run_logistic
    from outofcluster.sampling.kernels._least_squares import run_least_squares

    return run_least_squares

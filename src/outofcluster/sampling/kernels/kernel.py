"""A model, its scaler and its loss as numbers, and the block of replicates they are run on.

An estimator of scikit-learn has a kernel by its exact type, and only with parameters that leave the objective as is.
Parameters of the solver (``tol``, ``max_iter``, ``dual``) do not matter, since the kernels go to the optimum.

Whether a job is long enough for a kernel is decided from the job alone, since its bits must not depend on what is on
disk. A default audit never is, so that it gives the same bits with and without a compiler: a job must have more fits
than that. Compiling a kernel takes as long as thousands of plain fits with scikit-learn, each of which takes about

    start + step · n · d

seconds for n records of d columns. The constants below were measured side by side on one core (numba 0.68,
scikit-learn 1.9): on another machine all of them are longer or shorter together. A job is long enough if its plain fits
take twice as long as compiling. The margin pays for the kernel's own time, and for a second worker, since workers share
the plain fits but not the compiling.

*A draw* of training records (Algorithm 1) has n records of which a fraction a, on average, comes from V. With
replacement each record takes one uniform u: position ⌊u n_V / a⌋ of V where u < a, else position
⌊(u - a) n_T / (1 - a)⌋ of T. Without replacement, m is the number of the first n uniforms below a, moved into
[n - n_T, n_V]; then a partial Fisher-Yates shuffle takes m positions of V, and another n - m of T, one uniform each. An
attempt so uses n or 2n uniforms, whatever it draws, and attempt k of a stream starts at k times that many. The draw in
numpy is here; the compiled one (module ``replicate``) gives the same positions in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Draws tried before a replicate fails, when none leaves a record to validate on and, in a classifier, two classes.
MAX_ATTEMPTS = 100

# Seconds to compile the loop of a model.
_COMPILE = {"squared_hinge": 14.0, "logistic": 12.0, "least_squares": 10.0}
# Start and step of a plain fit, in seconds.
_PLAIN = {"squared_hinge": (1.8e-3, 5.5e-8), "logistic": (3.4e-3, 2e-8), "least_squares": (1.5e-3, 1.5e-8)}
_MARGIN = 2.0
# The fits of a default audit, with those below the leakage rate.
_FITS_BY_DEFAULT = 4000

_REGRESSION = ("squared_error", "absolute_error")
_RIDGE = {"positive": (False,), "solver": ("auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")}
# By the type of an estimator: its model, the losses it can have, and the parameters that leave the objective as is.
_OBJECTIVES: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[Any, ...]]]] = {
    "LinearSVC": (
        "squared_hinge",
        ("zero_one",),
        {"penalty": ("l2",), "loss": ("squared_hinge",), "multi_class": ("ovr",), "class_weight": (None,)},
    ),
    # Before 1.8 "l2" is the default penalty and l1_ratio is None, since then they are "deprecated" and 0.
    "LogisticRegression": (
        "logistic",
        ("zero_one", "log_loss", "brier"),
        {
            "penalty": ("l2", "deprecated"),
            "l1_ratio": (None, 0),
            "solver": ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga"),
            "dual": (False,),
            "multi_class": ("auto", "deprecated", "ovr"),
            "class_weight": (None,),
        },
    ),
    "LinearRegression": ("least_squares", _REGRESSION, {"positive": (False,)}),
    "Ridge": ("least_squares", _REGRESSION, _RIDGE),
    "RidgeClassifier": ("least_squares", ("zero_one",), _RIDGE | {"class_weight": (None,)}),
}

# Of the arrays of a problem, for which the loops are compiled.
_TYPES = {
    **dict.fromkeys(("X", "y"), np.float64),
    **dict.fromkeys(("train", "validation", "train_units", "validation_units"), np.int64),
    "key": np.uint64,
}


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

    # Mean loss over the records of V that were not drawn; NaN where not handled.
    losses: Floats
    # Draws that had to be rejected; 100 says that no attempt could be used.
    redraws: Integers
    # Whether the draw could be used and the fit reached its optimum.
    handled: NDArray[np.bool_]
    # For each partition of T, one row per unit: the sums of N, Nt, N², N²t, N²t², NM, NMt, NMt².
    train_sums: tuple[Floats, ...]
    # For each partition of V, one row per unit: the same sums, then those of E, E², NE, NEt, ME, MEt.
    validation_sums: tuple[Floats, ...]
    # Those of the last replicate that was handled, on the columns of X, and the intercept.
    coefficients: Floats


@dataclass(frozen=True)
class Kernel:
    """A linear model whose draws, fits and scores run in one compiled loop."""

    # The objective: squared_hinge, logistic or least_squares.
    model: str
    # C, or alpha in least squares.
    strength: float
    # Loss of a validation record.
    loss: str
    # Whether y holds the classes 0 and 1.
    classifier: bool
    intercept: bool = True
    # Value of the column that stands for the intercept in the squared hinge.
    intercept_scaling: float = 1.0
    # Whether there is no penalty, so that a near singular fit is left to scikit-learn.
    exact: bool = False
    # Whether the columns of the draw are centred before the fit.
    with_mean: bool = False
    # Whether they are scaled.
    with_std: bool = False

    @property
    def usable(self) -> bool:
        """Whether the loop of the model can be compiled here; it is then ready to run."""
        return _compiles(self.model)

    def start(self, X: Floats, y: Floats, train: Integers) -> Floats:
        """Coefficients fitted on all of T, from which every replicate's fit starts; zeros if they cannot be fitted."""
        n, d = len(train), X.shape[1]
        coefficients = np.zeros(d + 1)
        labels = y[train]
        if self.model == "least_squares" or (self.classifier and labels.min() == labels.max()):
            return coefficients
        models, loops = _loops()
        work, solver = loops.make_work(n, d, 0, 0, 0, 0, replace=True), models.make_solver(n, d)
        work.rows[:, :d] = X[train]
        work.targets[:] = labels
        # Without pools to draw from, the loop fits the rows that are there.
        problem = loops.Problem(X, y, [], [], _numbered((), 0), _numbered((), 0), np.zeros(2), 0, 0.0, True)
        out = self._run(problem, coefficients, 0, 1, work, solver)
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
        start: Floats,
        train_units: tuple[Units, ...] = (),
        validation_units: tuple[Units, ...] = (),
    ) -> BlockResult:
        """Draw, fit and score the replicates first_replicate, ..., first_replicate + count - 1 of a level.

        ``train`` and ``validation`` hold rows of X; sums are kept for each partition of them into units.
        Every replicate has a random stream of its own, so that its loss does not depend on the block it is in.
        """
        n_T, n_V, d = len(train), len(validation), X.shape[1]
        if not replace and n_train > n_T + n_V:
            raise InputError(
                f"n_train must be at most {n_T + n_V}, the number of records, without replacement, got {n_train}."
            )
        models, loops = _loops()
        counts = [[units.count for units in partitions] for partitions in (train_units, validation_units)]
        work = loops.make_work(n_train, d, n_T, n_V, *map(sum, counts), replace=replace)
        units = _numbered(train_units, n_T), _numbered(validation_units, n_V)
        problem = loops.Problem(X, y, train, validation, *units, key, int(level), float(injected), bool(replace))
        out = self._run(problem, start, first_replicate, count, work, models.make_solver(n_train, d))
        train_sums, validation_sums = (
            tuple(np.split(sums, np.cumsum(ends))[:-1])
            for sums, ends in zip((out.train_sums, out.validation_sums), counts, strict=True)
        )
        return BlockResult(out.losses, out.redraws, out.handled, train_sums, validation_sums, work.weights)

    def _run(self, problem: Any, start: Floats, first: int, count: int, work: Any, solver: Any) -> Any:
        """Run the compiled loop of the model on the buffers."""
        models, loops = _loops()
        parameters = {name: getattr(self, name) for name in loops.Settings._fields}
        settings = loops.Settings(**parameters | {"loss": loops.LOSSES.index(self.loss)})
        problem = problem._replace(**{name: _read_only(getattr(problem, name), kind) for name, kind in _TYPES.items()})
        out = loops.Out(
            np.full(count, np.nan),
            np.zeros(count, np.int64),
            np.zeros(count, np.bool_),
            np.zeros((work.t_unit_counts.size, 8)),
            np.zeros((work.v_unit_counts.size, 14)),
        )
        run = getattr(models, f"run_{self.model}")
        run(problem, settings, _read_only(start, np.float64), int(first), work, solver, out)
        return out


def _loops() -> tuple[Any, Any]:
    """The modules of the compiled loops: the compiler is imported when a kernel runs, and not before."""
    room = "outofcluster.sampling.kernels"
    return import_module(f"{room}.models"), import_module(f"{room}.replicate")


def _numbered(partitions: tuple[Units, ...], size: int) -> Integers:
    """One row per partition of a pool; the units of each are numbered on from those of the one before it."""
    firsts = np.cumsum([0, *(units.count for units in partitions)])
    rows = [units.of + first for units, first in zip(partitions, firsts, strict=False)]
    return np.array(rows, np.int64).reshape(len(partitions), size)


def _read_only(values: Any, dtype: Any) -> Any:
    """A contiguous array, marked read-only: one that is shared between processes is, and would else compile anew."""
    view = np.ascontiguousarray(values, dtype).view()
    view.flags.writeable = False
    return view


@cache
def _compiles(model: str) -> bool:
    """Whether a few records can be fitted: there is no compiler where it is switched off, or where it does not load."""
    regression = model == "least_squares"
    y = np.tile([0.0, 1.0], 4)
    draw = {"injected": 0.0, "n_train": 4, "replace": True, "level": 0, "first_replicate": 0, "count": 1}
    try:
        import numba

        if getattr(numba.config, "DISABLE_JIT", False):
            return False
        kernel = Kernel(model, 1.0, "squared_error" if regression else "zero_one", not regression)
        key, rows = np.zeros(2, np.uint64), np.arange(len(y))
        kernel.run_block(y[:, None], y, rows[:4], rows[4:], key=key, start=np.zeros(2), **draw)  # type: ignore[arg-type]
    except Exception:
        return False
    return True


def worth_compiling(model: str, n_fits: int, n_train: int, n_features: int) -> bool:
    """Whether a job has more fits than a default audit, which take longer than compiling the kernel, with a margin.

    Examples
    --------
    >>> from outofcluster.sampling.kernels.kernel import worth_compiling
    >>> worth_compiling("squared_hinge", 4000, 10**6, 12), worth_compiling("squared_hinge", 60_000, 100, 12)
    (False, True)
    """
    start, step = _PLAIN[model]
    seconds = n_fits * (start + step * n_train * n_features)
    return n_fits > _FITS_BY_DEFAULT and seconds > _MARGIN * _COMPILE[model]


def find_kernel(estimator: Any, loss: str, *, classifier: bool) -> Kernel | None:
    """The compiled loop of an estimator and a loss, or None if there is none.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> find_kernel(LinearSVC(C=0.5), "zero_one", classifier=True).strength
    0.5
    >>> find_kernel(LinearSVC(class_weight="balanced"), "zero_one", classifier=True)
    """
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    with_mean = with_std = False
    if type(estimator) is Pipeline:
        steps = [step for _, step in estimator.steps]
        if estimator.memory is not None or getattr(estimator, "transform_input", None) is not None:
            return None
        if len(steps) == 2 and type(steps[0]) is StandardScaler:
            with_mean, with_std = bool(steps[0].with_mean), bool(steps[0].with_std)
        elif len(steps) != 1:
            return None
        estimator = steps[-1]
    kernel = _plain_kernel(estimator, loss, classifier)
    return kernel and replace(kernel, with_mean=with_mean, with_std=with_std)


def _plain_kernel(estimator: Any, loss: str, classifier: bool) -> Kernel | None:
    """The kernel of an estimator without a scaler."""
    from sklearn import linear_model, svm

    name = type(estimator).__name__
    home = svm if name == "LinearSVC" else linear_model
    if name not in _OBJECTIVES or type(estimator) is not getattr(home, name, None):
        return None
    model, losses, allowed = _OBJECTIVES[name]
    if loss not in losses or classifier == (losses == _REGRESSION):
        return None
    for parameter, values in allowed.items():
        value = getattr(estimator, parameter, values[0])
        if not (value is None or isinstance(value, str | Real | np.bool_)) or value not in values:
            return None
    intercept = bool(estimator.fit_intercept)
    strength = 0.0 if name == "LinearRegression" else getattr(estimator, "alpha" if "Ridge" in name else "C")
    scaling = estimator.intercept_scaling if name == "LinearSVC" and intercept else 1.0
    if not (_number(strength) and _number(scaling) and scaling > 0 and (strength > 0 or model == "least_squares")):
        return None
    if name == "LinearRegression" and getattr(estimator, "tol", 0.0) > 1e-6:
        return None
    return Kernel(model, float(strength), loss, classifier, intercept, float(scaling), name == "LinearRegression")


def _number(value: Any) -> bool:
    """Whether a parameter is a finite number from 0 on: arrays of penalties and infinities have other objectives."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value) and float(value) >= 0


def draw_records(
    rng: np.random.Generator, a: float, n_train: int, n_T: int, n_V: int, replace: bool
) -> tuple[Integers, Integers]:
    """Integers drawn from T and from V, by one attempt of the algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> draw_records(np.random.default_rng(0), 0.5, 4, 10, 10, True)
    (array([2]), array([5, 0, 0]))
    """
    u = rng.random(n_train)
    from_V = u < a
    if replace:
        v = (u[from_V] / a * n_V).astype(np.int64) if a > 0 else np.zeros(0, np.int64)
        t = ((u[~from_V] - a) / (1 - a) * n_T).astype(np.int64) if a < 1 else np.zeros(0, np.int64)
        return np.minimum(t, n_T - 1), np.minimum(v, n_V - 1)
    m = min(max(int(from_V.sum()), n_train - n_T), n_V)
    v = _shuffle(rng.random(m), n_V)
    return _shuffle(rng.random(n_train - m), n_T), v


def _shuffle(u: Floats, size: int) -> Integers:
    """The head of a Fisher-Yates shuffle of 0..size-1; positions not moved yet need no memory."""
    left = size - np.arange(len(u))
    targets = np.arange(len(u)) + np.minimum((u * left).astype(np.int64), left - 1)
    moved: dict[int, int] = {}
    drawn = np.empty(len(u), np.int64)
    for k, j in enumerate(targets.tolist()):
        drawn[k] = moved.get(j, j)
        moved[j] = moved.get(k, k)
    return drawn

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

*A draw* of training records (Algorithm 1) has n records of which a fraction a, on average, comes from V. Each
record takes two uniforms u and w. With replacement it is position ⌊u n_V⌋ of V where w < a, else position ⌊u n_T⌋ of T,
so that draws of the same stream at a higher level have the same records, but for some more from V in the place of
records from T. Without replacement, m is the number of w below a, moved into [n - n_T, n_V]; then a partial
Fisher-Yates shuffle takes n - m positions of T, by the first u, and another m of V, by the last ones. An attempt so
uses 2n uniforms, whatever it draws, and attempt k of a stream starts at k times that many. The draw in numpy is here;
the compiled one (module ``replicate``) gives the same positions in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster.metrics.base import Partition

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Draws tried before a replicate fails, when none leaves a record to validate on and, in a classifier, two classes.
MAX_ATTEMPTS = 100

# Seconds to compile the loop of a model.
_COMPILE = {"squared_hinge": 14.0, "logistic": 12.0, "least_squares": 10.0}
# Start and step of a plain fit, in seconds.
_PLAIN = {"squared_hinge": (1.8e-3, 5.5e-8), "logistic": (3.4e-3, 2e-8), "least_squares": (1.5e-3, 1.5e-8)}
_MARGIN = 2.0
# Number of fits up to which nothing is compiled.
_FEW_FITS = 4000

_REGRESSION = ("squared_error", "absolute_error")
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
    "Ridge": (
        "least_squares",
        _REGRESSION,
        {"positive": (False,), "solver": ("auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")},
    ),
}


@dataclass(frozen=True)
class BlockResult:
    """What a block of replicates gives; the sums are over the replicates that were handled, in their order."""

    # Mean loss over the records of V that were not drawn, less the mean offset there; NaN where not handled.
    losses: Floats
    # Draws that had to be rejected; 100 says that no attempt could be used.
    redraws: Integers
    # Whether the draw could be used and the fit reached its optimum.
    handled: NDArray[np.bool_]
    # For each partition of V the sum of E of every unit.
    effects: tuple[Floats, ...]
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
    intercept: bool = True
    # Value of the column that stands for the intercept in the squared hinge.
    intercept_scaling: float = 1.0
    # Whether the columns of the draw are standardised before the fit.
    scaled: bool = False

    @property
    def classifier(self) -> bool:
        """Whether y holds the classes 0 and 1."""
        return self.model != "least_squares"

    @property
    def usable(self) -> bool:
        """Whether the loop of the model can be compiled here; it is then ready to run."""
        return _compiles(self.model)

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
        first_replicate: int,
        count: int,
        offset: Floats | None = None,
        units: tuple[Partition, ...] = (),
    ) -> BlockResult:
        """Draw, fit and score the replicates first_replicate, ..., first_replicate + count - 1 of a level.

        ``train`` and ``validation`` hold rows of X. From the losses of the validation rows ``offset`` is taken off,
        one number each. Effects are kept for each partition of these rows into units. Every replicate has a random
        stream of its own, so that its loss does not depend on the block it is in.
        """
        models, loops = _loops()
        counts = [partition.count for partition in units]
        less = np.zeros(len(validation)) if offset is None else offset
        numbers = (_read_only(values, np.float64) for values in (X, y, less))
        positions = (_read_only(values, np.int64) for values in (train, validation, _numbered(units, len(validation))))
        stream = _read_only(key, np.uint64)
        problem = loops.Problem(*numbers, *positions, stream, float(injected), bool(replace))
        work = loops.make_work(problem, n_train, sum(counts))
        parameters = {name: getattr(self, name) for name in loops.Settings._fields}
        settings = loops.Settings(**parameters | {"loss": loops.LOSSES.index(self.loss)})
        out = loops.Out(
            np.full(count, np.nan), np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(sum(counts))
        )
        run = getattr(models, f"run_{self.model}")
        run(problem, settings, int(first_replicate), work, models.make_solver(n_train, X.shape[1]), out)
        effects = tuple(np.split(out.effects, np.cumsum(counts))[:-1])
        return BlockResult(out.losses, out.redraws, out.handled, effects, work.weights)


def _loops() -> tuple[Any, Any]:
    """The modules of the compiled loops: the compiler is imported when a kernel runs, and not before."""
    room = "outofcluster.sampling.kernels"
    return import_module(f"{room}.models"), import_module(f"{room}.replicate")


def _numbered(partitions: tuple[Partition, ...], size: int) -> Integers:
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
    y = np.tile([0.0, 1.0], 4)
    draw = {"injected": 0.0, "n_train": 4, "replace": True, "first_replicate": 0, "count": 1}
    try:
        import numba

        if getattr(numba.config, "DISABLE_JIT", False):
            return False
        kernel = Kernel(model, 1.0, "squared_error" if model == "least_squares" else "zero_one")
        key, rows = np.zeros(2, np.uint64), np.arange(len(y))
        kernel.run_block(y[:, None], y, rows[:4], rows[4:], key=key, **draw)  # type: ignore[arg-type]
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
    return n_fits > _FEW_FITS and seconds > _MARGIN * _COMPILE[model]


def find_kernel(estimator: Any, loss: str) -> Kernel | None:
    """The compiled loop of an estimator and a loss, or None if there is none.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> find_kernel(LinearSVC(C=0.5), "zero_one").strength
    0.5
    >>> find_kernel(LinearSVC(class_weight="balanced"), "zero_one")
    """
    from sklearn import linear_model, svm
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    scaled = False
    if type(estimator) is Pipeline:
        steps = [step for _, step in estimator.steps]
        if estimator.memory is not None or getattr(estimator, "transform_input", None) is not None:
            return None
        scaled = len(steps) == 2 and type(steps[0]) is StandardScaler and steps[0].with_mean and steps[0].with_std
        if not scaled and len(steps) != 1:
            return None
        estimator = steps[-1]
    name = type(estimator).__name__
    home = svm if name == "LinearSVC" else linear_model
    if name not in _OBJECTIVES or type(estimator) is not getattr(home, name, None):
        return None
    model, losses, allowed = _OBJECTIVES[name]
    for parameter, values in allowed.items():
        value = getattr(estimator, parameter, values[0])
        if not (value is None or isinstance(value, str | Real | np.bool_)) or value not in values:
            return None
    intercept = bool(estimator.fit_intercept)
    # The penalty, which linear regression does not have.
    strength = getattr(estimator, "C", getattr(estimator, "alpha", 0.0))
    scaling = estimator.intercept_scaling if name == "LinearSVC" and intercept else 1.0
    numbers = _number(strength) and _number(scaling) and scaling > 0 and (strength > 0 or losses is _REGRESSION)
    if loss not in losses or not numbers or (name == "LinearRegression" and getattr(estimator, "tol", 0.0) > 1e-6):
        return None
    return Kernel(model, float(strength), loss, intercept, float(scaling), bool(scaled))


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
    >>> draw_records(np.random.default_rng(0), 0.8, 4, 10, 10, True)
    (array([6, 2]), array([0, 0]))
    """
    u, chosen = rng.random(n_train), rng.random(n_train)
    # The same stream gives the same draws from T at every level, and every record of V stays in at higher levels.
    from_V = chosen < a
    if replace:
        drawn = [(of_pool * size).astype(np.int64) for of_pool, size in ((u[~from_V], n_T), (u[from_V], n_V))]
        return np.minimum(drawn[0], n_T - 1), np.minimum(drawn[1], n_V - 1)
    m = min(max(int(from_V.sum()), n_train - n_T), n_V)
    return _shuffle(u[: n_train - m], n_T), _shuffle(u[n_train - m :][::-1], n_V)


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

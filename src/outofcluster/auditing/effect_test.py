r"""Is there a cluster effect for leakage to act on? The paper's hypothesis test (Section 4), over one split or many.

For a split T̂, V̂: m training folds of n' records from T̂ and m from V̂, each with a validation fold of its own of n_V
records from V̂, all disjoint. With z and z' the mean validation losses of the first and the second kind, K splits, and
s², s'² their variances around the means of their own split, the test of e(p0) ≤ e(1) against e(p0) > e(1) rejects when

.. math:: T = \frac{\bar z - \bar z'}{\sqrt{(s^2 + s'^2)/(Km)}} > t_{1-α,ν}, \qquad
          ν = K(m-1)\,\frac{(s^2+s'^2)^2}{s^4 + s'^4} ,

which is Welch's test for K = 1. (The paper's null hypothesis is to be read as e_0 = e(p0).)

Decisions. *One record, one role:* over all splits of a cross-validation no record is used twice. The V̂s of a k-fold are
disjoint, and what one of them leaves unused trains models for the other splits. So without a cluster effect, when
records are independent, all losses are independent and have one distribution, and K splits keep the level as one does.
Splits that shared records would be dependent, and what allows for that (twice the mean of the p-values, say) costs
power. *As many folds of either kind:* z̄ - z̄' is then symmetric without a cluster effect, also for skewed losses, for
which a t test is not exact. *Drawn at random, not by class:* V̂'s shares of the classes differ by chance from those of
T̂, and a stratified training fold would know them: an effect where there is none. A draw in which a training fold of a
classifier (with a scorer, also a validation fold) has a single class is drawn again as a whole.

*Sizes* are the same in all splits. m is the smallest number, at least 2, with 2K(m-1) ≥ 10 degrees of freedom: more and
smaller folds gain little over that, and n' should be as close as can be to the size that a model is really trained on.
Of the splits (at most 25) those with the largest V̂ are used, as many, and with such n' and n_V, as make K m n_V n'
largest: records scored, times records trained on. Where nothing fits m is lowered, to 2 at the least.
"""

from __future__ import annotations

from itertools import product
from math import ceil, comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import nctdtrinc, stdtr, stdtrit

from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.validation import Array, check_integer, check_number
from outofcluster.auditing.effect_result import POWER, FoldSizes, LeakageTest
from outofcluster.sampling.fitting import one_blas_thread, seed_open_states, take_rows
from outofcluster.sampling.losses import Loss, resolve_loss
from outofcluster.split.folds import Fold, make_folds

__all__ = ["FoldSizes", "LeakageTest", "detectable_effect", "leakage_test"]

Rows = NDArray[np.int64]
Folds = tuple[Fold, ...]

_LEAST, _DEGREES, _MOST_SPLITS, _MAX_DRAWS = 5, 10, 25, 100

_SHARES = (1.0, 0.97, 0.94, 0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.25)
"""Shares of the records for which sizes are tried in turn, since splits may compete for the same records."""


def leakage_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    cv: Any = None,
    loss: Any = None,
    alpha: float = 0.05,
    random_state: int | None = None,
    n_jobs: int | None = None,
) -> LeakageTest:
    """Test whether training on records of the validation clusters lowers their loss.

    If it does, errors of the clustering make a cross-validated score optimistic. Their rate need not be known.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself. Every ``random_state`` that it
        leaves open is set from the stream of random numbers.
    X, y : array, sparse matrix, or data frame; array
        Records and targets.
    groups : array of shape (n,)
        Observed cluster of every record.
    cv : int, splitter or iterable, optional
        Splits that keep every cluster on one side, by default 5 folds; few large validation sides serve best.
    loss : str, callable or scorer, optional
        "zero_one" (default for classifiers), "squared_error" (for regressors), "absolute_error", "log_loss", "brier", a
        function of (y_true, y_pred), or a scikit-learn scorer.
    alpha : float, default=0.05
        Level of the test.
    random_state, n_jobs : int, optional
        Seed; workers, as in joblib, on whose number the result does not depend.

    Returns
    -------
    LeakageTest

    Examples
    --------
    Ten clusters, each with a level of its own that one of the features gives away:

    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from outofcluster.auditing.effect_test import leakage_test
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(10), 40)
    >>> X = np.column_stack([rng.standard_normal(10)[groups], rng.standard_normal(400)])
    >>> y = rng.standard_normal(10)[groups] + 0.3 * rng.standard_normal(400)
    >>> test = leakage_test(RandomForestRegressor(n_estimators=10), X, y, groups=groups, random_state=0)
    >>> print(test)
    A cluster effect was found: training on records of the validation clusters lowers their loss, e(p0) > e(1).
    ...
    """
    level = _check_probability("alpha", alpha)
    seed = None if random_state is None else check_integer("random_state", random_state, least=0)
    if n_jobs is not None and check_integer("n_jobs", n_jobs, least=-1024) == 0:
        raise InputError("n_jobs must be None or a whole number other than 0, got 0.")
    from joblib import Parallel, delayed
    from sklearn.base import clone, is_classifier

    resolved = resolve_loss(loss, estimator, y)
    try:
        clone(estimator)
    except Exception as error:
        name, reason = type(estimator).__name__, " ".join(str(error).split())
        raise InputError(f"estimator must be one that scikit-learn can clone, got {name}: {reason}") from None
    folds = make_folds(X, y, groups, cv)
    target, labels = np.asarray(y), None
    if is_classifier(estimator) and (target.ndim == 1 or target.shape[1] == 1):
        labels = np.unique(target, return_inverse=True)[1].ravel()
    root = np.random.SeedSequence(seed)
    rng = np.random.default_rng(root.spawn(1)[0])
    sizes, pairs = _draw(folds, len(target), labels, resolved.kind == "per_resample", rng)
    z = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_score)(
            estimator, resolved, child, *(take_rows(data, rows) for rows in pair for data in (X, y))
        )
        for pair, child in zip(pairs, root.spawn(len(pairs)), strict=True)
    )
    losses = np.array(z, dtype=float).reshape(-1, 2, sizes.n_train_folds)
    return _test(losses[:, 0], losses[:, 1], sizes, level, resolved.name)


def detectable_effect(
    n_train_folds: int,
    n_validation_folds: int,
    deviation_train: float,
    deviation_validation: float,
    *,
    alpha: float = 0.05,
    power: float = POWER,
) -> float:
    """Difference of the mean losses that Welch's test finds with a wanted probability (noncentral t distribution).

    Parameters
    ----------
    n_train_folds, n_validation_folds : int
        Number of losses of either kind, at least 2.
    deviation_train, deviation_validation : float
        Their standard deviations.
    alpha, power : float
        Level of the test, and wanted probability, above the level.

    Returns
    -------
    float

    Examples
    --------
    >>> from outofcluster.auditing.effect_test import detectable_effect
    >>> round(detectable_effect(10, 10, 0.1, 0.1), 4), round(detectable_effect(40, 40, 0.1, 0.1), 4)
    (0.1156, 0.0561)
    """
    n = check_integer("n_train_folds", n_train_folds, least=2)
    nv = check_integer("n_validation_folds", n_validation_folds, least=2)
    s = check_number("deviation_train", deviation_train, least=0)
    sv = check_number("deviation_validation", deviation_validation, least=0)
    level, wanted = _check_probability("alpha", alpha), _check_probability("power", power)
    if wanted <= level:
        raise InputError(f"power must be above alpha, {level:g}, got {wanted:g}.")
    return _detectable(*_welch(s**2 / n, sv**2 / nv, n - 1, nv - 1), level, wanted)


def _check_probability(name: str, value: Any) -> float:
    number = check_number(name, value, least=0, strict=True)
    if number >= 1:
        raise InputError(f"{name} must lie between 0 and 1, got {number:g}.")
    return number


def _welch(a: float, b: float, df_a: int, df_b: int) -> tuple[float, float]:
    """Standard error of a difference of means whose variances are a and b, and its degrees of freedom."""
    share = a / (a + b) if a + b > 0 else df_a / (df_a + df_b)
    return sqrt(a + b), 1 / (share**2 / df_a + (1 - share) ** 2 / df_b)


def _detectable(error: float, df: float, alpha: float, power: float) -> float:
    return error * float(nctdtrinc(df, 1 - power, stdtrit(df, 1 - alpha)))


def _test(z: Array, zv: Array, sizes: FoldSizes, alpha: float, loss: str) -> LeakageTest:
    k, m = z.shape
    # Variances of the means of all, from the spread around the means of the splits.
    a, b = (float(losses.var(axis=1, ddof=1).mean()) / losses.size for losses in (z, zv))
    error, df = _welch(a, b, k * (m - 1), k * (m - 1))
    difference, rounding = float(z.mean() - zv.mean()), 1e-12 * float(np.abs([z, zv]).max())
    if error > rounding:
        statistic, detectable = difference / error, _detectable(error, df, alpha, max(POWER, alpha))
        pvalue = float(stdtr(df, -statistic))
    else:
        # No spread at all: what a permutation test says, the chance that random labels are sorted as these are.
        statistic, detectable = 0.0 if abs(difference) <= rounding else float(np.copysign(np.inf, difference)), np.nan
        pvalue = float(comb(2 * m, m)) ** -k if statistic > 0 else 1.0
    return LeakageTest(statistic, df, pvalue, pvalue <= alpha, alpha, difference, detectable, z, zv, sizes, k, loss)


def _fit_and_score(
    estimator: Any, loss: Loss, seed: np.random.SeedSequence, X: Any, y: Any, X_scored: Any, y_scored: Any
) -> float:
    from sklearn.base import clone

    model = clone(estimator)
    seed_open_states(model, np.random.default_rng(seed))
    try:
        with one_blas_thread():
            model.fit(X, y)
        return loss.resample(model, X_scored, y_scored)
    except InputError:
        raise
    except Exception as error:
        raise FitError(f"The estimator failed on a training fold: {type(error).__name__}: {error}", None) from error


def _draw(
    folds: Folds, n: int, labels: Rows | None, both: bool, rng: np.random.Generator
) -> tuple[FoldSizes, list[tuple[Rows, Rows]]]:
    """Sizes, and the rows of every training fold with those of its validation fold: by split, those from T̂ first."""
    if labels is not None:
        folds = tuple(f for f in folds if np.ptp(labels[f.train]) > 0 and np.ptp(labels[f.validation]) > 0)
        if not folds:
            raise InputError("y must hold at least two classes on both sides of a fold of cv, got no such fold.")
    folds = tuple(sorted(folds, key=lambda fold: -len(fold.validation)))[:_MOST_SPLITS]
    for lowered, share in product(range(_DEGREES // 2), _SHARES):
        k, sizes = _plan(folds, n, labels, both, lowered, share)
        for _ in range(_MAX_DRAWS if k else 0):
            pairs = _deal(folds[:k], n, sizes, rng)
            if pairs is None:
                break
            # Two classes in every training fold, or in both kinds of folds.
            mixed = (rows for pair in pairs for rows in (pair if both else pair[:1]))
            if labels is None or all(np.ptp(labels[rows]) > 0 for rows in mixed):
                return sizes, pairs
    least = min(_least((fold,), 2, labels) for fold in folds)
    needed = FoldSizes(2, 2, least, least if both else _LEAST)
    raise InputError(
        f"cv must leave at least {needed.from_validation} validation and {needed.from_train} training records a split "
        f"(training folds of {needed.n_train} records, validation folds of {needed.n_scored}), got at most "
        f"{len(folds[0].validation)} and {max(len(fold.train) for fold in folds)}; use fewer folds or more records."
    )


def _plan(folds: Folds, n: int, labels: Rows | None, both: bool, lowered: int, share: float) -> tuple[int, FoldSizes]:
    """Splits to use, and the sizes with the largest K m n_V n' that a share of the records allows; 0 if none fit."""
    best, plan = 1, (0, FoldSizes(0, 0, 0, 0))
    used = np.zeros(n, dtype=bool)
    for k, last in enumerate(folds, start=1):
        used[last.train] = used[last.validation] = True
        m = ceil(1 + _DEGREES / 2 / k) - lowered
        least, most = _least(folds[:k], m, labels), min(len(fold.train) for fold in folds[:k]) // max(m, 2)
        if m < 2 or most < least:
            continue
        n_train = np.unique(np.geomspace(least, most, 300).astype(int))
        of_validation, of_all = int(share * len(last.validation)) // m, int(share * used.sum()) // (2 * k * m)
        scored = np.minimum((of_validation - n_train) // 2, of_all - n_train)
        merit = np.where(scored >= (least if both else _LEAST), k * m * scored * n_train, 0)
        i = int(merit.argmax())
        if merit[i] >= best:
            best, plan = int(merit[i]), (k, FoldSizes(m, m, int(n_train[i]), int(scored[i])))
    return plan


def _least(folds: Folds, m: int, labels: Rows | None) -> int:
    """Smallest training fold: one that lets a draw have two classes in every training fold about every second time."""
    n_train = _LEAST
    if labels is not None:
        sides = [labels[rows] for fold in folds for rows in (fold.train, fold.validation)]
        shares = [np.bincount(side) / len(side) for side in sides]
        while m * sum(float((share**n_train).sum()) for share in shares) > 0.5:
            n_train += max(1, n_train // 20)
    return n_train


def _deal(folds: Folds, n: int, sizes: FoldSizes, rng: np.random.Generator) -> list[tuple[Rows, Rows]] | None:
    """Give every record one role at most; None if the records do not suffice."""
    # A record that several splits would validate on goes to one of them, each with the same probability.
    home, seen = np.full(n, -1), np.zeros(n)
    for i, fold in enumerate(folds):
        seen[fold.validation] += 1
        home[fold.validation[rng.random(len(fold.validation)) * seen[fold.validation] < 1]] = i
    own = [rng.permutation(np.flatnonzero(home == i))[: sizes.from_validation] for i in range(len(folds))]
    if min(map(len, own)) < sizes.from_validation:
        return None
    free = np.ones(n, dtype=bool)
    free[np.concatenate(own)] = False
    # Training records in four helpings, to the split with the least choice first, so that none is left with nothing
    # and each gets a sample of all its T̂.
    taken: list[Rows] = [np.zeros(0, dtype=np.int64) for _ in folds]
    for helping in np.diff(np.linspace(0, sizes.from_train, 5).round().astype(int)):
        for i in np.argsort([free[fold.train].sum() for fold in folds], kind="stable"):
            pool = folds[i].train[free[folds[i].train]]
            if len(pool) < helping:
                return None
            taken[i] = np.concatenate([taken[i], rng.permutation(pool)[:helping]])
            free[taken[i]] = False
    pairs: list[tuple[Rows, Rows]] = []
    for from_train, from_validation in zip(taken, own, strict=True):
        inner, scored = np.split(from_validation, [sizes.n_validation_folds * sizes.n_train])
        training = np.concatenate([rng.permutation(from_train), inner]).reshape(-1, sizes.n_train)
        pairs.extend(zip(training, scored.reshape(-1, sizes.n_scored), strict=True))
    return pairs

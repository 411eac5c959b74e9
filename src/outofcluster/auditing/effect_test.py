r"""Is there a cluster effect for leakage to act on? The paper's hypothesis test (Section 4), over one split or many.

With z and z' the mean validation losses of models trained on records of T̂ and of V̂, m of each kind in each of K splits
(:mod:`outofcluster.sampling.effect` says how they are drawn), and s², s'² their variances around the means of their own
split, the test of e(p0) ≤ e(1) against e(p0) > e(1) rejects when

.. math:: T = \frac{\bar z - \bar z'}{\sqrt{(s^2 + s'^2)/(Km)}} > t_{1-α,ν}, \qquad
          ν = K(m-1)\,\frac{(s^2+s'^2)^2}{s^4 + s'^4} ,

which is Welch's test for K = 1. (The paper's null hypothesis is to be read as e_0 = e(p0).)
"""

from __future__ import annotations

from math import comb, sqrt
from typing import Any

import numpy as np
from scipy.special import nctdtrinc, stdtr, stdtrit

from outofcluster._base.exceptions import InputError
from outofcluster._base.randomness import RandomState, seed_of
from outofcluster._base.validation import check_integer, check_number
from outofcluster.auditing.effect_result import POWER, LeakageTest
from outofcluster.sampling.audit_samples import EffectLosses
from outofcluster.sampling.effect import sample_effect
from outofcluster.sampling.task import Task, check_n_jobs
from outofcluster.split.folds import make_folds

__all__ = ["LeakageTest", "detectable_effect", "evaluate_effect", "leakage_test"]

ALPHA = 0.05
"""Level of the test by default."""


def leakage_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    cv: Any = None,
    loss: Any = None,
    alpha: float = ALPHA,
    params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
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
    params : dict, optional
        Parameters of ``fit``; those with one entry per record are indexed along with the records.
    n_jobs : int, optional
        Workers, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator, optional
        Seed, or where to draw one from.

    Returns
    -------
    LeakageTest

    Examples
    --------
    Ten clusters, each with a level of its own that one of the features gives away:

    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from outofcluster import leakage_test
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
    seed = seed_of(random_state)
    check_n_jobs(n_jobs)
    task = Task.check(estimator, X, y, groups=groups, loss=loss, params=params)
    folds = make_folds(X, y, groups, cv)
    return evaluate_effect(
        sample_effect(task, folds, seed=np.random.SeedSequence(seed), n_jobs=n_jobs), task.loss.name, alpha=level
    )


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


def evaluate_effect(losses: EffectLosses, loss: str, *, alpha: float = ALPHA) -> LeakageTest:
    """The test for a cluster effect on losses that were sampled for it.

    Parameters
    ----------
    losses : EffectLosses
        Losses of models trained on T̂ and on V̂.
    loss : str
        Name of the loss.
    alpha : float, default=0.05
        Level of the test.

    Returns
    -------
    LeakageTest
    """
    z, zv, sizes = losses.train, losses.validation, losses.sizes
    k, m = z.shape
    # Variances of the means of all, from the spread around the means of the splits.
    a, b = (float(side.var(axis=1, ddof=1).mean()) / side.size for side in (z, zv))
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

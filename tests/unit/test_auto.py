"""The automatic curve: an average over learning curves, against one written out by hand, and what it is good for."""

import numpy as np
import pytest
from scipy.stats import binom

import outofcluster as ooc
from outofcluster.errors import InputError

p = np.array([0.1, 0.13, 0.2, 0.35, 0.6])
se = np.array([3e-4, 5e-4, 6e-4, 8e-4, 1e-3])


def losses(e, n=100):
    return binom.pmf(np.arange(n + 1), n, p[:, None]) @ e


def learning_curve(n, kappa, beta, floor=0.2, fall=0.1):
    return floor + fall / (1 + (np.arange(n + 1) / kappa) ** beta)


def by_hand(b, n):
    """The formula of the module's head, one curve after the other."""
    scores, values = [], []
    variance = se**2 + (0.01 * (b[0] - b[-1])) ** 2
    j = np.arange(n + 1)
    curves = [
        (1 / (1 + (j / kappa) ** beta), -3 * np.log(beta) ** 2)
        for beta in (0.7, 0.85, 1.0, 1.2, 1.4)
        for kappa in np.geomspace(0.3, n / 2, 30)
    ]
    with np.errstate(divide="ignore"):
        curves += [
            (1 / (1 + s * j / (n - j)) ** q, 0.0) for q in (1.0, 1.5, 2.0, 3.0) for s in np.geomspace(0.2, 2, 12)
        ]
    for h, prior in curves:
        Ah = losses(h, n)
        X = np.stack([np.ones(5), Ah], axis=1) / np.sqrt(variance)[:, None]
        (c, A), *_ = np.linalg.lstsq(X, b / np.sqrt(variance), rcond=None)
        if A < 0:
            c, A = np.average(b, weights=1 / variance), 0.0
        chi2 = ((b - c - A * Ah) ** 2 / variance).sum()
        amplification = (1 - Ah[-1]) / (Ah[0] - Ah[-1])
        scores.append(-chi2 / 2 - 3 * np.log(amplification) + prior)
        values.append((c + A, A * (1 - Ah[0])))
    share = np.exp(np.array(scores) - max(scores))
    share /= share.sum()
    e0, optimism = np.array(values).T
    return share @ e0, share @ optimism, share @ (optimism - share @ optimism) ** 2


@pytest.mark.parametrize(("kappa", "beta"), [(3, 1.0), (15, 0.8), (15, 1.4), (200, 1.0)])
def test_against_the_formula_by_hand(kappa, beta):
    b = losses(learning_curve(100, kappa, beta)) + se * np.array([1, -0.5, 0.3, 1, -1])
    curve = ooc.AutoCurve().fit_points(p, b, 100, standard_errors=se)
    e0, optimism, choice = by_hand(b, 100)
    assert curve.e0_ == pytest.approx(e0, rel=1e-9)
    assert curve.optimism_ == pytest.approx(optimism, rel=1e-8)
    assert curve.choice_variance_ == pytest.approx(choice, rel=1e-6)


@pytest.mark.parametrize(("kappa", "beta"), [(5, 1.0), (15, 1.0), (15, 0.8), (60, 1.2)])
def test_recovers_learning_curves_within_its_own_doubt(kappa, beta):
    rng = np.random.default_rng(0)
    truth = learning_curve(100, kappa, beta)
    errors, doubts = [], []
    for _ in range(40):
        b = losses(truth) + se * rng.standard_normal(5)
        curve = ooc.AutoCurve().fit_points(p, b, 100, standard_errors=se)
        within = curve.derivative_**2 @ se**2
        errors.append(curve.e0_ - truth[0])
        doubts.append(np.sqrt(within + curve.choice_variance_))
    assert np.mean(np.abs(errors) < 2 * np.array(doubts)) > 0.75
    naive = truth[0] - losses(truth)[0]
    assert np.sqrt(np.mean(np.square(errors))) < 0.6 * naive


@pytest.mark.parametrize("power", [1, 2])
def test_least_squares_compromises_are_among_the_curves(power):
    """A mean over both sides has a loss quadratic in the share of leaked records; some losses are linear in it."""
    b = 0.7 + 0.3 * (1 - p) ** power
    curve = ooc.AutoCurve().fit_points(p, b, 500, standard_errors=se)
    assert curve.optimism_ == pytest.approx(1 - b[0], rel=0.1)


def test_the_derivative_with_shares_held():
    """Losses that one curve fits exactly: shares do not move to first order where all residuals are alike."""
    b = losses(learning_curve(100, 12, 1.0))
    curve = ooc.AutoCurve().fit_points(p, b, 100, standard_errors=np.full(5, 10.0))
    # With so much noise the shares are the prior's, whatever the losses.
    moved = b + 1e-4 * np.array([1, -2, 0.5, 1, 3])
    again = ooc.AutoCurve().fit_points(p, moved, 100, standard_errors=np.full(5, 10.0))
    assert again.e0_ - curve.e0_ == pytest.approx(curve.derivative_ @ (moved - b), rel=0.02)
    assert again.optimism_ - curve.optimism_ == pytest.approx(curve.optimism_derivative_ @ (moved - b), rel=0.02)


def test_no_effect_gives_no_correction():
    rng = np.random.default_rng(1)
    optimism = [
        ooc.AutoCurve().fit_points(p, 0.3 + se * rng.standard_normal(5), 100, standard_errors=se).optimism_
        for _ in range(200)
    ]
    assert min(optimism) >= -1e-9
    assert np.mean(optimism) < 3 * se[0]
    rising = ooc.AutoCurve().fit_points(p, 0.3 + 0.05 * p, 100, standard_errors=se)
    assert rising.optimism_ == pytest.approx(0, abs=1e-9)


def test_more_noise_makes_it_claim_less():
    b = losses(learning_curve(100, 5, 1.0))
    sure = ooc.AutoCurve().fit_points(p, b, 100, standard_errors=se)
    unsure = ooc.AutoCurve().fit_points(p, b, 100, standard_errors=30 * se)
    assert unsure.optimism_ < sure.optimism_


def test_the_cost_and_the_answer_do_not_depend_on_n():
    x = np.linspace(0, 1, 5)
    levels = 0.1 + 0.5 * x
    for n in (10**4, 10**6, 10**9):
        b = 0.2 + 0.1 / (1 + levels / 0.15)
        curve = ooc.AutoCurve().fit_points(levels, b, n, standard_errors=np.full(5, 1e-4))
        assert curve.e0_ == pytest.approx(0.3, abs=0.02)


def test_too_few_levels_and_wrong_errors():
    with pytest.raises(InputError, match="at least 3 levels"):
        ooc.AutoCurve().fit_points([0.1, 0.5], [0.3, 0.2], 100)
    with pytest.raises(InputError, match="standard_errors must have one value for each level"):
        ooc.AutoCurve().fit_points(p, np.ones(5), 100, standard_errors=[0.1])
    with pytest.raises(InputError, match="standard_errors must not be negative"):
        ooc.AutoCurve().fit_points(p, np.ones(5), 100, standard_errors=[0.1, 0.1, -1, 0.1, 0.1])

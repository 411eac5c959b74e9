"""The automatic curve: an average over learning curves, against one written out by hand, and what it is good for."""

import numpy as np
import pytest
from scipy.stats import binom

import outofcluster as ooc
from outofcluster._base.exceptions import InputError

p = np.array([0.1, 0.13, 0.2, 0.35, 0.6])
se = np.array([3e-4, 5e-4, 6e-4, 8e-4, 1e-3])


def losses(e, n=100):
    return binom.pmf(np.arange(n + 1), n, p[:, None]) @ e


def learning_curve(n, kappa, beta, floor=0.2, fall=0.1):
    return floor + fall / (1 + (np.arange(n + 1) / kappa) ** beta)


def by_hand(b, n):
    """The formula of the module's head, one curve after the other."""
    scores, values, priors = [], [], []
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
        priors.append(prior - 3 * np.log(amplification))
        scores.append(-chi2 / 2 + priors[-1])
        values.append((c + A, A * (1 - Ah[0])))
    flat = np.average(b, weights=1 / variance)
    scores.append(-((b - flat) ** 2 / variance).sum() / 2 + np.log(4 * np.exp(priors).sum()))
    values.append((flat, 0.0))
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


# --- several sizes ------------------------------------------------------------------------------------

SIZES = (100, 28, 8)


def several(truth, noise=None):
    """Levels, losses, sizes and errors for losses truth(x, n) at three sizes."""
    levels, n = np.tile(p, 3), np.repeat(SIZES, 5)
    b = np.array([binom.pmf(j := np.arange(m + 1), m, q) @ truth(j / m, m) for q, m in zip(levels, n, strict=True)])
    errors = np.tile(se, 3)
    return levels, b if noise is None else b + errors * noise, n, errors


def steep(x, n):
    """A shape in x that half falls at 2 of 100 records; level and height depend on the size."""
    return 0.2 + 1 / n + (0.1 + 0.1 / np.sqrt(n)) / (1 + 50 * x)


def dense(means, levels, b, n, errors):
    """The random walk as one least-squares problem: levels c, the first height, and the steps between sizes.

    ``means`` are those of a shape, one for each loss.

    Returns the height at the largest size, the logarithm of the likelihood, and the heights' posterior variance.
    """
    sizes = sorted(set(n))
    walks, height, score = [], None, 0.0
    for count in range(1, len(sizes) + 1):
        seen = [i for i in range(len(b)) if n[i] in sizes[:count]]
        if count > 1:
            walks.append(0.2**2 * np.log2(sizes[count - 1] / sizes[count - 2]) * max(height, 0) ** 2)
        rows, right = [], []
        for i in seen:
            place = sizes.index(n[i])
            same = n == n[i]
            fall = b[same][levels[same].argmin()] - b[same][levels[same].argmax()]
            granted = 0.01 + 0.02 * np.log2(max(n) / n[i])
            scale = np.sqrt(errors[i] ** 2 + (granted * fall) ** 2)
            row = np.zeros(count + 1 + len(walks))
            row[place] = 1
            row[count : count + 1 + place] = means[i]
            rows.append(row / scale)
            right.append(b[i] / scale)
        for step, walk in enumerate(walks):
            row = np.zeros(count + 1 + len(walks))
            row[count + 1 + step] = 1 / np.sqrt(walk)
            rows.append(row)
            right.append(0.0)
        system, right = np.array(rows), np.array(right)
        solution = np.linalg.lstsq(system, right, rcond=None)[0]
        at_largest = np.r_[np.zeros(count), np.ones(1 + len(walks))]
        height = float(at_largest @ solution)
        variance = float(at_largest @ np.linalg.inv(system.T @ system) @ at_largest)
        misfit = float(((system @ solution - right) ** 2).sum())
        score = -misfit / 2
    # The likelihood's determinant: of all losses against those of the smallest size, with unit noise.
    free = np.linalg.slogdet(system.T @ system)[1]
    alone = 0.0
    for place in range(len(sizes)):
        own = np.array([row[[place]] for row in rows if row[place]])
        alone += np.linalg.slogdet(own.T @ own)[1]
    first = np.array([row[[0, len(sizes)]] for row in rows if row[0]])
    alone += np.linalg.slogdet(first.T @ first)[1] - np.linalg.slogdet(first[:, :1].T @ first[:, :1])[1]
    alone += sum(np.log(1 / walk) for walk in walks)
    return height, score - (free - alone) / 2, variance


def test_several_sizes_against_one_dense_problem():
    """Every shape's height, share and variance, by linear algebra that knows nothing of a filter."""
    from outofcluster.curves.average import LOG_PRIOR, falls

    levels, b, n, errors = several(steep, np.random.default_rng(3).standard_normal(15))
    curve = ooc.AutoCurve().fit_points(levels, b, n, standard_errors=errors)
    means = [
        binom.pmf(np.arange(size + 1), size, level) @ falls(np.arange(size + 1) / size, 100)
        for level, size in zip(levels, n, strict=True)
    ]
    scores, optimism = [], []
    for prior, mean in zip(LOG_PRIOR, np.transpose(means), strict=True):
        height, score, variance = dense(mean, levels, b, n, errors)
        lowest, highest = mean[n == 100][[0, -1]]
        caution = prior - 3 * np.log((1 - highest) / (lowest - highest))
        scores.append(score - min(height, 0) ** 2 / variance / 2 + caution)
        optimism.append(max(height, 0) * (1 - lowest))
    # The losses fall by far more than their noise, so that a line without a fall has no share.
    share = np.exp(np.array(scores) - max(scores))
    share /= share.sum()
    assert curve.optimism_ == pytest.approx(share @ optimism, rel=1e-6)
    # The random walk adds to what the choice between shapes contributes.
    assert curve.choice_variance_ > share @ (optimism - share @ optimism) ** 2


def test_one_size_given_as_several_is_one_size():
    b = losses(learning_curve(100, 12, 1.0))
    one = ooc.AutoCurve().fit_points(p, b, 100, standard_errors=se)
    same = ooc.AutoCurve().fit_points(p, b, np.full(5, 100), standard_errors=se)
    assert (same.e0_, same.optimism_, same.choice_variance_) == (one.e0_, one.optimism_, one.choice_variance_)


@pytest.mark.parametrize(
    ("curve", "optimism"),
    [(lambda x, n: 0.25 + 0.05 / (1 + 200 * x), 0.0475), (lambda x, n: 0.25 + 0.005 * (1 - x) ** 2, 0.001)],
    ids=["a fall that is over at the lowest level", "hardly any fall"],
)
def test_small_sets_show_what_the_full_size_cannot(curve, optimism):
    rng = np.random.default_rng(0)
    errors = {"one": [], "three": []}
    for _ in range(20):
        levels, b, n, se = several(curve, 0.3 * rng.standard_normal(15))
        for sizes, keep in (("one", n == 100), ("three", n > 0)):
            curve_fit = ooc.AutoCurve().fit_points(levels[keep], b[keep], n[keep], standard_errors=0.3 * se[keep])
            errors[sizes].append(curve_fit.optimism_ - optimism)
    one, three = (np.sqrt(np.mean(np.square(each))) for each in errors.values())
    assert three < 0.5 * one or three < 0.001
    assert three < 0.5 * optimism or three < 0.001


def test_derivatives_over_several_sizes():
    levels, b, n, _ = several(steep)
    errors = np.full(15, 10.0)  # so much noise that shares and gains are the prior's, whatever the losses
    curve = ooc.AutoCurve().fit_points(levels, b, n, standard_errors=errors)
    moved = b + 1e-5 * np.random.default_rng(1).standard_normal(15)
    again = ooc.AutoCurve().fit_points(levels, moved, n, standard_errors=errors)
    assert again.e0_ - curve.e0_ == pytest.approx(curve.derivative_ @ (moved - b), rel=0.02)
    assert again.optimism_ - curve.optimism_ == pytest.approx(curve.optimism_derivative_ @ (moved - b), rel=0.02)
    assert len(curve.residual_) == 15


def test_a_size_with_other_losses_is_left_out():
    levels, b, n, errors = several(steep)
    b[n == 8] *= 3
    curve = ooc.AutoCurve().fit_points(levels, b, n, standard_errors=errors)
    without = ooc.AutoCurve().fit_points(levels[n > 8], b[n > 8], n[n > 8], standard_errors=errors[n > 8])
    assert curve.e0_ == without.e0_
    assert (curve.derivative_[n == 8] == 0).all()


def test_losses_below_zero_may_have_several_sizes_too():
    """A score that is better when larger, as its negative: sizes count as they do for other losses."""
    levels, b, n, errors = several(steep)
    shifted = ooc.AutoCurve().fit_points(levels, b - 1, n, standard_errors=errors)
    plain = ooc.AutoCurve().fit_points(levels, b, n, standard_errors=errors)
    assert shifted.optimism_ == pytest.approx(plain.optimism_, rel=1e-9)
    assert (shifted.derivative_[n == 8] != 0).any()


def test_a_curve_cannot_start_above_what_the_loss_can_be():
    b = losses(learning_curve(100, 2, 1.0, floor=0.2, fall=1.2))
    free = ooc.AutoCurve().fit_points(p, b, 100, standard_errors=0.3 * se)
    bounded = ooc.AutoCurve(1.0).fit_points(p, b, 100, standard_errors=0.3 * se)
    assert free.e0_ > 1
    assert bounded.e0_ <= 1
    unconcerned = ooc.AutoCurve(50.0).fit_points(p, b, 100, standard_errors=0.3 * se)
    assert unconcerned.e0_ == pytest.approx(free.e0_, rel=1e-12)
    with pytest.raises(InputError, match="largest must be a number"):
        ooc.AutoCurve(np.nan).fit_points(p, b, 100)


def test_sizes_are_checked():
    levels, b, n, _ = several(steep)
    with pytest.raises(InputError, match=r"n must be one whole number for PolynomialCurve"):
        ooc.PolynomialCurve(2).fit_points(levels, b, n)
    with pytest.raises(InputError, match=r"one for each level of p, got 14 for 15 levels"):
        ooc.AutoCurve().fit_points(levels, b, n[:-1])
    with pytest.raises(InputError, match=r"n\[3\] must be"):
        ooc.AutoCurve().fit_points(levels, b, [100, 100, 100, 0, *n[4:]])
    with pytest.raises(InputError, match=r"distinct levels, got 0.1 more than once"):
        ooc.AutoCurve().fit_points(np.r_[levels, 0.1], np.r_[b, 0.3], np.r_[n, 8])
    with pytest.raises(InputError, match="at least one run"):
        ooc.AutoCurve().fit([], 0.1)

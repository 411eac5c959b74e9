"""The spread over clusters, against closed forms and simulated clusters whose truth is known."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge

import outofcluster as ooc
from outofcluster.auditing.spread import fit_spread

ANY = (-np.inf, np.inf)


def clusters(rng, sizes, tau, sigma):
    code = np.repeat(np.arange(len(sizes)), sizes)
    return (tau * rng.standard_normal(len(sizes)))[code] + sigma * rng.standard_normal(len(code)), code


def test_equal_sizes_without_noise_are_student_s():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(25)
    losses, code = np.repeat(y, 4), np.repeat(np.arange(25), 4)
    fitted = fit_spread(losses, code, np.full(25, 4), ANY, 0.95)
    reach = stats.t.ppf(0.975, 24) * y.std(ddof=1) * np.sqrt(1 + 1 / 25)
    assert fitted.std == pytest.approx(y.std(ddof=1))
    # A grid of 200 points stands for the chi-squared law.
    np.testing.assert_allclose(fitted.interval, (y.mean() - reach, y.mean() + reach), rtol=0.01)
    wanted = np.sqrt(24 * y.var(ddof=1) / stats.chi2.ppf([0.975, 0.025], 24))
    np.testing.assert_allclose(fitted.std_interval, wanted, rtol=1e-6)


def test_equal_sizes_are_the_analysis_of_variance():
    rng = np.random.default_rng(1)
    losses, code = clusters(rng, np.full(40, 6), 1.0, 2.0)
    y = losses.reshape(40, 6)
    within = y.var(axis=1, ddof=1).mean()
    fitted = fit_spread(losses, code, np.full(40, 6), ANY, 0.95)
    assert fitted.std**2 == pytest.approx(y.mean(axis=1).var(ddof=1) - within / 6)


def test_unequal_sizes_solve_the_moment_equation():
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 30, 60)
    losses, code = clusters(rng, sizes, 0.7, 1.5)
    fitted = fit_spread(losses, code, sizes, ANY, 0.95)
    y = np.bincount(code, losses) / sizes
    noise = sum(((losses[code == c] - y[c]) ** 2).sum() for c in range(60)) / (sizes - 1).sum() / sizes
    weights = 1 / (fitted.std**2 + noise)
    assert (weights * (y - np.average(y, weights=weights)) ** 2).sum() == pytest.approx(59, rel=1e-6)


def test_clusters_that_are_alike_have_no_spread():
    losses, code = clusters(np.random.default_rng(5), np.full(50, 4), 0.0, 1.0)
    fitted = fit_spread(losses, code, np.full(50, 4), ANY, 0.95)
    assert fitted.std < 0.25 < fitted.observed
    assert fitted.std_interval[0] == 0
    assert fitted.interval[1] - fitted.interval[0] < 2 * 1.96 * fitted.observed


@pytest.mark.parametrize(("count", "equal"), [(30, True), (30, False), (100, False)])
def test_a_new_cluster_lies_within_the_prediction_interval(count, equal):
    rng, tau = np.random.default_rng(7), 0.8
    covered = []
    for _ in range(150):
        sizes = np.full(count, 8) if equal else np.minimum(1 + rng.geometric(0.2, count), 40)
        losses, code = clusters(rng, sizes, tau, 1.5)
        low, high = fit_spread(losses, code, sizes, ANY, 0.95).interval
        covered.append(stats.norm.cdf(high / tau) - stats.norm.cdf(low / tau))
    assert 0.93 < np.mean(covered) < 0.97


def test_skewed_clusters_have_a_skewed_interval():
    rng = np.random.default_rng(3)
    code = np.repeat(np.arange(100), 10)
    losses = np.exp(0.8 * rng.standard_normal(100))[code] * rng.chisquare(1, 1000)
    fitted = fit_spread(losses, code, np.full(100, 10), (0.0, np.inf), 0.95)
    low, high = fitted.interval
    assert low > 0
    assert high - fitted.mean > 1.5 * (fitted.mean - low)


def hospitals(n_clusters=20, size=15, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_clusters), size)
    X = rng.standard_normal((len(groups), 3))
    y = X[:, 0] + (0.8 * rng.standard_normal(n_clusters))[groups] + 0.5 * rng.standard_normal(len(groups))
    return X, y, groups


def test_it_is_the_corrected_loss_of_the_audit_s_clusters():
    X, y, groups = hospitals()
    options = {"groups": groups, "error_model": "records", "leakage": 0.1, "n_fits": 100, "random_state": 0}
    result = ooc.audit(Ridge(), X, y, **options)
    spread = result.spread()
    assert spread.corrected
    assert len(spread.clusters) == 20
    assert np.average(spread.raw, weights=spread.records) == pytest.approx(result.corrected.value)
    assert spread.interval[0] < result.corrected.value < spread.interval[1]
    frame = spread.to_frame()
    assert frame["value"].is_monotonic_increasing
    # Values are drawn towards the mean, and as many clusters lie below it as before.
    assert frame["value"].std() < frame["raw"].std()
    assert ooc.Spread.from_dict(spread.to_dict()) == spread
    assert "prediction interval" in str(spread)


def test_greater_is_better_turns_the_sign():
    X, y, groups = hospitals()
    options = {"groups": groups, "leakage": None, "n_fits": 40, "random_state": 0}
    error, accuracy = (
        ooc.audit(LogisticRegression(), X, y > 0, scoring=scoring, **options).spread() for scoring in (None, "accuracy")
    )
    assert not error.corrected
    np.testing.assert_allclose(accuracy.interval, (1 - error.interval[1], 1 - error.interval[0]), atol=1e-9)
    assert accuracy.value == pytest.approx(error.value)


@pytest.mark.parametrize(
    ("n_clusters", "size", "message"),
    [(8, 20, "at least 10 held-out clusters, .* got 8"), (40, 1, "two or more records, .* got 0")],
)
def test_too_little_is_refused(n_clusters, size, message):
    X, y, groups = hospitals(n_clusters, size)
    result = ooc.audit(Ridge(), X, y, groups=groups, leakage=None, n_fits=40, units="records", random_state=0)
    with pytest.raises(ooc.InputError, match=message):
        result.spread()

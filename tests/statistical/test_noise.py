"""Claims about noise, by seeded simulation: the truth is the simulation's, never the code's under test."""

import numpy as np
import pytest

import outofcluster as ooc

pytestmark = pytest.mark.slow

p = np.linspace(0.1, 1, 12)
errors = np.linspace(0.01, 0.03, 12)


def draws(truth, count, seed=0):
    return truth + errors * np.random.default_rng(seed).standard_normal((count, len(p)))


@pytest.mark.parametrize(
    "curve",
    [ooc.PolynomialCurve(1), ooc.PolynomialCurve(3), ooc.SketchCurve(n_groups=3, penalty=0, monotone=False)],
    ids=["line", "cubic", "sketch"],
)
def test_the_influence_gives_the_variance_of_e0(curve):
    """Var e_0 = Σ w² σ²; the empirical variance of 4,000 fits has a relative error of about 2.2 %."""
    truth = 0.4 - 0.2 * p
    estimates = [curve.fit_points(p, b, 20).e0_ for b in draws(truth, 4000)]
    claimed = (curve.influence_**2 * errors**2).sum()
    assert np.var(estimates) == pytest.approx(claimed, rel=0.1)


def test_weighting_by_the_variances_is_better():
    truth = 0.4 - 0.2 * p
    noise = draws(truth, 2000)
    plain = [ooc.PolynomialCurve(2).fit_points(p, b, 20).e0_ for b in noise]
    weighted = [ooc.PolynomialCurve(2).fit_points(p, b, 20, weights=errors**-2).e0_ for b in noise]
    assert np.var(weighted) < 0.9 * np.var(plain)
    assert np.mean(weighted) == pytest.approx(0.4, abs=4 * np.std(weighted) / np.sqrt(2000))


@pytest.mark.parametrize("curve", [None, ooc.PolynomialCurve(3)], ids=["losses", "fitted curve"])
def test_the_shape_tests_keep_their_level_at_the_edge_of_the_shape(curve):
    """A constant is on the edge of decreasing, a line on the edge of convex: at most 5 % are called violations."""
    count = 600
    flat = line = 0
    for b, c in zip(draws(np.full(12, 0.3), count), draws(0.5 - 0.2 * p, count, seed=1), strict=True):
        if curve is None:
            one, other = ooc.diagnose_points(p, b, errors), ooc.diagnose_points(p, c, errors)
        else:
            one = ooc.diagnose_curve(curve.fit_points(p, b, 30), errors)
            other = ooc.diagnose_curve(curve.fit_points(p, c, 30), errors)
        flat += bool(one.decreasing.exceeds_noise)
        line += bool(other.convex.exceeds_noise)
    # 5 % and three standard errors of a proportion.
    assert flat <= count * (0.05 + 3 * np.sqrt(0.05 * 0.95 / count))
    assert line <= count * (0.05 + 3 * np.sqrt(0.05 * 0.95 / count))


def test_the_shape_tests_find_what_is_there():
    rising = sum(bool(ooc.diagnose_points(p, b, errors).decreasing.exceeds_noise) for b in draws(0.3 + 0.12 * p, 200))
    concave = sum(
        bool(ooc.diagnose_points(p, b, errors).convex.exceeds_noise) for b in draws(0.5 - 0.5 * (p - 0.1) ** 2, 200)
    )
    assert rising > 180
    assert concave > 180


def test_the_monotone_estimators_beat_the_naive_loss_on_a_steep_curve():
    """A curve that falls by 0.1 e^(-6p): the naive loss at p = 0.1 is 0.045 too low."""
    n, levels = 200, np.linspace(0.1, 1, 15)
    truth = 0.2 + 0.1 * (1 - 6 / n * levels) ** n
    rng = np.random.default_rng(5)
    noise = 1e-3 * rng.standard_normal((40, 15))
    for curve in (ooc.TrendFilterCurve(), ooc.CompletelyMonotoneCurve(), ooc.SketchCurve()):
        error = [curve.fit_points(levels, truth + row, n).e0_ - 0.3 for row in noise]
        assert np.sqrt(np.mean(np.square(error))) < 0.5 * 0.045

"""The sketch: groups, their columns, and Theorem 5.2."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.curves.paper.sketch import Groups
from references import cvxpy_trend

p = np.linspace(0.1, 1, 20)
b = 0.2 + 0.1 * np.exp(-5 * p) + 1e-3 * np.random.default_rng(2).standard_normal(20)


def explicit(curve, n, size):
    A = binom.pmf(np.arange(n + 1), n, p[:, None])
    groups = curve.groups_.of(np.arange(n + 1))
    return np.stack([A[:, groups == g].sum(axis=1) for g in range(size)], axis=1)


@given(st.integers(1, 10**9), st.integers(1, 40), st.booleans())
def test_adjacent_groups_partition_the_positions_evenly(n, n_groups, alone):
    n_groups = min(n_groups, n)
    groups = Groups.of_equal_size(n, n_groups, alone)
    assert groups.sizes.sum() == n + 1
    assert len(groups.sizes) == n_groups + alone
    assert not alone or groups.sizes[0] == 1
    assert np.ptp(groups.sizes[int(alone) :]) <= 1
    assert (groups.of(groups.edges[:-1]) == np.arange(len(groups.sizes))).all()
    assert groups.of(np.array([0, n])).tolist() == [0, len(groups.sizes) - 1]


@pytest.mark.parametrize("n", [20, 1000])
@pytest.mark.parametrize("alone", [True, False])
def test_sums_equal_explicit_sums(n, alone):
    curve = ooc.SketchCurve(n_groups=7, first_alone=alone).fit_points(p, b, n)
    np.testing.assert_allclose(curve.sketch_, explicit(curve, n, 7 + alone), atol=1e-12)


@pytest.mark.parametrize("penalty", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("monotone", [True, False])
def test_the_minimum_is_cvxpys(penalty, monotone):
    curve = ooc.SketchCurve(n_groups=6, penalty=penalty, monotone=monotone, first_alone=False).fit_points(p, b, 100)
    z = curve.values(curve.groups_.edges[:-1])
    S = explicit(curve, 100, 6)
    value = lambda x: np.linalg.norm(S @ x - b) + penalty * np.linalg.norm(np.diff(x, 2))  # noqa: E731
    assert value(z) <= value(cvxpy_trend(S, b, 2, penalty, monotone)) * (1 + 1e-6)
    if monotone:
        assert np.diff(z).max() <= 1e-9


@given(st.lists(st.floats(0, 1), min_size=20, max_size=20), st.integers(7, 10**9))
def test_monotone_whatever_the_losses(losses, n):
    curve = ooc.SketchCurve().fit_points(p, losses, n)
    values = curve.values(np.unique(np.linspace(0, n, 60).astype(int)))
    assert np.diff(values).max() <= 1e-7
    assert values.min() >= -1e-7


def test_the_estimate_settles_as_n_grows():
    small, large = (ooc.SketchCurve().fit_points(p, b, n).e0_ for n in (10**6, 10**9))
    assert small == pytest.approx(large, abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=13, max_size=13), st.integers(2, 8))
def test_theorem_5_2_bounds_the_error(steps, n_groups):
    """Exact losses of a decreasing curve, least squares: the bound holds, with the true e_0."""
    e = np.cumsum(steps[::-1])[::-1]
    n = 12
    levels = np.linspace(0.02, 1, 15)
    losses = binom.pmf(np.arange(n + 1), n, levels[:, None]) @ e
    curve = ooc.SketchCurve(n_groups=n_groups, penalty=0, monotone=False).fit_points(levels, losses, n)
    assert abs(curve.e0_ - e[0]) <= curve.error_factor_ * e[0] + 1e-8
    assert curve.error_bound_ == pytest.approx(curve.error_factor_ * abs(curve.e0_))


def test_the_bound_is_computed_from_its_definition():
    curve = ooc.SketchCurve(n_groups=5).fit_points(p, b, 30)
    A = binom.pmf(np.arange(31), 30, p[:, None])
    S = explicit(curve, 30, 6)
    means = (S / np.bincount(curve.groups_.of(np.arange(31))))[:, curve.groups_.of(np.arange(31))]
    factor = np.linalg.norm(A - means, axis=0).max() * 30 * np.linalg.norm(np.linalg.pinv(S)[0])
    assert curve.error_factor_ == pytest.approx(factor, rel=1e-6)


def test_the_radius_from_a_few_columns_is_that_of_all():
    """Beyond 20,000 columns only those where the rows' bells are get looked at."""
    curve = ooc.SketchCurve().fit_points(p[:-1], b[:-1], 40_000)
    groups, n = curve.groups_, 40_000
    means = curve.sketch_ / groups.sizes
    every = max(
        np.linalg.norm(
            binom.pmf(np.arange(a, a + 5000), n, p[:-1, None]) - means[:, groups.of(np.arange(a, a + 5000))], axis=0
        ).max()
        for a in range(0, 40_000, 5000)
    )
    assert curve._fitted().radius == pytest.approx(every, rel=1e-3)


def test_where_the_theorem_does_not_apply_the_bound_is_infinite():
    assert ooc.SketchCurve(first_alone=False).fit_points(p, b, 100).error_bound_ == np.inf
    assert ooc.SketchCurve().fit_points(p, b, 10**9).error_bound_ == np.inf


def test_linear_without_penalty_and_shape():
    curve = ooc.SketchCurve(n_groups=3, penalty=0, monotone=False).fit_points(p, b, 15)
    np.testing.assert_allclose(curve.influence_, np.linalg.pinv(curve.sketch_)[0], atol=1e-9)
    assert ooc.SketchCurve(n_groups=3, penalty=0).fit_points(p, b, 15).influence_ is None


@pytest.mark.parametrize(
    ("options", "n", "message"),
    [
        ({"n_groups": 0}, 10, "n_groups must be a whole number at least 1, got 0"),
        ({"n_groups": 11}, 10, "n_groups must be at most n = 10, got 11"),
        ({"n_groups": 10**7}, 10**12, "n_groups must be at most 200000 for 20 levels, got 10000000"),
        ({"penalty": -0.1}, 10, "penalty must be a finite number at least 0, got -0.1"),
        ({"n_groups": 1}, 10, "penalty must be 0 with fewer than 3 groups"),
        (
            {"penalty": 0},
            10**9,
            "penalty must be above 0 for n = 1000000000 and 8 groups, of which the levels determine 7",
        ),
        ({"n_groups": 30, "penalty": 0}, 100, "p must hold at least 31 levels for 31 groups, got 20"),
    ],
)
def test_bad_options(options, n, message):
    with pytest.raises(InputError, match=message):
        ooc.SketchCurve(**options).fit_points(p, b, n)


def test_a_group_that_no_level_sees_is_extrapolated():
    """At n = 10^8 the first column is 0 to rounding: e_0 continues the line through the other groups."""
    curve = ooc.SketchCurve(n_groups=2).fit_points(p, b, 10**8)
    first, second = curve.values([1, 10**8])
    assert curve.e0_ == pytest.approx(2 * first - second, abs=1e-6)

"""Designs: the published variances, optimality against brute force, and exact budgets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outofcluster as ooc
from outofcluster.sampling.levels import (
    Design,
    allocate,
    extrapolation_design,
    fits_for_standard_error,
    largest_level,
    predicted_variance,
)


def equidistant(n_levels, n_fits):
    return Design(np.linspace(0, 1, n_levels), allocate(np.ones(n_levels), n_fits))


TABLE = [
    (2, 0.1, 3.95, 16.8, 20.2),
    (3, 0.1, 13.2, 51.3, 70.2),
    (4, 0.1, 47.6, 158, 245),
    (7, 0.1, 2398, 6232, 11060),
    (2, 0.2, 12.3, 40.0, 48.1),
    (3, 0.05, 4.35, 23.9, 32.9),
]


def brute_variance(design, degree, rate, sigma):
    """Σ w² σ²/t with w from the pseudo-inverse of a plain Vandermonde matrix in p."""
    p = rate + (1 - rate) * design.injected
    root = np.sqrt(design.n_fits) / sigma
    w = np.linalg.pinv(root[:, None] * np.vander(p, degree + 1, increasing=True))[0] * root
    return (w**2 * sigma**2 / design.n_fits).sum()


@pytest.mark.parametrize(("degree", "p0", "best", "twenty", "many"), TABLE)
def test_the_table_of_variances(degree, p0, best, twenty, many):
    n = 1_000_000
    optimal = n * predicted_variance(extrapolation_design(degree, n, rate=p0, n_checks=0), degree, rate=p0)
    assert optimal == pytest.approx(best, rel=0.005)
    # The closed form T_s((p_max + p_min)/(p_max - p_min))².
    x = (1 + p0) / (1 - p0)
    assert optimal == pytest.approx(np.cosh(degree * np.arccosh(x)) ** 2, rel=1e-4)
    for levels, value in ((20, twenty), (200, many)):
        assert n * predicted_variance(equidistant(levels, n), degree, rate=p0) == pytest.approx(value, rel=0.003)


@given(
    st.integers(0, 4),
    st.floats(0, 0.5),
    st.lists(st.tuples(st.integers(1, 50), st.floats(0.1, 5)), min_size=5, max_size=9),
)
def test_the_variance_is_that_of_the_weights(degree, rate, levels):
    n_fits, sigma = (np.array(column) for column in zip(*levels, strict=True))
    design = Design(np.linspace(0, 0.9, len(levels)), n_fits)
    predicted = predicted_variance(design, degree, rate=rate, noise=sigma)
    assert predicted == pytest.approx(brute_variance(design, degree, rate, sigma), rel=1e-6)


def test_the_variance_is_that_of_the_curve():
    design, sigma = extrapolation_design(3, 500, 0.8, rate=0.15), np.array([1, 2, 1, 3, 2, 1.0])
    p = 0.15 + 0.85 * design.injected
    curve = ooc.PolynomialCurve(3).fit_points(p, 0.4 - 0.1 * p, 100, weights=design.n_fits / sigma**2)
    expected = (curve.influence_**2 * sigma**2 / design.n_fits).sum()
    assert predicted_variance(design, 3, rate=0.15, noise=sigma) == pytest.approx(expected)


def test_the_variance_is_that_of_simulated_estimates():
    design, sigma = extrapolation_design(2, 60, rate=0.1), np.array([0.3, 0.2, 0.1, 0.1, 0.2])
    p = 0.1 + 0.9 * design.injected
    rng = np.random.default_rng(3)
    error = rng.standard_normal((20_000, len(p))) * sigma / np.sqrt(design.n_fits)
    # polyfit weights residuals, not their squares.
    e0 = np.polyfit(p, (0.4 - 0.2 * p**2 + error).T, 2, w=np.sqrt(design.n_fits) / sigma)[-1]
    predicted = predicted_variance(design, 2, rate=0.1, noise=sigma)
    # The relative standard error of a variance from 20,000 draws is 1 %.
    assert np.var(e0) == pytest.approx(predicted, rel=0.04)
    assert np.mean(e0) == pytest.approx(0.4, abs=4 * np.sqrt(predicted / 20_000))


@given(st.integers(1, 4), st.floats(0.02, 0.4), st.floats(0.2, 1), st.integers(0, 10**6))
def test_no_other_design_is_better(degree, rate, largest, seed):
    rng = np.random.default_rng(seed)
    n = 100_000
    noise = None if seed % 2 else rng.uniform(0.5, 2, degree + 1)
    best = extrapolation_design(degree, n, largest, rate=rate, n_checks=0, noise=noise)
    variance = predicted_variance(best, degree, rate=rate, noise=noise)
    for _ in range(5):
        moved = Design(best.injected, allocate(best.n_fits * rng.uniform(0.8, 1.25, degree + 1), n))
        assert predicted_variance(moved, degree, rate=rate, noise=noise) >= variance * (1 - 1e-3)
    if noise is None:
        other = Design(np.sort(rng.uniform(0, largest, degree + 3)), allocate(rng.uniform(0.1, 1, degree + 3), n))
        assert predicted_variance(other, degree, rate=rate) >= variance * (1 - 1e-3)


def test_noisier_levels_get_more_fits():
    quiet = extrapolation_design(2, 1000, n_checks=0)
    loud = extrapolation_design(2, 1000, n_checks=0, noise=[1, 4, 1])
    assert loud.n_fits[1] > 2 * quiet.n_fits[1]
    shares = np.array([683, 4 * 249, 68]) / (683 + 996 + 68)
    np.testing.assert_allclose(loud.n_fits / loud.n_fits.sum(), shares, atol=2e-3)


def test_levels_do_not_depend_on_what_is_unknown_and_lie_at_the_extrema_in_p():
    one, other = (extrapolation_design(3, 400, 0.7, rate=p0, n_checks=0) for p0 in (0.02, 0.3))
    np.testing.assert_allclose(one.injected, other.injected)
    p = 0.3 + 0.7 * other.injected
    low, high = 0.3, 0.3 + 0.7 * 0.7
    np.testing.assert_allclose(p, (low + high) / 2 - (high - low) / 2 * np.cos(np.arange(4) * np.pi / 3))


def test_check_levels_fill_the_middle_first_and_get_their_share():
    def angles(degree, n_checks):
        return np.arccos(1 - 2 * extrapolation_design(degree, 2000, n_checks=n_checks).injected) / np.pi

    np.testing.assert_allclose(angles(2, 2), [0, 1 / 4, 1 / 2, 3 / 4, 1])
    np.testing.assert_allclose(angles(3, 1), [0, 1 / 3, 1 / 2, 2 / 3, 1])
    np.testing.assert_allclose(angles(3, 2), [0, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 1])
    np.testing.assert_allclose(angles(1, 3), [0, 1 / 4, 1 / 2, 3 / 4, 1], atol=1e-8)
    design = extrapolation_design(2, 1000)
    assert design.n_fits[[1, 3]].tolist() == [50, 50]
    # Check levels cost at most the fits they take.
    bare = predicted_variance(extrapolation_design(2, 1000, n_checks=0), 2)
    assert bare < predicted_variance(design, 2) < 1.001 * bare / 0.9


@given(
    st.integers(1, 6), st.integers(30, 3000), st.floats(0.01, 1), st.floats(0, 0.9), st.integers(0, 6)
)  # 30 fits are enough for 6 + 1 + 6 levels
def test_every_design_spends_its_budget_exactly(degree, n_fits, largest, rate, n_checks):
    design = extrapolation_design(degree, n_fits, largest, rate=rate, n_checks=n_checks)
    assert len(design.injected) == len(design.n_fits) == degree + 1 + n_checks
    assert design.n_fits.sum() == n_fits
    assert design.n_fits.min() >= 2
    assert (np.diff(design.injected) > 0).all()
    assert design.injected[0] == 0
    assert design.injected[-1] == largest


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12), st.integers(0, 3), st.integers(1, 10**6))
def test_allocation_is_exact_and_within_one_of_its_share(weights, least, budget):
    weights = [*weights, 1.0]
    budget += least * len(weights)
    parts = allocate(weights, budget, least)
    assert parts.sum() == budget
    assert parts.min() >= least
    # Parts above the least share what is left in proportion: each is within one of its share.
    free = parts > least
    if free.any():
        share = np.array(weights)[free] / np.array(weights)[free].sum()
        rest = parts[free].sum()
        assert (np.abs(parts[free] - share * rest) <= 1 + free.sum() + 1e-6).all()
    order = np.argsort(weights)
    assert (np.diff(parts[order]) >= -1).all()


def test_allocation_by_largest_remainders():
    assert allocate([1, 1, 1], 10).tolist() == [4, 3, 3]
    assert allocate([0.6, 0.3, 0.1], 10).tolist() == [5, 3, 2]
    assert allocate([1, 0, 0], 10, least=0).tolist() == [10, 0, 0]
    assert allocate([47, 16, 16, 15.8, 3, 2.2], 10, least=0).tolist() == [5, 2, 2, 1, 0, 0]
    assert allocate(np.ones(7), 14).tolist() == [2] * 7
    assert allocate([1e-300, 1e300], 100).tolist() == [2, 98]


@given(st.integers(1, 10**5), st.integers(2, 10**5), st.booleans(), st.floats(0, 0.9))
def test_the_largest_level_keeps_enough_and_no_less(n_train, n_validation, replace, keep):
    a = largest_level(n_train, n_validation, replace=replace, keep=keep)

    def unused(a):
        if replace:
            return n_validation * (1 - a / n_validation) ** n_train
        return n_validation - a * n_train

    wanted = max(keep * n_validation, 5 if n_validation > 5 else 1)
    assert 0 < a <= 1
    assert unused(a) >= wanted * (1 - 1e-6) - 1e-9
    if a < 1:
        assert unused(a) == pytest.approx(wanted, rel=1e-6)


def test_the_largest_level_by_drawing():
    """What 4,000 resamples leave unused, on average, is the share asked for."""
    n, size = 60, 40
    a = largest_level(n, size, keep=0.3)
    rng = np.random.default_rng(0)
    left = [size - len(np.unique(rng.integers(size, size=rng.binomial(n, a)))) for _ in range(4000)]
    assert np.mean(left) / size == pytest.approx(0.3, abs=4 * np.std(left) / size / np.sqrt(4000))


@given(st.integers(20, 5000), st.floats(1e-8, 1), st.floats(1e-4, 1))
def test_the_budget_for_a_standard_error(n_fits, variance, target):
    design = equidistant(4, n_fits)
    needed = fits_for_standard_error(design, variance, target)
    assert needed >= n_fits
    assert variance * n_fits / needed <= target**2 * (1 + 1e-9)
    if needed > n_fits:
        assert variance * n_fits / (needed - 1) >= target**2 * (1 - 1e-9)


def test_the_budget_agrees_with_the_predicted_variance():
    design = extrapolation_design(2, 200)
    needed = fits_for_standard_error(design, predicted_variance(design, 2), 0.05)
    assert predicted_variance(extrapolation_design(2, needed), 2) ** 0.5 == pytest.approx(0.05, rel=0.01)
    assert fits_for_standard_error(design, 0, 0.1) == 200
    assert fits_for_standard_error(equidistant(2, 100), 0.04, 0.2) == 100


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: largest_level(0, 10), "n_train must be a whole number at least 1, got 0"),
        (lambda: largest_level(10, 1), "n_validation must be a whole number at least 2, got 1"),
        (lambda: largest_level(10, 10, keep=1), r"keep must lie in \[0, 1\), got 1"),
        (lambda: largest_level(10, 10, replace=1), "replace must be True or False, got 1"),
        (lambda: extrapolation_design(0, 100), "degree must be a whole number at least 1, got 0"),
        (lambda: extrapolation_design(2, 9), "n_fits must be at least 10, 2 for each of 5 levels, got 9"),
        (lambda: extrapolation_design(2, 100, n_checks=11), "n_checks must be a whole number between 0 and 10, got 11"),
        (lambda: extrapolation_design(2, 100, rate=1), r"rate must lie in \[0, 1\), got 1"),
        (lambda: predicted_variance(equidistant(3, 30), 3), "degree must be below the number of levels, 3, got 3"),
        (lambda: allocate([1, -1], 10), r"weights must be non-negative and not all zero, got \[1.0, -1.0\]"),
        (lambda: allocate([0, 0], 10), "weights must be non-negative and not all zero"),
        (lambda: allocate([1, 1], 3), "budget must be at least 4, 2 for each of 2 parts, got 3"),
        (lambda: fits_for_standard_error(equidistant(2, 4), 1, 1e-300), "target must be in reach of the standard"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ooc.InputError, match=message):
        call()

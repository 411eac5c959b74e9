"""The polynomial curve against extrapolation in 80 digits and the exact inverse in rational arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from references import exact_inverse, extrapolated

p = np.linspace(0.1, 1, 20)
b = 0.2 + 0.1 * np.exp(-5 * p) + 1e-3 * np.random.default_rng(0).standard_normal(20)


@pytest.mark.parametrize("degree", range(1, 11))
def test_e0_is_the_least_squares_polynomial_at_zero(degree):
    truth = extrapolated(p, b, degree)
    for n in (10, 10**4, 10**9):
        assert ooc.PolynomialCurve(degree).fit_points(p, b, n).e0_ == pytest.approx(truth, rel=1e-8)


@pytest.mark.parametrize("levels", [np.linspace(0.4, 0.6, 12), np.array([0.05, 0.06, 0.07, 0.9, 0.95, 1.0])])
def test_e0_with_awkward_levels(levels):
    y = 0.3 - 0.1 * levels + 0.01 * np.cos(40 * levels)
    assert ooc.PolynomialCurve(5).fit_points(levels, y, 100).e0_ == pytest.approx(extrapolated(levels, y, 5), rel=1e-8)


@pytest.mark.parametrize("degree", [1, 2, 5, 10])
@pytest.mark.parametrize("n", [10, 60])
def test_values_invert_the_operator_exactly(degree, n):
    values = ooc.PolynomialCurve(degree).fit_points(p, b, n).values(range(n + 1))
    np.testing.assert_allclose(values, exact_inverse(p, b, degree, n), atol=1e-8)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.integers(6, 10**9))
def test_polynomial_losses_are_reproduced(coefficients, n):
    y = np.polynomial.polynomial.polyval(p, coefficients)
    curve = ooc.PolynomialCurve(len(coefficients) - 1).fit_points(p, y, n)
    assert curve.e0_ == pytest.approx(coefficients[0], abs=1e-9)
    np.testing.assert_allclose(curve.values([0, n]), [coefficients[0], sum(coefficients)], atol=1e-9)
    np.testing.assert_allclose(curve.residual_, 0, atol=1e-12)


def test_weights_are_those_of_the_squared_residuals():
    """A level with weight 2 counts as two equal observations: minimise by hand, in the normal equations."""
    weights = np.linspace(1, 3, 20)
    V = np.vander(p, 3)
    by_hand = np.linalg.solve(V.T @ (weights[:, None] * V), V.T @ (weights * b))[-1]
    curve = ooc.PolynomialCurve(2).fit_points(p, b, 50, weights=weights)
    assert curve.e0_ == pytest.approx(by_hand, rel=1e-10)


def test_condition_is_that_of_the_chebyshev_basis():
    curve = ooc.PolynomialCurve(7).fit_points(p, b, 100)
    x = (2 * p - 1.1) / 0.9
    assert curve.condition_ == pytest.approx(np.linalg.cond(np.polynomial.chebyshev.chebvander(x, 7)))
    assert curve.condition_ < 10


@pytest.mark.parametrize(
    ("degree", "n", "message"),
    [
        (-1, 10, "degree must be a whole number at least 0, got -1"),
        (2.5, 10, "degree must be a whole number at least 0, got 2.5"),
        (4, 3, "degree must be at most n = 3, got 4"),
        (25, 100, "p must hold at least 26 levels for degree 25, got 20"),
    ],
)
def test_bad_degrees(degree, n, message):
    with pytest.raises(InputError, match=message):
        ooc.PolynomialCurve(degree).fit_points(p, b, n)


def test_levels_too_close_to_tell_apart():
    close = 0.5 + np.arange(8) * 1e-16 * 2
    with pytest.raises(InputError, match=r"p must hold"):
        ooc.PolynomialCurve(7).fit_points(np.append(close[:3], [0.1]), [1, 1, 1, 1], 10)

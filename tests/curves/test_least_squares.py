"""The least-squares curve: Algorithm 1 with its last line corrected."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from references import exact_pmf


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_noiseless_losses_give_back_the_curve(e):
    n = len(e) - 1
    p = np.linspace(0.1, 1, 12)
    b = [float(sum(exact_pmf(j, n, Fraction(x)) * Fraction(y) for j, y in enumerate(e))) for x in p]
    curve = ooc.LeastSquaresCurve().fit_points(p, b, n)
    np.testing.assert_allclose(curve.values(range(n + 1)), e, atol=1e-9)


def test_returns_the_curve_and_not_the_fitted_losses():
    """As printed, the algorithm's last line is A(AᵀA)⁻¹Aᵀb: the losses, not e."""
    p = np.linspace(0.1, 1, 9)
    A = np.array([[float(exact_pmf(j, 4, Fraction(x))) for j in range(5)] for x in p])
    b = 0.3 - 0.2 * p + 0.01 * np.sin(30 * p)
    curve = ooc.LeastSquaresCurve().fit_points(p, b, 4)
    np.testing.assert_allclose(curve.values(range(5)), np.linalg.solve(A.T @ A, A.T @ b), rtol=1e-9)
    assert curve.condition_ == pytest.approx(np.linalg.cond(A))


def test_minimum_norm_when_underdetermined():
    p = np.array([0.2, 0.5, 0.9])
    A = np.array([[float(exact_pmf(j, 20, Fraction(x))) for j in range(21)] for x in p])
    b = np.array([0.5, 0.3, 0.2])
    curve = ooc.LeastSquaresCurve().fit_points(p, b, 20)
    np.testing.assert_allclose(curve.values(range(21)), A.T @ np.linalg.solve(A @ A.T, b), atol=1e-12)
    np.testing.assert_allclose(curve.residual_, 0, atol=1e-12)


def test_refuses_what_would_not_fit_in_memory():
    with pytest.raises(InputError, match="n must be at most 24999999 to form the operator for 2 levels"):
        ooc.LeastSquaresCurve().fit_points([0.1, 1], [1, 0.5], 10**9)

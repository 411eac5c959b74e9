"""The basis curve: any functions, with dependent ones named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outofcluster as ooc
from outofcluster._base.exceptions import InputError

p = np.linspace(0.1, 1, 12)


def constant(x):
    return np.ones_like(x)


def decay(x):
    return np.exp(-5 * x)


def doubled(x):
    return 2 * np.exp(-5 * x) + 3


@given(st.floats(-1, 1), st.floats(-1, 1), st.integers(2, 10**9))
def test_known_coefficients_come_back(level, fall, n):
    """For ψ = exp(-5 j/n) the operator has a closed form, used here and not in the method."""
    b = level + fall * (1 + p * np.expm1(-5 / n)) ** n
    curve = ooc.BasisCurve([constant, decay]).fit_points(p, b, n)
    assert curve.e0_ == pytest.approx(level + fall, abs=1e-6)
    np.testing.assert_allclose(curve.values([0, n]), [level + fall, level + fall * np.exp(-5)], atol=1e-6)


def test_monomials_are_the_polynomial_curve():
    b = 0.2 + 0.1 * np.exp(-4 * p)
    monomials = ooc.BasisCurve([constant, lambda x: x, lambda x: x**2]).fit_points(p, b, 30)
    polynomial = ooc.PolynomialCurve(2).fit_points(p, b, 30)
    np.testing.assert_allclose(monomials.values(range(31)), polynomial.values(range(31)), atol=1e-10)
    np.testing.assert_allclose(monomials.influence_, polynomial.influence_, atol=1e-8)


def test_kinks_are_allowed():
    hinge = lambda x: np.maximum(0.3 - x, 0)  # noqa: E731
    b = 0.2 + 0.5 * np.maximum(0.3 - p, 0)
    assert ooc.BasisCurve([constant, hinge]).fit_points(p, b, 10**9).e0_ == pytest.approx(0.35, abs=1e-4)


def test_dependent_functions_are_named():
    with pytest.raises(InputError, match=r"at the 12 levels \(Theorem 5.1\), got functions\[\d\] \(\w+\) in"):
        ooc.BasisCurve([constant, decay, doubled]).fit_points(p, p, 100)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([], "functions must hold at least one callable"),
        (3, "functions must be a sequence of callables"),
        ([constant, 3], r"functions must be callables, got functions\[1\] = 3"),
        ([lambda x: x[:2]], r"functions\[0\] must return one value per point"),
        ([constant, lambda x: 0 * x], r"functions must differ from 0 at the levels, got functions\[1\] = 0"),
        ([lambda x: np.where(x < 0.5, np.nan, 1.0)], r"functions\[0\] must be finite on \[0, 1\], got nan"),
        ([constant] * 13, "p must hold at least 13 levels for 13 functions, got 12"),
    ],
)
def test_bad_functions(functions, message):
    with pytest.raises(InputError, match=message):
        ooc.BasisCurve(functions).fit_points(p, p, 100)

"""The Bézier form: control points are the curve, and the curve passes through the losses."""

import numpy as np
import pytest
from scipy.interpolate import BPoly
from scipy.stats import binom

import outofcluster as ooc
from outofcluster._base.exceptions import InputError

p = np.linspace(0.1, 1, 20)
b = 0.2 + 0.1 * np.exp(-4 * p)


@pytest.mark.parametrize("n", [4, 12, 300, 1000])
def test_bpoly_is_the_binomial_mixture_of_the_curve(n):
    curve = ooc.TrendFilterCurve().fit_points(p, b, n)
    e = curve.values(range(n + 1))
    x = np.linspace(0, 1, 9)
    bezier = curve.to_bezier()
    np.testing.assert_allclose(
        BPoly(bezier.coefficients[:, None], [0.0, 1.0])(x), binom.pmf(np.arange(n + 1), n, x[:, None]) @ e, atol=1e-9
    )
    np.testing.assert_allclose(bezier.coefficients, e)
    np.testing.assert_allclose(bezier.control_points, np.stack([np.arange(n + 1) / n, e], axis=1))
    assert bezier.degree == n


def test_sizes_beyond_what_a_form_can_hold():
    large = ooc.PolynomialCurve(2).fit_points(p, b, 2000).to_bezier()
    assert len(large.control_points) == 2001
    with pytest.raises(InputError, match="n must be below 1000000 for a Bézier form"):
        ooc.PolynomialCurve(2).fit_points(p, b, 10**9).to_bezier()

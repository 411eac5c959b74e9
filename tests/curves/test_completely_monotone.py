"""The completely monotone curve: mixtures recovered, shape kept, amplification capped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.curves.monotone import decays

p = np.linspace(0.1, 1, 20)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 12), st.integers(50, 10**9))
def test_a_geometric_curve_within_the_cap_comes_back(level, fall, rate, n):
    """Amplification of rate 12 from 0.1 to 0 is about exp(1.2) = 3.3, within the cap of 4."""
    b = level + fall * np.exp(n * np.log1p(-rate / n * p))
    curve = ooc.CompletelyMonotoneCurve().fit_points(p, b, n)
    assert curve.e0_ == pytest.approx(level + fall, abs=2e-4)


@given(st.lists(st.floats(0, 1), min_size=20, max_size=20), st.floats(1.01, 100))
def test_differences_alternate_whatever_the_losses(b, cap):
    curve = ooc.CompletelyMonotoneCurve(max_amplification=cap).fit_points(p, b, 100)
    e = curve.values(range(101))
    for order in range(1, 5):
        assert ((-1) ** order * np.diff(e, order)).min() >= -1e-12


def test_beyond_the_lowest_level_a_component_grows_by_the_cap_at_most():
    steep = np.exp(-60 * p)
    for cap in (1.5, 4, 20):
        curve = ooc.CompletelyMonotoneCurve(max_amplification=cap).fit_points(p, steep, 1000)
        at_lowest = (p[0] * 0 + steep - curve.residual_)[0]
        assert curve.e0_ <= cap * at_lowest * (1 + 1e-9)


@given(st.floats(0, 1), st.integers(1, 10**9), st.floats(1, 1000))
def test_the_grid_of_decays(lowest, n, cap):
    grid = decays(lowest, n, cap)
    assert grid[0] == 0
    assert (np.diff(grid) >= 0).all()
    assert grid[-1] <= 1
    if lowest > 0:
        with np.errstate(divide="ignore"):
            amplification = -n * np.log1p(-grid * lowest)
        # At a decay of 1 the curve is zero from the first record on, and its amplification whatever that gives.
        assert amplification[grid < 1].max(initial=0) <= np.log(cap) * (1 + 1e-6) + 1e-9


def test_a_level_at_zero_needs_no_cap():
    levels = np.append(0, p)
    b = 0.2 + 0.1 * np.exp(100 * np.log1p(-0.4 * levels))
    curve = ooc.CompletelyMonotoneCurve(max_amplification=1).fit_points(levels, b, 100)
    assert curve.e0_ == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize("cap", [0.5, -1, np.nan, np.inf, "4"])
def test_bad_cap(cap):
    with pytest.raises(InputError, match="max_amplification must be a"):
        ooc.CompletelyMonotoneCurve(max_amplification=cap).fit_points(p, p, 100)


def test_negative_losses_are_refused():
    with pytest.raises(InputError, match=r"b must be non-negative for a completely monotone curve, got b\[0\] = -1"):
        ooc.CompletelyMonotoneCurve().fit_points([0.1, 1], [-1, 0], 10)

"""Shape diagnostics: what they find, where, and what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

import outofcluster as ooc
from outofcluster.curves import shape

p = np.linspace(0.1, 1, 10)


@given(st.floats(0.01, 2), st.floats(0.1, 10))
def test_a_falling_convex_curve_has_no_violation(fall, rate):
    diagnosis = ooc.diagnose_points(p, 1 + fall * np.exp(-rate * p), np.full(10, 0.01))
    for check in (diagnosis.decreasing, diagnosis.convex):
        assert check.holds
        assert check.pvalue == 1
        assert check.exceeds_noise is False
    assert str(diagnosis) == "Decreasing: yes.\nConvex: yes."


def test_violations_are_located_and_judged():
    b = 1 - 0.5 * p
    b[6:] += 0.2
    diagnosis = ooc.diagnose_points(p, b, np.full(10, 0.01))
    (rise,) = diagnosis.decreasing.violations
    assert (rise.start, rise.stop) == pytest.approx((p[5], p[6]))
    assert rise.size == pytest.approx(0.15)
    assert rise.standard_error == pytest.approx(0.01 * np.sqrt(2))
    assert diagnosis.decreasing.exceeds_noise
    z = 0.15 / rise.standard_error
    assert diagnosis.decreasing.pvalue == pytest.approx(min(45 * norm.sf(z), chi2.sf(z**2, 10)))
    assert "rises by 0.15 ± 0.014 between p = 0.6 and 0.7; more than noise explains" in str(diagnosis)


def test_a_slow_rise_shows_between_distant_levels():
    b = 0.2 + 0.005 * np.arange(10)
    errors = np.full(10, 0.005)
    diagnosis = ooc.diagnose_points(p, b, errors)
    assert diagnosis.decreasing.exceeds_noise
    assert (diagnosis.decreasing.violations[0].start, diagnosis.decreasing.violations[0].stop) == (p[0], p[-1])
    assert not ooc.diagnose_points(p[:2], b[:2], errors[:2]).decreasing.exceeds_noise


def test_a_bulge_is_measured_from_its_chord():
    diagnosis = ooc.diagnose_points([0, 0.25, 1], [1, 1, 0], [0.1, 0.2, 0.3])
    (bulge,) = diagnosis.convex.violations
    assert bulge.size == pytest.approx(0.25)
    assert bulge.standard_error == pytest.approx(np.sqrt(0.2**2 + (0.75 * 0.1) ** 2 + (0.25 * 0.3) ** 2))
    assert not diagnosis.convex.exceeds_noise
    assert "within the noise" in str(diagnosis.convex)


def test_the_order_of_the_levels_does_not_matter_and_without_noise_nothing_is_judged():
    order = np.random.default_rng(0).permutation(10)
    b = np.cos(5 * p)
    assert ooc.diagnose_points(p[order], b[order]) == ooc.diagnose_points(p, b)
    check = ooc.diagnose_points(p, b).decreasing
    assert check.pvalue is None
    assert check.exceeds_noise is None
    assert "the noise is not known" in str(check)


def test_two_levels_have_no_curvature():
    assert ooc.diagnose_points([0.1, 1], [1, 2]).convex.holds


def test_the_noise_of_a_linear_curve_is_carried_through_its_fit():
    """A straight line's rise from 0 to 1 is its slope, whose variance least squares gives."""
    b, errors = 0.2 + 0.1 * p, np.linspace(0.01, 0.03, 10)
    curve = ooc.PolynomialCurve(1).fit_points(p, b, 50)
    (rise,) = ooc.diagnose_curve(curve, errors).decreasing.violations
    weights = (p - p.mean()) / ((p - p.mean()) ** 2).sum()
    assert rise.size == pytest.approx(0.1)
    assert rise.standard_error == pytest.approx(np.sqrt((weights**2 * errors**2).sum()))


def test_the_noise_of_other_curves_comes_from_refits(monkeypatch):
    monkeypatch.setattr(shape, "_DRAWS", 50)
    b = 0.5 - 0.3 * (p - 0.4) ** 2
    curve = ooc.TrendFilterCurve(monotone=False).fit_points(p, b, 50)
    before = curve.e0_
    loud, quiet = (ooc.diagnose_curve(curve, np.full(10, error)) for error in (0.1, 1e-4))
    assert not loud.convex.exceeds_noise
    assert quiet.convex.exceeds_noise
    assert curve.e0_ == before
    assert ooc.diagnose_curve(curve, np.full(10, 0.1)) == loud


def test_a_constrained_curve_keeps_its_shape():
    b = 0.3 + 0.05 * np.sin(9 * p)
    for n in (40, 10**6):
        curve = ooc.TrendFilterCurve(convex=True).fit_points(p, b, n)
        diagnosis = ooc.diagnose_curve(curve)
        assert diagnosis.decreasing.holds
        assert diagnosis.convex.holds


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ooc.diagnose_points([0.1, 1], [1, 2, 3]), "b must have one loss for each level of p"),
        (lambda: ooc.diagnose_points([0.1, 1], [1, 2], [0.1]), "standard_errors must have one value for each of the 2"),
        (lambda: ooc.diagnose_points([0.1, 1], [1, 2], [0.1, 0]), r"must be positive, got standard_errors\[1\] = 0"),
        (lambda: ooc.diagnose_points([0.1, 1], [1, 2], alpha=1), r"alpha must lie in \(0, 1\), got 1"),
        (
            lambda: ooc.diagnose_curve(ooc.PolynomialCurve(1)),
            "PolynomialCurve is not fitted yet; call fit_points first",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()

"""From influences and noise to an interval: the one rule for noise, paired differences, and Student's intervals."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge

import outofcluster as ooc
from outofcluster.inference.intervals import Confidence, Uncertainty, paired_uncertainty, uncertainty

INFLUENCE = np.array([1.0, -1.0, 2.0, -2.0])
BETWEEN = 4 / 3 * 10
"""Their variance between units: K/(K-1) times the sum of squares."""

# --- the rule for noise above a variance --------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise_share", "counts", "reliable"),
    [(0, 1, True), (0.5, 0.5, True), (0.74, 0.26, True), (0.75, 0.25, False), (0.9, 0.7, False), (1, 1, False),
     (7, 1, False)],
)  # fmt: skip
def test_noise_is_taken_out_and_given_back_where_little_would_be_left(noise_share, counts, reliable):
    source = Uncertainty(INFLUENCE, noise_share * BETWEEN, monte_carlo=0.1)
    assert source.between_units == pytest.approx(BETWEEN)
    assert source.remaining == pytest.approx(counts)
    assert source.data == pytest.approx(counts * BETWEEN)
    assert source.reliable is reliable


def test_the_rule_is_continuous():
    shares = 1 - np.linspace(0, 1, 4001)
    counts = np.array([Uncertainty(INFLUENCE, share * BETWEEN, 0.0).remaining for share in shares])
    # From one share to the next, 1/4000 apart, no more than the slope of 3 moves it.
    assert np.abs(np.diff(counts)).max() == pytest.approx(3 / 4000, rel=1e-6)
    assert counts.min() == pytest.approx(0.25, abs=1e-9)


def test_all_sources_add_to_the_variance_of_the_data():
    source = Uncertainty(INFLUENCE, 0.4 * BETWEEN, monte_carlo=5.0, choice=0.3, rate_effect=-0.2)
    assert source.data == pytest.approx(0.6 * BETWEEN + 0.3 + 0.04)


def test_units_without_influence_and_a_single_unit():
    assert Uncertainty(np.zeros(5), 0.0, 0.0).data == 0
    assert Uncertainty(np.zeros(5), 0.0, 0.0).reliable
    single = Uncertainty(np.array([0.7]), 0.1, 0.01, choice=0.2)
    assert math.isnan(single.data)
    assert all(math.isnan(end) for end in Confidence(0.95, 1, (0.0, 1.0)).linear(0.5, single).interval)


# --- paired -------------------------------------------------------------------------------------------


@cache
def audited(alpha=1.0, n_train=None, random_state=1):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    X = rng.standard_normal((100, 3))
    y = X[:, 0] + rng.standard_normal(20)[groups] + rng.standard_normal(100)
    return ooc.audit(
        Ridge(alpha), X, y, groups=groups, cv=[(range(50), range(50, 100))], leakage=0.1, error_model="records",
        curve=ooc.PolynomialCurve(1), units="clusters", n_fits=120, n_train=n_train, random_state=random_state,
    )  # fmt: skip


def solved(audit, choice=0.0):
    corrected = audit.pooled.corrected(audit.solution.correction)
    return audit.pooled.columns, replace(corrected, choice=choice)


def test_a_model_against_itself_has_no_uncertainty():
    model = solved(audited(), choice=0.3)
    difference = paired_uncertainty(model, model)
    assert not difference.influence.any()
    assert difference.influence_noise == pytest.approx(0, abs=1e-12)
    assert difference.monte_carlo == pytest.approx(0, abs=1e-12)
    assert difference.data == pytest.approx(0, abs=1e-12)


def test_runs_that_share_no_resample_add():
    first, second = solved(audited(), choice=0.3), solved(audited(n_train=40), choice=0.2)
    one, other, difference = uncertainty(*first), uncertainty(*second), paired_uncertainty(first, second)
    assert difference.monte_carlo == pytest.approx(one.monte_carlo + other.monte_carlo)
    assert difference.influence_noise == pytest.approx(one.influence_noise + other.influence_noise)
    assert difference.choice == pytest.approx(0.5)
    assert np.array_equal(difference.influence, one.influence - other.influence)


def test_the_fits_of_independent_runs_add_and_those_of_the_same_resamples_cancel():
    """Correlations of 20 replicates that have nothing in common are about 0.2, and signs differ over the levels."""
    first, other_seed, alike = solved(audited()), solved(audited(random_state=2)), solved(audited(alpha=1.5))
    alone = uncertainty(*first).monte_carlo
    both = alone + uncertainty(*other_seed).monte_carlo
    assert paired_uncertainty(first, other_seed).monte_carlo == pytest.approx(both, rel=0.3)
    assert paired_uncertainty(first, alike).monte_carlo < 0.01 * alone


def test_the_rates_error_goes_into_a_difference():
    model = solved(audited())
    assert paired_uncertainty(model, model, rate_effect=0.5).data == pytest.approx(0.25)


# --- intervals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("n_scored", [2, 5, 40])
def test_students_quantile(level, n_scored):
    assert Confidence(level, n_scored).quantile == pytest.approx(stats.t.ppf(0.5 + level / 2, n_scored - 1))


def test_a_linear_interval_is_students():
    source = Uncertainty(np.array([0.01, -0.01]), 0.0, monte_carlo=5e-4)
    estimate = Confidence(0.9, 11).linear(0.3, source)
    assert source.monte_carlo + source.data == pytest.approx(9e-4)
    assert estimate.interval == pytest.approx(stats.t.interval(0.9, 10, 0.3, 0.03))
    assert estimate.confidence_level == 0.9
    assert (estimate.se_monte_carlo, estimate.se_data) == pytest.approx((math.sqrt(5e-4), 0.02))


def spread(standard_error):
    return Uncertainty(np.zeros(2), 0.0, monte_carlo=standard_error**2)


def test_an_interval_is_cut_to_what_the_loss_can_be():
    confidence = Confidence(0.95, 30, (0.0, 1.0))
    assert confidence.linear(0.02, spread(0.1)).interval == pytest.approx((0.0, 0.02 + 0.1 * confidence.quantile))
    assert confidence.linear(0.98, spread(0.1)).interval == pytest.approx((0.98 - 0.1 * confidence.quantile, 1.0))
    assert confidence.linear(1.4, spread(0.1)).interval == (1.0, 1.0)


def test_losses_without_an_upper_end_have_their_interval_on_the_scale_of_logarithms():
    confidence = Confidence(0.95, 30, (0.0, math.inf))
    low, high = confidence.linear(2.0, spread(0.5)).interval
    reach = confidence.quantile * 0.5 / 2.0
    assert (math.log(low / 2), math.log(high / 2)) == pytest.approx((-reach, reach))
    # Three times the value and more says only that the loss is somewhere above 0.
    low, high = confidence.linear(2.0, spread(4.0)).interval
    assert (low, high) == pytest.approx((0.0, 2 + 4 * confidence.quantile))
    # Losses that can be negative stay on their own scale.
    low, high = Confidence(0.95, 30).linear(2.0, spread(0.5)).interval
    assert high - 2 == pytest.approx(2 - low)


def test_quantiles_of_draws_are_widened_as_student_is_wider_than_normal():
    draws = 0.5 + 0.1 * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    estimate = Confidence(0.95, 6).from_draws(0.5, draws, monte_carlo=0.0036)
    assert estimate.interval == pytest.approx(stats.t.interval(0.95, 5, 0.5, 0.1), rel=1e-3)
    assert (estimate.se_monte_carlo, estimate.se_data) == pytest.approx((0.06, 0.08), rel=1e-3)
    rough = Confidence(0.95, 6).from_few_draws(0.5, draws)
    assert rough.interval == pytest.approx(estimate.interval, rel=1e-3)


def test_few_draws_keep_the_sides_apart_and_the_value_inside():
    low, high = Confidence(0.95, 6).from_few_draws(0.5, np.array([0.6, 0.7, 0.5])).interval
    assert low == 0.5
    assert high > 0.7
    assert Confidence(0.95, 6).from_draws(0.5, np.array([0.6, 0.7, 0.65]), 0.0).interval[0] == 0.5

"""From influences to the variance of the data, and Student's intervals."""

import math

import numpy as np
import pytest
from scipy import stats

from outofcluster.inference.intervals import Confidence, Uncertainty

INFLUENCE = np.array([1.0, -1.0, 2.0, -2.0])
BETWEEN = 4 / 3 * 10
"""Their variance between units: K/(K-1) times the sum of squares."""

# --- the sources of the error -------------------------------------------------------------------------


def test_the_variance_between_units_is_that_of_a_mean():
    """Influences of units that count alike are deviations from their mean, by their number."""
    losses = np.random.default_rng(0).exponential(size=17)
    source = Uncertainty((losses - losses.mean()) / 17, monte_carlo=0.1)
    assert source.of_units == source.data == pytest.approx(losses.var(ddof=1) / 17)
    assert Uncertainty(INFLUENCE, 0.0).of_units == pytest.approx(BETWEEN)


@pytest.mark.parametrize("training", [0.0, 0.5, 0.7])
def test_training_clusters_add_their_share_to_the_variance_between_units_alone(training):
    source = Uncertainty(INFLUENCE, monte_carlo=5.0, choice=0.3, rate_effect=0.2, training=training)
    assert source.of_units == pytest.approx((1 + training) * BETWEEN)
    assert source.data == pytest.approx((1 + training) * BETWEEN + 0.3 + 0.04)


def test_all_sources_but_the_fits_add_to_the_variance_of_the_data():
    source = Uncertainty(INFLUENCE, monte_carlo=5.0, choice=0.3, rate_effect=-0.2)
    assert source.data == pytest.approx(BETWEEN + 0.3 + 0.04)
    assert Uncertainty(INFLUENCE, monte_carlo=500.0, choice=0.3, rate_effect=0.2).data == source.data


def test_where_units_are_no_source_of_error_training_adds_nothing():
    source = Uncertainty(np.zeros(0), monte_carlo=0.1, choice=0.3, rate_effect=0.2, training=0.7)
    assert source.of_units == 0
    assert source.data == pytest.approx(0.3 + 0.04)
    estimate = Confidence(0.95, 11).linear(0.5, source)
    assert (estimate.se_monte_carlo, estimate.se_data) == pytest.approx((math.sqrt(0.1), math.sqrt(0.34)))


def test_units_without_influence_and_a_single_unit():
    assert Uncertainty(np.zeros(5), 0.0, training=0.7).data == 0
    single = Uncertainty(np.array([0.7]), 0.01, choice=0.2)
    assert math.isnan(single.of_units)
    assert math.isnan(single.data)
    assert all(math.isnan(end) for end in Confidence(0.95, 1, (0.0, 1.0)).linear(0.5, single).interval)


# --- intervals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("n_scored", [2, 5, 40])
def test_students_quantile(level, n_scored):
    assert Confidence(level, n_scored).quantile == pytest.approx(stats.t.ppf(0.5 + level / 2, n_scored - 1))


def test_a_linear_interval_is_students():
    source = Uncertainty(np.array([0.01, -0.01]), monte_carlo=5e-4)
    estimate = Confidence(0.9, 11).linear(0.3, source)
    assert source.monte_carlo + source.data == pytest.approx(9e-4)
    assert estimate.interval == pytest.approx(stats.t.interval(0.9, 10, 0.3, 0.03))
    assert estimate.confidence_level == 0.9
    assert (estimate.se_monte_carlo, estimate.se_data) == pytest.approx((math.sqrt(5e-4), 0.02))


def spread(standard_error):
    return Uncertainty(np.zeros(2), monte_carlo=standard_error**2)


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


@pytest.mark.parametrize(
    ("loss_range", "value"),
    [
        ((-math.inf, math.inf), -0.5),
        ((0.0, math.inf), 0.01),
        ((0.0, math.inf), 0.6),
        ((0.0, 1.0), 0.01),
        ((-1.0, 0.0), -0.5),
    ],
)
def test_intervals_grow_with_the_level_and_hold_the_value(loss_range, value):
    draws = value + 0.2 * np.random.default_rng(0).standard_normal(500)
    widths = {"linear": [], "draws": [], "few": []}
    for level in (0.5, 0.9, 0.99):
        confidence = Confidence(level, 12, loss_range)
        made = {
            "linear": confidence.linear(value, spread(0.2)),
            "draws": confidence.from_draws(value, draws, 0.01),
            "few": confidence.from_few_draws(value, draws[:50]),
        }
        for name, estimate in made.items():
            low, high = estimate.interval
            assert loss_range[0] <= low <= estimate.value == value <= high <= loss_range[1]
            widths[name].append(high - low)
    assert all(np.diff(sizes).min() >= 0 < sizes[0] for sizes in widths.values())


def test_draws_that_the_fits_explain_leave_nothing_to_the_data():
    draws = 0.5 + 0.1 * np.random.default_rng(0).standard_normal(200)
    estimate = Confidence(0.95, 30).from_draws(0.5, draws, monte_carlo=0.09)
    assert (estimate.se_monte_carlo, estimate.se_data) == (pytest.approx(0.3), 0.0)

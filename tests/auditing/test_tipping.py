"""The tipping point against one that is found by brute force, and its words."""

from functools import cache

import numpy as np
import pytest

import outofcluster as ooc
from ooc_test_results import audit, comparison
from outofcluster._base.exceptions import SolverError


def first_rate(rates, reached):
    return rates[np.argmax(reached)] if reached.any() else None


def close(found, expected, step):
    return found is expected is None or (found is not None and expected is not None and abs(found - expected) <= step)


@cache
def searched(name, level):
    """An audit with its corrected value and the ends of its interval at many rates."""
    result = audit(name).with_confidence(level)
    rates = np.linspace(0, 0.9 if name == "fragments" else 0.5, 301)
    at = [result.at_leakage(rate).corrected for rate in rates]
    return result, rates, *np.array([(own.value, *own.interval) for own in at]).T


@pytest.mark.parametrize("name", ["records", "fragments", "scorer", "uncertain"])
@pytest.mark.parametrize("level", [0.95, 0.2])
@pytest.mark.parametrize("share", [0.1, 0.6, 0.95, 1.02])
def test_the_rate_and_its_interval_are_those_of_a_search_over_many_rates(name, level, share):
    """Rate by rate, whether the threshold is reached by the value and by either end of its interval."""
    result, rates, values, low, high = searched(name, level)
    threshold = values[0] + share * (values[-1] - values[0])
    worse = np.less_equal if result.metric.greater_is_better else np.greater_equal
    bad, good = (low, high) if result.metric.greater_is_better else (high, low)
    tipping = result.tipping_point(threshold)
    assert (tipping.threshold, tipping.largest_rate, tipping.confidence_level) == (threshold, rates[-1], level)
    assert close(tipping.rate, first_rate(rates, worse(values, threshold)), 0.004)
    # The ends of intervals are taken to be straight over steps of 0.005.
    for found, end in zip(tipping.interval, (bad, good), strict=True):
        assert close(found, first_rate(rates, worse(end, threshold)), 0.007)


def test_a_narrow_interval_has_two_ends_around_the_rate():
    result = audit("records").with_confidence(0.05)
    tipping = result.tipping_point(result.value_at(0.2))
    low, high = tipping.interval
    assert tipping.rate == pytest.approx(0.2, abs=1e-6)
    assert 0 < low < tipping.rate < high < 0.5
    for end, side in ((low, 1), (high, 0)):
        assert result.at_leakage(end).corrected.interval[side] == pytest.approx(tipping.threshold, abs=1e-4)
    assert f"at a leakage rate of 20 % (5 % interval of the rate: {100 * low:.2g} % to {100 * high:.2g} %)." in str(
        tipping
    )


def test_few_rates_are_enough_for_a_curve_without_derivatives():
    result = audit("not linear")
    tipping = result.tipping_point(result.value_at(0.3))
    assert tipping.interval[0] <= tipping.rate == pytest.approx(0.3, abs=1e-6)


def test_where_there_is_none_the_words_say_why(monkeypatch):
    result = audit("records")
    naive, most = result.naive.value, result.value_at(0.5)
    already = result.tipping_point(naive - 1)
    assert (already.rate, already.interval) == (0.0, (0.0, 0.0))
    assert str(already) == f"The loss is {naive:.4g} without any correction, no better than {naive - 1:.4g}."
    beyond = result.tipping_point(most + 5)
    assert (beyond.rate, beyond.interval) == (None, (None, None))
    assert str(beyond) == (
        f"The corrected loss does not reach {most + 5:.4g}: at a leakage rate of 50 %, the largest that is looked at, "
        f"it is {most:.4g}."
    )

    def fail(*_, **__):
        raise SolverError("The curve has no solution.")

    monkeypatch.setattr("outofcluster.auditing.solution.Solution.loss_at", fail)
    nothing = result.tipping_point(naive + 0.01)
    assert (nothing.rate, nothing.interval) == (None, (None, None))
    assert "nothing can be corrected: The curve has no solution." in str(nothing)


@pytest.mark.slow
def test_the_interval_of_two_models_is_where_their_difference_may_be_nothing():
    """The rates at which the paired interval of the difference includes 0, by brute force."""
    both = comparison()
    one, other = both.naive_ranking
    for level in (0.95, 0.3):
        audits = {name: own.with_confidence(level) for name, own in both.audits.items()}
        tipping = ooc.Comparison(audits, {}).tipping_point(other, one)
        rates = np.linspace(0, 0.5, 251)
        at = [
            ooc.Comparison({name: own.at_leakage(rate) for name, own in audits.items()}, {}).difference(one, other)
            for rate in rates
        ]
        low, high = np.array([own.corrected.interval for own in at]).T
        assert tipping.confidence_level == level
        for found, end in zip(tipping.interval, (high, low), strict=True):
            assert close(found, first_rate(rates, end >= 0), 0.011)

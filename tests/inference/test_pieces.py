"""The optimism by imitated cuts and by real pieces that were left out, put together."""

import pytest

from outofcluster.inference.pieces import TwoReadings


def test_without_leakage_nothing_is_corrected():
    readings = TwoReadings(0.0, 0.0, 0.0, 0.0, 30)
    assert (readings.weight, readings.value, readings.choice) == (0, 0, 0)


def test_pieces_that_say_nothing_leave_the_curve_as_it_is():
    readings = TwoReadings(0.05, -0.3, 1e-6, 1e6, 30)
    assert readings.value == pytest.approx(0.05)
    assert readings.choice == pytest.approx(0, abs=1e-8)


def test_pieces_that_say_it_exactly_count_more_than_imitated_cuts():
    readings = TwoReadings(0.1, 0.04, 0.0, 0.0, 10**6)
    assert readings.weight == pytest.approx(0.05**2 / (0.05**2 + 0.008**2), rel=1e-4)
    assert 0.04 < readings.value < 0.045
    assert readings.choice > 0.007**2


def test_readings_that_agree_add_little_to_the_interval():
    apart, alike = TwoReadings(0.1, 0.04, 1e-6, 1e-4, 90), TwoReadings(0.05, 0.05, 1e-6, 1e-4, 90)
    assert alike.value == pytest.approx(0.05)
    assert alike.choice < apart.choice


def test_few_clusters_without_a_gain_do_not_outvote_the_curve():
    few, many = TwoReadings(0.1, 0.0, 0.0, 0.0, 8), TwoReadings(0.1, 0.0, 0.0, 0.0, 800)
    assert few.weight == pytest.approx(0.25 / (0.25 + 1.4**2 / 8))
    assert many.weight > 0.98
    assert few.choice > 0.05**2 > many.choice

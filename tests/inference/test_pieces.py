"""The optimism by imitated cuts and by real pieces that were left out, put together."""

import pytest

from outofcluster.inference.pieces import TwoReadings


def test_without_leakage_nothing_is_corrected():
    readings = TwoReadings(0.0, 0.0, 0.0, 0.0)
    assert (readings.weight, readings.value, readings.choice) == (0, 0, 0)


def test_pieces_that_say_nothing_leave_the_curve_as_it_is():
    readings = TwoReadings(0.05, -0.3, 1e-6, 1e6)
    assert readings.value == pytest.approx(0.05)
    assert readings.choice == pytest.approx(0, abs=1e-8)


def test_pieces_that_say_it_exactly_count_more_than_imitated_cuts():
    readings = TwoReadings(0.1, 0.04, 0.0, 0.0)
    assert readings.weight == pytest.approx(0.05**2 / (0.05**2 + 0.008**2))
    assert 0.04 < readings.value < 0.045
    assert readings.choice > 0.007**2


def test_readings_that_agree_add_little_to_the_interval():
    apart, alike = TwoReadings(0.1, 0.04, 1e-6, 1e-4), TwoReadings(0.05, 0.05, 1e-6, 1e-4)
    assert alike.value == pytest.approx(0.05)
    assert alike.choice < apart.choice

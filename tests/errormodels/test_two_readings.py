"""The optimism by imitated cuts and by real pieces that were left out, put together."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.errormodels.pieces import TwoReadings


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


def test_an_optimism_by_imitated_cuts_is_not_exact_even_if_their_law_is_known():
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(60), 4)
    profile = rng.standard_normal((60, 3))
    X, y = profile[entity] + 0.2 * rng.standard_normal((240, 3)), (profile[:, 0] > 0).astype(int)[entity]
    groups = np.where(rng.random(240) < 0.15, 60 + np.arange(240), entity)
    line = ooc.PolynomialCurve(1)
    audit = ooc.audit(
        KNeighborsClassifier(1), X, y, groups=groups, leakage=ooc.Leakage.from_true_groups(entity, groups), curve=line,
        unmix=False, n_fits=60, random_state=0,
    )  # fmt: skip
    solved = audit.pooled.solve(line, np.full(5, 0.3))
    assert solved.value > 0
    assert solved.estimate.choice == pytest.approx((0.15 * solved.value) ** 2)
    assert audit.optimism.se_data > 0.15 * audit.optimism.value

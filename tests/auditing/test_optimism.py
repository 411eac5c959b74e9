"""The optimism as an estimate: its value, what its paired interval is made of, where it is kept, and its coverage."""

import math
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.inference.functional import Functional
from outofcluster.inference.intervals import uncertainty
from worlds import EntityWorld, MixedWorld, cut_some, fresh_losses

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(30), 8)
level = rng.standard_normal(30)[groups]
X = np.column_stack([rng.standard_normal(30)[groups] + 0.3 * rng.standard_normal(240), rng.standard_normal(240)])
target = X[:, 1] + level + 0.5 * rng.standard_normal(240)


@cache
def audited(**options):
    options = {"leakage": 0.1, "error_model": "records", "n_fits": 240, "unmix": False} | options
    return ooc.audit(Ridge(), X, target, groups=groups, random_state=0, **options)


@pytest.fixture
def result():
    return audited()


def test_it_is_corrected_less_naive_within_its_interval(result):
    low, high = result.optimism.interval
    assert result.optimism.value == pytest.approx(result.corrected.value - result.naive.value, rel=1e-9)
    assert result.bias == pytest.approx(result.optimism.value, rel=1e-9)
    assert low < result.optimism.value < high
    assert result.optimism.confidence_level == 0.95
    assert result.with_confidence(0.5).optimism.interval[1] < high
    assert audited(leakage=None).optimism is None


def test_its_influences_are_those_of_corrected_less_those_of_naive():
    """What is left is how the curve's own loss at the lowest level differs from the one observed there."""
    samples = audited(curve=ooc.PolynomialCurve(1), n_fits=240)
    pooled, solved = samples.pooled, samples.solution.correction
    corrected, naive = pooled.corrected(solved), pooled.naive_functional()
    fitted_less_observed = Functional(0.0, training=solved.lowest) - Functional(0.0, training=naive.training)
    own = uncertainty(pooled.columns, solved.estimate)
    expected = uncertainty(pooled.columns, corrected - naive - fitted_less_observed)
    assert own.influence == pytest.approx(expected.influence, abs=1e-12)
    assert own.monte_carlo == uncertainty(pooled.columns, corrected).monte_carlo
    assert own.choice == solved.estimate.choice


def test_an_uncertain_rate_widens_it(result):
    uncertain = result.at_leakage(ooc.Leakage(0.1, std=0.05))
    assert uncertain.optimism.value == result.optimism.value
    moved = 0.05 * (result.at_leakage(0.1005).optimism.value - result.at_leakage(0.0995).optimism.value) / 0.001
    expected = math.hypot(result.optimism.se_data, moved)
    assert uncertain.optimism.se_data == pytest.approx(expected, rel=1e-2)


def test_without_leakage_there_is_none(result):
    nothing = result.at_leakage(0.0).optimism
    assert nothing.value == pytest.approx(0, abs=1e-9)
    assert np.ptp(nothing.interval) == pytest.approx(0, abs=1e-9)


def test_a_resampled_interval_is_close_to_the_linear_one_of_the_same_losses(result):
    linear, resampled = (
        result.with_curve(curve).optimism for curve in (ooc.PolynomialCurve(1), ooc.CompletelyMonotoneCurve())
    )
    low, high = resampled.interval
    assert low <= resampled.value <= high
    assert 0.2 < np.ptp(resampled.interval) / np.ptp(linear.interval) < 20


def test_naive_plus_optimism_stays_within_the_range_of_the_loss():
    label = (target > np.quantile(target, 0.9)).astype(int)
    result = ooc.audit(
        KNeighborsClassifier(3), X, label, groups=groups, leakage=0.3, error_model="records", n_fits=120,
        unmix=False, random_state=0, confidence_level=0.999,
    )  # fmt: skip
    low, high = result.optimism.interval
    assert 0 <= result.naive.value + low <= result.naive.value + high <= 1 + 1e-12


def test_it_is_kept_in_json_frames_and_files(result, tmp_path):
    summary = ooc.Summary.from_json(result.to_json())
    assert summary.optimism == result.optimism
    assert result.to_frame()["estimate"].tolist() == ["naive", "iid", "corrected", "optimism"]
    result.save(tmp_path / "audit.zip")
    assert type(result).load(tmp_path / "audit.zip").optimism == result.optimism
    assert audited(leakage=None).to_dict()["optimism"] is None


# --- coverage -----------------------------------------------------------------------------------------


def covered(rows):
    """How often the interval holds the optimism of the population at the realised rate: truth per unit of the rate."""
    truth, rate, low, high = np.array(rows).T
    at_rate = truth.mean() / rate.mean() * rate
    return np.mean((low <= at_rate) & (at_rate <= high))


@pytest.mark.slow
def test_the_interval_covers_the_optimism_of_split_entities():
    """Truth: models without the pieces that leaked, and models as they are, on fresh records of the same entities."""
    world, rows, widths = EntityWorld(), [], []
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        clusters = world.clusters(rng, 120)
        X, y, entity = data = world.records(rng, clusters, 4)
        groups = cut_some(rng, entity, 0.3)
        folds = list(GroupKFold(5, shuffle=True, random_state=seed).split(X, y, groups))
        rate = np.concatenate([np.isin(entity[held_out], entity[train]) for train, held_out in folds]).mean()
        result = ooc.audit(
            KNeighborsClassifier(3), X, y, groups=groups, leakage=ooc.Leakage(float(rate), of="validation"),
            error_model="fragments", cv=folds, n_fits=150, random_state=seed,
        )  # fmt: skip
        clean, leaky = fresh_losses(rng, world, clusters, data, folds, KNeighborsClassifier(3), times=10)
        rows.append((clean - leaky, rate, *result.optimism.interval))
        widths.append(np.ptp(result.optimism.interval) / np.ptp(result.corrected.interval))
    assert covered(rows) >= 0.85
    assert np.mean(widths) < 0.6


@pytest.mark.slow
def test_the_interval_covers_the_optimism_of_leaked_records():
    world, rows = MixedWorld(classes=False), []
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        clusters = world.clusters(rng, 40)
        X, y, cluster = data = world.records(rng, clusters, 20)
        leaky = ooc.simulate_leakage(cluster, np.arange(20, 40), 0.1, random_state=seed)
        split = [(leaky.train, leaky.validation)]
        result = ooc.audit(
            LinearRegression(), X, y, groups=leaky.groups, cv=split, leakage=leaky.rate, error_model="records",
            n_fits=600, unmix=False, random_state=seed,
        )  # fmt: skip
        clean, as_it_is = fresh_losses(rng, world, clusters, data, split, LinearRegression(), times=20)
        rows.append((clean - as_it_is, leaky.rate, *result.optimism.interval))
    assert covered(rows) >= 0.88


def test_an_averaged_curve_that_sees_no_fall_does_not_claim_to_know_it():
    """No cluster effect: AutoCurve puts the optimism near 0, and the interval is as wide as that of a line at least."""
    alike = np.random.default_rng(3).standard_normal((240, 2))
    y = alike[:, 0] + np.random.default_rng(4).standard_normal(240)
    result = ooc.audit(
        LinearRegression(), alike, y, groups=groups, leakage=0.1, error_model="records", n_fits=300, unmix=False,
        random_state=0,
    )  # fmt: skip
    assert result.optimism.se_data >= result.with_curve(ooc.PolynomialCurve(1)).optimism.se_data - 1e-12

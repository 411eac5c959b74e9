"""The optimism as an estimate: its value, what its paired interval is made of, where it is kept, and its coverage."""

import math
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.inference.intervals import uncertainty

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


def test_its_influences_are_those_of_corrected_less_those_of_naive_for_an_interpolated_curve():
    """A curve through all its levels reads the loss at the lowest one off, so that both ways to the difference agree."""
    samples = audited(curve=ooc.PolynomialCurve(1), n_fits=240)
    optimism, _ = samples.correction
    own = uncertainty(samples.pooled, optimism, of_naive=False)
    apart = samples.pooled.influence(optimism) - samples.pooled.influence(samples.pooled.no_correction())
    fitted_less_observed = optimism.training - optimism.weights
    fitted_less_observed[:, 0] -= 1
    rest = samples.pooled.influence(
        ooc_optimism(optimism, np.zeros_like(optimism.weights), fitted_less_observed), of_naive=False
    )
    assert own.influence == pytest.approx(apart - rest, abs=1e-12)
    assert own.monte_carlo == uncertainty(samples.pooled, optimism).monte_carlo
    assert own.choice == optimism.choice


def ooc_optimism(optimism, weights, training):
    return type(optimism)(0.0, 0.0, weights, training, np.zeros(len(weights)))


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


def entities(rng, count, size=4):
    """Entities whose features give their label away: a neighbour of the same entity knows it."""
    features = rng.standard_normal((count, 6))
    label = (0.7 * features[:, 0] + rng.standard_normal(count) > 0).astype(int)
    entity = np.repeat(np.arange(count), size)
    return features[entity] + 0.25 * rng.standard_normal((count * size, 6)), label[entity], entity


def cut(rng, entity, share):
    """Groups in which so many entities are split, and the share of records whose entity is split."""
    split = rng.random(entity.max() + 1) < share
    second = split[entity] & (np.arange(len(entity)) % 4 >= 2)
    return entity + second * (entity.max() + 1)


@pytest.mark.slow
def test_the_interval_covers_the_optimism_of_split_entities():
    """Truth: the same cross-validation with folds of whole entities, which no leakage touches, over data drawn anew."""
    rng = np.random.default_rng(1)
    covered, paired, truths = [], [], []
    for seed in range(60):
        X, y, entity = entities(rng, 120)
        groups = cut(rng, entity, 0.3)
        fold = rng.integers(0, 4, groups.max() + 1)[groups]
        clean = rng.integers(0, 4, entity.max() + 1)[entity]
        leaked = np.mean([np.any((entity == e) & (fold != f)) for e, f in zip(entity, fold, strict=True)])
        losses = {}
        for name, of_record in {"leaked": fold, "clean": clean}.items():
            wrong = np.zeros(len(y))
            for f in range(4):
                model = KNeighborsClassifier(3).fit(X[of_record != f], y[of_record != f])
                wrong[of_record == f] = model.predict(X[of_record == f]) != y[of_record == f]
            losses[name] = wrong.mean()
        truths.append(losses["clean"] - losses["leaked"])
        result = ooc.audit(
            KNeighborsClassifier(3), X, y, groups=groups, cv=[(fold != f, fold == f) for f in range(4)],
            leakage=ooc.Leakage(leaked, of="validation"), n_fits=60, random_state=seed,
        )  # fmt: skip
        covered.append(result.optimism.interval)
        paired.append(np.ptp(result.optimism.interval) / np.ptp(result.corrected.interval))
    truth = np.mean(truths)
    low, high = np.array(covered).T
    assert 0.88 <= np.mean((low <= truth) & (truth <= high)) <= 1.0
    assert np.mean(paired) < 0.6


@pytest.mark.slow
def test_the_interval_covers_the_optimism_of_leaked_records():
    """Truth: models of the same training records without the leaked ones, on fresh records of the held-out clusters."""
    rng = np.random.default_rng(2)
    intervals, truths = [], []
    for seed in range(60):
        level, centre = rng.standard_normal(24), rng.standard_normal((24, 3))

        def draw(clusters, level=level, centre=centre):
            features = centre[clusters] + 0.5 * rng.standard_normal((len(clusters), 3))
            return features, features[:, 0] + level[clusters] + 0.5 * rng.standard_normal(len(clusters))

        cluster = np.repeat(np.arange(24), 12)
        X, y = draw(cluster)
        held_out = cluster >= 12
        leaks = held_out & (rng.random(len(y)) < 0.15)
        train, validation = np.flatnonzero(~held_out | leaks), np.flatnonzero(held_out & ~leaks)
        fresh_X, fresh_y = draw(np.repeat(np.arange(12, 24), 400))
        losses = []
        for rows in (np.flatnonzero(~held_out), train):
            losses.append(np.mean((LinearRegression().fit(X[rows], y[rows]).predict(fresh_X) - fresh_y) ** 2))
        truths.append(losses[0] - losses[1])
        observed = np.where(leaks, rng.integers(0, 12, len(y)), cluster)
        result = ooc.audit(
            LinearRegression(), X, y, groups=observed, cv=[(train, validation)], leakage=leaks.sum() / len(train),
            error_model="records", n_fits=300, unmix=False, random_state=seed,
        )  # fmt: skip
        intervals.append(result.optimism.interval)
    low, high = np.array(intervals).T
    truth = np.mean(truths)
    assert 0.88 <= np.mean((low <= truth) & (truth <= high)) <= 1.0

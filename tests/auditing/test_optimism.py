"""The optimism as an estimate: its value, what its paired interval is made of, where it is kept, and its coverage."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.inference.intervals import uncertainty
from outofcluster.metrics import facts
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


def test_units_are_no_source_of_its_error():
    """It is that of this cross-validation, so that no other clusters could have been scored."""
    samples = audited(curve=ooc.PolynomialCurve(1), n_fits=240)
    pooled, solution = samples.pooled, samples.solution
    source = pooled.optimism_uncertainty(solution.correction, solution.rate_effect)
    assert len(source.influence) == 0
    assert source.monte_carlo == uncertainty(pooled.columns, pooled.corrected(solution.correction)).monte_carlo
    assert source.data == source.choice == pooled.chance(solution.rates) > 0


def test_which_records_leaked_is_chance():
    """The variance of replacing records, by hand from the losses of the replicates, in proportion to the odds."""
    samples = audited(curve="auto", n_fits=240)
    pooled, rate = samples.pooled, 0.1
    odds, per_share = rate / (1 - rate), []
    for fold in samples.samples.folds:
        count = min(map(len, fold.main.losses))
        lowest, *others = (losses[:count] for losses in fold.main.losses)
        near = [
            np.var(losses - lowest, ddof=1) / a
            for a, losses in zip(fold.main.injected[1:], others, strict=True)
            if a <= max(2 * odds, fold.main.injected[1])
        ]
        per_share.append(np.mean(near))
    shares = np.array([fold.n_validation for fold in samples.samples.folds]) / 240
    expected = (shares**2).sum() * odds * np.mean(per_share)
    assert pooled.chance(np.full(5, rate)) == pytest.approx(expected)
    assert pooled.chance(np.zeros(5)) == 0


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
    """Truth: the same records, scored by a model without those that leaked, less the loss as it is."""
    world, rows = MixedWorld(classes=False), []
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        X, y, cluster = world.records(rng, world.clusters(rng, 40), 20)
        leaky = ooc.simulate_leakage(cluster, np.arange(20, 40), 0.1, random_state=seed)
        split = [(leaky.train, leaky.validation)]
        result = ooc.audit(
            LinearRegression(), X, y, groups=leaky.groups, cv=split, leakage=leaky.rate, error_model="records",
            n_fits=600, unmix=False, random_state=seed,
        )  # fmt: skip
        own = leaky.train[cluster[leaky.train] < 20]
        models = [LinearRegression().fit(X[rows_], y[rows_]) for rows_ in (own, leaky.train)]
        clean, as_it_is = (np.mean((model.predict(X[leaky.validation]) - y[leaky.validation]) ** 2) for model in models)
        low, high = result.optimism.interval
        rows.append(low <= clean - as_it_is <= high)
    assert np.mean(rows) >= 0.88


def test_an_averaged_curve_that_sees_no_fall_does_not_claim_to_know_it():
    """No cluster effect: AutoCurve puts the optimism near 0, and which records leaked is chance all the same."""
    alike = np.random.default_rng(3).standard_normal((240, 2))
    y = alike[:, 0] + np.random.default_rng(4).standard_normal(240)
    result = ooc.audit(
        LinearRegression(), alike, y, groups=groups, leakage=0.1, error_model="records", n_fits=300, unmix=False,
        random_state=0,
    )  # fmt: skip
    assert abs(result.optimism.value) < result.optimism.se_data
    assert result.optimism.se_data >= result.pooled.chance(result.solution.rates) ** 0.5 > 0


# --- metrics with a target ------------------------------------------------------------------------------


def as_slope(result, monkeypatch, target):
    """The same audit with its losses called minus a calibration slope, whose best value is a given one."""
    monkeypatch.setitem(facts._TARGETS, "calibration_slope", target)
    samples = replace(result.samples, metric=facts.known_facts("calibration_slope"))
    return replace(result, pooled=replace(result.pooled, samples=samples))


@pytest.mark.parametrize("place", [-5.0, -0.5, 0.1, 0.5, 0.9, 1.5, 5.0])
def test_the_optimism_of_a_metric_with_a_target_is_how_much_nearer_to_it_cross_validation_comes(monkeypatch, place):
    """Targets on both sides of the naive value (0) and the corrected one (1), against a search over the interval."""
    result = audited()
    naive, corrected, (low, high) = -result.naive.value, -result.corrected.value, result.optimism.interval
    target = naive + place * (corrected - naive)
    slope = as_slope(result, monkeypatch, target)
    assert (slope.naive.value, slope.corrected.value) == pytest.approx((naive, corrected))
    nearer = abs(corrected - target) - abs(naive - target)
    possible = np.abs(naive - np.linspace(low, high, 100001) - target) - abs(naive - target)
    assert slope.optimism.value == pytest.approx(nearer)
    assert slope.optimism.interval == pytest.approx((possible.min(), possible.max()), abs=1e-5)
    assert slope.sources[0]["value"] == pytest.approx(nearer)
    if abs(nearer) > 1e-3:
        text = " ".join(str(slope).split())
        assert f"too {'optimistic' if nearer > 0 else 'pessimistic'} by {abs(nearer):.3f}" in text
        assert f"too {'pessimistic' if nearer > 0 else 'optimistic'}" not in text
    assert f"The best calibration slope is {target:g}: optimism is how much nearer cross-validation" in str(slope)


@pytest.mark.parametrize(("strength", "side"), [(0.001, "above"), (3.0, "below")])
def test_the_sentence_of_a_calibration_slope_follows_from_its_distance_to_one(strength, side, tmp_path):
    """Models that are too sure of themselves or not sure enough, whose slopes lie below or above 1."""
    rng = np.random.default_rng(3)
    entities = np.repeat(np.arange(120), 4)
    X = 1.5 * rng.standard_normal((120, 5))[entities] + 0.3 * rng.standard_normal((480, 5))
    y = (X[:, 0] + 3 * rng.standard_normal(120)[entities] > 0).astype(int)
    groups = np.where((np.arange(480) % 4 < 2) & (entities % 2 == 0), entities + 120, entities)
    model = LogisticRegression(C=strength) if side == "above" else GaussianNB()
    options = {"scoring": "calibration_slope", "error_model": "fragments", "n_fits": 20, "random_state": 0}
    scores = ooc.corrected_cross_validate(model, X, y, groups=groups, leakage=0.4, **options)
    result = scores["audit"]
    naive, corrected = result.naive.value, result.corrected.value
    # Scores are corrected slopes, whatever optimism means for them.
    moved = scores["corrected_score"] - scores["test_score"]
    assert moved == pytest.approx(np.full(5, corrected - naive))
    assert (naive > 1) == (corrected > 1) == (side == "above")
    word = "optimistic" if abs(naive - 1) < abs(corrected - 1) else "pessimistic"
    assert f"too {word} by" in result.summary.headline
    assert result.tipping_point(corrected).rate == pytest.approx(0.4 if word == "optimistic" else 0.0, abs=1e-6)
    result.write_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in (
        "Calibration slope: nearer to 1 is better.",
        "too near to 1",
        "The move away from 1",
        f"too {word} by",
    ):
        assert words in page


def test_models_are_ranked_by_their_distance_from_the_target(monkeypatch):
    result = audited()
    far = replace(result, pooled=replace(result.pooled))
    for target, first in ((-9.0, "worse"), (9.0, "better")):
        slope = as_slope(result, monkeypatch, target)
        worse = as_slope(far, monkeypatch, target).at_leakage(0.4)
        both = ooc.Comparison({"better": slope.at_leakage(0.05), "worse": worse}, {})
        assert both.ranking[0] == first
        assert both.chance_of_change is None
        assert f"Calibration slope, nearer to {target:g} is better" in str(both)

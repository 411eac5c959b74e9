"""Audits of fragments with models without the likeliest pieces of held-out entities."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_results import with_samples
from outofcluster._base.exceptions import InputError
from outofcluster.inference.functional import Influences
from outofcluster.problem.folds import make_folds
from outofcluster.sampling.audit_samples import WITHOUT_PIECES


def chipped(seed, *, n_entities=100, n_features=12, informative=True):
    """Entities of ten records with labels of their own; single records of a third of them are chipped off."""
    rng = np.random.default_rng(seed)
    entities = np.repeat(np.arange(n_entities), 10)
    profile = 2 * rng.standard_normal((n_entities, n_features))
    X = profile[entities] * informative + rng.standard_normal((len(entities), n_features))
    y = (rng.standard_normal(n_entities)[entities] + 0.2 * rng.standard_normal(len(entities)) > 0).astype(int)
    groups = entities.copy()
    for new, entity in enumerate(rng.choice(n_entities, n_entities // 3, replace=False)):
        groups[10 * entity + rng.integers(10)] = n_entities + new
    return X, y, groups, entities


def audited(seed=0, *, random_state=0, **changes):
    X, y, groups, _ = chipped(seed)
    options = {"leakage": 0.25, "error_model": "fragments", "loss": "brier", "random_state": random_state} | changes
    return ooc.audit(KNeighborsClassifier(3), X, y, groups=groups, **options)


@pytest.fixture(scope="module")
def result():
    return audited()


def curve_alone(result):
    folds = tuple(fold.without_sizes([WITHOUT_PIECES]) for fold in result.samples.folds)
    return with_samples(result, replace(result.samples, folds=folds))


@pytest.mark.slow
def test_real_pieces_count_more_than_imitated_cuts(result):
    """The truth is known here: the loss of models without any record of the held-out entities."""
    X, y, groups, entities = chipped(0)
    naive, clean = [], []
    for fold in make_folds(X, None, groups):
        kept = fold.train[~np.isin(entities[fold.train], entities[fold.validation])]
        for rows, losses in ((fold.train, naive), (kept, clean)):
            model = KNeighborsClassifier(3).fit(X[rows], y[rows])
            losses.extend((model.predict_proba(X[fold.validation])[:, 1] - y[fold.validation]) ** 2)
    truth = np.mean(clean)
    assert result.naive.value == pytest.approx(np.mean(naive))
    alone = curve_alone(result)
    # Half of the imitated cuts chip single records off as well, so that they are not far off either.
    assert abs(result.corrected.value - truth) < 0.7 * abs(alone.corrected.value - truth)
    assert result.corrected.interval[0] < truth < result.corrected.interval[1]
    low, high = result.optimism.interval
    assert low < truth - np.mean(naive) < high
    assert result.readings.by_curve == pytest.approx(alone.optimism.value)
    assert 0.5 < result.readings.weight < 1
    assert alone.readings is None


@pytest.mark.slow
def test_a_default_audit_fits_a_hundred_models_more_and_a_number_of_fits_is_kept(result):
    assert sum(fold.n_fits for fold in result.samples.folds) == 500
    assert sum(fold.n_fits for fold in audited(n_fits=300).samples.folds) == 300
    few = audited(n_fits=100)
    assert all(WITHOUT_PIECES not in fold.runs for fold in few.samples.folds)
    off = audited(unmix=False)
    assert all(WITHOUT_PIECES not in fold.runs for fold in off.samples.folds)
    assert off.corrected == curve_alone(result).corrected


@pytest.mark.slow
def test_the_pieces_that_are_left_out_are_kept_with_the_samples(result, tmp_path):
    result.save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert again.corrected == result.corrected
    assert again.readings == result.readings
    runs = [fold.runs[WITHOUT_PIECES] for fold in again.samples.folds]
    assert all(run.injected.tolist() == [-1, 0] for run in runs)
    assert all(0 < run.kept[0] < 0.6 for run in runs)
    merged = result.merge(audited(random_state=1))
    assert all(fold.runs[WITHOUT_PIECES].counts.tolist() == [20, 20] for fold in merged.samples.folds)


def test_no_leakage_is_no_correction_whatever_the_pieces_say(result):
    assert result.at_leakage(0.0).corrected.value == result.naive.value
    values = result.sensitivity([0.0, 0.05, 0.1, 0.2]).values
    assert (np.diff(values) > 0).all()


def test_the_interval_includes_that_held_out_clusters_and_fits_vary(result):
    pooled, by_pieces = result.pooled, result.solution.correction.aside
    assert pooled.monte_carlo_of(by_pieces) > 0
    assert np.count_nonzero(Influences(pooled.columns).of_units(by_pieces)) > 10
    assert result.with_curve(ooc.PolynomialCurve(2)).corrected.se_data > 0
    assert result.with_units("records").corrected.se_data > 0


def test_rates_that_differ_by_fold_are_combined_as_well(result):
    several = result.at_leakage([0.2, 0.3, 0.25, 0.25, 0.25])
    assert several.readings.by_pieces == pytest.approx(result.readings.by_pieces, rel=0.02)


def test_a_disagreement_is_a_finding(result):
    alone = [finding for finding in curve_alone(result).findings if finding.code == "curve-and-unmixing"]
    assert alone == []
    folds = []
    for fold in result.samples.folds:
        run = fold.runs[WITHOUT_PIECES]
        without, with_them = run.losses
        moved = replace(run, losses=(without + 0.6, with_them))
        folds.append(replace(fold, runs=fold.runs | {WITHOUT_PIECES: moved}))
    findings = with_samples(result, replace(result.samples, folds=tuple(folds))).findings
    assert any("without the likeliest pieces" in f.message for f in findings if f.code == "curve-and-unmixing")


@pytest.mark.slow
def test_features_that_do_not_tell_entities_apart_are_named():
    X, y, groups, _ = chipped(0, informative=False)
    noise = np.random.default_rng(0).integers(0, 2, len(y))
    result = ooc.audit(
        KNeighborsClassifier(3), X, noise, groups=groups, leakage=0.1, error_model="fragments", n_fits=300,
        random_state=0,
    )  # fmt: skip
    assert all(WITHOUT_PIECES not in fold.runs for fold in result.samples.folds)
    assert result.readings is None
    assert "cannot tell entities apart" in next(f.message for f in result.findings if f.code == "sides-alike")


def test_pieces_may_leak_from_more_than_half_of_the_records(result):
    """Large entities lose a record easily, so that most held-out records can have a mate in training."""
    much, little = result.at_leakage(ooc.Leakage(0.7, of="validation")), result.at_leakage(0.25)
    assert much.corrected.value > little.corrected.value > result.naive.value
    assert np.ptp(much.corrected.interval) > np.ptp(little.corrected.interval)
    assert result.sensitivity([0.9]).rates.tolist() == [0.9]
    with pytest.raises(InputError, match=r"leakage must be at most 0\.9, beyond which nothing can be told, got 0\.95"):
        result.at_leakage(0.95)
    with pytest.raises(InputError, match=r"rates must lie between 0 and 0\.9, got 0\.95"):
        result.sensitivity([0.95])

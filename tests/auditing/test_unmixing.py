"""Audits that see below the leakage rate, take the rate from the data, and name the suspects."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import outofcluster as ooc
from ooc_test_results import with_samples
from outofcluster.inference.functional import Influences
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.audit_samples import MAIN, UNMIXED


def world(seed, turned=0.6, rate=0.1, n_train=6, n_held=2, size=150):
    """Clusters with centres of their own; held-out ones follow other slopes."""
    rng = np.random.default_rng(seed)
    count = n_train + n_held
    cluster = np.repeat(np.arange(count), size)
    X = rng.standard_normal((count, 8))[cluster] + 0.5 * rng.standard_normal((len(cluster), 8))
    slopes = np.zeros((count, 8))
    slopes[:, :2] = 1.0, 0.5
    slopes[n_train:] += turned * rng.standard_normal(8)
    y = (X * slopes[cluster]).sum(axis=1) + 0.7 * rng.standard_normal(len(cluster))
    held = np.arange(n_train, count)
    split = ooc.simulate_leakage(cluster, held, rate, random_state=seed)
    clean = split.train[~np.isin(cluster[split.train], held)]
    scored = np.flatnonzero(np.isin(cluster, held))
    truth = float(np.mean((Ridge().fit(X[clean], y[clean]).predict(X[scored]) - y[scored]) ** 2))
    return X, y, cluster, held, split, truth


def audit(data, estimator=None, **options):
    X, y, _, _, split, _ = data
    settings = {"leakage": split.rate, "error_model": "records", "n_fits": 900, "random_state": 0} | options
    return ooc.audit(
        Ridge() if estimator is None else estimator,
        X,
        y,
        groups=split.groups,
        cv=[(split.train, split.validation)],
        **settings,
    )


@pytest.fixture(scope="module")
def data():
    return world(43)


@pytest.fixture(scope="module")
def result(data):
    return audit(data)


@pytest.mark.slow
def test_it_sees_what_the_curve_above_cannot(data, result):
    truth = data[-1]
    without = audit(data, unmix=False)
    assert abs(result.corrected.value - truth) < 0.5 * abs(without.corrected.value - truth)
    assert abs(result.corrected.value - truth) < 0.4 * abs(result.naive.value - truth)
    low, high = result.corrected.interval
    assert low <= truth <= high
    low, high = result.range
    assert low <= truth <= high
    assert result.naive == without.naive or result.naive.value == without.naive.value


@pytest.mark.slow
def test_there_is_no_range_where_hardly_any_small_set_is_clean(data, result):
    """(1 - 0.4)^8 is 2 %, and the squared error has no upper end; an error rate ends at 1."""
    assert result.at_leakage(0.4).range is None
    assert "Without any curve" not in str(result.at_leakage(0.4))
    X, y, cluster, held, split, truth = data
    classes = audit((X, (y > 0).astype(int), cluster, held, split, truth), LogisticRegression())
    low, high = classes.at_leakage(0.4).range
    assert low < classes.at_leakage(0.4).corrected.value <= high == 1


def test_the_range_has_the_sign_of_the_metric(result):
    facts = MetricFacts("score", "score", greater_is_better=True, range=(-np.inf, 0.0))
    score = replace(result, pooled=replace(result.pooled, samples=replace(result.samples, metric=facts)))
    assert score.range == (-result.range[1], -result.range[0])


def test_a_line_that_leaving_records_out_contradicts_does_not_bound_the_range(result):
    """Losses above the rate are moved so that they fall steeply, while those below it stay as they were."""
    fold = result.samples.folds[0]
    steep = [losses - 60 * a for losses, a in zip(fold.main.losses, fold.main.injected, strict=True)]
    moved = replace(fold, runs=fold.runs | {MAIN: replace(fold.main, losses=tuple(steep))})
    pooled = with_samples(result, replace(result.samples, folds=(moved,))).pooled
    low, _ = pooled.bounds(0.1, 0.0)
    below = fold.runs[UNMIXED]
    highest = max(below.means) + 2 * max(below.standard_errors)
    assert pooled.naive < low <= highest < pooled.naive + 60 * 0.1


def test_the_budget_is_kept(result):
    assert 850 <= result.summary.fits <= 950
    assert result.samples.folds[0].runs[UNMIXED].n_fits >= 150


def test_no_further_fit_for_another_rate_and_for_a_file(result, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(Ridge, "fit", fail)
    values = [result.at_leakage(rate).corrected.value for rate in (0.0, 0.03, 0.06, 0.09)]
    assert values[0] == pytest.approx(result.naive.value)
    assert values == sorted(values)
    result.save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert again.corrected == result.corrected
    assert again.range == result.range
    assert again.data_leakage == result.data_leakage
    assert again.suspects().equals(result.suspects())
    line = result.with_curve(ooc.PolynomialCurve(2))
    assert line.corrected.value != result.corrected.value
    assert line.with_curve("auto").corrected == result.corrected
    assert result.with_curve(ooc.CompletelyMonotoneCurve()).corrected.se_data > 0


def test_the_influence_through_evaluation_by_hand(result):
    """The corrected loss is that of thinned models: of the user's own loss nothing is left but through the readings."""
    pooled, fold = result.pooled, result.samples.folds[0]
    kind, solved = pooled.unit_kind, result.solution.correction
    weights, at = solved.estimate.weights, int((fold.runs[UNMIXED].injected > 0).sum())
    assert sum(array.sum() for array in weights.values()) == pytest.approx(0, abs=1e-9)
    evaluation = fold.runs[UNMIXED].influences(kind)[::-1]
    own = (fold.own_losses - fold.own_losses.mean()) / fold.n_validation
    units = fold.main.effects[kind].units
    by_unit = np.array([own[fold.scored_units(kind) == unit].sum() for unit in units])
    below = weights[UNMIXED][0]
    scored = by_unit + below[:at] @ evaluation[:at] + below[at] * by_unit + below[at + 1 :] @ evaluation[at:]
    for role in fold.size_roles:
        scored = scored + weights[role][0] @ fold.runs[role].influences(kind)
    influence = Influences(pooled.columns).of_units(pooled.corrected(solved))
    np.testing.assert_allclose(influence[np.searchsorted(pooled.units, units)], scored, atol=1e-10)


@pytest.mark.slow
def test_the_rate_from_the_data(data, result):
    X, y, _, _, split, truth = data
    by_data = audit(data, leakage="data")
    assert by_data.leakage[0].rate == pytest.approx(split.rate, abs=0.02)
    assert by_data.leakage[0].upper >= split.rate
    assert result.data_leakage == by_data.leakage[0]
    alone = ooc.Leakage.from_data(X, y, groups=split.groups, cv=[(split.train, split.validation)], random_state=0)
    assert alone.rate == pytest.approx(split.rate, abs=0.02)
    assert abs(by_data.corrected.value - truth) < 0.5 * abs(by_data.naive.value - truth)
    # The estimate's own uncertainty is part of the interval.
    assert by_data.corrected.se_data > by_data.at_leakage(by_data.leakage[0].rate).corrected.se_data


def test_findings(data, result):
    codes = [finding.code for finding in result.at_leakage(0.4).findings]
    assert "rate-above-bound" in codes
    assert "rate-above-bound" not in [finding.code for finding in result.findings]
    message = next(f.message for f in result.at_leakage(0.4).findings if f.code == "rate-above-bound")
    assert "The data allow a leakage rate of at most" in message
    assert "40 % was assumed" in message


@pytest.mark.slow
def test_a_curve_that_cannot_see_the_fall_is_named():
    """A logistic model that a few leaked records rescue: the losses above the rate are flat."""
    X, y, *rest = world(24, turned=1.5, rate=0.2)
    steep = audit((X, (y > 0).astype(int), *rest), LogisticRegression())
    assert steep.curve.unmixing_.optimism > 3 * steep.curve.unmixing_.optimism_above
    found = [finding for finding in steep.findings if finding.code == "curve-and-unmixing"]
    assert "below the leakage rate put the optimism at" in found[0].message


@pytest.mark.slow
def test_sides_that_nothing_tells_apart():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    groups = np.repeat(np.arange(6), 100)
    plain = ooc.audit(
        Ridge(),
        X,
        X[:, 0] + rng.standard_normal(600),
        groups=groups,
        cv=[(np.arange(400), np.arange(400, 600))],
        leakage=0.1,
        n_fits=600,
        random_state=0,
    )
    assert "sides-alike" in [finding.code for finding in plain.findings]
    assert abs(plain.bias) < plain.corrected.se_data


def test_suspects(data, result):
    _, _, cluster, held, split, _ = data
    leaked = set(split.train[np.isin(cluster[split.train], held)].tolist())
    frame = result.suspects()
    assert frame.columns.tolist() == ["fold", "record", "cluster", "probability", "resembles"]
    assert frame["probability"].is_monotonic_decreasing
    first = frame.head(len(leaked))
    assert np.mean([record in leaked for record in first["record"]]) > 0.85
    own = first[[record in leaked for record in first["record"]]]
    assert np.mean([str(cluster[r]) == c for r, c in zip(own["record"], own["resembles"], strict=True)]) > 0.9
    with pytest.raises(ooc.InputError, match=r"suspects\(\) needs an audit of single records"):
        audit(data, unmix=False, n_fits=100).suspects()


@pytest.mark.slow
def test_the_same_bits_for_any_number_of_workers_and_after_an_interruption(data, result, tmp_path):
    assert audit(data, n_jobs=2).corrected == result.corrected
    options = {"checkpoint": tmp_path / "run"}
    assert audit(data, **options).corrected == result.corrected
    assert audit(data, **options).corrected == result.corrected
    assert (tmp_path / "run.fold0.unmixed").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unmix": "always"}, "unmix must be 'auto', False or a classifier, got 'always'"),
        ({"unmix": LinearSVC()}, "unmix must be a classifier with predict_proba, got LinearSVC without"),
        ({"leakage": "guess"}, "leakage must be a rate, a Leakage, one of them for each fold, or 'data', got 'guess'"),
    ],
)
def test_bad_input_before_any_fit(data, options, message, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(Ridge, "fit", fail)
    with pytest.raises(ooc.InputError, match=message):
        audit(data, **options)


@pytest.mark.slow
def test_a_classifier_of_the_user_s(data):
    X, y, _, _, split, _ = data
    own = ooc.audit(
        LogisticRegression(),
        X,
        y > 0,
        groups=split.groups,
        cv=[(split.train, split.validation)],
        leakage=split.rate,
        error_model="records",
        unmix=GaussianNB(),
        n_fits=200,
        random_state=0,
    )
    assert UNMIXED in own.samples.folds[0].runs

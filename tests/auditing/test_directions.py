"""Audits of splits in which records are on the wrong side both ways."""

import json

import numpy as np
import pytest
from joblib import parallel_backend
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import outofcluster as ooc
from outofcluster._base.text import percentage
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import MAIN, exchanged
from outofcluster.sampling.baselines import train_losses


def world(seed, rate, reverse, n_train=6, n_held=3, size=120):
    """Held-out clusters lie higher; so many records are on the wrong side that both rates are as wanted."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_train + n_held), size)
    held = cluster >= n_train
    X = rng.standard_normal((len(cluster), 3)) + 1.0 * held[:, None]
    y = X[:, 0] + (1.5 + X[:, 1]) * held + 0.5 * rng.standard_normal(len(cluster))
    equations = np.array([[1 - rate, rate], [reverse, 1 - reverse]])
    counts = np.linalg.solve(equations, [rate * (~held).sum(), reverse * held.sum()]).round().astype(int)
    wrong = [
        rng.choice(np.flatnonzero(side), count, replace=False)
        for side, count in zip((held, ~held), counts, strict=True)
    ]
    groups = cluster.copy()
    groups[wrong[0]] = rng.integers(0, n_train, len(wrong[0]))
    groups[wrong[1]] = rng.integers(n_train, n_train + n_held, len(wrong[1]))
    in_test = groups >= n_train
    train, test = np.flatnonzero(~in_test), np.flatnonzero(in_test)
    clean = LinearRegression().fit(X[train[~held[train]]], y[train[~held[train]]])
    scored = test[held[test]]
    truth = float(np.mean((clean.predict(X[scored]) - y[scored]) ** 2))
    return X, y, groups, (train, test), float(held[train].mean()), float((~held[test]).mean()), truth


def audit(data, estimator=None, **options):
    X, y, groups, split, *_ = data
    settings = {"error_model": "records", "n_fits": 300, "random_state": 0, "unmix": False} | options
    return ooc.audit(
        LinearRegression() if estimator is None else estimator, X, y, groups=groups, cv=[split], **settings
    )


@pytest.fixture(scope="module")
def data():
    return world(0, 0.1, 0.15)


@pytest.fixture(scope="module")
def result(data):
    return audit(data, leakage=data[4], validation_leakage=data[5])


def test_most_of_the_bias_is_removed(data, result):
    *_, rate, reverse, truth = data
    assert abs(result.corrected.value - truth) < 0.2 * abs(result.naive.value - truth)
    one_way = result.at_leakage(rate, validation=0.0)
    assert abs(one_way.corrected.value - truth) > 2 * abs(result.corrected.value - truth)
    low, high = result.corrected.interval
    assert low <= truth <= high
    assert result.validation_leakage == reverse


def test_a_model_that_learns_nothing_has_a_closed_form():
    """With a constant prediction no injection changes the loss: the mixture of the held-out side is all that counts."""
    data = world(1, 0.05, 0.2)
    _, y, _, (train, test), rate, reverse, _ = data
    result = audit(data, DummyRegressor(strategy="constant", constant=0.5), leakage=0.0, validation_leakage=reverse)
    b, b_train = np.mean((y[test] - 0.5) ** 2), np.mean((y[train] - 0.5) ** 2)
    assert result.naive.value == pytest.approx(b)
    assert result.corrected.value == pytest.approx((b - reverse * b_train) / (1 - reverse), rel=0.02)
    both = result.at_leakage(rate, validation=reverse).corrected.value
    assert both == pytest.approx(((1 - rate) * b - reverse * b_train) / (1 - rate - reverse), rel=0.03)


def test_without_errors_the_other_way_nothing_changes(data):
    plain = audit(data, leakage=0.1)
    assert plain.validation_leakage == 0
    assert plain.samples.folds[0].train_losses is None
    asked = audit(data, leakage=0.1, validation_leakage=0.0, n_fits=360)
    assert asked.naive.value == plain.naive.value
    assert asked.corrected.value == pytest.approx(plain.corrected.value, rel=0.3)
    with pytest.raises(ooc.InputError, match="training records were not scored"):
        plain.at_leakage(0.1, validation=0.1)
    with pytest.raises(ooc.InputError, match="training records were not scored"):
        plain.sensitivity_surface()


def test_the_surface_needs_no_fit_and_can_be_written_down(data, result, monkeypatch):
    monkeypatch.setattr(LinearRegression, "fit", None)
    surface = result.sensitivity_surface([0.0, data[4]], [0.0, data[5]])
    assert surface.values[1, 1] == pytest.approx(result.corrected.value)
    assert surface.values[0, 0] == pytest.approx(result.naive.value)
    assert (np.diff(surface.values, axis=0) > 0).all()
    assert (np.diff(surface.values, axis=1) > 0).all()
    assert ooc.SensitivitySurface.from_dict(json.loads(json.dumps(surface.to_dict()))) == surface
    assert list(surface.to_frame().columns) == ["rate", "validation_rate", "value", "low", "high"]
    assert len(surface.to_frame()) == 4
    assert "0 %" in str(surface)
    assert "<table" in surface._repr_html_()


def test_it_is_said_and_kept(result, tmp_path):
    text = " ".join(str(result).split())
    assert f"leakage and {percentage(result.validation_leakage)} the other way" in text
    assert "The other way, it is assumed that" in text
    assert "they are easy for the model" in text
    assert f"{100 * result.validation_leakage:.3g} % of the held-out records belong to training clusters" in str(
        result
    ).replace("\n", " ")
    assert result.range is None
    summary = ooc.Summary.from_json(result.to_json())
    assert summary.validation_leakage == result.validation_leakage
    assert summary == result.summary
    result.save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert again.corrected == result.corrected
    assert again.optimism == result.optimism
    assert again.with_units("records").corrected.value == result.corrected.value
    assert result.with_curve(ooc.PolynomialCurve(2)).corrected.value > result.naive.value
    assert result.with_curve(ooc.CompletelyMonotoneCurve()).corrected.se_data > 0


def test_runs_of_other_seeds_can_be_merged(data, result):
    other = audit(data, leakage=data[4], validation_leakage=data[5], random_state=1)
    both = result.merge(other)
    once, twice = (audit.samples.folds[0].runs[exchanged(MAIN)].n_fits for audit in (result, both))
    assert twice == 2 * once
    assert both.corrected.value == pytest.approx(result.corrected.value, rel=0.3)


def test_the_budget_is_kept(result):
    assert 270 <= result.summary.fits <= 340


def test_losses_on_training_records_do_not_depend_on_workers(data, result):
    X, y, groups, (train, test), *_ = data
    task = Task.check(LinearRegression(), X, y, groups=groups)
    fold = Fold(0, train, test)
    with parallel_backend("threading"):
        one, two = (train_losses(task, [fold], seed=np.random.SeedSequence(3), n_jobs=jobs)[0][0] for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    within = np.mean((LinearRegression().fit(X[train], y[train]).predict(X[train]) - y[train]) ** 2)
    assert within < one.mean() < 1.1 * within  # Held-out records lose a little more than those that were fitted.


def test_bad_input_is_refused_before_any_fit(data, monkeypatch):
    monkeypatch.setattr(LinearRegression, "fit", None)
    cases = {
        "validation_leakage must be at most 0.5": {"validation_leakage": 0.6},
        "must be at most 0.75 together": {"validation_leakage": 0.4, "leakage": 0.4},
        "whose share of validation records is that of records whose cluster also trains": {
            "validation_leakage": ooc.Leakage(0.1, of="validation")
        },
        "it is for single records": {"validation_leakage": 0.1, "error_model": "fragments"},
        "validation_leakage must be": {"validation_leakage": -0.1},
    }
    for message, options in cases.items():
        with pytest.raises(ooc.InputError, match=message):
            audit(data, **options)
    X, y, groups, split, *_ = data
    with pytest.raises(ooc.InputError, match="no mean over records"):
        ooc.audit(
            LogisticRegression(),
            X,
            y > 1,
            groups=groups,
            cv=[split],
            error_model="records",
            scoring="roc_auc",
            validation_leakage=0.1,
        )

"""Sampling: every kind of data, estimator and loss; wrong input refused before any fit; failures keep what there is."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outofcluster as ooc
from ooc_test_estimators import Counting, FailsOnSome
from outofcluster._base.exceptions import FitError, InputError

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 3))
y = (X[:, 0] + 0.8 * rng.standard_normal(90) > 0).astype(int)
train, validation = np.arange(60), np.arange(60, 90)


def sample(estimator=None, data=X, target=y, **options):
    given = {"train": train, "validation": validation, "n_train": 30, "n_fits": 24, "random_state": 1} | options
    return ooc.sample_losses(LogisticRegression() if estimator is None else estimator, data, target, **given)


def numbers(samples):
    return np.concatenate(samples.losses)


@pytest.mark.parametrize(
    "data",
    [
        X,
        X.tolist(),
        sparse.csr_matrix(X),
        sparse.csr_array(X),
        pd.DataFrame(X, columns=list("abc")),
        pl.DataFrame(X, schema=list("abc")),
    ],
    ids=["numpy", "list", "csr_matrix", "csr_array", "pandas", "polars"],
)
def test_every_kind_of_table(data):
    np.testing.assert_allclose(numbers(sample(data=data)), numbers(sample()), atol=0.05)


@pytest.mark.parametrize("target", [pd.Series(y, index=range(100, 190)), pl.Series(y), y.tolist(), y.astype(bool)])
def test_every_kind_of_target(target):
    assert numbers(sample(target=target)).tolist() == numbers(sample()).tolist()


def test_string_labels_many_classes_and_probabilities():
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.4, 0.4])]
    for loss, most in (("zero_one", 1), ("log_loss", 40), ("brier", 2)):
        losses = numbers(sample(target=labels, loss=loss))
        assert ((losses >= 0) & (losses <= most)).all()
        assert losses.std() > 0


def test_regression_with_several_outputs():
    outputs = np.stack([X[:, 0], X[:, 1] - X[:, 2]], axis=1)
    assert numbers(sample(LinearRegression(), target=outputs)).max() < 1e-20


def test_pipelines_scorers_and_own_losses():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    np.testing.assert_allclose(
        numbers(sample(pipeline, loss=get_scorer("accuracy"))), numbers(sample(pipeline)) - 1, atol=1e-12
    )
    own = numbers(sample(pipeline, loss=lambda true, predicted: 2.0 * (true != predicted)))
    np.testing.assert_allclose(own, 2 * numbers(sample(pipeline)))


def test_fit_parameters_follow_their_records():
    weights = np.where(np.arange(90) % 3 == 0, 1e-9, 1.0)
    weighted = numbers(sample(params={"sample_weight": weights}))
    assert weighted.tolist() != numbers(sample()).tolist()
    np.testing.assert_allclose(numbers(sample(params={"sample_weight": np.ones(90)})), numbers(sample()), atol=0.05)


def test_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = LogisticRegression().set_fit_request(sample_weight=True)
        weights = np.where(np.arange(90) % 3 == 0, 1e-9, 1.0)
        routed = sample(make_pipeline(scaler, model), params={"sample_weight": weights})
    assert numbers(routed).tolist() != numbers(sample(make_pipeline(StandardScaler(), LogisticRegression()))).tolist()


def test_a_single_class_is_drawn_again_and_counted():
    rare = np.zeros(90, dtype=int)
    rare[[3, 40, 70, 80]] = 1
    samples = sample(target=rare, n_train=10, n_fits=40)
    assert samples.redraws.sum() > 5
    assert samples.n_fits == 40


# --- failures -----------------------------------------------------------------------------------------


def test_an_estimator_that_fails_is_named_and_what_there_is_is_kept():
    Counting.fits = 0
    with pytest.raises(
        FitError, match=r"at level 1 \(injected fraction 0.5\), replicate 1: ArithmeticError: no luck"
    ) as caught:
        sample(Counting(fail_at=14), injected=[0, 0.5], n_fits=24)
    assert [len(level) for level in caught.value.samples.losses] == [12]


def test_a_metric_that_is_shifted_may_fail_at_the_first_fit():
    """Accuracies are 1 less the error rate, and there is nothing to take from 1 where no model was fitted."""
    labels = np.where(y > 0, "yes", "no")
    with pytest.raises(FitError, match="The estimator failed at level 0") as failure:
        sample(Ridge(), target=labels, scoring="accuracy")
    assert failure.value.samples.losses == ()


def test_a_hopeless_draw_says_so():
    rare = np.zeros(90, dtype=int)
    rare[0] = 1
    with pytest.raises(FitError, match="100 resamples in a row held a single class or left no validation record"):
        sample(target=rare, injected=[1.0])


class WithoutPredict(BaseEstimator):
    def fit(self, X, y):
        return self


class Unclonable(LogisticRegression):
    def __init__(self, C=1.0):
        super().__init__(C=2 * C)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": y[:50]}, "y must have one value for each of the 90 records of X, got 50"),
        ({"train": []}, "train must hold at least one row number"),
        ({"validation": np.array([], int)}, "validation must hold at least one row number"),
        ({"validation": [80]}, "validation must hold at least 2 rows, got 1"),
        ({"target": np.where(np.arange(90) < 60, "no", "yes")}, "two classes among the training rows, got only 'no'"),
        ({"validation": np.arange(50, 80)}, "validation must not share rows with train, got row 50 in both"),
        ({"train": [0, 1, 200]}, "train must hold row numbers from 0 to 89, got 200"),
        ({"train": [0, 0, 1]}, "train must hold each row once, got 1 repetitions"),
        ({"train": [0.5, 1]}, "train must hold row numbers, got values of type float64"),
        ({"groups": [1, 2]}, "groups must hold one label for each of the 90 records, got shape \\(2,\\)"),
        ({"groups": np.zeros(90, int)}, "groups must hold at least two clusters, got 1 over 90 records"),
        ({"groups": [None] + [1] * 89}, "groups must not have missing labels"),
        ({"injected": [0, 1.5]}, "injected must hold fractions between 0 and 1, got 1.5"),
        ({"injected": [0.2, 0.2]}, "injected must hold distinct fractions"),
        ({"injected": [np.nan]}, r"injected must be finite, got injected\[0\] = nan"),
        ({"n_train": 1}, "n_train must be a whole number at least 2, got 1"),
        ({"n_train": 70, "replace": False}, "n_train must be at most 60"),
        ({"n_fits": 0}, "n_fits must be a whole number at least 1, got 0"),
        ({"n_fits": 2}, "n_fits must be at least 6, one for each level, got 2"),
        ({"error_model": "typos"}, "error_model must be 'records' or 'fragments', got 'typos'"),
        ({"error_model": "fragments"}, "groups must be given for error_model='fragments'"),
        (
            {"error_model": "fragments", "groups": np.arange(90), "n_train": None},
            "error_model='fragments' needs at least 2 validation clusters",
        ),
        ({"units": "clusters"}, "groups must be given for units='clusters'"),
        ({"units": "patients"}, "units must be 'auto' or 'clusters' or 'records' or 'both' or 'none', got 'patients'"),
        ({"standard_error": -1}, "standard_error must be a finite number above 0, got -1"),
        ({"standard_error": 0.1, "injected": [0, 1]}, "standard_error must be None when injected is given"),
        ({"random_state": -1}, "random_state must be a whole number at least 0, got -1"),
        ({"estimator": WithoutPredict()}, "predict"),
        ({"estimator": Ridge(), "loss": "log_loss"}, "predict_proba"),
        ({"estimator": Unclonable()}, "estimator must be one that scikit-learn can clone"),
        ({"target": np.where(np.arange(90) == 4, np.nan, y), "estimator": Ridge()}, "y"),
        ({"loss": "accuracy"}, "loss"),
        ({"checkpoint": "/no/such/folder/file"}, "checkpoint must lie in a folder that exists"),
    ],
)
def test_wrong_input_is_refused_before_any_fit(options, message):
    Counting.fits = 0
    with pytest.raises(InputError, match=message) as caught:
        sample(**({"estimator": Counting()} | options))
    assert Counting.fits == 0
    assert "\n" not in str(caught.value)


def test_dummy_estimators_and_no_effects():
    samples = sample(DummyClassifier(strategy="most_frequent"), units="none")
    assert samples.units == ()
    assert samples.effects == {}
    with pytest.raises(InputError, match=r"drawn without the effects of units \(units='none'\)"):
        samples.influences()


def test_influences_of_units_that_were_not_kept_are_refused():
    with pytest.raises(InputError, match="units must be 'records' for these samples, got 'clusters'"):
        sample().influences("clusters")
    with pytest.raises(InputError, match="units must be 'clusters' or 'records' for these samples, got 'patients'"):
        sample(groups=np.arange(90) // 3, units="both").influences("patients")


@pytest.mark.slow
def test_a_failure_in_a_worker_is_the_first_one_whatever_the_number_of_workers():
    found = []
    for n_jobs in (1, 2):
        with pytest.raises(FitError) as caught:
            sample(FailsOnSome(), n_fits=400, n_jobs=n_jobs)
        found.append((str(caught.value), caught.value.samples.n_fits))
    assert found[0] == found[1]
    assert found[0][1] > 0

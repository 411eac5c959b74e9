"""Every pitfall has a finding, and a sound audit has none that alarms."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.auditing.findings import CODES

rng = np.random.default_rng(0)
clusters = np.repeat(np.arange(40), 25)
level = rng.standard_normal((40, 4))
X = level[clusters] + 0.5 * rng.standard_normal((1000, 4))
target = X[:, 0] + level[clusters, 1] + 0.5 * rng.standard_normal(1000)
plain_target = X[:, 0] + 0.5 * rng.standard_normal(1000)
small = np.repeat(np.arange(250), 4)


def codes(estimator=None, y=target, **options):
    given = {"groups": clusters, "leakage": 0.05, "n_fits": 300, "random_state": 0} | options
    result = ooc.audit(Ridge() if estimator is None else estimator, X, y, **given)
    return {finding.code: finding for finding in result.findings}


def test_a_sound_audit_has_nothing_that_alarms():
    found = codes(y=plain_target, leakage=ooc.Leakage(0.05, std=0.01), n_fits=700)
    assert {finding.severity for finding in found.values()} == {"info"}
    assert set(found) >= {"error-model", "leaked-like-the-rest"}
    assert "exact-rate" not in found


def test_what_the_answer_rests_on_is_said():
    found = codes()
    assert "taken to be exact" in found["exact-rate"].message
    assert "like the rest of their clusters" in found["leaked-like-the-rest"].message
    assert not {"exact-rate", "leaked-like-the-rest"} & set(codes(leakage=0.0))


@pytest.mark.slow
def test_single_records_of_many_small_clusters():
    found = codes(groups=small, error_model="records")
    assert found["fragments-likely"].severity == "warning"
    assert "error_model='fragments'" in found["fragments-likely"].remedy
    assert "fragments-likely" not in codes(groups=small, error_model="fragments", n_fits=60)
    by_rate = codes(groups=small, leakage=ooc.Leakage(0.05, of="train"))
    assert {"fragments-likely", "error-model"} <= set(by_rate)


def test_few_clusters_and_what_the_interval_is_about():
    few = np.arange(1000) // 200
    assert "these clusters only" in codes(groups=few)["few-clusters"].message
    asked = codes(groups=few, units="clusters")["few-clusters"]
    assert asked.severity == "warning"
    assert "itself uncertain" in asked.message
    assert codes(units="records")["few-clusters"].severity == "info"
    one = np.where(np.arange(1000) < 800, clusters, 99)
    with pytest.raises(InputError, match="a single cluster is held out"):
        codes(groups=one, units="clusters", cv=[(np.arange(800), np.arange(800, 1000))])


def test_far_extrapolation():
    assert "far-extrapolation" in codes(leakage=0.45, curve=ooc.PolynomialCurve(2))
    assert "far-extrapolation" not in codes(leakage=0.02)


@pytest.mark.slow
def test_a_curve_that_misses_the_losses():
    """A line cannot follow losses that fall at once and then stay."""
    steep = np.where(clusters >= 32, 6.0, 0.0) + target
    split = [(np.flatnonzero(clusters < 32), np.flatnonzero(clusters >= 32))]
    options = {"y": steep, "cv": split, "n_train": 100, "n_fits": 3000, "error_model": "records"}
    found = codes(LinearRegression(), curve=ooc.PolynomialCurve(1), **options)
    assert found["lack-of-fit"].severity == "warning"
    assert "CompletelyMonotoneCurve" in found["lack-of-fit"].remedy
    assert "lack-of-fit" not in codes(LinearRegression(), curve=ooc.PolynomialCurve(2), y=plain_target)


@pytest.mark.slow
def test_small_validation_folds_and_single_classes():
    folds = [(np.flatnonzero(clusters > 1), np.flatnonzero(clusters <= 1))]
    assert "small-validation" in codes(cv=folds)
    rare = (np.arange(1000) % 25 == 0).astype(int)
    found = codes(KNeighborsClassifier(1), rare, n_train=30, n_fits=120, error_model="records")
    assert "drawn again" in found["single-class"].message


class Confused(KNeighborsRegressor):
    """Gets worse the more it has seen of held-out clusters."""

    def predict(self, X):
        return super().predict(X) + 5 * (self._y.mean() - 0.0)


def test_losses_that_rise_with_leakage():
    shifted = np.where(clusters >= 20, 3.0, 0.0) + plain_target
    split = [(np.flatnonzero(clusters < 20), np.flatnonzero(clusters >= 20))]
    found = codes(Confused(3), shifted, cv=split, n_train=60, n_fits=600, error_model="records")
    assert found["not-decreasing"].severity == "warning"


def test_every_code_can_be_muted_and_is_described():
    assert set(codes(mute="exact-rate")) == set(codes()) - {"exact-rate"}
    assert set(codes(mute=tuple(CODES))) == set()
    assert all(text.endswith(".") for text in CODES.values())


def test_no_rate_and_no_test():
    assert "no-rate" in codes(leakage=None)
    pairs = np.arange(1000) // 2
    found = codes(groups=pairs, cv=[(np.arange(996), np.arange(996, 1000))], error_model="records", n_train=50)
    assert "could not be run" in found["no-test"].message

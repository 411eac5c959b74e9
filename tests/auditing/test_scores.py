"""Corrected scores in the form of ``cross_validate``: its own scores first, then the same less the optimism."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc

PATIENTS = ooc.datasets.make_patients(120, random_state=0)
OPTIONS = {"groups": PATIENTS.groups, "leakage": 0.1, "n_fits": 60, "random_state": 0, "unmix": False}


@pytest.mark.parametrize(
    ("model", "target", "scoring"),
    [
        (KNeighborsClassifier(3), PATIENTS.target, None),
        (LogisticRegression(), PATIENTS.target, "roc_auc"),
        (Ridge(), PATIENTS.data[:, 0], None),
        (Ridge(), PATIENTS.data[:, 0], "neg_mean_squared_error"),
    ],
)
def test_scores_are_those_of_cross_validate_and_corrected_ones_less_the_optimism(model, target, scoring):
    cv = GroupKFold(4)
    theirs = cross_validate(model, PATIENTS.data, target, groups=PATIENTS.groups, cv=cv, scoring=scoring)
    ours = ooc.corrected_cross_validate(model, PATIENTS.data, target, cv=cv, scoring=scoring, **OPTIONS)
    np.testing.assert_allclose(ours["test_score"], theirs["test_score"], atol=1e-12)
    optimism = ours["audit"].optimism.value
    assert optimism != 0
    np.testing.assert_allclose(ours["corrected_score"], theirs["test_score"] - optimism)


def test_several_metrics_have_names_as_in_cross_validate():
    scoring = ["accuracy", "neg_brier_score"]
    model = KNeighborsClassifier(3)
    theirs = cross_validate(
        model, PATIENTS.data, PATIENTS.target, groups=PATIENTS.groups, cv=GroupKFold(5), scoring=scoring
    )
    ours = ooc.corrected_cross_validate(model, PATIENTS.data, PATIENTS.target, scoring=scoring, **OPTIONS)
    assert set(ours) == set(theirs) | {f"corrected_{name}" for name in scoring} | {"audit"}
    for name in ("fit_time", "score_time"):
        assert ours[name].shape == theirs[name].shape
        assert (ours[name] > 0).all()
    for name in scoring:
        np.testing.assert_allclose(ours[f"test_{name}"], theirs[f"test_{name}"], atol=1e-12)


def test_without_a_rate_there_is_no_corrected_score():
    with pytest.raises(ooc.InputError, match="leakage must be a rate"):
        ooc.corrected_cross_validate(
            KNeighborsClassifier(), PATIENTS.data, PATIENTS.target, groups=PATIENTS.groups, leakage=None
        )


def test_an_estimator_of_no_kind_needs_a_metric():
    class Neither:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(ooc.InputError, match="scoring must be given for Neither"):
        ooc.corrected_cross_validate(Neither(), PATIENTS.data, PATIENTS.target, **OPTIONS)

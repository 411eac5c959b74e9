"""The check for skore: by its protocol always, and in a real report where skore is installed."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.present.skore import LeakageCheck

PATIENTS = ooc.datasets.make_patients(100, random_state=0)
FOLDS = list(GroupKFold(5).split(PATIENTS.data, groups=PATIENTS.groups))
OPTIONS = {"n_fits": 60, "random_state": 0, "unmix": False}


def check(rate=0.12):
    return LeakageCheck(PATIENTS.groups, ooc.Leakage(rate, std=0.01, of="validation"), OPTIONS)


def test_without_leakage_there_is_no_issue():
    # That an inflated score is one, the docstring shows.
    report = SimpleNamespace(
        estimator_=KNeighborsClassifier(3), X=PATIENTS.data, y=PATIENTS.target, split_indices=FOLDS
    )
    nothing = LeakageCheck(PATIENTS.groups, 0.0, OPTIONS)
    assert nothing.check_function(report) is None


def test_every_check_has_its_own_list_of_reports_and_a_rate():
    assert check().report_types == ["cross-validation"]
    assert check().report_types is not check().report_types
    with pytest.raises(ooc.InputError, match="leakage must be a rate"):
        LeakageCheck(np.zeros(3), None)


def test_a_report_of_skore_shows_it():
    skore = pytest.importorskip("skore", reason="skore is not installed, and no extra has it")
    report = skore.evaluate(KNeighborsClassifier(3), PATIENTS.data, PATIENTS.target, splitter=FOLDS)
    report.checks.add([check()])
    issues = report.checks.summarize().frame(section="issue")
    assert "OOC001" in set(issues["code"])

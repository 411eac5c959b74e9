"""Common slips on the command line: each is found before any model is fitted, with one sentence that has the remedy.

A slip that cannot be meant ends with status 2. One that may be meant is said in the account of the table, which is
shown before the fits, and is a finding of the audit.
"""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from outofcluster.auditing.beginning import Beginning
from outofcluster.cli import main

PLAIN = ("--target", "ill", "--groups", "patient")


def table():
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(50), 4)
    u = rng.standard_normal((50, 2))
    ill = u[patient, 0] + u[patient, 1] > 0
    once = np.where(np.arange(200) % 4 == 0, patient, 1000 + np.arange(200))
    return pd.DataFrame(
        {
            "visit_id": rng.permutation(200) + 7000,
            "code": [f"v{i:04d}" for i in rng.permutation(200)],
            "age": u[patient, 0] + 0.3 * rng.standard_normal(200),
            "dose": rng.standard_normal(200),
            "notes": [f"seen {i} times on ward {i % 3}" for i in range(200)],
            "day": pd.date_range("2020-01-01", periods=200).strftime("%Y-%m-%d"),
            "grade": rng.integers(1, 6, 200),
            "sick": np.where(ill, 1, 0),
            "kind": np.where(ill, rng.choice(["a", "b"], 200), "c"),
            "patient": patient,
            "once": np.where(np.arange(200) < 120, 2000 + np.arange(200), once // 4),
            "gaps": np.where(np.arange(200) % 9 == 3, None, np.where(ill, "yes", "no")),
            "mixed": [str(x) for x in rng.standard_normal(199).round(3)] + ["unknown"],
            "empty": np.full(200, np.nan),
            "constant": "x",
            "ratio": np.where(np.arange(200) % 50 == 3, np.inf, rng.standard_normal(200)),
            "ill": np.where(ill, "yes", "no"),
            "score": u[patient, 0] + rng.standard_normal(200),
        }
    )


REST = ("code", "visit_id", "notes", "day", "grade", "kind", "once", "gaps", "mixed", "empty", "constant", "ratio")
"""Columns that other slips are about."""
CLEAN = tuple(word for name in (*REST, "sick") for word in ("--drop", name))
OF_SCORE = (*CLEAN, "--drop", "ill", "--target", "score", "--groups", "patient")


def without(*names):
    return tuple(word for name in (*REST, "sick") if name not in names for word in ("--drop", name))


REFUSED = {
    "a misspelt command": (("aduit", "records.csv"), "did you mean 'audit'?"),
    "a misspelt option": (("audit", "records.csv", *PLAIN, "--leekage", "0.1"), "--leakage"),
    "a misspelt file": (("audit", "record.csv", *PLAIN), "did you mean 'records.csv'?"),
    "a spreadsheet": (("audit", "records.xlsx", *PLAIN), "save it as CSV first"),
    "a misspelt column": (("audit", "records.csv", "--target", "il", "--groups", "patient"), "nearest: 'ill'"),
    "one column for both": (("audit", "records.csv", "--target", "ill", "--groups", "ill"), "different columns"),
    "a rate in per cent": (("audit", "records.csv", *PLAIN, *CLEAN, "--leakage", "12"), "did you mean 0.12?"),
    "a decimal comma": (("audit", "records.csv", *PLAIN, *CLEAN, "--leakage", "0,12"), "did you mean 0.12?"),
    "a misspelt rate": (("audit", "records.csv", *PLAIN, *CLEAN, "--leakage", "dta"), "did you mean data?"),
    "an error in per cent": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--leakage", "0.1", "--leakage-std", "2"),
        "did you mean 0.02?",
    ),
    "a confidence in per cent": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--confidence-level", "95"),
        "95 % is 0.95",
    ),
    "record numbers as clusters": (
        ("audit", "records.csv", "--target", "ill", "--groups", "visit_id", *without("visit_id")),
        "--groups must be a column of clusters, got 'visit_id' with another value in every record",
    ),
    "one cluster": (
        ("audit", "records.csv", "--target", "ill", "--groups", "constant", *without("constant")),
        "groups must hold at least two clusters",
    ),
    "the target in other words": (
        ("audit", "records.csv", *PLAIN, *without("sick")),
        "got 'sick', which is 'ill' in other words; leave it out with --drop sick",
    ),
    "a date as target": (
        ("audit", "records.csv", "--target", "day", "--groups", "patient", *without("day")),
        "--target must hold classes or numbers, got dates such as '2020-01-01' in column 'day'",
    ),
    "text as target": (
        ("audit", "records.csv", "--target", "notes", "--groups", "patient", *without("notes")),
        "--target must hold classes that occur several times, got 200 different values",
    ),
    "words among numbers": (
        ("audit", "records.csv", "--target", "mixed", "--groups", "patient", *without("mixed")),
        "got numbers with words such as 'unknown' among them in column 'mixed'",
    ),
    "missing targets": (
        ("audit", "records.csv", "--target", "gaps", "--groups", "patient", *without("gaps")),
        "--drop-missing-target leaves these records out",
    ),
    "an empty target": (
        ("audit", "records.csv", "--target", "empty", "--groups", "patient", *without("empty")),
        "--target must be a column with values, got 'empty', which is empty",
    ),
    "a single class": (
        ("audit", "records.csv", "--target", "constant", "--groups", "patient", *without("constant")),
        "--target must hold at least two classes",
    ),
    "a misspelt metric": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--scoring", "roc_acu"),
        "did you mean 'roc_auc'?",
    ),
    "another name of a metric": (("audit", "records.csv", *PLAIN, *CLEAN, "--scoring", "AUC"), "'roc_auc'?"),
    "a metric of classes for numbers": (
        ("audit", "records.csv", *OF_SCORE, "--scoring", "roc_auc"),
        "--scoring must suit the target, got 'roc_auc', which takes classes, for",
    ),
    "a loss of numbers for classes": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--loss", "squared_error"),
        "--loss must suit the target, got 'squared_error', which takes numbers, for 'no' in column 'ill'.",
    ),
    "a metric of numbers for classes": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--scoring", "r2"),
        "--scoring must suit the target, got 'r2', which takes numbers, for 'no' in column 'ill'.",
    ),
    "another metric of numbers for classes": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--scoring", "neg_max_error"),
        "--scoring must be a metric of classes for labels such as 'no', got 'neg_max_error', which takes numbers.",
    ),
    "a metric of numbers for a model of classes": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--model", "logistic", "--scoring", "r2"),
        "--scoring must be a metric of classes for labels such as 'no', got 'r2', which takes numbers.",
    ),
    "a feature with infinite values": (
        ("audit", "records.csv", *PLAIN, *without("ratio")),
        "FILE must have finite features unless --model is boosting or your own, got 'ratio' with infinite values in 4 "
        "of 200 records; leave it out with --drop.",
    ),
    "a feature with infinite values for a forest": (
        ("test", "records.csv", *PLAIN, *without("ratio"), "--model", "forest"),
        "got 'ratio' with infinite values in 4 of 200 records",
    ),
    "several metrics to test": (
        ("test", "records.csv", *PLAIN, *CLEAN, "--scoring", "roc_auc,f1"),
        "--scoring must be a single metric for the test for a cluster effect, got 'roc_auc', 'f1'.",
    ),
    "a task of numbers for classes": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--task", "regression"),
        "--task must suit the target, got 'regression', which takes numbers, for 'no' in column 'ill'.",
    ),
    "another name of a model": (("audit", "records.csv", *PLAIN, *CLEAN, "--model", "svm"), "mean 'linear-svm'?"),
    "a model with a dot": (
        ("audit", "records.csv", *PLAIN, *CLEAN, "--model", "sklearn.svm.LinearSVC"),
        "did you mean 'sklearn.svm:LinearSVC'?",
    ),
    "more folds than clusters": (("audit", "records.csv", *PLAIN, *CLEAN, "--folds", "60"), "between 2 and 50"),
    "names of records without --id": (
        ("leakage", "pairs", "pairs.csv", "records.csv", "--groups", "patient"),
        "got 'v0001'; give --id code.",
    ),
    "only ids as features": (
        (
            "audit",
            "records.csv",
            *PLAIN,
            *without("code", "visit_id"),
            "--drop",
            "age",
            "--drop",
            "dose",
            "--drop",
            "score",
        ),
        "FILE must have features that are no ids, got 'visit_id', 'code' only",
    ),
}

SAID = {
    "an id among the features": (
        (*PLAIN, *without("visit_id")),
        "Left out: visit_id (it looks like an id); --keep takes a column as a feature.",
    ),
    "an id of text among the features": ((*PLAIN, *without("code")), "Left out: code (it looks like an id)"),
    "a feature that determines the target": (
        (*PLAIN, *without("kind")),
        "These features give the target away: kind.",
    ),
    "infinite values for a model that takes them": (
        (*PLAIN, *without("ratio"), "--model", "boosting"),
        "Infinite values: ratio (4 of 200 records).",
    ),
    "infinite values for the user's own model": (
        (*PLAIN, *without("ratio"), "--model", "sklearn.linear_model:LogisticRegression"),
        "Infinite values: ratio (4 of 200 records).",
    ),
    "numbers as classes": (
        ("--target", "grade", "--groups", "patient", *without("grade")),
        "Its numbers are taken as classes; --task regression takes them as amounts.",
    ),
    "clusters of single records": (
        ("--target", "ill", "--groups", "once", *without("once")),
        "Most clusters have a single record: is --groups the right column?",
    ),
}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    table().to_csv("records.csv", index=False)
    pd.DataFrame({"left": ["v0001"], "right": ["v0002"], "probability": [0.4]}).to_csv("pairs.csv", index=False)

    def get(*words):
        monkeypatch.setattr(sys, "argv", ["outofcluster", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return get


@pytest.fixture
def no_fit(monkeypatch):
    for model in (LogisticRegression, Ridge):
        monkeypatch.setattr(model, "fit", lambda *_: pytest.fail("a model was fitted"))


def test_there_are_enough_of_them():
    assert len(REFUSED) + len(SAID) >= 25


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize("slip", REFUSED)
def test_what_cannot_be_meant_is_refused_before_any_fit(run, slip):
    words, message = REFUSED[slip]
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    # Errors about commands and options come with a line on how they are used.
    assert err.count("\n") == (4 if err.startswith("Usage") else 1)


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize("slip", SAID)
def test_what_may_be_meant_is_said_before_any_fit(run, monkeypatch, slip):
    words, message = SAID[slip]

    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Beginning, "seconds_per_fit", stop)
    for command in ("audit", "test"):
        status, out, _ = run(command, "records.csv", *words)
        assert status in (1, 130)
        assert message in " ".join(out.split())


@pytest.mark.usefixtures("no_fit")
def test_a_kept_column_is_a_feature_and_a_percentage_is_a_rate(run, monkeypatch):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Beginning, "seconds_per_fit", stop)
    words = (*without("visit_id", "sick"), "--keep", "visit_id", "--keep", "sick", "--leakage", "12%")
    _, out, _ = run("audit", "records.csv", *PLAIN, *words)
    assert "5 features: visit_id, age, dose, sick, score; no missing values." in " ".join(out.split())
    assert "Left out" not in out
    _, out, _ = run(
        "audit",
        "records.csv",
        "--target",
        "gaps",
        "--groups",
        "patient",
        *without("gaps"),
        "--drop",
        "ill",
        "--drop-missing-target",
    )
    assert "178 records of 50 clusters" in out
    assert "Left out: 22 records without a target." in out
    words = ("--target", "grade", "--groups", "patient", *without("grade"), "--task", "regression")
    _, out, _ = run("audit", "records.csv", *words)
    assert "Target grade: a number." in out

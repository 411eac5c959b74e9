"""The account of a table, and columns by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import outofcluster as ooc
from outofcluster.problem.account import TableAccount, id_like, looks_like_dates

rng = np.random.default_rng(0)
N = 240
patient = np.repeat(np.arange(60), 4)
level = rng.standard_normal((60, 2))
ill = level[patient, 0] + rng.standard_normal(N) > 0


def table():
    return pd.DataFrame(
        {
            "visit": rng.permutation(N) + 500,
            "age": level[patient, 0] + 0.3 * rng.standard_normal(N),
            "dose": rng.standard_normal(N),
            "patient": [f"p{i}" for i in patient],
            "ill": ill,
        }
    )


OPTIONS = {"leakage": 0.1, "n_fits": 60, "random_state": 0, "unmix": False}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.slow
def test_columns_by_name_give_what_arrays_give(make):
    frame = make(table().drop(columns="visit").to_dict("list"))
    frame = frame[["age", "dose", "patient", "ill"]]
    features = frame[["age", "dose"]]
    model, y, groups = LogisticRegression(), np.asarray(frame["ill"]), np.asarray(frame["patient"])
    by_name = ooc.audit(model, frame, "ill", groups="patient", **OPTIONS)
    assert by_name.corrected == ooc.audit(model, features, y, groups=groups, **OPTIONS).corrected
    assert by_name.table.features == ("age", "dose")
    test = ooc.leakage_test(model, frame, "ill", groups="patient", random_state=0)
    assert test == ooc.leakage_test(model, features, y, groups=groups, random_state=0)


@pytest.mark.slow
def test_models_are_compared_by_the_names_of_columns():
    frame = table()[["age", "dose", "patient", "ill"]]
    models = {"one": LogisticRegression(), "two": LogisticRegression(C=0.01)}
    compared = ooc.compare(models, frame, "ill", groups="patient", **OPTIONS)
    again = ooc.compare(models, frame[["age", "dose"]], frame["ill"], groups=frame["patient"], **OPTIONS)
    assert compared.difference("one", "two") == again.difference("one", "two")


@pytest.mark.parametrize(
    ("X", "y", "groups", "message"),
    [
        (table(), "il", "patient", "y must be a column of X, got 'il'; did you mean 'ill'\\?"),
        (table(), "ill", "Patient", "did you mean 'patient'"),
        (table(), "ill", "zzz", "groups must be a column of X, got 'zzz'; there are 'visit'"),
        (table(), "ill", "ill", "y and groups must name different columns, got 'ill' for both"),
        (table()[["ill", "patient"]], "ill", "patient", "X must have columns besides 'ill' and 'patient'"),
        (np.ones((N, 2)), ill, "patient", "or the name of a column where X is a data frame, got 'patient'"),
        (table().rename(columns={"dose": "ill"}), "ill", "patient", "which 2 columns are called"),
    ],
)
def test_names_of_columns_that_are_refused(X, y, groups, message):
    with pytest.raises(ooc.InputError, match=message):
        ooc.audit(LogisticRegression(), X, y, groups=groups)


def test_dates_are_no_targets():
    days = pd.date_range("2020-01-01", periods=N // 2).repeat(2)
    with pytest.raises(ooc.InputError, match="y must hold classes or numbers, got dates or times, such as 2020-01-01"):
        ooc.audit(LogisticRegression(), table()[["age"]], days, groups=patient)
    assert looks_like_dates(np.array(["2020-01-01", "1.2.2021"], dtype=object))
    assert not looks_like_dates(np.array(["2020", "x"], dtype=object))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("visit", np.arange(N) * 7, True),
        ("code", np.array([f"{i:08x}-beef" for i in range(N)], dtype=object), True),
        ("patient_id", patient, True),
        ("PatientId", patient, True),
        ("hospital_id", patient % 5, False),
        ("valid", patient % 30, False),
        ("age", np.arange(N) % 80, False),
        ("income", np.arange(N) + 0.5, False),
        ("notes", np.array([f"note {i}" for i in range(N)], dtype=object), False),
        ("day", np.array([f"2020-01-{i:02d}" for i in range(N)], dtype=object), False),
        ("amount", np.array([f"{i},5" for i in range(N)], dtype=object), False),
    ],
)
def test_ids(name, values, expected):
    assert id_like(name, values, 60) is expected


def test_features_that_only_look_as_if_they_determine_the_target():
    # Every patient has a value of their own, and the target is the same for all records of a patient.
    y = (level[:, 0] > 0)[patient]
    frame = pd.DataFrame({"born": (rng.permutation(60) * 11)[patient], "noise": rng.standard_normal(N)})
    account = TableAccount.of(frame, y, patient, classes=True)
    assert account.copies == account.determining == ()
    kind = np.where(y, rng.integers(0, 3, N), 5)
    account = TableAccount.of(frame.assign(kind=kind), y, patient, classes=True)
    assert account.determining == ("kind",)


def test_what_cannot_be_compared_is_left_alone():
    frame = pd.DataFrame({"lists": [[i] for i in range(N)], "age": level[patient, 0]})
    account = TableAccount.of(frame, ill, patient, classes=True)
    assert account.n_records == N
    mixed = TableAccount.of(pd.DataFrame({"a": [1, "x"] * 120}), ["a", 1] * 120, patient, classes=True)
    assert mixed.n_classes == 2


def test_the_account_in_words():
    frame = pd.DataFrame({"age": np.where(np.arange(N) % 4, 1.5, np.nan), "dose": 1.5})
    groups = np.append(patient[:-1], 99)
    lines = TableAccount.of(frame, rng.integers(0, 9, N), groups, classes=True).lines
    assert lines[0] == "240 records of 61 clusters, 4 records in a typical cluster; 1 cluster with a single record."
    assert lines[1].startswith("The target has 9 classes: ")
    assert lines[1].endswith("%), ….")
    assert lines[2] == "2 features: age, dose; values are missing in age (25 %)."


def test_large_matrices_are_read_in_parts_to_the_same_end(monkeypatch):
    rng = np.random.default_rng(0)
    label, groups = np.arange(1200) % 2, np.arange(1200) // 4
    nearly = label + 0.1 * rng.random(1200)
    nearly[-1] = -1.0  # It separates the first records, but not all of them.
    X = np.column_stack([rng.standard_normal(1200), label + 0.1 * rng.random(1200), nearly])
    X[[3, 700, 1199], 0] = np.nan
    accounts = []
    for rows in (7, 10_000):
        monkeypatch.setattr("outofcluster.problem.account._ROWS_AT_ONCE", rows)
        accounts.append(TableAccount.of(X, label, groups, classes=True))
    assert accounts[0] == accounts[1]
    assert accounts[0].gaps == (("column 0", 3),)
    assert accounts[0].determining == ("column 1",)

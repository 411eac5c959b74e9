"""``outofcluster sweep`` on a table with clusters of several linkage thresholds."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outofcluster as ooc
from outofcluster.cli import main

PLAIN = ("--target", "ill", "--groups", "0.9=tight", "--groups", "0.5=loose")
FEW = ("--fits", "36", "--folds", "3", "--no-unmix", "--seed", "3")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table().to_csv(tmp_path / "records.csv", index=False)

    def get(*words):
        monkeypatch.setattr(sys, "argv", ["outofcluster", "sweep", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return get


def table():
    rng = np.random.default_rng(0)
    loose = np.repeat(np.arange(50), 4)
    u = rng.standard_normal((50, 2))
    return pd.DataFrame(
        {
            "age": u[loose, 0] + 0.3 * rng.standard_normal(200),
            "dose": rng.standard_normal(200),
            "loose": loose,
            "tight": np.where(rng.random(200) < 0.15, 50 + np.arange(200), loose),
            "one": 0,
            "ill": np.where(u[loose, 0] + u[loose, 1] > 0, "yes", "no"),
        }
    )


@pytest.mark.slow
def test_the_numbers_are_those_of_python_and_clusters_are_no_features(run, tmp_path):
    words = (*PLAIN, *FEW, "--drop", "one", "--leakage", "0.5=0", "--leakage", "0.9=0.3")
    status, out, err = run("records.csv", *words, "--json", "out.json", "--plot", "out.svg")
    assert (status, err) == (0, "")
    frame = table()
    expected = ooc.sweep(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        frame[["age", "dose"]].to_numpy(),
        frame["ill"].to_numpy(),
        {0.5: frame["loose"], 0.9: frame["tight"]},
        leakage={0.5: 0.0, 0.9: 0.3},
        n_fits=36,
        cv=3,
        unmix=False,
        random_state=3,
    )
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["thresholds"] == expected.to_dict()["thresholds"]
    assert data["about"]["groups"] == "0.9=tight, 0.5=loose"
    assert data["about"]["data"] == "records.csv, 200 records"
    assert " ".join(expected.advice.split()) in " ".join(out.split())
    assert str(expected.corrected[0.9]) in out
    assert "<svg" in (tmp_path / "out.svg").read_text()
    assert list((tmp_path / "cache").rglob("*.fold*")) == []


@pytest.mark.slow
def test_the_account_names_features_and_columns_that_are_left_out_or_look_like_clusters(run, tmp_path):
    frame = table()
    # A looser clustering, a tighter one, and a feature of patients that is none.
    middle, tighter = frame["loose"] // 2, np.where(np.arange(200) % 9 == 0, 900 + np.arange(200), frame["tight"])
    frame = frame.assign(middle=middle, tighter=tighter, visit_id=np.arange(200) + 7000, ward=frame["loose"] % 4)
    frame = frame.assign(copy=frame["tight"], grade=np.random.default_rng(1).integers(0, 60, 200))
    frame.to_csv(tmp_path / "records.csv", index=False)
    status, out, err = run("records.csv", *PLAIN, *FEW, "--drop", "one", "--leakage", "0.1", "--fail-on", "never")
    assert (status, err) == (0, "")
    said = " ".join(out.split())
    for line in (
        "records.csv: 200 records, with clusters by 2 linkage thresholds. Target ill: 2 classes: yes (",
        "6 features: age, dose, middle, tighter, ward, grade; no missing values.",
        "Left out: visit_id, copy (they look like ids); --keep takes a column as a feature.",
        "These features look like clusters as well: middle, tighter; --drop leaves a column out.",
        "Model: logistic regression. ",
        "models will be fitted at each of 2 thresholds, which takes some seconds.",
    ):
        assert line in said, line
    assert out.index("features:") < out.index("Group the cross-validation")


def test_a_cluster_of_machines_that_does_not_answer_is_noticed(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, _, err = run("records.csv", *PLAIN, *FEW, "--backend", "dask://127.0.0.1:1")
    assert status == 2
    assert "--backend dask:// needs dask: pip install 'outofcluster[dask]'" in " ".join(err.split())


def test_json_on_the_screen_and_a_threshold_that_is_left_out(run):
    words = ("--target", "ill", "--groups", "0.1=one", "--groups", "0.5=loose", "--leakage", "0.1", "--json", "-")
    status, out, err = run("records.csv", *words, *FEW)
    data = json.loads(out)
    assert status == 0
    assert [row["threshold"] for row in data["thresholds"]] == [0.1, 0.5]
    assert data["thresholds"][0]["naive"] is None
    assert "0.1 was left out: groups must hold at least two clusters" in err
    assert "so that 0.5 is the loosest of these thresholds to use." in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "ill", "--groups", "tight"), "--groups must be THRESHOLD=COL, got 'tight'."),
        (("--target", "ill", "--groups", "high=tight"), "--groups must be THRESHOLD=COL, got 'high=tight'."),
        ((*PLAIN, "--groups", "0.9=one"), "--groups must be given once for each threshold, got 0.9 more than once."),
        (("--target", "ill", "--groups", "0.9=tihgt"), "--groups must be a column of FILE, got 'tihgt'"),
        ((*PLAIN, "--groups", "0.1=onne"), "--groups must be a column of FILE, got 'onne'"),
        ((*PLAIN, "--groups", "0.1=ill"), "--target and --groups must be different columns, got 'ill' for both."),
        (("--target", "ill", "--groups", "0.9=loose", "--groups", "0.5=tight"), "--groups must be nested, but records"),
        ((*PLAIN, "--leakage", "0.9=0.1"), "--leakage must have a rate for every threshold, got none for 0.5."),
        (
            (*PLAIN, "--leakage", "0.5=data", "--leakage", "0.9=0.1"),
            "--leakage must be a rate for --error-model fragments, which was chosen because the validation clusters",
        ),
        ((*PLAIN, "--leakage", "few"), "--leakage must be a number or data, got 'few'."),
        ((*PLAIN, "--leakage", "0.1", "--leakage", "0.2"), "--leakage must be THRESHOLD=RATE, got '0.1'."),
        ((*PLAIN, "--plot", "out.html"), "--plot must be a file that ends with .png, .svg, .pdf, got 'out.html'."),
        ((*PLAIN, "--plot", "records.csv"), "--plot must be"),
    ],
)
def test_bad_input_is_one_sentence(run, words, message):
    status, out, err = run("records.csv", *words, *FEW)
    assert status == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_help_for_newcomers(run):
    status, out, _ = run("--help")
    assert status == 0
    assert "--groups THRESHOLD=COL" in out
    assert "--leakage [THRESHOLD=]RATE" in out
    assert "--groups 0.5=loose --groups 0.9=tight" in out

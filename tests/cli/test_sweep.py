"""``outofcluster sweep`` on a table with clusters of several linkage thresholds."""

import json

import numpy as np
import pytest

import outofcluster as ooc

PLAIN = ("--target", "ill", "--groups", "0.9=tight", "--groups", "0.5=loose")
FEW = ("--fits", "36", "--folds", "3", "--no-unmix", "--seed", "3")


@pytest.fixture
def frame(frame):
    """Clusters at three thresholds; the loosest is a single one."""
    tight = np.where(np.random.default_rng(0).random(90) < 0.15, 50 + np.arange(90), frame["patient"])
    return frame.rename(columns={"patient": "loose"}).assign(tight=tight, one=0)


@pytest.fixture
def sweep(run):
    return lambda *words: run("sweep", "records.csv", *words, *FEW)


def test_the_options_are_the_arguments_of_python(sweep, folder, frame, monkeypatch):
    calls = []

    def watch(*arguments, **options):
        calls.append((arguments, options, ooc.sweep(*arguments, **options)))
        return calls[-1][2]

    monkeypatch.setattr("outofcluster.auditing.sweep.sweep", watch)
    rates = ("--leakage", "0.5=0", "--leakage", "0.9=0.3")
    status, out, err = sweep(*PLAIN, "--drop", "one", *rates, "--json", "out.json")
    assert (status, err) == (0, "")
    ((_, X, _, groups), options, expected), *_ = calls
    assert np.array_equal(X, frame[["age", "dose"]].to_numpy())
    assert {threshold: labels.tolist() for threshold, labels in groups.items()} == {
        0.9: frame["tight"].tolist(),
        0.5: frame["loose"].tolist(),
    }
    chosen = {name: options[name] for name in ("leakage", "cv", "n_fits", "unmix", "random_state", "error_model")}
    assert chosen == {
        "leakage": {0.5: 0.0, 0.9: 0.3},
        "cv": 3,
        "n_fits": 36,
        "unmix": False,
        "random_state": 3,
        "error_model": "auto",
    }
    data = json.loads((folder / "out.json").read_text())
    assert data["thresholds"] == expected.to_dict()["thresholds"]
    assert data["about"]["groups"] == "0.9=tight, 0.5=loose"
    assert data["about"]["data"] == "records.csv, 90 records"
    said = " ".join(out.split())
    for line in (
        "records.csv: 90 records, with clusters by 2 linkage thresholds. Target ill: 2 classes: ",
        "models will be fitted at each of 2 thresholds, as many as in ",
        " ".join(expected.advice.split()),
        str(expected.corrected[0.9]),
    ):
        assert line in said, line
    assert list((folder / "cache").rglob("*.fold*")) == []


@pytest.mark.slow
def test_the_answer_is_drawn(sweep, folder):
    status, out, _ = sweep(*PLAIN, "--drop", "one", "--leakage", "0.1", "--plot", "out.svg", "--fail-on", "never")
    assert status == 0
    assert "The picture is in out.svg." in out
    assert "<svg" in (folder / "out.svg").read_text()


@pytest.mark.slow
def test_json_on_the_screen_and_a_threshold_that_is_left_out(sweep):
    words = ("--target", "ill", "--groups", "0.1=one", "--groups", "0.5=loose", "--leakage", "0.1", "--json", "-")
    status, out, err = sweep(*words)
    data = json.loads(out)
    assert status == 0
    assert [row["threshold"] for row in data["thresholds"]] == [0.1, 0.5]
    assert data["thresholds"][0]["naive"] is None
    assert "0.1 was left out: groups must hold at least two clusters" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "ill", "--groups", "tight"), "--groups must be THRESHOLD=COL, got 'tight'."),
        (("--target", "ill", "--groups", "high=tight"), "--groups must be THRESHOLD=COL, got 'high=tight'."),
        ((*PLAIN, "--groups", "0.9=one"), "--groups must be given once for each threshold, got 0.9 more than once."),
        ((*PLAIN, "--groups", "0.1=onne"), "--groups must be a column of FILE, got 'onne'"),
        (("--target", "ill", "--groups", "0.9=loose", "--groups", "0.5=tight"), "--groups must be nested, but records"),
        ((*PLAIN, "--leakage", "0.9=0.1"), "--leakage must have a rate for every threshold, got none for 0.5."),
        ((*PLAIN, "--leakage", "0.5=dta", "--leakage", "0.9=0.1"), "got 'dta'; did you mean data?"),
        ((*PLAIN, "--leakage", "0.1", "--leakage", "0.2"), "--leakage must be THRESHOLD=RATE, got '0.1'."),
        ((*PLAIN, "--plot", "out.html"), "--plot must be a file that ends with .png, .svg, .pdf, got 'out.html'."),
    ],
)
def test_refusals_are_one_sentence(sweep, words, message):
    status, out, err = sweep(*words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err

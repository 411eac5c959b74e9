"""Review lists on the command line: written, filled in with a spreadsheet, and read again."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import outofcluster as ooc
from outofcluster.auditing.summary import Summary
from outofcluster.cli.outputs import SIZE, read_reviewed

PLAIN = ("--target", "ill", "--groups", "patient", "--model", "logistic")


def linked(named="{:03d}".format):
    """Visits of people, some of whom were linked as two patients, with names that tell who is who."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 4)
    X = 2 * rng.standard_normal((60, 3))[person] + 0.3 * rng.standard_normal((240, 3))
    patient = np.where((person % 4 == 0) & (np.arange(240) % 4 == 1), 100 + person, person)
    frame = pd.DataFrame(X, columns=list("abc")).assign(patient=[named(number) for number in patient])
    frame["name"] = [f"Änne {number}" for number in person]
    return frame.assign(ill=np.where(X[:, 0] + rng.standard_normal(60)[person] > 0, "yes", "no"))


@pytest.fixture
def visits(folder):
    linked().to_csv("visits.csv", index=False)
    return pd.read_csv("visits.csv")


def answers(listed, visits):
    """What somebody who sees the names writes into a list."""
    name = visits.groupby("patient")["name"].first()
    mates = [[other for other in name.index if name[other] == name[c] and other != c] for c in listed["cluster"]]
    return ["; ".join(map(str, each)) or "none" for each in mates]


def test_a_list_is_written_filled_in_and_used(run, folder, visits):
    words = ("audit", "visits.csv", *PLAIN, "--identity", "name")
    review = ("--review-list", "look_up.csv", "--review-size", "30", "--review-columns", "name, a")
    status, out, err = run(*words, *review)
    assert (status, err) == (0, "")
    assert "The clusters to look up are in look_up.csv." in out
    listed = pd.read_csv("look_up.csv")
    shown = ["cluster", "records", "name", "a", "likely_mates", "same_as", "inclusion_probability"]
    assert listed.columns.tolist() == shown
    assert len(listed) == 30
    assert listed["same_as"].isna().all()
    assert listed["name"].str.startswith("Änne").all()
    listed["same_as"] = answers(listed, visits)
    listed.to_csv("filled.csv", index=False)
    status, out, err = run(*words, "--reviewed", "filled.csv", "--json", "out.json", "--reviewer-error", "1%")
    assert (status, err) == (0, "")
    data = json.loads((folder / "out.json").read_text())
    assert data["looked_up"]["clusters"] == 30
    assert data["looked_up"]["reviewer_error"] == 0.01
    assert [source["source"] for source in data["sources"]] == ["seen", "looked up"]
    assert data["about"]["identity"] == "name"
    assert data["about"]["features"] == "a, b, c"
    assert "corrected for what is seen and looked up" in out
    assert "The answer rests on what can be seen" in out
    # Python says the same.
    X = visits[["a", "b", "c"]].to_numpy()
    options = {"identity": visits[["name"]], "reviewed": listed, "reviewer_error": 0.01, "random_state": 0}
    from outofcluster.cli.models import make_model

    model = make_model("logistic", X, classes=True)
    expected = ooc.audit(model, X, visits["ill"].to_numpy(dtype=str), groups=visits["patient"], **options)
    assert Summary.from_dict(data).optimism == expected.optimism


def test_a_list_of_few_clusters_is_as_long_as_it_can_be(run, folder):
    linked().query("patient < '030'").to_csv("visits.csv", index=False)
    words = ("--drop", "name", "--error-model", "fragments", "--review-list", "look_up.csv")
    assert run("audit", "visits.csv", *PLAIN, *words)[0] == 0
    listed = pd.read_csv("look_up.csv")
    assert len(listed) == 30 < SIZE
    assert (listed["inclusion_probability"] == 1).all()


@pytest.mark.parametrize("named", ["{:03d}".format, str, "P{:03d}".format], ids=["zeros", "numbers", "text"])
@pytest.mark.parametrize("how", ["as it is", "floats", "semicolons", "western letters", "blank rows", "capitals"])
def test_a_list_survives_a_spreadsheet(folder, named, how):
    """Leading zeros go, whole numbers become floats, and columns are parted by semicolons."""
    names = [named(number) for number in (7, 8, 10, 12)]
    numbers = not names[0].startswith("P")
    cluster = {"cluster": names, "name": ["Ä"] * 4, "same_as": [names[1], "", "none", f"{names[0]};{names[1]}"]}
    listed = pd.DataFrame(cluster | {"inclusion_probability": ["0.5", "0.25", "1", "0.125"]})
    listed.loc[3, "same_as"] = "none"
    options, encoding = {}, "utf-8"
    if how == "floats" and numbers:
        listed["cluster"] = [f"{float(name)}" for name in names]
        listed.loc[0, "same_as"] = f"{float(names[1])}"
    if how == "semicolons":
        listed["inclusion_probability"] = listed["inclusion_probability"].str.replace(".", ",", regex=False)
        options = {"sep": ";"}
    if how == "western letters":
        encoding = "cp1252"
    if how == "blank rows":
        listed = pd.concat([listed, pd.DataFrame([dict.fromkeys(listed, "")] * 2)])
    if how == "capitals":
        listed["same_as"] = listed["same_as"].str.replace("none", "None")
    if numbers and how == "as it is":
        listed["cluster"] = listed["cluster"].astype(int).astype(str)
    listed.to_csv("filled.csv", index=False, encoding=encoding, **options)
    from outofcluster.evidence.looked_up import read_reviewed as read

    looked_up = read(read_reviewed("filled.csv"), names)
    assert looked_up.clusters.tolist() == [0, 2, 3]
    assert [mates.tolist() for mates in looked_up.mates] == [[1], [], []]
    assert looked_up.probability.tolist() == pytest.approx([0.375, 0.75, 0.09375])


FILLED = "cluster,same_as,inclusion_probability\n"
REFUSED = {
    "a size without a list": (("--review-size", "5"), "--review-list must be given along with --review-size."),
    "columns without a list": (("--review-columns", "a"), "--review-list must be given along with --review-columns."),
    "an error without answers": (("--reviewer-error", "0.1"), "--reviewed must be given along with --reviewer-error."),
    "too many clusters": (
        ("--review-list", "l.csv", "--review-size", "99"),
        "--review-size must lie between 1 and the number of clusters, 75, got 99.",
    ),
    "no clusters": (("--review-list", "l.csv", "--review-size", "0"), "--review-size must lie between 1 and"),
    "an unknown column": (
        ("--review-list", "l.csv", "--review-columns", "nome"),
        "--review-columns must be a column of FILE, got 'nome' (nearest: 'name').",
    ),
    "a list of single records": (
        ("--review-list", "l.csv", "--error-model", "records"),
        "--review-list must be given with --error-model fragments, got records",
    ),
    "a list without a comparison": (
        ("--review-list", "l.csv", "--no-unmix"),
        "--review-list must be given without --no-unmix",
    ),
    "answers over themselves": (("--review-list", "answered.csv"), "--review-list must not replace answers, got"),
    "the same file twice": (
        ("--review-list", "answered.csv", "--reviewed", "answered.csv"),
        "--review-list must be another file than --reviewed, got 'answered.csv' for both.",
    ),
    "answers and no correction": (
        ("--reviewed", "answered.csv", "--leakage", "none"),
        "--reviewed must be left out with --leakage none",
    ),
    "a missing file": (("--reviewed", "anwered.csv"), "--reviewed must exist, got 'anwered.csv'; did you mean"),
    "another file": (
        ("--reviewed", "visits.csv"),
        "--reviewed must be a list that --review-list wrote, with the column",
    ),
    "an empty file": (("--reviewed", "empty.csv"), "--reviewed must be a CSV file that can be read, got 'empty.csv'"),
    "a spreadsheet": (("--reviewed", "l.xlsx"), "--reviewed must be a CSV or Parquet file, got the spreadsheet"),
    "no answers": (("--reviewed", "open.csv"), "--reviewed must have an answer in same_as"),
    "other data": (
        ("--reviewed", "other.csv"),
        "--reviewed must be a review list of these data: got the cluster '999'",
    ),
    "an unknown mate": (("--reviewed", "mate.csv"), "same_as must name clusters of these data"),
    "a contradiction": (("--reviewed", "twice.csv"), "same_as must not contradict itself"),
    "answers about single records": (
        ("--reviewed", "answered.csv", "--error-model", "records"),
        "--reviewed must be left out for --error-model records",
    ),
    "errors of most answers": (
        ("--reviewed", "answered.csv", "--reviewer-error", "0.7"),
        "--reviewer-error must lie in [0, 0.5), got 0.7.",
    ),
    "an unknown identity": (
        ("--identity", "nome"),
        "--identity must be a column of FILE, got 'nome' (nearest: 'name').",
    ),
    "the target as identity": (
        ("--identity", "ill"),
        "--identity must be another column than those of target and groups, got 'ill'.",
    ),
    "no features left": (
        ("--identity", "a", "--identity", "b", "--drop", "c"),
        "FILE must have columns besides target, groups and those that are dropped or tell who is who",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_sentence_before_anything_is_fitted(run, folder, visits, monkeypatch, name):
    words, message = REFUSED[name]
    for file, rows in {
        "answered": "0,100,0.5\n1,none,0.5\n",
        "open": "0,,0.5\n",
        "other": "999,none,0.5\n",
        "mate": "0,777,0.5\n",
        "twice": "0,100,0.5\n100,none,0.5\n",
    }.items():
        (folder / f"{file}.csv").write_text(FILLED + rows)
    (folder / "empty.csv").write_text("")
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_, **__: pytest.fail("a model was fitted"))
    drop = ("--drop", "name") if name not in ("an unknown column", "an unknown identity") else ()
    status, out, err = run("audit", "visits.csv", *PLAIN, *drop, *words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("outofcluster: ")
    assert err.count("\n") == 1
    assert (folder / "answered.csv").read_text().count("none") == 1


def test_a_list_without_answers_is_written_again(run, folder, visits):
    (folder / "look_up.csv").write_text(FILLED + "0,,0.5\n")
    assert run("audit", "visits.csv", *PLAIN, "--drop", "name", "--review-list", "look_up.csv")[0] == 0
    assert len(pd.read_csv("look_up.csv")) == SIZE

"""``outofcluster leakage``: the three ways to a rate, each as in Python, for both error models."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from outofcluster.leakage.blocking import capture_recapture
from outofcluster.leakage.rate import Leakage

AUDITED = ("audited", "visits.csv", "--true", "person", "--groups", "patient")
OF_TABLE = ("precision-recall", "--precision", "1", "--recall", "0.9", "--file", "visits.csv", "--groups", "patient")
PAIRS = ("pairs", "visits.csv", "visits.csv", "--groups", "patient", "--probability", "half")
LINKS = ("--links", "9", "--records", "9")


@pytest.fixture
def run(main_of, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: main_of("leakage", *words)


@pytest.fixture
def linked(tmp_path):
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(200), 4)
    patient = np.where(rng.random(800) < 0.1, 1000 + person, person)
    frame = pd.DataFrame({"visit": [f"v{i}" for i in range(800)], "person": person, "patient": patient})
    frame.assign(first=np.arange(800) % 4 == 0).to_csv(tmp_path / "visits.csv", index=False)
    return frame


def check(out, path, rate):
    """The printed and the written rates are those that Python gives."""
    data = json.loads(path.read_text())
    for errors, of in (("records", "train"), ("fragments", "validation")):
        expected = rate(of)
        assert Leakage(**data[errors]) == expected
        assert str(expected) in out
    # A number would not say how sure it is.
    assert re.search(r"--leakage [\d.]+\s", out) is None


def test_from_audited_records(run, tmp_path, linked):
    words = ("--true", "person", "--groups", "patient", "--folds", "4", "--json", "o.json")
    status, out, err = run("audited", "visits.csv", *words)
    assert (status, err) == (0, "")
    true, groups = linked["person"].to_numpy(), linked["patient"].to_numpy()
    check(out, tmp_path / "o.json", lambda of: Leakage.from_true_groups(true, groups, cv=4, of=of))
    assert out.startswith("If pieces of clusters leak, as those of patients do:\n    ")


@pytest.mark.parametrize(("yes", "no"), [(True, False), (1, 0), ("yes", "no")])
def test_from_drawn_records_and_their_mates(run, tmp_path, linked, yes, no):
    rng = np.random.default_rng(2)
    hit = rng.choice(800, 60, replace=False)
    sample = linked[linked["person"].isin(linked["person"].to_numpy()[hit])]
    mask = sample.index.isin(hit)
    sample.assign(drawn=np.where(mask, yes, no)).to_csv(tmp_path / "sample.csv", index=False)
    words = ("sample.csv", "--true", "person", "--groups", "patient", "--json", "o.json", "--drawn", "records")
    true, groups = sample["person"].to_numpy(), sample["patient"].to_numpy()
    for more, sampled in (((), None), (("--sampled", "drawn"), mask)):
        status, out, err = run("audited", *words, *more)
        assert (status, err) == (0, "")
        rate = lambda of, s=sampled: Leakage.from_true_groups(true, groups, of=of, drawn="records", sampled=s)  # noqa: E731
        check(out, tmp_path / "o.json", rate)
    status, out, err = run("audited", *words[:-1], "clusters")
    assert out.count("at least") == 2


@pytest.mark.parametrize("how", ["rows", "ids", "splink", "named", "decimal commas"])
def test_from_pairs(run, tmp_path, linked, how):
    rng = np.random.default_rng(1)
    left, right, m = rng.integers(0, 800, 300), rng.integers(0, 800, 300), rng.random(300) ** 3
    names, words = ["left", "right", "probability"], []
    one, two = left, right
    if how not in ("rows", "decimal commas"):
        words = ["--id", "visit"]
        one, two = (linked["visit"].to_numpy()[rows] for rows in (left, right))
    if how == "splink":
        names = ["unique_id_l", "unique_id_r", "match_probability"]
    if how == "named":
        names = ["a", "b", "p"]
        words += ["--left", "a", "--right", "b", "--probability", "p"]
    form = {"sep": ";", "decimal": ","} if how == "decimal commas" else {}
    pd.DataFrame(dict(zip(names, (one, two, m), strict=True))).to_csv(tmp_path / "pairs.csv", index=False, **form)
    status, out, err = run("pairs", "pairs.csv", "visits.csv", "--groups", "patient", *words, "--json", "o.json")
    assert (status, err) == (0, "")
    groups = linked["patient"].to_numpy()
    rate = lambda of: Leakage.from_pair_probabilities(left, right, m, groups=groups, cv=5, of=of)  # noqa: E731
    check(out, tmp_path / "o.json", rate)


def test_what_blocking_missed(run, tmp_path, linked):
    """By rules, by a number and by reviewed pairs, of a linkage that is larger than the table."""
    rng = np.random.default_rng(2)
    names = np.array([*linked["visit"], *(f"elsewhere{i}" for i in range(100))])
    left, right = rng.choice(900, (2, 400))
    left, right = left[left != right], right[left != right]
    m = np.where(left < 800, rng.random(len(left)), 0.5)
    fields = {f"{field}_{side}": rng.integers(2, size=len(left)) for field in ("name", "town") for side in "lr"}
    fields["town_r"] = np.where(fields["name_l"] == fields["name_r"], fields["town_r"], fields["town_l"])
    pairs = pd.DataFrame({"unique_id_l": names[left], "unique_id_r": names[right], "match_probability": m, **fields})
    pairs = pairs.drop_duplicates(["unique_id_l", "unique_id_r"])
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    others = pd.DataFrame({"unique_id_l": names[:40], "unique_id_r": names[40:80], "match": "yes"})
    some = pairs.iloc[:20, :2].assign(match=[*["true"] * 12, *["false"] * 8])
    pd.concat([some, others]).to_csv(tmp_path / "said.csv", index=False)
    known = {"groups": linked["patient"].to_numpy(), "ids": linked["visit"].to_numpy()}
    known |= dict(zip(("left", "right", "probability"), (pairs[name] for name in pairs.columns[:3]), strict=True))
    agree = np.stack([pairs[f"{field}_l"] == pairs[f"{field}_r"] for field in ("name", "town")], axis=1)
    answers = pd.read_csv(tmp_path / "said.csv", dtype=str)
    answers["match"] = answers["match"] != "false"
    words = ("pairs", "pairs.csv", "visits.csv", "--groups", "patient", "--id", "visit", "--json", "o.json")
    for more, options, said in (
        (
            ("--rules", "name", "--rules", "town"),
            {"blocking_recall": capture_recapture(agree, pairs.iloc[:, 2])},
            "at most",
        ),
        (("--blocking-recall", "90%"), {"blocking_recall": 0.9}, None),
        (("--blocking-recall", "0.9", "--blocking-recall-std", "0.02"), {"blocking_recall": (0.9, 0.02)}, None),
        (("--reviewed", "said.csv"), {"reviewed": answers}, None),
        (
            ("--reviewed", "said.csv", "--blocking-recall", "reviewed"),
            {"reviewed": answers, "blocking_recall": "reviewed"},
            "52 that were reviewed",
        ),
    ):
        status, out, err = run(*words, *more, "--out", "rate.json")
        assert (status, err) == (0, "")
        expected = Leakage.from_pair_probabilities(**known, **options)
        kept, written = Leakage.load(tmp_path / "rate.json"), json.loads((tmp_path / "o.json").read_text())
        assert kept == expected
        assert kept.facts == expected.facts
        assert kept.facts.outside > 0
        out = " ".join(out.split())
        assert "Pairs with records that are not in the data" in out
        assert ("Blocking compared" in out) == (said is not None)
        assert said is None or said in out
        assert written["fragments"]["rate"] == expected.rate
        assert ("blocking_recall" in written) == ("blocking_recall" in options)


@pytest.mark.usefixtures("linked")
def test_from_precision_and_recall(run, tmp_path, linked):
    numbers = ("--precision", "0.95", "--recall", "0.9", "--recall-std", "0.02", "--json", "o.json")
    sizes = linked["patient"].value_counts().to_numpy()
    links = float((sizes * (sizes - 1) / 2).sum())

    counts, of_table = ("--links", str(links), "--records", "800"), ("--file", "visits.csv", "--groups", "patient")
    counted = {"n_links": links, "n_records": 800}
    clusters = {"groups": linked["patient"].to_numpy()}
    for words, given in (
        (counts, counted),
        (of_table, clusters),
        ((*counts, "--mates", "1.5"), counted | {"mates": 1.5}),
        ((*of_table, "--mates", "1.5"), clusters | {"mates": 1.5}),
    ):
        status, out, err = run("precision-recall", *numbers, *words)
        assert (status, err) == (0, "")
        # Only where nothing is known about mates are the rates upper bounds.
        at_most = words == counts
        assert out.count("    at most ") == 2 * at_most
        written = json.loads((tmp_path / "o.json").read_text())
        assert all(rate.pop("at_most", False) == at_most for rate in written.values())
        (tmp_path / "o.json").write_text(json.dumps(written))

        def rate(of, given=given):
            return Leakage.from_precision_recall(0.95, 0.9, of=of, validation_share=0.2, recall_std=0.02, **given)

        check(out, tmp_path / "o.json", rate)


def test_json_on_the_screen_and_rates_beyond_use(run):
    words = ("--precision", "1", "--recall", "0.7", "--links", "1000", "--records", "1000", "--json", "-")
    status, out, err = run("precision-recall", *words)
    assert status == 0
    assert 0.5 < json.loads(out)["fragments"]["rate"] < 0.9
    assert "audit with --leakage rate.json" in err
    status, out, err = run("precision-recall", *words[:3], "0.63", *words[4:])
    assert json.loads(out)["fragments"]["rate"] > 0.9
    assert "That is more than 90 %. For such rates nothing can be told." in err
    assert json.loads(out)["records"]["std"] is None


@pytest.mark.parametrize("words", ["audited", "pairs", "precision-recall"])
def test_a_rate_goes_from_one_command_to_the_next(main_of, folder, words):
    """The file holds what Python says, and the audit uses it, the law of the pieces and the lower bound included."""
    rng = np.random.default_rng(3)
    frame = pd.read_csv("records.csv")
    frame["tight"] = np.where(rng.random(len(frame)) < 0.15, 1000 + np.arange(len(frame)), frame["patient"])
    frame.to_csv("records.csv", index=False)
    one, two = np.array([(i, i + 1) for i in range(len(frame) - 1) if frame["patient"][i] == frame["patient"][i + 1]]).T
    m = np.where(frame["tight"][one].to_numpy() == frame["tight"][two].to_numpy(), 0.99, 0.4)
    pd.DataFrame({"left": one, "right": two, "probability": m}).to_csv("pairs.csv", index=False)
    patient, tight = frame["patient"].to_numpy(), frame["tight"].to_numpy()
    command, expected = {
        "audited": (
            ("audited", "records.csv", "--true", "patient", "--groups", "tight"),
            Leakage.from_true_groups(patient, tight),
        ),
        "pairs": (
            ("pairs", "pairs.csv", "records.csv", "--groups", "tight"),
            Leakage.from_pair_probabilities(one, two, m, groups=tight),
        ),
        "precision-recall": (
            ("precision-recall", "--precision", "1", "--recall", "0.9", "--file", "records.csv", "--groups", "tight"),
            Leakage.from_precision_recall(1, 0.9, validation_share=0.2, groups=tight),
        ),
    }[words]
    status, out, err = main_of("leakage", *command, "--out", "rate.json")
    assert (status, err) == (0, "")
    assert out.endswith("Audit with --leakage rate.json.\n")
    assert Leakage.load("rate.json").to_dict() == expected.to_dict()
    columns = ("--target", "ill", "--groups", "tight", "--drop", "patient", "--fits", "60", "--folds", "3")
    status, out, err = main_of("audit", "records.csv", *columns, "--leakage", "rate.json", "--json", "-")
    written = json.loads(out)
    assert status == 0
    # With a lower bound the audit goes by what is seen.
    assert written["from_data"] == expected.at_least == (words == "pairs")
    assert written["leakage"][0]["rate"] == (0 if written["from_data"] else expected.validation.rate)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.json", None, "got 'none.json', which does not exist."),
        ("cut.json", "cut", "got 'cut.json', which cannot be read or was cut short."),
        ("other.json", '{"schema": 4}', "got 'other.json', which is not one."),
        ("pairs.csv", "a,b", "got 'pairs.csv', which cannot be read or was cut short."),
        ("later.json", "later", "has format 2, written by outofcluster 9.9; outofcluster"),
        ("seven.json", "seven", "was altered: rate must lie in [0, 1), got 7."),
        ("train.json", "train", "must be a share of the validation records for --error-model fragments, got one of"),
    ],
)
def test_a_file_that_is_no_rate_is_one_sentence(main_of, folder, name, content, message):
    about = {"kind": "leakage rate", "format": 1, "version": "9.9", "leakage": {"rate": 0.1}}
    contents = {
        "cut": json.dumps(about)[:40],
        "later": json.dumps(about | {"format": 2}),
        "seven": json.dumps(about | {"leakage": {"rate": 7}}),
        "train": json.dumps(about),
    }
    if content is not None:
        (folder / name).write_text(contents.get(content, content))
    words = ("--target", "ill", "--groups", "patient", "--error-model", "fragments", "--json", "o.json")
    status, _, err = main_of("audit", "records.csv", *words, "--leakage", name)
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("outofcluster: --leakage must be ")
    assert message in err
    assert not (folder / "o.json").exists()


NAMED = ("pairs", "named.csv", "visits.csv", "--groups", "patient", "--id", "visit")
COUNTED = ("precision-recall", "--precision", "1", "--recall", "0.9")

PAIR_FILES = {
    "named.csv": "left,right,probability,town_l,town_r\nv0,v1,0.9,x,x\nv1,v9,0.2,x,x\nv5,v9,0.1,x,y\n",
    "said.csv": "left,right,match\nv0,v1,perhaps\n",
    "strangers.csv": "left,right,match\nv0,nobody,true\n",
    "few.csv": "left,right,match\nv0,v1,true\nv1,v9,\n",
}

REFUSED = {
    "a misspelt column": (
        ("audited", "visits.csv", "--true", "persn", "--groups", "patient"),
        "--true must be a column",
    ),
    "one column for both": (("audited", "visits.csv", "--true", "person", "--groups", "person"), "different columns"),
    "drawn entities that are marked": (
        (*AUDITED, "--sampled", "first"),
        "--sampled must be None for --drawn entities, where all records of drawn entities are audited.",
    ),
    "no marks": (
        (*AUDITED, "--drawn", "records", "--sampled", "visit"),
        "--sampled must be a column of true and false, got 'v0' in column 'visit'.",
    ),
    "one fold": ((*AUDITED, "--folds", "1"), "--folds must be a whole number at least 2, got 1."),
    "no columns of pairs": (
        ("pairs", "visits.csv", "visits.csv", "--groups", "patient"),
        "--left must be a column of PA",
    ),
    "names without --id": (
        (*PAIRS, "--left", "visit", "--right", "visit"),
        "'visit' must hold row numbers from 0 to 799, got 'v0'; give --id visit.",
    ),
    "rows outside": (
        (*PAIRS, "--left", "patient", "--right", "patient"),
        "'patient' must hold row numbers from 0 to 799, got '1000'; give --id COL, the column of FILE that has these",
    ),
    "names that are repeated": (
        (*PAIRS, "--left", "visit", "--right", "visit", "--id", "person"),
        "--id must name every record once, got",
    ),
    "names that are unknown": (
        (*PAIRS, "--left", "patient", "--right", "visit", "--id", "visit"),
        "--id must name linked records, got 'v0' and others, of which no pair names two.",
    ),
    "rules without their columns": (
        (*NAMED, "--rules", "name"),
        "PAIRS must have the column 'name_l', got 'left', 'right', 'probability', 'town_l', 'town_r'",
    ),
    "rules that missed pairs": (
        (*NAMED, "--rules", "town"),
        "--rules must be all the rules that made the pairs, got a list of which 1 of 3 pairs satisfy none.",
    ),
    "rules and a recall": (
        (*NAMED, "--rules", "town", "--blocking-recall", "0.9"),
        "--rules must be left out with --blocking-recall, which says more.",
    ),
    "a recall in other words": (
        (*NAMED, "--blocking-recall", "review"),
        "--blocking-recall must be a number, reviewed, got 'review'; did you mean reviewed?",
    ),
    "a recall of 90": ((*NAMED, "--blocking-recall", "90"), "--blocking-recall must be a share between 0 and 1"),
    "no recall at all": ((*NAMED, "--blocking-recall", "0"), "--blocking-recall must lie in (0, 1], got 0"),
    "an error of nothing": (
        (*NAMED, "--blocking-recall-std", "0.1"),
        "--blocking-recall must be a number along with --blocking-recall-std.",
    ),
    "a recall of reviews that are not there": (
        (*NAMED, "--blocking-recall", "reviewed"),
        "--reviewed must be given for --blocking-recall reviewed, got None.",
    ),
    "reviews of other columns": (
        (*NAMED, "--reviewed", "visits.csv"),
        "--reviewed must have the columns left, right and match, got 'visit'",
    ),
    "answers that are none": (
        (*NAMED, "--reviewed", "said.csv"),
        "--reviewed must answer by true and false, got 'perhaps' in column 'match'.",
    ),
    "reviews of strangers": (
        (*NAMED, "--reviewed", "strangers.csv"),
        "--reviewed must name linked records, got 'nobody', which is not one.",
    ),
    "too few reviewed matches": (
        (*NAMED, "--reviewed", "few.csv", "--blocking-recall", "reviewed"),
        "--reviewed must hold 10 or more pairs that match for --blocking-recall reviewed, got 1.",
    ),
    "a rate over its reviews": (
        (*NAMED, "--reviewed", "few.csv", "--out", "few.csv"),
        "--out must be another file than --reviewed",
    ),
    "one pipe for two tables": (
        ("pairs", "-", "-", "--groups", "patient"),
        "PAIRS and FILE must be different files, got '-' for both, which can be read once.",
    ),
    "a precision above 1": (("precision-recall", "--precision", "1.2", *COUNTED[3:], *LINKS), "--precision must lie"),
    "a rate on the screen": ((*COUNTED, *LINKS, "--out", "-"), "--out must be a file such as rate.json, got '-'"),
    "a rate over its records": (
        ("audited", "visits.csv", *AUDITED[2:], "--out", "visits.csv"),
        "another file than FILE",
    ),
    "nothing to count": (COUNTED, "--links must be a number, or groups given, from which it is counted, got None"),
    "a file alone": ((*COUNTED, "--file", "visits.csv"), "--groups must be given along with --file."),
    "clusters alone": ((*COUNTED, "--groups", "patient"), "--file must be given along with --groups."),
    "counted twice": ((*OF_TABLE, "--links", "9"), "--links must be left out with --file, which is counted instead."),
    "one fold to count in": ((*COUNTED, *LINKS, "--folds", "1"), "--folds must be a whole number at least 2, got 1."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_sentence(run, linked, name):
    words, message = REFUSED[name]
    linked.assign(half=0.5, first=np.arange(800) % 4 == 0).to_csv("visits.csv", index=False)
    for file, content in PAIR_FILES.items():
        Path(file).write_text(content)
    status, out, err = run(*words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("outofcluster: ")
    assert message in err


def test_row_numbers_that_may_be_names_are_said_to_be_row_numbers(run, linked):
    linked.assign(number=np.arange(800)[::-1]).to_csv("visits.csv", index=False)
    pd.DataFrame({"left": [1, 9], "right": [2, 30], "probability": 0.3}).to_csv("pairs.csv", index=False)
    status, _, err = run("pairs", "pairs.csv", "visits.csv", "--groups", "patient")
    assert status == 0
    assert err == "'left' is taken as row numbers; --id number takes it as names.\n" + (
        "'right' is taken as row numbers; --id number takes it as names.\n"
    )

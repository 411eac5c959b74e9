"""``outofcluster audit`` and ``test``: the numbers of Python, said in the words of the command line."""

import json
import re
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outofcluster as ooc
import outofcluster.cli.audit as audit_command
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.price import Announcement, announce
from outofcluster.auditing.result import Audit
from outofcluster.auditing.summary import Summary
from outofcluster.cli.printing import exit_status
from outofcluster.inference.estimates import decimals, fixed
from outofcluster.sampling.progress import Progress

PLAIN = ("--target", "ill", "--groups", "patient")
HOSTILE = "<script>alert(1)</script>"


def numbers(path):
    data = json.loads(path.read_text())
    return Summary.from_dict(data), data


# --- the answer ---------------------------------------------------------------------------------------


def test_the_options_are_the_arguments_of_python(audited, frame):
    (model, X, y), options = audited.arguments, audited.options
    assert str(model) == str(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)))
    assert np.array_equal(X, frame[["age", "dose"]].to_numpy())
    assert np.array_equal(y, frame["ill"].to_numpy(dtype=str))
    assert np.array_equal(options.pop("groups"), frame["patient"].to_numpy())
    assert options.pop("checkpoint").endswith("fits")
    assert options == {
        "leakage": 0.1,
        "cv": 3,
        "precision": 0.25,
        "n_fits": 60,
        "time_limit": None,
        "random_state": 3,
        "error_model": "auto",
        "unmix": "auto",
        "confidence_level": 0.95,
        "loss": None,
        "scoring": None,
        "n_jobs": None,
        "progress": True,
    }


def test_the_answer_is_that_of_python(audited):
    assert (audited.status, audited.err) == (0, "")
    summary, data = numbers(audited.folder / "out.json")
    expected = audited.result
    assert summary.naive == expected.naive
    assert summary.corrected == expected.corrected
    assert summary.test == expected.summary.test
    said = " ".join(audited.out.split())
    for words in (
        "records.csv: 90 records of 30 clusters, 3 records in a typical cluster.",
        "Target ill: 2 classes: ",
        "2 features: age, dose; no missing values.",
        "models will be fitted, as many as in",
        "They take some seconds.",
        f"cross-validated as it is {expected.naive.value:.4f}",
        f"corrected for 10 % leakage {expected.corrected.value:.4f} {expected.corrected.interval[0]:.4f} to",
        "give or take 2 %, which the interval includes",
        expected.test.sentence,
        "The report is in out.html.",
    ):
        assert words in said, words
    assert data["about"]["features"] == "age, dose"
    assert data["about"]["groups"] == "patient"
    assert "--leakage-std 0.02" in data["about"]["command"]
    html = (audited.folder / "out.html").read_text(encoding="utf-8")
    assert "Audit of records.csv" in html
    assert data["about"]["sha256"] in html
    assert not list((audited.folder / "cache").rglob("*fold*"))


@pytest.mark.slow
def test_the_rate_and_the_suspects_come_from_the_records(run, folder):
    rng = np.random.default_rng(0)
    ward = np.repeat(np.arange(10), 30)
    X = 2 * rng.standard_normal((10, 3))[ward] + 0.4 * rng.standard_normal((300, 3))
    filed = ward.copy()
    moved = rng.choice(300, 30, replace=False)
    filed[moved] = (ward[moved] + rng.integers(1, 10, 30)) % 10
    frame = pd.DataFrame(X, columns=list("abc")).assign(ward=[f"<w>{i}" for i in filed])
    frame["ill"] = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    # Suspects are rows of the file, also where some of them are left out.
    without = rng.choice(300, 40, replace=False)
    frame.loc[without, "ill"] = None
    frame.to_csv("wards.csv", index=False)
    words = ("--target", "ill", "--groups", "ward", "--leakage", "data", "--fits", "750", "--drop-missing-target")
    files = ("--suspects", "s.csv", "--json", "out.json", "--report", "out.html", "--explain")
    status, out, err = run("audit", "wards.csv", *words, *files)
    assert (status, err) == (0, "")
    summary, _ = numbers(folder / "out.json")
    assert summary.leakage == (summary.data_leakage,) * 5
    assert summary.unmixed is not None
    said = " ".join(out.split())
    for line in (summary.from_records, summary.without_curve, summary.assumption, "The suspects are in s.csv"):
        assert line in said
    suspects = pd.read_csv(folder / "s.csv")
    assert suspects.columns.tolist() == ["fold", "record", "cluster", "probability", "resembles"]
    assert not np.isin(suspects["record"], without).any()
    assert (suspects["cluster"] == frame["ward"].to_numpy()[suspects["record"]]).all()
    assert np.isin(suspects["record"][:10], moved).mean() > 0.7
    report = (folder / "out.html").read_text()
    assert f'<th scope="row">{suspects["record"][0]}</th>' in report
    assert "<w>" not in report.partition('id="summary"')[0]
    assert run("audit", "wards.csv", *words, "--fits", "60", "--no-unmix", "--json", "plain.json")[0] == 0
    assert numbers(folder / "plain.json")[0].unmixed is None


def test_features_that_tell_no_clusters_apart_leave_no_suspects_but_all_else(shown, folder, monkeypatch):
    def refuse(_):
        raise ooc.InputError("suspects() needs features that tell entities apart, which these records do not have.")

    monkeypatch.setattr(Audit, "suspects", refuse)
    status, out, err = shown("--suspects", "s.csv", "--json", "out.json")
    assert (status, err.count("\n")) == (3, 1)
    assert err.startswith("outofcluster: --suspects needs features that tell entities apart")
    assert (folder / "out.json").exists()
    assert "corrected for 10 % leakage" in out


@pytest.mark.slow
def test_suspects_of_fragments_are_clusters(run, folder):
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 6)
    X = 2 * rng.standard_normal((60, 3))[person] + 0.2 * rng.standard_normal((360, 3))
    # The first ten people are in two pieces.
    linked = np.where((person < 10) & (np.arange(360) % 2 == 0), 100 + person, person)
    visits = pd.DataFrame(X, columns=list("abc")).assign(patient=[f"p{i}" for i in linked])
    visits["ill"] = np.where(X[:, 0] + rng.standard_normal(60)[person] > 0, "yes", "no")
    visits.to_csv("visits.csv", index=False)
    words = (*PLAIN, "--leakage", "0.1", "--fits", "100", "--fail-on", "never")
    assert run("audit", "visits.csv", *words, "--suspects", "s.csv")[0] == 0
    suspects = pd.read_csv(folder / "s.csv")
    assert suspects.columns.tolist() == ["fold", "cluster", "probability", "resembles", "records"]
    pairs = {(f"p{100 + i}", f"p{i}") for i in range(10)} | {(f"p{i}", f"p{100 + i}") for i in range(10)}
    first = suspects[:8]
    assert np.mean([pair in pairs for pair in zip(first["cluster"], first["resembles"], strict=True)]) > 0.7
    assert suspects["probability"].min() >= 0.1


@pytest.mark.slow
def test_a_cluster_gives_the_numbers_of_this_machine(run, folder):
    distributed = pytest.importorskip("distributed")
    options = (*PLAIN, "--fits", "60", "--leakage", "0.1")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        where = cluster.scheduler_address.replace("tcp://", "dask://")
        status, _, err = run("audit", "records.csv", *options, "--backend", where, "--json", "there.json")
        assert (status, err) == (0, "")
    assert run("audit", "records.csv", *options, "--json", "here.json")[0] == 0
    assert numbers(folder / "there.json")[0].corrected == numbers(folder / "here.json")[0].corrected


@pytest.mark.slow
def test_metrics_in_lines_of_their_own(run, folder):
    words = ("--folds", "3", "--fits", "60", "--leakage", "0.1", "--json", "out.json", "--confidence", "0.8")
    scoring = ("--scoring", "roc_auc, neg_brier_score", "--scoring", "f1")
    status, out, err = run("audit", "records.csv", *PLAIN, *words, *scoring)
    assert status == 0, err
    summary, _ = numbers(folder / "out.json")
    assert [one.metric.name for one in summary.metrics] == ["roc_auc", "neg_brier_score", "f1"]
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    for one in summary.metrics:
        for name, estimate in {"as it is": one.naive, "corrected": one.corrected, "optimism": one.optimism}.items():
            line = next(line for line in lines if line.startswith(f"  {one.metric.label}, {name} "))
            words = rf"{re.escape(one.metric.label)}, {name} +−?[\d.]+ +−?[\d.]+ to −?[\d.]+"
            assert re.fullmatch(words, line.strip()), line
            assert f" {fixed(estimate.value, decimals(one.naive, one.corrected))} " in line
    assert "80 % interval" in out
    assert "95 %" not in out


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ill", "age"])
@pytest.mark.parametrize("model", ["ridge", "forest", "boosting"])
def test_other_models_and_targets(run, folder, model, target):
    words = ("--target", target, "--groups", "patient", "--model", model, "--fits", "60", "--json", "out.json")
    status, _, err = run("audit", "records.csv", *words)
    assert status == 0, err
    summary, _ = numbers(folder / "out.json")
    assert summary.loss == ("zero_one" if target == "ill" else "squared_error")
    assert ("Classifier" in summary.estimator) == (target == "ill")


@pytest.mark.slow
def test_text_gaps_dates_and_hostile_names(run, folder, frame):
    evil = "a\x1b[31m\x07ge\u202e"
    frame = frame.rename(columns={"age": HOSTILE, "ill": f"ill{evil}"})
    frame["site"] = np.where(np.arange(90) % 2, "x & <b>y</b>", None)
    frame["seen"] = pd.date_range("2020-01-01", periods=90).strftime("%Y-%m-%d")
    frame["patient"] = [f"p{evil}{number}" for number in frame["patient"]]
    frame[f"ill{evil}"] += evil
    frame.loc[::7, "dose"] = np.nan
    frame.to_csv(f"x{evil}.csv", index=False)
    words = (
        "--leakage",
        "data",
        "--error-model",
        "records",
        "--fits",
        "60",
        "--report",
        "out.html",
        "--json",
        "out.json",
    )
    words += ("--suspects", "out.csv")
    words = ("audit", f"x{evil}.csv", "--target", f"ill{evil}", "--groups", "patient", *words, "--fail-on", "never")
    status, out, err = run(*words)
    assert status == 0, err
    for text in (out, err, *((folder / f"out.{kind}").read_text() for kind in ("html", "csv", "json"))):
        assert not set(text) & set("\x1b\x07\u202e")
    html = (folder / "out.html").read_text(encoding="utf-8")
    assert HOSTILE not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;, dose, site, seen" in html
    assert "SimpleImputer" in numbers(folder / "out.json")[0].estimator
    said = "Columns site, seen: turned into numbers once, for all records, by skrub's TableVectorizer"
    assert said in " ".join(out.split())


# --- the account --------------------------------------------------------------------------------------

SAID = {
    "infinite values, which a model takes": (
        ("--model", "boosting"),
        {"ratio": np.where(np.arange(90) < 4, np.inf, np.arange(90) / 7)},
        "Infinite values: ratio (4 of 90 records).",
    ),
    "an id": (
        (),
        {"visit_id": np.arange(90) + 7000},
        "Left out: visit_id (it looks like an id); --keep takes a column",
    ),
    "a giveaway": (("--target", "sick"), {"sick": None}, "These features give the target away: kind."),
    "numbers as classes": (
        ("--target", "grade"),
        {"grade": np.arange(90) % 5},
        "Its numbers are taken as classes; --task regression takes them as amounts.",
    ),
    "amounts": (
        ("--target", "grade", "--task", "regression"),
        {"grade": np.arange(90) % 5},
        "Target grade: a number.",
    ),
    "clusters of single records": (
        ("--groups", "once"),
        {"once": np.where(np.arange(90) < 88, np.arange(90), 99)},
        "Nearly all clusters have a single record: is --groups the right column?",
    ),
    "clusters among the features": (
        (),
        {"wider": np.arange(90) // 6},
        "These features look like clusters as well: wider",
    ),
    "records without a target": (
        ("--drop-missing-target",),
        {"ill": [None, None, *["yes", "no"] * 44]},
        "Left out: 2 records without a target.",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_may_be_meant_is_said_before_any_fit(main_of, folder, frame, monkeypatch, name):
    words, columns, sentence = SAID[name]

    def begin(problem, *_):
        task = SimpleNamespace(printed=str(problem.estimator))
        announce(lambda: Announcement(task, None, 1), Progress(show=False))
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_command, "_audit", begin)
    if name == "a giveaway":
        columns = {"sick": frame["ill"], "kind": np.where(frame["ill"] == "yes", np.arange(90) % 2, 2).astype(str)}
        words += ("--drop", "ill")
    frame.assign(**columns).to_csv("records.csv", index=False)
    status, out, _ = main_of("audit", "records.csv", *PLAIN, *words)
    assert status == 130
    assert sentence in " ".join(out.split())


@pytest.mark.parametrize(
    ("seconds", "n_thresholds", "words"),
    [
        (0.2, 1, "some seconds"),
        (40, 1, "about 40 seconds"),
        (1800, 1, "about 30 minutes"),
        (1800, 3, "about 1.5 hours"),
    ],
)
def test_the_time_is_said_once_models_are_fitted(main_of, folder, frame, monkeypatch, seconds, n_thresholds, words):
    """It is that of the bar, for all thresholds together."""

    def begin(problem, *_):
        clock, task = [0.0], SimpleNamespace(printed=str(problem.estimator))
        bar = Progress(100, show=False, clock=lambda: clock[0])
        announce(lambda: Announcement(task, None, fits=100), bar)
        part = bar.part()
        clock[0] += 2 * seconds / 98
        part.add(2)
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_command, "_audit", begin)
    show = partial(audit_command.show_account, n_thresholds=None if n_thresholds == 1 else n_thresholds)
    monkeypatch.setattr(audit_command, "show_account", show)
    frame.to_csv("records.csv", index=False)
    status, out, _ = main_of("audit", "records.csv", *PLAIN)
    assert status == 130
    at_each = f" at each of {n_thresholds} thresholds" if n_thresholds > 1 else ""
    assert " ".join(out.split()).endswith(f"100 models will be fitted{at_each}. They take {words}.")


# --- findings -----------------------------------------------------------------------------------------


def test_the_exit_status_follows_fail_on():
    findings = {severity: Finding("no-rate", severity, "", "") for severity in ("info", "warning", "severe")}
    for rank, fail_on in enumerate(["info", "warning", "severe", "never"]):
        statuses = [exit_status([findings[severity]], fail_on) for severity in findings]
        assert statuses == [int(severity >= rank) for severity in range(3)]
        assert exit_status([], fail_on) == 0
    # What is printed as a note has the level info.
    assert [exit_status([finding], "note") for finding in findings.values()] == [1, 1, 1]


def test_findings_speak_of_options_and_severe_ones_fail(shown, audited, monkeypatch):
    findings = (
        Finding("out-of-range", "severe", "It is [bold]bad[/bold].", "Stop."),
        Finding("error-model", "info", "Fragments.", "Give error_model= if you know better."),
    )
    monkeypatch.setitem(vars(audited.result), "summary", replace(audited.result.summary, findings=findings))
    status, out, _ = shown()
    assert status == 1
    assert "Severe out-of-range: It is [bold]bad[/bold].\n    What to do: Stop." in out
    assert "Note error-model" not in out
    status, out, _ = shown("--fail-on", "never", "--explain")
    assert status == 0
    assert "Note error-model: Fragments.\n    What to do: Give --error-model if you know better." in out


@pytest.mark.slow
def test_without_a_rate_several_are_shown(run):
    words = ("--leakage", "none", "--fits", "60", "--fail-on", "note")
    status, out, _ = run("audit", "records.csv", *PLAIN, *words)
    assert status == 1
    assert "What to do: Look at the table of rates, or let --leakage data go by the data." in out
    assert "if the leakage rate is" in out


# --- refusals -----------------------------------------------------------------------------------------

REFUSED = {
    # By the options themselves.
    "a rate in words": (("--leakage", "few"), "must be a number, data, none or the file of a rate, got 'few'."),
    "a misspelt rate": (("--leakage", "dta"), "did you mean data?"),
    "a rate in per cent": (("--leakage", "12"), "or a percentage such as 12%, got 12; did you mean 0.12?"),
    "a rate above 1": (("--leakage", "300%"), "--leakage must be a share between 0 and 1, or a percentage such as 12%"),
    "a decimal comma": (("--leakage", "0,12"), "did you mean 0.12?"),
    "an error in per cent": (("--leakage", "0.1", "--leakage-std", "2"), "did you mean 0.02?"),
    "a lonely error": (("--leakage-std", "0.1"), "--leakage must be given along with --leakage-std."),
    "an error of the data's rate": (
        ("--leakage", "data", "--leakage-std", "0.1"),
        "--leakage-std must be left out with --leakage data",
    ),
    "an error of no rate": (
        ("--leakage", "none", "--leakage-std", "0.1"),
        "--leakage-std must be left out with --leakage none.",
    ),
    "an unknown backend": (
        ("--backend", "spark://a:1"),
        "--backend must be local, dask://HOST:PORT or ray://HOST:PORT",
    ),
    "a backend without an address": (("--backend", "dask://"), "--backend must be local, dask://HOST:PORT"),
    "infinite values": (
        ("--target", "patient", "--groups", "ill", "--task", "regression"),
        "FILE must have finite features unless --model is boosting or your own, got 'ratio' with infinite values in 1 "
        "of 90 records; leave it out with --drop.",
    ),
    "suspects without a comparison": (
        ("--suspects", "s.csv", "--no-unmix", "--error-model", "fragments", "--drop", "ratio"),
        "--suspects must be given without --no-unmix.",
    ),
    "suspects of records without a comparison": (
        ("--suspects", "s.csv", "--no-unmix", "--error-model", "records", "--leakage", "0.1", "--drop", "ratio"),
        "--suspects must be given without --no-unmix, or without --leakage.",
    ),
    "suspects of few fits": (
        ("--suspects", "s.csv", "--fits", "130", "--error-model", "records", "--leakage", "0.1", "--drop", "ratio"),
        "--fits must be at least 135 for --suspects among single records, which is 27 for each fold, got 130.",
    ),
    # By Python, in the words of the command line.
    "too much leakage": (
        ("--leakage", "0.6", "--error-model", "records", "--drop", "ratio"),
        "--leakage must be at most 0.5, beyond which nothing can be told, got 0.6",
    ),
    "a loss and a metric": (
        ("--loss", "brier", "--scoring", "roc_auc", "--drop", "ratio"),
        "--loss and --scoring must not be given together, got --loss brier and --scoring roc_auc.",
    ),
    "a metric as a loss": (
        ("--loss", "f1", "--drop", "ratio"),
        "got 'f1'; for scikit-learn's scorer pass --scoring f1.",
    ),
    "a misspelt metric": (("--scoring", "roc_acu", "--drop", "ratio"), "got 'roc_acu'; did you mean 'roc_auc'"),
    "one fold": (("--folds", "1", "--drop", "ratio"), "--folds must be a whole number at least 2, got 1."),
    "target and groups swapped": (
        ("--target", "patient", "--groups", "ill", "--drop", "ratio"),
        "--folds must be at most the number of clusters, got 5; groups has 2 clusters, and the target has 30 different "
        "values: are the two swapped?",
    ),
    "few fits": (("--fits", "3", "--drop", "ratio"), "--fits must be a whole number at least"),
    "a negative seed": (("--seed", "-1", "--drop", "ratio"), "--seed must be a whole number at least 0, got -1."),
    "no workers": (("--jobs", "0", "--drop", "ratio"), "--jobs must be None or a whole number other than 0, got 0."),
    "confidence in per cent": (("--confidence", "95", "--drop", "ratio"), "--confidence must lie between"),
    "a checkpoint nowhere": (
        ("--checkpoint", "no/c", "--drop", "ratio"),
        "--checkpoint must lie in a folder that exists",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_sentence_before_anything_is_fitted(run, folder, frame, monkeypatch, name):
    words, message = REFUSED[name]
    frame.assign(ratio=[np.inf, *frame["dose"][1:]]).to_csv("records.csv", index=False)
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_: pytest.fail("a model was fitted"))
    status, out, err = run("audit", "records.csv", *PLAIN, *words)
    assert (status, out) == (2, "")
    assert err.startswith("outofcluster: ")
    assert message in err
    assert err.count("\n") == 1
    assert not [path for path in (folder / "cache").rglob("*") if path.is_file()]


def test_a_model_that_fails_is_one_sentence(run, folder, monkeypatch):
    (folder / "failing.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\n\n\n"
        "class Failing(GaussianNB):\n    def fit(self, X, y):\n        raise ValueError('no luck')\n"
    )
    monkeypatch.delitem(sys.modules, "failing", raising=False)
    status, _, err = run("audit", "records.csv", *PLAIN, "--model", "failing:Failing", "--jobs", "1")
    assert status == 2
    assert "no luck" in err
    assert "Traceback" not in err


# --- the test -----------------------------------------------------------------------------------------


def test_the_test_on_a_table(run, folder, frame, monkeypatch):
    calls = []

    def watch(*arguments, **options):
        calls.append((options, ooc.leakage_test(*arguments, **options)))
        return calls[-1][1]

    monkeypatch.setattr("outofcluster.auditing.effect_test.leakage_test", watch)
    words = ("test", "records.csv", *PLAIN, "--folds", "3", "--fail-on-effect")
    status, out, err = run(*words, "--alpha", "0.5", "--json", "test.json")
    ((options, expected),) = calls
    assert (status, err) == (int(expected.rejected), "")
    assert np.array_equal(options.pop("groups"), frame["patient"].to_numpy())
    assert options == {"cv": 3, "alpha": 0.5, "random_state": 0, "n_jobs": None, "loss": None, "scoring": None}
    data = json.loads((folder / "test.json").read_text())
    assert ooc.LeakageTest.from_dict(data) == expected
    assert data["sentence"] == expected.sentence
    assert f"p = {expected.pvalue:.2g}" in out
    assert "records.csv: 90 records of 30 clusters" in out
    # An effect fails a pipeline only where that is asked for.
    found = replace(expected, pvalue=1e-9, rejected=True)
    monkeypatch.setattr("outofcluster.auditing.effect_test.leakage_test", lambda *_, **__: found)
    assert run(*words)[0] == 1
    status, out, err = run(*words[:-1], "--json", "-")
    assert status == 0
    assert json.loads(out)["rejected"] is True
    assert err.count("A cluster effect was found (p < 0.001)") == 1

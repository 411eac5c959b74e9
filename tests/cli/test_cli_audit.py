"""``outofcluster audit`` and ``test`` on tables such as people have."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outofcluster as ooc
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.result import Audit
from outofcluster.auditing.summary import Summary
from outofcluster.cli import main
from outofcluster.cli._models import make_model, own_model
from outofcluster.cli._print import exit_status
from outofcluster.cli._table import read_records, read_table
from outofcluster.inference.estimates import decimals, fixed

HOSTILE = "<script>alert(1)</script>"
PLAIN = ("--target", "ill", "--groups", "patient")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def get(*words):
        monkeypatch.setattr(sys, "argv", ["outofcluster", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return get


def table(n=50, each=4):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(n), each)
    u = rng.standard_normal((n, 2))
    return pd.DataFrame(
        {
            "age": u[patient, 0] + 0.3 * rng.standard_normal(n * each),
            "dose": rng.standard_normal(n * each),
            "patient": patient,
            "ill": np.where(u[patient, 0] + u[patient, 1] > 0, "yes", "no"),
            "score": u[patient, 0] + rng.standard_normal(n * each),
        }
    )


@pytest.fixture
def records(tmp_path):
    table().to_csv(tmp_path / "records.csv", index=False)


def numbers(path):
    data = json.loads(path.read_text())
    return Summary.from_dict(data), data


# --- the answer ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("records")
def test_the_numbers_are_those_of_python(run, tmp_path):
    options = ("--leakage", "0.1", "--leakage-std", "0.02", "--fits", "120", "--drop", "score", "--seed", "3")
    status, out, err = run("audit", "records.csv", *PLAIN, *options, "--json", "out.json", "--report", "out.html")
    assert (status, err) == (0, "")
    summary, data = numbers(tmp_path / "out.json")
    frame = table()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    leakage = ooc.Leakage(0.1, 0.02, of="validation")
    rest = {"groups": frame["patient"].to_numpy(), "leakage": leakage, "n_fits": 120, "random_state": 3, "cv": 5}
    expected = ooc.audit(model, frame[["age", "dose"]].to_numpy(), frame["ill"].to_numpy(), **rest)
    assert summary.naive == expected.naive
    assert summary.corrected == expected.corrected
    assert summary.test == expected.summary.test
    said = " ".join(out.split())
    for words in (
        "records.csv: 200 records of 50 clusters, 4 records in a typical cluster.",
        "Target ill: 2 classes: yes (5",
        "2 features: age, dose; no missing values.",
        "Model: logistic regression. 190 models will be fitted, which takes some seconds.",
        "error rate",
        f"cross-validated as it is {expected.naive.value:.4f}",
        f"corrected for 10.0% leakage {expected.corrected.value:.4f} {expected.corrected.interval[0]:.4f} to",
        "give or take 2 %, which the interval includes",
        expected.test.sentence,
        "The report is in out.html.",
    ):
        assert words in said, words
    assert data["about"]["features"] == "age, dose"
    assert data["about"]["groups"] == "patient"
    assert "--leakage-std 0.02" in data["about"]["command"]
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "Audit of records.csv" in html
    assert data["about"]["sha256"] in html
    assert not list((tmp_path / "cache").rglob("*fold*"))


def wards():
    """Records of wards, and the rows of those that were filed under another ward."""
    rng = np.random.default_rng(0)
    ward = np.repeat(np.arange(10), 30)
    X = 2 * rng.standard_normal((10, 3))[ward] + 0.4 * rng.standard_normal((300, 3))
    filed = ward.copy()
    moved = rng.choice(300, 30, replace=False)
    filed[moved] = (ward[moved] + rng.integers(1, 10, 30)) % 10
    frame = pd.DataFrame(X, columns=list("abc")).assign(ward=[f"<w>{i}" for i in filed], ill=X[:, 0] + X[:, 1] > 0)
    return frame, moved


@pytest.mark.slow
def test_suspects_are_rows_of_the_file_where_records_without_a_target_were_left_out(run, tmp_path):
    frame, moved = wards()
    frame["ill"] = frame["ill"].map({True: "yes", False: "no"})
    untold = np.random.default_rng(1).choice(300, 40, replace=False)
    frame.loc[untold, "ill"] = None
    frame.to_csv(tmp_path / "wards.csv", index=False)
    words = ("--target", "ill", "--groups", "ward", "--leakage", "data", "--fits", "750", "--drop-missing-target")
    status, _, err = run("audit", "wards.csv", *words, "--suspects", "s.csv", "--report", "out.html")
    assert (status, err) == (0, "")
    suspects = pd.read_csv(tmp_path / "s.csv")
    assert not np.isin(suspects["record"], untold).any()
    assert (suspects["cluster"] == frame["ward"].to_numpy()[suspects["record"]]).all()
    assert np.isin(suspects["record"][:10], moved).mean() > 0.7
    assert f'<th scope="row">{suspects["record"][0]}</th>' in (tmp_path / "out.html").read_text()


def test_suspects_of_fragments_are_clusters(run, tmp_path):
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 6)
    X = 2 * rng.standard_normal((60, 3))[person] + 0.2 * rng.standard_normal((360, 3))
    # The first ten people are in two pieces.
    linked = np.where((person < 10) & (np.arange(360) % 2 == 0), 100 + person, person)
    frame = pd.DataFrame(X, columns=list("abc")).assign(patient=[f"p{i}" for i in linked])
    frame["ill"] = np.where(X[:, 0] + rng.standard_normal(60)[person] > 0, "yes", "no")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    words = (*PLAIN, "--leakage", "0.1", "--fits", "100", "--fail-on", "never", "--report", "out.html")
    status, out, err = run("audit", "visits.csv", *words, "--suspects", "s.csv")
    assert (status, err) == (0, "")
    assert "The suspects are in s.csv, the likeliest first." in out
    suspects = pd.read_csv(tmp_path / "s.csv")
    assert suspects.columns.tolist() == ["fold", "cluster", "probability", "resembles", "records"]
    assert suspects["probability"].is_monotonic_decreasing
    pairs = {(100 + i, i) for i in range(10)} | {(i, 100 + i) for i in range(10)}
    first = suspects[:8]
    found = [
        (int(one[1:]), int(two[1:])) in pairs for one, two in zip(first["cluster"], first["resembles"], strict=True)
    ]
    assert np.mean(found) > 0.7


def test_features_that_tell_no_clusters_apart_leave_no_suspects_but_all_else(run, tmp_path):
    frame = table()[["patient", "ill"]].assign(noise=np.random.default_rng(1).standard_normal(200))
    frame["ill"] = np.random.default_rng(2).choice(["yes", "no"], 200)
    frame.to_csv(tmp_path / "records.csv", index=False)
    words = (*PLAIN, "--leakage", "0.1", "--fits", "60", "--suspects", "s.csv", "--json", "out.json")
    status, out, err = run("audit", "records.csv", *words)
    assert (status, err.count("\n")) == (3, 1)
    assert err.startswith("outofcluster: --suspects must go with records that show which clusters belong together")
    assert (tmp_path / "out.json").exists()
    assert "corrected for 10.0% leakage" in out


@pytest.mark.slow
def test_the_rate_and_the_suspects_come_from_the_records(run, tmp_path):
    frame, moved = wards()
    frame.to_csv(tmp_path / "wards.csv", index=False)
    words = ("--target", "ill", "--groups", "ward", "--leakage", "data", "--fits", "750")
    files = ("--suspects", "s.csv", "--json", "out.json", "--report", "out.html", "--explain")
    status, out, err = run("audit", "wards.csv", *words, *files)
    assert (status, err) == (0, "")
    summary, _ = numbers(tmp_path / "out.json")
    assert summary.leakage == (summary.data_leakage,) * 5
    assert summary.unmixed is not None
    said = " ".join(out.split())
    for line in (summary.from_records, summary.without_curve, summary.assumption):
        assert line in said
    assert "That rate is used for the correction" in said
    assert "The suspects are in s.csv" in said
    suspects = pd.read_csv(tmp_path / "s.csv")
    assert suspects.columns.tolist() == ["fold", "record", "cluster", "probability", "resembles"]
    assert (suspects["cluster"] == frame["ward"].to_numpy()[suspects["record"]]).all()
    assert suspects["probability"].is_monotonic_decreasing
    assert np.isin(suspects["record"][:10], moved).mean() > 0.7
    report = (tmp_path / "out.html").read_text()
    assert report.count("&lt;w&gt;") >= 10
    assert "<w>" not in report.partition('id="summary"')[0]
    status, _, _ = run("audit", "wards.csv", *words, "--fits", "60", "--no-unmix", "--json", "plain.json")
    assert status == 0
    assert numbers(tmp_path / "plain.json")[0].unmixed is None


@pytest.mark.slow
@pytest.mark.usefixtures("records")
def test_a_cluster_gives_the_numbers_of_this_machine(run, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = (*PLAIN, "--fits", "60", "--drop", "score", "--leakage", "0.1")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        where = cluster.scheduler_address.replace("tcp://", "dask://")
        status, _, err = run("audit", "records.csv", *options, "--backend", where, "--json", "there.json")
        assert (status, err) == (0, "")
    assert run("audit", "records.csv", *options, "--json", "here.json")[0] == 0
    assert numbers(tmp_path / "there.json")[0].corrected == numbers(tmp_path / "here.json")[0].corrected


@pytest.mark.usefixtures("records")
def test_the_level_of_confidence_is_an_option(run):
    status, out, _ = run("audit", "records.csv", *PLAIN, "--fits", "60", "--confidence-level", "0.8")
    assert status == 0
    assert "80 % interval" in out
    assert "95 %" not in out
    status, _, err = run("audit", "records.csv", *PLAIN, "--fits", "60", "--confidence-level", "1.5")
    assert status == 2
    assert err.startswith("outofcluster: --confidence-level must")


@pytest.mark.usefixtures("records")
@pytest.mark.slow
def test_findings_speak_of_options(run):
    status, out, _ = run("audit", "records.csv", *PLAIN, "--fits", "60", "--fail-on", "note")
    assert status == 1
    assert "What to do: Give --error-model" not in out
    assert "What to do: Give --leakage; 'outofcluster leakage' helps to find it." in out
    assert "if the leakage rate is" in out
    assert "errors=" not in out
    assert "sensitivity()" not in out
    status, out, _ = run("audit", "records.csv", *PLAIN, "--fits", "60", "--explain")
    assert "What to do: Give --error-model if you know better." in out


def test_the_exit_status_follows_fail_on():
    found = {severity: Finding("no-rate", severity, "", "") for severity in ("info", "warning", "severe")}
    for place, fail_on in enumerate(["info", "warning", "severe", "never"]):
        statuses = [exit_status([found[severity]], fail_on) for severity in found]
        assert statuses == [int(severity >= place) for severity in range(3)]
        assert exit_status(found.values(), fail_on) == int(fail_on != "never")
        assert exit_status([], fail_on) == 0
    # What is printed as a note has the level info.
    assert [exit_status([found[severity]], "note") for severity in found] == [1, 1, 1]


def test_the_levels_of_fail_on_are_in_the_help(run):
    for command in ("audit", "sweep"):
        _, out, _ = run(command, "--help")
        assert "Exit 1 from note, warning, severe or never. [severe]" in " ".join(out.split())


@pytest.mark.usefixtures("records")
def test_severe_findings_fail_by_default(run, monkeypatch):
    monkeypatch.setattr(Audit, "findings", (Finding("out-of-range", "severe", "It is [bold]bad[/bold].", "Stop."),))
    status, out, _ = run("audit", "records.csv", *PLAIN, "--fits", "60")
    assert status == 1
    assert "Severe out-of-range: It is [bold]bad[/bold].\n    What to do: Stop." in out


@pytest.mark.usefixtures("records")
def test_json_on_the_screen_is_all_there_is_on_standard_output(run):
    status, out, err = run("audit", "records.csv", *PLAIN, "--fits", "60", "--leakage", "0.1", "--json", "-")
    assert status == 0
    assert Summary.from_dict(json.loads(out)).rate == 0.1
    assert "corrected for 10.0% leakage" in err


# --- tables -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_text_gaps_dates_and_hostile_names(run, tmp_path):
    rng = np.random.default_rng(1)
    frame = table().rename(columns={"age": HOSTILE})
    frame["site"] = np.where(rng.random(200) < 0.5, "x & <b>y</b>", None)
    frame["seen"] = pd.date_range("2020-01-01", periods=200).strftime("%Y-%m-%d")
    frame["notes"] = [f"visit {i % 97} [red]of[/red] many" for i in range(200)]
    frame.loc[::7, "dose"] = np.nan
    frame.to_csv(tmp_path / "records.csv", index=False)
    words = ("--leakage", "0.05", "--fits", "60", "--report", "out.html", "--json", "out.json")
    status, out, _ = run("audit", "records.csv", *PLAIN, *words)
    assert status == 0
    html = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert HOSTILE not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;, dose, score, site, seen, notes" in html
    assert "SimpleImputer" in numbers(tmp_path / "out.json")[0].estimator
    assert "corrected for 5.0% leakage" in out
    said = "Columns site, seen, notes: turned into numbers once, for all records, by skrub's TableVectorizer"
    assert said in " ".join(out.split())


def test_the_vectoriser_never_sees_target_or_groups(tmp_path):
    frame = table().assign(site="a")
    frame.to_csv(tmp_path / "r.csv", index=False)
    read = read_records(
        str(tmp_path / "r.csv"), target="ill", groups="patient", drop=(), encoding="utf-8", classes=None, numbers=False
    )
    assert read.frame.columns.tolist() == ["age", "dose", "score", "site"]
    X = read.matrix(0)
    changed = frame.assign(ill=frame["ill"][::-1].to_numpy(), patient=frame["patient"][::-1].to_numpy())
    changed.to_csv(tmp_path / "c.csv", index=False)
    again = read_records(
        str(tmp_path / "c.csv"), target="ill", groups="patient", drop=(), encoding="utf-8", classes=None, numbers=False
    )
    assert np.array_equal(X, again.matrix(0))


@pytest.mark.parametrize("kind", ["parquet", "semicolons", "bom", "latin-1"])
def test_kinds_of_files(tmp_path, kind):
    frame = table().rename(columns={"dose": "durée"})
    encoding, path = "utf-8", tmp_path / "records.csv"
    if kind == "parquet":
        path = tmp_path / "records.parquet"
        frame.to_parquet(path)
    elif kind == "semicolons":
        frame.to_csv(path, index=False, sep=";")
    elif kind == "bom":
        frame.to_csv(path, index=False, encoding="utf-8-sig")
    else:
        encoding = "latin-1"
        frame.to_csv(path, index=False, encoding=encoding)
    read = read_table(str(path), encoding=encoding)
    assert read.columns.tolist() == frame.columns.tolist()
    assert read["durée"].tolist() == pytest.approx(frame["durée"].tolist())
    assert read["ill"].tolist() == frame["ill"].tolist()


def test_an_encoding_is_passed_on(run, tmp_path):
    table().rename(columns={"dose": "durée"}).to_csv(tmp_path / "records.csv", index=False, encoding="latin-1")
    status, out, err = run("test", "records.csv", *PLAIN, "--encoding", "latin-1", "--json", "-")
    assert status == 0, err
    assert json.loads(out)["about"]["features"] == "age, durée, score"


@pytest.mark.usefixtures("records")
def test_a_target_of_numbers_gets_ridge(run, tmp_path):
    words = ("--target", "score", "--groups", "patient", "--fits", "60", "--drop", "ill", "--json", "out.json")
    status, out, _ = run("audit", "records.csv", *words)
    assert status == 0
    summary, data = numbers(tmp_path / "out.json")
    assert summary.estimator.endswith("('ridge', Ridge())])")
    assert summary.loss == "squared_error"
    assert "mean squared error" in out
    assert data["about"]["target"] == "score (numbers)"


@pytest.mark.parametrize(
    ("name", "classes", "last", "steps"),
    [
        (None, True, "LogisticRegression", 2),
        (None, False, "Ridge", 2),
        ("logistic", True, "LogisticRegression", 2),
        ("linear-svm", True, "LinearSVC", 2),
        ("ridge", True, "RidgeClassifier", 2),
        ("ridge", False, "Ridge", 2),
        ("forest", True, "RandomForestClassifier", 0),
        ("forest", False, "RandomForestRegressor", 0),
        ("boosting", True, "HistGradientBoostingClassifier", 0),
        ("boosting", False, "HistGradientBoostingRegressor", 0),
    ],
)
def test_models_by_name(name, classes, last, steps):
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = X[:, 0] > 0 if classes else X[:, 0]
    for gaps in (0, 1):
        X[3, 1] = np.nan if gaps else 0.0
        model = make_model(name, X, classes=classes)
        assert type(model[-1] if steps else model).__name__ == last
        if steps:
            assert len(model) == steps + gaps
            assert len(model.fit(X, y).predict(X)) == 40


@pytest.mark.usefixtures("records")
@pytest.mark.slow
def test_losses_by_name(run, tmp_path):
    for given, name in (("log_loss", "log_loss"), ("roc_auc", "roc_auc")):
        words = ("--model", "logistic", "--loss", given, "--folds", "3", "--fits", "60", "--json", "out.json")
        status, _, err = run("audit", "records.csv", *PLAIN, *words)
        assert status == 0, err
        assert numbers(tmp_path / "out.json")[0].loss == name


@pytest.mark.usefixtures("records")
def test_metrics_by_name(run, tmp_path):
    words = ("--model", "logistic", "--folds", "3", "--fits", "60", "--leakage", "0.1", "--json", "out.json")
    scoring = ("--scoring", "roc_auc, neg_brier_score", "--scoring", "f1")
    status, out, err = run("audit", "records.csv", *PLAIN, *words, *scoring, "--report", "out.html")
    assert status == 0, err
    summary, _ = numbers(tmp_path / "out.json")
    assert [one.metric.name for one in summary.metrics] == ["roc_auc", "neg_brier_score", "f1"]
    said = " ".join(out.split())
    assert -1 < said.find("AUC, ") < said.find("Brier score, ") < said.find("F1, ")
    assert summary.headline.startswith("AUC 0.")
    # Every estimate is on a line with its interval, below a first column that is aligned on the left.
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    for one in summary.metrics:
        for name, estimate in {"as it is": one.naive, "corrected": one.corrected, "optimism": one.optimism}.items():
            own = next(line for line in lines if line.startswith(f"  {one.metric.label}, {name} "))
            words = rf"{re.escape(one.metric.label)}, {name} +−?[\d.]+ +−?[\d.]+ to −?[\d.]+"
            assert re.fullmatch(words, own.strip()), own
            assert f" {fixed(estimate.value, decimals(one.naive, one.corrected))} " in own
    assert "minus" not in out.lower()
    assert "Brier score" in (tmp_path / "out.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--scoring", "roc_acu"),
            "--scoring must be a metric, such as roc_auc, got 'roc_acu'; did you mean 'roc_auc'?",
        ),
        (("--scoring", "roc_auc,"), "--scoring must be a metric, such as roc_auc, got ''."),
        (("--scoring", "roc_auc", "--loss", "brier"), "--loss must be left out where --scoring is given"),
        (("--loss", "breir"), "did you mean 'brier'?"),
    ],
)
@pytest.mark.usefixtures("records")
def test_metrics_that_are_refused(run, words, message):
    status, _, err = run("audit", "records.csv", *PLAIN, *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ill", "score"])
@pytest.mark.parametrize("model", ["forest", "boosting"])
@pytest.mark.usefixtures("records")
def test_larger_models(run, tmp_path, model, target):
    words = ("--target", target, "--groups", "patient", "--model", model, "--fits", "60", "--json", "out.json")
    status, _, err = run("audit", "records.csv", *words)
    assert status == 0, err
    kind = "Classifier" if target == "ill" else "Regressor"
    assert kind in numbers(tmp_path / "out.json")[0].estimator


OWN = """
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

def make():
    encoded = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["site"]), remainder="passthrough")
    return make_pipeline(encoded, LogisticRegression())

made = make()
number = 3
"""


@pytest.mark.slow
def test_a_model_of_ones_own_gets_the_columns_as_they_are(run, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    table().assign(site=lambda f: np.where(f["dose"] > 0, "a", "b")).to_csv(tmp_path / "records.csv", index=False)
    words = ("--model", "mine:make", "--fits", "60", "--folds", "3", "--jobs", "1", "--json", "out.json")
    status, _, err = run("audit", "records.csv", *PLAIN, *words)
    assert status == 0, err
    assert "OneHotEncoder" in numbers(tmp_path / "out.json")[0].estimator
    assert type(own_model("mine:made")) is type(own_model("mine:make"))
    monkeypatch.delitem(sys.modules, "mine", raising=False)


# --- Ctrl-C -------------------------------------------------------------------------------------------

STOPPING = """
from pathlib import Path
from sklearn.naive_bayes import GaussianNB

class Stopping(GaussianNB):
    def fit(self, X, y):
        fits = Path("fits")
        count = int(fits.read_text()) + 1 if fits.exists() else 1
        fits.write_text(str(count))
        if Path("stop").exists() and count > int(Path("stop").read_text()):
            raise KeyboardInterrupt
        return super().fit(X, y)
"""


@pytest.mark.slow
def test_ctrl_c_keeps_the_work_and_the_same_command_goes_on(run, tmp_path, monkeypatch):
    (tmp_path / "stopping.py").write_text(STOPPING)
    monkeypatch.delitem(sys.modules, "stopping", raising=False)
    table().to_csv(tmp_path / "records.csv", index=False)
    words = ("audit", "records.csv", *PLAIN, "--model", "stopping:Stopping", "--leakage", "0.1", "--fits", "120")
    words += ("--jobs", "1", "--json", "out.json")
    fits = tmp_path / "fits"

    status, _, _ = run(*words)
    assert status == 0
    whole, needed = numbers(tmp_path / "out.json")[0], int(fits.read_text())
    (tmp_path / "out.json").unlink()

    fits.unlink()
    (tmp_path / "stop").write_text(str(needed - 30))
    status, out, err = run(*words)
    assert status == 130
    assert out.endswith("which takes some seconds.\n")
    assert err.split("\n")[-2] == "Stopped. What was fitted is kept, and the same command goes on from there."
    assert not (tmp_path / "out.json").exists()

    (tmp_path / "stop").unlink()
    fits.unlink()
    status, _, _ = run(*words)
    assert status == 0
    assert numbers(tmp_path / "out.json")[0] == whole
    assert int(fits.read_text()) < needed - 60
    assert not list((tmp_path / "cache").rglob("*fold*"))

    fits.unlink()
    (tmp_path / "stop").write_text("3")
    status, _, err = run(*words, "--checkpoint", "kept")
    assert status == 130
    assert "Stopped before anything was fitted" in err or "What was fitted is kept" in err


@pytest.mark.usefixtures("records")
@pytest.mark.slow
def test_a_checkpoint_of_ones_own_stays(run, tmp_path):
    words = ("audit", "records.csv", *PLAIN, "--fits", "60", "--checkpoint", "kept")
    assert run(*words)[0] == 0
    assert (tmp_path / "kept.fold0").exists()
    assert run(*words)[0] == 0
    status, _, err = run(*words, "--seed", "1")
    assert status == 2
    assert err.startswith("outofcluster: --checkpoint")


# --- the test -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("records")
def test_the_test_on_a_table(run, tmp_path):
    words = ("--drop", "score", "--json", "test.json")
    status, out, err = run("test", "records.csv", *PLAIN, *words)
    assert (status, err) == (0, "")
    frame = table()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    X, y = frame[["age", "dose"]].to_numpy(), frame["ill"].to_numpy()
    expected = ooc.leakage_test(model, X, y, groups=frame["patient"].to_numpy(), cv=5, random_state=0)
    data = json.loads((tmp_path / "test.json").read_text())
    assert ooc.LeakageTest.from_dict(data) == expected
    assert data["sentence"] == expected.sentence
    assert f"p = {expected.pvalue:.2g}" in out
    assert "records.csv: 200 records of 50 clusters" in out
    assert "This does not show that" in out


def test_an_effect_can_fail_a_pipeline(run, tmp_path):
    rng = np.random.default_rng(0)
    ward = np.repeat(np.arange(5), 160)
    X = rng.standard_normal((800, 3))
    ill = (X * (2 * rng.standard_normal((5, 3)))[ward]).sum(axis=1) > 0
    pd.DataFrame(X, columns=list("abc")).assign(ward=ward, ill=ill).to_csv(tmp_path / "r.csv", index=False)
    words = ("test", "r.csv", "--target", "ill", "--groups", "ward")
    status, out, _ = run(*words)
    assert status == 0
    assert "A cluster effect was found (p = " in out
    assert run(*words, "--fail-on-effect")[0] == 1
    status, out, err = run(*words, "--fail-on-effect", "--alpha", "1e-300", "--json", "-")
    assert status == 0
    assert json.loads(out)["rejected"] is False
    assert err.count("No cluster effect was found (p = ") == 1
    assert " ".join(err.split()).count("would have been found with a probability of 80 %") == 1


# --- bad input ----------------------------------------------------------------------------------------

BAD = {
    "a missing column": (
        ("--target", "il", "--groups", "patient"),
        "--target must be a column of FILE, got 'il' (nearest",
    ),
    "another case": (("--target", "ill", "--groups", "PATIENT"), "got 'PATIENT' (nearest: 'patient')."),
    "no such column": (
        ("--target", "ill", "--groups", "zzz"),
        "(there are: 'age', 'dose', 'patient', 'ill', 'score').",
    ),
    "one for both": (("--target", "ill", "--groups", "ill"), "must be different columns, got 'ill' for both."),
    "a dropped column": (
        (*PLAIN, "--drop", "dosage"),
        "--drop must be a column of FILE, got 'dosage' (nearest: 'dose",
    ),
    "a dropped target": ((*PLAIN, "--drop", "ill"), "--drop must not hold the target, got 'ill'."),
    "nothing left": (
        (*PLAIN, "--drop", "age", "--drop", "dose", "--drop", "score"),
        "FILE must have columns besides target, groups and dropped ones",
    ),
    "too much leakage": (
        (*PLAIN, "--leakage", "0.95"),
        "--leakage must be at most 0.9, beyond which nothing can be told, got 0.95",
    ),
    "too much leakage of records": (
        (*PLAIN, "--leakage", "0.6", "--error-model", "records"),
        "--leakage must be at most 0.5, beyond which nothing can be told, got 0.6",
    ),
    "negative leakage": ((*PLAIN, "--leakage", "-0.1"), "--leakage must be a finite number at least 0, got -0.1."),
    "a rate in words": ((*PLAIN, "--leakage", "few"), "--leakage must be a number or data, got 'few'."),
    "an error of the data's rate": (
        (*PLAIN, "--leakage", "data", "--leakage-std", "0.1"),
        "--leakage-std must be left out with --leakage data",
    ),
    "the data's rate of fragments": (
        (*PLAIN, "--leakage", "data", "--error-model", "fragments"),
        "--leakage must be a rate for --error-model fragments, got data, which works for --error-model records only.",
    ),
    "the data's rate of small clusters": (
        (*PLAIN, "--leakage", "data", "--suspects", "s.csv", "--fits", "100"),
        "--leakage must be a rate for --error-model fragments, which was chosen because the validation clusters are "
        "many and small, got data, which works for --error-model records only; give that if single records leak.",
    ),
    "suspects over the records": (
        (*PLAIN, "--suspects", "./records.csv"),
        "--suspects must be another file than FILE, got './records.csv' for both.",
    ),
    "suspects over the report": (
        (*PLAIN, "--report", "out.html", "--suspects", "out.html"),
        "--suspects must be another file than --report, got 'out.html' for both.",
    ),
    "suspects nowhere": ((*PLAIN, "--suspects", "no/where.csv"), "--suspects must lie in a folder that exists"),
    "suspects of fragments without a comparison": (
        (*PLAIN, "--suspects", "s.csv", "--error-model", "fragments", "--no-unmix", "--fits", "100"),
        "--suspects must be given without --no-unmix",
    ),
    "suspects of too much leakage and few fits": (
        (*PLAIN, "--suspects", "s.csv", "--fits", "700", "--leakage", "0.6", "--error-model", "records"),
        "--leakage must be at most 0.5, beyond which nothing can be told, got 0.6",
    ),
    "suspects without a comparison": (
        (*PLAIN, "--suspects", "s.csv", "--no-unmix"),
        "--suspects must be given without --no-unmix, or with --leakage data.",
    ),
    "suspects of few fits": (
        (*PLAIN, "--suspects", "s.csv", "--fits", "700", "--error-model", "records"),
        "--fits must be at least 750 for --suspects among single records, which is 150 for each fold, got 700.",
    ),
    "a lonely error": ((*PLAIN, "--leakage-std", "0.1"), "--leakage must be given along with --leakage-std."),
    "a report nowhere": (
        (*PLAIN, "--report", "no/where.html"),
        "--report must lie in a folder that exists, got 'no/where.html'.",
    ),
    "a report that is a folder": ((*PLAIN, "--report", "."), "--report must be a file, got the folder '.'."),
    "JSON where it cannot be": (
        (*PLAIN, "--json", "/proc/x.json"),
        "--json must be a file that can be written, got '/proc/x.json'",
    ),
    "a checkpoint nowhere": ((*PLAIN, "--checkpoint", "no/where"), "--checkpoint must lie in a folder that exists"),
    "no such module": ((*PLAIN, "--model", "nomodule:thing"), "got 'nomodule:thing': No module named 'nomodule'."),
    "no such object": ((*PLAIN, "--model", "sklearn.svm:LinearSVCs"), "which is not there; did you mean 'LinearSVC'?"),
    "no estimator": (
        (*PLAIN, "--model", "collections:Counter"),
        "--model must be an estimator with fit and predict, got",
    ),
    "no such model": ((*PLAIN, "--model", "forrest"), "got 'forrest'; did you mean 'forest'?"),
    "no such loss": ((*PLAIN, "--loss", "zero_on"), "got 'zero_on'; did you mean 'zero_one'?"),
    "a loss of numbers": (
        (*PLAIN, "--loss", "squared_error"),
        "--loss must suit the target, got 'squared_error', which takes numbers, for",
    ),
    "a model of classes": (
        ("--target", "score", "--groups", "patient", "--model", "logistic"),
        "--model must suit the target, got 'logistic', which takes classes, for",
    ),
    "one fold": ((*PLAIN, "--folds", "1"), "--folds must be a whole number between 2 and 50, got 1."),
    "too few fits": ((*PLAIN, "--fits", "3"), "--fits must be a whole number at least"),
    "a negative seed": ((*PLAIN, "--seed", "-1"), "--seed must be a whole number at least 0, got -1."),
    "no workers": ((*PLAIN, "--jobs", "0"), "--jobs must be"),
    "an unknown backend": ((*PLAIN, "--backend", "spark://a:1"), "--backend must be local, dask://HOST:PORT or ray://"),
    "a backend without an address": ((*PLAIN, "--backend", "dask://"), "--backend must be local, dask://HOST:PORT"),
}


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_before_anything_is_fitted(run, tmp_path, monkeypatch, name):
    words, message = BAD[name]
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_: pytest.fail("a model was fitted"))
    monkeypatch.setattr(Ridge, "fit", lambda *_: pytest.fail("a model was fitted"))
    status, out, err = run("audit", "records.csv", *words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("outofcluster: ")
    assert err.count("\n") == 1
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


FILES = {
    "empty": (b"", "FILE must hold a line of column names and records, got 'records.csv', which is empty."),
    "a head only": (b"a,ill,patient\n", "FILE must hold records, got 'records.csv' with column names only."),
    "another encoding": (
        b"a,ill,patient\n\xe9,1,2\n",
        "FILE must be text in utf-8, got 'records.csv' with bytes that are not",
    ),
    "one class": (
        b"a,ill,patient\n1,x,1\n2,x,2\n3,x,3\n",
        "--target must hold at least two classes, got only 'x' in column 'ill'",
    ),
    "missing targets": (b"a,ill,patient\n1,x,1\n2,,2\n", "got 'ill' with 1 of them, the first in record 2; --drop"),
    "missing groups": (
        b"a,ill,patient\n1,x,\n2,y,2\n",
        "--groups must be a column without missing values, got 'patient'",
    ),
    "one cluster": (b"a,ill,patient\n1,x,1\n2,y,1\n", "groups must hold at least two clusters, got 1 over 2 records."),
    "no table": (b'a,ill,patient\n1,x,1\n1,2,3,4,5\n"', "FILE must be a CSV file that can be read, got 'records.csv'"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_hold_no_records(run, tmp_path, name):
    content, message = FILES[name]
    (tmp_path / "records.csv").write_bytes(content)
    for command in ("audit", "test"):
        status, out, err = run(command, "records.csv", *PLAIN)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_files_that_are_none(run, tmp_path):
    (tmp_path / "records.csv").write_text("a\n1\n")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    for file, message in {
        "record.csv": "FILE must exist, got 'record.csv'; did you mean 'records.csv'?",
        "zzz": "FILE must exist, got 'zzz'.",
        ".": "FILE must be a CSV or Parquet file, got the folder '.'.",
        "x.parquet": "FILE must be a Parquet file that can be read, got 'x.parquet'",
    }.items():
        status, _, err = run("audit", file, *PLAIN)
        assert status == 2
        assert message in err
    status, _, err = run("audit", "records.csv", *PLAIN, "--encoding", "klingon")
    assert status == 2
    assert "--encoding must be one that Python knows, such as latin-1, got 'klingon'." in err


@pytest.mark.usefixtures("records")
def test_a_model_that_fails_is_one_sentence(run, tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text(STOPPING.replace("raise KeyboardInterrupt", "raise ValueError('no luck')"))
    (tmp_path / "stop").write_text("0")
    monkeypatch.delitem(sys.modules, "failing", raising=False)
    status, _, err = run("audit", "records.csv", *PLAIN, "--model", "failing:Stopping", "--jobs", "1")
    assert status == 2
    assert "no luck" in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("records")
def test_missing_extras_are_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    status, _, err = run("audit", "records.csv", *PLAIN)
    assert (status, err) == (2, "outofcluster: reading tables needs pandas: pip install 'outofcluster[cli]'.\n")

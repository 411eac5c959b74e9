"""``outofcluster show``: whatever a saved audit tells in Python, without a fit and without the records."""

import json
import shutil
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import outofcluster as ooc
from outofcluster.auditing.result import Audit, Source
from outofcluster.auditing.summary import Summary
from outofcluster.cli.outputs import OUTPUTS, PLOTS
from outofcluster.cli.show import CHOICES, QUESTIONS

# Public names that only serve others, and why no option is needed for them.
PLUMBING = {
    "load": "reads AUDIT",
    "of": "makes an audit of samples that were drawn just now",
    "solution": "holds losses, of which the public values are made",
    "others": "is part of metrics",
    "loss": "is the name in metric",
    "mute": "leaves findings out of those that are shown",
    "error_model_reason": "is said by the finding error-model",
    "units_asked": "is said by the finding of the units",
    "own_seconds": "is the times of corrected_cross_validate",
}


def records_world(seed=0, size=20):
    rng = np.random.default_rng(seed)
    ward = np.repeat(np.arange(10), size)
    X = 2 * rng.standard_normal((10, 3))[ward] + 0.4 * rng.standard_normal((len(ward), 3))
    filed = ward.copy()
    moved = rng.choice(len(ward), len(ward) // 10, replace=False)
    filed[moved] = (ward[moved] + rng.integers(1, 10, len(moved))) % 10
    return X, (X[:, 0] + X[:, 1] > 0).astype(int), filed


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Audits of all kinds in a folder: pieces, records by two metrics, a second seed, and leakage both ways."""
    folder = tmp_path_factory.mktemp("saved")
    patients = ooc.datasets.make_patients(80, n_records=(3, 6), random_state=0)
    made = {
        "pieces": ooc.audit(
            LogisticRegression(),
            patients.data,
            patients.target,
            groups=patients.groups,
            cv=3,
            n_fits=30,
            random_state=0,
        )
    }
    X, y, ward = records_world()
    options = {"groups": ward, "cv": 2, "error_model": "records", "leakage": "data"}
    for name, seed in (("records", 0), ("more", 1)):
        scoring = ["roc_auc", "accuracy"]
        made[name] = ooc.audit(LogisticRegression(), X, y, scoring=scoring, n_fits=90, random_state=seed, **options)
    options |= {"leakage": 0.1, "validation_leakage": 0, "n_fits": 50}
    made["both"] = ooc.audit(Ridge(), X, X[:, 0], random_state=0, **options)
    half = np.where(np.arange(len(patients.target)) % 2 == 0, "a", "b")
    pd.DataFrame({"half": half, "site": patients.groups % 3}).to_csv(folder / "half.csv", index=False)
    made["kept"] = replace(made["pieces"], source=Source({}, None, {"half": tuple(half.tolist())}))
    for name, result in made.items():
        result.save(folder / f"{name}.audit")
    return folder, {name: Audit.load(folder / f"{name}.audit") for name in made}


@pytest.fixture
def show(run, folder, saved):
    for path in saved[0].iterdir():
        shutil.copy(path, folder)
    return lambda name, *words: run("show", f"{name}.audit", "--fail-on", "never", *words)


def numbers(output):
    data = json.loads(output)
    return Summary.from_dict(data), data


# --- the two lists ------------------------------------------------------------------------------------


# For every entry of the lists an audit, and words that ask for it.
WORDS = {
    "merge": ("records", "--merge", "more.audit"),
    "metric": ("records", "--metric", "accuracy"),
    "leakage": ("pieces", "--leakage", "0.2"),
    "confidence": ("pieces", "--confidence", "0.8"),
    "units": ("pieces", "--units", "records"),
    "curve": ("records", "--curve", "PolynomialCurve(2)"),
    "fold": ("pieces", "--fold", "1"),
    "tipping": ("pieces", "--tipping", "0.9"),
    "sensitivity": ("both", "--sensitivity", "--rates", "0,0.1"),
    "validation_rates": ("both", "--rates", "0,10%", "--validation-rates", "0,0.1"),
    "by": ("kept", "--by", "half"),
    "table": ("kept", "--table", "half.csv", "--by", "half"),
    "spread": ("pieces", "--spread"),
    "plan_review": ("pieces", "--plan-review", "0.05"),
    "plan_clusters": ("pieces", "--plan-clusters", "0.2"),
    "parts": ("pieces", "--parts"),
    "cost": ("pieces", "--cost"),
    "report": ("pieces", "--report", "out.html"),
    "methods": ("pieces", "--methods", "out.txt"),
    "checklist": ("pieces", "--checklist", "out.md"),
    "plot": ("pieces", "--plot", "out.png"),
    "save": ("pieces", "--save", "out.audit"),
    "json": ("pieces", "--json", "out.json"),
    "suspects": ("records", "--suspects", "out.csv"),
    "review_list": ("pieces", "--review-list", "out.csv"),
    "estimates": ("pieces", "--estimates", "out.csv"),
    "samples": ("pieces", "--samples", "out.csv"),
}


def entries():
    """The names of the options of every entry, and what they tell."""
    for entry in (*CHOICES, *QUESTIONS):
        yield entry.names, entry.tells
    for output in OUTPUTS:
        yield (output.name,), output.tells


def test_whatever_is_public_in_python_can_be_asked():
    public = {name for name in {*dir(Audit), *Audit.__dataclass_fields__} if not name.startswith("_")}
    told = {"explain"} | {name for _, tells in entries() for name in tells}
    told |= {field.name for field in fields(Summary)} & public
    assert not told & PLUMBING.keys()
    assert public == told | PLUMBING.keys()


@pytest.mark.parametrize("names", [names for names, _ in entries()], ids=lambda names: names[0])
def test_every_option_reaches_what_it_says(show, folder, monkeypatch, names):
    tells = next(tells for others, tells in entries() if others == names)
    reached = set()
    read = Audit.__getattribute__

    def watch(self, name):
        reached.add(name)
        return read(self, name)

    monkeypatch.setattr(Audit, "__getattribute__", watch)
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_: pytest.fail("a model was fitted"))
    for name in names:
        if name in WORDS:
            status, _, err = show(*WORDS[name])
            assert (status, err) == (0, "")
    # The JSON is that of the summary with what the command knows, and the report that of a summary with its findings.
    same = {"to_dict", "to_json", "write_html", "records"}
    assert set(tells) <= reached | same


def test_explaining_prints_what_python_explains(show, saved):
    explained = saved[1]["pieces"].explain()
    said = " ".join(show("pieces", "--explain")[1].split())
    assert {"error-model:", "Notes:"} & set(explained.split())
    for finding in saved[1]["pieces"].findings:
        assert finding.code in said


# --- the answers are those of Python ------------------------------------------------------------------


def test_choices_change_the_numbers_as_in_python(show, saved):
    results = saved[1]
    same = {
        ("pieces",): results["pieces"],
        ("pieces", "--leakage", "20%"): results["pieces"].at_leakage(0.2),
        ("pieces", "--leakage", "0.2", "--leakage-std", "0.05"): results["pieces"].at_leakage(
            ooc.Leakage(0.2, 0.05, "validation")
        ),
        ("pieces", "--confidence", "0.8", "--units", "records"): results["pieces"]
        .with_units("records")
        .with_confidence(0.8),
        ("pieces", "--fold", "1"): results["pieces"].of_fold(1),
        ("records", "--metric", "accuracy", "--leakage", "0.1"): results["records"].at_leakage(0.1).others[0],
        ("records", "--merge", "more.audit"): results["records"].merge(results["more"]),
        ("records", "--curve", "PolynomialCurve(degree=2)"): results["records"].with_curve(ooc.PolynomialCurve(2)),
        ("both", "--validation-leakage", "5%"): results["both"].at_leakage(0.1, validation=0.05),
    }
    for words, expected in same.items():
        status, out, err = show(*words, "--json", "-")
        assert (status, err) == (0, ""), words
        summary, data = numbers(out)
        given = {name: getattr(summary, name) for name in ("naive", "corrected", "optimism", "leakage", "units")}
        assert given == {name: getattr(expected, name) for name in given}, words
        assert data["methods"] == expected.methods_text(), words
        assert data["about"]["asked again"].startswith("outofcluster show")


def test_the_file_of_a_rate_keeps_what_it_knows(show, saved, folder):
    rate = ooc.Leakage(0.2, 0.03, "validation")
    rate.save(folder / "rate.json")
    summary, _ = numbers(show("pieces", "--leakage", "rate.json", "--json", "-")[1])
    assert summary.corrected == saved[1]["pieces"].at_leakage(rate).corrected
    status, out, err = show("pieces", "--leakage", "rate.json", "--leakage-std", "0.1")
    assert (status, out) == (2, "")
    assert "--leakage-std must be left out with --leakage rate.json" in err


def test_names_that_no_font_has_are_drawn_without_a_word(show, saved, folder):
    half = pd.read_csv(saved[0] / "half.csv")["half"].map({"a": "\x1b[31m<b>", "b": "b"})
    replace(saved[1]["pieces"], source=Source({}, None, {"half": tuple(half)})).save(folder / "odd.audit")
    status, out, err = show("odd", "--by", "half", "--plot", "p.png", "--plot-of", "by", "--report", "r.html")
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    report = (folder / "r.html").read_text()
    assert "&lt;b&gt;" in report
    assert "\x1b" not in report


def test_questions_are_answered_below_the_numbers_and_in_the_json(show, saved, folder):
    both, pieces = saved[1]["both"], saved[1]["pieces"]
    rates = ("--rates", "0,10%", "--validation-rates", "0,0.05")
    status, out, _ = show("both", *rates, "--tipping", "2", "--json", "out.json")
    assert status == 0
    answers = numbers((folder / "out.json").read_text())[1]["answers"]
    surface = both.sensitivity_surface([0, 0.1], [0, 0.05])
    assert answers["sensitivity"]["values"] == surface.values.tolist()
    assert answers["tipping"]["sentence"] == str(both.tipping_point(2))
    said = " ".join(out.split())
    for words in (surface, both.tipping_point(2)):
        assert " ".join(str(words).split()) in said
    _, out, _ = show("pieces", "--parts", "--cost", "--sensitivity", "--json", "out.json")
    answers = numbers((folder / "out.json").read_text())[1]["answers"]
    assert answers["parts"] == pieces.parts().to_dict("records")
    assert answers["sensitivity"]["values"] == pieces.sensitivity().values.tolist()
    assert str(pieces.cost) in out
    _, out, _ = show("pieces", "--plan-clusters", "0.2", "--json", "out.json")
    answers = numbers((folder / "out.json").read_text())[1]["answers"]
    assert answers["plan_clusters"]["clusters"] == ooc.plan_clusters(pieces, 0.2).clusters
    assert " ".join(str(ooc.plan_clusters(pieces, 0.2)).split()) in " ".join(out.split())


def test_files_hold_what_python_gives(show, saved, folder):
    pieces, records = saved[1]["pieces"], saved[1]["records"]
    words = ("--methods", "m.txt", "--review-list", "l.csv", "--review-size", "12", "--seed", "7", "--save", "s.audit")
    files = ("--estimates", "e.csv", "--samples", "f.csv", "--report", "r.html", "--plot", "p.svg")
    status, out, err = show("pieces", "--leakage", "0.2", *words, *files)
    assert (status, err) == (0, "")
    again = pieces.at_leakage(0.2)
    assert (folder / "m.txt").read_text() == f"{again.methods_text()}\n"
    listed = again.review_list(12, random_state=7)
    assert pd.read_csv("l.csv", dtype={"cluster": str})["cluster"].tolist() == listed["cluster"].tolist()
    pd.testing.assert_frame_equal(pd.read_csv("e.csv"), again.to_frame())
    pd.testing.assert_frame_equal(pd.read_csv("f.csv"), again.samples.to_frame(), check_dtype=False)
    assert Audit.load("s.audit").corrected == again.corrected
    assert "<svg" in (folder / "p.svg").read_text()
    report = (folder / "r.html").read_text()
    assert "In words for a paper" in report
    assert "outofcluster show pieces.audit" in report
    for line in ("The paragraphs for a paper are in m.txt.", "The audit is in s.audit."):
        assert line in out
    assert show("records", "--suspects", "x.csv")[0] == 0
    suspects = pd.read_csv("x.csv", dtype={"cluster": str, "resembles": str})
    likely = records.suspects().query("probability >= 0.1")
    assert 0 < len(likely) < len(records.suspects())
    pd.testing.assert_frame_equal(suspects, likely, check_dtype=False)


@pytest.mark.parametrize(("kind", "name"), [(kind, "records" if kind == "below" else "kept") for kind in PLOTS])
def test_every_picture_can_be_drawn(show, folder, kind, name):
    by = ("--by", "half") if kind == "by" else ()
    assert show(name, "--plot", "p.png", "--plot-of", kind, *by)[0] == 0
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_suspects_are_rows_of_the_file_and_have_clusters(saved):
    result = saved[1]["records"]
    ward = records_world()[2]
    rows = 3 * np.arange(len(ward)) + 1
    of_file = Audit(**{**vars_of(result), "source": Source({}, rows)}).suspects()
    plain = result.suspects()
    assert of_file["record"].tolist() == rows[plain["record"]].tolist()
    assert plain["cluster"].tolist() == [str(ward[record]) for record in plain["record"]]
    assert set(result.of_fold(0).suspects()["cluster"]) == {""}


def vars_of(result):
    return {field.name: getattr(result, field.name) for field in fields(Audit)}


def test_a_saved_audit_keeps_where_its_records_come_from(run, folder):
    words = ("audit", "records.csv", "--target", "ill", "--groups", "patient", "--fits", "60", "--folds", "3")
    status, out, err = run(*words, "--leakage", "0.1", "--save", "a.audit", "--json", "a.json", "--methods", "-")
    assert (status, err.count("The audit is in a.audit.")) == (0, 1)
    summary, data = numbers((folder / "a.json").read_text())
    assert out == f"{summary.methods}\n"
    (folder / "records.csv").unlink()
    status, out, err = run("show", "a.audit", "--json", "b.json", "--report", "r.html")
    assert (status, err) == (0, "")
    again, known = numbers((folder / "b.json").read_text())
    assert again == summary
    assert known["about"].pop("asked again") == "outofcluster show a.audit --json b.json --report r.html"
    assert known["about"] == data["about"]
    assert data["about"]["command"].startswith("outofcluster audit records.csv")
    assert out.startswith("records.csv: 90 records of 30 clusters")
    assert "Audit of records.csv" in (folder / "r.html").read_text()


def test_the_exit_status_follows_the_findings(show, saved):
    worst = {finding.severity for finding in saved[1]["records"].findings}
    assert worst & {"info", "warning"}
    assert show("records", "--fail-on", "note")[0] == 1
    assert show("records", "--fail-on", "never")[0] == 0


def test_subgroups_are_of_columns_that_were_kept_or_are_in_the_table(show, saved, folder):
    pieces, table = saved[1]["pieces"], pd.read_csv(saved[0] / "half.csv")
    status, out, err = show("kept", "--by", "half", "--spread", "--json", "out.json", "--report", "out.html")
    assert (status, err) == (0, "")
    expected = pieces.by(table["half"])
    said = " ".join(out.split())
    assert all(" ".join(line.split()) in said for line in str(expected).splitlines())
    answers = numbers((folder / "out.json").read_text())[1]["answers"]
    assert answers["by half"] == expected.to_dict()
    assert answers["spread"] == pieces.spread().to_dict()
    report = (folder / "out.html").read_text()
    assert "<h3>By half</h3>" in report
    assert "<h3>Spread</h3>" in report
    words = ("--table", "half.csv", "--by", "site", "--by", "half")
    assert show("kept", *words, "--json", "out.json")[0] == 0
    answers = numbers((folder / "out.json").read_text())[1]["answers"]
    assert answers["by half"] == expected.to_dict()
    assert answers["by site"] == pieces.by(table["site"]).to_dict()
    assert show("kept", "--by", "half", "--checklist", "out.md", "--json", "out.json")[0] == 0
    written = pieces.checklist(expected)
    assert (folder / "out.md").read_text() == f"{written}\n"
    assert numbers((folder / "out.json").read_text())[1]["checklist"] == written.to_dict()["items"]
    words = ("--table", "half.csv", "--review-list", "l.csv", "--review-columns", "site", "--review-size", "10")
    assert show("pieces", *words)[0] == 0
    assert "site" in pd.read_csv("l.csv").columns


def test_an_audit_answers_by_subgroup_and_keeps_the_column(run, folder, frame):
    frame["sex"] = np.where(frame["patient"] % 2, "f", "m")
    frame.loc[:8, "sex"] = None
    frame["dose"] = np.arange(len(frame)) % 30 / 7
    frame.to_csv("records.csv", index=False)
    words = ("audit", "records.csv", "--target", "ill", "--groups", "patient", "--fits", "60", "--folds", "3")
    words += ("--drop", "sex", "--by", "sex", "--by", "dose", "--quantiles", "0.5", "--save", "a.audit")
    status, out, err = run(*words, "--json", "a.json", "--plot", "p.png", "--plot-of", "by")
    assert (status, err) == (0, "")
    _, data = numbers((folder / "a.json").read_text())
    assert [group["name"] for group in data["answers"]["by sex"]["groups"]] == ["f", "m", "missing"]
    assert len(data["answers"]["by dose"]["groups"]) == 2
    assert "by sex; the 95 % intervals hold together" in out
    assert data["about"]["features"] == "age, dose"
    (folder / "records.csv").unlink()
    assert run("show", "a.audit", "--by", "sex", "--json", "b.json")[0] == 0
    assert json.loads((folder / "b.json").read_text())["answers"]["by sex"] == data["answers"]["by sex"]


def test_auc_by_subgroup_is_asked_of_a_saved_audit_too(run, folder, frame):
    frame.assign(sex=np.where(frame["patient"] % 2, "f", "m")).to_csv("records.csv", index=False)
    words = ("audit", "records.csv", "--target", "ill", "--groups", "patient", "--fits", "36", "--folds", "3")
    words += ("--drop", "sex", "--scoring", "roc_auc", "--by", "sex", "--save", "a.audit")
    status, out, _ = run(*words)
    assert status == 0
    (answer,) = [line.strip() for line in out.splitlines() if line.startswith("  f (")]
    status, shown, err = run("show", "a.audit", "--by", "sex", "--report", "r.html")
    assert (status, err) == (0, "")
    assert answer in shown
    assert "<h3>By sex</h3>" in (folder / "r.html").read_text()
    assert ooc.Audit.load("a.audit").metric.label == "AUC"


def test_subgroups_are_refused_before_a_fit_and_lose_nothing_after_it(run, folder, frame, monkeypatch):
    frame.assign(one="x", few=["a"] * 3 + ["b"] * (len(frame) - 3)).to_csv("records.csv", index=False)
    words = ("audit", "records.csv", "--target", "ill", "--groups", "patient", "--fits", "60", "--folds", "3")
    words += ("--drop", "one", "--drop", "few")
    status, out, err = run(*words, "--by", "few", "--methods", "m.txt")
    assert status == 3
    assert "--by must give two or more subgroups" in err
    assert (folder / "m.txt").exists()
    assert "corrected" in out
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_: pytest.fail("a model was fitted"))
    for more, message in {
        ("--by", "one"): "--by must have at least two different values, got 'x' for all records.",
        ("--by", "nothing"): "--by must be a column of FILE, got 'nothing'",
        (
            *("--by", "age", "--scoring", "roc_auc"),
            *("--error-model", "records", "--leakage", "0.1"),
        ): "--by needs a loss that every record has, such as the error rate, where single records leak",
        ("--by", "age", "--quantiles", "2"): "--quantiles must be a share between 0 and 1",
    }.items():
        status, out, err = run(*words, *more)
        assert (status, out) == (2, "")
        assert message in err


# --- refusals -----------------------------------------------------------------------------------------

REFUSED = {
    "not kept": (("kept", "--by", "sex"), "--by must be a column that the audit kept (half), got 'sex'; --table gives"),
    "nothing kept": (("pieces", "--by", "sex"), "--by must be a column that the audit kept (none), got 'sex'"),
    "another table": (
        ("pieces", "--by", "a", "--table", "m.csv"),
        "--table must be the table that was audited, got 'm.csv'",
    ),
    "no column of it": (("pieces", "--by", "c", "--table", "half.csv"), "--by must name a column of the data"),
    "by a metric": (("records", "--by", "half", "--table", "half.csv"), "--table must be the table that was audited"),
    "no subgroups drawn": (
        ("pieces", "--plot", "x.png", "--plot-of", "by"),
        "--by must be given along with --plot-of by.",
    ),
    "too narrow a plan": (("pieces", "--plan-clusters", "1e-9"), "--plan-clusters must be at least"),
    "no plan": (("pieces", "--plan-review", "-1"), "--plan-review must be"),
    "a plan for records": (("records", "--plan-review", "0.1"), "--plan-review is for --error-model fragments"),
    "columns of no table": (
        ("pieces", "--review-list", "x.csv", "--review-columns", "site"),
        "--table must be given along with --review-columns.",
    ),
    "no file": (("nothing",), "AUDIT must be a file of an audit, got 'nothing.audit', which does not exist."),
    "cut short": (("cut",), "AUDIT must be a file of an audit, got 'cut.audit', which is not one or was cut short."),
    "other version": (("old",), "AUDIT must be a file of an audit of format"),
    "other kind": (("samples",), "AUDIT must be a file of an audit, got 'samples.audit', which is a file of"),
    "merged with a table": (("pieces", "--merge", "m.csv"), "--merge must be a file of an audit, got 'm.csv'"),
    "merged with another": (("pieces", "--merge", "both.audit"), ""),
    "rate above 1": (("pieces", "--leakage", "1.5"), "--leakage must be a share between 0 and 1"),
    "rate too large": (("records", "--leakage", "0.7"), "--leakage must be at most 0.5"),
    "no correction": (("pieces", "--leakage", "none"), "--leakage must be a rate for a saved audit, got 'none'"),
    "data of a rate": (("both", "--leakage", "data"), "--leakage must be a rate for a saved audit, got 'data'"),
    "error alone": (("pieces", "--leakage-std", "0.1"), "--leakage must be given along with --leakage-std."),
    "not scored": (
        ("records", "--validation-leakage", "0.1"),
        "--validation-leakage must be 0 for this audit, got 0.1",
    ),
    "confidence": (("pieces", "--confidence", "95"), "--confidence must lie between 0 and 1, got 95"),
    "units": (("pieces", "--units", "people"), "--units must be"),
    "curve of pieces": (
        ("pieces", "--curve", "PolynomialCurve(3)"),
        "--curve must be left out for --error-model fragments",
    ),
    "no curve": (("records", "--curve", "print(1)"), "--curve must be auto or one of AutoCurve, "),
    "its numbers": (("records", "--curve", "PolynomialCurve(depth=3)"), "--curve must have the parameters of"),
    "no expression": (("records", "--curve", "__import__('os').getcwd()"), "--curve must be auto or one of"),
    "fold": (("pieces", "--fold", "9"), "--fold must be one that was audited (0, 1, 2), got 9."),
    "metric": (("records", "--metric", "f1"), "--metric must be one that was audited (roc_auc, accuracy), got 'f1'."),
    "rates": (("pieces", "--rates", "0,much"), "--rates must be a number, got 'much'."),
    "rates too large": (("records", "--rates", "0.6"), "--rates must lie between 0 and 0.5, got 0.6."),
    "tipping": (("pieces", "--tipping", "nan"), "--tipping must be a finite number, got nan."),
    "nothing compared": (("both", "--suspects", "x.csv"), "--suspects needs an audit"),
    "no pieces": (("records", "--review-list", "x.csv"), ""),
    "too long a list": (("pieces", "--review-list", "x.csv", "--review-size", "999"), "--review-size must lie between"),
    "nothing below": (("pieces", "--plot", "x.png", "--plot-of", "below"), ""),
    "picture": (("pieces", "--plot", "x.txt"), "--plot must be a file that ends with .png, .svg, .pdf, got 'x.txt'."),
    "saved on the screen": (("pieces", "--save", "-"), "--save must be the path of a file, got '-'."),
    "over itself": (("pieces", "--save", "pieces.audit"), "--save must be another file than AUDIT"),
    "over the other": (
        ("records", "--merge", "more.audit", "--json", "more.audit"),
        "--json must be another file than",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_sentence_and_write_nothing(show, saved, folder, name):
    words, message = REFUSED[name]
    (folder / "cut.audit").write_bytes((folder / "pieces.audit").read_bytes()[:500])
    saved[1]["pieces"].samples.save(folder / "samples.audit")
    spoil_format(folder / "pieces.audit", folder / "old.audit")
    (folder / "m.csv").write_text("a,b\n1,2\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    status, out, err = show(*words, "--methods", "written.txt")
    assert (status, out) == (2, "")
    assert err.startswith(f"outofcluster: {message}")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def spoil_format(path, other):
    """Write the file of an audit as another version would."""
    from outofcluster._base import archive
    from outofcluster.auditing import result

    saved = archive.read_archive(path, result._KIND, result._FORMAT, tuple[result._SavedAudit, ...])
    archive.write_archive(other, result._KIND, result._FORMAT - 1, saved)

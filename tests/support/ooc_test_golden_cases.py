"""The golden cases: small audits and commands with fixed seeds, by name, each a function of no arguments.

A case gives what its golden file holds, as plain data. All of them together take less than a minute on one core.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

import outofcluster as ooc
from ooc_test_golden import (
    attempt,
    brief,
    loss_arrays,
    masked,
    pinned_array,
    pinned_audit,
    pinned_briefly,
    pinned_findings,
    plain,
)
from ooc_test_golden_data import hospitals, patients
from outofcluster.cli import main

FULL = {
    "records_plain",
    "records_below_two_metrics",
    "records_probabilities",
    "records_rate_from_data",
    "records_both_ways_below",
    "pieces_seen",
    "pieces_looked_up",
    "pieces_of_audited_entities",
}
"""Cases of which more is kept, and which are compared in full after they were written and read."""
BRIEF = {"records_workers", "records_resumed", "records_merged", "records_own_discriminator", "records_kernel"}
BRIEF |= {"pieces_resumed", "records_forest", "records_n_train_and_mute", "pieces_auc"}
BRIEF |= {"pieces_seen_at_a_rate", "records_probabilities_two_metrics"}
"""Cases that are about how losses are sampled, of which less is kept."""
CASES: dict[str, Callable[[], dict[str, Any]]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    """Enter a function in the table. The content of its file is what it gives, or what is kept of the audit."""

    def content() -> dict[str, Any]:
        result = function()
        if not isinstance(result, ooc.Audit):
            return result
        name = function.__name__
        return pinned_briefly(result) if name in BRIEF else pinned_audit(result, name in FULL)

    CASES[function.__name__] = content
    return function


def records(estimator: Any, *, target: str = "y", seed: int = 0, **options: Any) -> ooc.Audit:
    """An audit of hospitals, of which single records leak, with one split that holds some of them out."""
    data = hospitals(seed)
    settings = {"leakage": 0.1, "error_model": "records", "n_fits": 120, "cv": data.split, "kernel": False}
    settings |= {"random_state": 0, "unmix": False} | options
    return ooc.audit(estimator, data.X, getattr(data, target), groups=data.groups, **settings)


def pieces(estimator: Any, *, target: str = "label", **options: Any) -> ooc.Audit:
    """An audit of patients, of which whole pieces leak, with three folds."""
    data = patients()
    settings = {"leakage": 0.2, "error_model": "fragments", "n_fits": 60, "cv": 3, "random_state": 0, "unmix": False}
    return ooc.audit(estimator, data.X, getattr(data, target), groups=data.groups, **(settings | options))


BELOW = {"unmix": "auto", "n_fits": 240}

# --- single records leak ------------------------------------------------------------------------------


@case
def records_plain():
    return records(LinearRegression(), cv=3)


@case
def records_no_rate():
    return records(LinearRegression(), leakage=None)


@case
def records_r2():
    return records(Ridge(), scoring="r2")


@case
def records_weights():
    data = hospitals()
    return records(Ridge(), params={"sample_weight": data.weight}, score_weight=data.weight[::-1].copy())


@case
def records_kernel():
    return records(Ridge(), kernel=True, n_fits=600, unmix="auto")


@case
def records_below():
    return records(Ridge(), **BELOW)


@case
def records_below_auc():
    return records(GaussianNB(), target="label", scoring="roc_auc", **BELOW)


@case
def records_below_two_metrics():
    return records(GaussianNB(), target="label", scoring=["neg_brier_score", "roc_auc"], **BELOW)


@case
def records_own_discriminator():
    return records(LinearRegression(), cv=2, n_fits=340, unmix=LogisticRegression())


@case
def records_probabilities():
    return records(Ridge(), leakage=hospitals().probability, **BELOW)


@case
def records_probabilities_two_metrics():
    options = {"target": "label", "scoring": ["neg_brier_score", "roc_auc"]} | BELOW
    return records(GaussianNB(), leakage=hospitals().probability, **options)


@case
def records_rate_from_data():
    return records(Ridge(), leakage="data", **BELOW)


@case
def records_both_ways():
    return records(Ridge(), validation_leakage=0.08)


@case
def records_both_ways_below():
    return records(GaussianNB(), target="label", loss="brier", validation_leakage=0.08, unmix="auto", n_fits=300)


@case
def records_both_ways_accuracy():
    return records(GaussianNB(), target="label", scoring="accuracy", validation_leakage=0.08, leakage=0.0)


@case
def records_monotone():
    return records(Ridge(), curve=ooc.CompletelyMonotoneCurve(), n_fits=60)


@case
def other_curves():
    """Curves whose intervals need a resampling for every rate are solved once, or without an interval."""
    result = records(Ridge(), curve=ooc.PolynomialCurve(3))
    sketch, trend = result.with_curve(ooc.SketchCurve()), result.with_curve(ooc.TrendFilterCurve())
    return {
        "polynomial": {
            "repr": repr(result.curve_method),
            "str": masked(str(result)),
            "estimates": plain(brief(result)),
        },
        "sketch": {"repr": repr(sketch.curve_method), "estimates": plain(brief(sketch))},
        "trend filter": {"repr": repr(trend.curve_method), "values": [trend.value_at(rate) for rate in (0, 0.1, 0.2)]},
        "auto": plain(brief(result.with_curve("auto"))),
    }


@case
def records_rate_per_fold():
    rates = [ooc.Leakage(rate, std=0.03, of="train") for rate in (0.05, 0.1, 0.2)]
    return records(LinearRegression(), leakage=rates, cv=3, units="records", confidence_level=0.9)


@case
def records_n_train_and_mute():
    return records(KNeighborsRegressor(3), n_train=60, loss="absolute_error", mute=("exact-rate",))


@case
def records_forest():
    return records(RandomForestRegressor(n_estimators=3, max_depth=3), n_fits=60)


@case
def records_merged():
    return records(Ridge(), **BELOW).merge(records(Ridge(), **(BELOW | {"random_state": 1})))


@case
def records_workers():
    return records(LinearRegression(), n_jobs=2)


class Stopping(Ridge):
    """A model that is stopped by the user at a fit, and goes on when it is asked again."""

    left = -1

    def fit(self, X, y, sample_weight=None):
        Stopping.left -= 1
        if Stopping.left == 0:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


def resumed(audit: Callable[[Path], ooc.Audit], fits: int) -> ooc.Audit:
    """An audit that was stopped after so many fits, and done again from what it had kept."""
    with tempfile.TemporaryDirectory() as folder:
        Stopping.left = fits
        try:
            audit(Path(folder, "kept"))
        except KeyboardInterrupt:
            assert any(Path(folder).iterdir())
        else:
            raise AssertionError("The audit was to be stopped.")
        Stopping.left = -1
        return audit(Path(folder, "kept"))


@case
def records_resumed():
    return resumed(lambda place: records(Stopping(), checkpoint=place, **BELOW), 250)


# --- whole pieces leak ----------------------------------------------------------------------------------


@case
def pieces_plain():
    return pieces(KNeighborsClassifier(3), loss="brier")


@case
def pieces_auto():
    return pieces(DecisionTreeClassifier(max_depth=3), error_model="auto", leakage=None)


@case
def pieces_auc():
    return pieces(GaussianNB(), scoring="roc_auc")


@case
def pieces_two_metrics():
    return pieces(GaussianNB(), scoring=["neg_brier_score", "accuracy"], leakage="data", unmix="auto")


@case
def pieces_regressor():
    return pieces(KNeighborsRegressor(3), target="y")


@case
def pieces_weights():
    data = patients()
    weights = {"params": {"sample_weight": data.weight}, "score_weight": data.weight[::-1].copy()}
    return pieces(Ridge(), target="y", **weights)


@case
def pieces_seen():
    return pieces(KNeighborsClassifier(3), loss="brier", leakage="data", unmix="auto")


@case
def pieces_seen_at_a_rate():
    return pieces(KNeighborsClassifier(3), loss="brier", unmix="auto")


@case
def pieces_looked_up():
    data = patients()
    options = {"loss": "brier", "leakage": "data", "unmix": "auto"}
    reviewed = pieces(KNeighborsClassifier(3), **options).review_list(12, random_state=0)
    # Nobody got to the end of the list.
    answers = [_mates(data, int(cluster)) for cluster in reviewed["cluster"][:10]]
    reviewed = reviewed.assign(same_as=[*answers, None, None])
    return pieces(KNeighborsClassifier(3), reviewed=reviewed, reviewer_error=0.01, **options)


def _mates(data: Any, cluster: int) -> str:
    """The other clusters of the same patient, as somebody who looks it up writes them down."""
    patient = data.true[data.groups == cluster][0]
    others = np.unique(data.groups[data.true == patient])
    return "; ".join(str(other) for other in others if other != cluster) or "none"


@case
def pieces_of_audited_entities():
    data = patients()
    rate = ooc.Leakage.from_true_groups(data.true, data.groups, cv=3)
    return pieces(KNeighborsClassifier(3), loss="brier", leakage=rate, unmix="auto")


@case
def pieces_rate_per_fold():
    rates = [ooc.Leakage(rate, std=0.05, of="validation") for rate in (0.1, 0.2, 0.3)]
    return pieces(KNeighborsClassifier(3), leakage=rates)


@case
def pieces_resumed():
    return resumed(lambda place: pieces(Stopping(), target="y", checkpoint=place, unmix="auto", n_fits=180), 150)


# --- other calls ----------------------------------------------------------------------------------------


@case
def losses_alone():
    data = hospitals()
    train, held = data.split[0]
    samples = ooc.sample_losses(
        Ridge(),
        data.X,
        data.y,
        train=train,
        validation=held,
        injected=[-0.1, 0.0, 0.2, 0.5],
        n_fits=40,
        random_state=0,
        groups=data.groups,
        kernel=False,
    )
    return {
        "samples": {f"main/{name}": pinned_array(array) for name, array in loss_arrays(samples)},
        "frame": plain(samples.to_frame()),
        "means": plain(samples.means),
        "standard_errors": plain(samples.standard_errors),
    }


@case
def comparison():
    data = hospitals()
    models = {"linear": LinearRegression(), "near": KNeighborsRegressor(5)}
    options = {"leakage": 0.1, "error_model": "records", "n_fits": 120, "cv": data.split, "unmix": False}
    found = ooc.compare(models, data.X, data.y, groups=data.groups, random_state=0, kernel=False, **options)
    return {
        "texts": {"str": masked(str(found)), "difference": masked(str(found.difference("linear", "near")))},
        "summary": plain(found.to_dict()),
        "frame": plain(found.to_frame()),
        "tipping_point": attempt(lambda: found.tipping_point("linear", "near").rate),
        "rankings": [list(found.naive_ranking), list(found.ranking), found.chance_of_change],
        "findings": {name: pinned_findings(own) for name, own in found.findings.items()},
    }


@case
def sweep_of_thresholds():
    data = patients()
    tight = np.where(np.arange(len(data.true)) % 5 == 0, 1000 + np.arange(len(data.true)), data.true)
    options = {"leakage": {0.5: 0.05, 0.9: 0.2}, "error_model": "fragments", "n_fits": 60, "cv": 3, "unmix": False}
    clusters = {0.5: data.true, 0.9: tight}
    found = ooc.sweep(KNeighborsClassifier(3), data.X, data.label, clusters, loss="brier", random_state=0, **options)
    return {
        "texts": {"str": masked(str(found)), "advice": masked(found.advice)},
        "summary": plain(found.to_dict()),
        "frame": plain(found.to_frame()),
        "findings": {str(threshold): pinned_findings(own) for threshold, own in found.findings.items()},
    }


@case
def test_for_an_effect():
    data = patients()
    content = {}
    for method in ("paired", "welch"):
        options = {"groups": data.groups, "cv": 3, "method": method, "random_state": 0}
        found = ooc.leakage_test(KNeighborsClassifier(3), data.X, data.label, loss="brier", **options)
        content[method] = {
            "str": masked(str(found)),
            "sentence": masked(found.sentence),
            "summary": plain(found.to_dict()),
            "frame": plain(found.to_frame()),
        }
    return content


@case
def cross_validated():
    data = patients()
    options = {"groups": data.groups, "leakage": 0.2, "error_model": "fragments", "cv": 3, "n_fits": 60}
    scoring = ["accuracy", "roc_auc"]
    one = ooc.corrected_cross_validate(GaussianNB(), data.X, data.label, **options, random_state=0)
    two = ooc.corrected_cross_validate(GaussianNB(), data.X, data.label, **options, scoring=scoring, random_state=0)
    return {
        name: {key: brief_of(value) for key, value in scores.items() if not key.endswith("_time")}
        for name, scores in (("own score", one), ("two scores", two))
    }


def brief_of(value: Any) -> Any:
    return plain(brief(value) if isinstance(value, ooc.Audit) else value)


@case
def rates():
    data, large = patients(), hospitals()
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, len(data.groups), (2, 200))
    different = data.groups[left] != data.groups[right]
    left, right = left[different], right[different]
    probability = rng.uniform(0, 0.3, len(left))
    counts = {"n_links": 5000, "n_records": 4000, "validation_share": 0.2, "recall_std": 0.02}
    drawn = np.arange(len(data.true)) % 4 == 0
    made = {
        "given": lambda: ooc.Leakage(0.1, std=0.02, of="train"),
        "true groups": lambda: ooc.Leakage.from_true_groups(data.true, data.groups),
        "true groups of records": lambda: ooc.Leakage.from_true_groups(
            data.true, data.groups, drawn="records", sampled=drawn, of="train"
        ),
        "pairs": lambda: ooc.Leakage.from_pair_probabilities(left, right, probability, groups=data.groups, cv=3),
        "pairs of all": lambda: ooc.Leakage.from_pair_probabilities(
            left, right, probability, groups=data.groups, blocking_recall=1, of="train"
        ),
        "precision and recall": lambda: ooc.Leakage.from_precision_recall(0.95, 0.9, **counts),
        "precision, recall and groups": lambda: ooc.Leakage.from_precision_recall(
            0.95, 0.9, groups=data.groups, validation_share=0.2, of="train"
        ),
        "data": lambda: ooc.Leakage.from_data(
            large.X, large.y, groups=large.groups, cv=large.split, error_model="records", random_state=0
        ),
        "data of fragments": lambda: ooc.Leakage.from_data(data.X, data.y, groups=data.groups, random_state=0),
        "a rate above one": lambda: ooc.Leakage(1.5),
    }

    def pinned(rate: ooc.Leakage) -> dict[str, Any]:
        return {
            "str": str(rate),
            "repr": repr(rate),
            "dict": rate.to_dict(),
            "frame": rate.to_frame(),
            "interval": attempt(rate.interval),
            "upper": rate.upper,
            "read": ooc.Leakage.from_dict(rate.to_dict()) == rate,
        }

    return {name: attempt(lambda make=make: pinned(make())) for name, make in made.items()}


# --- the command line -----------------------------------------------------------------------------------

PLAIN = ("--target", "ill", "--groups", "patient", "--folds", "3")
FEW = (*PLAIN, "--drop", "score", "--drop", "person", "--drop", "tight", "--leakage", "0.1")
SWEPT = ("--target", "ill", "--groups", "0.9=tight", "--groups", "0.5=patient", "--drop", "person", "--drop", "score")
WARDS = ("--target", "y", "--groups", "ward", "--folds", "2", "--error-model", "records")
PRECISE = ("--precision", "1", "--recall", "0.9", "--recall-std", "0.02")
COMMANDS = {
    "command_help": [
        ("--help",),
        *((name, "--help") for name in ("demo", "test", "audit", "show", "sweep", "leakage", "reproduce")),
        *(("leakage", name, "--help") for name in ("audited", "pairs", "precision-recall")),
    ],
    "command_audit": [
        ("audit", "visits.csv", *FEW, "--fits", "60", "--explain", "--json", "-"),
        ("audit", "visits.csv", *FEW, "--fits", "60", "--scoring", "roc_auc,accuracy", "--fail-on", "warning"),
        ("audit", "visits.csv", *PLAIN, "--fits", "200", "--leakage", "5%", "--leakage-std", "0.01", "--suspects", "s"),
    ],
    "command_audit_records": [
        (
            "audit",
            "wards.csv",
            *WARDS,
            "--leakage",
            "data",
            "--fits",
            "320",
            "--suspects",
            "s.csv",
            "--json",
            "out.json",
        ),
    ],
    "command_test": [
        ("test", "visits.csv", *PLAIN, "--drop", "score"),
        ("test", "visits.csv", *PLAIN, "--json", "-", "--alpha", "0.01", "--fail-on-effect"),
    ],
    "command_sweep": [
        ("sweep", "visits.csv", *SWEPT, "--leakage", "0.1", "--fits", "36", "--folds", "3", "--no-unmix")
    ],
    "command_leakage": [
        ("leakage", "audited", "visits.csv", "--true", "person", "--groups", "patient", "--json", "-"),
        ("leakage", "audited", "visits.csv", "--true", "person", "--groups", "patient", "--drawn", "records"),
        ("leakage", "pairs", "pairs.csv", "visits.csv", "--groups", "patient", "--json", "out.json"),
        ("leakage", "precision-recall", "--precision", "0.95", "--recall", "0.9", "--links", "900", "--records", "300"),
        ("leakage", "precision-recall", *PRECISE, "--file", "visits.csv", "--groups", "patient"),
    ],
    "command_refusals": [
        ("audit", "nothing.csv", *PLAIN),
        ("audit", "visits.csv", "--target", "il", "--groups", "patient"),
        ("audit", "visits.csv", *PLAIN, "--leakage", "1.5"),
        ("audit", "visits.csv", *PLAIN, "--leakage", "0.1", "--fits", "3"),
        ("audit", "visits.csv", *PLAIN, "--loss", "squared_eror"),
        ("audit", "visits.csv", *PLAIN, "--leakage", "data", "--error-model", "fragments"),
        ("audit", "visits.csv", *PLAIN, "--no-such-option"),
        ("test", "visits.csv", *PLAIN, "--alpha", "2"),
        ("leakage", "audited", "visits.csv", "--true", "person", "--groups", "patients"),
        ("sweep", "visits.csv", "--target", "ill", "--groups", "tight"),
        ("show",),
    ],
}


def write_tables() -> None:
    """Write the tables that the commands read into the folder."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(40), 5)
    u = rng.standard_normal((40, 2))
    columns = {
        "age": u[person, 0] + 0.3 * rng.standard_normal(200),
        "dose": rng.standard_normal(200),
        "person": person,
        "patient": np.where(rng.random(200) < 0.1, 100 + person, person),
        "ill": np.where(u[person, 0] + u[person, 1] > 0, "yes", "no"),
        "score": u[person, 0] + rng.standard_normal(200),
    }
    columns["tight"] = np.where(rng.random(200) < 0.2, 1000 + np.arange(200), columns["patient"])
    write_csv("visits.csv", columns)
    left, right = rng.integers(0, 200, (2, 60))
    write_csv("pairs.csv", {"left": left, "right": right, "probability": rng.uniform(0, 0.4, 60).round(3)})
    data = hospitals(size=40)
    write_csv("wards.csv", {**{f"x{i}": column for i, column in enumerate(data.X.T)}, "ward": data.groups, "y": data.y})


def write_csv(path: str, columns: dict[str, np.ndarray]) -> None:
    lines = [",".join(map(str, row)) for row in zip(*(column.tolist() for column in columns.values()), strict=True)]
    Path(path).write_text("\n".join([",".join(columns), *lines, ""]), encoding="utf-8")


@contextmanager
def folder_of_tables():
    """A folder with the tables for the length of a case, and a screen of 80 columns without colours."""
    before = os.getcwd()
    screen = {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1", "TERM": "dumb"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with mock.patch.dict(os.environ, screen | {"XDG_CACHE_HOME": str(Path(folder, "cache"))}):
                write_tables()
                yield
        finally:
            os.chdir(before)


def run(words: tuple[str, ...]) -> dict[str, Any]:
    """Run a command; gives its exit status, what it says, and what it writes."""
    out, err = io.StringIO(), io.StringIO()
    before = {path.name for path in Path().iterdir()}
    status = 0
    with redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "argv", ["outofcluster", *words]):
        try:
            main()
        except SystemExit as left:
            status = left.code or 0
    content: dict[str, Any] = {"status": status, "err": masked(err.getvalue())}
    try:
        content["out"] = plain(json.loads(out.getvalue()))
    except ValueError:
        content["out"] = masked(out.getvalue())
    for path in sorted(Path().iterdir()):
        if path.name not in before and path.is_file():
            written = path.read_text(encoding="utf-8")
            content[path.name] = plain(json.loads(written)) if path.suffix == ".json" else plain(written.splitlines())
            path.unlink()
    return content


def transcripts(commands: list[tuple[str, ...]]) -> Callable[[], dict[str, Any]]:
    def content() -> dict[str, Any]:
        with folder_of_tables():
            return {" ".join(words): run(words) for words in commands}

    return content


CASES |= {name: transcripts(commands) for name, commands in COMMANDS.items()}

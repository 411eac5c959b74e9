"""The reproduction on small simulated data: both protocols, resuming, files, bad input."""

import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import outofcluster.reproduction.run as running
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.datasets import Bunch
from outofcluster.reproduction import records, reproduce, store
from outofcluster.reproduction.parameters import STUDIES, Effort

TINY = Effort(
    trials=2,
    fits=50,
    default_fits=400,
    truth_fits=3000,
    curve_fits=30,
    iid_splits=1,
    draws=3,
    field_fits=400,
    field_truth_fits=2000,
    tests=2,
    check_fits=0,
)
HEART = replace(
    STUDIES["heart"], n=30, levels=8, groups=4, degree=2, trend_penalty=1.0, quick=TINY, full=replace(TINY, fits=60)
)


def hospitals(seed=0):
    """Two hospitals that train and one that is held out, whose slopes differ."""
    rng = np.random.default_rng(seed)
    hospital = np.repeat(["A", "B", "C"], [120, 120, 150])
    X = rng.standard_normal((390, 3))
    slopes = np.array([[2.0, 0.0, 0.5], [1.5, 0.5, 0.0], [0.7, 2.0, 0.0]])[np.searchsorted(["A", "B", "C"], hospital)]
    return Bunch(
        data=X,
        target=((X * slopes).sum(axis=1) + 0.5 * rng.standard_normal(390) > 0).astype(int),
        groups=hospital,
        train_groups=("A", "B"),
        validation_groups=("C",),
        feature_names=("a", "b", "c"),
        target_names=("healthy", "ill"),
        licence="none",
        DESCR="simulated",
    )


def fake_load(name, data_home, **options):
    return hospitals()


@pytest.fixture
def small(monkeypatch):
    """The heart study on simulated records."""
    monkeypatch.setitem(STUDIES, "heart", HEART)
    monkeypatch.setattr(running, "load", fake_load)


@pytest.fixture
def undrawn(small, monkeypatch):
    """The same, without figures."""
    monkeypatch.setattr(running, "write_study", lambda folder, study: None)


@pytest.fixture
def fits(monkeypatch):
    """Counts the fits that are asked for."""
    counted = []
    original = records.prepare

    def prepare(*args, **options):
        counted.append(options["n_fits"])
        return original(*args, **options)

    monkeypatch.setattr(records, "prepare", prepare)
    return counted


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One run by the command line, with all its files: exit status, folder."""
    folder = tmp_path_factory.mktemp("run") / "deep" / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "heart", replace(HEART, quick=replace(TINY, check_fits=10)))
        patch.setattr(running, "load", fake_load)
        status = command(patch, "heart", "--quick", "--out", str(folder), "--jobs", "1")
    return status, folder


def command(patch, *words):
    """The exit status of ``outofcluster reproduce``, run in this process."""
    from outofcluster.cli import main

    patch.setattr(sys, "argv", ["outofcluster", "reproduce", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def timeless(results):
    return {key: value for key, value in results["studies"]["heart"].items() if key != "seconds"}


# --- protocols ----------------------------------------------------------------------------------------


def mean_loss(replacing, fits=150):
    """Loss of models trained on the clean hospitals, the plain way: mean and standard error."""
    bunch, rng, losses = hospitals(), np.random.default_rng(1), []
    T, V = bunch.train_rows, bunch.validation_rows
    for _ in range(fits):
        rows = rng.choice(T, HEART.n, replace=replacing)
        model = make_pipeline(StandardScaler(), LinearSVC(C=1)).fit(bunch.data[rows], bunch.target[rows])
        losses.append(1 - model.score(bunch.data[V], bunch.target[V]))
    return np.mean(losses), np.std(losses) / np.sqrt(fits)


def test_the_truth_of_either_protocol_is_that_of_a_plain_loop(done):
    protocols = json.loads((done[1] / "heart" / "results.json").read_text())["protocols"]
    for protocol, replacing in (("paper", False), ("field", True)):
        loss, error = mean_loss(replacing)
        assert protocols[protocol]["e0"] == pytest.approx(loss, abs=4 * error + 0.002), protocol


def test_protocols_are_kept_apart(done):
    study = json.loads((done[1] / "heart" / "results.json").read_text())
    paper, field = study["protocols"]["paper"], study["protocols"]["field"]
    assert [len(p["methods"]["naive"]["errors"]) for p in (paper, field)] == [2, 3]
    assert paper["fits_a_trial"] == {"paper": 400, "default": 400}
    assert field["fits_a_draw"] == {"paper": 400, "default": 400}
    # The oracle pools hold all records of the held-out hospital; a user has lost some of them to T̂.
    assert study["records"] == {"train": 240, "validation": 150}
    assert field["records"]["train"] + field["records"]["validation"] == 390
    assert field["records"]["train"] > 250
    assert 0.03 < field["realised_rate"]["mean"] < 0.2
    assert paper["observed"]["p"] == pytest.approx(np.linspace(0.1, 1, 8))
    assert field["observed"]["p"] == pytest.approx(np.linspace(0.1, 1, 8))
    assert set(paper["methods"]) == {"iid", "naive", "trend", "sketch", "basis", "default", "sketch_code"}
    assert set(paper["methods"]) == set(field["methods"])


def test_naive_is_optimistic_and_iid_more_so(done):
    paper = json.loads((done[1] / "heart" / "results.json").read_text())["protocols"]["paper"]
    naive, iid = paper["methods"]["naive"]["median_error"], paper["methods"]["iid"]["median_error"]
    assert iid < naive < 0
    assert paper["naive_bias"] == pytest.approx(-np.mean(paper["methods"]["naive"]["errors"]))
    assert paper["truth"]["loss"][0] > paper["truth"]["loss"][-1] + 5 * paper["fall_standard_error"]
    assert paper["true_shape"]["p"][0] == 0
    assert paper["true_shape"]["decreasing"]["exceeds_noise"] is False


def test_errors_are_estimates_less_the_truth(done):
    study = json.loads((done[1] / "heart" / "results.json").read_text())
    for protocol in study["protocols"].values():
        for method in protocol["methods"].values():
            errors = np.array(method["errors"])
            assert np.allclose(np.array(method["estimates"]) - errors, protocol["e0"])
            assert method["median_absolute_error"] == pytest.approx(np.median(np.abs(errors)))
            assert method["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))
        assert protocol["methods"]["naive"]["rmse_over_naive"] == 1


def test_the_same_seed_gives_the_same_bits_for_any_number_of_workers(undrawn, tmp_path):
    one = reproduce("heart", out=tmp_path / "1", quick=True, n_jobs=1)
    two = reproduce(["heart"], out=tmp_path / "2", quick=True, n_jobs=2)
    assert timeless(one.results) == timeless(two.results)
    other = reproduce("heart", out=tmp_path / "3", quick=True, random_state=1)
    assert timeless(one.results)["protocols"]["paper"]["e0"] != timeless(other.results)["protocols"]["paper"]["e0"]


# --- resuming -----------------------------------------------------------------------------------------


def test_a_second_run_fits_nothing(undrawn, fits, tmp_path):
    first = reproduce("heart", out=tmp_path, quick=True)
    assert sum(fits) > 5000
    fits.clear()
    again = reproduce("heart", out=tmp_path, quick=True)
    assert fits == []
    assert again.results == first.results


def test_only_what_changed_is_run_again(undrawn, fits, tmp_path, monkeypatch):
    reproduce("heart", out=tmp_path, quick=True)
    fits.clear()
    monkeypatch.setitem(STUDIES, "heart", replace(HEART, quick=replace(TINY, default_fits=480)))
    reproduce("heart", out=tmp_path, quick=True)
    assert fits == [480, 480]
    fits.clear()
    monkeypatch.setitem(STUDIES, "heart", replace(HEART, quick=replace(TINY, trials=3), degree=3))
    reproduce("heart", out=tmp_path, quick=True)
    assert fits == [400, 300, 400]  # the third trial: its levels, its random split, the default's levels
    fits.clear()
    monkeypatch.setattr(running, "load", lambda name, home: hospitals(seed=5))
    reproduce("heart", out=tmp_path, quick=True)
    assert len(fits) > 10


def test_a_damaged_part_is_made_again(undrawn, fits, tmp_path):
    first = reproduce("heart", out=tmp_path, quick=True)
    (part,) = (tmp_path / "heart" / "parts").glob("field-001-*.json")
    part.write_text(part.read_text()[:-30])
    fits.clear()
    assert timeless(reproduce("heart", out=tmp_path, quick=True).results) == timeless(first.results)
    assert len(fits) == 2


def test_a_run_that_was_stopped_goes_on_from_its_checkpoint(undrawn, tmp_path, monkeypatch):
    from outofcluster.sampling import engine

    whole = reproduce("heart", out=tmp_path / "whole", quick=True)
    blocks = []
    original = engine.run_blocks
    monkeypatch.setattr(
        engine, "run_blocks", lambda problem, given: (blocks.extend(given), original(problem, given))[1]
    )
    monkeypatch.setattr(records, "_KEEP_FROM", 1)
    with monkeypatch.context() as patch:
        patch.setattr(records.Means, "of", stop)
        with pytest.raises(KeyboardInterrupt):
            reproduce("heart", out=tmp_path / "cut", quick=True)
    assert len(list((tmp_path / "cut" / "heart" / "parts").glob("*.checkpoint"))) == 1
    before = sum(block.count for block in blocks)
    assert before >= TINY.truth_fits
    blocks.clear()
    resumed = reproduce("heart", out=tmp_path / "cut", quick=True)
    everything = sum(block.count for block in blocks)
    assert timeless(resumed.results) == timeless(whole.results)
    # What the checkpoint held was not fitted again.
    assert everything < sum(fit_counts(tmp_path / "cut")) + 10_000 - before
    assert not list((tmp_path / "cut").rglob("*.checkpoint"))


def stop(samples):
    raise KeyboardInterrupt


def fit_counts(folder):
    """Fits that the stored parts hold."""
    for part in (folder / "heart" / "parts").glob("paper-*.json"):
        result = json.loads(part.read_text())["result"]
        for run in result if isinstance(result, list) else [result["losses"]]:
            yield sum(run["n_fits"])


# --- files --------------------------------------------------------------------------------------------


def test_the_command_ends_well_and_writes_every_kind_of_file(done):
    status, folder = done
    assert status == 0
    written = {path.name for path in (folder / "heart").iterdir() if path.is_file()}
    figures = {f"{name}.{kind}" for name in ("errors", "curves", "shape") for kind in ("png", "svg")}
    assert written == figures | {"estimates.csv", "summary.csv", "curves.csv", "shape.csv", "test.csv", "results.json"}
    assert {path.name for path in folder.iterdir()} == {"heart", "results.json", "claims.csv"}
    for path in folder.rglob("*"):
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
            assert 20_000 < path.stat().st_size < 400_000
        if path.suffix == ".svg":
            assert ET.parse(path).getroot().tag.endswith("svg")


def test_figures_name_their_axes_units_counts_and_the_truth(done):
    text = {name: (done[1] / "heart" / f"{name}.svg").read_text() for name in ("errors", "curves", "shape")}
    for words in ("Paper protocol", "Field protocol", "share of records misclassified", "true value", "2 trials"):
        assert words in text["errors"], words
    for words in ("paper protocol", "true loss", "share of training records", "share of records misclassified"):
        assert words in text["curves"], words
    for words in ("Paper protocol, 800 fits", "Field protocol", "decreasing", "convex"):
        assert words in text["shape"], words


def test_tables_are_tidy_and_agree_with_the_json(done):
    folder = done[1] / "heart"
    study = json.loads((folder / "results.json").read_text())
    with open(folder / "estimates.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7 * (2 + 3)
    assert list(rows[0]) == ["study", "protocol", "replicate", "method", "estimate", "truth", "error"]
    one = next(r for r in rows if (r["protocol"], r["method"], r["replicate"]) == ("field", "basis", "2"))
    assert float(one["error"]) == study["protocols"]["field"]["methods"]["basis"]["errors"][2]
    with open(folder / "curves.csv", newline="") as file:
        kinds = {(row["protocol"], row["kind"]) for row in csv.DictReader(file)}
    assert {("paper", "true"), ("paper", "observed"), ("paper", "trend"), ("field", "observed")} <= kinds


def test_the_json_says_what_it_was_made_with(done):
    study = json.loads((done[1] / "heart" / "results.json").read_text(), parse_constant=pytest.fail)
    assert study["seed"] == 0
    assert study["quick"] is True
    assert {"python", "outofcluster", "numpy", "scikit-learn", "numba"} <= set(study["versions"])
    assert "soft-margin" in study["learner"]
    assert study["parameters"]["effort"]["fits"] == 50
    assert study["test"]["deals"] == 2
    assert len(study["checks"]) == 1
    overall = json.loads((done[1] / "results.json").read_text())
    assert overall["studies"]["heart"] == study
    assert overall["timing"] is None


def test_progress_and_summary_are_said(small, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(running, "write_study", lambda folder, study: None)
    assert command(monkeypatch, "heart", "--quick", "--out", str(tmp_path), "--jobs", "1") == 0
    told = capfd.readouterr()
    assert "true curve at 12 levels" in told.err
    assert "\x1b" not in told.err
    for words in ("T4+mono", "paper, 2 trials", "field, 3 draws", "Claims of the paper"):
        assert words in told.out
    assert command(monkeypatch, "heart", "--quick", "--out", str(tmp_path), "--json") == 0
    told = capfd.readouterr()
    assert "finished parts found" in told.err
    assert json.loads(told.out)["studies"]["heart"]["name"] == "heart"


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"names": "hart"}, "names must hold heart, census, .* or all, got 'hart'"),
        ({"names": []}, "got none"),
        ({"quick": "yes"}, "quick must be True or False"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(small, tmp_path, options, words):
    out = tmp_path / "out"
    with pytest.raises(InputError, match=words):
        reproduce(**{"names": "heart", "out": out} | options)
    assert not out.exists()


def test_data_that_are_not_there_leave_nothing_behind(tmp_path, monkeypatch, capfd):
    out = tmp_path / "a" / "b"
    assert command(monkeypatch, "heart", "--data", str(tmp_path / "none"), "--out", str(out)) == 2
    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert "heart/processed.cleveland.data" in told
    assert not (tmp_path / "a").exists()


def test_an_altered_file_is_named_with_its_checksum(tmp_path, monkeypatch, capfd):
    (tmp_path / "heart").mkdir()
    for name in ("cleveland", "hungarian", "switzerland", "va"):
        (tmp_path / "heart" / f"processed.{name}.data").write_text("63,1,1,145,233,1,2,150,0,2.3,3,0,6,0\n")
    assert command(monkeypatch, "heart", "--data", str(tmp_path), "--out", str(tmp_path / "out")) == 2
    told = capfd.readouterr().err
    assert "sha256" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_folder_that_cannot_be_written(small, fits, tmp_path, monkeypatch, capfd, below):
    (tmp_path / "file").write_text("kept")
    assert command(monkeypatch, "heart", "--quick", "--out", str(tmp_path / "file" / below)) == 2
    assert "must be a folder that can be written" in capfd.readouterr().err
    assert fits == []
    assert (tmp_path / "file").read_text() == "kept"


def test_an_unknown_name_on_the_command_line(tmp_path, monkeypatch, capfd):
    assert command(monkeypatch, "hart", "--out", str(tmp_path / "out")) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fails_leaves_no_half_file(tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError(28, "No space left on device")

    store.write_whole(tmp_path / "kept.txt", b"old")
    monkeypatch.setattr(store.os, "replace", fail)
    with pytest.raises(InputError, match="No space left on device"):
        store.write_whole(tmp_path / "kept.txt", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
    assert (tmp_path / "kept.txt").read_bytes() == b"old"


def test_without_matplotlib_the_extra_is_named(small, fits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"outofcluster\[plot\]"):
        reproduce("heart", out=tmp_path / "out", quick=True)
    assert fits == []
    assert not (tmp_path / "out").exists()


def test_importing_is_light():
    heavy = {"sklearn", "numba", "matplotlib", "cvxpy"}
    code = f"import sys, outofcluster.reproduction; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

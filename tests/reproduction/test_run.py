"""The reproduction on small simulated data: both protocols, resuming, files, bad input."""

import csv
import json
import shutil
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import outofcluster as ooc
import outofcluster.reproduction.run as running
from outofcluster.datasets import Bunch
from outofcluster.reproduction import figures, outputs, parts, reproduce
from outofcluster.reproduction.studies import STUDIES, Effort

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
    check_fits=10,
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


def simulate(patch):
    """Put the simulated records in the place of the heart data."""
    patch.setitem(STUDIES, "heart", HEART)
    patch.setattr(running, "load", lambda name, data_home: hospitals())


@pytest.fixture
def small(monkeypatch):
    """The heart study on simulated records."""
    simulate(monkeypatch)


@pytest.fixture
def undrawn(small, monkeypatch):
    """The same, without figures."""
    monkeypatch.setattr(outputs, "rendered", lambda figure: {})


@pytest.fixture
def fits(monkeypatch):
    """Counts the fits that are asked for."""
    counted = []
    original = ooc.sample_losses

    def sample_losses(*args, n_fits, **options):
        counted.append(n_fits)
        return original(*args, n_fits=n_fits, **options)

    monkeypatch.setattr(ooc, "sample_losses", sample_losses)
    return counted


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of one run by the command line, with all its files but the figures."""
    folder = tmp_path_factory.mktemp("run") / "deep" / "out"
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch)
        patch.setattr(outputs, "rendered", lambda figure: {})
        assert command(patch, "heart", "--quick", "--out", str(folder), "--jobs", "1") == 0
    return folder


@pytest.fixture(scope="module")
def study(done):
    """The results of that run."""
    return json.loads((done / "heart" / "results.json").read_text(), parse_constant=pytest.fail)


@pytest.fixture
def copied(done, tmp_path):
    """A copy of its folder, to go on with."""
    return shutil.copytree(done, tmp_path / "copy")


def command(patch, *words):
    """The exit status of ``outofcluster reproduce``, run in this process."""
    from outofcluster.cli import main

    patch.setattr(sys, "argv", ["outofcluster", "reproduce", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def heart(out, **options):
    return reproduce("heart", out=out, quick=True, **options).results["studies"]["heart"]


# --- protocols ----------------------------------------------------------------------------------------


def mean_loss(replacing, fits=100):
    """Loss of models trained on the clean hospitals, the plain way: mean and standard error."""
    bunch, rng, losses = hospitals(), np.random.default_rng(1), []
    T, V = bunch.train_rows, bunch.validation_rows
    for _ in range(fits):
        rows = rng.choice(T, HEART.n, replace=replacing)
        model = make_pipeline(StandardScaler(), LinearSVC(C=1)).fit(bunch.data[rows], bunch.target[rows])
        losses.append(1 - model.score(bunch.data[V], bunch.target[V]))
    return np.mean(losses), np.std(losses) / np.sqrt(fits)


def test_the_truth_of_either_protocol_is_that_of_a_plain_loop(study):
    for protocol, replacing in (("paper", False), ("field", True)):
        loss, error = mean_loss(replacing)
        assert study["protocols"][protocol]["e0"] == pytest.approx(loss, abs=4 * error + 0.002), protocol


def test_protocols_are_kept_apart(study):
    paper, field = study["protocols"]["paper"], study["protocols"]["field"]
    assert [len(p["methods"]["naive"]["errors"]) for p in (paper, field)] == [2, 3]
    assert paper["fits_a_trial"] == {"paper": 400, "default": 400}
    assert field["fits_a_draw"] == {"paper": 400, "default": 400, "unmixed": 96}
    # The oracle pools hold all records of the held-out hospital; a user has lost some of them to T̂.
    assert study["records"] == {"train": 240, "validation": 150}
    assert field["records"]["train"] + field["records"]["validation"] == 390
    assert field["records"]["train"] > 250
    assert 0.03 < field["realised_rate"]["mean"] < 0.2
    for protocol in (paper, field):
        assert protocol["observed"]["p"] == pytest.approx(np.linspace(0.1, 1, 8))
        assert set(protocol["methods"]) == {"iid", "naive", "trend", "sketch", "basis", "default", "sketch_code"}


def test_the_default_spends_a_quarter_of_its_fits_below_p0(done):
    files = sorted((done / "heart" / "parts").glob("field-*-below-*.samples"))
    assert len(files) == TINY.draws
    for file in files:
        below = ooc.LossSamples.load(file)
        assert len(below.injected) == 8
        assert (below.injected < 0).all()
        # Each of three parts of V̂ is scored by as many fits of a level, so that 100 fits become 96.
        assert (below.strata == 3).all()
        assert below.n_fits == 96
        assert (np.diff(below.kept) > 0).all()


def test_naive_is_optimistic_and_iid_more_so(study):
    paper = study["protocols"]["paper"]
    naive, iid = paper["methods"]["naive"]["median_error"], paper["methods"]["iid"]["median_error"]
    assert iid < naive < 0
    assert paper["naive_bias"] == pytest.approx(-np.mean(paper["methods"]["naive"]["errors"]))
    assert paper["truth"]["loss"][0] > paper["truth"]["loss"][-1] + 5 * paper["fall_standard_error"]
    assert paper["true_shape"]["p"][0] == 0
    assert paper["true_shape"]["decreasing"]["exceeds_noise"] is False


def test_errors_are_estimates_less_the_truth(study):
    for protocol in study["protocols"].values():
        for method in protocol["methods"].values():
            errors = np.array(method["errors"])
            assert np.allclose(np.array(method["estimates"]) - errors, protocol["e0"])
            assert method["median_absolute_error"] == pytest.approx(np.median(np.abs(errors)))
            assert method["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))
        assert protocol["methods"]["naive"]["rmse_over_naive"] == 1


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_for_any_number_of_workers(undrawn, fits, study, copied, tmp_path):
    for pattern in ("truth-*", "paper-00-*", "field-002-*", "field-truth-*"):
        for part in (copied / "heart" / "parts").glob(pattern):
            part.unlink()
    assert heart(copied, n_jobs=2) == study
    assert sum(fits) > 6000
    other = heart(tmp_path / "other", random_state=1)
    assert other["protocols"]["paper"]["e0"] != study["protocols"]["paper"]["e0"]


# --- resuming -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_run_fits_nothing_and_only_what_changed_is_run_again(undrawn, fits, study, copied, monkeypatch):
    assert heart(copied) == study
    assert fits == []
    monkeypatch.setitem(STUDIES, "heart", replace(HEART, quick=replace(TINY, default_fits=480)))
    heart(copied)
    assert sum(fits) == 2 * 480
    fits.clear()
    monkeypatch.setitem(STUDIES, "heart", replace(HEART, quick=replace(TINY, trials=3), degree=3))
    heart(copied)
    assert sum(fits) == 400 + 300 + 400  # the third trial: its levels, its random split, the default's levels
    fits.clear()
    monkeypatch.setattr(running, "load", lambda name, data_home: hospitals(seed=5))
    heart(copied)
    assert len(fits) > 10


def test_damaged_parts_are_made_again(undrawn, fits, study, copied):
    for pattern in ("field-000-below-*.samples", "field-001-default-*.samples", "test-*.json"):
        for part in (copied / "heart" / "parts").glob(pattern):
            part.write_bytes(part.read_bytes()[:-30])
    assert heart(copied) == study
    assert fits == [100, 304]


def test_a_run_that_was_stopped_goes_on_from_its_checkpoint(undrawn, study, copied, monkeypatch):
    for part in (copied / "heart" / "parts").glob("truth-*"):
        part.unlink()

    def stop(samples, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, "_CHECKPOINT_FROM", 1)
    with monkeypatch.context() as patch:
        patch.setattr(ooc.LossSamples, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            heart(copied)
    (checkpoint,) = copied.rglob("*.checkpoint")
    taken, original = [], ooc.sample_losses

    def sample_losses(*args, **options):
        taken.append(options["checkpoint"])
        return original(*args, **options)

    monkeypatch.setattr(ooc, "sample_losses", sample_losses)
    assert heart(copied) == study
    assert checkpoint in taken
    assert not list(copied.rglob("*.checkpoint"))


# --- files --------------------------------------------------------------------------------------------


TABLES = {"estimates.csv", "summary.csv", "curves.csv", "shape.csv", "test.csv", "results.json"}


def test_every_table_is_written(done):
    assert {path.name for path in (done / "heart").iterdir() if path.is_file()} == TABLES
    assert {path.name for path in done.iterdir()} == {"heart", "results.json", "claims.csv"}


@pytest.mark.slow
def test_every_figure_is_written(study, tmp_path):
    outputs.write_study(tmp_path, study)
    figures = {f"{name}.{kind}" for name in ("errors", "curves", "shape") for kind in ("png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == TABLES | figures
    for path in tmp_path.rglob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert 20_000 < path.stat().st_size < 400_000
    for path in tmp_path.rglob("*.svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (
            figures.draw_errors,
            ("Paper protocol", "Field protocol", "share of records misclassified", "true value", "2 trials"),
        ),
        (
            figures.draw_curves,
            ("paper protocol", "true loss", "share of training records", "share of records misclassified"),
        ),
        (figures.draw_shape, ("Paper protocol, 800 fits", "Field protocol", "decreasing", "convex")),
    ],
)
def test_figures_name_their_axes_units_counts_and_the_truth(study, draw, words):
    text = "\n".join(part.get_text() for part in draw(study).findobj(Text))
    assert [word for word in words if word not in text] == []


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_tables_are_tidy_and_agree_with_the_json(done, study):
    rows = table(done / "heart" / "estimates.csv")
    assert len(rows) == 7 * (2 + 3)
    assert list(rows[0]) == ["study", "protocol", "replicate", "method", "estimate", "truth", "error"]
    one = next(r for r in rows if (r["protocol"], r["method"], r["replicate"]) == ("field", "basis", "2"))
    assert float(one["error"]) == study["protocols"]["field"]["methods"]["basis"]["errors"][2]
    kinds = {(row["protocol"], row["kind"]) for row in table(done / "heart" / "curves.csv")}
    assert {("paper", "true"), ("paper", "observed"), ("paper", "trend"), ("field", "observed")} <= kinds


def test_the_json_says_what_it_was_made_with(done, study):
    assert study["seed"] == 0
    assert study["quick"] is True
    assert {"python", "outofcluster", "numpy", "scikit-learn", "numba"} <= set(study["versions"])
    assert "soft-margin" in study["learner"]
    assert study["parameters"]["effort"]["fits"] == 50
    assert study["test"]["deals"] == 2
    assert len(study["checks"]) == 1
    overall = json.loads((done / "results.json").read_text())
    assert overall["studies"]["heart"] == study
    assert overall["timing"] is None


def test_progress_is_a_bar_on_a_terminal_and_the_summary_is_printed(undrawn, copied, monkeypatch, capfd):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    effort = replace(TINY, check_fits=11)  # the check of the learner is the last part of a study
    monkeypatch.setitem(STUDIES, "heart", replace(HEART, quick=effort))
    assert command(monkeypatch, "heart", "--quick", "--out", str(copied), "--jobs", "1") == 0
    shown = capfd.readouterr()
    total = HEART.n_fits(effort)
    assert f"{total:,}/{total:,}" in shown.err
    for words in ("T4+mono", "paper, 2 trials", "field, 3 draws", "Claims of the paper"):
        assert words in shown.out
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert command(monkeypatch, "heart", "--quick", "--out", str(copied), "--json") == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    assert json.loads(shown.out)["studies"]["heart"]["name"] == "heart"


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
    with pytest.raises(ooc.InputError, match=words):
        reproduce(**{"names": "heart", "out": out} | options)
    assert not out.exists()


def test_bad_input_on_the_command_line_takes_one_line_and_leaves_nothing_behind(tmp_path, monkeypatch, capfd):
    out = tmp_path / "a" / "b"
    for words, reason in (
        (["heart", "--data", str(tmp_path / "none")], "heart/processed.cleveland.data"),
        (["hart"], "'hart'"),
    ):
        assert command(monkeypatch, *words, "--out", str(out)) == 2
        shown = capfd.readouterr().err
        assert shown.count("\n") == 1
        assert reason in shown
        assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_folder_that_cannot_be_written(small, fits, tmp_path, monkeypatch, capfd, below):
    (tmp_path / "file").write_text("kept")
    assert command(monkeypatch, "heart", "--quick", "--out", str(tmp_path / "file" / below)) == 2
    assert "must be a folder that can be written" in capfd.readouterr().err
    assert fits == []
    assert (tmp_path / "file").read_text() == "kept"


def test_without_matplotlib_the_extra_is_named(small, fits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ooc.MissingExtraError, match=r"outofcluster\[plot\]"):
        reproduce("heart", out=tmp_path / "out", quick=True)
    assert fits == []
    assert not (tmp_path / "out").exists()

"""Displays: what is drawn is what the audit says, frames hold it, and computing never imports plotting."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

import outofcluster as ooc
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.present.display import (
    ComparisonDisplay,
    FoldsDisplay,
    LeakageTestDisplay,
    LossCurveDisplay,
    LossSamplesDisplay,
    SensitivityDisplay,
    SweepDisplay,
)

matplotlib.use("Agg")
from matplotlib import pyplot

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(30), 10)
effect = rng.standard_normal((30, 3))[groups]
X = effect + 0.5 * rng.standard_normal((300, 3))
target = X[:, 0] + effect[:, 1] + 0.5 * rng.standard_normal(300)
label = (effect[:, 0] + rng.standard_normal(30)[groups] > 0).astype(int)
OPTIONS = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 150, "random_state": 0}


@pytest.fixture(scope="module")
def result():
    return ooc.audit(Ridge(), X, target, **OPTIONS)


@pytest.fixture(scope="module")
def fragments():
    return ooc.audit(LogisticRegression(), X, label, **OPTIONS | {"error_model": "fragments"})


@pytest.fixture(scope="module")
def comparison():
    models = {"ridge": Ridge(), "a $lasso$ with_signs": Lasso(0.1)}
    return ooc.compare(models, X, target, **OPTIONS | {"n_fits": 60})


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def texts(display):
    """Everything that is written in a picture, once it has been drawn."""
    display.figure_.canvas.draw()
    written = [text.get_text() for text in display.figure_.findobj(matplotlib.text.Text)]
    return "\n".join(text for text in written if text)


def lines(ax):
    """The lines by label, with the error bars' centres."""
    named = {line.get_label(): line for line in ax.lines}
    return named | {bars.get_label(): bars.lines[0] for bars in ax.containers}


def points(line):
    return np.column_stack(line.get_data()).astype(float)


# --- the loss curve -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["result", "fragments"])
def test_the_curve_runs_through_both_losses(name, request):
    audit = request.getfixturevalue(name)
    display = LossCurveDisplay.from_audit(audit).plot()
    named = lines(display.ax_)
    extrapolated, seen = points(named["extrapolated"]), points(named["fitted curve"])
    assert extrapolated[0] == pytest.approx([0, audit.corrected.value])
    assert extrapolated[-1] == pytest.approx(seen[0])
    assert seen[0, 0] == pytest.approx(display.levels.min())
    at_rate = np.interp(0.1, *np.concatenate([extrapolated, seen]).T)
    assert at_rate == pytest.approx(audit.naive.value, abs=0.02 * audit.naive.value)
    assert named["extrapolated"].get_linestyle() == "--"
    assert named["fitted curve"].get_linestyle() == "-"


def test_the_interval_of_e0_is_drawn_at_no_leakage(result):
    ax = LossCurveDisplay.from_audit(result).plot().ax_
    bars = next(bars for bars in ax.containers if bars.get_label().startswith("on new clusters"))
    (segment,) = bars.lines[2][0].get_segments()
    assert segment[:, 0] == pytest.approx([0, 0])
    assert segment[:, 1] == pytest.approx(result.corrected.interval)


def test_measured_points_have_error_bars(result):
    display = LossCurveDisplay.from_audit(result).plot()
    bars = next(bars for bars in display.ax_.containers if bars.get_label().startswith("measured"))
    segments = bars.lines[2][0].get_segments()
    assert [segment[:, 1].mean() for segment in segments] == pytest.approx(display.to_frame()["shown"].tolist())
    half = [np.ptp(segment[:, 1]) / 2 for segment in segments]
    assert half == pytest.approx((ndtri(0.975) * display.standard_errors).tolist())


def test_the_curve_in_words(result, fragments):
    said = texts(LossCurveDisplay.from_audit(result).plot())
    for words in (
        "Loss by leakage, extrapolated to none",
        f"cross-validated as it is: {result.naive.value:.3f}",
        f"on new clusters: {result.corrected.value:.3f} ({result.corrected.interval[0]:.3f} to ",
        "share of training records that belong to held-out clusters",
        "mean squared error",
        "10 %",
    ):
        assert words in said
    assert "share of held-out records whose cluster also trains" in texts(LossCurveDisplay.from_audit(fragments).plot())


def test_the_frame_of_a_curve(result):
    frame = LossCurveDisplay.from_audit(result).to_frame()
    assert frame["level"].tolist() == pytest.approx(list(result.summary.curve.at))
    assert frame["loss"].tolist() == pytest.approx(list(result.summary.losses))
    assert frame["shown"][0] - frame["loss"][0] == pytest.approx(result.corrected.value - result.curve.e0_)


def test_a_summary_read_back_can_be_drawn(result):
    again = ooc.Summary.from_json(result.to_json())
    drawn = [LossCurveDisplay.from_audit(one).to_frame() for one in (result, again)]
    assert drawn[0].equals(drawn[1])


def test_without_a_rate_nothing_is_extrapolated(result):
    audit = ooc.audit(Ridge(), X, target, **OPTIONS | {"leakage": None, "n_fits": 100})
    display = LossCurveDisplay.from_audit(audit).plot()
    said = texts(display)
    assert "Loss by leakage added" in said
    assert "on new clusters" not in said
    assert "extrapolated" not in said
    assert display.to_frame()["shown"][0] == pytest.approx(audit.naive.value)
    assert "at the assumed" not in texts(SensitivityDisplay.from_audit(audit).plot())
    assert "corrected" not in texts(FoldsDisplay.from_audit(audit).plot())
    assert FoldsDisplay.from_audit(audit).to_frame().columns.tolist() == ["fold", "n_validation", "naive"]


# --- sensitivity --------------------------------------------------------------------------------------


def test_sensitivity_is_that_of_the_audit(result):
    display = SensitivityDisplay.from_audit(result)
    assert display.to_frame().equals(result.sensitivity().to_frame())
    curve = points(lines(display.plot().ax_)["corrected loss, if this is the rate"])
    for rate in (0.05, 0.1, 0.25):
        value = np.interp(rate, *curve.T)
        assert value == pytest.approx(result.at_leakage(rate).corrected.value)


def test_the_tipping_point(result):
    threshold = result.at_leakage(0.17).corrected.value
    display = SensitivityDisplay.from_audit(result, threshold=threshold).plot()
    assert display.tipping_point == pytest.approx(0.17, abs=1e-4)
    assert f"threshold {threshold:.4g}: reached at 17 %" in texts(display)
    single = [points(line) for line in display.ax_.lines if len(points(line)) == 1]
    assert any(np.allclose(point, [[0.17, threshold]], atol=1e-4) for point in single)


def test_a_threshold_out_of_reach(result):
    display = SensitivityDisplay.from_audit(result, threshold=1e6).plot()
    assert display.tipping_point is None
    assert "not reached up to 50 %" in texts(display)
    with pytest.raises(InputError, match="threshold must be a number"):
        SensitivityDisplay.from_audit(result, threshold="much")
    with pytest.raises(InputError, match=r"rates must lie between 0 and 0\.5, got 0\.9"):
        SensitivityDisplay.from_audit(result, rates=[0.9])


# --- folds and models ---------------------------------------------------------------------------------


def test_fold_by_fold(result):
    display = FoldsDisplay.from_audit(result)
    frame = display.to_frame()
    assert frame["naive"].tolist() == pytest.approx([fold.naive for fold in result.summary.by_fold])
    # The folds have the same size, and the method is linear: the mean of the folds is the whole.
    assert np.mean(frame["naive"]) == pytest.approx(result.naive.value)
    assert ((frame["low"] < frame["corrected"]) & (frame["corrected"] < frame["high"])).all()
    said = texts(display.plot())
    assert "fold 4 (60 records)" in said
    assert f"corrected, all folds: {result.corrected.value:.3f}" in said


def test_a_fold_alone_is_the_audit_of_that_fold():
    split = [(np.arange(150), np.arange(150, 300))]
    alone = ooc.audit(Ridge(), X, target, **OPTIONS | {"cv": split})
    display = FoldsDisplay.from_audit(alone)
    assert display.corrected == (alone.corrected,)
    assert display.naive == (alone.naive,)


def test_models_side_by_side(comparison):
    display = ComparisonDisplay.from_comparison(comparison).plot()
    assert display.models == comparison.ranking
    assert display.to_frame()["corrected"].tolist() == comparison.to_frame()["corrected"].tolist()
    said = texts(display)
    assert "a $lasso$ with_signs" in said
    changes = "changes" if comparison.ranking_changes else "does not change"
    assert f"Correcting {changes} the ranking" in said


def test_models_without_a_rate():
    models = {"ridge": Ridge(), "lasso": Lasso(0.1)}
    comparison = ooc.compare(models, X, target, **OPTIONS | {"n_fits": 60, "leakage": None})
    display = ComparisonDisplay.from_comparison(comparison).plot()
    assert "Models by their loss as it is" in texts(display)
    assert display.to_frame().columns.tolist() == ["model", "naive"]


# --- the test and the samples -------------------------------------------------------------------------


def test_the_losses_behind_the_test(result):
    display = LeakageTestDisplay.from_test(result.test).plot()
    frame = display.to_frame()
    assert frame["loss"].tolist() == result.test.to_frame()["loss"].tolist()
    assert frame["trained_on"].tolist() == result.test.to_frame()["trained_on"].tolist()
    drawn = [line.get_xdata() for line in display.ax_.lines]
    assert drawn[0].tolist() == result.test.losses_train.ravel().tolist()
    assert drawn[1].tolist() == [result.test.losses_train.mean()] * 2
    assert drawn[2].tolist() == result.test.losses_validation.ravel().tolist()
    said = texts(display)
    assert ("A cluster effect was found" in said) == result.test.rejected
    assert f"(mean {result.test.losses_validation.mean():.4g})" in said
    assert "mean squared error on held-out records" in said


@pytest.mark.parametrize("name", ["result", "fragments"])
def test_losses_by_level(name, request):
    samples = request.getfixturevalue(name).samples.folds[0].samples
    display = LossSamplesDisplay.from_samples(samples).plot()
    frame = display.to_frame()
    assert frame["injected"].tolist() == samples.injected.tolist()
    assert frame["loss"].tolist() == samples.means.tolist()
    assert ((frame["low"] <= frame["loss"]) & (frame["loss"] <= frame["high"])).all()
    assert points(display.ax_.containers[0].lines[0])[:, 1].tolist() == samples.means.tolist()
    said = texts(display)
    assert ("pieces" in said or "piece" in said) == (name == "fragments")
    assert ("mean squared error" in said) == (name == "result")


def test_the_level_of_confidence_is_said_and_drawn(result, comparison):
    other = result.with_confidence(0.8)
    curve = LossCurveDisplay.from_audit(other).plot()
    bars = next(bars for bars in curve.ax_.containers if bars.get_label().startswith("measured"))
    half = [np.ptp(segment[:, 1]) / 2 for segment in bars.lines[2][0].get_segments()]
    assert half == pytest.approx((ndtri(0.9) * curve.standard_errors).tolist())
    for display in (
        SensitivityDisplay.from_audit(other).plot(),
        other.sensitivity([0.0, 0.1]).plot(),
        FoldsDisplay.from_audit(other).plot(),
    ):
        said = texts(display)
        assert "80 % interval" in said
        assert "95 %" not in said


# --- all of them --------------------------------------------------------------------------------------


def test_every_result_can_be_drawn_into_axes(result, comparison):
    figure, places = pyplot.subplots(1, 5, figsize=(25, 5), layout="constrained")
    drawable = [result, result.sensitivity([0.0, 0.1]), comparison, result.test, result.samples.folds[0].samples]
    kinds = [LossCurveDisplay, SensitivityDisplay, ComparisonDisplay, LeakageTestDisplay, LossSamplesDisplay]
    for one, kind, ax in zip(drawable, kinds, places, strict=True):
        display = one.plot(ax=ax)
        assert isinstance(display, kind)
        assert display.ax_ is ax
        assert isinstance(one.plot(), kind)
    figure.canvas.draw()


def test_plot_takes_axes_and_returns_itself(result, comparison):
    figure, places = pyplot.subplots(2, 3, figsize=(14, 8), layout="constrained")
    displays = [
        LossCurveDisplay.from_audit(result),
        SensitivityDisplay.from_audit(result),
        FoldsDisplay.from_audit(result),
        ComparisonDisplay.from_comparison(comparison),
        LeakageTestDisplay.from_test(result.test),
        LossSamplesDisplay.from_samples(result.samples.folds[0].samples),
    ]
    for display, ax in zip(displays, places.ravel(), strict=True):
        assert display.plot(ax=ax) is display
        assert display.ax_ is ax
        assert display.figure_ is figure
    figure.canvas.draw()


def test_every_label_lies_within_the_picture(result, fragments, comparison):
    for display in (
        LossCurveDisplay.from_audit(result),
        LossCurveDisplay.from_audit(fragments),
        SensitivityDisplay.from_audit(fragments, threshold=0.4),
        FoldsDisplay.from_audit(fragments),
        ComparisonDisplay.from_comparison(comparison),
        LeakageTestDisplay.from_test(result.test),
        LossSamplesDisplay.from_samples(fragments.samples.folds[0].samples),
    ):
        figure = display.plot().figure_
        figure.canvas.draw()
        whole = figure.bbox
        ax = display.ax_
        for part in (ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, ax.get_legend()):
            box = part.get_window_extent()
            if box.width:
                assert box.x0 >= whole.x0 - 1
                assert box.x1 <= whole.x1 + 1, (display, part)
                assert box.y1 <= whole.y1 + 1


def test_in_axes_of_the_user_legends_sit_inside_and_names_of_axes_are_folded(result, fragments, comparison):
    figure, places = pyplot.subplots(2, 3, figsize=(11, 7), layout="constrained")
    displays = (
        LossCurveDisplay.from_audit(result),
        SensitivityDisplay.from_audit(fragments, threshold=0.4),
        FoldsDisplay.from_audit(fragments),
        ComparisonDisplay.from_comparison(comparison),
        LeakageTestDisplay.from_test(result.test),
        LossSamplesDisplay.from_samples(fragments.samples.folds[0].samples),
    )
    for display, ax in zip(displays, places.ravel(), strict=True):
        display.plot(ax)
    figure.canvas.draw()
    for ax in places.ravel():
        inside, legend = ax.get_window_extent(), ax.get_legend().get_window_extent()
        assert legend.width <= 1.1 * inside.width
        assert inside.y0 - 1 <= legend.y0
        assert legend.y1 <= inside.y1 + 1
        assert figure.bbox.x0 - 1 <= ax.xaxis.label.get_window_extent().x0
        assert ax.xaxis.label.get_window_extent().x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= ax.xaxis.label.get_window_extent().y0


@pytest.mark.slow
def test_computing_imports_no_plotting():
    code = (
        "import sys, numpy as np, outofcluster as ooc; assert 'outofcluster.present.display' not in sys.modules\n"
        "import outofcluster.present.display as display\n"
        "from sklearn.linear_model import Ridge\n"
        "X = np.random.default_rng(0).standard_normal((100, 2)); g = np.repeat(np.arange(20), 5)\n"
        "options = {'groups': g, 'leakage': 0.1, 'error_model': 'records', 'n_fits': 60, 'random_state': 0}\n"
        "audit = ooc.audit(Ridge(), X, X[:, 0], **options)\n"
        "display.LossCurveDisplay.from_audit(audit)\n"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_missing_extra_is_named(result, monkeypatch):
    display = LossCurveDisplay.from_audit(result)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'outofcluster\[plot\]'"):
        display.plot()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'outofcluster\[pandas\]'"):
        display.to_frame()


# --- linkage thresholds -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept():
    linked = {0.1: groups > 27, 0.5: groups, 0.9: np.arange(300) // 5}
    options = {"leakage": {0.1: 0.0, 0.5: 0.05, 0.9: 0.2}, "error_model": "fragments", "n_fits": 36, "cv": 3}
    return ooc.sweep(Ridge(), X, target, linked, unmix=False, random_state=0, **options)


def test_thresholds_side_by_side(swept):
    display = SweepDisplay.from_sweep(swept).plot()
    frame = display.to_frame()
    assert frame["threshold"].tolist() == [0.1, 0.5, 0.9]
    assert frame["corrected"].tolist()[1:] == [estimate.value for estimate in swept.corrected.values()]
    assert np.isnan(frame["naive"][0])
    said = texts(display)
    assert "could not be audited" in said
    assert "Shaded: one giant cluster" in said
    assert "leakage rate" in said
    assert [label.get_text() for label in display.below_ax_.get_xticklabels()] == ["0.1", "0.5", "0.9"]
    drawn = [bar.get_height() for bar in display.below_ax_.patches if bar.get_width() < 1]
    assert drawn == list(swept.largest_cluster.values())


def test_thresholds_in_axes_of_any_kind(swept):
    figure, places = pyplot.subplots(1, 2, layout="constrained")
    display = swept.plot(ax=places[0])
    assert display.ax_ is places[0]
    assert display.figure_ is display.below_ax_.figure is figure
    alone = pyplot.figure().add_axes((0.2, 0.1, 0.7, 0.7))
    below = SweepDisplay.from_sweep(swept).plot(alone).below_ax_
    assert below.get_position().y1 < alone.get_position().y0
    assert alone.get_position().y1 == pytest.approx(0.8)

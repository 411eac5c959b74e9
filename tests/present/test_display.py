"""Displays: what is drawn is what the result says, tables hold it, and computing never imports plotting."""

import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from scipy.special import ndtri

import outofcluster as ooc
from ooc_test_results import audit, comparison, swept, unmixed
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.present.display import (
    ComparisonDisplay,
    FoldsDisplay,
    LeakageTestDisplay,
    LossCurveDisplay,
    LossSamplesDisplay,
    SensitivityDisplay,
    SweepDisplay,
    UnmixingDisplay,
)

matplotlib.use("Agg")
from matplotlib import pyplot

MAKE = {
    "curve": lambda: LossCurveDisplay.from_audit(audit()),
    "curve of fragments": lambda: LossCurveDisplay.from_audit(audit("fragments")),
    "sensitivity": lambda: SensitivityDisplay.from_audit(audit("fragments"), threshold=0.4),
    "folds": lambda: FoldsDisplay.from_audit(audit("fragments")),
    "comparison": lambda: ComparisonDisplay.from_comparison(comparison()),
    "test": lambda: LeakageTestDisplay.from_test(audit().test),
    "samples": lambda: LossSamplesDisplay.from_samples(audit("fragments").samples.folds[0].main),
    "unmixing": lambda: UnmixingDisplay.from_audit(unmixed()),
}


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


def error_bars(ax, beginning):
    """The error bars of the marks whose label begins so, as pairs of points."""
    bars = next(bars for bars in ax.containers if bars.get_label().startswith(beginning))
    return np.array(bars.lines[2][0].get_segments())


# --- the loss curve -----------------------------------------------------------------------------------


def test_the_curve_runs_through_both_losses():
    result = audit("records")
    display = LossCurveDisplay.from_audit(result).plot()
    named = lines(display.ax_)
    extrapolated, seen = points(named["extrapolated"]), points(named["fitted curve"])
    assert extrapolated[0] == pytest.approx([0, result.corrected.value])
    assert extrapolated[-1] == pytest.approx(seen[0])
    assert seen[0, 0] == pytest.approx(display.levels.min())
    at_rate = np.interp(0.1, *np.concatenate([extrapolated, seen]).T)
    assert at_rate == pytest.approx(result.naive.value, abs=0.02 * result.naive.value)
    assert named["extrapolated"].get_linestyle() == "--"
    assert named["fitted curve"].get_linestyle() == "-"


def test_losses_without_and_with_a_piece_are_joined_by_a_line():
    result = audit("fragments")
    display = LossCurveDisplay.from_audit(result).plot()
    (low, high), said = points(lines(display.ax_)["line between these"])[[0, -1]], texts(display)
    assert low[1] == pytest.approx(result.corrected.value, abs=0.02)
    assert high[1] - low[1] == pytest.approx(result.summary.losses[-1] - result.summary.losses[0], rel=0.05)
    assert "Loss without and with a piece in training" in said
    assert "measured, with imitated pieces" in said
    assert "extrapolated" not in said


def test_a_rate_that_the_records_show_is_not_called_assumed():
    result = replace(audit("fragments"), from_data=True)
    said = texts(SensitivityDisplay.from_audit(result, rates=[0.0, 0.1, 0.2]).plot())
    assert "by what the records show: " in said
    assert "assumed" not in said


def test_the_interval_of_e0_is_drawn_at_no_leakage():
    (bar,) = error_bars(LossCurveDisplay.from_audit(audit()).plot().ax_, "on new clusters")
    assert bar[:, 0] == pytest.approx([0, 0])
    assert bar[:, 1] == pytest.approx(audit().corrected.interval)


@pytest.mark.parametrize(("name", "level"), [("records", 0.95), ("80 %", 0.8)])
def test_measured_points_have_error_bars_of_the_level_of_confidence(name, level):
    display = LossCurveDisplay.from_audit(audit(name)).plot()
    bars = error_bars(display.ax_, "measured")[:, :, 1]
    assert bars.mean(axis=1) == pytest.approx(display.to_frame()["shown"].to_numpy())
    assert np.ptp(bars, axis=1) / 2 == pytest.approx(ndtri(0.5 + level / 2) * display.standard_errors)


def test_the_curve_in_words():
    result = audit()
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
    fragments = LossCurveDisplay.from_audit(audit("fragments")).plot()
    assert "share of held-out records whose cluster also trains" in texts(fragments)


def test_the_table_of_a_curve_also_from_a_summary_read_back():
    result = audit()
    frame = LossCurveDisplay.from_audit(result).to_frame()
    assert frame["level"].tolist() == pytest.approx(list(result.summary.curve.at))
    assert frame["loss"].tolist() == pytest.approx(list(result.summary.losses))
    assert frame["shown"][0] - frame["loss"][0] == pytest.approx(result.corrected.value - result.curve.e0_)
    assert frame.equals(LossCurveDisplay.from_audit(ooc.Summary.from_json(result.to_json())).to_frame())


def test_without_a_rate_nothing_is_extrapolated():
    result = audit("no rate")
    display = LossCurveDisplay.from_audit(result).plot()
    said = texts(display)
    assert "Loss by leakage added" in said
    assert "on new clusters" not in said
    assert "extrapolated" not in said
    assert display.to_frame()["shown"][0] == pytest.approx(result.naive.value)
    assert "at the assumed" not in texts(SensitivityDisplay.from_audit(result).plot())
    assert "corrected" not in texts(FoldsDisplay.from_audit(result).plot())
    assert FoldsDisplay.from_audit(result).to_frame().columns.tolist() == ["fold", "n_validation", "naive"]


# --- below the leakage rate ---------------------------------------------------------------------------


def test_the_picture_joins_both_sides_at_the_users_own_loss():
    result = unmixed()
    display = UnmixingDisplay.from_audit(result).plot()
    frame = display.to_frame()
    assert (np.diff(frame["fraction"]) > 0).all()
    assert frame["loss"][frame["fraction"] == 0].item() == pytest.approx(result.naive.value)
    drawn = {label: points(line) for label, line in lines(display.ax_).items()}
    corrected = next(marks for name, marks in drawn.items() if name.startswith("on new clusters"))
    assert corrected == pytest.approx(np.array([[display.clean, result.corrected.value]]))
    assert (drawn["measured, look-alikes left out"][:, 0] >= display.clean).all()
    assert (drawn["measured, records injected"][:, 0] > 0).all()
    dashed = drawn["extrapolated from the injected ones alone"]
    alone = result.naive.value + result.curve.unmixing_.optimism_above
    assert dashed[0] == pytest.approx([display.clean, alone])
    assert dashed[-1] == pytest.approx([0, result.naive.value], rel=1e-3)
    assert "no leakage left" in texts(display)


def test_the_point_without_leakage_is_drawn_where_it_lies_beyond_what_was_measured():
    summary = unmixed().summary
    lowest = summary.unmixed.fractions[0]
    far = replace(summary, unmixed=replace(summary.unmixed, clean=1.5 * lowest))
    assert UnmixingDisplay.from_audit(far).plot().ax_.get_xlim()[0] < 1.5 * lowest


@pytest.mark.parametrize("rate", [None, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.0, 0.5))])
def test_other_rates_can_be_drawn(rate):
    result = replace(unmixed(), leakage=None) if rate is None else unmixed().at_leakage(rate)
    display = UnmixingDisplay.from_audit(result).plot()
    display.figure_.canvas.draw()
    assert np.isfinite(display.losses).all()
    assert (display.corrected is None) == (display.clean is None) == (rate is None)


def test_an_audit_without_losses_below_the_rate_is_refused():
    with pytest.raises(InputError, match="audit must have losses below the leakage rate"):
        UnmixingDisplay.from_audit(audit())


@pytest.mark.parametrize(
    ("make", "label", "title"),
    [(unmixed, "by models without look-alikes", "down"), (audit, "extrapolated", "extrapolated")],
)
def test_the_loss_curve_says_where_its_end_comes_from(make, label, title):
    ax = LossCurveDisplay.from_audit(make()).plot().ax_
    assert label in lines(ax)
    assert title in ax.get_title(loc="left")


# --- sensitivity --------------------------------------------------------------------------------------


def test_sensitivity_is_that_of_the_audit():
    result = audit()
    display = SensitivityDisplay.from_audit(result)
    assert display.to_frame().equals(result.sensitivity().to_frame())
    curve = points(lines(display.plot().ax_)["corrected loss, if this is the rate"])
    for rate in (0.05, 0.25):
        assert np.interp(rate, *curve.T) == pytest.approx(result.at_leakage(rate).corrected.value)


def test_the_tipping_point():
    threshold = audit().at_leakage(0.17).corrected.value
    display = SensitivityDisplay.from_audit(audit(), threshold=threshold).plot()
    assert display.tipping_point.rate == pytest.approx(0.17, abs=1e-4)
    assert f"threshold {threshold:.4g}: reached at 17 %" in texts(display)
    single = [points(line) for line in display.ax_.lines if len(points(line)) == 1]
    assert any(np.allclose(point, [[0.17, threshold]], atol=1e-4) for point in single)


def test_a_threshold_out_of_reach():
    display = SensitivityDisplay.from_audit(audit(), threshold=1e6).plot()
    assert display.tipping_point.rate is None
    assert "not reached up to 50 %" in texts(display)
    with pytest.raises(InputError, match="threshold must be a number"):
        SensitivityDisplay.from_audit(audit(), threshold="much")


def test_the_level_of_confidence_is_said():
    other = audit("80 %")
    for display in (
        SensitivityDisplay.from_audit(other).plot(),
        other.sensitivity([0.0, 0.1]).plot(),
        FoldsDisplay.from_audit(other).plot(),
    ):
        said = texts(display)
        assert "80 % interval" in said
        assert "95 %" not in said


# --- side by side -------------------------------------------------------------------------------------


def test_fold_by_fold():
    result = audit()
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
    alone = audit("one fold")
    display = FoldsDisplay.from_audit(alone)
    assert display.corrected == (alone.corrected,)
    assert display.naive == (alone.naive,)


def test_models_side_by_side():
    compared = comparison()
    display = ComparisonDisplay.from_comparison(compared).plot()
    assert display.models == compared.ranking
    assert display.to_frame()["corrected"].tolist() == compared.to_frame()["corrected"].tolist()
    said = texts(display)
    assert "a $lasso$ with_signs" in said
    changes = "changes" if compared.ranking_changes else "does not change"
    assert f"Correcting {changes} the ranking" in said
    without = replace(display, corrected=()).plot()
    assert "Models by their loss as it is" in texts(without)
    assert without.to_frame().columns.tolist() == ["model", "naive"]


def test_thresholds_side_by_side():
    display = SweepDisplay.from_sweep(swept()).plot()
    frame = display.to_frame()
    assert frame["threshold"].tolist() == [0.1, 0.5, 0.9]
    assert frame["corrected"].tolist()[1:] == [estimate.value for estimate in swept().corrected.values()]
    assert np.isnan(frame["naive"][0])
    said = texts(display)
    assert "could not be audited" in said
    assert "Shaded: one giant cluster" in said
    assert "leakage rate" in said
    assert [label.get_text() for label in display.below_ax_.get_xticklabels()] == ["0.1", "0.5", "0.9"]
    drawn = [bar.get_height() for bar in display.below_ax_.patches if bar.get_width() < 1]
    assert drawn == list(swept().largest_cluster.values())


def test_thresholds_in_axes_of_any_kind():
    figure, places = pyplot.subplots(1, 2, layout="constrained")
    display = swept().plot(ax=places[0])
    assert display.ax_ is places[0]
    assert display.figure_ is display.below_ax_.figure is figure
    alone = pyplot.figure().add_axes((0.2, 0.1, 0.7, 0.7))
    below = SweepDisplay.from_sweep(swept()).plot(alone).below_ax_
    assert below.get_position().y1 < alone.get_position().y0
    assert alone.get_position().y1 == pytest.approx(0.8)


def test_the_losses_behind_the_test():
    test = audit().test
    display = LeakageTestDisplay.from_test(test).plot()
    assert display.to_frame()["loss"].tolist() == test.to_frame()["loss"].tolist()
    assert display.to_frame()["trained_on"].tolist() == test.to_frame()["trained_on"].tolist()
    drawn = [line.get_xdata() for line in display.ax_.lines]
    assert drawn[0].tolist() == test.losses_train.ravel().tolist()
    assert drawn[1].tolist() == [test.losses_train.mean()] * 2
    assert drawn[2].tolist() == test.losses_validation.ravel().tolist()
    said = texts(display)
    assert ("A cluster effect was found" in said) == test.rejected
    assert f"(mean {test.losses_validation.mean():.4g})" in said
    assert "mean squared error on held-out records" in said


@pytest.mark.parametrize("name", ["records", "fragments"])
def test_losses_by_level(name):
    samples = audit(name).samples.folds[0].main
    display = LossSamplesDisplay.from_samples(samples).plot()
    frame = display.to_frame()
    assert frame["injected"].tolist() == samples.injected.tolist()
    assert frame["loss"].tolist() == samples.means.tolist()
    assert ((frame["low"] <= frame["loss"]) & (frame["loss"] <= frame["high"])).all()
    assert points(display.ax_.containers[0].lines[0])[:, 1].tolist() == samples.means.tolist()
    said = texts(display)
    assert ("piece" in said) == (name == "fragments")
    assert ("mean squared error" in said) == (name == "records")


# --- all of them --------------------------------------------------------------------------------------


def test_every_result_draws_its_display():
    result = audit()
    for one, kind in (
        (result, LossCurveDisplay),
        (result.sensitivity([0.0, 0.1]), SensitivityDisplay),
        (comparison(), ComparisonDisplay),
        (result.test, LeakageTestDisplay),
        (result.samples.folds[0].main, LossSamplesDisplay),
    ):
        assert isinstance(one.plot(), kind)


@pytest.mark.parametrize("name", MAKE)
def test_every_label_lies_within_the_picture(name):
    display = MAKE[name]().plot()
    display.figure_.canvas.draw()
    whole, ax = display.figure_.bbox, display.ax_
    for part in (ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, ax.get_legend()):
        box = part.get_window_extent()
        if box.width:
            assert box.x0 >= whole.x0 - 1
            assert box.x1 <= whole.x1 + 1, part
            assert box.y1 <= whole.y1 + 1


def test_in_axes_of_the_user_legends_sit_inside_and_names_of_axes_are_folded():
    figure, places = pyplot.subplots(2, 4, figsize=(15, 7), layout="constrained")
    for make, ax in zip(MAKE.values(), places.ravel(), strict=True):
        display = make()
        assert display.plot(ax) is display
        assert display.ax_ is ax
        assert display.figure_ is figure
    figure.canvas.draw()
    for ax in places.ravel():
        inside, legend, name = (part.get_window_extent() for part in (ax, ax.get_legend(), ax.xaxis.label))
        assert legend.width <= 1.1 * inside.width
        assert inside.y0 - 1 <= legend.y0
        assert legend.y1 <= inside.y1 + 1
        assert figure.bbox.x0 - 1 <= name.x0
        assert name.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= name.y0


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


def test_a_missing_extra_is_named(monkeypatch):
    display = LossCurveDisplay.from_audit(audit())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"plot\(\) needs matplotlib: pip install 'outofcluster\[plot\]'"):
        display.plot()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"to_frame\(\) needs pandas: pip install 'outofcluster\[pandas\]'"):
        display.to_frame()

"""Losses below the leakage rate, the rate from the records and the range: in words, JSON, pictures and the report."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import outofcluster as ooc
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.auditing.summary import Summary
from outofcluster.present.display import LossCurveDisplay, UnmixingDisplay
from outofcluster.present.report import render_html
from outofcluster.present.report.chart import unmixing_chart

matplotlib.use("Agg")
from matplotlib import pyplot

rng = np.random.default_rng(0)
ward = np.repeat(np.arange(12), 40)
X = 2 * rng.standard_normal((12, 3))[ward] + 0.5 * rng.standard_normal((480, 3))
y = X[:, 0] + 2 * rng.standard_normal(12)[ward] + 0.5 * rng.standard_normal(480)
split = ooc.simulate_leakage(ward, np.arange(8, 12), rate=0.1, random_state=0)
OPTIONS = {"groups": split.groups, "cv": [(split.train, split.validation)], "error_model": "records", "random_state": 0}


@pytest.fixture(scope="module")
def result():
    return ooc.audit(Ridge(), X, y, leakage=split.rate, n_fits=800, **OPTIONS)


@pytest.fixture(scope="module")
def plain():
    return ooc.audit(Ridge(), X, y, leakage=split.rate, n_fits=200, unmix=False, **OPTIONS)


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


# --- the summary --------------------------------------------------------------------------------------


def test_the_summary_holds_what_the_audit_knows(result):
    summary = result.summary
    run = result.samples.folds[0].unmixed
    below = summary.unmixed
    assert list(below.fractions) == sorted([*run.injected.tolist(), 0.0])
    at = dict(zip(below.fractions, zip(below.losses, below.standard_errors, strict=True), strict=True))
    assert at[0.0] == (pytest.approx(result.naive.value, abs=1e-12), 0.0)
    for a, mean, error in zip(run.injected, run.means, run.standard_errors, strict=True):
        assert at[a] == (pytest.approx(mean), pytest.approx(error))
    p0 = split.rate
    assert below.clean == pytest.approx(-p0 / (0.9 * (1 - p0)))
    assert below.works == result.curve.unmixing_.mass_probability
    assert summary.range == result.range
    assert summary.data_leakage == result.data_leakage
    assert summary.auc == result.samples.folds[0].sides.auc
    rise = summary.curve.extrapolated[0] - result.curve.unmixing_._at_lowest
    assert rise == pytest.approx(result.curve.unmixing_.optimism_above)


@pytest.mark.parametrize("name", ["result", "plain", "no rate", "another curve"])
def test_summaries_come_back_from_json(result, plain, name):
    audits = {"result": result, "plain": plain, "no rate": replace(result, leakage=None)}
    audits["another curve"] = result.with_curve(ooc.PolynomialCurve(2))
    summary = audits[name].summary
    again = Summary.from_json(summary.to_json())
    assert again == summary
    for field in ("unmixed", "range", "data_leakage", "auc", "curve"):
        assert getattr(again, field) == getattr(summary, field)
    assert (summary.unmixed is None) == (name == "plain")
    assert (summary.range is None) == (name == "no rate")
    if name in ("no rate", "another curve"):
        assert summary.unmixed.clean is summary.unmixed.works is None


def test_a_summary_that_lacks_a_field_is_refused(result):
    data = result.summary.to_dict()
    for name in ("unmixed", "range", "data_leakage", "auc"):
        with pytest.raises(InputError, match=f"'{name}' is missing"):
            Summary.from_dict({key: value for key, value in data.items() if key != name})
    with pytest.raises(InputError, match="does not fit"):
        Summary.from_dict(data | {"range": [1.0]})
    with pytest.raises(InputError, match="does not fit"):
        Summary.from_dict(data | {"unmixed": data["unmixed"] | {"losses": "many"}})


# --- in words -----------------------------------------------------------------------------------------


def test_the_records_are_heard_after_the_verdict(result, plain):
    summary = replace(result.summary, data_leakage=ooc.Leakage(0.098, 0.01, "train", 0.12), auc=0.9, range=(1.5, 2.25))
    said = "The records themselves show a leakage rate of 9.8 %, at most 12 %."
    assert summary.from_records == said
    assert " the loss lies between 1.5" in summary.without_curve
    assert summary.sentences[:3] == (summary.verdict, said, summary.without_curve)
    assert said in str(summary)
    assert said in summary._repr_html_()
    assert said in render_html(summary)
    assert plain.summary.from_records == ""
    assert plain.summary.without_curve
    assert replace(result, leakage=None).summary.without_curve == ""


def test_records_that_look_alike_give_a_bound_or_none(result):
    alike = replace(result.summary, data_leakage=ooc.Leakage(0.02, 0.2, "train", 0.46), auc=0.63)
    assert "no more than that the leakage rate is at most 46 %" in alike.from_records
    assert "an AUC of 0.63)" in alike.from_records
    assert "2 %" not in alike.from_records
    blind = replace(result.summary, data_leakage=ooc.Leakage(0.9, 0.1, "train", 1.0), auc=0.5)
    assert "do not bound the leakage rate" in blind.from_records


def test_the_rate_of_the_data_is_not_called_an_assumption(result):
    own = replace(result, leakage=(result.data_leakage,)).summary
    assert own.assumption.startswith("That rate is used for the correction, give or take")
    assert result.summary.assumption.startswith("It is assumed")


# --- the picture --------------------------------------------------------------------------------------


def test_the_picture_joins_both_sides_at_the_users_own_loss(result):
    display = UnmixingDisplay.from_audit(result).plot()
    frame = display.frame()
    assert (np.diff(frame["fraction"]) > 0).all()
    assert frame["loss"][frame["fraction"] == 0].item() == pytest.approx(result.naive.value)
    drawn = {bars.get_label(): bars.lines[0].get_xydata() for bars in display.ax_.containers}
    corrected = next(places for label, places in drawn.items() if label.startswith("on new clusters"))
    assert corrected == pytest.approx(np.array([[display.clean, result.corrected.value]]))
    assert (drawn["measured, look-alikes left out"][:, 0] >= display.clean).all()
    assert (drawn["measured, records injected"][:, 0] > 0).all()
    lines = {line.get_label(): line.get_xydata() for line in display.ax_.lines}
    dashed = lines["extrapolated from the injected ones alone"]
    alone = result.naive.value + result.curve.unmixing_.optimism_above
    assert dashed[0] == pytest.approx([display.clean, alone])
    assert dashed[-1] == pytest.approx([0, result.naive.value], rel=1e-3)
    said = [text.get_text() for text in display.figure_.findobj(matplotlib.text.Text)]
    assert "no leakage left" in said


def test_without_a_rate_nothing_is_marked(result):
    display = UnmixingDisplay.from_audit(replace(result, leakage=None).summary).plot()
    assert display.corrected is display.clean is None
    assert len(unmixing_chart(replace(result, leakage=None).summary)) == 2


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.5])
@pytest.mark.slow
def test_other_rates_can_be_drawn(result, rate):
    display = UnmixingDisplay.from_audit(result.at_leakage(rate)).plot()
    display.figure_.canvas.draw()
    assert np.isfinite(display.losses).all()
    html = render_html(result.at_leakage(rate))
    assert "nan" not in html.partition('id="below"')[2].partition("</section>")[0]


def test_an_audit_without_losses_below_the_rate_is_refused(plain):
    with pytest.raises(InputError, match="audit must have losses below the leakage rate"):
        UnmixingDisplay.from_audit(plain)
    assert unmixing_chart(plain.summary) == []


def test_the_loss_curve_says_where_its_end_comes_from(result, plain):
    for audit, label, title in ((result, "by models without look-alikes", "down"), (plain, "extrapolated", "extrap")):
        display = LossCurveDisplay.from_audit(audit).plot()
        assert label in [line.get_label() for line in display.ax_.lines]
        assert title in display.ax_.get_title(loc="left")


# --- the report ---------------------------------------------------------------------------------------


def test_the_report_shows_the_picture_and_ten_suspects(result, plain):
    html = render_html(result)
    assert "Below the leakage rate" in html
    assert "No leakage is left at an injected fraction of" in html
    assert html.count('<th scope="row">') >= 10
    first = result.suspects().iloc[0]
    assert f'<th scope="row">{first["record"]}</th>' in html
    assert "further models were fitted without the training records that look like held-out ones" in html
    section = html.partition('id="suspects"')[2].partition("</section>")[0]
    assert section.count("<tr>") == 11
    assert 'id="suspects"' not in render_html(result.summary)
    assert 'id="suspects"' in render_html(result.summary, suspects=result.suspects())
    assert "Below the leakage rate" not in render_html(plain)


def test_without_pandas_the_report_has_no_suspects(result, monkeypatch):
    def missing(_):
        raise MissingExtraError("pandas")

    monkeypatch.setattr(type(result), "suspects", missing)
    assert 'id="suspects"' not in render_html(result)


def test_the_points_of_the_chart_lie_where_the_numbers_say(result):
    display = UnmixingDisplay.from_audit(result)
    for chart in unmixing_chart(result.summary):
        frame = chart.frame
        assert chart.corrected == (frame.x(display.clean), frame.y(result.corrected.value))
        assert chart.naive == (chart.zero, frame.y(result.naive.value))
        assert all(x < chart.zero for x, *_ in chart.left_out)
        assert all(x > chart.zero for x, *_ in chart.injected)
        assert all(frame.left <= x <= frame.right for x, *_ in [*chart.left_out, *chart.injected])


def test_the_point_without_leakage_is_drawn_where_it_lies_beyond_what_was_measured(result):
    lowest = result.summary.unmixed.fractions[0]
    far = replace(result.summary, unmixed=replace(result.summary.unmixed, clean=1.5 * lowest))
    for chart in unmixing_chart(far):
        assert chart.frame.left < chart.corrected[0] < chart.zero
        assert all(x > chart.corrected[0] for x, *_ in chart.left_out)
    display = UnmixingDisplay.from_audit(far).plot()
    assert display.ax_.get_xlim()[0] < 1.5 * lowest

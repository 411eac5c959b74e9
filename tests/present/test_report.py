"""The report: says what the audit says, is one file that needs nothing else, and shows hostile names as text."""

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_results import DERIVED, SAMPLED, audit, unmixed
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.summary import Summary
from outofcluster.auditing.summary_parts import MetricSummary
from outofcluster.inference.estimates import Estimate, Sensitivity
from outofcluster.metrics.facts import MetricFacts, known_facts
from outofcluster.present.display import UnmixingDisplay
from outofcluster.present.report import render_html, write_html
from outofcluster.present.report.chart import curve_chart, sensitivity_chart, slider_end, unmixing_chart

HOSTILE = "</script><script>alert('x')</script><b>&\"quoted\""
VOID = {"meta", "input", "link", "line", "circle", "rect", "polygon", "polyline"}
AUDITS = (*SAMPLED, *DERIVED)


@pytest.fixture(scope="module")
def result():
    return audit()


class Reader(HTMLParser):
    """Checks that elements close in order; gathers attributes, text, and the contents of scripts."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.text, self.scripts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID, tag
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside != "style":
            self.text.append(data)

    def said(self):
        return " ".join("".join(self.text).split())


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


# --- what it says -------------------------------------------------------------------------------------


def test_it_says_what_the_audit_says(result):
    said = read(render_html(result, title="A title", about={"data": "records.csv"})).said()
    summary = result.summary
    for words in (
        "A title",
        summary.headline,
        summary.title,
        summary.assumption,
        summary.scope,
        f"{result.naive.value:.4f}",
        f"{result.corrected.interval[0]:.4f} to {result.corrected.interval[1]:.4f}",
        result.test.sentence,
        "Mean squared error: smaller is better.",
        "100 further models were fitted to resamples",
        "records.csv",
        "Ridge()",
        summary.curve_method,
        f"outofcluster{ooc.__version__}",
        np.__version__,
        str(result.samples.folds[0].main.seeds[0]),
    ):
        assert words in said, words
    for finding in result.findings:
        assert f"{finding.code} {finding.message}" in said
        assert finding.remedy in said


@pytest.mark.parametrize("name", AUDITS)
def test_every_audit_has_a_well_formed_report(name):
    html = render_html(audit(name))
    reader = read(html)
    assert "nan" not in re.findall(r"[a-z]+", reader.said())
    assert len(html.encode()) < 200_000
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in reader.elements:
        for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "points", "x-data"):
            assert "nan" not in str(attrs.get(name)), attrs
            assert "inf" not in str(attrs.get(name)), attrs


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no rate", "which was not given"),
        ("uncertain", "also allows for an uncertain rate"),
        ("one rate per fold", "The same rate is used for all folds."),
        ("fragments", "cut in two"),
        ("fragments", "error rate"),
        ("units", "had nothing leaked"),
        ("not linear", "rates that were computed."),
        ("no test", "could not be run"),
        ("80 %", "80 % interval"),
    ],
)
def test_what_an_audit_says_that_others_do_not(name, words):
    assert words in read(render_html(audit(name))).said()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no rate", "% leakage"),
        ("no rate", "Back to the assumed rate"),
        ("scorer", "minus"),
        ("80 %", "95 %"),
    ],
)
def test_what_an_audit_does_not_say(name, words):
    assert words not in read(render_html(audit(name))).said()


def test_a_score_is_called_by_its_name(result):
    auc = replace(result.summary, metric=known_facts("roc_auc"))
    rows = tuple(MetricSummary(known_facts(name), auc.naive, auc.corrected, auc.optimism) for name in ("roc_auc", "r2"))
    said = read(render_html(replace(auc, metrics=rows))).said()
    for words in ("AUC: greater is better.", "How the AUC changes", "AUC as it is", "corrected AUC", "too high", "R²"):
        assert words in said, words
    body, _, _ = said.partition("What to know before")
    assert "the loss" not in body
    assert "too low" not in said


def test_severe_findings_are_announced(result):
    severe = replace(result.summary, findings=(Finding("out-of-range", "severe", "Bad.", ""),))
    assert "1 severe finding below: read that first." in read(render_html(severe)).said()
    assert "read that first" not in read(render_html(result)).said()
    quiet = read(render_html(replace(result.summary, findings=()))).said()
    assert "What to know before trusting this" not in quiet


def test_a_summary_read_back_gives_the_same_report(result):
    assert render_html(Summary.from_json(result.to_json())) == render_html(result.summary)


def test_the_numbers_are_inside(result):
    scripts = read(render_html(result)).scripts
    assert Summary.from_json(scripts[0]) == result.summary
    rates = json.loads(scripts[1])
    assert rates["values"][20] == result.at_leakage(0.1).corrected.value
    assert rates["start"] == 0.1


def test_methods_that_cannot_be_solved_have_no_slider(result):
    reader = read(render_html(replace(result.summary, sensitivity=None)))
    assert json.loads(reader.scripts[1]) is None
    assert "input" not in [tag for tag, _ in reader.elements]


# --- one file, safe and accessible --------------------------------------------------------------------


def test_nothing_outside_is_asked_for(result):
    html = render_html(result)
    assert not re.search(r"(https?:)?//[a-z]", html)
    reader = read(html)
    assert not [attrs for _, attrs in reader.elements if {"src", "href", "style"} & attrs.keys()]
    assert "@import" not in html
    assert "url(#inside-wide)" in html
    assert not re.search(r"url\((?!#)", html)
    assert not [name for _, attrs in reader.elements for name in attrs if name.startswith("on")]
    policy = next(attrs["content"] for tag, attrs in reader.elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_hostile_names_are_text(result):
    finding = Finding(HOSTILE, "severe", HOSTILE, HOSTILE)
    hostile = replace(
        result.summary,
        metric=MetricFacts(HOSTILE, HOSTILE),
        estimator=HOSTILE,
        estimand=HOSTILE,
        curve_method=HOSTILE,
        version=HOSTILE,
        versions={HOSTILE: HOSTILE},
        findings=(finding,),
        test={"sentence": HOSTILE},
    )
    html = render_html(hostile, title=HOSTILE, about={HOSTILE: HOSTILE})
    reader = read(html)
    assert html.count("<script") == 3
    assert "<b>" not in html
    assert "alert('x')" not in html.replace("&#39;", "!")
    assert reader.said().count(HOSTILE) >= 8
    assert json.loads(reader.scripts[0])["loss"] == HOSTILE


def test_it_can_be_used_by_all(result):
    reader = read(render_html(result))
    attributes = dict(reader.elements)
    assert attributes["html"]["lang"] == "en"
    assert "charset" in reader.elements[[tag for tag, _ in reader.elements].index("meta")][1]
    labels = {attrs.get("for") for tag, attrs in reader.elements if tag == "label"}
    assert labels == {attrs["id"] for tag, attrs in reader.elements if tag == "input"}
    ids = {attrs["id"] for _, attrs in reader.elements if "id" in attrs}
    for tag, attrs in reader.elements:
        if tag == "svg":
            assert attrs.get("aria-hidden") == "true" or (
                attrs["role"] == "img" and set(attrs["aria-labelledby"].split()) <= ids
            )
        if tag == "th":
            assert attrs["scope"] in ("row", "col")
        assert set(attrs.get("aria-labelledby", "").split()) <= ids
    headings = [tag for tag, _ in reader.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == "h1"
    assert headings[1] == "h2"
    assert set(headings[1:]) == {"h2", "h3"}
    html = render_html(result)
    for words in ("prefers-color-scheme:dark", "@media print", "max-width:38rem", 'name="viewport"'):
        assert words in html


# --- pictures -----------------------------------------------------------------------------------------


def test_error_bars_have_the_level_of_confidence(result):
    (_, usual), (_, narrower) = (curve_chart(one.summary) for one in (result, audit("80 %")))
    for wide, narrow in zip(usual.points, narrower.points, strict=True):
        drawn = [(low - high) * np.ptp(c.frame.y_range) for c, (_, _, low, high) in ((usual, wide), (narrower, narrow))]
        assert drawn[1] == pytest.approx(drawn[0] * ndtri(0.9) / ndtri(0.975), rel=0.1)


@pytest.mark.parametrize("name", ["records", "fragments", "one rate per fold", "scorer"])
def test_marks_lie_where_the_numbers_are(name):
    summary = audit(name).summary
    for chart in curve_chart(summary):
        frame = chart.frame
        assert chart.corrected == (frame.left, frame.y(summary.corrected.value))
        assert chart.extrapolated.split()[0] == f"{frame.x(0)},{frame.y(summary.corrected.value)}"
        assert chart.extrapolated.split()[-1] == chart.seen.split()[0]
        bottom, top = chart.interval
        assert frame.top <= top < chart.corrected[1] < bottom <= frame.bottom
        for x, y, low, high in chart.points:
            assert frame.left <= x <= frame.right
            assert frame.top <= high <= y <= low <= frame.bottom


def test_ticks_are_round_and_differ():
    for name in AUDITS:
        for chart in [*curve_chart(audit(name).summary), *sensitivity_chart(audit(name).summary)]:
            for ticks in (chart.frame.x_ticks, chart.frame.y_ticks):
                labels = [label for _, label in ticks]
                assert 2 <= len(labels) <= 12
                assert len(set(labels)) == len(labels)
    wide = replace(
        audit().summary,
        sensitivity=Sensitivity([0.0, 0.3], [0.4, 0.6], [0.0, 0.0], [1.0, 1.0]),
        naive=Estimate(0.4, (0, 1), 0.0, 0.2),
    )
    assert [label for _, label in sensitivity_chart(wide)[0].frame.y_ticks] == ["0.00", "0.25", "0.50", "0.75", "1.00"]


def test_a_large_rate_lengthens_the_slider(result):
    assert slider_end(result.summary) == 0.3
    assert slider_end(audit("high rate").summary) == 0.5
    assert 'max="0.5"' in render_html(audit("high rate"))


def test_below_the_leakage_rate_points_lie_where_the_numbers_say():
    result, display = unmixed(), UnmixingDisplay.from_audit(unmixed())
    for chart in unmixing_chart(result.summary):
        frame = chart.frame
        assert chart.corrected == (frame.x(display.clean), frame.y(result.corrected.value))
        assert chart.naive == (chart.edge, frame.y(result.naive.value))
        assert all(x < chart.edge for x, *_ in chart.left_out)
        assert all(x > chart.edge for x, *_ in chart.points)
        assert all(frame.left <= x <= frame.right for x, *_ in [*chart.left_out, *chart.points])


def test_the_point_without_leakage_may_lie_beyond_what_was_measured():
    summary = unmixed().summary
    far = replace(summary, unmixed=replace(summary.unmixed, clean=1.5 * summary.unmixed.fractions[0]))
    for chart in unmixing_chart(far):
        assert chart.frame.left < chart.corrected[0] < chart.edge
        assert all(x > chart.corrected[0] for x, *_ in chart.left_out)


def test_below_the_leakage_rate_nothing_is_marked_without_a_rate_and_nothing_drawn_without_losses():
    assert [chart.corrected for chart in unmixing_chart(replace(unmixed(), leakage=None).summary)] == [None, None]
    assert unmixing_chart(audit().summary) == []


# --- suspects -----------------------------------------------------------------------------------------


def test_the_report_shows_the_losses_below_the_rate_and_ten_suspects(result):
    html = render_html(unmixed())
    assert "Below the leakage rate" in html
    assert "No leakage is left at an injected fraction of" in html
    assert "further models were fitted without the training records that look like held-out ones" in html
    first = unmixed().suspects().iloc[0]
    assert f'<th scope="row">{first["record"]}</th>' in html
    section = html.partition('id="suspects"')[2].partition("</section>")[0]
    assert section.count("<tr>") == 11
    assert 'id="suspects"' not in render_html(unmixed().summary)
    assert 'id="suspects"' in render_html(unmixed().summary, suspects=unmixed().suspects())
    assert "Below the leakage rate" not in render_html(result)


def test_without_pandas_the_report_has_no_suspects(result, monkeypatch):
    def missing(_):
        raise MissingExtraError("pandas")

    monkeypatch.setattr(type(result), "suspects", missing)
    assert 'id="suspects"' not in render_html(unmixed())


# --- files --------------------------------------------------------------------------------------------


def test_the_file_holds_the_document(result, tmp_path):
    path = tmp_path / "report.html"
    assert write_html(result, path) == path
    assert path.read_text(encoding="utf-8") == render_html(result)


def test_bad_paths_are_refused_before_anything_is_made(result, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("it was rendered")

    monkeypatch.setattr("outofcluster.present.report.html.render_html", fail)
    with pytest.raises(InputError, match=r"path must lie in a folder that exists, got '.*nowhere/report\.html'"):
        write_html(result, tmp_path / "nowhere" / "report.html")


def test_what_cannot_be_reported():
    with pytest.raises(InputError, match="result must be an Audit or a Summary, got dict"):
        render_html({})


def test_a_missing_extra_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'outofcluster\[report\]'"):
        render_html(result)


# --- pieces -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pieces():
    """An audit without a rate, one with look-ups and a rate, and one of features that tell nobody apart."""
    made = ooc.datasets.make_patients(150, random_state=0)
    options = {"groups": made.groups, "random_state": 0}
    alone = ooc.audit(KNeighborsClassifier(3), made.data, made.target, **options)
    entity = dict(zip(made.groups.tolist(), made.entities.tolist(), strict=True))
    listed = alone.review_list(30, random_state=0)
    mates = [[o for o in entity if entity[o] == entity[c] and o != c] for c in map(int, listed["cluster"])]
    listed["same_as"] = ["; ".join(map(str, each)) or "none" for each in mates]
    rate = ooc.Leakage(0.15, std=0.03, of="validation")
    all_sources = ooc.audit(KNeighborsClassifier(3), made.data, made.target, reviewed=listed, leakage=rate, **options)
    noise = np.random.default_rng(0).standard_normal((len(made.target), 2))
    blind = ooc.audit(KNeighborsClassifier(3), noise, made.target, **options)
    return {"without a rate": alone, "all sources": all_sources, "blind": blind}


def test_the_parts_of_an_answer_are_a_table(pieces):
    for name, count in (("without a rate", 1), ("all sources", 3), ("blind", 0)):
        summary = pieces[name].summary
        reader = read(render_html(pieces[name]))
        assert ("parts" in [attrs.get("id") for _, attrs in reader.elements]) == (count > 0)
        assert len(summary.parts) == count
        for row in summary.parts:
            assert "".join(row) in "".join(reader.text).replace("\n", "")
        assert summary.headline in reader.said()
        assert (summary.rests_on in reader.said()) == bool(summary.rests_on or count == 0)


def test_a_report_without_a_rate_speaks_of_none(pieces):
    said = read(render_html(pieces["without a rate"])).said()
    for words in ("What if you know the leakage rate?", "What a piece in training does", "No leakage rate is assumed."):
        assert words in said
    assert "assumed leakage rate" not in said
    assert "fitted curve" not in said
    assert "which is what the records show, the answer is the one above" in said
    assert "Each answer counts by one over the probability" not in said
    assert "Each answer counts by one over the probability" in read(render_html(pieces["all sources"])).said()


def test_likely_pieces_are_listed_as_clusters(pieces):
    result = pieces["without a rate"]
    first = result.suspects().iloc[0]
    said = read(render_html(result)).said()
    assert "training cluster" in said
    assert f"{100 * first['probability']:.0f} %" in said
    assert "Who may have leaked" not in read(render_html(pieces["blind"])).said()


def test_the_parts_are_in_notebooks_as_well(pieces):
    shown = pieces["all sources"]._repr_html_()
    for words in ("the optimism by", "what can be seen", "what somebody looked up", "imitated pieces"):
        assert words in shown
    assert "the optimism by" not in audit()._repr_html_()

"""The report: says what the audit says, is one file that needs nothing else, and shows hostile names as text."""

import json
import os
import re
import stat
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from outofcluster.inference.pooled import Pooled
from scipy.special import ndtri
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer

import outofcluster as ooc
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.summary import Summary
from outofcluster.auditing.summary_parts import MetricSummary
from outofcluster.inference.estimates import Estimate, Sensitivity
from outofcluster.metrics.facts import MetricFacts, known_facts
from outofcluster.present.report import check_destination, headline, render_html, write_html
from outofcluster.present.report.chart import curve_chart, sensitivity_chart, slider_end

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(30), 10)
effect = rng.standard_normal((30, 3))[groups]
X = effect + 0.5 * rng.standard_normal((300, 3))
target = X[:, 0] + effect[:, 1] + 0.5 * rng.standard_normal(300)
label = (effect[:, 0] + rng.standard_normal(30)[groups] > 0).astype(int)
HOSTILE = "</script><script>alert('x')</script><b>&\"quoted\""
VOID = {"meta", "input", "link", "line", "circle", "rect", "polygon", "polyline"}

AUDITS = {
    "records": {},
    "no rate": {"leakage": None},
    "uncertain": {"leakage": ooc.Leakage(0.1, std=0.02)},
    "one rate per fold": {"leakage": [0.0, 0.05, 0.1, 0.15, 0.3]},
    "fragments": {"error_model": "fragments", "estimator": LogisticRegression(), "y": label},
    "units": {"units": "records", "loss": "absolute_error"},
    "not linear": {"curve": ooc.CompletelyMonotoneCurve()},
    "unknown errors": {"n_fits": 60},
    "scorer": {"loss": get_scorer("r2")},
    "no test": {"leakage": 0.12},
}


def audit(estimator=None, y=None, **options):
    usual = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 100, "random_state": 0}
    return ooc.audit(Ridge() if estimator is None else estimator, X, target if y is None else y, **usual | options)


@pytest.fixture(scope="module")
def results():
    return cache(lambda name: untested(audit(**AUDITS[name])) if name == "no test" else audit(**AUDITS[name]))


def untested(result):
    samples = replace(result.samples, effect=None, effect_problem="There are too few records.")
    return replace(result, pooled=Pooled(samples, result.units))


@pytest.fixture(scope="module")
def result(results):
    return results("records")


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
        headline(summary),
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
        str(result.samples.folds[0].samples.seeds[0]),
    ):
        assert words in said, words
    for finding in result.findings:
        assert f"{finding.code} {finding.message}" in said
        assert finding.remedy in said


@pytest.mark.parametrize("name", AUDITS)
def test_every_audit_has_a_well_formed_report(results, name):
    html = render_html(results(name))
    reader = read(html)
    assert "nan" not in re.findall(r"[a-z]+", reader.said())
    assert len(html.encode()) < 200_000
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in reader.elements:
        for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "points", "x-data"):
            assert "nan" not in str(attrs.get(name)), attrs
            assert "inf" not in str(attrs.get(name)), attrs


def test_what_differs_between_audits(results):
    said = {name: read(render_html(results(name))).said() for name in AUDITS}
    assert "which was not given" in said["no rate"]
    assert "corrected for" not in said["no rate"]
    assert "Back to the assumed rate" not in said["no rate"]
    assert "also allows for an uncertain rate" in said["uncertain"]
    assert "The same rate is used for all folds." in said["one rate per fold"]
    assert "cut in two" in said["fragments"]
    assert "error rate" in said["fragments"]
    assert "had nothing leaked" in said["units"]
    assert "rates that were computed." in said["not linear"]
    assert "minus" not in said["scorer"]
    assert "could not be run" in said["no test"]


def with_corrected(summary, value, optimism, low, high, **changes):
    return replace(
        summary,
        naive=Estimate(0.35, (0.3, 0.4), 0.0, 0.02),
        iid=Estimate(0.3, (0.25, 0.35), 0.0, 0.02),
        corrected=Estimate(value, (value - 0.07, value + 0.07), 0.0, 0.05),
        optimism=Estimate(optimism, (low, high), 0.0, 0.05),
        **changes,
    )


def test_the_headline(result):
    summary = result.summary
    assert headline(with_corrected(summary, 0.38, 0.03, 0.01, 0.05)) == (
        "Mean squared error 0.350 → 0.380 on new clusters. Cross-validation is too optimistic by 0.030 (0.010 to "
        "0.050)."
    )
    assert headline(with_corrected(summary, 0.38, 0.03, -0.01, 0.07)) == (
        "Mean squared error 0.350 → 0.380 on new clusters. Cross-validation may be too optimistic by 0.030 (−0.010 to "
        "0.070); the interval includes 0."
    )
    auc = with_corrected(summary, 0.32, 0.03, 0.01, 0.05, metric=known_facts("roc_auc"))
    assert headline(auc) == (
        "AUC 0.350 → 0.320 on new clusters. Cross-validation is too optimistic by 0.030 (0.010 to 0.050)."
    )
    assert "had nothing leaked" in headline(replace(auc, units="records"))
    assert headline(replace(auc, corrected=None, optimism=None)).startswith("AUC 0.350 by cross-validation; how far")


def test_a_score_is_called_by_its_name(result):
    auc = with_corrected(result.summary, 0.32, 0.03, 0.01, 0.05, metric=known_facts("roc_auc"))
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
    assert render_html(Summary.from_json(result.to_json())) == render_html(result)


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
    assert set(headings[1:]) == {"h2"}
    html = render_html(result)
    for words in ("prefers-color-scheme:dark", "@media print", "max-width:38rem", 'name="viewport"'):
        assert words in html


def test_the_level_of_confidence_is_said_and_drawn(result):
    other = result.with_confidence(0.8)
    html = render_html(other)
    said = read(html).said()
    assert "80 % interval" in said
    assert "95 %" not in said
    (_, usual), (_, narrower) = (curve_chart(audit.summary) for audit in (result, other))
    for wide, narrow in zip(usual.points, narrower.points, strict=True):
        drawn = [(low - high) * np.ptp(c.frame.y_range) for c, (_, _, low, high) in ((usual, wide), (narrower, narrow))]
        assert drawn[1] == pytest.approx(drawn[0] * ndtri(0.9) / ndtri(0.975), rel=0.1)


# --- pictures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["records", "fragments", "one rate per fold", "scorer"])
def test_marks_lie_where_the_numbers_are(results, name):
    summary = results(name).summary
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


def test_ticks_are_round_and_told_apart(results):
    for name in AUDITS:
        for chart in [*curve_chart(results(name).summary), *sensitivity_chart(results(name).summary)]:
            for ticks in (chart.frame.x_ticks, chart.frame.y_ticks):
                labels = [tick.label for tick in ticks]
                assert 2 <= len(labels) <= 12
                assert len(set(labels)) == len(labels)
    wide = replace(
        results("records").summary,
        sensitivity=Sensitivity([0.0, 0.3], [0.4, 0.6], [0.0, 0.0], [1.0, 1.0]),
        naive=Estimate(0.4, (0, 1), 0.0, 0.2),
    )
    assert [tick.label for tick in sensitivity_chart(wide)[0].frame.y_ticks] == ["0.00", "0.25", "0.50", "0.75", "1.00"]


def test_a_large_rate_lengthens_the_slider(result):
    assert slider_end(result.summary) == 0.3
    assert slider_end(result.at_leakage(0.4).summary) == 0.5
    assert 'max="0.5"' in render_html(result.at_leakage(0.4))


# --- files --------------------------------------------------------------------------------------------


def test_the_file_is_written_whole(result, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    assert write_html(result, path) == path
    assert path.read_text(encoding="utf-8") == render_html(result)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_html(result, path, title="another")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_bad_paths_are_refused_before_anything_is_made(result, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("it was rendered")

    monkeypatch.setattr("outofcluster.present.report.html.render_html", fail)
    with pytest.raises(InputError, match=r"path must lie in a folder that exists, got '.*nowhere/report\.html'"):
        write_html(result, tmp_path / "nowhere" / "report.html")
    with pytest.raises(InputError, match="path must be a file, got the folder"):
        write_html(result, tmp_path)
    with pytest.raises(InputError, match=r"report must be a file that can be written, got '/proc/report.html': \w"):
        check_destination("report", "/proc/report.html")


def test_what_cannot_be_reported():
    with pytest.raises(InputError, match="result must be an Audit or a Summary, got dict"):
        render_html({})


def test_a_missing_extra_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'outofcluster\[report\]'"):
        render_html(result)

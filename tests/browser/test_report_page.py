"""The report in a real browser: the slider answers as ``at_leakage`` does, names are text, nothing leaves the page."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster._base.text import percentage
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.summary import Summary
from outofcluster.metrics.facts import MetricFacts
from outofcluster.present.report import render_html

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>&\"quoted\""

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(40), 10)
effect = rng.standard_normal((40, 3))[groups]
X = effect + 0.5 * rng.standard_normal((400, 3))
target = X[:, 0] + effect[:, 1] + 0.5 * rng.standard_normal(400)
label = (effect[:, 0] + rng.standard_normal(40)[groups] > 0).astype(int)


@pytest.fixture(scope="module")
def records():
    options = {"groups": groups, "leakage": 0.0857, "error_model": "records", "n_fits": 600, "random_state": 0}
    return ooc.audit(Ridge(), X, target, **options)


@pytest.fixture(scope="module")
def fragments():
    options = {"groups": groups, "leakage": 0.25, "error_model": "fragments", "n_fits": 200, "random_state": 0}
    return ooc.audit(LogisticRegression(), X, label, **options)


def answer(page):
    return page.eval_on_selector("#answer", "e => ({...e.dataset, words: e.textContent})")


def set_slider(page, rate):
    page.locator("#rate").fill(str(rate))


@pytest.mark.parametrize("name", ["records", "fragments"])
@pytest.mark.slow
def test_the_slider_answers_as_at_leakage_does(open_page, name, request):
    audit = request.getfixturevalue(name)
    page = open_page(render_html(audit))
    assert float(answer(page)["value"]) == pytest.approx(audit.corrected.value, abs=1e-3)
    for rate in (0.0, 0.033, 0.077, 0.15, 0.201, 0.3):
        set_slider(page, rate)
        found, expected = answer(page), audit.at_leakage(rate).corrected
        shown = [float(found[part]) for part in ("value", "low", "high")]
        assert shown == pytest.approx([expected.value, *expected.interval], abs=1e-3)
        assert page.locator("#rate-shown").inner_text() == percentage(round(rate, 3))
        assert (
            f"{float(found['value']):.4f} ({float(found['low']):.4f} to {float(found['high']):.4f})" in found["words"]
        )
    assert page.messages == []


def test_it_starts_at_the_assumed_rate_and_goes_back_there(open_page, records):
    page = open_page(render_html(records))
    assert float(answer(page)["rate"]) == 0.0857
    set_slider(page, 0.2)
    above = records.at_leakage(0.2).corrected.value - records.naive.value
    assert f", {above:.4f} above the loss as cross-validated." in answer(page)["words"]
    page.get_by_role("button", name="Back to the assumed rate").click()
    assert float(answer(page)["rate"]) == 0.0857


def test_the_keyboard_moves_the_slider(open_page, records):
    page = open_page(render_html(records))
    slider = page.get_by_role("slider", name="Leakage rate")
    slider.focus()
    before = float(answer(page)["rate"])
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert float(answer(page)["rate"]) == pytest.approx(before + 0.005, abs=6e-4)
    page.keyboard.press("Home")
    assert float(answer(page)["rate"]) == 0
    assert "as cross-validated." in answer(page)["words"]
    assert slider.get_attribute("aria-valuetext") == "0 %"
    page.keyboard.press("End")
    assert float(answer(page)["rate"]) == 0.3


def test_the_mark_follows_the_curve(open_page, records):
    page = open_page(render_html(records))
    places = []
    for rate in (0.05, 0.15, 0.25):
        set_slider(page, rate)
        dot = page.locator(".chart.wide .cursor-dot")
        places.append([float(dot.get_attribute(name)) for name in ("cx", "cy")])
    line = page.locator(".chart.wide polyline.fitted").first.get_attribute("points")
    curve = np.array([point.split(",") for point in line.split()], dtype=float)
    for x, y in places:
        assert np.interp(x, *curve.T) == pytest.approx(y, abs=0.3)
    assert places[0][0] < places[1][0] < places[2][0]


def test_hostile_names_are_shown_as_text_and_nothing_runs(open_page, records):
    hostile = replace(
        records.summary,
        estimator=HOSTILE,
        metric=MetricFacts(HOSTILE, HOSTILE),
        findings=(Finding(HOSTILE, "severe", HOSTILE, HOSTILE),),
        test={"sentence": HOSTILE},
    )
    page = open_page(render_html(hostile, title=HOSTILE, about={f"column {HOSTILE}": HOSTILE}))
    page.wait_for_timeout(200)
    assert page.messages == []
    assert page.title() == HOSTILE
    assert page.locator("main").inner_text().count(HOSTILE) >= 6
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
    set_slider(page, 0.1)
    assert float(answer(page)["rate"]) == 0.1


def test_even_a_script_that_got_in_would_not_run(open_page, records):
    html = render_html(records).replace("</main>", "<script>console.log('ran')</script></main>")
    page = open_page(html)
    page.wait_for_timeout(100)
    assert "ran" not in page.messages
    assert any("Content Security Policy" in message for message in page.messages)


def test_no_request_leaves_the_page(open_page, records):
    page = open_page(render_html(records))
    set_slider(page, 0.2)
    page.locator("details.rates summary").click()
    page.wait_for_timeout(200)
    assert len(page.requests) == 1
    assert page.requests[0].startswith("file:")
    outside = page.evaluate("fetch('https://example.com').then(() => 'sent', () => 'refused')")
    assert outside == "refused"


def test_the_numbers_can_be_saved(open_page, records):
    page = open_page(render_html(records))
    with page.expect_download() as saved:
        page.get_by_text("Save them").click()
    text = saved.value.path().read_text(encoding="utf-8")
    assert Summary.from_json(text) == records.summary
    assert json.loads(text)["naive"]["value"] == records.naive.value


@pytest.mark.parametrize("width", [320, 380, 1200])
@pytest.mark.parametrize(("name", "charts"), [("records", 2), ("fragments", 1)])
def test_nothing_is_wider_than_the_screen(open_page, request, name, charts, width):
    summary = replace(request.getfixturevalue(name).summary, unmixed=None)
    long = replace(summary, estimator="Pipeline(" + "x" * 300 + ")")
    page = open_page(render_html(long), viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = "narrow" if width < 600 else "wide"
    assert page.locator(f".chart.{shown}").first.is_visible()
    assert page.locator(".chart:visible").count() == charts
    size = page.evaluate(
        "Math.min(...[...document.querySelectorAll('.chart text')].filter(e => e.checkVisibility())"
        ".map(e => e.getBoundingClientRect().height))"
    )
    assert size >= 10


def test_dark_and_light(open_page, records):
    def contrasts(page):
        return page.evaluate("""() => {
            const luminance = (text) => {
                const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => {
                    const c = v / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
                return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
            const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            const behind = (e) => { while (e) { const c = getComputedStyle(e).backgroundColor;
                if (!c.endsWith(', 0)') && c !== 'transparent') return c; e = e.parentElement; } };
            const of = (s) => { const e = document.querySelector(s);
                return ratio(luminance(getComputedStyle(e).color), luminance(behind(e))); };
            return ['h1', '.lead', '.note', '.finding p', '.badge', '.finding code', 'output', 'summary', 'dt'].map(of);
        }""")

    pages = {scheme: open_page(render_html(records), color_scheme=scheme) for scheme in ("light", "dark")}
    for page in pages.values():
        assert min(contrasts(page)) >= 4.5
    background = "getComputedStyle(document.body).backgroundColor"
    assert pages["light"].evaluate(background) == "rgb(255, 255, 255)"
    assert pages["dark"].evaluate(background) != "rgb(255, 255, 255)"


def test_on_paper_the_table_stands_in_for_the_slider(open_page, records):
    page = open_page(render_html(records), color_scheme="dark")
    assert not page.locator("#rates tbody").is_visible()
    page.emulate_media(media="print")
    assert not page.locator(".live").is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.locator("#rates tbody tr").first.bounding_box()["height"] > 5


def test_without_scripts_there_is_no_dead_slider(open_page, records):
    page = open_page(render_html(records), script=False)
    assert not page.locator("#rate").is_visible()
    assert page.locator("h1").inner_text() == records.summary.headline
    page.locator("details.rates summary").click()
    assert page.locator("#rates tbody").is_visible()


def test_it_opens_in_under_a_second(open_page, fragments):
    page = open_page(render_html(fragments))
    milliseconds = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    assert milliseconds < 1000


def test_the_slider_drives_the_rows_of_the_table(open_page, records):
    page = open_page(render_html(records))

    def cells(row):
        return [page.locator(f"#{row}-row {part}").inner_text() for part in (".value", ".interval")]

    before = [cells(row) for row in ("corrected", "optimism")]
    set_slider(page, 0.2)
    at = records.at_leakage(0.2)
    value, (low, high) = at.corrected.value, at.corrected.interval
    assert cells("corrected") == [f"{value:.4f}", f"{low:.4f} to {high:.4f}"]
    assert page.locator("#corrected-row .name").inner_text() == "corrected for 20 % leakage"
    assert cells("optimism")[0] == f"{value - records.naive.value:.4f}"
    assert cells("optimism")[1] == "for the assumed rate only"
    page.get_by_role("button", name="Back to the assumed rate").click()
    assert [cells(row) for row in ("corrected", "optimism")] == before


def test_it_has_an_account_of_the_data_and_folded_seeds(open_page, fragments):
    page = open_page(render_html(fragments))
    said = page.locator("main").inner_text()
    assert fragments.table.clusters_in_words in said
    assert "class records share" in " ".join(said.split())
    assert not page.locator("details.machine dl").is_visible()
    assert page.locator(".axis-title:visible").count() == 2
    folds = page.locator("section[aria-labelledby=folds] tbody tr")
    corrected = [float(folds.nth(i).locator("td").nth(1).inner_text()) for i in range(5)]
    expected = [fragments.of_fold(place).corrected.value for place in range(5)]
    assert corrected == pytest.approx(expected, abs=1e-4)


@pytest.fixture(scope="module")
def without_rate():
    patients = ooc.datasets.make_patients(150, random_state=0)
    return ooc.audit(KNeighborsClassifier(3), patients.data, patients.target, groups=patients.groups, random_state=0)


def test_an_answer_without_a_rate_is_where_the_slider_starts(open_page, without_rate):
    page = open_page(render_html(without_rate))
    corrected = without_rate.corrected

    def shown():
        return [float(answer(page)[part]) for part in ("value", "low", "high")]

    assert shown() == [corrected.value, *corrected.interval]
    set_slider(page, 0.2)
    assert shown()[0] == pytest.approx(without_rate.at_leakage(0.2).corrected.value, abs=1e-3)
    assert page.locator("#corrected-row .name").inner_text() == "corrected for 20 % leakage"
    page.get_by_role("button", name="Back to what the records show").click()
    assert shown() == [corrected.value, *corrected.interval]
    assert page.locator("#corrected-row .name").inner_text() == "corrected for what the records show"
    assert page.locator("#parts tbody tr").count() == 1
    assert page.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_has_nothing_to_say(open_page, records, width, scheme):
    """The rules of axe-core, where npm has put it: npm install axe-core."""
    rules = Path(os.environ.get("OUTOFCLUSTER_AXE", "."), "node_modules", "axe-core", "axe.min.js")
    if not rules.is_file():
        pytest.skip("no axe-core on this machine: npm install axe-core, or name its folder in OUTOFCLUSTER_AXE")
    page = open_page(
        render_html(records), viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    page.evaluate(rules.read_text(encoding="utf-8"))
    broken = page.evaluate("axe.run(document).then((found) => found.violations.map((rule) => rule.id))")
    assert broken == []

"""The checklist: every number is the audit's, every guideline has its source, and the author is asked for the rest."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_prose import long_sentences

PATIENTS = ooc.datasets.make_patients(120, random_state=0)
SEX = np.where(PATIENTS.groups.astype(int) % 2, "f", "m")
ITEMS = {
    "TRIPOD+AI": ["10", "12a", "12c", "12d", "12e", "21", "23a", "23b", "26"],
    "REFORMS": ["3e", "6b", "7b", "7c", "8a", "8b"],
    "GUILD": ["Data provision", "Data linkage", "Analysis", "Report"],
}


def of_patients(**options):
    model = options.pop("model", KNeighborsClassifier(3))
    groups = {"groups": PATIENTS.groups, "cv": 3, "random_state": 0}
    return ooc.audit(model, PATIENTS.data, PATIENTS.target, **groups, **options)


def of_records(**options):
    rng = np.random.default_rng(0)
    ward = np.repeat(np.arange(6), 50)
    X = 2 * rng.standard_normal((6, 3))[ward] + rng.standard_normal((300, 3))
    options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "cv": 2, "random_state": 0} | options
    return ooc.audit(Ridge(), X, X[:, 0], groups=ward, **options)


@pytest.fixture(scope="module")
def pieces():
    return of_patients()


KINDS = {
    "records": of_records,
    "no rate": lambda: of_patients(leakage=None, n_fits=20),
    "AUC alone": lambda: of_patients(model=LogisticRegression(), scoring="roc_auc", n_fits=20),
    "two metrics": lambda: of_patients(model=LogisticRegression(), scoring=["roc_auc", "accuracy"], n_fits=20),
    "of one fold": lambda: of_patients(n_fits=20).of_fold(0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_audit_has_a_checklist(kind):
    result = KINDS[kind]()
    made = result.checklist()
    for guideline, source, items in made.guidelines:
        assert "doi:10." in source
        there = [item.number for item in items]
        assert there == [number for number in ITEMS[guideline] if number in there]
        assert set(ITEMS[guideline]) - set(there) <= ({"7c"} if result.test is None else set())
    assert not [item for item in made.items if not item.says and not item.you_must_say]
    text = made.to_markdown()
    assert "None" not in text
    assert "nan" not in text
    assert not long_sentences(text, 50)


def test_every_number_is_one_of_the_audit(pieces):
    made = pieces.checklist()
    results = " ".join(made["TRIPOD+AI", "23a"].says)
    for estimate in (pieces.naive, pieces.corrected, pieces.optimism):
        assert f"{estimate.value:.3f}" in results
    assert made["TRIPOD+AI", "23b"].says == tuple(pieces.spread().lines)
    width = pieces.corrected.interval[1] - pieces.corrected.interval[0]
    assert f"is {width:.3f} wide" in made["TRIPOD+AI", "10"].says[1]
    assert pieces.summary.verdict in made["GUILD", "Report"].says
    assert all(sentence in pieces.methods_text() for sentence in made["TRIPOD+AI", "26"].says)
    level = pieces.with_confidence(0.9)
    assert "90 % CI" in " ".join(level.checklist()["TRIPOD+AI", "23a"].says)


def test_subgroups_answer_for_themselves_and_are_asked_for_otherwise(pieces):
    by_sex = pieces.by(SEX)
    given, asked = pieces.checklist(by_sex), pieces.checklist(SEX)
    assert given == asked
    rows = given["TRIPOD+AI", "23a"].rows
    shown = [line.strip() for line in by_sex.lines if "no difference" not in line]
    assert len(rows) == len(shown) >= 3
    assert all(line in row for line, row in zip(shown, rows, strict=True))
    assert all(f"\n- {row}" in given.to_markdown() for row in rows)
    assert all(row in given.to_frame()["says"].str.cat() for row in rows)
    assert "leakage rate by subgroup" in given["GUILD", "Analysis"].says[-1]
    assert "by column" in pieces.checklist()["TRIPOD+AI", "23a"].you_must_say
    assert "by column" not in given["TRIPOD+AI", "23a"].you_must_say


def test_a_spread_that_cannot_be_told_is_said_with_its_reason():
    says = of_records().checklist()["TRIPOD+AI", "23b"].says
    assert says[0].startswith("The spread over clusters is not given: it needs at least 10 held-out clusters")
    metrics = KINDS["two metrics"]()
    assert metrics.checklist()["TRIPOD+AI", "23b"].says == tuple(metrics.metrics["accuracy"].spread().lines)


def test_markdown_has_a_place_for_every_answer_and_no_markup_from_names(pieces):
    made = pieces.checklist()
    asked = [item for item in made.items if item.you_must_say]
    assert made.to_markdown().count("**You must say:**") == made.to_markdown().count("\n> …") == len(asked)
    assert str(made) == made.to_markdown()
    odd = pieces.checklist(np.where(SEX == "f", "[x](http://evil)", "<b>`m`</b>\x1b[31m"))
    assert "\\[x](http://evil)" in odd.to_markdown()
    assert "\\<b>\\`m\\`\\</b>" in odd.to_markdown()
    assert "\x1b" not in odd.to_markdown()
    assert "<b>`m`" not in odd._repr_html_()


def test_a_table_and_plain_data_hold_the_same(pieces):
    made = pieces.checklist()
    frame = made.to_frame()
    assert list(frame.columns) == ["guideline", "item", "title", "says", "you_must_say", "source"]
    assert len(frame) == len(made.items)
    assert ooc.Checklist.from_dict(made.to_dict()) == made
    with pytest.raises(KeyError):
        made["TRIPOD+AI", "99"]


def test_look_ups_are_asked_about_where_there_are_some(pieces):
    answers = pieces.review_list(12, random_state=0).assign(same_as="none")
    looked_up = of_patients(reviewed=answers).checklist()["GUILD", "Data linkage"]
    assert "Who looked the clusters up" in looked_up.you_must_say
    assert "Who looked the clusters up" not in pieces.checklist()["GUILD", "Data linkage"].you_must_say


def test_a_file_of_an_audit_gives_the_same_checklist(pieces, tmp_path):
    pieces.save(tmp_path / "a.audit")
    assert ooc.Audit.load(tmp_path / "a.audit").checklist() == pieces.checklist()
    other = replace(pieces, confidence_level=0.8)
    assert other.checklist() != pieces.checklist()


def test_the_report_has_it_with_the_subgroups_that_were_asked_for(pieces):
    from outofcluster.present.report import render_html

    by_sex = pieces.by(SEX)
    page = render_html(pieces, answers={"by sex": by_sex})
    assert page.count('<details class="guideline">') == 3
    assert "12d: Heterogeneity across clusters" in page
    assert "The leakage rate by subgroup" in page
    assert '<details class="guideline">' not in render_html(pieces.summary)

"""What an audit says: numbers as plain data and back to the last bit, words, frames, and safe notebook fragments."""

import json
import re
import sys
from dataclasses import fields, replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer

import outofcluster as ooc
from ooc_test_results import with_samples
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.plain import plain
from outofcluster.auditing.effect_test import LeakageTest, evaluate_effect
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.result import Audit
from outofcluster.auditing.summary import Summary
from outofcluster.auditing.summary_parts import MetricSummary
from outofcluster.inference.estimates import Estimate, Sensitivity, between
from outofcluster.metrics.facts import MetricFacts, known_facts
from outofcluster.sampling.audit_samples import UNCAUGHT, EffectLosses, FoldSizes, RandomFolds

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(30), 10)
effect = rng.standard_normal((30, 3))[groups]
X = effect + 0.5 * rng.standard_normal((300, 3))
target = X[:, 0] + effect[:, 1] + 0.5 * rng.standard_normal(300)
label = (effect[:, 0] + rng.standard_normal(30)[groups] > 0).astype(int)
MADE_BY = re.escape(f"outofcluster {ooc.__version__}")
HOSTILE = "<script>alert('x')</script> & \"quotes\""


def audit(estimator=None, y=None, **options):
    given = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 300, "random_state": 0} | options
    if given.get("error_model") != "fragments":
        given = {"curve": ooc.PolynomialCurve(2)} | given
    return ooc.audit(Ridge() if estimator is None else estimator, X, target if y is None else y, **given)


AUDITS = {
    "records": {},
    "no rate": {"leakage": None},
    "uncertain": {"leakage": ooc.Leakage(0.1, std=0.02)},
    "a rate a fold": {"leakage": [0.0, 0.05, 0.1, 0.15, 0.2]},
    "fragments": {"error_model": "fragments", "estimator": LogisticRegression(), "y": label},
    "units": {"units": "records", "loss": "absolute_error"},
    "not linear": {"curve": ooc.CompletelyMonotoneCurve()},
    "few fits": {"n_fits": 60},
    "scorer": {"loss": get_scorer("r2")},
    "no test": {"cv": 15, "n_train": 100},
}


@pytest.fixture(scope="module")
def results():
    return cache(lambda name: audit(**AUDITS[name]))


@pytest.fixture(scope="module")
def result(results):
    return results("records")


def strictly(text):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


# --- plain data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUDITS)
def test_json_and_back_to_the_last_bit(results, name):
    summary = results(name).summary
    written = summary.to_json()
    plain = strictly(written)
    assert plain == summary.to_dict()
    again = Summary.from_json(written)
    assert again == summary
    assert again.to_json() == written
    assert (str(again), again._repr_html_()) == (str(summary), summary._repr_html_())
    for part in fields(Summary):
        assert type(getattr(again, part.name)) is type(getattr(summary, part.name)), part.name
    for part in (
        "metric",
        "optimism",
        "leakage",
        "bias",
        "by_fold",
        "levels",
        "losses",
        "findings",
        "versions",
        "curve",
    ):
        assert getattr(again, part) == getattr(summary, part), part


def test_a_different_number_is_a_different_summary(result):
    summary = result.summary
    assert summary != replace(summary, losses=(*summary.losses[:-1], np.nextafter(summary.losses[-1], 1)))
    assert summary != summary.to_dict()
    assert result.summary is summary


def test_the_numbers_are_those_of_the_audit(result):
    plain = strictly(result.to_json())
    assert plain["schema"] == 5
    assert plain["version"] == ooc.__version__
    assert plain["estimator"] == "Ridge()"
    assert plain["metric"] == {
        "name": "squared_error",
        "label": "mean squared error",
        "greater_is_better": False,
        "range": [0, None],
        "pool": "records",
    }
    assert plain["optimism"]["interval"] == list(result.optimism.interval)
    assert plain["headline"] == result.summary.headline
    assert plain["leakage"] == [{"rate": 0.1, "std": None, "of": "train", "bound": None}] * 5
    assert plain["naive"]["interval"] == list(result.naive.interval)
    assert plain["corrected"]["value"] - plain["naive"]["value"] == plain["bias"] == result.bias
    assert (plain["folds"], plain["fits"]) == (5, 300)
    assert plain["test"]["pvalue"] == result.test.pvalue
    assert plain["test"]["sentence"] == result.test.sentence
    assert plain["findings"][0] == {
        "code": result.findings[0].code,
        "severity": result.findings[0].severity,
        "message": result.findings[0].message,
        "remedy": result.findings[0].remedy,
    }
    assert plain["versions"]["numpy"] == np.__version__
    old = "schema loss error_model units estimand curve_method confidence_level leakage naive iid corrected bias test"
    old += " levels losses standard_errors folds fits findings"
    assert set(plain) >= set(old.split())


def test_fold_by_fold(result):
    by_fold = result.summary.by_fold
    for fold, run in zip(by_fold, result.samples.folds, strict=True):
        assert (fold.n_train, fold.n_validation) == (240, 60)
        assert fold.naive == run.own_losses.mean()
        assert fold.seeds == run.main.seeds
    assert np.mean([fold.naive for fold in by_fold]) == pytest.approx(result.naive.value)


def test_fits_that_are_scored_twice_count_once(results):
    """The pieces that would not be caught are scored by the same models as all pieces."""
    result = results("fragments")
    assert all(UNCAUGHT in fold.runs for fold in result.samples.folds)
    assert result.summary.fits == 300
    assert all(len(fold.seeds) == 1 for fold in result.summary.by_fold)


def test_the_curve_that_is_drawn(result):
    """The polynomial through the pooled losses, fitted by hand, from no leakage to the highest level."""
    summary, curve = result.summary, result.summary.curve
    p = 0.1 + 0.9 * np.array(summary.levels)
    q = np.polynomial.Polynomial.fit(p, summary.losses, 2, w=1 / np.array(summary.standard_errors))
    np.testing.assert_allclose(curve.at, p)
    np.testing.assert_allclose(curve.observed, summary.losses)
    np.testing.assert_allclose(curve.loss, q(np.array(curve.p)), rtol=1e-9)
    assert (curve.p[0], curve.p[-1]) == (0, curve.at[-1])
    assert curve.loss[0] == pytest.approx(result.curve.e0_)


def test_the_sensitivity_of_a_summary(result, results):
    table = result.summary.sensitivity
    np.testing.assert_allclose(table.rates, np.arange(0, 0.5001, 0.005))
    assert (table.values[20], table.low[20], table.high[20]) == (result.corrected.value, *result.corrected.interval)
    assert results("no rate").summary.sensitivity == table
    # What is uncertain about the rate is not in an interval that takes each rate as known.
    assert results("uncertain").summary.sensitivity == table


@pytest.mark.slow
def test_the_sensitivity_where_each_rate_needs_a_resampling(results):
    curved = results("not linear")
    table = curved.summary.sensitivity
    assert len(table.rates) == 8
    assert (table.values[0], table.low[0], table.high[0]) == (curved.naive.value, *curved.naive.interval)
    at = int(np.flatnonzero(table.rates == 0.1)[0])
    assert (table.values[at], table.low[at], table.high[at]) == (curved.corrected.value, *curved.corrected.interval)
    exact = curved.sensitivity([0.2])
    at = int(np.flatnonzero(table.rates == 0.2)[0])
    assert table.values[at] == exact.values[0]
    assert table.high[at] - table.low[at] == pytest.approx(exact.high[0] - exact.low[0], rel=0.5)
    off = curved.at_leakage(0.07).summary.sensitivity
    assert len(off.rates) == 9
    assert 0.07 in off.rates
    assert (np.diff(off.rates) > 0).all()


def test_a_method_that_cannot_be_solved_loses_the_sensitivity_only():
    """Minus a score is negative, which a completely monotone curve cannot be."""
    impossible = audit(loss=get_scorer("r2"), curve=ooc.CompletelyMonotoneCurve(), leakage=None)
    assert impossible.pooled.naive < 0 < impossible.naive.value
    assert impossible.summary.sensitivity is None
    assert Summary.from_json(impossible.to_json()) == impossible.summary


def without(key):
    return lambda plain: plain.pop(key)


def changed(key, value):
    return lambda plain: plain.update({key: value})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (changed("schema", 1), f"data must follow schema 5, as {MADE_BY} does, got 1, written by {MADE_BY}"),
        (changed("schema", True), "data must follow schema 5, as outofcluster .* does, got True"),
        (without("schema"), f"data must follow schema 5, .* got None, written by {MADE_BY}"),
        (without("naive"), "data of a summary must be as to_dict gives it, but 'naive' is missing"),
        (changed("naive", 0.3), "data of an estimate must be as to_dict gives it"),
        (changed("naive", {"value": 0.3}), "data of an estimate .* but 'interval' is missing"),
        (changed("iid", {"value": 1, "interval": [0, 1, 2], "se_data": 0, "se_monte_carlo": 0}), "of an estimate"),
        (changed("estimator", 3), "data of a summary .* 3 is not a string"),
        (changed("metric", {"name": "roc_auc"}), "data of a summary .* is missing"),
        (changed("losses", "abc"), "data of a summary .* 'abc' is not a list"),
        (changed("losses", [True]), "data of a summary .* True is not a number"),
        (changed("losses", [10**400]), "data of a summary must be as to_dict gives it"),
        (changed("leakage", [{"rate": 2.0}]), "rate must lie in"),
        (changed("leakage", [{"share": 0.1}]), "data of a Leakage must be as to_dict gives it"),
        (changed("by_fold", [{}]), "data of a summary .* but 'fold' is missing"),
        (changed("by_fold", []), "a fold holds out no record"),
        (changed("leakage", []), "there are 0 rates for [0-9]+ folds"),
        (changed("leakage", None), "something is corrected, but for no rate"),
        (lambda plain: plain["test"].update(pvalue=2), "data of a leakage test .* 2 does not lie in"),
        (lambda plain: plain["sensitivity"]["metric"].update(label=3), "data of a sensitivity .* 3 is not a string"),
        (changed("findings", [{"code": "x", "severity": "odd", "message": "", "remedy": ""}]), "'odd' is none of"),
        (changed("test", {}), "data of a summary .* but 'sentence' is missing"),
        (lambda plain: plain["sensitivity"].update(values=[]), "its lists differ in length"),
        (
            changed("metric", {**plain(known_facts("brier")), "range": [0]}),
            "data of a summary must be as to_dict gives it",
        ),
    ],
    ids=lambda value: value.replace(" ", "-")[:40] if isinstance(value, str) else "",
)
def test_other_schemas_and_malformed_data_are_refused_in_one_sentence(result, spoil, message):
    plain = strictly(result.to_json())
    spoil(plain)
    with pytest.raises(InputError, match=message) as caught:
        Summary.from_json(json.dumps(plain))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "text must be JSON as to_json writes it, but it cannot be read: Expecting property name"),
        ('{"schema": NaN}', "NaN is not JSON"),
        ("[1]", "text must be JSON as to_json writes it, an object, got a list"),
        (None, "text must be JSON as to_json writes it"),
        ("[" * 100_000, "text must be JSON as to_json writes it"),
    ],
    ids=["broken", "not strict", "list", "none", "deep"],
)
def test_text_that_is_not_json_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        Summary.from_json(text)


def test_data_that_is_no_dict_is_refused():
    with pytest.raises(InputError, match="data must be a dict as to_dict gives it, got list"):
        Summary.from_dict([])


# --- estimates and sensitivities ------------------------------------------------------------------------


def test_an_estimate_and_back(result):
    for estimate in (result.naive, result.iid, result.corrected):
        assert Estimate.from_dict(json.loads(json.dumps(estimate.to_dict()))) == estimate
    unknown = Estimate(0.3, (np.nan, np.nan), np.nan, 0.1)
    plain = {"value": 0.3, "interval": [None, None], "se_monte_carlo": None, "se_data": 0.1, "confidence_level": 0.95}
    assert unknown.to_dict() == plain
    again = Estimate.from_dict(unknown.to_dict())
    assert np.isnan([*again.interval, again.se_monte_carlo]).all()
    assert str(again) == "0.3000 (interval unknown)"


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (0.38172, (0.312, 0.4561), "0.3817 (0.3120 to 0.4561)"),
        (81234.56, (79000.0, 83000.0), "81235 (79000 to 83000)"),
        (71.256, (60.0, 80.0), "71.3 (60.0 to 80.0)"),
        (2.345e-6, (2.1e-6, 2.6e-6), "0.000002345 (0.000002100 to 0.000002600)"),
        (0.0, (0.0, 0.0), "0.0000 (0.0000 to 0.0000)"),
    ],
)
def test_decimals_suit_the_interval(value, interval, text):
    assert str(Estimate(value, interval, 0.0, 0.0)) == text


def test_no_interval_is_printed_as_one_from_zero_to_zero():
    small = Estimate(1e-8, (-2e-8, 4.1e-8), 0.0, 0.0)
    assert between(small, 4) == "−0.00000002 to 0.00000004"
    assert between(replace(small, interval=(0.0, 0.0)), 4) == "0.0000 to 0.0000"


def test_a_sensitivity_and_back(result):
    table = result.sensitivity(np.linspace(0, 0.3, 31))
    again = Sensitivity.from_dict(json.loads(json.dumps(table.to_dict())))
    assert again == table
    assert again != result.sensitivity([0.1])
    assert table != 3
    lines = str(table).splitlines()
    assert len(lines) == 12
    assert lines[1].split() == f"0 % {result.at_leakage(0.0).corrected}".split()
    assert lines[-1].startswith("    30 %")
    assert table.to_frame().columns.tolist() == ["rate", "value", "low", "high"]


@pytest.mark.parametrize(("rate", "text"), [(-0.1, "-0.1"), (0.6, "0.6")])
def test_rates_out_of_range_are_refused(result, rate, text):
    with pytest.raises(InputError, match=f"rates must lie between 0 and 0.5, got {text}"):
        result.sensitivity([0.1, rate])


# --- frames ---------------------------------------------------------------------------------------------


def test_frames(result, results):
    table = result.to_frame()
    assert table.columns.tolist() == [
        *("estimate", "value", "low", "high", "se_monte_carlo", "se_data", "confidence_level")
    ]
    assert table["estimate"].tolist() == ["naive", "iid", "corrected", "optimism"]
    for place, estimate in ((-2, result.corrected), (-1, result.optimism)):
        row = table.iloc[place]
        assert (row["value"], row["low"], row["high"]) == (estimate.value, *estimate.interval)
        assert (row["se_monte_carlo"], row["se_data"]) == (estimate.se_monte_carlo, estimate.se_data)
    assert results("no rate").to_frame()["estimate"].tolist() == ["naive", "iid"]
    assert result.summary.to_frame().equals(table)
    models = result.test.to_frame()
    assert models.columns.tolist() == ["split", "trained_on", "loss"]
    assert len(models) == 2 * result.test.losses_train.size
    means = models.groupby("trained_on")["loss"].mean()
    assert means["other clusters"] - means["the same clusters"] == pytest.approx(result.test.difference)


def test_frames_without_pandas(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for found in (result, result.summary, result.test, result.sensitivity([0.1])):
        with pytest.raises(MissingExtraError, match=r"to_frame\(\) needs pandas: pip install 'outofcluster\[pandas\]'"):
            found.to_frame()


# --- words ----------------------------------------------------------------------------------------------


def test_the_text(result):
    lines = str(result).splitlines()
    assert " ".join(lines[: lines.index("")]) == result.summary.headline
    lines = lines[lines.index("") - 1 :]
    assert (
        "Mean squared error of ridge regression over 5 folds: 300 held-out records, 300 models fitted to resamples."
        in " ".join(lines)
    )
    assert lines[2].split() == ["mean", "squared", "error", "95", "%", "interval"]
    for line, name, estimate in zip(
        lines[3:7],
        ("cross-validated as it is", "random folds, no clusters", "corrected for 10 % leakage", "optimism"),
        (result.naive, result.iid, result.corrected, result.optimism),
        strict=True,
    ):
        assert line.startswith(f"  {name} ")
        assert line.removeprefix(f"  {name}").split() == str(estimate).replace("(", "").replace(")", "").split()
    text = " ".join(str(result).split())
    explained = " ".join(result.explain().split())
    assert f"Cross-validation may be too optimistic by {result.optimism.value:.3f} (" in text
    assert "It is assumed that 10 % of the training records belong to held-out clusters, taken as known." in text
    assert (
        "Intervals are 95 %, for new clusters of the population. They allow for another sample of clusters in"
        in explained
    )
    assert f"cluster effect was found (p = {result.test.pvalue:.2g})" in text
    for finding in result.findings:
        full = explained if finding.severity == "info" else text
        assert f"{finding.code}: {finding.message} -> {finding.remedy}" in full
    assert max(map(len, lines)) <= 110


def test_findings_are_grouped_by_severity(result):
    found = [
        Finding("a", "severe", "Bad.", "Mend it."),
        Finding("b", "warning", "Hm.", ""),
        Finding("c", "info", "So.", ""),
    ]
    summary = replace(result.summary, findings=tuple(found))
    assert "\n\nSevere\n  a: Bad.\n    -> Mend it.\n\nWarnings\n  b: Hm.\n\n" in str(summary)
    assert " ".join(str(summary).split()).endswith("Notes (c): see explain().")
    assert summary.explain().endswith("\n\nNotes\n  c: So.")
    assert " ".join(str(replace(summary, findings=())).split()).endswith("Details: see explain().")


def test_the_text_of_other_audits(results):
    text = " ".join(str(results("no rate")).split())
    assert "Without a leakage rate there is no corrected loss; sensitivity() shows it over a range of rates." in text
    assert "corrected for" not in text
    assert "It is assumed" not in text
    text = " ".join(str(results("uncertain")).split())
    assert "held-out clusters, give or take 2 %, which the interval includes." in text
    text = " ".join(str(results("a rate a fold")).split())
    assert "It is assumed that 10 % (0 % to 20 % over the folds) of the training records" in text
    text = " ".join(str(results("fragments")).split())
    assert "10 % of the held-out records have a piece of their cluster in training" in text
    text = " ".join(results("units").explain().split())
    assert "for these held-out clusters. They allow for other records of these clusters only" in text
    untested = results("no rate")
    samples = replace(untested.samples, effect=None, effect_problem="too few records.")
    assert "no-test: " in str(with_samples(untested, samples))


def said(summary, value, low, high, **changes):
    return replace(summary, optimism=Estimate(value, (low, high), 0.0, 0.05), **changes).verdict


def test_the_verdict_follows_from_the_optimism(result):
    summary = result.summary
    assert said(summary, 0.021, 0.004, 0.038) == "Cross-validation is too optimistic by 0.0210 (0.0040 to 0.0380)."
    assert said(summary, 0.021, -0.004, 0.046) == (
        "Cross-validation may be too optimistic by 0.0210 (−0.0040 to 0.0460); the interval includes 0."
    )
    assert said(summary, -0.03, -0.05, -0.01) == "Cross-validation is too pessimistic by 0.0300 (0.0100 to 0.0500)."
    assert said(summary, -0.03, -0.07, 0.01) == (
        "Cross-validation may be too pessimistic by 0.0300 (−0.0100 to 0.0700); the interval includes 0."
    )
    assert said(summary, 0.0, 0.0, 0.0) == "Cross-validation needs no correction at this leakage rate."
    assert said(summary, -1e-9, -0.01, 0.01) == (
        "No optimism of cross-validation is seen: it is 0.0000 (−0.0100 to 0.0100), and the interval includes 0."
    )
    # An interval that just misses 0 is not printed as one that begins there.
    assert said(summary, 0.02, 0.00002, 0.04) == "Cross-validation is too optimistic by 0.02000 (0.00002 to 0.04000)."
    assert "not known" in said(summary, 0.02, np.nan, np.nan)
    # Nothing else counts: neither the values themselves nor the metric's direction.
    other = replace(summary, corrected=replace(summary.corrected, value=9.0), bias=-3.0, metric=known_facts("roc_auc"))
    assert said(other, 0.021, 0.004, 0.038) == said(summary, 0.021, 0.004, 0.038)


def test_a_score_is_shown_in_its_own_sign(result):
    """An audit of the same losses, called minus a score, says the same with the sign turned, everywhere."""
    facts = MetricFacts("score", "score", greater_is_better=True, range=(-np.inf, 0.0))
    pooled = replace(result.pooled, samples=replace(result.samples, metric=facts))
    score = replace(result, pooled=pooled)
    for name in ("naive", "iid", "corrected"):
        mine, theirs = getattr(score, name), getattr(result, name)
        assert mine.value == -theirs.value
        assert mine.interval[0] < mine.value < mine.interval[1]
        assert (mine.se_data, mine.se_monte_carlo) == (theirs.se_data, theirs.se_monte_carlo)
    assert score.optimism.value == result.optimism.value > 0
    assert score.bias == -result.bias
    assert score.value_at(0.2) == -result.value_at(0.2) == score.at_leakage(0.2).corrected.value
    middle = (result.value_at(0.1) + result.value_at(0.2)) / 2
    mine, theirs = score.tipping_point(-middle), result.tipping_point(middle)
    assert (mine.rate, mine.interval) == (theirs.rate, theirs.interval)
    assert 0.1 < mine.rate < 0.2
    assert score.tipping_point(0.0).rate == 0.0
    table = score.sensitivity([0.0, 0.1])
    np.testing.assert_array_equal(table.values, -result.sensitivity([0.0, 0.1]).values)
    assert (table.low < table.high).all()
    mine, theirs = score.summary, result.summary
    np.testing.assert_array_equal(mine.losses, -np.array(theirs.losses))
    np.testing.assert_array_equal(mine.curve.loss, -np.array(theirs.curve.loss))
    np.testing.assert_array_equal([f.naive for f in mine.by_fold], [-f.naive for f in theirs.by_fold])
    assert mine.headline.startswith(f"Score −{result.naive.value:.3f} → −{result.corrected.value:.3f} on new clusters.")
    assert "minus" not in str(score)
    assert "loss" not in str(table)


def test_several_metrics_are_one_table(result):
    facts = MetricFacts("score", "score", greater_is_better=True)
    rows = (
        MetricSummary(result.metric, result.naive, result.corrected, result.optimism),
        MetricSummary(facts, result.naive, None, None),
    )
    summary = replace(result.summary, metrics=rows)
    lines = str(summary).splitlines()
    header = next(place for place, line in enumerate(lines) if line.split()[-2:] == ["corrected", "optimism"])
    assert lines[header + 1].split()[:3] == ["mean", "squared", "error"]
    assert str(result.corrected) in lines[header + 1]
    assert lines[header + 2].split() == ["score", *str(result.naive).split()]
    assert str(result.optimism.value)[:5] in summary._repr_html_()
    assert Summary.from_json(summary.to_json()) == summary


def test_printing_computes_no_sensitivity(monkeypatch):
    fresh = audit(n_fits=100)

    def fail(*_, **__):
        raise AssertionError("a sensitivity was computed")

    monkeypatch.setattr(Audit, "sensitivity", fail)
    monkeypatch.setattr(Audit, "_overview", fail)
    assert "cross-validated" in str(fresh)
    assert "cross-validated" in fresh._repr_html_()
    assert len(fresh.to_frame()) == 4
    with pytest.raises(AssertionError, match="a sensitivity was computed"):
        fresh.to_json()


def test_the_text_of_a_summary_is_the_audits(result):
    assert str(result.summary) == str(result)


def test_repr_is_short_and_equality_does_not_fail(result):
    assert repr(result).startswith("Audit(leakage=(Leakage(rate=0.1")
    assert len(repr(result)) < 1000
    assert len(repr(result.summary)) < 1500
    assert result == result
    assert result != result.at_leakage(0.2)


def test_long_estimators_are_cut_in_the_title(result):
    title = replace(result.summary, estimator="Own" + "x" * 200 + "()").title
    assert title.startswith("Mean squared error of ownxxx")
    assert "xxx... over 5 folds" in title


def test_the_answer_comes_first_and_explain_has_the_rest(result):
    blocks = str(result).split("\n\n")
    summary = result.summary
    assert " ".join(blocks[0].split()) == summary.headline
    assert "cross-validated as it is" in blocks[1]
    assert " ".join(blocks[-1].split()) == f"{summary.title} {summary.standing()}"
    explained = " ".join(result.explain().split())
    assert summary.notes
    for finding in summary.notes:
        assert finding.message not in " ".join(str(result).split())
        assert finding.code in str(result)
        assert f"{finding.code}: {finding.message}" in explained
    for line in summary.sentences[1:]:
        assert line in explained
    assert summary.notes + summary.loud == tuple(sorted(summary.findings, key=lambda finding: finding in summary.loud))
    without = replace(result, leakage=None)
    assert "no-rate" in {finding.code for finding in without.summary.loud}


# --- the leakage test -------------------------------------------------------------------------------------


def test_a_leakage_test_and_back(result):
    size = FoldSizes(3, 3, 10, 10)
    sides = [(np.full((2, 3), a), np.full((2, 3), 0.1)) for a in (0.1, 0.3, 0.0)]
    flat = [evaluate_effect(EffectLosses(z, other, size), "zero_one") for z, other in sides]
    for test in (result.test, *flat):
        again = LeakageTest.from_dict(strictly(test.to_json()))
        assert again == test
        assert (again.statistic, again.pvalue, str(again)) == (test.statistic, test.pvalue, str(test))
        assert LeakageTest.from_json(test.to_json()) == test
    assert flat[0] != flat[1]
    assert flat[0] != "test"
    assert LeakageTest.from_dict(result.summary.test) == result.test
    with pytest.raises(InputError, match=r"data must follow schema 2, .* got 7, of unknown origin"):
        LeakageTest.from_dict(result.test.to_dict() | {"schema": 7})
    with pytest.raises(InputError, match="data of a leakage test must be as to_dict gives it, but 'sizes' is missing"):
        LeakageTest.from_dict({key: value for key, value in result.test.to_dict().items() if key != "sizes"})


def test_the_leakage_test_in_one_sentence():
    size = FoldSizes(2, 2, 20, 10)
    noise = np.array([[0.01, -0.01]] * 3)
    found = evaluate_effect(EffectLosses(0.4 + noise, 0.2 + noise, size), "zero_one", alpha=0.05)
    assert found.sentence.endswith("): there is something for leakage to act on.")
    none = evaluate_effect(EffectLosses(0.2 + noise, 0.2 + noise, size), "zero_one", alpha=0.05)
    found = f"one of {none.detectable:.3g} would have been found with a probability of 80 %."
    assert none.sentence.startswith("No cluster effect was found (p = 0.5, power 5 %")
    assert none.sentence.endswith(f"); {found}")
    flat = evaluate_effect(EffectLosses(0 * noise, 0 * noise, size), "zero_one", alpha=0.05)
    assert flat.sentence.startswith("No cluster effect was found (p = 1, power 0 %")
    assert flat.sentence.endswith("), from losses that do not vary.")


# --- notebooks --------------------------------------------------------------------------------------------

VOID = {"line", "circle", "polygon", "polyline"}


class Reader(HTMLParser):
    """Checks that elements close in order; gathers tags and text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.text.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    assert html.startswith('<div class="outofcluster"><style>')
    assert "http" not in html
    return reader.tags, " ".join("".join(reader.text).split())


def test_fragments_say_what_the_text_says(result):
    tags, text = read(result._repr_html_())
    summary = result.summary
    for line in (summary.title, summary.headline, summary.assumption, summary.scope, result.test.sentence):
        assert line in text
    for finding in result.findings:
        assert f"{finding.code}: {finding.message} {finding.remedy}" in text
    assert f"{result.corrected.value:.4f}" in text
    assert tags <= {
        "div",
        "style",
        "p",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "svg",
        "line",
        "circle",
    } | {
        "details",
        "summary",
    }
    for finding in result.findings:
        assert f'class="finding {finding.severity}"' in result._repr_html_()
    with_band, _ = read(summary._repr_html_())
    assert {"polygon", "polyline"} <= with_band


def test_every_fragment_is_well_formed(results):
    for name in AUDITS:
        found = results(name)
        read(found._repr_html_())
        read(found.summary._repr_html_())
        read(found.naive._repr_html_())
        if found.test is not None:
            assert found.test.outcome in read(found.test._repr_html_())[1]
    _, text = read(results("records").sensitivity([0.0, 0.1])._repr_html_())
    assert "10 %" in text
    unknown = Sensitivity([0.0, 0.1], [0.2, 0.3], [np.nan, np.nan], [np.nan, np.nan])
    assert "interval unknown" in read(unknown._repr_html_())[1]


def test_hostile_names_are_shown_and_not_run(result):
    finding = Finding(HOSTILE, "severe", HOSTILE, HOSTILE)
    test = replace(result.test, loss=HOSTILE)
    hostile = replace(
        result.summary,
        metric=MetricFacts(HOSTILE, HOSTILE),
        estimator=HOSTILE,
        estimand=HOSTILE,
        findings=(finding,),
        test=test.to_dict() | {"sentence": HOSTILE},
    )
    for html in (hostile._repr_html_(), test._repr_html_(), Summary.from_json(hostile.to_json())._repr_html_()):
        tags, text = read(html)
        assert "script" not in tags
        assert "<script" not in html
        assert HOSTILE in text


def test_fragments_follow_the_theme(result):
    html = result._repr_html_()
    assert "prefers-color-scheme:dark" in html
    assert "[data-theme=dark] .outofcluster" in html
    assert "currentColor" in html
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    selectors = [rule.split("{")[0] for rule in style.replace("@media (prefers-color-scheme:dark){", "").split("}")]
    assert all(".outofcluster" in part for rule in selectors if rule for part in rule.split(","))


def test_a_rounding_error_beyond_the_range_turns_no_interval_around(result):
    """The weighted losses of a model that is always wrong have a mean that may be 1 and a bit."""
    beyond = RandomFolds(np.arange(50), np.full(50, np.nextafter(1.0, 2.0)))
    samples = replace(result.samples, random_folds=beyond, metric=known_facts("zero_one"))
    estimate = replace(result, pooled=replace(result.pooled, samples=samples)).iid
    assert (estimate.value, estimate.interval) == (1.0, (1.0, 1.0))

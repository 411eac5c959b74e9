"""Summaries: losses below the leakage rate, the rate from the records and the range, as data, in words and as JSON."""

from dataclasses import replace

import pytest

import outofcluster as ooc
from ooc_test_results import audit, split, unmixed
from outofcluster._base.exceptions import InputError
from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import Estimate
from outofcluster.metrics.facts import known_facts


@pytest.fixture(scope="module")
def result():
    return unmixed()


@pytest.fixture(scope="module")
def plain():
    return unmixed(unmix=False)


# --- the summary --------------------------------------------------------------------------------------


def test_the_summary_holds_what_the_audit_knows(result):
    summary = result.summary
    run = result.samples.folds[0].runs["unmixed"]
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
    said = "By what the records show, 9.8 % of the training records belong to held-out clusters (at most 12 %)."
    assert summary.from_records == said
    assert " the loss lies between 1.5" in summary.without_curve
    assert summary.sentences[:3] == (summary.verdict, said, summary.without_curve)
    assert said in str(summary)
    assert said in summary._repr_html_()
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


def with_corrected(summary, value, optimism, low, high, **changes):
    return replace(
        summary,
        naive=Estimate(0.35, (0.3, 0.4), 0.0, 0.02),
        iid=Estimate(0.3, (0.25, 0.35), 0.0, 0.02),
        corrected=Estimate(value, (value - 0.07, value + 0.07), 0.0, 0.05),
        optimism=Estimate(optimism, (low, high), 0.0, 0.05),
        **changes,
    )


def test_the_headline():
    summary = audit().summary
    assert with_corrected(summary, 0.38, 0.03, 0.01, 0.05).headline == (
        "Mean squared error 0.350 → 0.380 on new clusters. Cross-validation is too optimistic by 0.030 (0.010 to "
        "0.050)."
    )
    assert with_corrected(summary, 0.38, 0.03, -0.01, 0.07).headline == (
        "Mean squared error 0.350 → 0.380 on new clusters. Cross-validation may be too optimistic by 0.030 (−0.010 to "
        "0.070); the interval includes 0."
    )
    auc = with_corrected(summary, 0.32, 0.03, 0.01, 0.05, metric=known_facts("roc_auc"))
    assert auc.headline == (
        "AUC 0.350 → 0.320 on new clusters. Cross-validation is too optimistic by 0.030 (0.010 to 0.050)."
    )
    assert "had nothing leaked" in replace(auc, units="records").headline
    assert replace(auc, corrected=None, optimism=None).headline.startswith("AUC 0.350 by cross-validation; how far")

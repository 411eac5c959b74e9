"""Every pitfall has a finding, and a sound audit has none that alarms."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster._base.text import percentage
from outofcluster.auditing.checks import CHECKS, CODES
from outofcluster.auditing.findings import Remark, check
from outofcluster.problem.account import TableAccount

rng = np.random.default_rng(0)
clusters = np.repeat(np.arange(40), 25)
level = rng.standard_normal((40, 4))
X = level[clusters] + 0.5 * rng.standard_normal((1000, 4))
target = X[:, 0] + level[clusters, 1] + 0.5 * rng.standard_normal(1000)
plain_target = X[:, 0] + 0.5 * rng.standard_normal(1000)
small = np.repeat(np.arange(250), 4)


def by_code(result):
    return {finding.code: finding for finding in result.findings}


def codes(estimator=None, y=target, **options):
    given = {"groups": clusters, "leakage": 0.05, "n_fits": 300, "random_state": 0} | options
    return by_code(ooc.audit(Ridge() if estimator is None else estimator, X, y, **given))


@pytest.fixture(scope="module")
def plain_audit():
    options = {"groups": clusters, "leakage": 0.05, "n_fits": 60, "unmix": False, "random_state": 0}
    return ooc.audit(Ridge(), X, target, **options)


def with_samples(result, **changes):
    return replace(result, pooled=replace(result.pooled, samples=replace(result.samples, **changes)))


def test_every_check_has_a_code_of_its_own_and_says_what_it_stands_for():
    assert len(CODES) == len(CHECKS)
    assert all(text.endswith(".") for text in CODES.values())


@pytest.mark.parametrize(
    ("options", "error_model", "leakage", "looks"),
    [
        ({}, "fragments", (), True),
        ({"only": "records"}, "records", (), True),
        ({"only": "records"}, "fragments", (), False),
        ({"needs_rate": True}, "records", (), False),
        ({"needs_rate": True}, "records", (ooc.Leakage(0.1),), True),
    ],
)
def test_a_check_looks_only_at_audits_that_it_is_for(options, error_model, leakage, looks):
    seen = check("odd", **options)(lambda context: iter([Remark("info", "It is odd.")]))
    context = SimpleNamespace(samples=SimpleNamespace(error_model=error_model), leakage=leakage)
    assert seen.findings(context) == ([ooc.Finding("odd", "info", "It is odd.", "")] if looks else [])


def test_the_most_severe_findings_come_first_and_keep_the_order_of_the_checks(plain_audit):
    changed = with_samples(plain_audit, left_out={7: "it is empty", 8: "it is full"}, fold_sizes=(510, 100, 200, 190))
    found = [(finding.severity, finding.code) for finding in changed.findings]
    assert found[:3] == [("severe", "fold-left-out"), ("severe", "fold-left-out"), ("warning", "unbalanced-folds")]
    assert len({severity for severity, _ in found}) == 3
    order = [(("severe", "warning", "info").index(severity), list(CODES).index(code)) for severity, code in found]
    assert order == sorted(order)


def test_a_sound_audit_has_nothing_that_alarms():
    found = codes(y=plain_target, leakage=ooc.Leakage(0.05, std=0.01), n_fits=300, unmix=False)
    assert {finding.severity for finding in found.values()} == {"info"}
    assert set(found) >= {"error-model", "leaked-like-the-rest"}
    assert "exact-rate" not in found


def test_what_the_answer_rests_on_is_said(plain_audit):
    assert {"exact-rate", "leaked-like-the-rest"} <= set(by_code(plain_audit))
    assert not {"exact-rate", "leaked-like-the-rest"} & set(by_code(plain_audit.at_leakage(0.0)))


@pytest.mark.slow
def test_single_records_of_many_small_clusters():
    found = codes(groups=small, error_model="records")
    assert found["fragments-likely"].severity == "warning"
    assert "error_model='fragments'" in found["fragments-likely"].remedy
    assert "fragments-likely" not in codes(groups=small, error_model="fragments", n_fits=60)
    by_rate = codes(groups=small, leakage=ooc.Leakage(0.05, of="train"))
    assert {"fragments-likely", "error-model"} <= set(by_rate)


def test_few_clusters_and_what_the_interval_is_about(plain_audit):
    few = ooc.audit(Ridge(), X, target, groups=np.arange(1000) // 200, n_fits=60, unmix=False, random_state=0)
    assert "these clusters only" in by_code(few)["few-clusters"].message
    asked = by_code(few.with_units("clusters"))["few-clusters"]
    assert asked.severity == "warning"
    assert "itself uncertain" in asked.message
    assert by_code(plain_audit.with_units("records"))["few-clusters"].severity == "info"
    one = np.where(np.arange(1000) < 800, clusters, 99)
    with pytest.raises(InputError, match="a single cluster is held out"):
        codes(groups=one, units="clusters", cv=[(np.arange(800), np.arange(800, 1000))])


@pytest.mark.slow
def test_a_rate_that_is_a_lower_bound_says_so_everywhere(tmp_path):
    options = {"groups": clusters, "error_model": "records", "n_fits": 300, "random_state": 0}
    estimated = ooc.audit(Ridge(), X, target, leakage=ooc.Leakage(0.1, std=0.02), **options)
    # The primary side is that of the held-out records, and the audit takes the other one.
    least = ooc.Leakage(0.3, 0.05, "validation", at_least=True, other=ooc.Leakage(0.1, std=0.02, at_least=True))
    bounded = estimated.at_leakage(least)
    bounded.save(tmp_path / "bounded")
    for result in (bounded, ooc.Audit.load(tmp_path / "bounded"), bounded.with_confidence(0.9)):
        found = by_code(result)
        assert found["rate-is-a-lower-bound"].severity == "warning"
        assert "10 % is a lower bound" in found["rate-is-a-lower-bound"].message
        assert "blocking_recall=" in found["rate-is-a-lower-bound"].remedy
        text = " ".join(str(result).split())
        assert "It is assumed that at least 10 % of the training records" in text
        assert "This rate is a lower bound" in text
        assert "true correction may be larger" in text
        assert "was at least 10.0 %" in result.methods_text()
        assert ooc.Summary.from_json(result.summary.to_json()) == result.summary
    assert "rate-is-a-lower-bound" not in {finding.code for finding in estimated.findings}
    assert "at least" not in estimated.summary.assumption


@pytest.mark.slow
def test_the_fold_with_the_largest_rate_is_named():
    options = {"groups": clusters, "error_model": "records", "n_fits": 1000, "random_state": 0}
    result = ooc.audit(Ridge(), X, target, leakage=[0.0, 0.1, 0.45, 0.2, 0.0], **options)
    found = {finding.code: finding.message for finding in result.findings}
    assert found["rate-above-bound"].endswith("and 45 % was assumed in fold 2 (15 % on average).")
    assert result.summary.rate == pytest.approx(0.15)
    same = {finding.code: finding.message for finding in result.at_leakage(0.45).findings}
    assert same["rate-above-bound"].endswith("and 45 % was assumed.")


def test_a_rate_that_counts_whole_entities(tmp_path, plain_audit):
    draw = np.random.default_rng(1)
    filed = np.where(draw.random(1000) < 0.02, draw.integers(0, 40, 1000), clusters)
    audited = ooc.Leakage.from_true_groups(clusters, filed, cv=5)
    misplaced = audited.linkage_errors.misplaced
    assert audited.train.rate > 10 * misplaced
    right = plain_audit.at_leakage(misplaced)
    assert "rate-counts-whole-entities" not in {finding.code for finding in right.findings}
    for given in (audited, audited.train):
        result = right.at_leakage(given)
        result.save(tmp_path / "audit")
        for one in (result, ooc.Audit.load(tmp_path / "audit")):
            found = by_code(one)["rate-counts-whole-entities"]
            assert found.severity == "warning"
            assert f"{percentage(audited.train.rate)} counts whole entities" in found.message
            assert f"leakage={misplaced:.3g}" in found.remedy
    several = np.where(draw.random(1000) < 0.3, draw.integers(0, 40, 1000), clusters)
    too_large = ooc.Leakage.from_true_groups(clusters, several, cv=5)
    with pytest.raises(InputError, match=r"at most 0.5, .*; for single records give linkage_errors.misplaced, 0.05"):
        right.at_leakage(too_large)
    # Entities of two records that are torn apart have exactly twice the rate, which is allowed.
    pairs = ooc.Leakage.from_true_groups(np.repeat(np.arange(20), 2), [*range(10), *range(10, 20), *range(10, 30)])
    assert "rate-counts-whole-entities" not in {finding.code for finding in right.at_leakage(pairs).findings}


def test_far_extrapolation(plain_audit):
    assert "far-extrapolation" in by_code(plain_audit.with_curve(ooc.PolynomialCurve(2)).at_leakage(0.45))
    assert "far-extrapolation" not in by_code(plain_audit.at_leakage(0.02))


@pytest.mark.slow
def test_a_curve_that_misses_the_losses():
    """A line cannot follow losses that fall at once and then stay."""
    steep = np.where(clusters >= 32, 6.0, 0.0) + target
    split = [(np.flatnonzero(clusters < 32), np.flatnonzero(clusters >= 32))]
    options = {"y": steep, "cv": split, "n_train": 100, "n_fits": 3000, "error_model": "records"}
    found = codes(LinearRegression(), curve=ooc.PolynomialCurve(1), **options)
    assert found["lack-of-fit"].severity == "warning"
    assert "CompletelyMonotoneCurve" in found["lack-of-fit"].remedy
    assert "lack-of-fit" not in codes(LinearRegression(), curve=ooc.PolynomialCurve(2), y=plain_target)


@pytest.mark.slow
def test_small_validation_folds_and_single_classes():
    folds = [(np.flatnonzero(clusters > 1), np.flatnonzero(clusters <= 1))]
    assert "small-validation" in codes(cv=folds)
    rare = (np.arange(1000) % 25 == 0).astype(int)
    found = codes(KNeighborsClassifier(1), rare, n_train=30, n_fits=120, error_model="records")
    assert "drawn again" in found["single-class"].message


class Confused(KNeighborsRegressor):
    """Gets worse the more it has seen of held-out clusters."""

    def predict(self, X):
        return super().predict(X) + 5 * (self._y.mean() - 0.0)


def test_losses_that_rise_with_leakage():
    shifted = np.where(clusters >= 20, 3.0, 0.0) + plain_target
    split = [(np.flatnonzero(clusters < 20), np.flatnonzero(clusters >= 20))]
    found = codes(Confused(3), shifted, cv=split, n_train=60, n_fits=200, unmix=False, error_model="records")
    assert found["not-decreasing"].severity == "warning"


def test_every_code_can_be_muted(plain_audit):
    assert set(by_code(replace(plain_audit, mute=("exact-rate",)))) == set(by_code(plain_audit)) - {"exact-rate"}
    assert replace(plain_audit, mute=tuple(CODES)).findings == ()


def test_no_rate_and_no_test(plain_audit):
    assert "no-rate" in by_code(replace(plain_audit, leakage=None))
    found = by_code(with_samples(plain_audit, effect=None, effect_problem="there are too few."))
    assert found["no-test"].message == "The test for a cluster effect could not be run: there are too few."


# --- sizes of clusters and folds ------------------------------------------------------------------------

chained = np.where(small < 240, 0, small)


def test_a_giant_cluster_and_folds_that_are_left_out():
    """One cluster holds 960 of 1000 records: its fold cannot be cut, and what is scored is the rest."""
    options = {"groups": chained, "error_model": "fragments", "n_fits": 60, "unmix": False}
    found = codes(**options)
    assert found["giant-cluster"].severity == "warning"
    assert "One of the 11 clusters holds 960 of the 1000 records (96 %)" in found["giant-cluster"].message
    assert found["mostly-left-out"].severity == "severe"
    assert "hold 960 of the 1000 records, so that the loss is that of the other 40 only" in (
        found["mostly-left-out"].message
    )
    assert found["unbalanced-folds"].severity == "warning"
    assert "between 8 and 960 records, and one of them 96 % of all" in found["unbalanced-folds"].message


def test_ordinary_clusters_and_folds_have_no_such_findings(plain_audit, tmp_path):
    result = plain_audit
    assert not {"giant-cluster", "unbalanced-folds", "mostly-left-out"} & {f.code for f in result.findings}
    result.save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert again.samples.observed == result.samples.observed
    assert again.samples.fold_sizes == (200,) * 5
    assert again.findings == result.findings


@pytest.mark.parametrize(
    ("held_out", "severity"),
    [((399, 100, 250, 251), None), ((400, 100, 250, 250), "info"), ((510, 100, 200, 190), "warning"), ((1000,), None)],
)
def test_folds_of_different_sizes_are_noted_and_matter_where_one_dominates(plain_audit, held_out, severity):
    found = by_code(with_samples(plain_audit, fold_sizes=held_out)).get("unbalanced-folds")
    assert severity == (None if found is None else found.severity)
    if found is not None:
        assert f"between {min(held_out)} and {max(held_out)} records" in found.message


def test_a_comparison_and_a_sweep_say_it_as_well():
    options = {"error_model": "fragments", "n_fits": 60, "unmix": False, "random_state": 0, "leakage": 0.1}
    compared = ooc.compare({"light": Ridge(0.1), "heavy": Ridge(10)}, X, target, groups=chained, **options)
    assert "mostly-left-out (light, heavy): The folds that were left out hold 960" in str(compared)
    assert "mostly-left-out" in [finding.code for finding in compared.findings["heavy"]]
    swept = ooc.sweep(Ridge(), X, target, {0.1: chained, 0.9: small}, **options)
    assert "giant-cluster (0.1): One of the 11 clusters holds 960" in str(swept)
    assert "mostly-left-out (0.1)" in swept._repr_html_()
    assert "giant-cluster" not in [finding.code for finding in swept.findings[0.9]]
    assert swept.to_frame()["scored"].tolist() == [40, 1000]


# --- the table ---------------------------------------------------------------------------------------------


def test_ids_and_single_records(plain_audit, tmp_path):
    frame = pd.DataFrame({"visit": rng.permutation(1000), "dose": X[:, 0], "who": clusters})
    groups = np.where(np.arange(1000) < 800, 1000 + np.arange(1000), clusters)
    single = TableAccount.of(frame, target, groups, classes=False)
    result = replace(plain_audit, table=single)
    found = by_code(result)
    assert "'visit'" in found["id-like-feature"].message
    assert "800 of 808 clusters have a single record" in found["singleton-clusters"].message
    assert "column" not in str(found["singleton-clusters"])
    numbers = TableAccount.of(frame, target, np.minimum(np.arange(1000), 990), classes=False)
    assert "and not one of record numbers" in str(by_code(replace(plain_audit, table=numbers))["singleton-clusters"])
    swapped = TableAccount.of(frame, np.arange(1000) // 20, clusters % 2, classes=True)
    message = by_code(replace(plain_audit, table=swapped))["swapped-columns"].message
    assert message == "groups has 2 clusters, and the target has 50 classes."
    assert not {"target-among-features", "perfect-score", "numbers-as-classes"} & set(found)
    result.save(tmp_path / "audit")
    assert ooc.Audit.load(tmp_path / "audit").findings == result.findings
    assert ooc.Summary.from_json(result.to_json()).table == single
    same = by_code(replace(plain_audit, table=TableAccount.of(frame, target, clusters, classes=False)))
    assert "'who'" in same["id-like-feature"].message


def test_the_target_among_the_features_and_numbers_as_classes(plain_audit):
    label = np.arange(1000) % 3
    frame = pd.DataFrame({"noise": X[:, 0], "same": 2 * label - 1})
    found = by_code(replace(plain_audit, table=TableAccount.of(frame, label, clusters, classes=True)))
    assert "'same'" in found["target-among-features"].message
    assert "The 3 different whole numbers" in found["numbers-as-classes"].message


@pytest.mark.slow
def test_a_perfect_score():
    options = {"groups": clusters, "n_fits": 60, "unmix": False, "random_state": 0}
    right = ooc.audit(Ridge(alpha=1e-9), X, 2 * X[:, 0] - 1, **options)
    assert "perfect-score" in by_code(right)
    label = np.where(X[:, 0] > 0, 1, 0)
    certain = ooc.audit(KNeighborsClassifier(1), label[:, None], label, scoring="accuracy", **options)
    assert by_code(certain)["perfect-score"].message == "The cross-validated accuracy is as good as it can be (1)."

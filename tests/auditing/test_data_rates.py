"""Audits of single records whose rate comes from the records: where they look alike, and where they are too few."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

import outofcluster as ooc
from outofcluster.errormodels.records import LEAST_COMPARED, TOLD_APART


def wards(n_records, n_wards, *, effect, seed=0):
    rng = np.random.default_rng(seed)
    ward = np.sort(np.arange(n_records) % n_wards)
    X = effect * rng.standard_normal((n_wards, 2))[ward] + rng.standard_normal((n_records, 2))
    return X, X[:, 0] + rng.standard_normal(n_records), ward


def audited(X, y, ward, **options):
    classes = y.dtype.kind != "f"
    model = LogisticRegression() if classes else Ridge()
    return ooc.audit(model, X, y, groups=ward, **{"error_model": "records", "n_fits": 300, "random_state": 0} | options)


@cache
def alike(kind):
    """Wards that hardly differ."""
    X, y, ward = wards(400, 10, effect=0.1)
    return audited(X, y > 0 if kind == "classes" else y, ward, scoring="roc_auc" if kind == "auc" else None)


@pytest.fixture(scope="module")
def apart():
    return audited(*wards(400, 10, effect=3.0))


def said(result):
    return " ".join(str(result).split())


def test_where_the_sides_look_alike_the_range_is_the_answer():
    result = alike("classes")
    summary = result.summary
    assert summary.auc < TOLD_APART
    assert summary.nothing_seen
    low, high = (f"{end:.3f}" for end in result.range)
    words = (
        f"held-out and training records look alike: at the leakage rate that they suggest, the loss lies between {low} "
    )
    assert summary.headline.startswith(
        f"Error rate {result.naive.value:.3f} by cross-validation. Nothing of the leakage"
    )
    assert f"{words}and {high}." in summary.headline
    assert "corrected as far as can be told" in said(result)
    assert "it is worth little where records look alike" in said(result)
    assert result.corrected.interval[0] <= result.range[0]
    assert result.corrected.interval[1] >= result.range[1]
    low, high = (end - result.naive.value for end in result.range)
    assert result.optimism.interval[0] <= low + 1e-12
    assert result.optimism.interval[1] >= high - 1e-12
    assert result.optimism.interval[0] <= result.optimism.value <= result.optimism.interval[1]
    codes = {finding.code: finding.severity for finding in result.findings}
    assert codes["sides-alike"] == "warning"
    assert "far-extrapolation" not in codes


@pytest.mark.slow
def test_where_there_is_no_range_the_records_do_not_show_it():
    result = alike("numbers")
    assert result.summary.nothing_seen
    assert result.range is None
    assert "look alike; they do not show what the loss would be without it." in result.summary.headline
    assert ooc.Summary.from_json(result.to_json()).headline == result.summary.headline


def test_a_rate_that_is_given_is_taken_although_the_sides_look_alike():
    given = alike("classes").at_leakage(0.1)
    assert not given.summary.nothing_seen
    assert "→" in given.summary.headline
    assert given.corrected.interval[1] < given.range[1]


def test_where_the_sides_differ_the_rate_says_what_it_is_a_share_of(apart):
    assert not apart.summary.nothing_seen
    assert "of the training records belong to held-out clusters (at most " in said(apart)
    assert "That rate is used for the correction, give or take" in said(apart)
    assert apart.sources[0]["source"] == "curve"
    assert apart.summary.rests_on == ""


@pytest.mark.parametrize("n_records", [8, 12])
def test_folds_that_are_too_small_to_be_told_apart_give_no_correction(n_records):
    X, y, ward = wards(n_records, 4, effect=1.0)
    result = audited(X, y, ward, cv=4, n_fits=48)
    assert min(fold.n_validation for fold in result.samples.folds) < LEAST_COMPARED
    assert result.corrected is None
    (found,) = (finding for finding in result.findings if finding.code == "no-rate")
    assert "too small to be told apart" in found.message
    assert "cannot be seen in these records" in result.summary.headline
    assert result.data_leakage is None
    assert result.at_leakage(0.1).corrected is not None


@pytest.mark.slow
def test_one_small_fold_leaves_the_rate_to_the_others():
    X, y, ward = wards(200, 5, effect=2.0)
    folds = [(np.flatnonzero(ward != k), np.flatnonzero(ward == k)) for k in range(4)]
    small = np.flatnonzero(ward != 4), np.flatnonzero(ward == 4)
    result = audited(X, y, ward, cv=[*folds, (small[0], small[1][:2])])
    assert result.samples.folds[4].sides is None
    assert result.corrected is not None
    assert result.data_leakage is not None
    single = audited(X, y, ward, cv=[*folds, (small[0], small[1][:1])])
    assert single.samples.left_out == {4: "validation must hold at least 2 rows, got 1."}
    assert single.corrected is not None


@pytest.mark.slow
def test_sides_with_a_single_class_and_sparse_records_are_audited():
    X, _, ward = wards(120, 6, effect=2.0)
    y = (ward < 2).astype(int)
    folds = [(np.flatnonzero(ward != k), np.flatnonzero(ward == k)) for k in range(6)]
    for records in (X, sparse.csr_array(X)):
        assert audited(records, y, ward, cv=folds, n_fits=120).data_leakage is not None

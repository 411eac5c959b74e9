"""The leakage test: pairs of models, the paper's disjoint folds and Welch's numbers, words that claim no more."""

import json
from dataclasses import replace
from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupShuffleSplit, LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.text import chance
from outofcluster.auditing.effect_test import evaluate_effect, leakage_test
from outofcluster.problem.folds import make_folds
from outofcluster.sampling.audit_samples import EffectLosses, FoldSizes

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(20), 20)
X = rng.standard_normal((400, 3))
y = (X[:, 0] + rng.standard_normal(400) > 0).astype(int)
value = X[:, 0] + rng.standard_normal(400)
one_split = [(np.arange(200), np.arange(200, 400))]

used = []


class Recorder(RegressorMixin, BaseEstimator):
    """Its one feature is the number of the row: it keeps the rows it is fitted to and asked for."""

    def fit(self, X, y):
        self.place_ = len(used)
        used.append((X[:, 0].astype(int), None))
        return self

    def predict(self, X):
        used[self.place_] = (used[self.place_][0], X[:, 0].astype(int))
        return np.zeros(len(X))


class RecordingClassifier(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        used.append(self.classes_)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def rows_used(groups, cv, seed=0):
    used.clear()
    n = len(groups)
    target = np.random.default_rng(seed).standard_normal(n)
    result = leakage_test(
        Recorder(), np.arange(n)[:, None], target, groups=groups, cv=cv, method="welch", random_state=seed
    )
    return result, list(used), target


def check_roles(groups, cv, seed=0):
    """Every record has one role at most, and the right one; gives the result."""
    result, pairs, target = rows_used(groups, cv, seed)
    size, n = result.sizes, len(groups)
    m = size.n_train_folds
    assert size.n_validation_folds == m >= 2
    assert result.losses_train.shape == result.losses_validation.shape == (result.n_folds, m)
    everything = np.concatenate([rows for pair in pairs for rows in pair])
    assert len(np.unique(everything)) == len(everything) <= n
    folds = make_folds(np.zeros(n), None, groups, cv)
    assert len(pairs) == 2 * m * result.n_folds
    for i in range(result.n_folds):
        own = pairs[2 * m * i : 2 * m * (i + 1)]
        scored = np.concatenate([pair[1] for pair in own])
        outer = np.concatenate([pair[0] for pair in own[:m]])
        inner = np.concatenate([pair[0] for pair in own[m:]])
        assert any(set(scored) | set(inner) <= set(fold.validation) and set(outer) <= set(fold.train) for fold in folds)
        assert len(outer) == len(inner) == m * size.n_train
        assert len(scored) == 2 * m * size.n_scored
        assert len(outer) == size.from_train
        assert len(inner) + len(scored) == size.from_validation
    losses = np.array([(target[scored] ** 2).mean() for _, scored in pairs]).reshape(-1, 2, m)
    np.testing.assert_allclose(result.losses_train, losses[:, 0])
    np.testing.assert_allclose(result.losses_validation, losses[:, 1])
    return result


@pytest.mark.parametrize(
    "cv",
    [None, 2, 3, 10, one_split, GroupShuffleSplit(6, test_size=0.3, random_state=0), GroupShuffleSplit(1)],
    ids=lambda cv: type(cv).__name__ if not isinstance(cv, int) else str(cv),
)
def test_no_record_is_used_twice_over_all_splits(cv):
    if isinstance(cv, GroupShuffleSplit):
        cv = list(cv.split(X, y, groups))
    check_roles(groups, cv)


@given(
    st.lists(st.integers(20, 90), min_size=3, max_size=12),
    st.integers(2, 6),
    st.integers(0, 5),
)
def test_any_sizes_of_clusters_fit(clusters, cv, seed):
    check_roles(np.repeat(np.arange(len(clusters)), clusters), min(cv, len(clusters)), seed)


def test_sizes_use_what_is_there():
    result = check_roles(groups, None)
    size = result.sizes
    assert result.n_folds == 5
    assert 5 * (size.from_train + size.from_validation) >= 0.9 * 400
    # One split: six folds of either kind, all of V̂, and n' close to 2 n_V makes the most of it.
    size = check_roles(groups, one_split).sizes
    assert size == FoldSizes(6, 6, 17, 8)
    # One large hospital among many small ones: the small ones are not what decides.
    uneven = np.repeat(np.arange(9), [300, 200, 200, 4, 4, 4, 4, 4, 4])
    result = check_roles(uneven, list(LeaveOneGroupOut().split(uneven, None, uneven)))
    assert result.n_folds == 3
    assert result.sizes.from_validation > 100


def test_few_records_lower_the_number_of_folds_and_too_few_are_refused():
    pair = [(np.arange(12), np.arange(12, 42))]
    result = check_roles(np.repeat([0, 1], [12, 30]), pair)
    assert result.sizes == FoldSizes(2, 2, 5, 5)
    with pytest.raises(InputError) as caught:
        rows_used(np.repeat([0, 1], [12, 29]), [(np.arange(12), np.arange(12, 41))])
    assert str(caught.value) == (
        "cv must leave at least 30 validation and 10 training records per split (training folds of 5 records, "
        "validation folds of 5), got at most 29 and 12; use fewer folds or more records."
    )
    with pytest.raises(InputError, match="got at most 30 and 9; use fewer folds"):
        rows_used(np.repeat([0, 1], [9, 30]), [(np.arange(9), np.arange(9, 39))])
    with pytest.raises(InputError, match="got at most 20 and 380"):
        rows_used(groups, LeaveOneGroupOut())


def test_one_split_is_welchs_test():
    result = leakage_test(LinearRegression(), X, value, groups=groups, cv=one_split, method="welch", random_state=1)
    assert result.n_folds == 1
    z, zv = result.losses_train[0], result.losses_validation[0]
    expected = stats.ttest_ind(z, zv, equal_var=False, alternative="greater")
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.df == pytest.approx(expected.df, rel=1e-12)
    assert result.pvalue == pytest.approx(expected.pvalue, rel=1e-10)
    assert result.difference == pytest.approx(z.mean() - zv.mean())
    noncentrality = result.detectable * result.statistic / result.difference
    assert stats.nct.sf(stats.t.ppf(0.95, result.df), result.df, noncentrality) == pytest.approx(0.8)


def test_several_splits_are_compared_within():
    """A level that all losses of a split share changes nothing; the formula of the module's head holds."""
    z, zv = rng.random((2, 5, 3))
    shift = 100.0 * rng.random((5, 1))
    size = FoldSizes(3, 3, 10, 10)
    plain, shifted = (
        evaluate_effect(EffectLosses(z + s, zv + s, size), "zero_one", alpha=0.05) for s in (0 * shift, shift)
    )
    for name in ("statistic", "df", "pvalue", "difference", "detectable"):
        assert getattr(plain, name) == pytest.approx(getattr(shifted, name), rel=1e-9)
    s2, sv2 = z.var(axis=1, ddof=1).mean(), zv.var(axis=1, ddof=1).mean()
    assert plain.statistic == pytest.approx((z.mean() - zv.mean()) / np.sqrt((s2 + sv2) / 15))
    assert plain.df == pytest.approx(10 * (s2 + sv2) ** 2 / (s2**2 + sv2**2))
    assert plain.pvalue == pytest.approx(stats.t.sf(plain.statistic, plain.df))


def test_losses_without_spread():
    size = FoldSizes(3, 3, 10, 10)
    same, more, less = (
        evaluate_effect(EffectLosses(np.full((2, 3), a), np.full((2, 3), 0.1), size), "zero_one")
        for a in (0.1, 0.3, 0.0)
    )
    assert (same.statistic, same.pvalue, same.rejected) == (0, 1, False)
    assert (less.statistic, less.pvalue) == (-np.inf, 1)
    assert more.statistic == np.inf
    assert more.pvalue == pytest.approx(comb(6, 3) ** -2)
    assert "the losses do not vary" in str(same)
    assert json.loads(json.dumps(more.to_dict(), allow_nan=False))["statistic"] is None


def paired_losses(difference, error=0.01, df=30.0, units="clusters"):
    noise = np.array([[0.01, -0.01]] * 3)
    numbers = np.array([difference, error, df, 31.0])
    return EffectLosses(0.2 + difference + noise, 0.2 + noise, FoldSizes(2, 2, 20, 10), numbers, units)


def test_the_words():
    found = str(evaluate_effect(paired_losses(0.2), "zero_one", alpha=0.05))
    assert found.startswith("A cluster effect was found: models are better on clusters that they were trained on.")
    assert "This does not show that a score is inflated" in found
    assert "the optimism of an audit says by how much" in found
    assert "0.4 by models of other clusters, 0.2 by models of the same clusters, difference 0.2." in found
    assert "3 pairs of models of 20 records; the units are 31 clusters." in found
    result = evaluate_effect(paired_losses(0.0), "zero_one", alpha=0.05)
    text = str(result)
    assert text.startswith("No cluster effect was found")
    assert "This does not show that there is none" in text
    assert f"an effect of {result.detectable:.3g} would have been found with a probability of 80 %" in text
    assert result.outcome == f"No cluster effect was found ({chance(result.pvalue)})."
    assert "probability of" not in result._repr_html_().partition("<table")[0]
    worse = paired_losses(-0.02)
    worse = replace(worse, sizes=FoldSizes(2, 2, 2000, 1000), numbers=np.array([-0.02, 0.01, 1068.0, 1069.0]))
    text = str(evaluate_effect(worse, "zero_one", alpha=0.05))
    assert "difference −0.02." in text
    assert "t = −2 with 1,068 degrees of freedom" in text
    assert "models of 2,000 records; the units are 1,069 clusters." in text
    assert "-0" not in text
    better = evaluate_effect(replace(paired_losses(0.2), train=-np.ones((3, 2)), validation=-2 * np.ones((3, 2))),
                             "roc_auc", greater_is_better=True)  # fmt: skip
    assert "1 by models of other clusters, 2 by models of the same clusters" in str(better)


def test_the_papers_test_says_its_power():
    size, noise = FoldSizes(2, 2, 20, 10), np.array([[0.01, -0.01]] * 3)
    weak = evaluate_effect(EffectLosses(0.201 + noise, 0.2 + noise, size), "zero_one")
    strong = evaluate_effect(EffectLosses(0.4 + noise, 0.2 + noise, size), "zero_one")
    assert weak.method == strong.method == "welch"
    assert weak.power < 0.2 < 0.99 < strong.power
    for result in (weak, strong):
        said = f"{chance(result.pvalue)}, power {100 * result.power:.0f} % against the effect that was measured"
        assert said in str(result)
        assert said in result.sentence
    assert "the paper's test, 6 + 6 models of 20 records, each scored on 10." in str(strong)


# --- pairs of models ----------------------------------------------------------------------------------


def test_the_paired_test_is_students_test_of_its_numbers():
    result = evaluate_effect(paired_losses(0.02, error=0.01, df=12.5), "zero_one")
    assert result.statistic == pytest.approx(2.0)
    assert result.pvalue == pytest.approx(stats.t.sf(2.0, 12.5))
    assert result.power == pytest.approx(stats.nct.sf(stats.t.ppf(0.95, 12.5), 12.5, 2.0), rel=1e-6)
    assert (result.units, result.n_units, result.method) == ("clusters", 31, "paired")


def test_each_model_knows_one_half_of_one_arm():
    """Of both models: as many records, no cluster in common, and none of the records that are scored."""
    used.clear()
    result = leakage_test(Recorder(), np.arange(400)[:, None], value, groups=groups, random_state=0)
    assert len(used) == 2 * result.n_folds == 10
    for (train, scored), (other, again) in zip(used[::2], used[1::2], strict=True):
        assert len(train) == len(other) == len(set(train)) == len(set(other)) == 100
        assert not set(groups[train]) & set(groups[other])
        assert set(scored) == set(again)
        assert not set(scored) & (set(train) | set(other))
        assert len(scored) == 200
        assert np.all(np.bincount(groups[scored]) == 10)
    assert result.difference == pytest.approx(0, abs=1e-12)
    assert (result.units, result.n_units) == ("clusters", 20)


def test_clusters_that_are_never_held_out_train_both_models():
    used.clear()
    leakage_test(Recorder(), np.arange(400)[:, None], value, groups=groups, cv=one_split, random_state=0)
    for (train, scored), (other, _) in zip(used[::2], used[1::2], strict=True):
        assert set(range(200)) <= set(train) & set(other)
        assert min(scored) >= 200


def test_a_single_held_out_cluster_is_compared_with_the_others():
    large = np.repeat([0, 1, 2, 3], 100)
    used.clear()
    split = [(np.arange(300), np.arange(300, 400))]
    result = leakage_test(Recorder(), np.arange(400)[:, None], value, groups=large, cv=split, random_state=0)
    assert (result.units, result.n_units) == ("records", 400)
    for (train, _), (other, _) in zip(used[::2], used[1::2], strict=True):
        assert set(large[train]) == {3}
        assert set(large[other]) <= {0, 1, 2}
        assert len(train) == len(other) == 50


def test_the_difference_is_that_of_the_mean_losses_and_the_error_that_of_the_clusters():
    rng = np.random.default_rng(3)
    levels = rng.standard_normal(20)[groups]
    features = np.column_stack([rng.standard_normal(20)[groups], rng.standard_normal(400)])
    result = leakage_test(KNeighborsRegressor(1), features, levels, groups=groups, random_state=0)
    assert result.difference == pytest.approx((result.losses_train - result.losses_validation).mean())
    assert result.rejected
    assert result.df == pytest.approx(19)
    assert result.losses_train.shape == (5, 2)


def test_too_few_clusters_or_records_are_refused():
    with pytest.raises(InputError, match=r"at least two clusters with two records or more .* got 0"):
        leakage_test(LinearRegression(), X, value, groups=np.arange(400), cv=5)
    with pytest.raises(InputError, match="at least 5 records of held-out clusters with two records or more, got 2"):
        leakage_test(LinearRegression(), X[:10], value[:10], groups=np.arange(10) // 2, cv=2)


def test_metrics_that_are_no_mean_over_records():
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.standard_normal(20)[groups], rng.standard_normal(400)])
    label = (rng.standard_normal(20) > 0).astype(int)[groups]
    auc = leakage_test(KNeighborsClassifier(5), features, label, groups=groups, scoring="roc_auc", random_state=0)
    brier, same = (
        leakage_test(KNeighborsClassifier(5), features, label, groups=groups, random_state=0, **{by: metric})
        for by, metric in (("loss", "brier"), ("scoring", "neg_brier_score"))
    )
    assert auc.rejected
    assert auc.greater_is_better
    assert brier.rejected
    assert same.pvalue == brier.pvalue


def test_several_metrics_are_refused():
    groups, label = np.repeat(np.arange(10), 6), np.tile([0, 1], 30)
    features = np.random.default_rng(0).standard_normal((60, 2))
    with pytest.raises(InputError, match=r"scoring must be a single metric .* got 'roc_auc', 'f1'"):
        leakage_test(GaussianNB(), features, label, groups=groups, scoring=["roc_auc", "f1"], random_state=0)
    leakage_test(GaussianNB(), features, label, groups=groups, scoring=["roc_auc"], random_state=0)


def test_plain_numbers():
    result = leakage_test(GaussianNB(), X, y, groups=groups, random_state=0, alpha=0.1)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["pvalue"] == result.pvalue
    assert plain["losses_train"] == result.losses_train.tolist()
    assert plain["sizes"]["n_train"] == result.sizes.n_train
    assert plain["alpha"] == 0.1
    assert plain["loss"] == "zero_one"
    assert type(result.rejected) is bool
    assert result.rejected == (result.pvalue <= 0.1)


@pytest.mark.slow
def test_the_same_for_any_number_of_workers_and_the_seed_matters():
    forest = RandomForestClassifier(n_estimators=3)
    results = [leakage_test(forest, X, y, groups=groups, random_state=3, n_jobs=n) for n in (None, 1, 2)]
    for other in results[1:]:
        assert other.to_dict() == results[0].to_dict()
    assert leakage_test(forest, X, y, groups=groups, random_state=4).to_dict() != results[0].to_dict()
    assert forest.random_state is None
    assert not hasattr(forest, "estimators_")


def test_every_training_fold_has_two_classes():
    rare = np.arange(400) % 10 == 0
    used.clear()
    result = leakage_test(RecordingClassifier(), X, rare, groups=groups, method="welch", random_state=0)
    assert len(used) == 2 * result.losses_train.size
    assert all(len(classes) == 2 for classes in used)
    used.clear()
    leakage_test(RecordingClassifier(), X, rare, groups=groups, random_state=0)
    assert all(len(classes) == 2 for classes in used)
    # A scorer may need both classes in the validation folds as well.
    options = {"groups": groups, "loss": get_scorer("roc_auc"), "method": "welch", "random_state": 0}
    scored = leakage_test(GaussianNB(), X, y, **options)
    assert scored.loss == "roc_auc"
    assert (scored.losses_train <= 0).all()
    scored = leakage_test(GaussianNB(), X, rare, cv=2, **options)
    assert scored.sizes.n_scored >= 20
    with pytest.raises(InputError, match="y must hold at least two classes on both sides of a fold of cv"):
        leakage_test(GaussianNB(), X, groups < 4, groups=groups, cv=one_split, method="welch")
    with pytest.raises(InputError, match="y must hold two classes in random halves of the held-out clusters"):
        leakage_test(GaussianNB(), X, np.arange(400) == 0, groups=groups, cv=[(range(20, 400), range(20))])


@pytest.mark.parametrize(
    "records",
    [sparse.csr_array(X), pd.DataFrame(X), X.tolist()],
    ids=["sparse", "frame", "list"],
)
def test_records_and_labels_of_any_kind(records):
    expected = leakage_test(LogisticRegression(), X, y, groups=groups, random_state=0)
    names = pd.Series(np.array(["no", "yes"])[y], index=range(1000, 1400))
    result = leakage_test(LogisticRegression(), records, names, groups=list(map(str, groups + 10)), random_state=0)
    np.testing.assert_allclose(result.losses_train, expected.losses_train)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"method": "t"}, "method must be 'paired' or 'welch', got 't'."),
        ({"alpha": 0}, "alpha must be a finite number above 0, got 0."),
        ({"alpha": 1.5}, "alpha must lie between 0 and 1, got 1.5."),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0, got 0."),
        ({"n_jobs": 2**63}, "n_jobs must be at most 10,000, got 9223372036854775808."),
        ({"y": y[:10]}, "y must have one value for each of the 400 records of X, got 10."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input_gets_one_sentence(changed, message):
    arguments = {"estimator": GaussianNB(), "X": X, "y": y, "groups": groups} | changed
    with pytest.raises(InputError) as caught:
        leakage_test(arguments.pop("estimator"), arguments.pop("X"), arguments.pop("y"), **arguments)
    assert str(caught.value) == message


def test_an_estimator_that_cannot_be_cloned_or_that_fails():
    class Odd:
        _estimator_type = "regressor"

        def predict(self, X):
            return X

    with pytest.raises(InputError, match="estimator must be one that scikit-learn can clone, got Odd"):
        leakage_test(Odd(), X, value, groups=groups)
    with pytest.raises(FitError, match="The estimator failed in training fold 0: ValueError: Input X contains NaN"):
        leakage_test(LinearRegression(), np.full_like(X, np.nan), value, groups=groups, method="welch")
    with pytest.raises(FitError, match="in drawing 0 of the test for a cluster effect: ValueError: Input X contains"):
        leakage_test(LinearRegression(), np.full_like(X, np.nan), value, groups=groups)

"""Subgroups and spread under metrics of a set of records, such as AUC, against scikit-learn and simulated truths."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from scipy.special import ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score, fbeta_score, make_scorer, r2_score, roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.errormodels.subgroups import subgroup_of

MODEL = KNeighborsClassifier(15)


def people(seed=0, count=120, *, cut=0.3):
    """Records of people of two sexes, some men among them cut in two; the last men have one class only."""
    rng = np.random.default_rng(seed)
    entity = np.repeat(np.arange(count), rng.integers(2, 8, count))
    profile = rng.standard_normal((count, 4))
    X = profile[entity] + 0.3 * rng.standard_normal((len(entity), 4))
    y = (profile[entity, 0] + rng.standard_normal(count)[entity] > 0).astype(int)
    groups = entity.copy()
    for e in range(0, count, 2):
        if rng.random() < cut:
            groups[np.flatnonzero(entity == e)[0]] = count + e
    folds = list(GroupKFold(4, shuffle=True, random_state=seed).split(X, y, groups))
    return X, y, entity, groups, folds


@pytest.fixture(scope="module")
def data():
    return people()


@pytest.fixture(scope="module")
def sex(data):
    return np.where(data[2] % 2, "f", "m")


def audited(data, scoring, model=MODEL, **options):
    X, y, _, groups, folds = data
    return ooc.audit(model, X, y, groups=groups, cv=folds, scoring=scoring, random_state=0, n_fits=32, **options)


@pytest.fixture(scope="module")
def result(data):
    return audited(data, ["roc_auc", "f1", make_scorer(fbeta_score, beta=2)])


def by_folds(data, chosen, metric, predict):
    """The mean over folds of a metric of some of the records."""
    X, y, _, _, folds = data
    values = []
    for train, test in folds:
        rows = test[chosen[test]]
        values.append(metric(y[rows], predict(MODEL.fit(X[train], y[train]), X[rows])))
    return np.mean(values)


def probability(model, X):
    return model.predict_proba(X)[:, 1]


# --- by subgroup ------------------------------------------------------------------------------------------


def test_naive_is_the_metric_within_the_subgroup(data, result, sex):
    metrics = {"roc_auc": (roc_auc_score, probability), "f1": (f1_score, lambda model, X: model.predict(X))}
    for name, (metric, predict) in metrics.items():
        for group in result.metrics[name].by(sex).groups:
            assert group.naive.value == pytest.approx(by_folds(data, sex == group.name, metric, predict))
            assert group.naive.interval[0] < group.naive.value < group.naive.interval[1]
            assert group.corrected.value == pytest.approx(group.naive.value - group.optimism.value)


def test_one_metric_of_all_folds_is_one_of_the_subgroup(data, sex):
    X, y, _, _, folds = data
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    pooled = audited(data, "roc_auc", pool="records", score_weight=weight)
    scores = np.empty(len(y))
    for train, test in folds:
        scores[test] = probability(MODEL.fit(X[train], y[train]), X[test])
    for group in pooled.by(sex).groups:
        mine = sex == group.name
        wanted = roc_auc_score(y[mine], scores[mine], sample_weight=weight[mine])
        assert group.naive.value == pytest.approx(wanted)


def test_all_records_are_a_subgroup_like_the_whole(result):
    part = subgroup_of(result.pooled, [np.ones(fold.n_validation, dtype=bool) for fold in result.samples.folds])
    assert part.naive == pytest.approx(result.pooled.naive)
    one, other = part.measured, result.pooled.measured
    # The rate that is seen is a mean over records for the whole, and by the weights of the folds for a part.
    assert one.value == pytest.approx(other.value, rel=0.01)
    assert one.estimate.choice == pytest.approx(other.estimate.choice, rel=0.01)


def test_labels_and_the_positive_class_do_not_matter(data, result, sex):
    X, y, entity, groups, folds = data
    turned = audited((X, np.array(["sick", "well"])[1 - y], entity, groups, folds), "roc_auc", pos_label="sick")
    assert_frame_equal(turned.by(sex).to_frame(), result.by(sex).to_frame())


def test_it_is_the_same_from_a_file(result, sex, tmp_path):
    result.save(tmp_path / "a.audit")
    loaded = ooc.Audit.load(tmp_path / "a.audit")
    assert loaded.by(sex) == result.by(sex)


def test_predictions_are_kept_for_metrics_that_need_them_alone(data, result):
    named, other = result.metrics["f1"], result.metrics["fbeta_score"]
    assert set(named.samples.folds[0].predicted) >= {"own", "target", "seen"}
    assert not other.samples.folds[0].predicted
    assert not audited(data, "accuracy").samples.folds[0].predicted


def test_folds_in_which_a_subgroup_has_one_class_are_left_out_and_named(data, result):
    _, y, entity, _, folds = data
    group = np.where(entity % 2, "f", "m")
    group[folds[2][1]] = np.where(y[folds[2][1]] == 1, group[folds[2][1]], "m")
    by = result.by(group)
    assert [each.left_out for each in by.groups] == [(2,), ()]
    assert "Without fold 2 for f, whose records there have no AUC." in str(by)
    X = data[0]
    values = [
        roc_auc_score(y[rows], probability(MODEL.fit(X[train], y[train]), X[rows]))
        for fold, (train, test) in enumerate(folds)
        if fold != 2
        for rows in [test[group[test] == "f"]]
    ]
    assert by.groups[0].naive.value == pytest.approx(np.mean(values))


def test_a_subgroup_of_one_class_is_named(data, result):
    _, y, entity, _, _ = data
    sick = np.where(y == 1, np.where(entity % 2, "f", "m"), "well")
    with pytest.raises(ooc.InputError, match=r"AUC is defined, got 'f', in which it is not, since .* single class"):
        result.by(sick)


def test_metrics_that_nobody_can_compute_again_are_refused(data, result, sex):
    of_model = audited(data, lambda model, X, y: float(np.mean(X)))
    for audit, label in ((of_model, "score"), (result.metrics["fbeta_score"], "fbeta score")):
        for asked, ask in (("by", lambda audit=audit: audit.by(sex)), ("spread", audit.spread)):
            message = rf"{asked}\(\) needs a loss that every record has, or a metric that is known .* got {label}\."
            with pytest.raises(ooc.InputError, match=message):
                ask()


def test_merged_audits_keep_the_predictions_that_they_share(data, sex):
    X, y, _, groups, folds = data
    options = {"groups": groups, "cv": folds, "n_fits": 32, "scoring": "roc_auc", "leakage": 0.1, "unmix": False}

    def merged(model):
        one, other = (ooc.audit(model, X, y, random_state=seed, **options) for seed in (0, 1))
        return one, one.merge(other)

    one, both = merged(MODEL)
    assert both.by(sex).groups[0].naive == one.by(sex).groups[0].naive
    with pytest.raises(ooc.InputError, match=r"by\(\) needs an audit of one seed for AUC, got one that was merged"):
        merged(RandomForestClassifier(3, max_depth=3))[1].by(sex)


def test_single_records_have_naive_values_alone(data, sex):
    X, y, entity, _, _ = data
    options = {"groups": entity, "cv": 4, "scoring": "roc_auc", "error_model": "records", "unmix": False}
    audits = [ooc.audit(MODEL, X, y, n_fits=40, random_state=0, leakage=rate, **options) for rate in (0.1, None)]
    with pytest.raises(ooc.InputError, match=r"by\(\) needs a loss that every record has, .*'records'.*, got AUC"):
        audits[0].by(sex)
    assert audits[1].by(sex).groups[0].corrected is None


# --- spread -----------------------------------------------------------------------------------------------


class AsItIs(ClassifierMixin, BaseEstimator):
    """A classifier whose score is its feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]


def hospitals(count, size, seed=0, apart=0.5):
    """Records of hospitals in which the classes lie apart by distances of their own."""
    rng = np.random.default_rng([seed, count])
    groups = np.repeat(np.arange(count), np.clip(size * np.exp(0.5 * rng.standard_normal(count)), 8, None).astype(int))
    y = rng.random(len(groups)) < rng.beta(1.6, 6.4, count)[groups]
    distance = 1.3 + apart * rng.standard_normal(count)
    return (distance[groups] * y + rng.standard_normal(len(y)))[:, None], y.astype(int), groups


def test_spread_is_of_the_metric_within_clusters():
    X, y, groups = hospitals(30, 40)
    options = {"groups": groups, "error_model": "records", "leakage": 0.1, "unmix": False, "n_fits": 40}
    result = ooc.audit(AsItIs(), X, y, scoring="roc_auc", random_state=0, **options)
    spread, optimism = result.spread(), result.optimism.value
    values = {c: roc_auc_score(y[groups == c], X[groups == c, 0]) for c in range(30) if 0 < y[groups == c].mean() < 1}
    assert {int(name) for name in spread.clusters} == set(values)
    for name, raw in zip(spread.clusters, spread.raw, strict=True):
        assert raw == pytest.approx(values[int(name)] - optimism)
    assert spread.value < spread.observed == pytest.approx(np.std(list(values.values()), ddof=1))
    assert "The corrected AUC of one new cluster lies between" in str(spread)


def test_noise_of_a_cluster_follows_its_rarer_class():
    """The moment equation with the noise of the module's head, by numpy."""
    X, y, groups = hospitals(30, 25, apart=0.8)
    result = ooc.audit(AsItIs(), X, y, groups=groups, scoring="roc_auc", leakage=None, n_fits=40, random_state=0)
    values, variances, counts, weights = [], [], [], []
    for c in np.unique(groups):
        mine, scores = y[groups == c], X[groups == c, 0]
        m = np.bincount(mine, minlength=2)
        if not m.all():
            continue
        values.append(roc_auc_score(mine, scores))
        counts.append(1 / (1 / m).sum())
        weights.append(0.0 if (m == 1).any() else 1 / (1 / (m - 1)).sum())
        variance = 0.0
        for k in (0, 1) if (m > 1).all() else ():
            rest = [(np.delete(mine, i), np.delete(scores, i)) for i in np.flatnonzero(mine == k)]
            variance += (m[k] - 1) * np.var([roc_auc_score(*each) for each in rest])
        variances.append(variance)
    y_c, n_c, u_c = map(np.array, (values, counts, weights))
    noise = (u_c * n_c * variances).sum() / u_c.sum() / n_c
    weight = 1 / (result.spread().value ** 2 + noise)
    assert (weight * (y_c - np.average(y_c, weights=weight)) ** 2).sum() == pytest.approx(len(y_c) - 1, rel=1e-6)


def test_spread_of_numbers():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(15), 20)
    X = rng.standard_normal((300, 2))
    y = X[:, 0] + rng.standard_normal(300)
    result = ooc.audit(Ridge(), X, y, groups=groups, scoring="r2", leakage=None, n_fits=40, random_state=0)
    spread = result.spread()
    predicted = np.empty(300)
    for fold in result.samples.folds:
        train = np.setdiff1d(np.arange(300), fold.rows)
        predicted[fold.rows] = Ridge().fit(X[train], y[train]).predict(X[fold.rows])
    wanted = sorted(r2_score(y[groups == c], predicted[groups == c]) for c in range(15))
    np.testing.assert_allclose(np.sort(spread.raw), wanted)


def test_clusters_without_a_value_do_not_count(data, result):
    with pytest.raises(ooc.InputError, match=r"at least 10 held-out clusters in which AUC is defined, .* got 0"):
        result.spread()


# --- simulated truths -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_simultaneous_intervals_hold_the_optimism_and_the_auc_of_subgroups():
    held, naive, off = [], [], []
    for seed in range(60):
        X, y, entity, groups, folds = sample = people(seed, cut=0.5)
        sex = np.where(entity % 2, "f", "m")
        clean = [(train[~np.isin(entity[train], entity[test])], test) for train, test in folds]
        by = audited(sample, "roc_auc").by(sex)
        as_is, without = (
            [by_folds((X, y, entity, groups, some), sex == name, roc_auc_score, probability) for name in "fm"]
            for some in (folds, clean)
        )
        truth = np.subtract(as_is, without)
        ends = np.array([group.optimism.interval for group in by.groups])
        held.append(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all())
        off.append([group.optimism.value for group in by.groups] - truth)
        naive.append([(*group.naive.interval, value) for group, value in zip(by.groups, as_is, strict=True)])
    naive = np.array(naive)
    expected = naive[:, :, 2].mean(axis=0)
    assert np.mean(held) >= 0.92
    assert ((naive[:, :, 0] <= expected) & (expected <= naive[:, :, 1])).all(axis=1).mean() >= 0.87
    assert np.abs(np.mean(off, axis=0)).max() < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("count", "size"), [(30, 100), (100, 100), (100, 25)])
def test_a_new_hospital_lies_within_the_prediction_interval(count, size):
    covered, values = [], []
    new = ndtr((1.3 + 0.5 * np.random.default_rng(1).standard_normal(4000)) / np.sqrt(2))
    for seed in range(60):
        X, y, groups = hospitals(count, size, seed)
        options = {"scoring": "roc_auc", "leakage": None, "n_fits": 40, "random_state": 0}
        spread = ooc.audit(AsItIs(), X, y, groups=groups, **options).spread()
        low, high = spread.interval
        covered.append(((low <= new) & (new <= high)).mean())
        values.append(spread.value)
    assert 0.92 < np.mean(covered) < 0.98
    assert np.mean(values) == pytest.approx(new.std(), rel=0.15)

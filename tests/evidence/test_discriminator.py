"""The discriminator: scores are out of fold, calibrated and reproducible, for every kind of table."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from outofcluster._base.exceptions import InputError
from outofcluster.evidence.encoding import encode, is_discrete, standardise
from outofcluster.evidence.members import Members, _merged, some_of_both
from outofcluster.evidence.sides import _deal, _log_ratio_by_part, _out_of_fold, fit_stack, tell_sides_apart
from outofcluster.problem.simulate import simulate_leakage

ALL = np.arange(480)


@pytest.fixture(scope="module")
def world():
    """Eight clusters of 60 records around centres of their own, of which two are held out and leak."""
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(8), 60)
    X = rng.standard_normal((8, 5))[cluster] + 0.5 * rng.standard_normal((480, 5))
    y = (X[:, 0] + 0.5 * rng.standard_normal(480) > 0).astype(int)
    split = simulate_leakage(cluster, [6, 7], 0.1, unit="records", of="train", random_state=1)
    return X, y, split, np.isin(cluster[split.train], [6, 7])


def told(world, X=None, y=None, **options):
    first, second, split, _ = world
    X, y = first if X is None else X, second if y is None else y
    return tell_sides_apart(X, y, split.train, split.validation, **{"clusters": split.groups, "seed": 0} | options)


@pytest.fixture(scope="module")
def sides(world):
    return told(world)


def test_shapes_parts_and_quality(world, sides):
    _, _, split, leaked = world
    n, m = len(split.train), len(split.validation)
    assert sides.ratio_by_part.shape == (3, n)
    assert set(sides.part) == set(range(3))
    for fold, size in ((sides.fold_train, n), (sides.part, m)):
        assert np.ptp(np.bincount(fold)) <= 1
        assert len(fold) == size
    scores, side = np.concatenate([sides.score_train, sides.score_validation]), np.repeat([0, 1], [n, m])
    assert sides.auc == pytest.approx(roc_auc_score(side, scores), abs=1e-12)
    share = m / (n + m)
    chance = log_loss(side, np.full(n + m, share))
    assert sides.log_loss == pytest.approx(log_loss(side, 1 / (1 + np.exp(-scores))) / chance, abs=1e-9)
    assert sides.auc > 0.88
    # The ratio is a density ratio: mean 1 over T̂, and 1/ε at most.
    assert sides.ratio_train.mean() == pytest.approx(1, abs=0.15)
    assert sides.ratio_by_part.mean() == pytest.approx(1, abs=0.15)
    assert sides.ratio_train[leaked].mean() > 5 * sides.ratio_train[~leaked].mean()
    np.testing.assert_allclose(
        np.log(sides.ratio_validation), sides.score_validation - np.log(m / n), rtol=0, atol=1e-12
    )


def members_of(world, side):
    X, y, split, _ = world
    rows = np.concatenate([split.train, split.validation])
    rng = np.random.default_rng(3)
    return Members(encode(X, y, rows), np.asarray(split.groups)[rows], side, rng.random(len(rows)))


@pytest.mark.slow
def test_the_side_of_a_record_does_not_change_its_own_score(world):
    """Records of one fold that change sides teach nothing about that fold, in the members and in the stack."""
    split = world[2]
    n = len(split.train)
    side = np.repeat([0, 1], [n, len(split.validation)])
    fold = _deal(np.random.default_rng(1), side, np.zeros(len(side), dtype=int), 5)
    changed = side.copy()
    moved = np.flatnonzero(fold == 2)[::7]
    changed[moved] = 1 - changed[moved]
    log_ratios = []
    for of in (side, changed):
        members = members_of(world, of)
        by_member = _out_of_fold(members, fold, np.random.default_rng(2))
        log_ratios.append((by_member, fit_stack(by_member, of, fold, members.order).without_fold[2]))
    (before, stack_before), (after, stack_after) = log_ratios
    np.testing.assert_array_equal(before[fold == 2], after[fold == 2])
    assert not np.allclose(before[fold != 2], after[fold != 2])
    # The stack of fold 2 learns from the other folds' records, whose log ratios did change.
    assert not np.allclose(stack_before, stack_after)
    stacks = [fit_stack(before, of, fold, members.order).without_fold[2] for of in (side, changed)]
    np.testing.assert_array_equal(*stacks)


def test_weights_of_a_part_do_not_depend_on_its_records(world):
    """Records of V̂ in part 3 are replaced by others: members that are fitted again give part 3 the same weights."""
    split = world[2]
    n = len(split.train)
    side = np.repeat([0, 1], [n, len(split.validation)])
    members = members_of(world, side)
    fold = _deal(np.random.default_rng(1), side, np.zeros(len(side), dtype=int), 5)
    by_member = _out_of_fold(members, fold, np.random.default_rng(2))
    stack = fit_stack(by_member, side, fold, members.order)
    stack.whole[1:-1] = 1.0  # All members are fitted again.
    before = _log_ratio_by_part(members, stack, by_member, fold, np.random.default_rng(4))
    hidden = (fold == 3) & (side == 1)
    members.records.features[hidden] = 9.0
    members._terms[hidden] = 9.0
    members.records.columns[hidden] = 9.0
    after = _log_ratio_by_part(members, stack, by_member, fold, np.random.default_rng(4))
    np.testing.assert_array_equal(before[3], after[3])
    assert not np.allclose(before[1], after[1])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(world, sides):
    again, other = told(world), told(world, seed=np.random.SeedSequence(5), parts=False)
    for name in ("ratio_by_part", "ratio_validation", "ratio_train", "score_train", "fold_train", "part"):
        np.testing.assert_array_equal(getattr(sides, name), getattr(again, name))
    assert not np.array_equal(sides.ratio_train, other.ratio_train)
    without = told(world, parts=False)
    assert without.ratio_by_part.shape == (0, len(world[2].train))
    np.testing.assert_array_equal(without.ratio_train, sides.ratio_train)
    forest = RandomForestClassifier(5, max_depth=3)
    first, second = (told(world, classifier=make_pipeline(StandardScaler(), forest)) for _ in range(2))
    np.testing.assert_array_equal(first.ratio_by_part, second.ratio_by_part)


def frame(world):
    X = world[0]
    table = pd.DataFrame(X, columns=list("abcde"))
    table.loc[::9, "a"] = np.nan
    table["b"] = pd.cut(table["b"], 4).astype(str)
    table.loc[5, "b"] = None
    table["c"] = pd.Categorical(np.where(table["c"] > 0, "x", "y"))
    table["d"] = pd.array(np.where(ALL % 11, 10 * X[:, 3], np.nan).round(), dtype="Int64")
    table["f"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(ALL % 30, unit="D")
    return table


TABLES = {
    "sparse": lambda X: sp.csr_matrix(X),
    "sparse, by coordinates": lambda X: sp.coo_array(X),
    "sparse and wide": lambda X: sp.hstack([X, sp.random(len(X), 300, 0.01, random_state=0)]).tocsr(),
    "integers": lambda X: (10 * X).astype(int),
    "dense and wide": lambda X: np.column_stack([X, 0.3 * np.random.default_rng(0).standard_normal((len(X), 55))]),
    "lists": lambda X: X.tolist(),
    "one feature": lambda X: X[:, :1],
    "a constant feature": lambda X: 0 * X[:, :1] + 0.1,
    "infinite": lambda X: np.where(X > 2.5, np.inf, X),
}


LEAST_AUC = {"sparse and wide": 0.8, "dense and wide": 0.7, "one feature": 0.55, "a constant feature": 0.45}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_every_kind(world, kind):
    checked(told(world, TABLES[kind](world[0]), parts=False), LEAST_AUC.get(kind, 0.85))


def checked(sides, least):
    ratios = np.concatenate([sides.ratio_by_part.ravel(), sides.ratio_train, sides.ratio_validation])
    assert np.isfinite(ratios).all()
    assert (ratios > 0).all()
    assert sides.ratio_train.mean() == pytest.approx(1, abs=0.4)
    assert sides.auc > least


@pytest.mark.slow
def test_frames_with_missing_values_and_categories(world):
    table = frame(world)
    checked(told(world, table, parts=False), 0.8)
    checked(told(world, table.to_numpy(dtype=object), parts=False), 0.75)


@pytest.mark.parametrize(
    "target",
    [
        lambda y: np.where(y, "ill", "well"),
        lambda y: pd.Series(y, dtype="category"),
        lambda y: y.astype(bool),
        lambda y: 0 * y,
        lambda y: None,
        lambda y: np.arange(len(y)) % 15,
        lambda y: np.column_stack([y, y + 0.1 * np.arange(len(y))]),
        lambda y: np.column_stack([y, 1 - y, y]),
        lambda y: np.where(y, np.nan, 1.0),
    ],
    ids=["names", "categories", "bool", "constant", "none", "classes", "two numbers", "labels", "missing"],
)
def test_targets_of_every_kind(world, target):
    X, y, split, _ = world
    rows = split.train, split.validation
    checked(tell_sides_apart(X, target(y), *rows, clusters=split.groups, seed=0, parts=False), 0.85)


@pytest.mark.slow
def test_the_target_alone_tells_the_sides_apart(world):
    X, _, split, _ = world
    held_out = np.zeros(480)
    held_out[split.validation] = 3.0
    noise = np.random.default_rng(0).standard_normal(480)
    assert told(world, np.ones((480, 2)), held_out + noise, parts=False).auc > 0.9
    assert told(world, X, held_out + noise, discrete=False, parts=False).auc > 0.97


@pytest.mark.slow
def test_the_preprocessing_of_a_pipeline_comes_first(world):
    X = world[0]
    texts = np.array([[f"{value:.3f} kg" for value in row] for row in X], dtype=object)

    def parse(table):
        return np.array([[float(text.split()[0]) for text in row] for row in table])

    pipeline = make_pipeline(FunctionTransformer(parse), StandardScaler(), LinearRegression())
    np.testing.assert_array_equal(
        told(world, texts, estimator=pipeline).ratio_train,
        told(world, X.round(3), estimator=make_pipeline(StandardScaler(), LinearRegression())).ratio_train,
    )
    # A step that returns other rows is left out, and so is the preprocessing of what is no pipeline.
    other_rows = make_pipeline(FunctionTransformer(lambda table: table[:-1]), LinearRegression())
    plain = told(world).ratio_train
    for estimator in (other_rows, LinearRegression(), make_pipeline(LinearRegression())):
        np.testing.assert_array_equal(told(world, estimator=estimator).ratio_train, plain)


def test_encoding():
    y = np.array([1.0, 2.0, 3.5] * 40)
    table = pd.DataFrame({"number": np.arange(120.0), "same": 1, "level": ["a", "b", "c"] * 40})
    table.loc[0, "number"] = np.nan
    records = encode(table, y, np.arange(120))
    assert records.features.shape == (120, 1 + 1 + 2)
    assert records.targets.shape == (120, 1)
    assert records.classes is None
    np.testing.assert_allclose(records.features.mean(axis=0)[0], 0, atol=1e-12)
    classes = encode(table, np.arange(120) % 10, np.arange(120))
    assert set(classes.classes) == set(range(6))
    assert classes.targets.shape == (120, 5)
    assert standardise(np.array([[0.0], [0.0], [0.0]] * 40 + [[1.0]])).max() == 4
    assert [is_discrete(v) for v in (["a", "b"], [0.0, 1.0, 1.0], [0.0, 1.0, 2.0], np.arange(20), np.arange(21))] == [
        *(True, True, False, True, False)
    ]


def test_the_users_own_classifier(world):
    checked(told(world, classifier=LogisticRegression()), 0.8)


@pytest.mark.parametrize(
    ("classifier", "named"),
    [
        (LinearSVC(), "LinearSVC, which has none"),
        (LogisticRegression, "the class LogisticRegression"),
        ("trees", "str"),
    ],
)
def test_a_classifier_without_probabilities_is_refused_before_any_fit(classifier, named):
    with pytest.raises(InputError, match=f"discriminator must be a classifier with predict_proba, got {named}"):
        tell_sides_apart(None, None, [0], [1], clusters=[0, 1], seed=0, classifier=classifier)


def test_few_records_have_fewer_parts_and_too_few_are_refused(world):
    X, y, split, _ = world
    few = tell_sides_apart(X, y, split.train, split.validation[:3], clusters=split.groups, seed=0)
    assert few.ratio_by_part.shape[0] == 3
    assert sorted(few.part) == [0, 1, 2]
    with pytest.raises(InputError, match=r"at least 2 records each to be told apart, got .* and 1"):
        tell_sides_apart(X, y, split.train, split.validation[:1], clusters=split.groups, seed=0)


@pytest.mark.slow
def test_very_many_clusters_share_laws(world):
    checked(told(world, clusters=ALL, parts=False), 0.8)
    points = np.random.default_rng(0).standard_normal((900, 2))
    merged = _merged(points, np.repeat(np.arange(450), 2))
    assert 100 < len(np.unique(merged)) <= 200
    assert np.array_equal(merged[::2], merged[1::2])
    assert np.array_equal(_merged(points, np.arange(900) % 7 + 5), np.arange(900) % 7)


def test_very_many_records_are_drawn_from():
    side = np.repeat([0, 1], [9000, 1000])
    order = np.random.default_rng(0).random(10_000)
    drawn = some_of_both(np.arange(10_000), side, order, 3000)
    assert np.bincount(side[drawn]).tolist() == [2000, 1000]
    assert np.bincount(side[some_of_both(np.arange(10_000), side, order, 1000)]).tolist() == [500, 500]
    assert order[drawn][side[drawn] == 0].max() < np.sort(order[:9000])[2000]
    assert len(some_of_both(np.arange(50), side, order, 1000)) == 50


def test_nothing_is_warned_of_when_the_sides_separate_completely(world):
    X, _, split, _ = world
    apart = X.copy()
    apart[split.validation] += 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sides = told(world, apart)
    assert sides.auc == 1
    assert sides.ceiling < 0.01

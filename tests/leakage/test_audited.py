"""Audited records: drawn as entities, records or clusters; both sides, the pieces, the errors, and files."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    LeaveOneGroupOut,
    LeavePGroupsOut,
    StratifiedGroupKFold,
)

import outofcluster as ooc
from outofcluster._base.plain import plain, read
from outofcluster.leakage.audited import LinkageErrors
from outofcluster.leakage.rate import Leakage

SIDES = ["train", "validation"]


# True cluster 0 is whole, 1 in two pieces, 2 in three; approximate cluster "c" mixes 1 and 2.
true = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
approximate = np.array(list("aaabccddef"))


class Repeated:
    """Two group-wise 3-folds one after another: more splits than folds."""

    def __init__(self, n_splits):
        self.n_splits = n_splits

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2 * self.n_splits

    def split(self, X, y=None, groups=None):
        for seed in range(2):
            yield from GroupKFold(self.n_splits, shuffle=True, random_state=seed).split(X, y, groups)


def counted(fold_of, k, of):
    """Leaked records and records of the side, summed over folds, for one assignment of clusters to folds."""
    fold = fold_of[np.unique(approximate, return_inverse=True)[1]]
    leaked = size = 0
    for f in range(k):
        own, other = (fold != f, fold == f) if of == "train" else (fold == f, fold != f)
        leaked += np.isin(true[own], true[other]).sum()
        size += own.sum()
    return leaked, size


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize("k", [2, 3])
def test_audited_records_give_the_average_over_all_assignments_to_folds(k, of):
    outcomes = np.array([counted(np.array(a), k, of) for a in product(range(k), repeat=6)])
    leaked, size = outcomes.sum(axis=0)
    assert Leakage.from_true_groups(true, approximate, cv=k, of=of).rate == pytest.approx(leaked / size, rel=1e-12)


def test_audited_records_by_hand():
    # h is 1 for the true cluster 1 and 2 for 2, "c" "d" "e" holding 2.
    p0 = Leakage.from_true_groups(true, approximate, of="train")
    assert p0.rate == pytest.approx((2 * 0.2 + 4 * (1 - 0.8**2)) / 10)
    rho0 = Leakage.from_true_groups(true, approximate, of="validation")
    assert rho0.rate == pytest.approx((2 * 0.8 + 4 * (1 - 0.2**2)) / 10)
    assert rho0.of == "validation"
    # Ratio estimator over four true clusters.
    residual = np.array([-3 * 0.184, 2 * (0.2 - 0.184), 4 * (0.36 - 0.184), -0.184])
    assert p0.std == pytest.approx(np.sqrt(4 / 3 * (residual**2).sum()) / 10)
    both = Leakage.from_true_groups(true, approximate)
    assert (both.train, both.validation) == (p0, rho0)
    assert (both.rate, both.std, both.of) == (rho0.rate, rho0.std, "validation")


@pytest.mark.parametrize("of", SIDES)
def test_fixed_splits_are_counted(of):
    rows = np.arange(10)
    fold = np.array([0, 0, 0, 1, 2, 2, 0, 0, 1, 2])
    pairs = [(rows[fold != f], rows[fold == f]) for f in range(3)]
    own = 0 if of == "train" else 1
    shares = [np.isin(true[pair[own]], true[pair[1 - own]]).mean() for pair in pairs]
    assert Leakage.from_true_groups(true, approximate, cv=pairs, of=of).rate == pytest.approx(np.mean(shares))
    assert Leakage.from_true_groups(true, approximate, cv=iter(pairs[:1]), of=of).rate == pytest.approx(shares[0])


@pytest.mark.parametrize(
    ("cv", "share"),
    [
        (None, 1 / 5),
        (3, 1 / 3),
        (np.int64(4), 1 / 4),
        (20, 1 / 20),
        (GroupKFold(3), 1 / 3),
        (GroupKFold(20, shuffle=True, random_state=0), 1 / 20),
        (StratifiedGroupKFold(4), 1 / 4),
        (GroupShuffleSplit(10, test_size=0.5, random_state=0), 1 / 2),
        (LeaveOneGroupOut(), 1 / 6),
        (LeavePGroupsOut(2), 2 / 6),
        (Repeated(3), 1 / 3),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "split") else str(value),
)
def test_a_splitter_counts_by_its_validation_share(cv, share):
    wanted = (2 * share + 4 * (1 - (1 - share) ** 2)) / 10
    assert Leakage.from_true_groups(true, approximate, cv=cv).train.rate == pytest.approx(wanted)
    # Cluster "a" has three records and "b" one: if they belong together, all four leak.
    by_pairs = Leakage.from_pair_probabilities([0], [3], [0.5], groups=approximate, cv=cv)
    assert by_pairs.train.rate == pytest.approx(0.5 * 4 * share / 10)


def test_a_splitter_keeps_its_random_state():
    random = np.random.RandomState(0)
    Leakage.from_true_groups(true, approximate, cv=GroupShuffleSplit(3, random_state=random))
    assert random.randint(10**6) == np.random.RandomState(0).randint(10**6)


def test_an_audit_that_finds_nothing_or_too_little():
    clean = Leakage.from_true_groups(np.repeat(np.arange(100), 3), np.repeat(np.arange(100), 3), of="train")
    assert clean.rate == 0
    # At most 3.69 of 100 clusters are cut at this level, exact for a Poisson count of 0, and each leaks 1/5.
    assert clean.interval() == (0, pytest.approx(0.2 / 100 * stats.chi2(2).ppf(0.975) / 2))
    one = Leakage.from_true_groups([1, 1, 1], ["a", "a", "b"], of="train")
    assert one.std is None
    assert one.rate == pytest.approx(0.2)
    # Where all leak alike the standard error is not 0.
    alike = Leakage.from_true_groups([1, 1, 2, 2], ["a", "b", "c", "d"], of="train")
    assert alike.std == pytest.approx(0.2 / 3)


@pytest.mark.parametrize(
    "labels",
    [list("xyzw"), [1, "1", 2.5, "x"], pd.date_range("2020", periods=4), pd.Categorical(list("xyzw"))],
    ids=["str", "mixed", "dates", "categories"],
)
def test_labels_of_any_kind(labels):
    wanted = Leakage.from_true_groups(true, approximate)
    same_labels = labels[true] if hasattr(labels, "dtype") else [labels[t] for t in true]
    assert Leakage.from_true_groups(same_labels, approximate.tolist()) == wanted
    index = range(5, 15)
    assert Leakage.from_true_groups(pd.Series(same_labels, index=index), pd.Series(approximate, index=index)) == wanted
    assert Leakage.from_true_groups(pd.Series(same_labels, index=index), approximate) == wanted


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=2, max_size=30), st.integers(2, 8))
def test_rates_are_shares_and_grow_with_splitting(labels, k):
    entity = np.array([e for e, _ in labels] + [9])
    groups = np.array([g for _, g in labels] + [9])
    finer = groups.copy()
    finer[0] = 77
    for of in SIDES:
        before = Leakage.from_true_groups(entity, groups, cv=k, of=of)
        after = Leakage.from_true_groups(entity, finer, cv=k, of=of)
        assert 0 <= before.rate < 1
        # One record cut off: no fewer pieces for any true cluster, unless the record was the only one of its piece.
        assert after.rate >= before.rate - 1e-12
        low, high = before.interval()
        assert 0 <= low <= before.rate <= high <= 1
    fewer_folds = Leakage.from_true_groups(entity, groups, cv=k).train.rate
    assert fewer_folds >= Leakage.from_true_groups(entity, groups, cv=k + 1).train.rate - 1e-12


def linked_people(rng, count=1500, alone=0.08, merged=0.02):
    """Entities of 1 to 10 records that lose single records, large ones in halves as well, and some merged ones."""
    size = rng.choice([1, 2, 3, 4, 10], count, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    entity = np.repeat(np.arange(count), size)
    groups = entity.copy()
    lost = np.flatnonzero(rng.random(len(entity)) < alone)
    groups[lost] = count + np.arange(len(lost))
    halved = (size[entity] == 10) & (rng.random(count)[entity] < 0.2) & (rng.random(len(entity)) < 0.5)
    groups[halved] = 10**6 + entity[halved]
    joined = (rng.random(count) < merged)[entity] & (groups < count - 1)
    groups[joined] += 1
    return entity, groups


def brute_rates(entity, groups, folds=5):
    """Both rates, by the definition: over all sides that the other pieces of each entity can be on."""
    held_out = 1 / folds
    pieces = pd.Series(groups).groupby(entity).nunique()
    others = pieces.loc[entity].to_numpy() - 1
    return {"train": np.mean(1 - (1 - held_out) ** others), "validation": np.mean(1 - held_out**others)}


def draw(rng, entity, groups, drawn, count):
    """A sample of ``count`` units, the mates looked up, and which rows were drawn."""
    if drawn == "entities":
        chosen = rng.choice(np.unique(entity), count, replace=False)
        return np.flatnonzero(np.isin(entity, chosen)), None
    if drawn == "clusters":
        records = np.flatnonzero(np.isin(groups, rng.choice(np.unique(groups), count, replace=False)))
    else:
        records = rng.choice(len(entity), count, replace=False)
    rows = np.flatnonzero(np.isin(entity, entity[records]))
    return rows, np.isin(rows, records)


@pytest.mark.slow
@pytest.mark.parametrize("drawn", ["records", "entities", "clusters"])
def test_200_audits_are_unbiased_and_their_intervals_cover(drawn):
    entity, groups = linked_people(np.random.default_rng(0))
    truth = brute_rates(entity, groups)
    rng = np.random.default_rng(1)
    rates, covers = {of: [] for of in SIDES}, {of: 0 for of in SIDES}
    for _ in range(200):
        rows, sampled = draw(rng, entity, groups, drawn, 150)
        leakage = Leakage.from_true_groups(entity[rows], groups[rows], cv=5, drawn=drawn, sampled=sampled)
        assert not leakage.at_least
        for of in SIDES:
            side = getattr(leakage, of)
            rates[of].append(side.rate)
            low, high = side.interval()
            covers[of] += low <= truth[of] <= high
    for of in SIDES:
        assert np.mean(rates[of]) == pytest.approx(truth[of], rel=0.05)
        # Ratios over entities and clusters are not exactly unbiased.
        assert covers[of] / 200 >= (0.92 if drawn == "records" else 0.9)


def test_all_ways_of_drawing_agree_where_everything_is_audited():
    entity, groups = linked_people(np.random.default_rng(2), 200)
    truth = brute_rates(entity, groups)
    everything = np.ones(len(entity), dtype=bool)
    for drawn, sampled in (("entities", None), ("records", everything), ("clusters", everything)):
        leakage = Leakage.from_true_groups(entity, groups, drawn=drawn, sampled=sampled)
        assert leakage.validation.rate == pytest.approx(truth["validation"])
        assert leakage.train.rate == pytest.approx(truth["train"])


@pytest.mark.slow
def test_records_that_are_not_marked_count_each_entity_once():
    entity, groups = linked_people(np.random.default_rng(3), 4000)
    rng = np.random.default_rng(4)
    found, unweighted = [], []
    for _ in range(60):
        rows, _ = draw(rng, entity, groups, "records", 150)
        found.append(Leakage.from_true_groups(entity[rows], groups[rows], drawn="records").rate)
        unweighted.append(Leakage.from_true_groups(entity[rows], groups[rows]).rate)
    truth = brute_rates(entity, groups)["validation"]
    assert np.mean(found) == pytest.approx(truth, rel=0.06)
    # Entities of sampled records are too often large ones, which leak more.
    assert np.mean(unweighted) > 1.3 * truth


def test_clusters_whose_mates_were_not_looked_up_give_a_lower_bound():
    entity, groups = linked_people(np.random.default_rng(5))
    rows, sampled = draw(np.random.default_rng(6), entity, groups, "clusters", 300)
    own = rows[sampled]
    leakage = Leakage.from_true_groups(entity[own], groups[own], drawn="clusters")
    assert leakage.at_least
    assert leakage.train.at_least
    assert leakage.rate < 0.8 * brute_rates(entity, groups)["validation"]
    assert leakage.interval()[1] == 1
    assert leakage.upper is None
    assert str(leakage).startswith("at least ")


def test_a_sample_inside_one_linked_cluster_leaks_nothing():
    one = Leakage.from_true_groups(np.zeros(5), np.zeros(5), cv=5)
    assert (one.rate, one.train.rate) == (0, 0)
    assert one.interval()[1] > 0.5
    merged = Leakage.from_true_groups([1, 1, 2, 3], ["a"] * 4)
    assert merged.rate == 0
    assert merged.linkage_errors.n_merged == 1


def test_a_plain_rate_has_one_side():
    plain_rate = Leakage(0.1, 0.02, "validation", 0.2)
    assert plain_rate.validation == plain_rate
    assert plain_rate.train is None
    assert plain_rate.groups is None
    with_both = Leakage(0.3, 0.03, "validation", other=Leakage(0.1, 0.01))
    assert with_both.validation == Leakage(0.3, 0.03, "validation")
    assert with_both.train == Leakage(0.1, 0.01)
    assert with_both.to_frame()["of"].tolist() == ["validation", "train"]
    assert str(with_both).count("records leak") == 2
    assert "other=Leakage(rate=0.1" in repr(with_both)


@pytest.mark.parametrize("level", [0.3, 0.9, 0.95])
def test_the_interval_of_a_lower_bound_is_one_sided(level):
    low, high = Leakage(0.2, 0.05, at_least=True).interval(level)
    assert high == 1
    assert low <= 0.2
    assert Leakage(0, 0.01, at_least=True).interval(level) == (0, 1)
    # All that may err is on one side, so that end is nearer than that of a two-sided interval.
    assert low >= Leakage(0.2, 0.05).interval(level)[0]


def test_the_audit_takes_the_side_that_its_error_model_asks_for():
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(60), 4)
    groups = np.where(rng.random(240) < 0.1, 100 + np.arange(240), entity)
    X, y = rng.standard_normal((60, 3))[entity], (np.arange(60) % 2)[entity]
    leakage = Leakage.from_true_groups(entity, groups)
    options = {"groups": groups, "leakage": leakage, "n_fits": 60, "random_state": 0}
    small = ooc.audit(KNeighborsClassifier(1), X, y, **options)
    assert small.error_model == "fragments"
    assert small.leakage[0] == leakage.validation
    records = ooc.audit(KNeighborsClassifier(1), X, y, error_model="records", unmix=False, **options)
    assert records.leakage[0] == leakage.train


def test_files_keep_everything_but_the_groups(tmp_path):
    entity, groups = linked_people(np.random.default_rng(7), 300)
    leakage = Leakage.from_true_groups(entity, groups, drawn="clusters")
    data = json.loads(json.dumps(leakage.to_dict()))
    again = Leakage.from_dict(data)
    assert again == leakage
    assert again.pieces == leakage.pieces
    assert again.linkage_errors == leakage.linkage_errors
    assert (again.at_least, again.train) == (True, leakage.train)
    assert plain(Leakage(0.1)) == {"rate": 0.1, "std": None, "of": "train", "bound": None}
    singles = Leakage.from_true_groups([1, 2, 3], [1, 2, 3])
    errors = read(LinkageErrors, json.loads(json.dumps(plain(singles.linkage_errors))), "linkage errors")
    assert np.isnan(errors.split_rate)


def test_splits_and_merges_are_counted():
    # Entity 1 is in two pieces, 2 is whole, 3 shares the cluster of 2.
    errors = Leakage.from_true_groups([1, 1, 1, 2, 2, 3], ["a", "a", "b", "c", "c", "c"]).linkage_errors
    assert (errors.n_records, errors.n_entities, errors.n_clusters) == (6, 3, 3)
    assert (errors.n_split, errors.n_merged) == (1, 1)
    assert (errors.split_rate, errors.merge_rate) == (0.5, 0.5)
    assert errors.bcubed_recall == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 3) / 6)
    assert errors.bcubed_precision == pytest.approx((3 + 2 / 3 + 2 / 3 + 1 / 3) / 6)
    assert errors.sizes == ((1, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 1))
    assert errors.to_frame().shape == (1, 10)
    assert errors.to_frame()["misplaced"].item() == pytest.approx(1 / 6 / 5)
    assert "3.33 % of the training records are misplaced" in str(errors)


def brute_misplaced(entity, groups, splits):
    """Misplaced records that train while their main cluster is held out, and training records, record by record."""
    wrong = trained = 0
    for train, held_out in splits:
        for row in train:
            clusters = [group for of, group in zip(entity, groups, strict=True) if of == entity[row]]
            main = max(dict.fromkeys(clusters), key=clusters.count)
            wrong += groups[row] != main and main in {groups[other] for other in held_out}
            trained += 1
    return wrong / trained


def test_misplaced_records_by_brute_force_over_folds():
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(6), [6, 5, 4, 2, 1, 1])
    # The last two are whole, so that no split lets every record leak.
    groups = np.where((rng.random(19) < 0.4) & (entity < 4), rng.integers(0, 4, 19), entity)
    rows = np.arange(19)
    every = []
    for folds in product(range(3), repeat=6):
        for held_out in range(3):
            inside = np.array(folds)[groups] == held_out
            every.append((rows[~inside], rows[inside]))
    expected = brute_misplaced(entity, groups, every)
    errors = Leakage.from_true_groups(entity, groups, cv=3).linkage_errors
    assert 0 < expected == pytest.approx(errors.misplaced)
    # Given splits count as they are.
    shares = []
    for train, held_out in every[::20]:
        if {4, 5} & set(entity[train]) and {4, 5} & set(entity[held_out]):
            given = Leakage.from_true_groups(entity, groups, cv=[(train, held_out)])
            shares.append(given.linkage_errors.misplaced)
            assert shares[-1] == pytest.approx(brute_misplaced(entity, groups, [(train, held_out)]))
            assert shares[-1] <= given.train.rate
    assert len(set(shares)) > 5


@pytest.mark.slow
def test_misplaced_records_by_how_they_were_drawn():
    entity, groups = linked_people(np.random.default_rng(7), 300)
    whole = Leakage.from_true_groups(entity, groups).linkage_errors.misplaced
    rng = np.random.default_rng(0)
    for drawn in ("records", "entities", "clusters"):
        found = []
        for _ in range(60):
            rows, sampled = draw(rng, entity, groups, drawn, 100)
            audited = Leakage.from_true_groups(entity[rows], groups[rows], drawn=drawn, sampled=sampled)
            found.append(audited.linkage_errors.misplaced)
        assert np.mean(found) == pytest.approx(whole, abs=4 * np.std(found) / np.sqrt(60)), drawn


@pytest.mark.slow
def test_the_split_rate_of_drawn_records_is_that_of_the_population():
    entity, groups = linked_people(np.random.default_rng(8), 4000, merged=0)
    whole = Leakage.from_true_groups(entity, groups)
    rng = np.random.default_rng(9)
    errors, laws = [], []
    for _ in range(40):
        rows, sampled = draw(rng, entity, groups, "records", 200)
        audited = Leakage.from_true_groups(entity[rows], groups[rows], drawn="records", sampled=sampled)
        errors.append(audited.linkage_errors)
        laws.append(audited.pieces)
    assert np.mean([e.split_rate for e in errors]) == pytest.approx(whole.linkage_errors.split_rate, rel=0.1)
    assert np.mean([e.bcubed_recall for e in errors]) == pytest.approx(whole.linkage_errors.bcubed_recall, rel=0.02)
    cut = [law.n_split / law.n_entities for law in laws]
    assert np.mean(cut) == pytest.approx(whole.pieces.n_split / whole.pieces.n_entities, rel=0.1)

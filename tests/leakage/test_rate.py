"""Leakage rates: the formulas against brute force over assignments to folds, and what is refused."""

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

from outofcluster._base.exceptions import InputError
from outofcluster.leakage.rate import Leakage

SIDES = ["train", "validation"]
# True cluster 0 is whole, 1 in two pieces, 2 in three; approximate cluster "c" mixes 1 and 2.
true = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
approximate = np.array(list("aaabccddef"))
split = [([0, 1, 2, 3, 5], [4, 6])]


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


def belongs(odds):
    """P(record belongs to one of these clusters), by the definition."""
    odds = list(odds)
    return 1.0 if np.inf in odds else sum(odds) / (1 + sum(odds))


def brute_pairs(left, right, m, groups, own, other):
    """Mean of q over the rows ``own`` for clusters among the rows ``other``, written as loops."""
    total = 0.0
    there = {groups[v] for v in other}
    for j in own:
        best = {}
        for one, two, p in zip(left, right, m, strict=True):
            for a, v in ((one, two), (two, one)):
                if groups[a] == groups[j] and groups[v] in there and groups[v] != groups[j]:
                    best[groups[v]] = max(best.get(groups[v], 0), p)
        total += belongs(np.inf if p == 1 else p / (1 - p) for p in best.values())
    return total / len(own)


def random_pairs(seed, n_pairs=14):
    rng = np.random.default_rng(seed)
    groups = np.array([0, 0, 1, 1, 2, 3, 3, 4])
    every = np.array([(i, j) for i in range(8) for j in range(i)])
    left, right = rng.permuted(every[rng.choice(len(every), n_pairs, replace=False)], axis=1).T
    m = rng.beta(0.5, 1, n_pairs)
    m[:2] = 1, 0
    return left, right, m, groups


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize("seed", range(5))
def test_pairs_over_fixed_splits(seed, of):
    left, right, m, groups = random_pairs(seed, 9)
    # Rows may be left out of a split, here 7.
    pairs = [([0, 1, 4], [2, 3, 5, 6]), ([2, 3, 5], [0, 1, 4])]
    wanted = [brute_pairs(left, right, m, groups, *(p if of == "train" else p[::-1])) for p in pairs]
    estimate = Leakage.from_pair_probabilities(left, right, m, groups=groups, cv=pairs, of=of)
    assert estimate.rate == pytest.approx(np.mean(wanted))
    assert estimate.of == of


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_pairs_over_folds_are_the_average_over_all_assignments(seed, k, of):
    left, right, m, groups = random_pairs(seed)
    leaked = size = 0
    rows = np.arange(8)
    for assignment in product(range(k), repeat=5):
        fold = np.array(assignment)[groups]
        for f in range(k):
            own, other = (fold != f, fold == f) if of == "train" else (fold == f, fold != f)
            if own.any():
                leaked += brute_pairs(left, right, m, groups, rows[own], set(rows[other])) * own.sum()
            size += own.sum()
    estimate = Leakage.from_pair_probabilities(left, right, m, groups=groups, cv=k)
    assert getattr(estimate, of).rate == pytest.approx(leaked / size, rel=1e-9)


@given(
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300, 1 - 1e-15]), min_size=1, max_size=7),
    st.integers(2, 30),
    st.sampled_from(SIDES),
)
def test_a_record_with_many_candidates_stays_within_its_bounds(m, k, of):
    """The integral against the sum over all subsets; max m and min(1, Σ m) bound every subset."""
    d = len(m)
    share = 1 / k if of == "train" else 1 - 1 / k
    wanted = low = high = 0.0
    for there in product([False, True], repeat=d):
        chance = np.prod([share if t else 1 - share for t in there])
        present = [p for p, t in zip(m, there, strict=True) if t]
        wanted += chance * belongs(np.inf if p == 1 else p / (1 - p) for p in present)
        low += chance * max(present, default=0)
        high += chance * min(1, sum(present))
    others = sum(share * p for p in m)
    estimate = Leakage.from_pair_probabilities(
        [0] * d, range(1, d + 1), m, groups=range(d + 1), ids=range(d + 1), cv=k, of=of
    )
    assert estimate.rate * (d + 1) - others == pytest.approx(wanted, abs=1e-10)
    assert low - 1e-10 <= estimate.rate * (d + 1) - others <= high + 1e-10


def test_pairs_that_do_not_count():
    groups = ["a", "a", "b", "c"]
    wanted = Leakage.from_pair_probabilities([0], [2], [0.4], groups=groups, of="train")
    assert wanted.rate == pytest.approx(3 * 0.4 / 5 / 4)
    # Inside a cluster, the same pair turned round, a record with itself, a less probable pair of the same clusters.
    more = Leakage.from_pair_probabilities(
        [0, 0, 2, 3, 1], [2, 1, 0, 3, 2], [0.4, 0.9, 0.4, 0.7, 0.3], groups=groups, of="train"
    )
    assert more == wanted
    inside = Leakage.from_pair_probabilities([0, 2], [1, 3], [0.9, 0.9], groups=groups, cv=[([2, 3], [0, 1])])
    assert (inside.rate, inside.std) == (0, 0)


def test_the_standard_error_of_pairs_by_hand():
    # Between "a" and "b": three records, which match together, and with them "a" and "c".
    options = {"groups": ["a", "a", "b", "c"], "of": "train", "blocking_recall": 1}
    estimate = Leakage.from_pair_probabilities([0, 1, 0], [2, 2, 3], [0.4, 0.2, 0.1], **options)
    together = np.array([3 * np.sqrt(0.24), 3 * np.sqrt(0.09)]) / 5 / 4
    # The two candidates of "a" may exclude each other or not.
    low, high = np.array([2 * 0.4 + 0.4 + 0.1, 2 * 0.5 + 0.4 + 0.1]) / 5 / 4
    assert estimate.std == pytest.approx(np.hypot(np.sqrt((together**2).sum()), (high - low) / 4))
    certain = Leakage.from_pair_probabilities([0], [2], [1.0], **options)
    assert (certain.rate, certain.std) == (pytest.approx(3 / 5 / 4), 0)


def test_precision_and_recall():
    # 1000 links, 900 of them true, which is 3/4 of all true pairs: 300 missed.
    counts = {"n_links": 1000, "n_records": 3000, "validation_share": 0.2}
    p0 = Leakage.from_precision_recall(0.9, 0.75, **counts).train
    assert (p0.rate, p0.std) == (pytest.approx(2 * 0.2 * 300 / 3000), None)
    rho0 = Leakage.from_precision_recall(0.9, 0.75, **counts, mates=2, of="validation")
    assert rho0.rate == pytest.approx(2 * 0.8 * 300 / 3000 / 2)
    assert Leakage.from_precision_recall(0.9, 1.0, **counts).rate == 0
    both = Leakage.from_precision_recall(0.9, 0.75, **counts, precision_std=0.01, recall_std=0.02).train

    def rate(precision, recall):
        return Leakage.from_precision_recall(precision, recall, **counts).train.rate

    by_precision = (rate(0.9001, 0.75) - rate(0.8999, 0.75)) / 0.0002 * 0.01
    by_recall = (rate(0.9, 0.7501) - rate(0.9, 0.7499)) / 0.0002 * 0.02
    assert both.std == pytest.approx(np.hypot(by_precision, by_recall), rel=1e-5)
    alone = Leakage.from_precision_recall(0.9, 0.75, **counts, recall_std=0.02).train
    assert alone.std == pytest.approx(abs(by_recall), rel=1e-5)


@pytest.mark.parametrize("of", SIDES)
def test_precision_and_recall_agree_with_the_audit_of_clusters_cut_in_two(of):
    """Pairs of records, some cut: one mate each, so the formula is exact."""
    entity = np.repeat(np.arange(500), 2)
    groups = np.where((np.arange(1000) % 2 == 1) & (entity < 60), entity + 500, entity)
    audit = Leakage.from_true_groups(entity, groups, of=of)
    pairs = Leakage.from_precision_recall(1, 440 / 500, n_links=440, n_records=1000, validation_share=0.2, of=of)
    assert pairs.rate == pytest.approx(audit.rate)


@given(st.floats(0, 0.999), st.floats(0, 2), st.floats(0.01, 0.99))
def test_intervals(rate, std, level):
    low, high = Leakage(rate, std).interval(level)
    assert 0 <= low <= rate <= high <= 1
    wider = Leakage(rate, std).interval(level + (1 - level) / 2)
    assert wider[0] <= low
    assert wider[1] >= high
    if std == 0:
        assert (low, high) == pytest.approx((rate, rate), abs=1e-12)


def test_an_interval_far_from_the_edges_is_the_normal_one():
    low, high = Leakage(0.4, 0.001).interval(0.9)
    assert (low, high) == pytest.approx((0.4 - 1.6449 * 0.001, 0.4 + 1.6449 * 0.001), abs=1e-5)


def test_words():
    assert str(Leakage(0.1)) == "10% of the training records leak (uncertainty unknown)"
    words = str(Leakage(0.1, 0.02, of="validation"))
    assert words == "10% ± 2% of the validation records leak (95% interval 6.71% to 14.7%)"
    assert str(Leakage(0, 0.01)) == "0% ± 1% of the training records leak (95% interval 0% to 3.69%)"
    assert repr(Leakage(np.float64(0.1))) == "Leakage(rate=0.1, std=None, of='train', bound=None)"
    assert Leakage(0.1) == Leakage(0.1)


def pairs(left=(0, 1), right=(3, 4), probability=(0.5, 0.5), **options):
    return Leakage.from_pair_probabilities(left, right, probability, **{"groups": approximate, **options})


def rates(precision=0.9, recall=0.9, **options):
    counts = {"n_links": 100, "n_records": 100, "validation_share": 0.2}
    return Leakage.from_precision_recall(precision, recall, **{**counts, **options})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Leakage(1.5), r"rate must lie in \[0, 1\), got 1.5"),
        (lambda: Leakage(1), r"rate must lie in \[0, 1\), got 1"),
        (lambda: Leakage(-0.1), "rate must be a finite number at least 0, got -0.1"),
        (lambda: Leakage(np.nan), "rate must be a finite number at least 0, got nan"),
        (lambda: Leakage("0.1"), "rate must be a number at least 0, got '0.1'"),
        (lambda: Leakage(0.1, -1), "std must be a finite number at least 0, got -1"),
        (lambda: Leakage(0.1, np.inf), "std must be a finite number at least 0, got inf"),
        (lambda: Leakage(0.1, of="test"), "of must be 'train' or 'validation', got 'test'"),
        (lambda: Leakage(0.1).interval(), "std must be known for an interval, got None"),
        (lambda: Leakage(0.1, 0.1).interval(1), r"confidence_level must lie in \(0, 1\), got 1"),
        (lambda: Leakage(0.1, 0.1).interval(0), r"confidence_level must lie in \(0, 1\), got 0"),
        (
            lambda: Leakage.from_true_groups(None, approximate),
            "true_groups must give the cluster of every record, got None",
        ),
        (
            lambda: Leakage.from_true_groups(true[:4], approximate),
            r"true_groups must hold one label for each of the 10 records, got shape \(4,\)",
        ),
        (
            lambda: Leakage.from_true_groups([*true[:9], None], approximate),
            r"missing labels, got true_groups\[9\] = None",
        ),
        (
            lambda: Leakage.from_true_groups([np.nan, *true[1:]], approximate),
            r"missing labels, got true_groups\[0\] = nan",
        ),
        (lambda: Leakage.from_true_groups(true, [*approximate[:9], None]), r"missing labels, got groups\[9\] = None"),
        (lambda: Leakage.from_true_groups(true, None), "groups must give the cluster of every record, got None"),
        (
            lambda: Leakage.from_true_groups(pd.Series(true), pd.Series(approximate, index=range(1, 11))),
            "groups must have the same index as true_groups, got 1 for 0 in row 0; align them first",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="people"),
            "drawn must be 'entities' or 'records' or 'clusters', got 'people'",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, sampled=true == 1),
            "sampled must be None for drawn='entities'",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="records", sampled=[0, 1]),
            r"sampled must say True or False for each of the 10 records, got int64 of shape \(2,\)",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="records", sampled=true > 9),
            "sampled must be True for at least one record",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="clusters", sampled=true == 1),
            "sampled must be True for all records of a drawn cluster",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=[([3, 9], [0])], drawn="records", sampled=true == 3),
            "sampled must mark records on the validation side of every split",
        ),
        (lambda: Leakage(0.1, other=Leakage(0.2)), "other must be the rate of the other side alone, got Leakage"),
        (lambda: Leakage(0.1, at_least=2), "at_least must be True or False, got 2"),
        (lambda: Leakage.from_dict([1]), "data of a Leakage must be as to_dict gives it"),
        (lambda: Leakage.from_dict({"rate": 0.1, "size": 3}), "data of a Leakage must be as to_dict gives it"),
        (lambda: Leakage.from_dict({"std": 0.1}), "data of a Leakage must be as to_dict gives it"),
        (
            lambda: Leakage.from_true_groups(true, approximate, of="all"),
            "of must be 'train' or 'validation', got 'all'",
        ),
        (lambda: Leakage.from_true_groups(true, approximate, cv=1), "cv must be a whole number at least 2, got 1"),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv="5"),
            "cv must be None, a number of folds, a splitter or",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=GroupKFold),
            "cv must be None, a number of folds, a spl",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=[]),
            "cv must give at least one pair of train and test",
        ),
        (lambda: Leakage.from_true_groups(true, approximate, cv=[([0], [1])]), "cluster 'a' on both sides of fold 0"),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=LeavePGroupsOut(9)),
            "cv must be able to split these clus",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=[([3], [4])]),
            "true_groups must leave records that do not leak, got a leakage of 1",
        ),
        (lambda: pairs(left=[0]), r"left must hold one row number for each of 2 pairs, got int64 \(1,\)"),
        (lambda: pairs(right=[0.5, 1]), r"right must hold one row number for each of 2 pairs, got float64"),
        (lambda: pairs(right=[3, 10]), "right must hold rows between 0 and 9, got 10"),
        (lambda: pairs(left=[-1, 3]), "left must hold rows between 0 and 9, got -1"),
        (lambda: pairs(probability=[0.5, 1.1]), r"probability must lie in \[0, 1\], got probability\[1\] = 1.1"),
        (lambda: pairs(probability=[0.5, np.nan]), r"probability must be finite, got probability\[1\] = nan"),
        (lambda: pairs([], [], []), "probability must be a non-empty array"),
        (lambda: pairs(groups=["a"] * 10), "groups must hold at least two clusters, got 1"),
        (lambda: pairs(of="both"), "of must be 'train' or 'validation', got 'both'"),
        (lambda: pairs([3], [4], [1], cv=[([3], [4])]), "probability must leave records that do not leak"),
        (lambda: rates(precision=1.2), r"precision must lie in \[0, 1\], got 1.2"),
        (lambda: rates(recall=0), r"recall must lie in \(0, 1\], got 0"),
        (lambda: rates(recall=np.nan), "recall must be a finite number at least 0, got nan"),
        (lambda: rates(validation_share=1), r"validation_share must lie in \(0, 1\), got 1"),
        (lambda: rates(n_links=-1), "n_links must be a finite number at least 0, got -1"),
        (lambda: rates(n_records=0), "n_records must be a whole number between 1 and 1000000000000000, got 0"),
        (lambda: rates(n_records=10**400), "n_records must be a whole number between 1 and 1000000000000000, got"),
        (lambda: rates(mates=0.5), "mates must be a finite number at least 1, got 0.5"),
        (lambda: rates(recall_std=-1), "recall_std must be a finite number at least 0, got -1"),
        (lambda: rates(of="x"), "of must be 'train' or 'validation', got 'x'"),
        (lambda: rates(recall=0.1), "recall must leave fewer missed pairs than the 100 records .* implies 810 of them"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InputError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_in_a_notebook():
    assert "<p>8% ± 1% of the training records leak" in Leakage(0.08, std=0.01)._repr_html_()
    both = Leakage.from_true_groups([1, 1, 1, 2, 2, 3, 3], ["a", "a", "b", "c", "c", "d", "d"], cv=5)
    assert str(both).splitlines() == [str(both.validation), str(both.train)]
    shown = both._repr_html_()
    assert '<th scope="row">of the validation records</th><td>34.3% ± 29.4%</td><td>95% interval 3.89%' in shown
    assert '<th scope="row">of the training records</th><td>8.57% ± 7.35%</td>' in shown
    assert "Audited entities: 3. Cut by the linkage: 1." in shown


def test_as_a_frame():
    leakage = Leakage(0.08, std=0.01, of="validation")
    frame = leakage.to_frame(confidence_level=0.9)
    assert frame.columns.tolist() == ["rate", "std", "of", "low", "high", "bound"]
    assert frame.to_numpy()[:, :5].tolist() == [[0.08, 0.01, "validation", *leakage.interval(0.9)]]
    assert Leakage(0.08, bound=0.12).to_frame()["bound"].tolist() == [0.12]
    unknown = Leakage(0.08).to_frame()
    assert unknown[["std", "low", "high", "bound"]].isna().all(axis=None)
    assert unknown["rate"].tolist() == [0.08]


@pytest.mark.parametrize("options", [{"n_links": 0}, {"recall": 1 - 1e-16}])
def test_precisions_and_recalls_at_the_edge_of_floats(options):
    tiny = {"precision": 1e-300, "recall": 1e-300, "validation_share": 0.5, "groups": [0, 0, 1, 1], "recall_std": 0.1}
    leakage = Leakage.from_precision_recall(**tiny | options)
    assert 0 <= leakage.rate < 1
    assert np.isfinite(leakage.std)


def test_a_standard_error_beyond_all_floats_is_refused():
    options = {"validation_share": 0.5, "n_links": 1, "n_records": 10**6, "recall_std": 1e20}
    with pytest.raises(InputError, match="recall must leave a rate whose standard error is finite, got 1e-300 with"):
        Leakage.from_precision_recall(1e-300, 1e-300, **options)

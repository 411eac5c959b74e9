"""Folds that keep clusters whole, and simulated clustering errors that have the rate they promise."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
)

from outofcluster._base.exceptions import InputError
from outofcluster.problem.folds import label_codes, make_folds
from outofcluster.problem.simulate import simulate_leakage

X = np.zeros((12, 2))
y = np.arange(12) % 2
letters = np.repeat(["a", "b", "c", "d", "e", "f"], 2)


def same(folds, pairs):
    assert [f.index for f in folds] == list(range(len(folds)))
    for fold, (train, test) in zip(folds, pairs, strict=True):
        assert fold.train.dtype == fold.validation.dtype == np.int64
        assert fold.train.tolist() == list(train)
        assert fold.validation.tolist() == list(test)


def test_what_cv_can_be():
    same(make_folds(X, y, letters), GroupKFold(5).split(X, y, letters))
    same(
        make_folds(X, y, letters[[0] * 6 + [11] * 6], None), [(range(6, 12), range(6)), (range(6), range(6, 12))][::-1]
    )
    same(make_folds(X, y, letters, 3), GroupKFold(3).split(X, y, letters))
    same(make_folds(X, y, letters, np.int64(3)), GroupKFold(3).split(X, y, letters))
    for splitter in (
        LeaveOneGroupOut(),
        GroupShuffleSplit(4, random_state=0),
        StratifiedGroupKFold(2, shuffle=True, random_state=1),
    ):
        same(make_folds(X, y, letters, splitter), splitter.split(X, y, letters))
    pairs = [([0, 1], [2, 3]), (np.array([4, 5], dtype=np.uint8), (0, 1))]
    same(make_folds(X, y, letters, pairs), pairs)
    same(make_folds(X, y, letters, iter(pairs)), pairs)
    # A splitter that ignores groups is fine where it happens to keep them whole.
    same(make_folds(X, y, letters, KFold(6)), KFold(6).split(X))


@pytest.mark.parametrize(
    "groups",
    [
        letters.tolist(),
        letters.astype(object),
        pd.Series(letters),
        pd.Series(letters, dtype="category"),
        pd.Series(letters, dtype="string", index=range(100, 112)),
        np.repeat(np.arange(6), 2),
        pd.Series(np.repeat(np.arange(6), 2), dtype="Int64"),
        np.repeat(np.arange(6) / 2, 2),
        np.repeat(pd.date_range("2020-01-01", periods=6), 2),
        [1, 1, 2, 2, "1", "1", "2", "2", 3, 3, "x", "x"],
    ],
    ids=lambda g: str(getattr(g, "dtype", type(g).__name__)),
)
def test_groups_of_any_kind(groups):
    same(make_folds(X, y, groups, 3), GroupKFold(3).split(X, y, np.repeat(np.arange(6), 2)))


@pytest.mark.parametrize("records", [sparse.csr_array(X), pd.DataFrame(X), X.tolist()], ids=["sparse", "frame", "list"])
def test_records_of_any_kind(records):
    same(make_folds(records, None, letters, 2), GroupKFold(2).split(X, y, letters))


@given(st.lists(st.integers(0, 8), min_size=4, max_size=40), st.integers(2, 9))
def test_folds_share_no_cluster_and_cover_everything(groups, n_folds):
    groups = [*groups, 0, 1]
    folds = make_folds(np.zeros((len(groups), 1)), None, groups, min(n_folds, len(set(groups))))
    assert sorted(np.concatenate([f.validation for f in folds])) == list(range(len(groups)))
    for fold in folds:
        assert not {groups[i] for i in fold.train} & {groups[i] for i in fold.validation}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_folds(X, y, None), "groups must give the cluster of every record, got None"),
        (lambda: make_folds(X, y, letters[:5]), r"one label for each of the 12 records, got shape \(5,\)"),
        (lambda: make_folds(X, y, np.zeros((12, 1))), r"one label for each of the 12 records, got shape \(12, 1\)"),
        (
            lambda: make_folds(X, y, [[1], [1, 2]] * 6),
            "groups must hold one label per record, got list of uneven parts",
        ),
        (
            lambda: make_folds(X, y, [None, *letters[1:]]),
            r"groups must not have missing labels, got groups\[0\] = None",
        ),
        (lambda: make_folds(X, y, [*letters[1:], np.nan]), r"must not have missing labels, got groups\[11\] = nan"),
        (lambda: make_folds(X, y, np.r_[np.arange(11.0), np.nan]), r"missing labels, got groups\[11\] = nan"),
        (lambda: make_folds(X, y, pd.Series([*"ab" * 5, pd.NA, "a"])), r"missing labels, got groups\[10\]"),
        (lambda: make_folds(X, y, pd.to_datetime([None, *["2020"] * 11])), r"missing labels, got groups\[0\] = NaT"),
        (lambda: make_folds(X, y, ["a"] * 12), "groups must hold at least two clusters, got 1 over 12 records"),
        (lambda: make_folds(X, y[:3], letters), "y must have one value for each of the 12 records of X, got 3"),
        (lambda: make_folds(5, y, letters), "X must be an array or a data frame with one row per record, got 5"),
        (lambda: make_folds(X, y, letters, 1), "cv must be a whole number at least 2, got 1"),
        (lambda: make_folds(X, y, letters, 7), "number of clusters, got 7; groups has 6 clusters.$"),
        (
            lambda: make_folds(X, letters, y, 5),
            r"got 5; groups has 2 clusters, and the target has 6 different values: are the two swapped\?",
        ),
        (lambda: make_folds(X, y, letters, True), "cv must be a whole number at least 2, got True"),
        (lambda: make_folds(X, y, letters, "5"), r"cv must be None, a number of folds, a splitter .* got '5'"),
        (lambda: make_folds(X, y, letters, GroupKFold), "cv must be None, a number of folds, a splitter or"),
        (lambda: make_folds(X, y, letters, GroupKFold(9)), r"cv must be able to split these .* GroupKFold\(n_splits=9"),
        (lambda: make_folds(X, y, letters, []), "cv must give at least one pair of train and test rows, got none"),
        (lambda: make_folds(X, y, letters, [3, 4]), r"cv must give pairs \(train, test\) of row .* got int as fold 0"),
        (lambda: make_folds(X, y, letters, [([0], [12])]), "rows between 0 and 11, got test row 12 in fold 0"),
        (lambda: make_folds(X, y, letters, [([-1], [0])]), "rows between 0 and 11, got train row -1 in fold 0"),
        (lambda: make_folds(X, y, letters, [([0, 2], [4, 2])]), "got row 2 on both sides of fold 0"),
        (
            lambda: make_folds(X, y, letters, [([0, 0], [4])]),
            "at most once per side, got repeated train rows in fold 0",
        ),
        (
            lambda: make_folds(X, y, letters, [([0], [2]), ([], [1])]),
            r"one train row per fold, got shape \(0,\) in fold 1",
        ),
        (lambda: make_folds(X, y, letters, [([0], [])]), r"at least one test row per fold, got shape \(0,\) in fold 0"),
        (lambda: make_folds(X, y, letters, [([0.5], [1])]), "row indices, whole numbers, got float64 as train rows"),
        (lambda: make_folds(X, y, letters, [([0], [2]), ([0, 2], [3])]), "of cluster 'b' on both sides of fold 1; use"),
        (lambda: make_folds(X, y, letters, KFold(5)), "keep every cluster on one side, got records of cluster 'b' on"),
    ],
)
def test_bad_folds(call, message):
    with pytest.raises(InputError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


sizes = [1, 2, 3, 5, 8, 13, 40, 60]
clusters = np.repeat(np.arange(8), sizes)
OPTIONS = [(d, u) for d in ("to_train", "to_validation") for u in ("records", "fragments")]


@given(st.sampled_from(OPTIONS), st.floats(0, 0.9), st.integers(0, 10**6), st.sampled_from(["int", "str", "mixed"]))
def test_what_every_simulation_keeps(option, probability, seed, kind):
    direction, unit = option
    held_out = [1, 4, 6]
    groups = clusters
    if kind != "int":
        names = [f"patient {i}" for i in range(8)] if kind == "str" else [0, "1", 2, "3", 4, "5", 6, "7"]
        groups = np.array([names[c] for c in clusters], dtype=object if kind == "mixed" else None)
        held_out = [names[c] for c in held_out]
    split = simulate_leakage(
        groups, held_out, probability, of="moved", direction=direction, unit=unit, random_state=seed
    )
    truth = np.array([g in held_out for g in groups])
    assert sorted([*split.train, *split.validation]) == list(range(len(groups)))
    side = np.isin(np.arange(len(groups)), split.validation)
    # Exactly the moved records are on the wrong side, and they come from the giving side.
    assert (split.moved == (side != truth)).all()
    assert (truth[split.moved] == (direction == "to_train")).all()
    # The observed clusters do not cross the observed split, and only moved records changed their label.
    assert not set(split.groups[split.train].tolist()) & set(split.groups[split.validation].tolist())
    assert (split.groups == groups)[~split.moved].all()
    if unit == "fragments":
        assert not set(split.groups[split.moved].tolist()) & set(groups.tolist())
        for label in set(split.groups[split.moved].tolist()):
            (origin,) = set(groups[split.groups == label].tolist())
            assert (split.groups == origin).any()
    else:
        assert set(split.groups.tolist()) <= set(groups.tolist())
    received = split.train if direction == "to_train" else split.validation
    assert split.rate == pytest.approx(split.moved[received].sum() / len(received))
    mates = [groups[v] in groups[split.train].tolist() for v in split.validation]
    assert split.validation_rate == pytest.approx(np.mean(mates))


@pytest.mark.parametrize(("direction", "unit"), OPTIONS)
def test_the_realised_rate_has_the_wanted_mean(direction, unit):
    groups = np.repeat(np.arange(300), np.tile([1, 2, 4, 5], 75))
    of = direction.removeprefix("to_")
    held_out = range(150) if direction == "to_train" else range(150, 300)
    splits = [
        simulate_leakage(groups, held_out, 0.1, of=of, direction=direction, unit=unit, random_state=seed)
        for seed in range(400)
    ]
    rates = np.array([split.rate for split in splits])
    # The mean of a ratio is below the ratio of the means by about var(moved)·R/(R + moved)³.
    moved = np.array([split.moved.sum() for split in splits])
    receiving = len(groups) // 2
    bias = moved.var() * receiving / (receiving + moved.mean()) ** 3
    assert bias < 0.001
    assert rates.mean() == pytest.approx(0.1 - bias, abs=4 * rates.std() / 20)


def test_moving_pieces_have_any_size_and_any_members():
    groups = np.repeat([0, 1], [4, 6])
    pieces = [
        np.flatnonzero(simulate_leakage(groups, [0], 1, of="moved", unit="fragments", random_state=seed).moved)
        for seed in range(1000)
    ]
    counts = np.bincount([len(piece) for piece in pieces], minlength=5)
    assert counts[0] == counts[4] == 0
    np.testing.assert_allclose(counts[1:4] / 1000, 1 / 3, atol=4 * np.sqrt(2 / 9 / 1000))
    members = np.bincount(np.concatenate(pieces), minlength=10)
    assert (members[4:] == 0).all()
    # On average half of the members move, each as often as another.
    np.testing.assert_allclose(members[:4] / 1000, 0.5, atol=4 * np.sqrt(0.25 / 1000))


def test_clusters_are_cut_with_the_probability_given():
    groups = np.repeat(np.arange(400), 3)
    split = simulate_leakage(groups, range(200), 0.3, of="moved", unit="fragments", random_state=0)
    cut = len(np.unique(groups[split.moved])) / 200
    assert cut == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / 200))
    assert split.validation_rate == pytest.approx(np.isin(groups[split.validation], groups[split.moved]).mean())


def test_moved_records_are_spread_over_the_clusters_of_the_other_side():
    groups = np.repeat([0, 1, 2], [3000, 10, 1000])
    split = simulate_leakage(groups, [0], 0.5, of="moved", random_state=0)
    labels = split.groups[split.moved]
    assert set(labels.tolist()) == {1, 2}
    assert (labels == 1).mean() == pytest.approx(0.5, abs=0.06)


def test_new_labels_are_new():
    def fresh(groups, **options):
        split = simulate_leakage(groups, [groups[0]], 1, of="moved", unit="fragments", random_state=0, **options)
        return split.groups[split.moved].tolist()[0], split.groups.dtype.kind

    assert fresh(np.array(["patient 7", "patient 7", "b"])) == ("patient 7 (2)", "U")
    assert fresh(np.array(["p", "p", "p (2)"])) == ("p (3)", "U")
    assert fresh(np.array([3, 3, 9])) == (10, "i")
    assert fresh(np.array([200, 200, 255], dtype=np.uint8)) == (256, "i")
    assert fresh(np.array([1.5, 1.5, 2.0])) == (3.0, "f")
    assert fresh(np.array([True, True, False])) == (2, "i")
    assert fresh(pd.Series(["x", "x", "y"])) == ("x (2)", "O")


def test_seeds():
    one, same_seed, other = (simulate_leakage(clusters, [7], 0.2, random_state=seed) for seed in (5, 5, 6))
    assert (one.groups == same_seed.groups).all()
    assert (one.moved != other.moved).any()
    assert simulate_leakage(clusters, [7], 0.2).rate > 0
    nothing = simulate_leakage(clusters, [7], 0)
    assert nothing.rate == nothing.validation_rate == nothing.moved.sum() == 0
    assert simulate_leakage(letters, "c", 0).validation.tolist() == [4, 5]
    assert simulate_leakage(clusters, {7}, 0).validation.tolist() == list(range(72, 132))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate_leakage(None, [1], 0.1), "groups must give the cluster of every record, got None"),
        (lambda: simulate_leakage([1, 1], [1], 0.1), "groups must hold at least two clusters, got 1"),
        (lambda: simulate_leakage(letters, ["z"], 0.1), "validation_groups must hold clusters of groups, got 'z'"),
        (lambda: simulate_leakage(letters, [], 0.1), "for validation and for training, got 0 of 6 clusters"),
        (lambda: simulate_leakage(letters, [*"abcdef"], 0.1), "for validation and for training, got 6 of 6 clusters"),
        (lambda: simulate_leakage(letters, ["a"], -0.1), "rate must be a finite number at least 0, got -0.1"),
        (lambda: simulate_leakage(letters, ["a"], 1.1, of="moved"), r"rate must lie in \[0, 1\], got 1.1"),
        # Two records of twelve can move: at most a share of 2/12 of training.
        (
            lambda: simulate_leakage(letters, ["a"], 0.2),
            "rate must be at most 0.166667, the share when everything moves that can",
        ),
        # One of them as a piece: 1/11.
        (lambda: simulate_leakage(letters, ["a"], 0.1, unit="fragments"), "rate must be at most 0.0909091"),
        (lambda: simulate_leakage(letters, ["a"], 1, of="moved"), "rate must leave records on the giving side, got 1"),
        (lambda: simulate_leakage([1, 2, 2], [1], 0.1, unit="fragments"), "a cluster of at least two records on the g"),
        (lambda: simulate_leakage(letters, ["a"], 0.1, of="validation"), "of must be 'train' or 'moved' for direction"),
        (
            lambda: simulate_leakage(letters, ["a"], 0.1, direction="to_validation"),
            "of must be 'validation' or 'moved'",
        ),
        (lambda: simulate_leakage(letters, ["a"], 0.1, of="all"), "of must be 'train' or 'validation' or 'moved'"),
        (lambda: simulate_leakage(letters, ["a"], 0.1, unit="cluster"), "unit must be 'records' or 'fragments', got"),
        (lambda: simulate_leakage(letters, ["a"], 0.1, direction="up"), "direction must be 'to_train' or 'to_valid"),
        (lambda: simulate_leakage(letters, ["a"], 0.1, random_state=-1), "random_state must be a whole number at lea"),
    ],
)
def test_bad_simulations(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    "labels",
    [np.array([7, 3, 3, 0, 7]), np.array([7, 3, 10**6]), np.array([-1, 2, 2]), np.array([2, 0, 2], dtype=np.uint8)],
    ids=["small numbers", "a large number", "a negative number", "another type"],
)
def test_labels_are_numbered_in_their_order(labels):
    codes, names, ordered = label_codes(labels)
    unique, places = np.unique(labels, return_inverse=True)
    assert (codes.tolist(), names, ordered) == (places.tolist(), unique.tolist(), True)


@pytest.mark.parametrize("largest", [7.0, 1e300, 2**63 - 1, 2**63])
def test_pieces_of_cut_clusters_get_labels_of_their_own(largest):
    groups = np.repeat(np.array([3, largest]), 40)
    split = simulate_leakage(groups, [largest], 1.0, of="moved", unit="fragments", random_state=0)
    assert split.groups.dtype == groups.dtype
    assert set(split.groups[split.moved]).isdisjoint(groups)


def test_infinite_labels_of_clusters_are_refused():
    with pytest.raises(InputError, match="groups must hold finite numbers or other labels, got inf"):
        simulate_leakage([0.0, 0.0, np.inf, np.inf], [0.0], 0.1)

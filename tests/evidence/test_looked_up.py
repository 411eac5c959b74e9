"""Answers of people who looked clusters up: how a list is read, what it is worth, and what is refused."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import from_arrays, plain, read, to_arrays
from outofcluster.evidence.looked_up import (
    AuditedClusters,
    LookUps,
    draw_clusters,
    inclusion_probabilities,
    read_audited,
    read_reviewed,
)
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import Clusters

NAMES = ("a", "b", "c", "d", "e")


def review_list(*rows, probability=0.5):
    """A list with a row for each pair of a cluster and its answer."""
    clusters, answers = zip(*rows, strict=True)
    return pd.DataFrame({"cluster": clusters, "same_as": answers, "inclusion_probability": probability})


def mates(looked_up):
    """The mates of every cluster that was looked up, as lists by its number."""
    assert all(numbers.dtype == np.int64 for numbers in (looked_up.clusters, *looked_up.mates))
    return {
        cluster: numbers.tolist() for cluster, numbers in zip(looked_up.clusters.tolist(), looked_up.mates, strict=True)
    }


# --- a review list --------------------------------------------------------------------------------------


def test_answers_are_read_in_the_order_of_the_draw():
    frame = review_list(("d", " NONE "), ("a", "c ;b;"), ("e", "none"))
    frame["inclusion_probability"] = [0.2, 1.0, 0.4]
    looked_up = read_reviewed(frame, NAMES, reviewer_error=0.1)
    assert list(mates(looked_up).items()) == [(3, []), (0, [1, 2]), (4, [])]
    assert looked_up.probability.tolist() == [0.2, 1.0, 0.4]
    assert looked_up.reviewer_error == 0.1
    assert read_reviewed(frame, NAMES).reviewer_error == 0


@pytest.mark.parametrize("as_kind", [pl.DataFrame, pd.DataFrame, dict])
def test_frames_of_all_kinds_say_the_same(as_kind):
    columns = {"cluster": ["b", "c"], "same_as": ["a", None], "inclusion_probability": [0.5, 0.1], "age": [3, 4]}
    looked_up = read_reviewed(as_kind(columns), NAMES)
    assert mates(looked_up) == {1: [0]}
    assert looked_up.probability.tolist() == [0.25]


@pytest.mark.parametrize("empty", [None, np.nan, pd.NA, "", "  "])
def test_a_list_filled_in_in_part_is_a_smaller_draw(empty):
    """Two of five rows are answered, whether the rest comes after them or between them."""
    for order in ([0, 1, 2, 3, 4], [2, 0, 3, 1, 4]):
        rows = [("a", "none"), ("c", "e"), ("b", empty), ("d", empty), ("e", empty)]
        frame = review_list(*(rows[i] for i in order))
        frame["inclusion_probability"] = [[0.5, 1.0, 0.9, 0.9, 0.9][i] for i in order]
        looked_up = read_reviewed(frame, NAMES)
        # Cluster e is named, but nobody looked it up.
        assert mates(looked_up) == {0: [], 2: [4]}
        np.testing.assert_allclose(looked_up.probability, [0.5 * 2 / 5, 1.0 * 2 / 5])


def test_the_first_rows_of_a_list_in_random_order_estimate_the_same_total():
    """Over all orders of a list of four, the weighted total of its first two rows is that of the list."""
    value, probability = np.array([1.0, 5.0, 2.0, 7.0, 0.0]), np.array([0.4, 0.8, 0.5, 1.0])
    totals = []
    for first in combinations(range(4), 2):
        order = [*first, *(row for row in range(4) if row not in first)]
        frame = review_list(*((NAMES[row], "none" if row in first else None) for row in order))
        frame["inclusion_probability"] = probability[order]
        looked_up = read_reviewed(frame, NAMES)
        totals.append((value[looked_up.clusters] / looked_up.probability).sum())
    assert np.mean(totals) == pytest.approx((value[:4] / probability).sum())


def test_blank_rows_of_a_spreadsheet_do_not_count():
    frame = pd.concat([review_list(("a", "none")), pd.DataFrame({"cluster": [None, ""], "same_as": ["", None]})])
    assert read_reviewed(frame, NAMES).probability.tolist() == [0.5]


def test_answers_that_agree_are_taken_and_a_cluster_may_name_itself():
    frame = review_list(("a", "a; b; c"), ("b", "c; a; b"), ("d", "d"))
    assert mates(read_reviewed(frame, NAMES)) == {0: [1, 2], 1: [0, 2], 3: []}


@pytest.mark.parametrize("labels", [[17, 18, 19], [17.0, 18.0, 19.0], ["17", "18", "19"], ["017", "018", "019"]])
@pytest.mark.parametrize("in_list", [int, float, str, "{:.1f}".format, " 0{}".format])
def test_numbers_are_the_same_clusters_however_they_are_written(labels, in_list):
    names = tuple(map(str, Clusters.of(labels, None).names))
    frame = review_list((in_list(18), in_list(17)), (in_list(19), "none"))
    assert mates(read_reviewed(frame, names)) == {1: [0], 2: []}


def test_numbers_survive_a_file(tmp_path):
    path = tmp_path / "list.csv"
    review_list((17, 18), (19, None), (20, "none")).to_csv(path, index=False)
    names = [str(number) for number in range(25)]
    for frame in (pd.read_csv(path), pd.read_csv(path, dtype=str, keep_default_na=False), pl.read_csv(path)):
        looked_up = read_reviewed(frame, names)
        assert mates(looked_up) == {17: [18], 20: []}
        np.testing.assert_allclose(looked_up.probability, 0.5 * 2 / 3)
    review_list((17, 18), (19, None)).to_csv(path, index=False)
    assert mates(read_reviewed(pd.read_csv(path), names)) == {17: [18]}


def test_names_that_differ_in_the_format_of_a_number_alone_are_told_apart_by_it():
    frame = review_list(("017", "none"), ("17", "17.0"))
    assert mates(read_reviewed(frame, ("17", "017", "17.0"))) == {1: [], 0: [2]}
    with pytest.raises(InputError, match="got the cluster '0017'"):
        read_reviewed(review_list(("0017", "none")), ("17", "017"))
    with pytest.raises(InputError, match=r"got the cluster -17\b"):
        read_reviewed(review_list((-17, "none")), ("17",))


CONTRADICTIONS = {
    "one names the other, which names none": (
        "'b' for cluster 'a' but 'none' for cluster 'b'",
        ("a", "b"),
        ("b", "none"),
    ),
    "the order does not matter": ("'none' for cluster 'b' but 'b' for cluster 'a'", ("b", "none"), ("a", "b")),
    "another one is named": ("'b' for cluster 'a' but 'c' for cluster 'b'", ("a", "b"), ("b", "c")),
    "a third is forgotten": ("'b', 'c' for cluster 'a' but 'a' for cluster 'b'", ("a", "b;c"), ("b", "a")),
    "a third is added": ("'b' for cluster 'a' but 'a', 'c' for cluster 'b'", ("a", "b"), ("b", "a;c")),
    "both name a third": ("'c' for cluster 'a' but 'c' for cluster 'b'", ("a", "c"), ("b", "c")),
}


@pytest.mark.parametrize("why", CONTRADICTIONS)
def test_contradictory_answers_are_refused_by_name(why):
    message, *rows = CONTRADICTIONS[why]
    with pytest.raises(InputError) as refused:
        read_reviewed(review_list(("e", "d"), *rows), NAMES)
    assert str(refused.value) == f"same_as must not contradict itself, got {message}."


ANSWERED = review_list(("a", "b"))
WRONG_PROBABILITIES = [
    *((0, "0"), (1.01, "1.01"), (-0.1, "-0.1"), (np.inf, "inf"), (True, "True"), ("half", "'half'"), ([1], r"\[1\]")),
    *((np.nan, "none"), (None, "none"), ("", "none")),
]
OTHER_DATA = r"reviewed must be a review list of these data: got the cluster 'z', which they do not have\.$"
REFUSED = [
    (7, r"reviewed must be a data frame, a review list that was filled in, got 7\.$"),
    ([("a", "b", 0.5)], r"reviewed must be a data frame"),
    ("list.csv", r"reviewed must be a data frame.*got 'list.csv'\.$"),
    ({}, r"reviewed must have the column 'cluster', got no columns\.$"),
    (ANSWERED.drop(columns="same_as"), r"must have the column 'same_as', got 'cluster', 'inclusion_probability'\.$"),
    (ANSWERED.drop(columns="inclusion_probability"), r"reviewed must have the column 'inclusion_probability', got "),
    (dict(ANSWERED) | {"same_as": ["b", "c"]}, r"reviewed must have columns of one length, got 1, 2, 1 for cluster, "),
    (dict(ANSWERED) | {"same_as": 3}, r"same_as must be a sequence with one entry each, got 3\.$"),
    (review_list(("a", "b"), ("z", "none")), OTHER_DATA),
    (review_list(("a", "b"), ("z", None)), OTHER_DATA),
    *(
        (
            review_list(("a", "b"), (missing, "none")),
            r"^reviewed must name a cluster in every row, got a row without one",
        )
        for missing in (None, np.nan, pd.NA, " ")
    ),
    (review_list(("a", "b;z")), r"^same_as must name clusters of these data, .* got 'z' for cluster 'a'\.$"),
    (review_list(("a", "none; b")), r"^same_as must name clusters .* got 'none' for cluster 'a'\.$"),
    (
        review_list(("a", "b, c")),
        r"^same_as must name clusters .* separated by semicolons, .* got 'b, c' for cluster 'a'",
    ),
    (review_list(("a", " ; ")), r"^same_as must name clusters .* got ';' for cluster 'a'\.$"),
    (review_list(("a", True)), r"^same_as must name clusters .* got 'True' for cluster 'a'\.$"),
    (review_list(("a", "b"), ("a", "b")), r"reviewed must have one row for each cluster, got several for 'a'\.$"),
    (review_list(("a", "b"), (" a", None)), r"reviewed must have one row for each cluster, got several for ' a'\.$"),
    (review_list(("a", None), ("b", "")), r"reviewed must have an answer in same_as, .*, got none in 2 rows\.$"),
    (ANSWERED[:0], r"reviewed must have an answer in same_as, .*, got none in 0 rows\.$"),
    *(
        (
            review_list(("a", "b"), probability=[wrong]),
            rf"^inclusion_probability must lie in \(0, 1\], got {shown} for ",
        )
        for wrong, shown in WRONG_PROBABILITIES
    ),
    (review_list(("a", "b"), ("c", None), probability=[0.5, np.nan]), r"^inclusion_probability .* for cluster 'c'\.$"),
]


@pytest.mark.parametrize(("reviewed", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_lists_get_one_sentence(reviewed, message):
    with pytest.raises(InputError, match=message):
        read_reviewed(reviewed, NAMES)


@pytest.mark.parametrize("wrong", [0.5, 1, -0.1, np.nan, "0.1", True, None])
def test_a_reviewer_is_wrong_in_less_than_half_of_the_answers(wrong):
    with pytest.raises(InputError, match=r"^reviewer_error must "):
        read_reviewed(ANSWERED, NAMES, reviewer_error=wrong)


def test_clusters_of_one_entity_have_a_number_in_common():
    looked_up = read_reviewed(review_list(("d", "none"), ("c", "a"), ("b", "none"), ("a", "c")), NAMES)
    numbers = dict(zip(looked_up.clusters.tolist(), looked_up.entities.tolist(), strict=True))
    assert numbers[0] == numbers[2]
    assert len(set(numbers.values())) == 3


def test_files_keep_what_was_looked_up():
    looked_up = read_reviewed(review_list(("d", "none"), ("a", "c;b")), NAMES, reviewer_error=0.05)
    again = (
        read(LookUps, json.loads(json.dumps(plain(looked_up))), "look-ups"),
        from_arrays(LookUps, *to_arrays(looked_up)),
    )
    for other in again:
        assert mates(other) == mates(looked_up)
        assert other.probability.tolist() == looked_up.probability.tolist()
        assert other.reviewer_error == 0.05


# --- a draw by design -----------------------------------------------------------------------------------

WORTH = np.array([0.0, 3.0, 1.0, 0.5, 20.0, 2.0, 0.0, 1.5, 6.0, 1.0, 0.2, 4.0])


def test_inclusion_probabilities_by_hand():
    """A quarter uniform, the rest in proportion to what an answer is worth."""
    np.testing.assert_allclose(
        inclusion_probabilities([1.0, 2.0, 1.0, 4.0], 1), 1 / 16 + 3 / 4 * np.array([1, 2, 1, 4]) / 8
    )
    # Of two, the last one would have 14/16 and the second 1/8 + 3/8; nothing is above 1.
    np.testing.assert_allclose(
        inclusion_probabilities([1.0, 2.0, 1.0, 4.0], 2), 1 / 8 + 3 / 2 * np.array([1, 2, 1, 4]) / 8
    )
    # Of three, 3/16 + 9/8 is above 1: the last is certain, and two more are drawn in proportion 5 to 8 to 5.
    np.testing.assert_allclose(inclusion_probabilities([1.0, 2.0, 1.0, 4.0], 3), [5 / 9, 8 / 9, 5 / 9, 1])


@pytest.mark.parametrize("n", [1, 2, 5, 8, 11])
def test_inclusion_probabilities_sum_to_the_number_that_is_drawn(n):
    probability = inclusion_probabilities(WORTH, n)
    assert probability.sum() == pytest.approx(n)
    assert ((probability > 0) & (probability <= 1)).all()
    # Those below 1 have the proportions of the formula, and those at 1 would have more.
    share = 1 / (4 * len(WORTH)) + 3 / 4 * WORTH / WORTH.sum()
    below = probability < 1
    ratio = probability[below] / share[below]
    np.testing.assert_allclose(ratio, ratio[0])
    assert (share[~below] * ratio[0] >= 1 - 1e-9).all()


def test_a_draw_of_all_clusters_has_all_of_them():
    for n in (12, 13):
        assert inclusion_probabilities(WORTH, n).tolist() == [1.0] * 12
    np.testing.assert_allclose(inclusion_probabilities(np.zeros(8), 2), 1 / 4)


def test_a_draw_has_exactly_as_many_clusters_and_as_often_as_the_probabilities_say():
    rng = np.random.default_rng(0)
    for n in (1, 4, 11):
        probability = inclusion_probabilities(WORTH, n)
        counts = np.zeros((len(WORTH), 3))
        for _ in range(4000):
            drawn = draw_clusters(probability, rng)
            assert len(drawn) == len(set(drawn.tolist())) == n
            counts[drawn, 0] += 1
            # The order of the list is random: its first part is a draw as well.
            counts[drawn[: (n + 1) // 2], 1] += 1
            counts[drawn[0], 2] += 1
        error = 4.5 * np.sqrt(0.25 / 4000)
        np.testing.assert_allclose(counts[:, 0] / 4000, probability, atol=error)
        np.testing.assert_allclose(counts[:, 1] / 4000, probability * ((n + 1) // 2) / n, atol=error)
        np.testing.assert_allclose(counts[:, 2] / 4000, probability / n, atol=error)


def test_the_same_seed_draws_the_same_list():
    probability = inclusion_probabilities(WORTH, 5)
    one, two, other = (draw_clusters(probability, np.random.default_rng(seed)).tolist() for seed in (3, 3, 4))
    assert one == two != other


def test_rounding_does_not_cost_a_cluster():
    """Probabilities that are summed in floating point may end a little below their sum."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        count = int(rng.integers(20, 200))
        n = int(rng.integers(1, count))
        assert len(draw_clusters(inclusion_probabilities(rng.random(count) ** 4, n), rng)) == n


@pytest.mark.parametrize("answered", [6, 3])
def test_the_difference_estimate_is_unbiased_over_draws(answered):
    """Of what the answers change in all, Δ, which nobody knows; the first rows of the list were answered, or all."""
    names = [str(number) for number in range(12)]
    changes = np.array([0.0, 2.0, 0.0, -0.5, 3.0, 0.0, 0.5, 0.0, 4.0, 0.0, 1.0, 0.0])
    probability, rng = inclusion_probabilities(WORTH, 6), np.random.default_rng(7)
    totals = []
    for _ in range(2000):
        drawn = draw_clusters(probability, rng)
        columns = {
            "cluster": [names[cluster] for cluster in drawn],
            "same_as": ["none"] * answered + [None] * (6 - answered),
            "inclusion_probability": probability[drawn],
        }
        looked_up = read_reviewed(columns, names)
        totals.append((changes[looked_up.clusters] / looked_up.probability).sum())
    assert np.mean(totals) == pytest.approx(changes.sum(), abs=4 * np.std(totals) / np.sqrt(2000))
    # If all counted alike, the total would be another one.
    assert 12 / 6 * (probability * changes).sum() != pytest.approx(changes.sum(), abs=1)


# --- audited records ------------------------------------------------------------------------------------


def test_audited_clusters_belong_to_the_entity_of_most_of_their_records():
    true = ["x", "y", "y", "x", "y", "z", "y", "x"]
    groups = ["m", "m", "m", "n", "o", "t", "t", "n"]
    audited = Leakage.from_true_groups(true, groups).looked_up
    # Cluster t has one record of z and one of y, which occurs before z.
    assert dict(zip(audited.names, audited.entities, strict=True)) == {"m": 1, "n": 0, "o": 1, "t": 1}
    looked_up = read_audited(audited, ("m", "n", "o", "other", "t"), [3, 2, 1, 2, 2])
    assert mates(looked_up) == {0: [2, 4], 1: [], 2: [0, 4], 4: [0, 2]}
    np.testing.assert_allclose(looked_up.probability, 8 / 10)


def test_audited_clusters_are_looked_for_by_name():
    audited = Leakage.from_true_groups([1, 1, 1, 2, 2], [10, 11, 12, 13, 13]).looked_up
    # Cluster 12 is missing from these data, whose labels are floats.
    looked_up = read_audited(audited, ("10.0", "11.0", "13.0", "14.0"), np.array([1, 1, 2, 4]))
    assert mates(looked_up) == {0: [1], 1: [0], 2: []}
    assert looked_up.probability.tolist() == [0.5] * 3
    assert read_audited(audited, ("20", "21"), [3, 3]) is None
    assert read_audited(audited, ("10", "11", "12", "13"), [1, 1, 1, 2]).probability.tolist() == [1.0] * 4


def test_clusters_drawn_with_their_mates_count_and_the_mates_do_not():
    true, groups = [1, 1, 1, 2, 2, 3], ["a", "a", "b", "c", "c", "c"]
    sampled = [group in ("a", "c") for group in groups]
    audited = Leakage.from_true_groups(true, groups, drawn="clusters", sampled=sampled).looked_up
    looked_up = read_audited(audited, NAMES, [2, 1, 3, 2, 2])
    assert mates(looked_up) == {0: [1], 2: []}
    np.testing.assert_allclose(looked_up.probability, 5 / 10)
    assert read_audited(audited, ("b", "d"), [1, 1]) is None


def test_clusters_drawn_without_their_mates_say_nothing_about_them():
    assert Leakage.from_true_groups([1, 1, 2], ["a", "b", "b"], drawn="clusters").looked_up is None


TRUE = np.array([0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3])
GROUPS = np.array(["a", "a", "a", "b", "b", "c", "d", "e", "f", "g", "g", "h"])


def weighted_total(values, rows, **options):
    """The total of the values of all clusters, from the audited records in these rows."""
    names, sizes = np.unique(GROUPS, return_counts=True)
    leakage = Leakage.from_true_groups(TRUE[rows], GROUPS[rows], **options)
    looked_up = read_audited(leakage.looked_up, names.tolist(), sizes)
    return (values[looked_up.clusters] / looked_up.probability).sum()


@pytest.mark.parametrize("said_which", [False, True])
def test_totals_of_a_drawn_record_are_unbiased(said_which):
    """Over all records that may be drawn; with the same probability for all, large entities would count too much."""
    values = np.array([3.0, 1.0, 2.0, 0.5, 4.0, 1.0, 0.0, 2.5])
    totals = []
    for drawn in range(len(TRUE)):
        rows = np.flatnonzero(np.isin(TRUE, TRUE[drawn]))
        sampled = rows == drawn if said_which else None
        totals.append(weighted_total(values, rows, drawn="records", sampled=sampled))
    assert np.mean(totals) == pytest.approx(values.sum())


def test_an_entity_that_was_hit_twice_counts_twice():
    rows = np.flatnonzero(np.isin(TRUE, (0, 3)))
    sampled = np.isin(rows, (0, 3, 11))
    audited = Leakage.from_true_groups(TRUE[rows], GROUPS[rows], drawn="records", sampled=sampled).looked_up
    assert dict(zip(audited.names, audited.weights, strict=True)) == pytest.approx(
        {"a": 2 / 6, "b": 2 / 6, "c": 2 / 6, "g": 1 / 3, "h": 1 / 3}
    )
    names, sizes = np.unique(GROUPS, return_counts=True)
    # Three hits stand for twelve records: n_e m / (N m_e), with six records hit twice and three hit once.
    np.testing.assert_allclose(read_audited(audited, names.tolist(), sizes).probability, 3 / 4)


def test_an_inclusion_probability_is_at_most_one():
    audited = Leakage.from_true_groups(TRUE, GROUPS, drawn="records").looked_up
    names, sizes = np.unique(GROUPS, return_counts=True)
    # Four entities of six, two, one and three of twelve records: 4 n_e / 12.
    probability = [1, 1, 1, 2 / 3, 2 / 3, 1 / 3, 1, 1]
    np.testing.assert_allclose(read_audited(audited, names.tolist(), sizes).probability, probability)


def test_two_audited_names_of_one_cluster_count_once():
    audited = AuditedClusters(("17", "017", "18"), (0, 1, 1), (1.0, 1.0, 1.0))
    assert mates(read_audited(audited, ("17", "18"), [1, 1])) == {0: [], 1: []}


def test_files_keep_the_audited_clusters():
    leakage = Leakage.from_true_groups([1, 1, 1, 2, 2], [10, 11, 11, 12, 12], drawn="records")
    again = Leakage.from_dict(json.loads(json.dumps(leakage.to_dict())))
    assert again.looked_up == leakage.looked_up == AuditedClusters(("10", "11", "12"), (0, 0, 1), (1 / 3, 1 / 3, 0.5))
    assert "looked_up" not in repr(leakage)
    assert "looked_up" not in Leakage(0.1).to_dict()
    # Results keep a rate for every fold, without the clusters.
    assert leakage.train.looked_up is None
    one_side = Leakage.from_true_groups([1, 1, 2], ["a", "b", "b"], of="train")
    assert one_side.looked_up.names == ("a", "b")


@pytest.mark.parametrize(
    "change", [{"names": ["a"]}, {"weights": [1.0, -1.0]}, {"weights": [1.0, None]}, {"entities": [0, 0.5]}]
)
def test_damaged_audited_clusters_are_refused(change):
    data = Leakage.from_true_groups([1, 1, 2], ["a", "b", "b"]).to_dict()
    with pytest.raises(InputError, match="data of a Leakage must be as to_dict gives it"):
        Leakage.from_dict(data | {"looked_up": data["looked_up"] | change})
    with pytest.raises(InputError, match="looked_up must be of type AuditedClusters, got 3"):
        Leakage(0.1, looked_up=3)

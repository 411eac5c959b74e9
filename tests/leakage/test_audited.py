"""Audited records: drawn as entities, records or clusters; both sides, the pieces, the errors, and files."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain, read
from outofcluster.evidence.laws import PieceLaw
from outofcluster.leakage.audited import LinkageErrors
from outofcluster.leakage.rate import Leakage

SIDES = ["train", "validation"]


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
    assert errors.piece_sizes().to_numpy().tolist() == [[1, 1, 1], [2, 2, 1], [3, 1, 1], [3, 2, 1]]
    assert errors.to_frame().shape == (1, 10)
    assert errors.to_frame()["misplaced"].item() == pytest.approx(1 / 6 / 5)
    assert "3.33% of the training records are misplaced" in str(errors)


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
    for folds in itertools.product(range(3), repeat=6):
        for held_out in range(3):
            inside = np.array(folds)[groups] == held_out
            every.append((rows[~inside], rows[inside]))
    expected = brute_misplaced(entity, groups, every)
    errors = Leakage.from_true_groups(entity, groups, cv=3).linkage_errors
    assert 0 < expected == pytest.approx(errors.misplaced)
    # Given splits count as they are.
    shares = []
    for train, held_out in every[::4]:
        if {4, 5} & set(entity[train]) and {4, 5} & set(entity[held_out]):
            given = Leakage.from_true_groups(entity, groups, cv=[(train, held_out)])
            shares.append(given.linkage_errors.misplaced)
            assert shares[-1] == pytest.approx(brute_misplaced(entity, groups, [(train, held_out)]))
            assert shares[-1] <= given.train.rate
    assert len(set(shares)) > 5


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
    assert np.mean([law.split_rate for law in laws]) == pytest.approx(whole.pieces.split_rate, rel=0.1)


def test_the_law_of_the_pieces_is_learned():
    rng = np.random.default_rng(10)
    entity = np.repeat(np.arange(300), 10)
    lost = rng.random(3000) < 0.06
    groups = np.where(lost, 1000 + np.arange(3000), entity)
    law = Leakage.from_true_groups(entity, groups).pieces
    # The truth, from V̂'s side: each piece is held out, and of the others each trains four times out of five.
    single = total = 0.0
    for _ in range(20):
        trains = rng.random(4000) < 0.8
        for number in range(300):
            labels, sizes = np.unique(groups[entity == number], return_counts=True)
            for place, kept in enumerate(sizes if len(sizes) > 1 else ()):
                leaked = sizes[trains[labels % 4000]].sum() - kept * trains[labels[place] % 4000]
                single += kept * (leaked == 1)
                total += kept * (leaked > 0)
    assert law.single_share(10) == pytest.approx(single / total, abs=0.04)
    assert law.single_share(10) > PieceLaw().single_share(10) - 0.05
    assert law.split_rate == pytest.approx(1 - 0.94**10, abs=0.08)
    assert law.validation_share == 0.2
    with pytest.raises(InputError, match="weights must hold one number above 0 for each of the 1 ways"):
        PieceLaw(((2, 1),), ())


def test_the_law_shrinks_towards_its_default():
    def chance(halved):
        return PieceLaw(((2, 2), (3, 1)), (halved, 1e-9)).probabilities(4)[1]

    default = PieceLaw().probabilities(4)
    assert default.tolist() == pytest.approx([0.4, 0.2, 0.4])
    assert default[1] < chance(1) < chance(5) < chance(100) < 1
    # Both halves are held out once, and the other half trains four times out of five.
    assert chance(5 / 2 / 0.8) == pytest.approx((default[1] + 1) / 2)
    # Single records more often than not, whatever the size.
    assert all(PieceLaw().single_share(size) > 0.5 for size in (2, 3, 4, 5, 10, 50))
    # Other sizes count less, the farther away the less.
    near, far = (PieceLaw(((size - 1, 1),), (20.0,)).probabilities(8)[0] for size in (7, 40))
    assert near > far > PieceLaw().probabilities(8)[0] - 1e-12


def test_pieces_are_drawn_by_the_law():
    law = PieceLaw(((3, 2), (4, 1), (5,)), (10.0, 30.0, 50.0))
    sizes = np.array([1, 2, 5, 9] * 4000)
    drawn = law.draw_many(np.random.default_rng(0), sizes)
    assert (drawn[sizes == 1] == 0).all()
    assert (drawn[sizes == 2] == 1).all()
    for size in (5, 9):
        seen = np.bincount(drawn[sizes == size], minlength=size)[1:]
        for count, chance in zip(seen, law.probabilities(size), strict=True):
            assert binomtest(int(count), 4000, chance).pvalue > 1e-4
        assert drawn[sizes == size].mean() / size == pytest.approx(law.leaked_share(size), abs=0.02)
    assert law.probabilities(9, by="records") @ np.ones(8) == pytest.approx(1)
    one = [law.draw(np.random.default_rng(seed), 5) for seed in range(20)]
    assert one == [int(law.draw_many(np.random.default_rng(seed), [5])[0]) for seed in range(20)]

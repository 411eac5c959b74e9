"""Laws of cuts: learned from audited entities, drawn from, and the leakage rate among the clusters that can be cut."""

import numpy as np
import pytest
from scipy.stats import binomtest

from outofcluster._base.exceptions import InputError
from outofcluster.evidence.laws import PieceLaw, scored_rate
from outofcluster.leakage.rate import Leakage


def split_entities(rng, entity_sizes, share):
    """Sizes of the validation clusters, and which of them leak: of a split entity one piece stays."""
    sizes, leaked = [], []
    for size in entity_sizes:
        if size > 1 and rng.random() < share:
            sizes.append(int(rng.integers(1, size)))
            leaked.append(True)
        else:
            sizes.append(int(size))
            leaked.append(False)
    return np.array(sizes), np.array(leaked)


@pytest.mark.parametrize(
    "entity_sizes",
    [[4] * 4000, [2] * 4000, [2] * 1500 + [3] * 1500 + [6] * 1500, [1] * 2000 + [4] * 2000, [10] * 2000],
    ids=["fours", "pairs", "mixed", "singles too", "tens"],
)
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_against_split_entities(entity_sizes, share):
    sizes, leaked = split_entities(np.random.default_rng(1), entity_sizes, share)
    rate = sizes[leaked].sum() / sizes.sum()
    cut = sizes >= 2
    truth = (sizes[leaked & cut]).sum() / sizes[cut].sum()
    assert scored_rate(sizes, rate) == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_against_entities_that_are_split_by_a_law(share):
    law = PieceLaw(((9, 1), (8, 2)), (80.0, 20.0))
    rng = np.random.default_rng(1)
    entity_sizes = np.repeat([1, 4, 10], [1000, 1500, 1500])
    leaked = (entity_sizes > 1) & (rng.random(len(entity_sizes)) < share)
    sizes = np.where(leaked, entity_sizes - law.draw_many(rng, entity_sizes), entity_sizes)
    rate = sizes[leaked].sum() / sizes.sum()
    cut = sizes >= 2
    truth = sizes[leaked & cut].sum() / sizes[cut].sum()
    assert scored_rate(sizes, rate, law) == pytest.approx(truth, abs=0.015)
    # A cut at random is a worse account of it.
    assert abs(scored_rate(sizes, rate) - truth) > abs(scored_rate(sizes, rate, law) - truth)


def test_what_the_sizes_do_not_explain_counts_alike_for_all():
    """No cluster is small enough to be a piece of another: all are taken to leak as often."""
    assert scored_rate(np.full(50, 4), 0.2) == pytest.approx(0.2)
    assert scored_rate(np.array([4] * 40 + [3]), 0.3) == pytest.approx(0.3, abs=0.02)


def test_no_leakage_and_single_records():
    assert scored_rate(np.array([4, 4, 2, 1]), 0.0) == 0
    assert 0 <= scored_rate(np.ones(10, dtype=int), 0.2) <= 0.2


def test_rises_with_the_rate():
    sizes, _ = split_entities(np.random.default_rng(2), [2, 3, 4, 5] * 300, 0.3)
    rates = [scored_rate(sizes, rate) for rate in np.linspace(0, 0.5, 26)]
    assert (np.diff(rates) > -1e-12).all()


def single_share(law, size):
    """The share of the held-out records of cut entities whose leaked piece is a single record."""
    kept = law.probabilities(size) * np.arange(size - 1, 0, -1)
    return kept[0] / kept.sum()


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
    assert single_share(law, 10) == pytest.approx(single / total, abs=0.04)
    assert single_share(law, 10) > single_share(PieceLaw(), 10) - 0.05
    assert law.n_split / law.n_entities == pytest.approx(1 - 0.94**10, abs=0.08)
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
    assert all(single_share(PieceLaw(), size) > 0.5 for size in (2, 3, 4, 5, 10, 50))
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

"""The leakage rate among the clusters that can be cut, against entities that are really split."""

import numpy as np
import pytest

from outofcluster.evidence.laws import PieceLaw, scored_rate
from outofcluster.sampling.resamplers import make_injection


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


def test_second_fragments_train_a_piece_of_every_cluster():
    groups = np.repeat(np.arange(6), [5, 4, 3, 2, 2, 4])
    rows = np.arange(len(groups))
    strategy = make_injection(
        "second-fragments", n_train=None, train=np.arange(30), validation=rows, groups=groups, replace=True
    )
    assert strategy.name == "second-fragments"
    assert strategy.size == 4
    draws = np.random.default_rng(0)
    for injected in (0.0, 1.0):
        pieces = []
        for _ in range(300):
            draw = strategy.draw(draws, injected, replicate=1)  # The second of the laws that take turns is uniform.
            assert not np.intersect1d(draw.from_validation, draw.scored).size
            joined, scored = groups[draw.from_validation], groups[draw.scored]
            assert set(joined) == {0, 1, 2, 5}
            assert set(scored) <= {0, 1, 2, 5}
            pieces.append(len(joined))
        # The first piece has half of a cluster on average (2.5 + 2 + 1.5 + 2 records), the second half of what is
        # left where that is two records or more: E[r/2; r ≥ 2] with r uniform on 1, …, s - 1.
        second = sum(sum(r / 2 for r in range(2, s)) / (s - 1) for s in (5, 4, 3, 4))
        assert np.mean(pieces) == pytest.approx(8 + injected * second, abs=0.25)

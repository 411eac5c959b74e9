"""Laws of cuts: learned from audited entities, and drawn from."""

import numpy as np
import pytest
from scipy.stats import binomtest

from outofcluster._base.exceptions import InputError
from outofcluster.evidence.laws import PieceLaw
from outofcluster.leakage.rate import Leakage


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

"""One seed from every form of ``random_state``."""

import numpy as np
import pytest

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import seed_of

GENERATORS = [np.random.RandomState, np.random.default_rng]


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), 2**70])
def test_a_whole_number_is_the_seed(seed):
    assert seed_of(seed) == seed
    assert type(seed_of(seed)) is int


def test_none_stays_none():
    assert seed_of(None) is None


@pytest.mark.parametrize("make", GENERATORS)
def test_a_generator_gives_a_seed_that_every_library_takes_and_moves_on(make):
    generator = make(3)
    seeds = [seed_of(generator) for _ in range(50)]
    assert seeds == [seed_of(again) for again in [make(3)] for _ in range(50)]
    assert len(set(seeds)) == 50
    assert 2**31 < max(seeds) < 2**32
    assert all(type(seed) is int and seed >= 0 for seed in seeds)


@pytest.mark.parametrize("wrong", [-1, 1.5, "7", True, [1], np.random])
def test_anything_else_is_refused(wrong):
    with pytest.raises(InputError, match="random_state must be a whole number at least 0"):
        seed_of(wrong)


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize(
    "draw",
    [
        lambda state: ooc.simulate_leakage(np.repeat(list("abcd"), 250), ["d"], 0.1, random_state=state).train,
        lambda state: ooc.datasets.make_patients(30, random_state=state).data,
        lambda state: ooc.datasets.make_partition(15, 30, random_state=state).data,
    ],
    ids=["simulate_leakage", "make_patients", "make_partition"],
)
def test_functions_that_draw_take_a_generator(draw, make):
    state = make(0)
    first, second = draw(state), draw(state)
    assert np.array_equal(first, draw(make(0)))
    assert not np.array_equal(first, second)

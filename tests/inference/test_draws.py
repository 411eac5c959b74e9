"""Draws from what is stored, with an optimism that is a known combination of losses: their mean and their variance."""

import math

import numpy as np
import pytest

from outofcluster.inference.columns import Block, Columns, Pool
from outofcluster.inference.functional import Functional
from outofcluster.inference.intervals import Uncertainty, draw_again

UNITS, N = 7, 3000
WEIGHTS = {"main": np.array([[1.0, -2.0, 0.5], [0.3, 0.4, -1.0]]), "below": np.array([[2.0], [-1.0]])}
SLOPE = 3.0
RATES = np.array([0.2, 0.3])
TOLERANCE = 4 * math.sqrt(2 / N)
"""Four standard errors of a variance, as a share of it."""


def columns(*, spread=0.0, influence=0.0, scored_once=True):
    """Two folds, one role with replicates and one without, whose losses are far from 0."""
    rng = np.random.default_rng(0)

    def pool(n_columns, units):
        return Pool(np.array(units), influence * rng.standard_normal((len(units), n_columns)), np.zeros(n_columns))

    def sampled(train, held_out):
        replicates = tuple(50 + spread * rng.standard_normal(count) for count in (5, 9, 20))
        means = np.array([losses.mean() for losses in replicates])
        return Block(means, np.zeros(3), pool(3, train), pool(3, held_out), replicates)

    blocks = {
        "main": (sampled([0, 1, 2, 3], [4, 5, 6]), sampled([3, 4, 5, 6], [0, 1, 2])),
        "below": tuple(Block(np.array([60.0]), np.array([9.0]), held_out=pool(1, units)) for units in ([4, 5], [0, 2])),
        "own": (Block(np.array([50.0]), np.array([0.7]), held_out=pool(1, range(UNITS))),),
    }
    return Columns(blocks, UNITS)


def solve(rates, losses):
    return float(sum((WEIGHTS[role] * losses[role]).sum() for role in WEIGHTS) + SLOPE * rates.sum())


def drawn(made, *, linear=None, source=None, stds=None, choice=0.0, seeds=(1, 2), n=N, solve=solve, **further):
    return draw_again(
        made,
        ("main", "below"),
        source or Uncertainty(np.ones(UNITS), 0.0, 0.0),
        solve,
        linear=linear or Functional(0.0),
        rates=RATES,
        stds=np.zeros(2) if stds is None else stds,
        lowest=-math.inf,
        choice=choice,
        seeds=seeds,
        n_draws=n,
        **further,
    )


def value(made):
    return solve(RATES, {role: made.means(role) for role in WEIGHTS})


def test_nothing_that_varies_gives_the_estimate_itself():
    made = columns()
    assert drawn(made, n=3) == pytest.approx([value(made)] * 3)
    assert drawn(made, linear=Functional(5.0), n=3) == pytest.approx([value(made) + 5] * 3)


def test_replicates_are_drawn_again():
    """The mean of t draws from t replicates has their variance, with divisor t, over t."""
    made = columns(spread=1.0)
    draws = drawn(made)
    expected = sum(
        weight**2 * losses.var() / len(losses)
        for block, weights in zip(made.blocks["main"], WEIGHTS["main"], strict=True)
        for losses, weight in zip(block.replicates, weights, strict=True)
    )
    assert draws.mean() == pytest.approx(value(made), abs=4 * math.sqrt(expected / N))
    assert draws.var() == pytest.approx(expected, rel=TOLERANCE)


def influence_of(made, linear):
    """D of every unit, by loops: what trains counts by the same weights as what is scored."""
    influence = np.zeros(UNITS)
    for role, by_fold in {**WEIGHTS, **linear.weights}.items():
        for block, weights in zip(made.blocks[role], by_fold, strict=True):
            for pool in (block.train, block.held_out):
                if pool is not None:
                    for position, unit in enumerate(pool.units):
                        influence[unit] += pool.mean[position] @ weights
    return influence


@pytest.mark.parametrize(("noise", "training"), [(0.0, 0.0), (0.4, 0.0), (0.9, 0.5)])
def test_units_are_moved_all_at_once_and_by_what_the_rule_leaves(noise, training):
    """The naive loss moves along with the losses of the curve, since it is the same units that move both."""
    made = columns(influence=1.0)
    linear = Functional(4.0, {"own": np.array([[2.0]])})
    between = UNITS / (UNITS - 1) * UNITS
    source = Uncertainty(np.ones(UNITS), noise * between, 0.0, training=training)
    draws = drawn(made, linear=linear, source=source)
    of_units = UNITS / (UNITS - 1) * (influence_of(made, linear) ** 2).sum()
    expected = source.remaining * (1 + training) * of_units + (2 * 0.7) ** 2
    assert source.remaining == pytest.approx({0.0: 1.0, 0.4: 0.6, 0.9: 0.7}[noise])
    assert draws.mean() == pytest.approx(value(made) + 4, abs=4 * math.sqrt(expected / N))
    assert draws.var() == pytest.approx(expected, rel=TOLERANCE)


def test_uncertain_rates_move_together():
    made = columns()
    stds = np.array([0.02, 0.03])
    draws = drawn(made, stds=stds)
    assert draws.std() == pytest.approx(SLOPE * stds.sum(), rel=TOLERANCE / 2)
    assert draws.mean() == pytest.approx(value(made), abs=4 * SLOPE * stds.sum() / math.sqrt(N))


def test_drawn_rates_stay_between_none_and_nearly_all():
    seen = []

    def remember(rates, losses):
        seen.append(rates)
        return 0.0

    drawn(columns(), stds=np.array([0.3, 3.0]), n=300, solve=remember)
    rates = np.array(seen)
    assert rates.min() == 0
    assert rates.max() == 0.95
    assert len(np.unique(rates[:, 0])) > 100


def test_the_choice_of_a_curve_and_the_fits_of_the_rest_add_to_the_spread():
    made = columns()
    linear = Functional(0.0, {"own": np.array([[3.0]])})
    draws = drawn(made, linear=linear, choice=2.5)
    assert draws.var() == pytest.approx((3 * 0.7) ** 2 + 2.5, rel=TOLERANCE)


def test_no_loss_is_drawn_below_the_lowest_one():
    made, seen = columns(spread=40.0, influence=40.0), []

    def remember(rates, losses):
        seen.append(min(array.min() for array in losses.values()))
        return 0.0

    draw_again(
        made, ("main", "below"), Uncertainty(np.ones(UNITS), 0.0, 0.0), remember, linear=Functional(0.0),
        rates=RATES, stds=np.zeros(2), lowest=0.0, choice=0.0, seeds=[1], n_draws=200,
    )  # fmt: skip
    assert min(seen) == 0
    assert max(seen) > 0


def test_the_same_seeds_give_the_same_draws():
    made = columns(spread=1.0, influence=1.0)
    first, again, other = (drawn(made, seeds=seeds, n=20) for seeds in ((1, 2), (1, 2), (2, 1)))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    assert np.isfinite(drawn(made, seeds=(2**127,), n=2)).all()

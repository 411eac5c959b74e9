"""Draws from what is stored, with an optimism that is a known combination of losses: their mean and their variance."""

import math

import numpy as np
import pytest

from outofcluster.inference.functional import Block, Columns, Functional, Pool
from outofcluster.inference.intervals import Uncertainty, draw_again

UNITS, N = 7, 3000
WEIGHTS = {"main": np.array([[1.0, -2.0, 0.5], [0.3, 0.4, -1.0]]), "below": np.array([[2.0], [-1.0]])}
SLOPE = 3.0
RATES = np.array([0.2, 0.3])
TOLERANCE = 4 * math.sqrt(2 / N)
"""Four standard errors of a variance, as a share of it."""


def columns(*, spread=0.0, common=0.0, influence=0.0):
    """Two folds, one role with replicates and one without, whose losses are far from 0."""
    rng = np.random.default_rng(0)

    def pool(n_columns, units):
        return Pool(np.array(units), influence * rng.standard_normal((len(units), n_columns)))

    def sampled(units):
        same = common * rng.standard_normal(20)
        replicates = tuple(50 + same[:count] + spread * rng.standard_normal(count) for count in (5, 9, 20))
        means = np.array([losses.mean() for losses in replicates])
        return Block(means, np.zeros(3), pool(3, units), replicates)

    blocks = {
        "main": (sampled([4, 5, 6]), sampled([0, 1, 2, 5])),
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
        source or Uncertainty(np.ones(UNITS), 0.0),
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


def test_replicates_are_drawn_again_the_same_ones_at_every_level():
    """The mean of t draws from t combined replicates has their variance, with divisor t, over t."""
    made = columns(spread=1.0, common=2.0)
    draws = drawn(made)
    # Five replicates are those that all three columns have.
    combined = [
        [sum(weights[i] * block.replicates[i][b] for i in range(3)) for b in range(5)]
        for block, weights in zip(made.blocks["main"], WEIGHTS["main"], strict=True)
    ]
    expected = sum(np.var(of_fold) / 5 for of_fold in combined)
    assert draws.mean() == pytest.approx(value(made), abs=4 * math.sqrt(expected / N))
    assert draws.var() == pytest.approx(expected, rel=TOLERANCE)


def test_noise_that_all_levels_share_cancels_in_the_draws_of_a_difference():
    made = columns(common=100.0)
    assert np.ptp(drawn(made, n=20, solve=lambda _, losses: losses["main"][0, 0])) > 1
    for contrast in ([1.0, -1.0, 0.0], [0.5, 1.5, -2.0]):
        weights = np.array(contrast)
        draws = drawn(made, n=20, solve=lambda _, losses, weights=weights: float((losses["main"] @ weights).sum()))
        assert np.ptp(draws) == pytest.approx(0, abs=1e-9)


def influence_of(made, linear):
    """D of every unit, by loops."""
    influence = np.zeros(UNITS)
    for role, by_fold in {**WEIGHTS, **linear.weights}.items():
        for block, weights in zip(made.blocks[role], by_fold, strict=True):
            for position, unit in enumerate(block.held_out.units):
                influence[unit] += block.held_out.mean[position] @ weights
    return influence


@pytest.mark.parametrize("training", [0.0, 0.7])
def test_units_are_moved_all_at_once_and_training_adds_its_share(training):
    """The naive loss moves along with the losses of the curve, since it is the same units that move both."""
    made = columns(influence=1.0)
    linear = Functional(4.0, {"own": np.array([[2.0]])})
    draws = drawn(made, linear=linear, source=Uncertainty(np.ones(UNITS), 0.0, training=training))
    of_units = UNITS / (UNITS - 1) * (influence_of(made, linear) ** 2).sum()
    expected = (1 + training) * of_units + (2 * 0.7) ** 2
    assert draws.mean() == pytest.approx(value(made) + 4, abs=4 * math.sqrt(expected / N))
    assert draws.var() == pytest.approx(expected, rel=TOLERANCE)


def test_an_optimism_alone_is_moved_by_no_units():
    made = columns(influence=1.0)
    optimism = Uncertainty(np.zeros(0), 0.0, training=0.7)
    assert drawn(made, source=optimism, n=3) == pytest.approx([value(made)] * 3)
    # What stands beside the curve keeps the noise of its fits.
    draws = drawn(made, source=optimism, linear=Functional(0.0, {"own": np.array([[2.0]])}))
    assert draws.var() == pytest.approx((2 * 0.7) ** 2, rel=TOLERANCE)


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
        made, ("main", "below"), Uncertainty(np.ones(UNITS), 0.0), remember, linear=Functional(0.0),
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

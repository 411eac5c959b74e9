"""Functionals of columns against loops that are written out: influences and Monte-Carlo variance."""

import math
from statistics import variance

import numpy as np
import pytest

from outofcluster.inference.functional import Block, Columns, Functional, Influences, Pool, added
from outofcluster.inference.intervals import uncertainty

UNITS = 11
SHAPES = {"main": (3, 4), "size 8": (3, 2), "own": (1, 1), "unmixed": (3, 3)}
"""Blocks and columns of every role."""
PARTS = {"main": 1, "size 8": 1, "unmixed": 3}
"""Roles whose replicates are stored, and the parts that these take turns in."""


def random_pool(rng, n_columns):
    units = np.sort(rng.choice(UNITS, rng.integers(2, UNITS), replace=False))
    return Pool(units, rng.standard_normal((len(units), n_columns)))


def random_replicates(rng, n_columns, strata=1):
    """Losses that share noise over all columns, the first ones of which come from the same draws, by turns."""
    counts = rng.integers(8, 15, n_columns)
    common = rng.standard_normal(counts.max()) + 5 * (np.arange(counts.max()) % strata)
    return tuple(common[:count] + rng.standard_normal(count) for count in counts)


@pytest.fixture(params=range(3))
def columns(request):
    """Three folds; the user's own model is scored once."""
    rng = np.random.default_rng(request.param)

    def block(role, n_columns):
        return Block(
            rng.random(n_columns),
            rng.random(n_columns),
            random_pool(rng, n_columns) if rng.random() < 0.8 or role == "own" else None,
            random_replicates(rng, n_columns, PARTS[role]) if role in PARTS else (),
            PARTS.get(role, 1),
        )

    blocks = {role: tuple(block(role, count) for _ in range(folds)) for role, (folds, count) in SHAPES.items()}
    return Columns(blocks, UNITS)


def random_functional(seed, weighted=("main", "own", "unmixed"), **further):
    rng = np.random.default_rng(seed)
    weights = {role: rng.standard_normal(SHAPES[role]) for role in weighted}
    return Functional(float(rng.standard_normal()), weights, **further)


def by_loops(columns, functional):
    """D and the Monte-Carlo variance of every role by the module's head, one number after the other."""
    influence, monte_carlo = [0.0] * UNITS, dict.fromkeys(functional.weights, 0.0)
    for role, weights in functional.weights.items():
        for fold in range(SHAPES[role][0]):
            block, o = columns.blocks[role][fold], weights[fold].tolist()
            if block.held_out is not None:
                for position, unit in enumerate(block.held_out.units):
                    influence[unit] += sum(o[i] * block.held_out.mean[position, i] for i in range(len(o)))
            if role not in PARTS:
                monte_carlo[role] += sum((o[i] * block.errors[i]) ** 2 for i in range(len(o)))
                continue
            of_columns = []
            for losses in block.replicates:
                k = PARTS[role]
                of_columns.append([sum(losses[t * k : t * k + k]) / k for t in range(len(losses) // k)])
            for i, one in enumerate(of_columns):
                for j, other in enumerate(of_columns):
                    m = min(len(one), len(other))
                    mean, mean_of_other = sum(one[:m]) / m, sum(other[:m]) / m
                    moved = sum((x - mean) * (y - mean_of_other) for x, y in zip(one[:m], other[:m], strict=True))
                    monte_carlo[role] += o[i] * o[j] * moved / (m - 1) * m / (len(one) * len(other))
    return np.array(influence), monte_carlo


# --- functionals --------------------------------------------------------------------------------------


def test_functionals_add_role_by_role():
    first, second = random_functional(1, ("main", "own")), random_functional(2, ("main", "size 8"))
    both = first + second
    assert both.value == first.value + second.value
    assert set(both.weights) == {"main", "own", "size 8"}
    np.testing.assert_allclose(both.weights["main"], first.weights["main"] + second.weights["main"])
    assert both.weights["own"] is first.weights["own"]
    assert both.weights["size 8"] is second.weights["size 8"]


def test_a_functional_less_itself_is_nothing():
    one = random_functional(1)
    nothing = one - one
    assert nothing.value == 0
    assert not any(array.any() for array in nothing.weights.values())


def test_subtraction_undoes_addition():
    first, second = random_functional(1), random_functional(2)
    again = (first + second) - second
    assert again.value == pytest.approx(first.value)
    for role in first.weights:
        np.testing.assert_allclose(again.weights[role], first.weights[role], atol=1e-12)


@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.25, 3.0])
def test_a_factor_scales_values_and_weights_and_the_variance_of_the_choice_by_its_square(factor):
    one = random_functional(1, choice=0.5)
    scaled = one.scaled(factor)
    assert scaled.value == factor * one.value
    assert scaled.choice == pytest.approx(factor**2 * 0.5)
    for role in one.weights:
        np.testing.assert_allclose(scaled.weights[role], factor * one.weights[role])


def test_choices_add_as_variances_and_one_that_is_not_exact_makes_the_sum_so():
    first, second = Functional(1.0, choice=0.3), Functional(2.0, choice=0.2, exact=False)
    for both in (first + second, first - second, second - first):
        assert both.choice == pytest.approx(0.5)
        assert not both.exact
    assert (first + first).exact
    assert not second.scaled(2.0).exact


def test_nothing_that_is_added_changes_what_it_was_made_of():
    first, second = random_functional(1), random_functional(2)
    before = {role: array.copy() for role, array in first.weights.items()}
    _ = first + second, first - second, first.scaled(5.0), added(first.weights, second.weights)
    for role, array in before.items():
        np.testing.assert_array_equal(first.weights[role], array)


# --- influences and Monte-Carlo variance ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_one_loop_over_roles_gives_all_that_an_interval_needs(columns, seed):
    functional = random_functional(seed, choice=0.7)
    influence, monte_carlo = by_loops(columns, functional)
    influences = Influences(columns)
    np.testing.assert_allclose(influences.of_units(functional), influence, atol=1e-12)
    assert influences.monte_carlo_of_roles(functional) == pytest.approx(monte_carlo)
    assert influences.monte_carlo(functional) == pytest.approx(sum(monte_carlo.values()))
    source = uncertainty(columns, functional, rate_effect=0.3, training=0.2)
    np.testing.assert_allclose(source.influence, influence, atol=1e-12)
    assert source.monte_carlo == pytest.approx(sum(monte_carlo.values()))
    assert (source.choice, source.rate_effect, source.training) == (0.7, 0.3, 0.2)


def test_influences_are_linear_and_variances_are_not(columns):
    first, second, influences = random_functional(1), random_functional(2), Influences(columns)
    of_first, of_second = influences.of_units(first), influences.of_units(second)
    np.testing.assert_allclose(influences.of_units(first + second), of_first + of_second, atol=1e-12)
    np.testing.assert_allclose(influences.of_units(first - second), of_first - of_second, atol=1e-12)
    np.testing.assert_allclose(influences.of_units(first.scaled(-3)), -3 * of_first, atol=1e-12)
    assert influences.monte_carlo(first.scaled(-3)) == pytest.approx(9 * influences.monte_carlo(first))
    apart = influences.monte_carlo(first + second) + influences.monte_carlo(first - second)
    assert apart == pytest.approx(2 * (influences.monte_carlo(first) + influences.monte_carlo(second)))
    assert influences.monte_carlo(first - first) == 0


def test_roles_that_the_columns_do_not_have_and_no_weights_at_all_count_nothing(columns):
    influences = Influences(columns)
    for nothing in (Functional(3.0), Functional(3.0, {"elsewhere": np.ones((3, 2))})):
        assert not influences.of_units(nothing).any()
        assert influences.monte_carlo(nothing) == 0
        assert influences.monte_carlo_of_roles(nothing) == {}


# --- combined replicates -------------------------------------------------------------------------------


def block_of(replicates, **further):
    means = np.array([losses.mean() for losses in replicates])
    return Block(means, np.full(len(means), 99.0), replicates=tuple(replicates), **further)


def test_the_variance_of_a_combination_is_that_of_the_covariance_matrix_of_the_columns():
    rng = np.random.default_rng(6)
    replicates = rng.standard_normal((3, 3)) @ rng.standard_normal((3, 17))
    block = block_of(replicates)
    for weights in rng.standard_normal((5, 3)):
        assert block.monte_carlo(weights) == pytest.approx(weights @ np.cov(replicates) @ weights / 17)
    for i in range(3):
        assert block.monte_carlo(np.eye(3)[i]) == pytest.approx(replicates[i].var(ddof=1) / 17)


def test_noise_that_all_levels_share_cancels_where_weights_sum_to_0():
    rng = np.random.default_rng(7)
    own, common = rng.standard_normal((3, 40)), 1000 * rng.standard_normal(40)
    alone, shared = block_of(own), block_of(own + common)
    falls = np.array([1.0, -1.5, 0.5])
    assert shared.monte_carlo(falls) == pytest.approx(alone.monte_carlo(falls))
    assert shared.monte_carlo(np.ones(3)) > 1e5 * alone.monte_carlo(np.ones(3))
    # The same noise everywhere and nothing else: any difference of levels is known at once.
    assert block_of([common, common + 3]).monte_carlo(np.array([1.0, -1.0])) == pytest.approx(0, abs=1e-20)


def test_columns_move_together_by_the_replicates_that_both_have():
    """Of 3,000 drawings: the variance of the combination of means of 9, 6 and 20 replicates with a common part."""
    weights, values, claimed = np.array([1.0, -2.0, 0.5]), [], []
    for seed in range(3000):
        rng = np.random.default_rng([8, seed])
        common = rng.standard_normal(20)
        replicates = [common[:count] + 0.5 * rng.standard_normal(count) for count in (9, 6, 20)]
        block = block_of(replicates)
        values.append(weights @ [losses.mean() for losses in replicates])
        claimed.append(block.monte_carlo(weights))
    np.testing.assert_array_equal(block.paired, np.stack([losses[:6] for losses in replicates]))
    assert np.mean(claimed) == pytest.approx(np.var(values), rel=0.1)


def test_columns_without_replicates_have_independent_errors():
    block = Block(np.zeros(2), np.array([0.3, 0.4]))
    assert block.paired.shape == (0, 0)
    assert block.monte_carlo(np.array([2.0, -1.0])) == pytest.approx(0.36 + 0.16)


def test_a_single_replicate_tells_nothing_of_the_noise_unless_its_columns_have_no_weight():
    block = block_of([np.array([0.2]), np.array([0.4, 0.5])])
    assert math.isnan(block.monte_carlo(np.array([1.0, -1.0])))
    assert block.monte_carlo(np.zeros(2)) == 0


def test_turns_stand_for_the_replicates_that_belong_to_them():
    """What sets the parts apart is in every turn alike, so that it is no noise."""
    rng = np.random.default_rng(9)
    noise, parts = rng.standard_normal((2, 24)), np.tile([0.0, 50.0, -30.0], 8)
    block, weights = block_of(noise + [[1.0], [2.0]] * parts, strata=3), np.array([0.7, 1.1])
    turns = [weights @ noise[:, first : first + 3].mean(axis=1) for first in range(0, 24, 3)]
    assert block.monte_carlo(weights) == pytest.approx(variance(turns) / 8)
    assert block_of(block.replicates).monte_carlo(weights) > 100 * variance(turns) / 8


@pytest.mark.parametrize(("count", "turns"), [(3, 0), (7, 0), (8, 2), (11, 2), (12, 3)])
def test_replicates_stand_for_themselves_until_there_are_two_turns_and_a_turn_that_is_not_full_does_not_count(
    count, turns
):
    losses = np.random.default_rng(10).standard_normal(count) + 10 * (np.arange(count) % 4)
    alone = [losses[4 * turn : 4 * turn + 4].sum() / 4 for turn in range(turns)] or losses.tolist()
    assert block_of([losses], strata=4).monte_carlo(np.ones(1)) == pytest.approx(variance(alone) / len(alone))
    assert block_of([losses]).monte_carlo(np.ones(1)) == pytest.approx(variance(losses.tolist()) / count)


@pytest.mark.parametrize("strata", [1, 2])
def test_the_monte_carlo_variance_is_that_over_other_fits(strata):
    """Levels that share draws, and turns whose replicates take each other's noise back, drawn anew many times."""
    rng = np.random.default_rng(5)
    weights, spread = np.array([1.5, -2.0, 0.5]), np.array([[1.0], [0.5], [2.0]])
    parts = (np.arange(12) % strata) * np.array([[3.0], [-1.0], [1.0]])
    values, claimed = [], []
    for _ in range(3000):
        own = rng.standard_normal((3, 12))
        if strata == 2:
            # The second replicate of a turn errs as the first one does, the other way and half as far.
            own[:, 1::2] = -own[:, ::2] / 2
        block = block_of(parts + 2 * rng.standard_normal(12) + spread * own, strata=strata)
        values.append(weights @ block.means)
        claimed.append(Influences(Columns({"main": (block,)}, 2)).monte_carlo(Functional(0.0, {"main": weights[None]})))
    # The weights sum to 0, so that only the noise of single levels is left: of a turn, a quarter of the first one's.
    expected = (weights**2 @ spread**2).item() * (1 / 12 if strata == 1 else 1 / 16 / 6)
    assert np.var(values) == pytest.approx(expected, rel=0.1)
    assert np.mean(claimed) == pytest.approx(expected, rel=0.05)


# --- closed forms -------------------------------------------------------------------------------------


def test_records_that_are_their_own_units_give_the_variance_of_a_mean():
    losses = np.random.default_rng(0).exponential(size=30)
    columns = Columns({"own": (Block.of_records(losses, np.arange(30), 30),)}, 30)
    source = uncertainty(columns, Functional(losses.mean(), {"own": np.ones((1, 1))}))
    assert source.data == pytest.approx(losses.var(ddof=1) / 30)
    assert source.monte_carlo == 0


def test_clusters_of_equal_size_give_the_variance_of_the_mean_of_their_means():
    losses = np.random.default_rng(1).exponential(size=(12, 5))
    columns = Columns({"own": (Block.of_records(losses.ravel(), np.repeat(np.arange(12), 5), 12),)}, 12)
    source = uncertainty(columns, Functional(losses.mean(), {"own": np.ones((1, 1))}))
    assert source.data == pytest.approx(losses.mean(axis=1).var(ddof=1) / 12)


def test_what_two_columns_share_cancels_in_their_difference():
    rng = np.random.default_rng(2)
    hard = 10 * rng.exponential(size=40)
    first, second = hard + rng.random(40), hard + rng.random(40)
    blocks = {
        name: (Block.of_records(losses, np.arange(40), 40),) for name, losses in (("first", first), ("second", second))
    }
    one, other = (Functional(0.0, {name: np.ones((1, 1))}) for name in blocks)
    assert uncertainty(Columns(blocks, 40), one - other).data == pytest.approx((first - second).var(ddof=1) / 40)


def test_the_influence_of_a_unit_is_the_derivative_by_its_weight():
    rng = np.random.default_rng(3)
    losses, units = rng.random(25), rng.integers(0, 6, 25)
    block = Block.of_records(losses, units, 8)
    assert block.means[0] == pytest.approx(losses.mean())
    for unit in range(8):
        step = 1e-6
        weight = 1 + step * (units == unit)
        derivative = (np.average(losses, weights=weight) - losses.mean()) / step
        assert block.held_out.mean[unit, 0] == pytest.approx(derivative, abs=1e-6)
    assert not block.held_out.mean[6:].any()


def test_the_variance_from_the_units_is_that_over_other_units():
    """Clusters of unequal size drawn anew: a ratio of sums, whose variance the influences give but for little."""
    rng = np.random.default_rng(4)
    values, claimed = [], []
    for _ in range(1500):
        sizes = rng.integers(1, 5, 60)
        units = np.repeat(np.arange(60), sizes)
        losses = rng.exponential(size=60)[units] + 0.3 * rng.standard_normal(len(units))
        columns = Columns({"own": (Block.of_records(losses, units, 60),)}, 60)
        values.append(losses.mean())
        claimed.append(uncertainty(columns, Functional(losses.mean(), {"own": np.ones((1, 1))})).data)
    assert np.mean(claimed) == pytest.approx(np.var(values), rel=0.15)


# --- columns ------------------------------------------------------------------------------------------


def test_columns_are_read_one_row_per_block(columns):
    means, errors = columns.means("main"), columns.errors("main")
    assert means.shape == errors.shape == (3, 4)
    for fold in range(3):
        np.testing.assert_array_equal(means[fold], columns.blocks["main"][fold].means)
        np.testing.assert_array_equal(errors[fold], columns.blocks["main"][fold].errors)


def test_a_fold_without_a_role_has_empty_columns_that_count_nothing():
    columns = Columns({"second": (Block.empty(2), Block(np.array([1.0, 3.0]), np.array([0.1, 0.2])))}, 4)
    functional = Functional(0.0, {"second": np.array([[5.0, 5.0], [1.0, -1.0]])})
    assert Influences(columns).monte_carlo(functional) == pytest.approx(0.05)
    assert not Influences(columns).of_units(functional).any()
    assert columns.means("second").tolist() == [[0, 0], [1, 3]]

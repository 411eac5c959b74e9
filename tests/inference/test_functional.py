"""Functionals of columns against loops that are written out: influences, noise and Monte-Carlo variance."""

import numpy as np
import pytest

from outofcluster.inference.columns import Block, Columns, Pool
from outofcluster.inference.functional import Functional, Influences, added
from outofcluster.inference.intervals import uncertainty

UNITS = 11
SHAPES = {"main": (3, 4), "size 8": (3, 2), "own": (1, 1), "unmixed": (3, 3)}
"""Blocks and columns of every role."""


def random_pool(rng, n_columns):
    units = np.sort(rng.choice(UNITS, rng.integers(2, UNITS), replace=False))
    return Pool(units, rng.standard_normal((len(units), n_columns)), rng.random(n_columns))


@pytest.fixture(params=range(3))
def columns(request):
    """Three folds; the user's own model is scored once, and what is thinned is not drawn anew."""
    rng = np.random.default_rng(request.param)

    def block(role, n_columns):
        return Block(
            rng.random(n_columns),
            rng.random(n_columns),
            train=random_pool(rng, n_columns) if role in ("main", "size 8") else None,
            held_out=random_pool(rng, n_columns) if rng.random() < 0.8 or role == "own" else None,
        )

    blocks = {role: tuple(block(role, count) for _ in range(folds)) for role, (folds, count) in SHAPES.items()}
    return Columns(blocks, UNITS)


def random_functional(seed, weighted=("main", "own", "unmixed"), trained=("main", "size 8"), **further):
    rng = np.random.default_rng(seed)
    weights, training = ({role: rng.standard_normal(SHAPES[role]) for role in roles} for roles in (weighted, trained))
    return Functional(float(rng.standard_normal()), weights, training, **further)


def by_loops(columns, functional):
    """D, ν and the Monte-Carlo variance of the module's head, one number after the other."""
    influence, noise, monte_carlo = [0.0] * UNITS, 0.0, 0.0
    for role, (n_folds, n_columns) in SHAPES.items():
        for fold in range(n_folds):
            block = columns.blocks[role][fold]
            for i in range(n_columns):
                o = functional.weights[role][fold, i] if role in functional.weights else 0.0
                w = functional.training[role][fold, i] if role in functional.training else 0.0
                monte_carlo += (o * block.errors[i]) ** 2
                for pool, weight in ((block.train, w), (block.held_out, o)):
                    if pool is None:
                        continue
                    noise += weight**2 * pool.noise[i]
                    for position, unit in enumerate(pool.units):
                        influence[unit] += weight * pool.mean[position, i]
    return np.array(influence), noise, monte_carlo


def total_noise(columns, functional):
    return sum(noise.sum() for noise in Influences(columns).noise(functional).values())


# --- functionals --------------------------------------------------------------------------------------


def test_functionals_add_role_by_role():
    first, second = random_functional(1, ("main", "own"), ("main",)), random_functional(2, ("main",), ("size 8",))
    both = first + second
    assert both.value == first.value + second.value
    assert set(both.weights) == {"main", "own"}
    assert set(both.training) == {"main", "size 8"}
    np.testing.assert_allclose(both.weights["main"], first.weights["main"] + second.weights["main"])
    assert both.weights["own"] is first.weights["own"]
    assert both.training["main"] is first.training["main"]
    assert both.training["size 8"] is second.training["size 8"]


def test_a_functional_less_itself_is_nothing():
    one = random_functional(1)
    nothing = one - one
    assert nothing.value == 0
    assert not any(array.any() for named in (nothing.weights, nothing.training) for array in named.values())


def test_subtraction_undoes_addition():
    first, second = random_functional(1), random_functional(2)
    again = (first + second) - second
    assert again.value == pytest.approx(first.value)
    for role in first.weights:
        np.testing.assert_allclose(again.weights[role], first.weights[role], atol=1e-12)
    for role in first.training:
        np.testing.assert_allclose(again.training[role], first.training[role], atol=1e-12)


@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.25, 3.0])
def test_a_factor_scales_values_and_weights_and_the_variance_of_the_choice_by_its_square(factor):
    one = random_functional(1, choice=0.5)
    scaled = one.scaled(factor)
    assert scaled.value == factor * one.value
    assert scaled.choice == pytest.approx(factor**2 * 0.5)
    for role in one.weights:
        np.testing.assert_allclose(scaled.weights[role], factor * one.weights[role])
    for role in one.training:
        np.testing.assert_allclose(scaled.training[role], factor * one.training[role])


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


# --- influences, noise and Monte-Carlo variance --------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_one_loop_over_roles_gives_all_that_an_interval_needs(columns, seed):
    functional = random_functional(seed)
    influence, noise, monte_carlo = by_loops(columns, functional)
    influences = Influences(columns)
    np.testing.assert_allclose(influences.of_units(functional), influence, atol=1e-12)
    assert total_noise(columns, functional) == pytest.approx(noise)
    assert influences.monte_carlo(functional) == pytest.approx(monte_carlo)
    source = uncertainty(columns, functional, rate_effect=0.3, training=0.2, least=0.1)
    np.testing.assert_allclose(source.influence, influence, atol=1e-12)
    assert (source.influence_noise, source.monte_carlo) == pytest.approx((noise, monte_carlo))
    assert (source.choice, source.rate_effect, source.training, source.least) == (0.0, 0.3, 0.2, 0.1)


def test_noise_is_told_column_by_column(columns):
    functional = random_functional(5)
    noise = Influences(columns).noise(functional)
    assert set(noise) == {"main", "size 8", "own", "unmixed"}
    for role, by_column in noise.items():
        assert by_column.shape == SHAPES[role]
        for fold, i in np.ndindex(*SHAPES[role]):
            # What is left if the weights of one column are taken away.
            without = {
                name: {key: array.copy() for key, array in getattr(functional, name).items()}
                for name in ("weights", "training")
            }
            for named in without.values():
                if role in named:
                    named[role][fold, i] = 0.0
            less = total_noise(columns, Functional(0.0, **without))
            assert by_column[fold, i] == pytest.approx(total_noise(columns, functional) - less, abs=1e-12)


def test_influences_are_linear_and_variances_are_not(columns):
    first, second, influences = random_functional(1), random_functional(2), Influences(columns)
    of_first, of_second = influences.of_units(first), influences.of_units(second)
    np.testing.assert_allclose(influences.of_units(first + second), of_first + of_second, atol=1e-12)
    np.testing.assert_allclose(influences.of_units(first - second), of_first - of_second, atol=1e-12)
    np.testing.assert_allclose(influences.of_units(first.scaled(-3)), -3 * of_first, atol=1e-12)
    assert influences.monte_carlo(first.scaled(-3)) == pytest.approx(9 * influences.monte_carlo(first))
    assert total_noise(columns, first.scaled(-3)) == pytest.approx(9 * total_noise(columns, first))
    apart = influences.monte_carlo(first + second) + influences.monte_carlo(first - second)
    assert apart == pytest.approx(2 * (influences.monte_carlo(first) + influences.monte_carlo(second)))


def test_roles_that_the_columns_do_not_have_and_no_weights_at_all_count_nothing(columns):
    influences = Influences(columns)
    for nothing in (Functional(3.0), Functional(3.0, {"elsewhere": np.ones((3, 2))})):
        assert not influences.of_units(nothing).any()
        assert influences.monte_carlo(nothing) == 0
        assert influences.noise(nothing) == {}


def test_training_counts_for_influences_but_not_for_the_noise_of_the_fits(columns):
    """Training is taken to move the naive loss like the lowest level, but its value comes from no resample."""
    naive = random_functional(3, weighted=("own",), trained=("main",))
    own = columns.blocks["own"][0]
    assert Influences(columns).monte_carlo(naive) == pytest.approx((naive.weights["own"][0, 0] * own.errors[0]) ** 2)
    without = Functional(0.0, naive.weights)
    assert (Influences(columns).of_units(naive) != Influences(columns).of_units(without)).any()


# --- closed forms -------------------------------------------------------------------------------------


def test_records_that_are_their_own_units_give_the_variance_of_a_mean():
    losses = np.random.default_rng(0).exponential(size=30)
    columns = Columns({"own": (Block.of_records(losses, np.arange(30), 30),)}, 30)
    source = uncertainty(columns, Functional(losses.mean(), {"own": np.ones((1, 1))}))
    assert source.data == pytest.approx(losses.var(ddof=1) / 30)
    assert source.monte_carlo == source.influence_noise == 0


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


def test_noisy_influences_are_corrected_to_those_without_noise():
    """Means over t replicates of Z, whose variance is known: ν is what they add to the sum of squares."""
    rng = np.random.default_rng(4)
    units, t = 50, 20
    exact, spread = rng.standard_normal((units, 3)), np.array([1.0, 2.0, 3.0])
    weights = {"main": np.array([[0.5, -2.0, 1.0]])}
    noisy, corrected = [], []
    for _ in range(400):
        mean = exact + spread / np.sqrt(t) * rng.standard_normal((units, 3))
        pool = Pool(np.arange(units), mean, units * spread**2 / t)
        source = uncertainty(
            Columns({"main": (Block(np.zeros(3), np.zeros(3), held_out=pool),)}, units), Functional(0.0, weights)
        )
        noisy.append((source.influence**2).sum())
        corrected.append(noisy[-1] - source.influence_noise)
    truth = ((exact @ weights["main"][0]) ** 2).sum()
    assert np.mean(corrected) == pytest.approx(truth, abs=4 * np.std(corrected) / 20)
    assert np.mean(noisy) > truth + 10 * np.std(noisy) / 20


def test_the_monte_carlo_variance_is_that_of_combined_means():
    rng = np.random.default_rng(5)
    counts, spread, weights = np.array([5, 10, 40]), np.array([1.0, 0.5, 2.0]), np.array([1.5, -2.0, 0.5])
    errors = spread / np.sqrt(counts)
    columns = Columns({"main": (Block(np.zeros(3), errors),)}, 2)
    claimed = Influences(columns).monte_carlo(Functional(0.0, {"main": weights[None]}))
    values = [
        sum(w * rng.normal(0, s, t).mean() for w, s, t in zip(weights, spread, counts, strict=True))
        for _ in range(4000)
    ]
    assert claimed == pytest.approx(np.var(values), rel=0.1)


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

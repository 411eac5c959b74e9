"""Differences of two estimates from the same resamples, against a covariance matrix that is written out."""

import math
from dataclasses import replace

import numpy as np
import pytest

from outofcluster.inference.functional import Block, Columns, Functional, Pool
from outofcluster.inference.intervals import paired_uncertainty, uncertainty

UNITS = 9
LEVELS = (0.0, 0.3, 0.7)
COUNTS = (12, 9, 7)
"""Replicates at every level: seven are paired."""


def made(rng, sizes, shared, counts=None):
    """Two folds; every size of training sets is a role, and replicates are partly those of the other model."""
    blocks = {}
    for role, size in sizes.items():
        by_fold = []
        for fold in range(2):
            replicates = tuple(
                shared[fold, size][i, :count] + rng.standard_normal(count)
                for i, count in enumerate((counts or {}).get(role, COUNTS))
            )
            units = np.sort(rng.choice(UNITS, 5, replace=False))
            by_fold.append(
                Block(
                    np.array([losses.mean() for losses in replicates]),
                    np.full(3, 99.0),
                    Pool(units, rng.standard_normal((5, 3))),
                    replicates,
                    keys=tuple((size, level) for level in LEVELS),
                )
            )
        blocks[role] = tuple(by_fold)
    # Columns without replicates have independent errors.
    blocks["thinned"] = tuple(Block(rng.random(3), rng.random(3)) for _ in range(2))
    return Columns(blocks, UNITS)


@pytest.fixture
def pair():
    """Two roles come from the same resamples; one is of other sizes, one of other counts, and one is of one model."""
    rng = np.random.default_rng(0)
    shared = {(fold, size): 2 * rng.standard_normal((3, 20)) for fold in range(2) for size in (8, 9, 20, 30, 40)}
    first = made(rng, {"main": 40, "size 20": 20, "least": 8, "more": 30}, shared)
    sizes = {"main": 40, "size 20": 20, "least": 9, "more": 30, "of one": 8}
    second = made(rng, sizes, shared, {"more": (15, 10, 9)})
    return first, second


SHARED = ("main", "size 20")


def functional(columns, seed, choice=0.0):
    rng = np.random.default_rng(seed)
    weights = {role: rng.standard_normal((2, 3)) for role in columns.blocks}
    return Functional(float(rng.random()), weights, choice)


def flat(columns):
    """All columns as a list: the role, the fold, the position, the error and the replicates."""
    return [
        (role, fold, i, block.errors[i], block.replicates[i])
        if block.replicates
        else (role, fold, i, block.errors[i], None)
        for role, blocks in columns.blocks.items()
        for fold, block in enumerate(blocks)
        for i in range(len(block.means))
    ]


def covariance_of_means(a, b):
    """The matrix of all mean losses of both models: those of the same resamples move together."""
    columns = [("a", *column) for column in flat(a)] + [("b", *column) for column in flat(b)]
    matrix = np.zeros((len(columns), len(columns)))
    for i, (model, role, fold, _, error, losses) in enumerate(columns):
        for j, (other, other_role, other_fold, _, _, others) in enumerate(columns):
            if losses is None:
                matrix[i, j] = error**2 if i == j else 0.0
            elif (role, fold) == (other_role, other_fold) and (model == other or role in SHARED):
                # Replicates that only one of them has are independent of the other.
                m = min(len(losses), len(others))
                x, y = losses[:m] - losses[:m].mean(), others[:m] - others[:m].mean()
                matrix[i, j] = x @ y / (m - 1) * m / (len(losses) * len(others))
    return matrix


def paired(first, second, rate_effect=0.0, training=0.0):
    return paired_uncertainty(first, second, rate_effect=rate_effect, training=training)


def test_the_monte_carlo_variance_is_that_of_the_covariance_matrix(pair):
    a, b = pair
    for seed in range(5):
        of_a, of_b = functional(a, seed), functional(b, seed + 100)
        weights = [of_a.weights[role][fold, i] for role, fold, i, *_ in flat(a)]
        weights += [-of_b.weights[role][fold, i] for role, fold, i, *_ in flat(b)]
        expected = np.array(weights) @ covariance_of_means(a, b) @ weights
        assert paired((a, of_a), (b, of_b)).monte_carlo == pytest.approx(expected)


def test_influences_subtract(pair):
    a, b = pair
    of_a, of_b = functional(a, 1), functional(b, 2)
    expected = np.zeros(UNITS)
    for columns, estimate, sign in ((a, of_a, 1), (b, of_b, -1)):
        for role, blocks in columns.blocks.items():
            for fold, block in enumerate(blocks):
                for position, unit in enumerate(block.held_out.units if block.held_out else ()):
                    expected[unit] += sign * (block.held_out.mean[position] @ estimate.weights[role][fold])
    difference = paired((a, of_a), (b, of_b))
    np.testing.assert_allclose(difference.influence, expected, atol=1e-12)
    assert difference.of_units == pytest.approx(UNITS / (UNITS - 1) * (expected**2).sum())


def combined(columns, estimate, role, fold):
    """The replicates of an estimate in one role and fold, one after the other."""
    replicates, weights = columns.blocks[role][fold].replicates, estimate.weights[role][fold]
    return [sum(weights[i] * replicates[i][r] for i in range(3)) for r in range(min(COUNTS))]


def test_choices_of_models_that_move_together_cancel(pair):
    a, b = pair
    of_a = functional(a, 1, choice=0.3)
    # About the same weights, so that the combined replicates move together as the losses do.
    of_b = replace(functional(b, 2, choice=0.2), weights={**functional(b, 2).weights, **of_a.weights})
    correlations = [
        np.corrcoef(combined(a, of_a, role, fold), combined(b, of_b, role, fold))[0, 1]
        for role in SHARED
        for fold in range(2)
    ]
    r = np.mean(correlations)
    assert r > 0.3
    assert paired((a, of_a), (b, of_b)).choice == pytest.approx(0.5 - 2 * r * math.sqrt(0.06))
    # Estimates that move against each other are not less alike than those that share nothing.
    assert paired((a, of_a), (b, replace(of_b.scaled(-1), choice=0.2))).choice == pytest.approx(0.5)


def test_a_model_against_itself_has_no_uncertainty(pair):
    estimate = functional(pair[0], 1, choice=0.3)
    sampled = {role: weights for role, weights in estimate.weights.items() if role != "thinned"}
    model = (pair[0], replace(estimate, weights=sampled))
    difference = paired(model, model, training=0.7)
    assert not difference.influence.any()
    for value in (difference.monte_carlo, difference.choice, difference.of_units, difference.data):
        assert value == pytest.approx(0, abs=1e-9)


def test_runs_that_share_no_resample_add(pair):
    rng = np.random.default_rng(1)
    apart = {(fold, 25): rng.standard_normal((3, 20)) for fold in range(2)}
    a, b = pair[0], made(rng, {"main": 25}, apart)
    of_a, of_b = functional(a, 1, choice=0.3), functional(b, 2, choice=0.2)
    one, other, difference = uncertainty(a, of_a), uncertainty(b, of_b), paired((a, of_a), (b, of_b))
    assert difference.monte_carlo == pytest.approx(one.monte_carlo + other.monte_carlo)
    assert difference.choice == pytest.approx(0.5)


def test_replicates_of_columns_without_keys_are_not_known_to_be_the_same(pair):
    a, _ = pair
    bare = Columns({"main": tuple(replace(block, keys=()) for block in a.blocks["main"])}, UNITS)
    estimate = Functional(0.0, {"main": np.ones((2, 3))})
    assert paired((bare, estimate), (bare, estimate)).monte_carlo == pytest.approx(
        2 * uncertainty(bare, estimate).monte_carlo
    )


def test_the_naive_losses_of_two_models_differ_as_their_losses_on_the_same_records():
    """Scored once, they have no noise of fits; what makes a record hard for both cancels."""
    rng = np.random.default_rng(0)
    hard = 10 * rng.exponential(size=30)
    one, other = hard + rng.random(30), hard + rng.random(30)
    a, b = (
        (
            Columns({"own": (Block.of_records(losses, np.arange(30), 30),)}, 30),
            Functional(losses.mean(), {"own": np.ones((1, 1))}),
        )
        for losses in (one, other)
    )
    difference = paired(a, b, training=0.7)
    assert difference.monte_carlo == 0
    assert difference.data == pytest.approx(1.7 * (one - other).var(ddof=1) / 30)
    assert difference.data < 0.01 * uncertainty(*a).data


def test_what_moves_the_rate_and_what_trains_is_passed_on(pair):
    model = (pair[0], Functional(0.0, {"main": np.ones((2, 3))}))
    difference = paired(model, model, rate_effect=-0.5, training=0.3)
    assert difference.data == pytest.approx(0.25)
    assert difference.training == 0.3


def test_turns_stand_for_the_shared_replicates_that_belong_to_them():
    rng = np.random.default_rng(3)
    turns, keys = 40.0 * (np.arange(12) % 2), ((5, 0.0), (5, 0.4))
    losses = [rng.standard_normal((2, 12)) + turns * np.array([[1.0], [part]]) for part in (2.0, -3.0)]
    a, b = (
        Columns({"main": (Block(of_model.mean(axis=1), np.zeros(2), None, tuple(of_model), 2, keys),)}, 2)
        for of_model in losses
    )
    weights = {"main": np.array([[1.0, -2.0]])}
    apart = weights["main"][0] @ (losses[0] - losses[1])
    expected = ((apart[::2] + apart[1::2]) / 2).var(ddof=1) / 6
    assert paired((a, Functional(0.0, weights)), (b, Functional(0.0, weights))).monte_carlo == pytest.approx(expected)
    assert apart.var(ddof=1) / 12 > 10 * expected


def test_the_variance_of_the_difference_is_that_over_other_fits():
    """Replicates of two models drawn anew: noise that levels and models share, and noise of their own."""
    rng = np.random.default_rng(2)
    one, other = Functional(0.0, {"main": np.array([[1.0, -2.0]])}), Functional(0.0, {"main": np.array([[0.5, -1.0]])})
    differences, claimed = [], []
    for _ in range(2000):
        shared = 2 * rng.standard_normal(20) + rng.standard_normal((2, 20))
        models = []
        for estimate, own in ((one, 0.3), (other, 0.5)):
            losses = shared + own * rng.standard_normal((2, 20))
            block = Block(losses.mean(axis=1), np.zeros(2), None, tuple(losses), keys=((5, 0.0), (5, 0.4)))
            models.append((Columns({"main": (block,)}, 2), estimate))
        a, b = (estimate.weights["main"][0] @ columns.means("main")[0] for columns, estimate in models)
        differences.append(a - b)
        claimed.append(paired(*models).monte_carlo)
    # The weights differ by 0.5 and -1: what levels and models share counts with the sum, what models share with each.
    expected = (4 * 0.5**2 + 0.5**2 + 1 + 0.3**2 * 5 + 0.5**2 * 1.25) / 20
    assert np.var(differences) == pytest.approx(expected, rel=0.13)
    assert np.mean(claimed) == pytest.approx(expected, rel=0.05)

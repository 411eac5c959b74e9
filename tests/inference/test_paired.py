"""Differences of two estimates from the same resamples, against a covariance matrix that is written out."""

import math

import numpy as np
import pytest

from outofcluster.inference.columns import Block, Columns, Pool
from outofcluster.inference.functional import Functional, Influences
from outofcluster.inference.intervals import paired_uncertainty, uncertainty

UNITS = 9
LEVELS = (0.0, 0.3, 0.7)


def made(rng, sizes, counts, shared, noise=1.0):
    """Two folds; every size of training sets is a role, and replicates are partly those of the other model."""
    blocks = {}
    for role, size in sizes.items():
        by_fold = []
        for fold in range(2):
            replicates = tuple(
                shared[fold, size, level][: counts[i]] + rng.standard_normal(counts[i])
                for i, level in enumerate(LEVELS)
            )
            train, held_out = (
                Pool(np.sort(rng.choice(UNITS, 5, replace=False)), rng.standard_normal((5, 3)), noise * rng.random(3))
                for _ in range(2)
            )
            by_fold.append(
                Block(
                    np.array([losses.mean() for losses in replicates]),
                    np.array([losses.std(ddof=1) / math.sqrt(len(losses)) for losses in replicates]),
                    train,
                    held_out,
                    replicates,
                    tuple((size, level) for level in LEVELS),
                )
            )
        blocks[role] = tuple(by_fold)
    return Columns(blocks, UNITS)


@pytest.fixture
def pair():
    """The full size of the first model is a smaller one of the second, which has more replicates at some levels."""
    rng = np.random.default_rng(0)
    shared = {
        (fold, size, level): rng.standard_normal(20) for fold in range(2) for size in (8, 40, 60) for level in LEVELS
    }
    first = made(rng, {"main": 40, "size 8": 8}, (12, 9, 7), shared)
    second = made(rng, {"main": 60, "size 40": 40, "size 8": 8}, (15, 9, 5), shared)
    return first, second


def functional(columns, seed, choice=0.0):
    rng = np.random.default_rng(seed)
    weights, training = ({role: rng.standard_normal((2, 3)) for role in columns.blocks} for _ in range(2))
    return Functional(float(rng.random()), weights, training, choice)


def flat(columns):
    """All columns as a list: the role, the fold, the position, the key and the replicates."""
    return [
        (role, fold, i, block.keys[i], block.replicates[i])
        for role, blocks in columns.blocks.items()
        for fold, block in enumerate(blocks)
        for i in range(len(block.means))
    ]


def covariance_of_means(a, b):
    """The matrix of all mean losses of both models: those of the same resamples move together."""
    columns = [("a", *column) for column in flat(a)] + [("b", *column) for column in flat(b)]
    matrix = np.zeros((len(columns), len(columns)))
    for i, (model, _, fold, _, key, losses) in enumerate(columns):
        for j, (other, _, other_fold, _, other_key, others) in enumerate(columns):
            if i == j:
                matrix[i, j] = losses.var(ddof=1) / len(losses)
            elif model != other and (fold, key) == (other_fold, other_key):
                m = min(len(losses), len(others))
                x, y = losses[:m] - losses[:m].mean(), others[:m] - others[:m].mean()
                matrix[i, j] = m * (x @ y) / (m - 1) / (len(losses) * len(others))
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
    expected = Influences(a).of_units(of_a) - Influences(b).of_units(of_b)
    np.testing.assert_array_equal(paired((a, of_a), (b, of_b)).influence, expected)


def test_noise_is_shared_as_far_as_the_losses_are(pair):
    a, b = pair
    of_a, of_b = functional(a, 1), functional(b, 2)
    noise_a, noise_b = Influences(a).noise(of_a), Influences(b).noise(of_b)
    expected = sum(array.sum() for named in (noise_a, noise_b) for array in named.values())
    for role, fold, i, key, losses in flat(a):
        for other, other_fold, j, other_key, others in flat(b):
            if (fold, key) == (other_fold, other_key):
                m = min(len(losses), len(others))
                r = np.corrcoef(losses[:m], others[:m])[0, 1]
                r *= np.sign(of_a.training[role][fold, i] * of_b.training[other][fold, j])
                expected -= 2 * r * math.sqrt(noise_a[role][fold, i] * noise_b[other][fold, j])
    assert paired((a, of_a), (b, of_b)).influence_noise == pytest.approx(expected)


def test_choices_of_models_that_move_together_cancel(pair):
    a, b = pair
    correlations = [
        np.corrcoef(losses[: min(len(losses), len(others))], others[: min(len(losses), len(others))])[0, 1]
        for _, fold, _, key, losses in flat(a)
        for _, other_fold, _, other_key, others in flat(b)
        if (fold, key) == (other_fold, other_key)
    ]
    assert len(correlations) == 12
    r = max(np.mean(correlations), 0)
    assert r > 0.1
    difference = paired((a, functional(a, 1, choice=0.3)), (b, functional(b, 2, choice=0.2)))
    assert difference.choice == pytest.approx(0.5 - 2 * r * math.sqrt(0.06))


def test_a_model_against_itself_has_no_uncertainty(pair):
    model = (pair[0], functional(pair[0], 1, choice=0.3))
    difference = paired(model, model)
    assert not difference.influence.any()
    for value in (difference.influence_noise, difference.monte_carlo, difference.choice, difference.data):
        assert value == pytest.approx(0, abs=1e-9)


def test_runs_that_share_no_resample_add(pair):
    rng = np.random.default_rng(1)
    apart = {(fold, 25, level): rng.standard_normal(20) for fold in range(2) for level in LEVELS}
    a, b = pair[0], made(rng, {"main": 25}, (9, 9, 9), apart)
    of_a, of_b = functional(a, 1, choice=0.3), functional(b, 2, choice=0.2)
    one, other, difference = uncertainty(a, of_a), uncertainty(b, of_b), paired((a, of_a), (b, of_b))
    assert difference.monte_carlo == pytest.approx(one.monte_carlo + other.monte_carlo)
    assert difference.influence_noise == pytest.approx(one.influence_noise + other.influence_noise)
    assert difference.choice == pytest.approx(0.5)


def test_the_naive_losses_of_two_models_have_no_noise_of_fits(pair):
    """Their weights stand on what was scored once; training moves them all the same."""
    blocks = [
        {**columns.blocks, "own": (Block.of_records(np.random.default_rng(i).random(UNITS), np.arange(UNITS), UNITS),)}
        for i, columns in enumerate(pair)
    ]
    naive = Functional(0.4, {"own": np.ones((1, 1))}, {"main": np.array([[0.5, 0, 0], [0.5, 0, 0]])})
    a, b = (Columns(of_model, UNITS) for of_model in blocks)
    difference = paired((a, naive), (b, naive))
    assert difference.monte_carlo == 0
    assert difference.influence_noise > 0


def test_what_moves_the_rate_and_what_trains_is_passed_on(pair):
    model = (pair[0], functional(pair[0], 1))
    difference = paired(model, model, rate_effect=-0.5, training=0.3)
    assert difference.data == pytest.approx(0.25)
    assert difference.training == 0.3


def test_the_variance_of_the_difference_is_that_over_other_fits():
    """Replicates of two models drawn anew a thousand times: shared, and of unequal number."""
    rng = np.random.default_rng(2)
    weights = {"main": np.array([[1.0, -2.0]])}
    estimate, differences, claimed = Functional(0.0, weights), [], []
    for _ in range(1000):
        shared = rng.standard_normal((2, 30))
        blocks = []
        for count, own in ((30, 0.3), (20, 0.5)):
            losses = tuple(level[:count] + own * rng.standard_normal(count) for level in shared)
            means = np.array([level.mean() for level in losses])
            errors = np.array([level.std(ddof=1) for level in losses]) / math.sqrt(count)
            blocks.append(Columns({"main": (Block(means, errors, None, None, losses, ((5, 0.0), (5, 0.4))),)}, 2))
        differences.append(float((weights["main"] * (blocks[0].means("main") - blocks[1].means("main"))).sum()))
        claimed.append(paired((blocks[0], estimate), (blocks[1], estimate)).monte_carlo)
    assert np.mean(claimed) == pytest.approx(np.var(differences), rel=0.2)

"""The rate from the data by seeded simulation: how often its bound holds, and the bias of its estimate."""

import numpy as np
import pytest

import outofcluster as ooc

pytestmark = pytest.mark.slow

COUNT = 60
"""Data sets of each world."""


def clustered(rng, held_out, *, turned=0.0, shifted=0.0):
    """Eight clusters of 100 records around centres of their own, with a numeric target."""
    cluster = np.repeat(np.arange(8), 100)
    X = rng.standard_normal((8, 6))[cluster] + 0.5 * rng.standard_normal((800, 6))
    slopes = np.tile([1.0, 0.5, 0, 0, 0, 0], (8, 1))
    slopes[held_out] += turned * rng.standard_normal(6)
    level = 0.3 * rng.standard_normal(8)
    level[held_out] += shifted
    y = (X * slopes[cluster]).sum(axis=1) + level[cluster] + 0.7 * rng.standard_normal(800)
    return X, y, cluster


def turned(rng, held_out):
    return clustered(rng, held_out, turned=0.6)


def shifted(rng, held_out):
    return clustered(rng, held_out, shifted=1.5)


def arcs(rng, held_out):
    """Clusters are arcs, beside a skewed and a discrete feature: nothing normal about them; three classes."""
    cluster = np.repeat(np.arange(8), 100)
    angle = rng.uniform(0, np.pi, 800) + rng.uniform(0, 2 * np.pi, 8)[cluster]
    points = 2 * rng.standard_normal((8, 2))[cluster] + 1.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    others = [rng.exponential(1, 800) * (0.5 + rng.random(8))[cluster], rng.integers(0, 4, 800)]
    X = np.column_stack([points + 0.2 * rng.standard_normal((800, 2)), *others])
    y = np.sin(angle) + 0.5 * rng.standard_normal(8)[cluster] + 0.5 * rng.standard_normal(800)
    return X, np.digitize(y, [-0.4, 0.4]), cluster


@pytest.mark.parametrize(
    ("world", "rate"), [(turned, 0.2), (shifted, 0.05), (arcs, 0.1)], ids=["turned", "shift", "arcs"]
)
def test_the_bound_holds_and_the_estimate_is_near(world, rate):
    held_out, truths, rates, bounds = [6, 7], [], [], []
    for seed in range(COUNT):
        X, y, cluster = world(np.random.default_rng([seed, 77]), held_out)
        split = ooc.simulate_leakage(cluster, held_out, rate, unit="records", of="train", random_state=seed)
        leakage = ooc.Leakage.from_data(
            X, y, groups=split.groups, cv=[(split.train, split.validation)], error_model="records", random_state=seed
        )
        truths.append(split.rate)
        rates.append(leakage.rate)
        bounds.append(leakage.bound)
    assert np.mean(np.array(bounds) >= truths) >= 0.93
    assert np.mean(rates) == pytest.approx(np.mean(truths), abs=max(0.02, 0.2 * rate))
    # A bound that says nothing would hold as well.
    assert np.mean(bounds) < 2 * rate


def test_without_leakage_the_bound_is_near_zero():
    for seed in range(5):
        X, y, cluster = turned(np.random.default_rng([seed, 78]), [6, 7])
        leakage = ooc.Leakage.from_data(
            X, y, groups=cluster, cv=[(np.arange(600), np.arange(600, 800))], error_model="records", random_state=seed
        )
        assert leakage.bound <= 0.06
        assert leakage.rate <= 0.02

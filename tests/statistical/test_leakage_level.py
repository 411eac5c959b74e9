"""Level and power of the test for a cluster effect, by seeded simulation."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor

from outofcluster.leakage_test import detectable_effect, leakage_test

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(20), 20)
X = rng.standard_normal((400, 3))
y = (X[:, 0] + rng.standard_normal(400) > 0).astype(int)
value = X[:, 0] + rng.standard_normal(400)
one_split = [(np.arange(200), np.arange(200, 400))]

used = []


def rejections(design, count):
    """How many of so many data sets the test rejects at 5 %."""
    rejected = 0
    for seed in range(count):
        estimator, X, y, groups, options = design(np.random.default_rng(seed))
        rejected += leakage_test(estimator, X, y, groups=groups, random_state=seed, **options).rejected
    return rejected


def logistic(rng):
    X = rng.standard_normal((800, 5))
    return LogisticRegression(), X, (X[:, 0] + rng.standard_normal(800) > 0).astype(int), np.arange(800) // 20, {}


def coin(rng):
    """Nothing to learn: a stratified draw would find the classes' shares of V̂ and reject too often."""
    return GaussianNB(), rng.standard_normal((400, 2)), rng.integers(0, 2, 400), np.arange(400) // 10, {}


def rare(rng):
    X = rng.standard_normal((800, 2))
    return GaussianNB(), X, X[:, 0] + rng.standard_normal(800) > 1.8, np.arange(800) // 20, {}


def skewed(rng):
    X = rng.standard_normal((300, 2))
    return LinearRegression(), X, X[:, 0] + rng.lognormal(size=300), np.arange(300) // 10, {}


def single_split(rng):
    X = rng.standard_normal((600, 2))
    split = [(np.arange(300), np.arange(300, 600))]
    return GaussianNB(), X, X[:, 0] + rng.standard_normal(600) > 0, np.arange(600) // 20, {"cv": split}


def noisy_clusters(rng):
    """Clusters differ in their noise, so in their loss, but no cluster teaches anything about itself."""
    X, groups = rng.standard_normal((800, 2)), np.arange(800) // 20
    deviation = rng.lognormal(size=40)[groups]
    return LinearRegression(), X, X[:, 0] + deviation * rng.standard_normal(800), groups, {}


def hospitals(rng):
    """Five hospitals of 160 records, each with slopes of its own: N(0, 4) for three features, noise N(0, 1/4)."""
    X, groups = rng.standard_normal((800, 3)), np.arange(800) // 160
    slopes = 2 * rng.standard_normal((5, 3))
    y = (X * slopes[groups]).sum(axis=1) + 0.5 * rng.standard_normal(800) > 0
    return LogisticRegression(), X, y, groups, {}


def patients(rng):
    """Forty patients of 20 records, each with a level N(0, 1) of its own, noise N(0, 1/4), told by two features."""
    groups = np.arange(800) // 20
    X = rng.standard_normal((40, 2))[groups] + 0.05 * rng.standard_normal((800, 2))
    return KNeighborsRegressor(1), X, rng.standard_normal(40)[groups] + 0.5 * rng.standard_normal(800), groups, {}


@pytest.mark.parametrize("design", [coin, single_split], ids=lambda design: design.__name__)
def test_the_level_without_a_cluster_effect(design):
    """300 data sets at 5 %: more than 26 would be seen once in a thousand times."""
    assert rejections(design, 300) <= stats.binom.ppf(0.999, 300, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", [logistic, coin, rare, skewed, single_split, noisy_clusters], ids=lambda design: design.__name__
)
def test_the_level_over_2000_data_sets(design):
    assert rejections(design, 2000) / 2000 <= 0.058


@pytest.mark.parametrize("design", [hospitals, patients], ids=lambda design: design.__name__)
def test_the_power_against_a_strong_effect(design):
    assert rejections(design, 100) > 90


@pytest.mark.parametrize(
    ("n", "nv", "s", "sv", "power"), [(10, 10, 0.1, 0.1, 0.8), (6, 6, 0.1, 0.3, 0.8), (5, 20, 1, 2, 0.9)]
)
def test_the_detectable_effect_is_detected_as_often_as_promised(n, nv, s, sv, power):
    """40,000 simulated tests: their share has a standard error of 0.2 %, and Welch's approximation about 1 %."""
    effect = detectable_effect(n, nv, s, sv, power=power)
    rng = np.random.default_rng(0)
    z, zv = effect + s * rng.standard_normal((40_000, n)), sv * rng.standard_normal((40_000, nv))
    found = stats.ttest_ind(z, zv, axis=1, equal_var=False, alternative="greater").pvalue <= 0.05
    assert found.mean() == pytest.approx(power, abs=0.02)

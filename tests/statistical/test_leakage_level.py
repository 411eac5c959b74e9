"""Level and power of the test for a cluster effect, by seeded simulation."""

import numpy as np
import pytest
from scipy import stats

from outofcluster.auditing.effect_test import detectable_effect, leakage_test
from worlds import coin, hospitals, noisy_clusters, patients, rare, single_split

pytestmark = pytest.mark.slow


def rejections(design, count):
    """How many of so many data sets the test rejects at 5 %."""
    rejected = 0
    for seed in range(count):
        estimator, X, y, groups, options = design(np.random.default_rng(seed))
        rejected += leakage_test(estimator, X, y, groups=groups, random_state=seed, **options).rejected
    return rejected


@pytest.mark.parametrize("design", [coin, single_split], ids=lambda design: design.__name__)
def test_the_level_without_a_cluster_effect(design):
    """300 data sets at 5 %: more than 26 would be seen once in a thousand times."""
    assert rejections(design, 300) <= stats.binom.ppf(0.999, 300, 0.05)


@pytest.mark.parametrize("design", [coin, rare, single_split, noisy_clusters], ids=lambda design: design.__name__)
def test_the_level_over_2000_data_sets(design):
    """Two more designs are in the calibration study."""
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

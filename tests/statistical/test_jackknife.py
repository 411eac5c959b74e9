"""The infinitesimal jackknife's variance against the variance of the estimate over data sets drawn anew."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.inference.linear import linear_variance

pytestmark = pytest.mark.slow

K, SIZE = 30, 5


def clusters(seed, shift):
    """Clusters with slopes and levels of their own."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(K), SIZE)
    X = rng.standard_normal((K * SIZE, 3))
    slopes, levels = 1 + 0.6 * rng.standard_normal((K, 3)), shift + 0.7 * rng.standard_normal(K)
    return X, (X * slopes[cluster]).sum(axis=1) + levels[cluster] + rng.standard_normal(K * SIZE), cluster


def estimate(train_seed, validation_seed, n_fits=2000):
    (X, y, g), (X2, y2, g2) = clusters([train_seed, 1], 0.0), clusters([validation_seed, 2], 1.0)
    rows = np.arange(K * SIZE)
    samples = ooc.sample_losses(
        Ridge(), np.vstack([X, X2]), np.concatenate([y, y2]), train=rows, validation=rows + K * SIZE,
        groups=np.concatenate([g, g2 + K]), n_train=60, n_fits=n_fits, random_state=train_seed + 1000 * validation_seed,
    )  # fmt: skip
    curve = ooc.PolynomialCurve(1).fit(samples, leakage=0.1)
    return curve.e0_, linear_variance(samples, curve.influence_)


@pytest.mark.parametrize("varied", ["train", "validation"])
def test_each_pools_variance_is_that_over_new_clusters(varied):
    """One pool held fixed, the other drawn 40 times; 6 such groups give the variance to about 10 %."""
    claimed, seen = [], []
    for group in range(6):
        runs = []
        for draw in range(40):
            fresh = 100 * group + draw
            runs.append(estimate(group, fresh) if varied == "validation" else estimate(fresh, group))
        seen.append(np.var([e0 for e0, _ in runs], ddof=1))
        claimed.append(np.mean([getattr(variance, varied) for _, variance in runs]))
    assert 0.7 < np.mean(claimed) / np.mean(seen) < 1.5


def test_the_monte_carlo_correction_makes_few_fits_as_good_as_many():
    """Without it the variance from 120 fits would be some times too large."""
    few = np.mean([estimate(s, s, n_fits=120)[1].data for s in range(30)])
    many = np.mean([estimate(s, s, n_fits=4000)[1].data for s in range(30)])
    assert few == pytest.approx(many, rel=0.35)


def test_the_monte_carlo_variance_is_that_over_seeds():
    (X, y, _), (X2, y2, _) = clusters(1, 0.0), clusters(2, 1.0)
    rows = np.arange(K * SIZE)
    options = {"train": rows, "validation": rows + K * SIZE, "n_train": 60, "n_fits": 600, "injected": [0, 0.3, 1]}
    data = np.vstack([X, X2]), np.concatenate([y, y2])
    runs = [ooc.sample_losses(Ridge(), *data, random_state=seed, **options) for seed in range(150)]
    weights = np.array([1.5, -0.7, 0.2])
    seen = np.var([weights @ samples.means for samples in runs], ddof=1)
    claimed = np.mean([linear_variance(samples, weights).monte_carlo for samples in runs])
    assert claimed == pytest.approx(seen, rel=0.35)


def test_one_unit_has_no_variance_and_bad_weights_are_refused():
    X, y, _ = clusters(1, 0.0)
    groups = np.repeat([0, 1, 2], 50)
    samples = ooc.sample_losses(
        Ridge(),
        X,
        y,
        train=range(100),
        validation=range(100, 150),
        groups=groups,
        n_fits=40,
        injected=[0, 1],
        random_state=0,
    )
    variance = linear_variance(samples, [1, 0])
    assert np.isnan(variance.validation)
    assert np.isnan(variance.data)
    assert variance.train_influence.shape == (2,)
    with pytest.raises(InputError, match="weights must have one value for each of the 2 levels, got 3"):
        linear_variance(samples, [1, 2, 3])

"""The variance that an audit claims for its corrected loss, against the variance over data sets that are drawn anew.

A share of T̂ are records of V̂'s clusters under the names of T̂'s, as after errors of record linkage. Where V̂'s clusters
are drawn anew, so are these: :mod:`outofcluster.errormodels.pooled` says why that matters.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import outofcluster as ooc
from outofcluster.inference.intervals import Uncertainty, uncertainty

pytestmark = pytest.mark.slow

K, SIZE, RATE = 60, 4, 0.1
ROWS, CLUSTER = np.arange(K * SIZE), np.repeat(np.arange(K), SIZE)
TRAIN, VALIDATION = slice(None, K), slice(K, None)


class Clusters:
    """Clusters with slopes and levels of their own."""

    def __init__(self, rng, shift):
        self.rng, self.slopes = rng, 1 + 0.3 * rng.standard_normal((K, 3))
        self.levels = shift + 0.7 * rng.standard_normal(K)

    def records(self, cluster):
        X = self.rng.standard_normal((len(cluster), 3))
        noise = self.rng.standard_normal(len(cluster))
        return X, (X * self.slopes[cluster]).sum(axis=1) + self.levels[cluster] + noise


def audited(train_seed, validation_seed, *, n_fits=600, random_state=0):
    rng = np.random.default_rng([validation_seed, 2])
    X, y = Clusters(np.random.default_rng([train_seed, 1]), 0.0).records(CLUSTER)
    held_out = Clusters(rng, 1.0)
    leaked = rng.choice(ROWS, round(RATE * len(ROWS)), replace=False)
    X[leaked], y[leaked] = held_out.records(rng.integers(K, size=len(leaked)))
    held_out_X, held_out_y = held_out.records(CLUSTER)
    return ooc.audit(
        Ridge(), np.vstack([X, held_out_X]), np.concatenate([y, held_out_y]),
        groups=np.concatenate([CLUSTER, CLUSTER + K]), cv=[(ROWS, ROWS + len(ROWS))], leakage=RATE,
        error_model="records", curve=ooc.PolynomialCurve(1), units="clusters", n_fits=n_fits, kernel=True,
        random_state=random_state,
    )  # fmt: skip


def claimed(audit):
    """The uncertainty of the corrected loss, and the parts of it that come from T̂'s and from V̂'s clusters."""
    columns, corrected = audit.pooled.columns, audit.pooled.corrected(audit.solution.correction)
    source = uncertainty(columns, corrected)
    noise = [
        uncertainty(columns, replace(corrected, **without)).influence_noise
        for without in ({"weights": {}}, {"training": {}})
    ]
    assert sum(noise) == pytest.approx(source.influence_noise)
    parts = [
        Uncertainty(source.influence[side], own, source.monte_carlo)
        for side, own in zip((TRAIN, VALIDATION), noise, strict=True)
    ]
    return source, *parts


def ratio(groups, part=0):
    """Claimed variance over the variance within groups of audits that share what is not drawn anew."""
    seen, said = [], []
    for audits in groups:
        values = list(audits)
        seen.append(np.var([audit.corrected.value for audit in values], ddof=1))
        sources = [claimed(audit)[part] for audit in values]
        said.append(np.mean([source.data + source.monte_carlo for source in sources]))
    return np.mean(said) / np.mean(seen)


def test_the_variance_is_that_over_new_clusters():
    """The variance of 400 values has a relative standard error of about 8 %."""
    assert 0.85 < ratio([audited(seed, seed, random_state=seed) for seed in range(400)] for _ in range(1)) < 1.25


def test_the_part_of_the_training_clusters_is_that_over_new_ones():
    """Eight times 40 training sides, each time for one validation side: to about 10 %."""
    assert 0.75 < ratio(([audited(100 * group + i, group) for i in range(40)] for group in range(8)), part=1) < 1.3


def test_the_part_of_the_validation_clusters_is_that_over_new_ones():
    assert 0.75 < ratio(([audited(group, 100 * group + i) for i in range(40)] for group in range(8)), part=2) < 1.3


def test_the_monte_carlo_correction_makes_few_fits_as_good_as_many():
    """Without it the variance from few fits is too large by more than a quarter."""
    few, many = ([claimed(audited(s, s, n_fits=n_fits))[0] for s in range(30)] for n_fits in (300, 4000))
    assert all(source.reliable for source in few)
    of_many = np.mean([source.data for source in many])
    assert np.mean([source.data for source in few]) == pytest.approx(of_many, rel=0.1)
    assert np.mean([source.between_units for source in few]) > 1.25 * of_many


def test_the_monte_carlo_variance_is_that_over_seeds():
    """The variance of 400 values has a relative standard error of about 7 %.

    So few fits leave some 15 at a level; levels count by the noise that these show, and the claim is a fifth too small.
    """
    audits = [audited(1, 1, n_fits=300, random_state=seed) for seed in range(400)]
    seen = np.var([audit.corrected.value for audit in audits], ddof=1)
    assert np.mean([claimed(audit)[0].monte_carlo for audit in audits]) == pytest.approx(seen, rel=0.3)


def test_one_held_out_cluster_has_no_variance():
    source = claimed(audited(1, 1))[0]
    assert np.isnan(Uncertainty(source.influence[-1:], 0.0, source.monte_carlo).data)

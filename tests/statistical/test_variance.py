"""The variance that an audit claims for its corrected loss, against the variance over data sets that are drawn anew.

A share of T̂ are records of V̂'s clusters under the names of T̂'s, as after errors of record linkage. Where V̂'s clusters
are drawn anew, so are these: :mod:`outofcluster.errormodels.pooled` says why that matters.
"""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import outofcluster as ooc
from outofcluster.inference.intervals import Uncertainty

pytestmark = pytest.mark.slow

K, SIZE, RATE = 60, 4, 0.1
ROWS, CLUSTER = np.arange(K * SIZE), np.repeat(np.arange(K), SIZE)


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
    """The uncertainty of the corrected loss."""
    return audit.solution.uncertainty


def test_the_variance_is_that_over_new_clusters():
    """The variance of 400 values has a relative standard error of about 8 %; training counts by a constant."""
    audits = [audited(seed, seed, random_state=seed) for seed in range(400)]
    seen = np.var([audit.corrected.value for audit in audits], ddof=1)
    said = np.mean([claimed(audit).data + claimed(audit).monte_carlo for audit in audits])
    assert 0.75 < said / seen < 1.4


def test_few_fits_claim_what_many_do():
    """No part of the variance is noise of the fits, so that the interval hardly depends on their number."""
    few, many = ([claimed(audited(s, s, n_fits=n_fits)) for s in range(30)] for n_fits in (120, 4000))
    assert np.mean([source.data for source in few]) == pytest.approx(np.mean([source.data for source in many]), rel=0.1)


def test_the_monte_carlo_variance_is_that_over_seeds():
    """The variance of 400 values has a relative standard error of about 7 %.

    So few fits leave some 15 at a level; levels count by the noise that these show, which the claim takes as known.
    """
    audits = [audited(1, 1, n_fits=300, random_state=seed) for seed in range(400)]
    seen = np.var([audit.corrected.value for audit in audits], ddof=1)
    assert np.mean([claimed(audit).monte_carlo for audit in audits]) == pytest.approx(seen, rel=0.3)


def test_the_naive_interval_does_not_depend_on_the_seed():
    widths = [np.ptp(audited(1, 1, n_fits=60, random_state=seed).naive.interval) for seed in range(5)]
    assert np.ptp(widths) == 0


def test_one_held_out_cluster_has_no_variance():
    source = claimed(audited(1, 1))
    assert np.isnan(Uncertainty(source.influence[-1:], source.monte_carlo).data)

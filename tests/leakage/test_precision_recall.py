"""Rates from pairwise precision and recall: by hand, against audited records, and at the edges of floats."""

import numpy as np
import pytest

from outofcluster._base.exceptions import InputError
from outofcluster.leakage.rate import Leakage

SIDES = ["train", "validation"]


def test_precision_and_recall():
    # 1000 links, 900 of them true, which is 3/4 of all true pairs: 300 missed.
    counts = {"n_links": 1000, "n_records": 3000, "validation_share": 0.2}
    p0 = Leakage.from_precision_recall(0.9, 0.75, **counts).train
    assert (p0.rate, p0.std) == (pytest.approx(2 * 0.2 * 300 / 3000), None)
    rho0 = Leakage.from_precision_recall(0.9, 0.75, **counts, mates=2, of="validation")
    assert rho0.rate == pytest.approx(2 * 0.8 * 300 / 3000 / 2)
    assert Leakage.from_precision_recall(0.9, 1.0, **counts).rate == 0
    both = Leakage.from_precision_recall(0.9, 0.75, **counts, precision_std=0.01, recall_std=0.02).train

    def rate(precision, recall):
        return Leakage.from_precision_recall(precision, recall, **counts).train.rate

    by_precision = (rate(0.9001, 0.75) - rate(0.8999, 0.75)) / 0.0002 * 0.01
    by_recall = (rate(0.9, 0.7501) - rate(0.9, 0.7499)) / 0.0002 * 0.02
    assert both.std == pytest.approx(np.hypot(by_precision, by_recall), rel=1e-5)
    alone = Leakage.from_precision_recall(0.9, 0.75, **counts, recall_std=0.02).train
    assert alone.std == pytest.approx(abs(by_recall), rel=1e-5)


@pytest.mark.parametrize("of", SIDES)
def test_precision_and_recall_agree_with_the_audit_of_clusters_cut_in_two(of):
    """Pairs of records, some cut: one mate each, so the formula is exact."""
    entity = np.repeat(np.arange(500), 2)
    groups = np.where((np.arange(1000) % 2 == 1) & (entity < 60), entity + 500, entity)
    audit = Leakage.from_true_groups(entity, groups, of=of)
    pairs = Leakage.from_precision_recall(1, 440 / 500, n_links=440, n_records=1000, validation_share=0.2, of=of)
    assert pairs.rate == pytest.approx(audit.rate)


@pytest.mark.parametrize("options", [{"n_links": 0}, {"recall": 1 - 1e-16}])
def test_precisions_and_recalls_at_the_edge_of_floats(options):
    tiny = {"precision": 1e-300, "recall": 1e-300, "validation_share": 0.5, "groups": [0, 0, 1, 1], "recall_std": 0.1}
    leakage = Leakage.from_precision_recall(**tiny | options)
    assert 0 <= leakage.rate < 1
    assert np.isfinite(leakage.std)


def test_a_standard_error_beyond_all_floats_is_refused():
    options = {"validation_share": 0.5, "n_links": 1, "n_records": 10**6, "recall_std": 1e20}
    with pytest.raises(InputError, match="recall must leave a rate whose standard error is finite, got 1e-300 with"):
        Leakage.from_precision_recall(1e-300, 1e-300, **options)


@pytest.mark.parametrize(("count", "size"), [(200, 10), (400, 4), (800, 2)])
def test_precision_and_recall_with_the_mates_of_groups(count, size):
    rng = np.random.default_rng(3)
    entity = np.repeat(np.arange(count), size)
    groups = np.where(rng.random(count * size) < 0.06, count + np.arange(count * size), entity)
    truth = Leakage.from_true_groups(entity, groups)
    sizes = np.bincount(groups)
    links = (sizes * (sizes - 1) / 2).sum()
    recall = links / (count * size * (size - 1) / 2)
    options = {"validation_share": 0.2, "recall_std": 0.01}
    by_groups = Leakage.from_precision_recall(1, recall, groups=groups, **options)
    for of in SIDES:
        assert getattr(by_groups, of).rate == pytest.approx(getattr(truth, of).rate, rel=0.06)
    if size > 2:
        bound = Leakage.from_precision_recall(1, recall, n_links=links, n_records=len(groups), of="train", **options)
        assert bound.rate > 1.2 * by_groups.train.rate

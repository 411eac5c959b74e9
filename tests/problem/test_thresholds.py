"""Clusterings by linkage threshold: how thresholds are read, what is nested, and when a cluster is a giant."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from outofcluster._base.exceptions import InputError
from outofcluster.problem.folds import ClusterSizes
from outofcluster.problem.problem import read_clusterings

LOOSE, TIGHT = [0, 0, 0, 1, 1], ["a", "a", "b", "c", "d"]


@pytest.mark.parametrize(
    "given",
    [
        {0.9: TIGHT, 0.5: LOOSE},
        {"0.9": TIGHT, "cluster_p_0_5": LOOSE},
        pd.DataFrame({0.9: TIGHT, 0.5: LOOSE}),
        pd.DataFrame({"cluster_p_0_5": LOOSE, "cluster_p_0_9": TIGHT}),
        pl.DataFrame({"0.5": LOOSE, "0.9": TIGHT}),
    ],
)
def test_thresholds_are_read_and_put_in_order(given):
    read = read_clusterings(given, 5)
    assert list(read) == [0.5, 0.9]
    assert read[0.5].tolist() == LOOSE
    assert read[0.9].tolist() == TIGHT


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([LOOSE, TIGHT], "groups_by_threshold must be a dict of groups by threshold, or a data frame .* got list"),
        ({}, "groups_by_threshold must be a dict .* got none"),
        ({"unique_id": LOOSE}, "groups_by_threshold must have thresholds as keys, .* got 'unique_id'"),
        ({True: LOOSE}, "groups_by_threshold must have thresholds as keys, .* got True"),
        ({np.nan: LOOSE}, "groups_by_threshold must have thresholds as keys, .* got nan"),
        ({0.5: LOOSE, "0.5": TIGHT}, "groups_by_threshold must hold every threshold once, got 0.5 more than once"),
        (
            {0.5: LOOSE[:4]},
            r"groups_by_threshold\[0.5\] must hold one label for each of the 5 records, got shape \(4,\)",
        ),
        ({0.5: [0, 0, None, 1, 1]}, r"groups_by_threshold\[0.5\] must not have missing labels"),
        (
            {0.5: TIGHT, 0.9: LOOSE},
            "groups_by_threshold must be nested, but records 0 and 2 are in one cluster at threshold 0.9 and in two "
            "at 0.5",
        ),
    ],
)
def test_bad_clusterings_are_refused_in_one_sentence(given, message):
    with pytest.raises(InputError, match=message):
        read_clusterings(given, 5)


def test_nesting_is_that_of_every_pair_of_records():
    """Against all pairs: together at the higher threshold means together at the lower one."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        loose = rng.integers(0, 3, 7)
        tight = np.where(rng.random() < 0.5, 10 * loose + rng.integers(0, 2, 7), rng.integers(0, 5, 7))
        together = tight[:, None] == tight
        nested = bool((loose[:, None] == loose)[together].all())
        seen.add(nested)
        if nested:
            read_clusterings({0.5: loose, 0.9: tight}, 7)
        else:
            with pytest.raises(InputError, match="must be nested"):
                read_clusterings({0.5: loose, 0.9: tight}, 7)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("sizes", "giant"),
    [
        ([771, *[4] * 7, 3], True),
        ([4] * 200, False),
        ([160, *[4] * 160], True),
        ([100, *[4] * 160], False),
        ([40, 20, 20, 10, 10], False),
        ([50, 50], True),
    ],
)
def test_a_giant_holds_half_of_the_records_or_a_fold_of_them_among_small_clusters(sizes, giant):
    observed = ClusterSizes.of(np.repeat(np.arange(len(sizes)), sizes))
    assert observed == ClusterSizes(sum(sizes), len(sizes), max(sizes))
    assert observed.is_giant is giant
    assert observed.share == max(sizes) / sum(sizes)

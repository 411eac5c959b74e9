"""The paragraphs for a paper: every number is the audit's, and what was not done is not said."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_prose import long_sentences
from outofcluster._base.text import percentage

PATIENTS = ooc.datasets.make_patients(random_state=0)


@pytest.fixture(scope="module")
def fragments():
    return ooc.audit(
        KNeighborsClassifier(3),
        PATIENTS.data,
        PATIENTS.target,
        groups=PATIENTS.groups,
        leakage=ooc.Leakage(0.12, std=0.02, of="validation"),
        n_fits=60,
        unmix=False,
        random_state=0,
    )


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    ward = np.repeat(np.arange(6), 50)
    X = 2 * rng.standard_normal((6, 3))[ward] + rng.standard_normal((300, 3))
    split = ooc.simulate_leakage(ward, [4, 5], rate=0.1, random_state=0)
    return ooc.audit(
        Ridge(),
        X,
        X[:, 0] + rng.standard_normal(300),
        groups=split.groups,
        cv=[(split.train, split.validation)],
        leakage=0.1,
        error_model="records",
        n_fits=200,
        random_state=0,
    )


def test_methods_name_records_clusters_folds_fits_the_rate_and_the_model(fragments):
    text = fragments.methods_text()
    clusters = len(np.unique(PATIENTS.groups))
    assert f"1,000 records of {clusters} clusters were held out over 5 folds" in text
    assert "The model was 3 nearest neighbours, in code KNeighborsClassifier(n_neighbors=3)." in text
    assert "Performance was measured by the error rate." in text
    assert f"It fitted {fragments._brief.fits} further models" in text
    assert "share of held-out records whose cluster also has records in training, was 12.0 %" in text
    assert "with a standard error of 2 percentage points" in text
    assert "are about new clusters of the population, and take clusters as the independent units" in text


def test_results_are_those_of_the_audit_with_intervals(fragments):
    text = fragments.methods_text()
    for estimate in (fragments.naive, fragments.corrected, fragments.optimism):
        low, high = estimate.interval
        assert f"{estimate.value:.3f} (95 % CI {low:.3f} to {high:.3f})" in text
    assert fragments.test.sentence in text
    assert "90 % CI" in fragments.with_confidence(0.9).methods_text()


def test_three_paragraphs_in_their_order_and_in_plain_sentences(fragments, records):
    for result in (fragments, records):
        text = result.methods_text()
        assert [part.partition(".")[0] for part in text.split("\n\n")] == ["Methods", "Results", "Limitations"]
        assert not long_sentences(text)


def test_limitations_are_the_findings_that_warn_and_a_rate_without_uncertainty(records):
    limits = records.methods_text().split("\n\n")[2]
    assert "The interval does not include the uncertainty of the leakage rate." in limits
    assert "too few clusters for an interval on new clusters" in limits
    for finding in records.findings:
        assert (finding.message in limits) == (finding.severity != "info")


def test_single_records_and_one_split(records):
    text = records.methods_text()
    assert "were held out over one split" in text
    assert "single records of a held-out cluster can be among the training records" in text
    assert "without the records that look leaked" in text
    assert "take records as the independent units" in text


@pytest.mark.slow
def test_without_a_rate_a_range_of_rates_is_told():
    result = ooc.audit(
        LogisticRegression(),
        PATIENTS.data,
        PATIENTS.target,
        groups=PATIENTS.groups,
        n_fits=60,
        scoring=["roc_auc", "accuracy"],
        leakage=None,
        random_state=0,
    )
    text = result.methods_text()
    assert "Performance was measured by the AUC and accuracy." in text
    assert "The leakage rate is not known" in text
    assert f"{result.at_leakage(0.2).corrected.value:.3f} at 20 %" in text
    assert "without the clusters" not in text


@pytest.fixture(scope="module")
def without_rate():
    return ooc.audit(KNeighborsClassifier(3), PATIENTS.data, PATIENTS.target, groups=PATIENTS.groups, random_state=0)


def test_without_a_rate_it_says_what_was_left_out(without_rate):
    text, seen = without_rate.methods_text(), without_rate.summary.seen
    assert "No leakage rate was assumed." in text
    assert (
        f"named {seen.pairs} pairs of a training and a held-out cluster that are likelier than not one entity" in text
    )
    assert "The model was fitted again without these training clusters, and without as many others." in text
    assert f"would have named {100 * seen.caught:.2g} % of pieces that were cut off on purpose" in text
    assert "leakage rate, the share" not in text
    assert "curve" not in text
    assert "uncertainty of the leakage rate" not in text
    assert not long_sentences(text)


def test_look_ups_say_how_many_and_by_which_design(without_rate):
    entity = dict(zip(PATIENTS.groups.tolist(), PATIENTS.entities.tolist(), strict=True))
    listed = without_rate.review_list(30, random_state=0)
    mates = [[o for o in entity if entity[o] == entity[c] and o != c] for c in map(int, listed["cluster"])]
    listed["same_as"] = ["; ".join(map(str, each)) or "none" for each in mates]
    options = {"groups": PATIENTS.groups, "random_state": 0}
    reviewed = options | {"reviewed": listed, "reviewer_error": 0.02}
    result = ooc.audit(KNeighborsClassifier(3), PATIENTS.data, PATIENTS.target, **reviewed)
    text = result.methods_text()
    assert "For 30 clusters, drawn with known, unequal probabilities, it was looked up" in text
    assert f"{sum(map(bool, mates))} had such mates" in text
    assert "allows for 2 % wrong answers" in text
    weights = [percentage(source.weight, 2) for source in result.summary.sources]
    assert f"weighted by their precision (seen {weights[0]} and looked up {weights[1]})" in text
    assert not long_sentences(text)
    sampled = np.isin(PATIENTS.entities, np.arange(60))
    rate = ooc.Leakage.from_true_groups(PATIENTS.entities[sampled], PATIENTS.groups[sampled], cv=5)
    even = ooc.audit(KNeighborsClassifier(3), PATIENTS.data, PATIENTS.target, leakage=rate, **options).methods_text()
    assert "drawn with equal probabilities" in even
    assert "with a standard error of" in even

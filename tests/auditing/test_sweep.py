"""One audit per linkage threshold: the same numbers as audits alone, advice, and what is refused before any fit."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster._base.exceptions import FitError, InputError

rng = np.random.default_rng(0)
entity = np.repeat(np.arange(60), 4)
level = rng.standard_normal((60, 3))
X = level[entity] + 0.2 * rng.standard_normal((240, 3))
y = (level[:, 0] + rng.standard_normal(60) > 0).astype(int)[entity]
tight = np.where(rng.random(240) < 0.15, 60 + np.arange(240), entity)
giant = np.where(entity < 58, 0, entity)
LINKED = {0.9: tight, 0.5: entity}
RATES = {0.5: 0.0, 0.9: 0.3}
OPTIONS = {"leakage": RATES, "n_fits": 36, "cv": 3, "unmix": False, "random_state": 0}


def swept(groups_by_threshold=None, **changes):
    linked = LINKED if groups_by_threshold is None else groups_by_threshold
    return ooc.sweep(KNeighborsClassifier(1), X, y, linked, **OPTIONS | changes)


@pytest.fixture(scope="module")
def result():
    return swept()


def test_every_threshold_gets_the_audit_it_would_get_alone(result):
    assert result.thresholds == tuple(result.audits) == (0.5, 0.9)
    alone = ooc.audit(KNeighborsClassifier(1), X, y, groups=tight, **OPTIONS | {"leakage": 0.3})
    assert result.audits[0.9].corrected == alone.corrected
    assert result.naive[0.9] == alone.naive
    assert result.optimism[0.9] == alone.optimism
    assert result.corrected[0.5].value == result.naive[0.5].value
    assert result.leakage == RATES
    assert {key: sizes.n_clusters for key, sizes in result.sizes.items()} == {0.5: 60, 0.9: len(np.unique(tight))}
    assert result.largest_cluster == {0.5: 4 / 240, 0.9: 4 / 240}


def test_the_table_has_one_row_per_threshold(result):
    frame = result.to_frame()
    assert frame["threshold"].tolist() == [0.5, 0.9]
    assert frame["leakage"].tolist() == [0.0, 0.3]
    assert frame["corrected"].tolist() == [estimate.value for estimate in result.corrected.values()]
    assert frame["optimism_high"].tolist()[1] == result.optimism[0.9].interval[1]
    assert frame["scored"].tolist() == [240, 240]
    assert frame["problem"].tolist() == ["", ""]


def test_a_data_frame_and_one_rate_for_all_do_as_well(result):
    frame = pd.DataFrame({"cluster_p_0_5": entity, "cluster_p_0_9": tight})
    again = swept(frame, leakage=0.3)
    assert again.corrected[0.9] == result.corrected[0.9]
    assert again.leakage == {0.5: 0.3, 0.9: 0.3}
    nothing = swept({0.5: entity}, leakage=None)
    assert nothing.corrected == nothing.optimism == {}
    assert nothing.to_frame()["leakage"].isna().all()
    assert "not given" in str(nothing)


def test_it_says_how_to_group(result):
    said = str(result).splitlines()
    assert said[0] == "Error rate by linkage threshold, smaller is better"
    assert [line.split()[0] for line in said[1:4]] == ["threshold", "0.5", "0.9"]
    assert str(result.naive[0.9]) in said[3]
    assert result.advice in said
    assert "more loosely than the linkage product" in result.advice
    assert "at 0.5, the lowest of these thresholds, there is none yet." in result.advice
    shown = result._repr_html_()
    assert result.advice in shown
    assert "<table>" in shown


def test_plain_data(result):
    data = json.loads(result.to_json())
    assert data == result.to_dict()
    assert data["thresholds"][1]["optimism"] == result.optimism[0.9].value
    assert data["audits"]["0.9"]["corrected"] == result.corrected[0.9].to_dict()
    assert data["advice"] == result.advice


@pytest.mark.slow
def test_a_threshold_that_cannot_be_audited_does_not_lose_the_others():
    everything = np.zeros(240, dtype=int)
    found = swept(LINKED | {0.1: everything, 0.3: giant}, leakage=0.1, error_model="fragments")
    assert found.thresholds == (0.1, 0.3, 0.5, 0.9)
    assert tuple(found.audits) == (0.5, 0.9)
    assert "at least two clusters" in found.left_out[0.1]
    assert found.giants == (0.1, 0.3)
    assert found.advice.endswith("at 0.3 one cluster holds 96.7 % of the records, so that 0.5 is the loosest of these "
                                 "thresholds to use.")  # fmt: skip
    assert "0.1 was left out: groups must hold at least two clusters" in str(found)
    frame = found.to_frame()
    assert frame["naive"].isna().tolist() == [True, True, False, False]
    assert frame["largest_cluster"].tolist()[:2] == [1.0, 58 / 60]
    assert all(frame["problem"][:2] != "")
    json.loads(found.to_json())


def test_where_every_threshold_has_a_giant():
    found = ooc.sweep(KNeighborsClassifier(1), X, y, {0.5: giant}, **OPTIONS | {"leakage": None, "cv": 2})
    assert found.advice.endswith("even at 0.5 one cluster holds 96.7 % of the records, so that a higher threshold is "
                                 "needed.")  # fmt: skip


def test_all_thresholds_have_one_error_model():
    """Alone, the loose threshold would be taken for few large clusters, whose rate is a share of other records."""
    alone = ooc.sweep(KNeighborsClassifier(1), X, y, {0.3: entity // 10}, **OPTIONS | {"leakage": 0.1})
    assert alone.audits[0.3].error_model == "records"
    both = swept({0.3: entity // 10, 0.9: tight}, leakage=0.1)
    assert both.to_frame()["error_model"].tolist() == ["fragments", "fragments"]


def test_a_checkpoint_has_one_name_per_threshold(result, tmp_path):
    kept = swept(checkpoint=tmp_path / "kept")
    assert kept.corrected == result.corrected
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"kept.threshold0.5.baselines", "kept.threshold0.9.baselines"}


def test_folds_of_a_splitter_are_those_of_the_audits_even_if_it_draws_them():
    found = swept({0.5: entity}, leakage=0.1, cv=GroupKFold(3, shuffle=True, random_state=np.random.RandomState(0)))
    assert len(found.audits[0.5].samples.folds) == 3


@pytest.mark.slow
def test_several_metrics():
    found = swept(scoring=["accuracy", "roc_auc"], leakage=0.1)
    assert list(found.metrics) == ["accuracy", "roc_auc"]
    assert found.metrics["roc_auc"].metric.greater_is_better
    assert set(found.to_dict()["metrics"]) == {"roc_auc"}
    assert str(found).startswith("Accuracy by linkage threshold, greater is better")


class NeverFits(ClassifierMixin, BaseEstimator):
    """Fails if anything is fitted."""

    def fit(self, X, y):
        raise AssertionError("a model was fitted")

    def predict(self, X):
        raise AssertionError("a model was asked")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"leakage": {0.5: 0.0}}, "leakage must have a rate for every threshold, got none for 0.9"),
        ({"leakage": RATES | {0.7: 0.1}}, "leakage must have rates for the thresholds 0.5, 0.9 only, got one for 0.7"),
        ({"leakage": {0.5: 0.0, 0.9: 1.2}}, r"rate must lie in .* got 1.2 \(at threshold 0.9\)"),
        ({"leakage": {0.5: 0.0, 0.9: 0.95}}, r"leakage must be at most 0.9, .* got 0.95 \(at threshold 0.9\)"),
        ({"leakage": {0.5: 0.0, 0.9: ooc.Leakage(0.1)}, "error_model": "fragments"}, r"share .* \(at threshold 0.9\)"),
        ({"groups_by_threshold": {0.5: tight, 0.9: entity}}, "must be nested, but records .* at threshold 0.9"),
        ({"groups_by_threshold": {0.5: entity[:9], 0.9: tight[:9]}}, "one label for each of the 240 records"),
        ({"cv": [(np.arange(200), np.arange(198, 240))]}, r"both sides .* \(at threshold 0.5\)"),
        ({"n_fits": 3}, "n_fits must be a whole number at least"),
        ({"checkpoint": 3}, "checkpoint must be the path of a file, got 3"),
    ],
)
def test_bad_input_before_any_fit(changes, message):
    changes = dict(changes)
    linked = changes.pop("groups_by_threshold", LINKED)
    with pytest.raises(InputError, match=message):
        ooc.sweep(NeverFits(), X, y, linked, **OPTIONS | changes)


def test_a_model_that_fails_everywhere_is_an_error():
    class Broken(NeverFits):
        def fit(self, X, y):
            raise ValueError("no")

        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(FitError, match="No threshold could be audited; the first: "):
        ooc.sweep(Broken(), X, y, LINKED, **OPTIONS)

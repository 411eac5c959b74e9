"""Suspects as frames: sorted, named, and complete."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.datasets import make_patients
from outofcluster.errormodels import records
from outofcluster.errormodels.pieces import Pieces
from outofcluster.evidence.entities import EntitySuspects, entity_suspects, match_clusters
from outofcluster.evidence.laws import AssumedCuts, Cuts
from outofcluster.problem.folds import Fold, make_folds
from outofcluster.problem.problem import Task


def suspects_of(by_fold, names):
    """The table of suspects of folds, as an audit gives it."""
    folds = [SimpleNamespace(index=index, entities=entities) for index, entities in by_fold.items()]
    return Pieces().suspects(SimpleNamespace(folds=folds, cluster_names=names), np.zeros(len(folds)))


def test_the_frame_of_split_entities_lists_every_training_cluster_of_every_fold():
    patients = make_patients(80, record_noise=0.1, random_state=0)
    folds = make_folds(patients.data, None, patients.groups, 3)
    cuts = Cuts.draw(patients.groups, 2, AssumedCuts(), np.random.default_rng(0))
    pairs = match_clusters(patients.data, patients.target, patients.groups, cuts=cuts, seed=0)
    by_fold = {fold.index: entity_suspects(pairs, fold, patients.groups) for fold in folds}
    names = [f"patient {i}" for i in range(patients.groups.max() + 1)]
    frame = suspects_of(by_fold, names)
    assert frame.columns.tolist() == ["fold", "cluster", "probability", "resembles", "records"]
    assert (np.diff(frame["probability"]) <= 0).all()
    for fold in folds:
        own = frame[frame["fold"] == fold.index]
        assert own["records"].sum() == len(fold.train)
        assert set(own["cluster"]) == {names[code] for code in patients.groups[fold.train]}
    entity = {names[group]: number for group, number in zip(patients.groups, patients.entities, strict=True)}
    first = frame.head(10)
    assert sum(entity[a] == entity[b] for a, b in zip(first["cluster"], first["resembles"], strict=True)) >= 9


def test_a_cluster_without_a_candidate_resembles_nobody():
    none = np.zeros(0, dtype=np.int64)
    unknown = EntitySuspects(none, none, np.zeros(0), none, 0.6, False)
    one = EntitySuspects(np.array([0]), np.array([-1]), np.array([0.0]), np.array([3]), 0.9, True)
    assert suspects_of({0: unknown, 1: one}, ["a", "b"]).loc[0].tolist() == [1, "a", 0.0, "", 3]
    with pytest.raises(ooc.InputError, match=r"suspects\(\) needs features that tell entities apart"):
        suspects_of({0: unknown}, ["a"])


def test_the_nearest_held_out_record_names_the_cluster():
    features = np.array([[0.0, 1.0], [5.0, 1.0], [0.2, 1.0], [4.0, 1.0]])
    fold = Fold(0, np.array([0, 1]), np.array([2, 3]))

    def nearest(features):
        task = Task.check(Ridge(), features, np.arange(4.0), groups=np.arange(4))
        return records._nearest_clusters(task, fold).tolist()

    assert nearest(features) == [2, 3]
    assert nearest(pd.DataFrame(features)) == [2, 3]
    assert nearest(np.array([["a"], ["b"], ["c"], ["d"]])) == [-1, -1]
    assert nearest(np.ones((4, 1))) == [-1, -1]


def test_of_many_held_out_records_some_are_compared(monkeypatch):
    monkeypatch.setattr(records, "_MOST_COMPARED", 10)
    monkeypatch.setattr(records, "_MOST_FOR_SCALE", 30)
    features = np.repeat([[0.0], [10.0]], 50, axis=0)
    fold = Fold(0, np.array([0, 99]), np.arange(1, 99))
    task = Task.check(Ridge(), features, np.zeros(100), groups=np.repeat([4, 7], 50))
    assert records._nearest_clusters(task, fold).tolist() == [0, 1]


def test_an_audit_of_fragments_names_the_pieces(tmp_path):
    """Of the pairs that it names first, most are one patient; the file gives them back."""
    patients = ooc.datasets.make_patients(random_state=0, record_noise=0.1)
    result = ooc.audit(
        KNeighborsClassifier(3), patients.data, patients.target, groups=patients.groups, leakage=0.1, n_fits=60,
        error_model="fragments", random_state=0,
    )  # fmt: skip
    frame = result.suspects()
    assert frame.columns.tolist() == ["fold", "cluster", "probability", "resembles", "records"]
    entity = {str(group): own for group, own in zip(patients.groups, patients.entities, strict=True)}
    sure = frame[frame["probability"] > 0.9]
    assert len(sure) > 10
    same = [entity[one] == entity[other] for one, other in zip(sure["cluster"], sure["resembles"], strict=True)]
    assert np.mean(same) > 0.8
    result.save(tmp_path / "audit")
    assert ooc.Audit.load(tmp_path / "audit").suspects().equals(frame)
    with pytest.raises(ooc.InputError, match=r"suspects\(\) needs"):
        ooc.audit(
            KNeighborsClassifier(3), patients.data, patients.target, groups=patients.groups, unmix=False, n_fits=60,
            error_model="fragments", random_state=0,
        ).suspects()  # fmt: skip

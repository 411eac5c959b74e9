"""Very large data are audited by parts of them; here the bounds are lowered, so that small data count as large."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut
from sklearn.neighbors import KNeighborsRegressor

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.datasets import make_patients
from outofcluster.evidence import entities
from outofcluster.evidence.entities import match_clusters
from outofcluster.evidence.laws import AssumedCuts, Cuts
from outofcluster.evidence.likely import PairList, likely_pieces
from outofcluster.problem import folds
from outofcluster.problem.folds import Fold, make_folds, renumbered, some_records
from outofcluster.problem.problem import Task
from outofcluster.sampling import effect, run


def patients(n=300):
    made = make_patients(n, record_noise=0.1, random_state=0)
    return made.data, made.target, made.groups


def test_leaving_one_group_out_gives_the_folds_of_scikit_learn():
    groups = np.random.default_rng(0).choice(["b", "a", "d", "c"], 50)
    ours = make_folds(np.zeros((50, 1)), None, groups, LeaveOneGroupOut())
    for fold, (train, test) in zip(ours, LeaveOneGroupOut().split(np.zeros(50), None, groups), strict=True):
        np.testing.assert_array_equal(fold.train, train)
        np.testing.assert_array_equal(fold.validation, test)
        assert fold.n_train == len(train)


def test_a_fold_without_some_records_trains_on_the_others():
    left_out = np.arange(6) == 2
    for fold in (Fold(0, np.array([5, 2, 0, 1]), np.array([3, 4])), Fold(0, 6, np.array([3, 4]))):
        less = fold.without(left_out)
        assert sorted(less.train) == [0, 1, 5]
        assert less.n_train == 3
    assert fold.shared("sum", lambda: fold.train.sum()) == fold.shared("sum", lambda: -1) == 8


def test_codes_are_numbered_again_as_numpy_does_it():
    codes = np.random.default_rng(0).integers(0, 40, 60)
    for ours, theirs in zip(renumbered(codes), np.unique(codes, return_inverse=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_part_is_made_of_whole_clusters_where_there_are_many(monkeypatch):
    monkeypatch.setattr(folds, "_WHOLE_CLUSTERS", 10)
    codes, rng = np.repeat(np.arange(100), 5), np.random.default_rng(0)
    rows = some_records(np.arange(500), codes, 120, rng)
    assert len(rows) == 120
    assert set(np.bincount(codes[rows])) <= {0, 5}
    assert len(some_records(np.arange(500), codes // 50, 120, rng)) == 120
    np.testing.assert_array_equal(some_records(np.arange(500), codes, 500, rng), np.arange(500))


def test_the_test_for_a_cluster_effect_finds_it_in_a_part(monkeypatch):
    X, y, groups = patients()
    monkeypatch.setattr(effect, "_MOST_RECORDS", 400)
    monkeypatch.setattr(folds, "_WHOLE_CLUSTERS", 20)
    test = ooc.leakage_test(KNeighborsRegressor(3), X, y.astype(float), groups=groups, random_state=0)
    assert test.rejected
    assert test.n_units < 150


@pytest.mark.slow
def test_pieces_are_found_in_a_part_of_very_many_clusters(monkeypatch):
    made = make_patients(600, record_noise=0.1, random_state=0)
    cuts = Cuts.draw(made.groups, 2, AssumedCuts(), np.random.default_rng(0))
    whole = match_clusters(made.data, made.target, made.groups, cuts=cuts, seed=0)
    monkeypatch.setattr(entities, "_MOST_CLUSTERS", 300)
    part = match_clusters(made.data, made.target, made.groups, cuts=cuts, seed=0)
    assert len(np.unique([part.left, part.right])) <= 300
    np.testing.assert_array_equal(part.sizes, whole.sizes)
    fold = make_folds(made.data, None, made.groups)[0]
    pieces = likely_pieces(PairList.of(part, None), fold, made.groups)
    entity = dict(zip(made.groups, made.entities, strict=True))
    held_out = {entity[cluster] for cluster in pieces.held_out_clusters}
    right = [entity[cluster] in held_out for cluster in pieces.train_clusters]
    assert len(right) > 0
    assert np.mean(right) > 0.8


def test_more_folds_than_fit_into_memory_are_refused_with_what_they_would_take():
    X, groups = np.zeros((100_000, 1)), np.repeat(np.arange(50_000), 2)
    with pytest.raises(InputError, match=r"^cv must give fewer folds for 100000 records, got 50000, .* some 80 GB"):
        ooc.audit(Ridge(), X, X[:, 0], groups=groups, cv=LeaveOneGroupOut())


def test_no_copy_in_double_precision_is_made_where_no_kernel_is_used(monkeypatch):
    monkeypatch.setattr(run, "_MOST_COMPILED", 100)
    monkeypatch.setattr(Task, "dense", property(lambda task: pytest.fail("a copy was made")))
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((200, 4)).astype(np.float32), np.repeat(np.arange(20), 10)
    options = {"groups": groups, "cv": GroupKFold(2), "n_fits": 60, "error_model": "records", "random_state": 0}
    assert ooc.audit(Ridge(), X, X[:, 0], **options).naive.value >= 0


def test_only_drawn_records_of_memory_mapped_data_are_read(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    split = {"train": np.arange(200), "validation": np.arange(200, 300), "n_fits": 20, "random_state": 0}
    here, there = (ooc.sample_losses(Ridge(), data, X[:, 0], kernel=False, **split) for data in (X, mapped))
    for one, other in zip(here.losses, there.losses, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("model", [Ridge(), KNeighborsRegressor(3)], ids=str)
def test_a_file_that_is_mapped_into_memory_is_audited_as_an_array(tmp_path, model):
    X, y, groups = patients(60)
    np.save(tmp_path / "records.npy", X)
    before = (tmp_path / "records.npy").read_bytes()
    mapped = np.load(tmp_path / "records.npy", mmap_mode="r")
    options = dict(groups=groups, leakage=0.1, n_fits=60, random_state=0)
    results = [ooc.audit(model, records, y, **options) for records in (X, mapped)]
    assert results[0].to_dict()["corrected"] == results[1].to_dict()["corrected"]
    assert (tmp_path / "records.npy").read_bytes() == before


@pytest.mark.slow
def test_a_table_in_parquet_becomes_a_mapped_file_piece_by_piece(tmp_path, monkeypatch):
    """The example of the page on clusters, which needs the memory of one piece only."""
    import pandas as pd

    pytest.importorskip("pyarrow")
    X, y, groups = patients(30)
    table = pd.DataFrame(X, columns=[f"x{place}" for place in range(X.shape[1])]).assign(patient=groups, ill=y)
    monkeypatch.chdir(tmp_path)
    table.to_parquet("visits.parquet", row_group_size=20)
    page = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text()
    example = next(part for part in page.split("```python\n")[1:] if "ParquetFile" in part).split("```")[0]
    named = {"model": Ridge(), "ooc": ooc, "np": np}
    exec(example, named)
    np.testing.assert_allclose(np.load("visits.npy"), X, rtol=1e-6)
    assert named["result"].naive.value > 0

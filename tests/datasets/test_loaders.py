"""The paper's data: what the loaders give, checked against the files read another way, and where files are found."""

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from outofcluster import datasets
from outofcluster._base.exceptions import InputError
from outofcluster.datasets import _files, loaders

HOME = os.environ.get("OUTOFCLUSTER_DATA")
needs_data = pytest.mark.skipif(not HOME, reason="OUTOFCLUSTER_DATA does not name the folder of the UCI files")

HEART = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal"]


def refusal(call):
    """The message of an InputError, which must be one sentence."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert ". " not in message
    return message


def column(bunch, name):
    return bunch.data[:, bunch.feature_names.index(name)]


def common_facts(bunch):
    n, d = bunch.data.shape
    assert bunch.data.dtype == float
    assert np.isfinite(bunch.data).all()
    assert bunch.data.flags.c_contiguous
    assert len(bunch.feature_names) == len(set(bunch.feature_names)) == d
    assert bunch.target.shape == bunch.groups.shape == (n,)
    assert set(bunch.target.tolist()) == {0, 1}
    assert len(bunch.target_names) == 2
    assert bunch.groups.dtype.kind == "U"
    assert set(bunch.groups.tolist()) == {*bunch.train_groups, *bunch.validation_groups}
    assert sorted([*bunch.train_rows, *bunch.validation_rows]) == list(range(n))
    assert "CC BY 4.0" in bunch.licence
    assert "archive.ics.uci.edu" in bunch.DESCR
    assert bunch.e0 is None
    assert str(n) in repr(bunch)


# --- the real files ----------------------------------------------------------------------------------------------


@needs_data
def test_heart():
    heart = datasets.load_heart(data_home=HOME)
    common_facts(heart)
    assert heart.train_groups == ("Cleveland", "VA", "Switzerland")
    assert heart.validation_groups == ("Hungary",)
    counts = {
        name: (int((heart.groups == name).sum()), int(heart.target[heart.groups == name].sum()))
        for name in ("Cleveland", "Hungary", "Switzerland", "VA")
    }
    assert counts == {"Cleveland": (303, 139), "Hungary": (262, 99), "Switzerland": (46, 45), "VA": (130, 101)}
    files = [
        Path(HOME) / "heart" / f"processed.{name}.data" for name in ("cleveland", "hungarian", "switzerland", "va")
    ]
    frame = pd.concat([pd.read_csv(file, header=None, names=[*HEART, "num"], na_values="?") for file in files])
    categorical = ["sex", "cp", "restecg", "slope", "thal"]
    frame = frame.drop(columns="ca").dropna(subset=[n for n in frame if n not in [*categorical, "ca"]])
    np.testing.assert_array_equal(heart.target, frame["num"] >= 1)
    for name in ("age", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak"):
        np.testing.assert_array_equal(column(heart, name), frame[name])
    coded = {
        "sex=female": ("sex", 0), "sex=male": ("sex", 1), "cp=typical": ("cp", 1), "cp=atypical": ("cp", 2),
        "cp=non-anginal": ("cp", 3), "cp=asymptomatic": ("cp", 4), "restecg=normal": ("restecg", 0),
        "restecg=abnormal": ("restecg", 1), "restecg=hypertrophy": ("restecg", 2), "restecg=missing": ("restecg", None),
        "slope=up": ("slope", 1), "slope=flat": ("slope", 2), "slope=down": ("slope", 3),
        "slope=missing": ("slope", None), "thal=normal": ("thal", 3), "thal=fixed": ("thal", 6),
        "thal=reversible": ("thal", 7), "thal=missing": ("thal", None),
    }  # fmt: skip
    assert {name for name in heart.feature_names if "=" in name} == set(coded)
    for feature, (name, value) in coded.items():
        expected = frame[name].isna() if value is None else frame[name] == value
        np.testing.assert_array_equal(column(heart, feature), expected, err_msg=feature)
    assert (column(heart, "chol")[heart.groups == "Switzerland"] == 0).all()


@needs_data
def test_census():
    census = datasets.load_census(data_home=HOME)
    common_facts(census)
    counts = dict(zip(*np.unique(census.groups, return_counts=True), strict=True))
    assert counts == {
        **{"United-States": 29_170, "El-Salvador": 106, "Germany": 137, "Mexico": 643, "Philippines": 198},
        **{"Puerto-Rico": 114, "India": 100, "Canada": 121},
    }
    assert (len(census.train_rows), len(census.validation_rows)) == (30_368, 221)
    assert census.target[census.validation_rows].sum() == 79
    unknown = column(census, "occupation=missing")
    assert (unknown[census.train_rows].sum(), unknown[census.validation_rows].sum()) == (1_729, 14)
    assert census.feature_names[:3] == ("age", "education_num", "hours_per_week")

    frame = pd.read_csv(Path(HOME) / "adult" / "adult.data", header=None, skipinitialspace=True)
    frame = frame[frame[13].isin([*census.train_groups, *census.validation_groups])]
    np.testing.assert_array_equal(census.data[:, :3], frame[[0, 4, 12]])
    np.testing.assert_array_equal(census.target, frame[14] == ">50K")
    for name, place in (("race", 8), ("occupation", 6)):
        dummies = pd.get_dummies(frame[place].replace("?", "missing"))
        assert [f"{name}={value}" for value in dummies] == [f for f in census.feature_names if f.startswith(f"{name}=")]
        for value in dummies:
            np.testing.assert_array_equal(column(census, f"{name}={value}"), dummies[value])


@needs_data
def test_parkinson():
    parkinson = datasets.load_parkinson(data_home=HOME)
    common_facts(parkinson)
    assert parkinson.data.shape == (1040, 26)
    assert parkinson.validation_groups == ("1", "5", "9", "13", "17", "21", "25", "29", "33", "37")
    assert (len(parkinson.train_rows), len(parkinson.validation_rows)) == (780, 260)
    assert parkinson.target[parkinson.validation_rows].sum() == 130
    frame = pd.read_csv(Path(HOME) / "parkinson_speech" / "train_data.txt", header=None)
    np.testing.assert_allclose(parkinson.data, frame[range(1, 27)], rtol=1e-14)
    np.testing.assert_array_equal(parkinson.target, frame[28])
    np.testing.assert_array_equal(parkinson.groups, frame[0].astype(str))
    assert column(parkinson, "jitter_local")[0] == 1.488
    assert "UPDRS" not in parkinson.feature_names


@needs_data
def test_dota2():
    dota2 = datasets.load_dota2(data_home=HOME)
    common_facts(dota2)
    assert dota2.data.shape == (92_650, 113)
    assert (dota2.feature_names[0], dota2.feature_names[-1]) == ("hero0", "hero112")
    counts = dict(zip(*np.unique(dota2.groups, return_counts=True), strict=True))
    assert counts == {"type 1": 15, "type 2": 56_988, "type 3": 35_647}
    assert (len(dota2.train_rows), len(dota2.validation_rows)) == (57_003, 35_647)
    assert dota2.validation_groups == ("type 3",)
    # Each team of five chooses five heroes.
    assert ((dota2.data == 1).sum(axis=1) == 5).all()
    assert ((dota2.data == -1).sum(axis=1) == 5).all()
    np.testing.assert_array_equal(np.flatnonzero(~dota2.data.any(axis=0)), [23, 107])
    # The first games, read by hand.
    with gzip.open(Path(HOME) / "dota2" / "dota2Train.csv.gz", "rt") as file:
        rows = [line.rstrip().split(",") for _, line in zip(range(500), file, strict=False)]
    np.testing.assert_array_equal(dota2.target[:500], [int(row[0] == "1") for row in rows])
    np.testing.assert_array_equal(dota2.data[:500], [[float(v) for v in row[4:]] for row in rows])


@needs_data
def test_dota2_options():
    test = datasets.load_dota2(data_home=HOME, subset="test", include_type=True)
    assert test.data.shape == (10_294, 114)
    assert test.feature_names[:2] == ("type", "hero0")
    kinds, counts = np.unique(test.data[:, 0], return_counts=True)
    assert (kinds.tolist(), counts.tolist()) == ([1, 2, 3], [5, 6_284, 4_005])
    np.testing.assert_array_equal(test.groups, [f"type {kind:.0f}" for kind in test.data[:, 0]])
    both = datasets.load_dota2(data_home=HOME, subset="all")
    np.testing.assert_array_equal(both.data[92_650:], test.data[:, 1:])
    assert "include_type" in both.DESCR


# --- where files are found ---------------------------------------------------------------------------------------

SMALL = {
    "parkinson_speech/train_data.txt": "".join(f"{k},{','.join([f'{k}.5'] * 26)},23,{k % 2}\n" for k in range(1, 41)),
    "heart/processed.cleveland.data": "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n",
    "heart/processed.hungarian.data": "28,1,2,130,132,0,2,185,0,0,?,?,?,0\n29,1,2,140,?,0,0,170,0,0,?,?,?,0\n",
    "heart/processed.switzerland.data": "32,1,1,95,0,?,0,127,0,.7,1,?,?,1\n38,0,4,115,0,0,0,128,1,.5,2,1,7,1\n",
    "heart/processed.va.data": "63,1,4,140,260,0,1,112,1,3,2,?,?,2\n",
}
SUMS = {source.folder: source.sha256 for source in (loaders.HEART, loaders.PARKINSON)}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with small files, whose sums are taken for the right ones."""
    monkeypatch.delenv("OUTOFCLUSTER_DATA", raising=False)
    for name, text in SMALL.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        folder, file = name.split("/")
        monkeypatch.setitem(SUMS[folder], file, hashlib.sha256(text.encode()).hexdigest())
    return tmp_path / "home"


def test_a_small_table_by_hand(home):
    heart = datasets.load_heart(data_home=home)
    assert heart.groups.tolist() == ["Cleveland", "Hungary", "Switzerland", "VA"]
    assert heart.target.tolist() == [0, 0, 1, 1]
    assert heart.train_rows.tolist() == [0, 2, 3]
    assert heart.validation_rows.tolist() == [1]
    # Values that no record has get no column: nobody here has a slope that goes up.
    expected = {
        "age": [63, 28, 38, 63], "sex=female": [0, 0, 1, 0], "sex=male": [1, 1, 0, 1], "cp=typical": [1, 0, 0, 0],
        "cp=atypical": [0, 1, 0, 0], "cp=asymptomatic": [0, 0, 1, 1], "trestbps": [145, 130, 115, 140],
        "chol": [233, 132, 0, 260], "fbs": [1, 0, 0, 0], "restecg=normal": [0, 0, 1, 0],
        "restecg=abnormal": [0, 0, 0, 1], "restecg=hypertrophy": [1, 1, 0, 0], "thalach": [150, 185, 128, 112],
        "exang": [0, 0, 1, 1], "oldpeak": [2.3, 0, 0.5, 3], "slope=flat": [0, 0, 1, 1], "slope=down": [1, 0, 0, 0],
        "slope=missing": [0, 1, 0, 0], "thal=fixed": [1, 0, 0, 0], "thal=reversible": [0, 0, 1, 0],
        "thal=missing": [0, 1, 0, 1],
    }  # fmt: skip
    assert heart.feature_names == tuple(expected)
    np.testing.assert_array_equal(heart.data, np.array(list(expected.values())).T)


@pytest.mark.parametrize("form", ["plain", "gzipped", "windows", "windows gzipped"])
def test_forms_of_a_file(home, form):
    path = home / "parkinson_speech" / "train_data.txt"
    before = datasets.load_parkinson(data_home=home)
    content = path.read_bytes()
    if "windows" in form:
        content = content.replace(b"\n", b"\r\n")
    path.unlink()
    if "gzipped" in form:
        path.with_name("train_data.txt.gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)
    after = datasets.load_parkinson(data_home=str(home))
    np.testing.assert_array_equal(after.data, before.data)
    np.testing.assert_array_equal(after.groups, [str(k) for k in range(1, 41)])
    np.testing.assert_array_equal(after.target, [k % 2 for k in range(1, 41)])


def test_the_argument_comes_before_the_environment(home, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTOFCLUSTER_DATA", str(home))
    assert len(datasets.load_parkinson().data) == 40
    (tmp_path / "empty").mkdir()
    message = refusal(lambda: datasets.load_parkinson(data_home=tmp_path / "empty"))
    assert message.startswith("data_home must be a folder that holds parkinson_speech/train_data.txt")
    assert str(tmp_path / "empty") in message
    assert "https://archive.ics.uci.edu/dataset/301" in message
    monkeypatch.setenv("OUTOFCLUSTER_DATA", str(tmp_path / "empty"))
    assert len(datasets.load_parkinson(data_home=home).data) == 40
    assert refusal(datasets.load_parkinson).startswith("OUTOFCLUSTER_DATA must be a folder that holds")


def test_a_home_in_the_users_folder(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("USERPROFILE", str(home.parent))
    assert len(datasets.load_parkinson(data_home="~/home").data) == 40


def test_a_missing_file_is_never_downloaded_behind_a_named_folder(home, monkeypatch):
    monkeypatch.setattr(_files, "fetch", lambda *_: pytest.fail("it tried to download"))
    (home / "heart" / "processed.va.data").unlink()
    assert "heart/processed.va.data" in refusal(lambda: datasets.load_heart(data_home=home))
    monkeypatch.setenv("OUTOFCLUSTER_DATA", str(home))
    assert "heart/processed.va.data" in refusal(datasets.load_heart)
    assert str(home / "nowhere") in refusal(lambda: datasets.load_heart(data_home=home / "nowhere"))


def test_an_altered_file_shows_both_sums(home):
    path = home / "heart" / "processed.va.data"
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes() + b"1,1,1,1,1,1,1,1,1,1,1,1,1,1\n")
    actual = hashlib.sha256(path.read_bytes()).hexdigest()
    message = refusal(lambda: datasets.load_heart(data_home=home))
    for part in ("heart/processed.va.data", expected, actual, str(home), "https://archive.ics.uci.edu/dataset/45"):
        assert part in message


@pytest.mark.parametrize(
    "content", [b"not gzip", gzip.compress(b"1,2\n" * 999)[:-9], b""], ids=["other", "cut", "empty"]
)
def test_a_damaged_gzipped_file(home, content):
    path = home / "parkinson_speech" / "train_data.txt"
    path.unlink()
    path.with_name("train_data.txt.gz").write_bytes(content)
    assert "parkinson_speech/train_data.txt" in refusal(lambda: datasets.load_parkinson(data_home=home))


def test_bad_arguments(home):
    assert "data_home must be the path" in refusal(lambda: datasets.load_heart(data_home=5))
    assert "include_type must be True or False" in refusal(lambda: datasets.load_dota2(data_home=home, include_type=1))
    assert "subset must be" in refusal(lambda: datasets.load_dota2(data_home=home, subset="both"))
    with pytest.raises(TypeError):
        datasets.load_heart(home)


def test_importing_is_light():
    heavy = "('sklearn', 'numba', 'pandas', 'matplotlib', 'pooch', 'requests')"
    code = f"import sys, outofcluster.datasets; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

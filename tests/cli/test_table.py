"""Tables: what can be read, what columns are taken as, and what is refused in a sentence with its remedy."""

import gzip
import io
import os
import sys
import threading
import zipfile

import numpy as np
import pandas as pd
import pytest

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.cli.models import Wanted
from outofcluster.cli.table import read_records, read_table

COLUMNS = {"target": "ill", "groups": "patient", "wanted": Wanted()}


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()


# --- files --------------------------------------------------------------------------------------------

WRITTEN = {
    "commas": lambda frame: frame.to_csv(index=False).encode(),
    "semicolons": lambda frame: frame.to_csv(index=False, sep=";").encode(),
    "tabs": lambda frame: frame.to_csv(index=False, sep="\t").encode(),
    "bom": lambda frame: frame.to_csv(index=False).encode("utf-8-sig"),
    "latin-1": lambda frame: frame.to_csv(index=False).encode("latin-1"),
    "parquet": lambda frame: frame.to_parquet(),
    "gzip": lambda frame: gzip.compress(frame.to_csv(index=False).encode()),
    "zip of parquet": lambda frame: zipped({"inner/table": frame.to_parquet(), "__MACOSX/._table": b"junk"}),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_kinds_of_files(frame, tmp_path, kind):
    frame = frame.rename(columns={"dose": "durée"})
    path = tmp_path / "table"
    path.write_bytes(WRITTEN[kind](frame))
    read = read_table(str(path), encoding="latin-1" if kind == "latin-1" else "utf-8")
    pd.testing.assert_frame_equal(read.frame, frame, check_dtype=False)
    assert read.semicolons == (kind == "semicolons")


@pytest.mark.parametrize("how", ["-", "pipe", "/dev/stdin"])
def test_pipes_are_read_once(frame, tmp_path, how):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    threading.Thread(target=lambda: path.write_bytes(frame.to_csv(index=False).encode())).start()
    if how == "pipe":
        records = read_records(str(path), **COLUMNS)
    else:
        before, opened = os.dup(0), os.open(path, os.O_RDONLY)
        os.dup2(opened, 0)
        records = read_records(how, **COLUMNS)
        os.dup2(before, 0)
        os.close(before)
        os.close(opened)
    pd.testing.assert_frame_equal(records.frame, frame[["age", "dose"]])
    assert records.name == {"-": "standard input", "pipe": "pipe", "/dev/stdin": "stdin"}[how]


BAD_FILES = {
    "empty": (b"", "FILE must hold a line of column names and records, got .*, which is empty."),
    "a head only": (b"a,b\n", "FILE must hold records, got .* with column names only."),
    "another encoding": (
        b"a,b\n\xe9,1\n",
        "FILE must be text in utf-8, got .* with bytes that are not; give its --enc",
    ),
    "no table": (b'a,b\n1,2\n1,2,3,4\n"', "FILE must be a CSV file that can be read, got .*: Error tokenizing data"),
    "no Parquet": (b"PAR1 no", "FILE must be a Parquet file that can be read"),
    "two columns of one name": (b"a,b,a\n1,2,3\n", "FILE must have columns of different names, got .* with 'a' more"),
    "more values than names": (b"a,b\n1,2,3\n4,5,6\n", "FILE must have one value per column in every line"),
    "gzip cut short": (gzip.compress(b"a,b\n1,2\n" * 99)[:20], "FILE must be a compressed file that can be read"),
    "a broken zip": (b"PK\x03\x04 and nothing else", "FILE must be a compressed file that can be read"),
    "a zip of two": (
        zipped({"a.csv": "a\n1\n", "b.csv": "a\n1\n"}),
        "a zip that holds one and nothing else, got .* with 2",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_hold_no_table(tmp_path, name):
    content, message = BAD_FILES[name]
    path = tmp_path / "table"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(str(path))


def test_files_that_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.csv").write_text("a\n1\n")
    for path, message in {
        "record.csv": "FILE must exist, got 'record.csv'; did you mean 'records.csv'?",
        "zzz": "FILE must exist, got 'zzz'.",
        ".": "FILE must be a file that can be read, got '.': Is a directory.",
        "x.xlsx": "FILE must be a CSV or Parquet file, got the spreadsheet 'x.xlsx'; save it as CSV first.",
    }.items():
        with pytest.raises(InputError) as raised:
            read_table(path)
        assert str(raised.value) == message
    with pytest.raises(InputError, match="--encoding must be one that Python knows, such as latin-1, got 'klingon'"):
        read_table("records.csv", encoding="klingon")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"reading tables needs pandas: pip install 'outofcluster\[cli\]'."):
        read_table("records.csv")


def test_columns_of_lists_are_refused_by_name_unless_they_are_dropped(frame, tmp_path):
    path = str(tmp_path / "nested.parquet")
    frame.assign(visits=[[1, 2]] * 90, place=[{"town": "x"}] * 90).to_parquet(path)
    for drop, name in (((), "visits"), (("visits",), "place")):
        with pytest.raises(InputError, match=f"FILE must have columns of single values, got '{name}'"):
            read_records(path, **COLUMNS, drop=drop)
    assert list(read_records(path, **COLUMNS, drop=("visits", "place")).frame) == ["age", "dose"]
    with pytest.raises(InputError, match="columns of single values, got 'visits'"):
        read_records(path, **COLUMNS | {"target": "visits"})


def test_the_vectoriser_never_sees_target_or_groups(frame, tmp_path):
    path = str(tmp_path / "r.csv")
    frame = frame.assign(site=np.where(frame["dose"] > 0, "a", "b"))
    matrices = []
    for ill, patient in ((frame["ill"], frame["patient"]), (frame["ill"][::-1], frame["patient"][::-1])):
        frame.assign(ill=ill.to_numpy(), patient=patient.to_numpy()).to_csv(path, index=False)
        records = read_records(path, **COLUMNS)
        matrices.append(records.matrix(0))
    assert records.about["encoded"].startswith("site: turned into numbers once, for all records, by skrub's")
    assert np.array_equal(*matrices)


def test_decimal_commas_of_a_file_with_semicolons_are_numbers(frame, tmp_path):
    path, n = str(tmp_path / "r.csv"), len(frame)
    frame.loc[[3, 7], "dose"] = None
    frame.loc[5, "age"] = 1.5e-7
    mixed = frame.assign(
        lists=["1,2,3", "1,2", "2,4"] * 30,
        words=["unknown" if i == 4 else f"{i},5" for i in range(n)],
        points=["1.234,5", "2,5", "3,5"] * 30,
        whole=[str(i % 7) for i in range(n)],
        patient=[f"{i // 3},{i // 3 % 2}" for i in range(n)],
    )
    mixed.to_csv(path, index=False, sep=";", decimal=",")
    read = read_records(path, **COLUMNS)
    assert read.about["decimal commas"] == "age, dose"
    assert read.about["nearly numbers"] == "words ('unknown')"
    assert read.encoded == ["lists", "words", "points"]
    assert read.groups[3] == "1,1"
    # They are as exact as with points.
    pd.testing.assert_frame_equal(read.frame[["age", "dose"]], frame[["age", "dose"]], check_exact=True)
    mixed.to_csv(path, index=False, decimal=",")
    assert "decimal commas" not in read_records(path, **COLUMNS).about


# --- slips --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slips(tmp_path_factory):
    """A table with a column for every slip."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(50), 4)
    u = rng.standard_normal((50, 2))
    ill = u[patient, 0] + u[patient, 1] > 0
    path = tmp_path_factory.mktemp("slips") / "slips.csv"
    pd.DataFrame(
        {
            "visit_id": rng.permutation(200) + 7000,
            "code": [f"v{i:04d}" for i in rng.permutation(200)],
            "age": u[patient, 0] + 0.3 * rng.standard_normal(200),
            "dose": rng.standard_normal(200),
            "notes": [f"seen {i} times on ward {i % 3}" for i in range(200)],
            "day": pd.date_range("2020-01-01", periods=200).strftime("%Y-%m-%d"),
            "grade": rng.integers(1, 6, 200),
            "sick": np.where(ill, 1, 0),
            "kind": np.where(ill, rng.choice(["a", "b"], 200), "c"),
            "patient": patient,
            "middle": patient // 2,
            "tighter": np.where(np.arange(200) % 9 == 0, 900 + np.arange(200), patient),
            "copy": patient,
            "gaps": np.where(np.arange(200) % 9 == 3, None, np.where(ill, "yes", "no")),
            "mixed": [str(x) for x in rng.standard_normal(199).round(3)] + ["unknown"],
            "empty": np.full(200, np.nan),
            "constant": "x",
            "ratio": np.where(np.arange(200) % 50 == 3, np.inf, rng.standard_normal(200)),
            "ill": np.where(ill, "yes", "no"),
            "score": u[patient, 0] + rng.standard_normal(200),
        }
    ).to_csv(path, index=False)
    return str(path)


REFUSED = {
    "a misspelt column": ({"target": "il"}, "--target must be a column of FILE, got 'il' (nearest: 'ill'"),
    "another case": ({"groups": "PATIENT"}, "got 'PATIENT' (nearest: 'patient')."),
    "no such column": ({"groups": "zzz"}, "(there are: 'visit_id', 'code', 'age', 'dose', 'notes', 'day', …)."),
    "one column for both": ({"groups": "ill"}, "--target and --groups must be different columns, got 'ill' for both."),
    "one of several for both": ({"more_groups": ("ill",)}, "must be different columns, got 'ill' for both."),
    "gaps in the clusters": (
        {"groups": "gaps"},
        "--groups must be a column without missing values, got 'gaps' with 22",
    ),
    "a dropped column": ({"drop": ("dosage",)}, "--drop must be a column of FILE, got 'dosage' (nearest: 'dose'"),
    "a dropped target": ({"drop": ("ill",)}, "--drop must not hold the target, got 'ill'."),
    "a kept column": ({"keep": ("dosage",)}, "--keep must be a feature, got 'dosage'."),
    "record numbers as clusters": (
        {"groups": "visit_id", "drop": ("sick",)},
        "--groups must be a column of clusters, got 'visit_id' with another value in every record",
    ),
    "the target in other words": (
        {},
        "got 'sick', which is 'ill' in other words; leave it out with --drop sick, or say that it is meant with --keep",
    ),
    "dates": (
        {"target": "day"},
        "--target must hold classes or numbers, got dates such as '2020-01-01' in column 'day'",
    ),
    "text": (
        {"target": "notes"},
        "--target must hold classes that occur several times, got 200 different values in 200 records",
    ),
    "words among numbers": (
        {"target": "mixed"},
        "got numbers with words such as 'unknown' among them in column 'mixed'",
    ),
    "missing targets": (
        {"target": "gaps"},
        "got 'gaps' with 22 of them, the first in record 4; --drop-missing-target leaves these records out.",
    ),
    "an empty target": ({"target": "empty"}, "--target must be a column with values, got 'empty', which is empty."),
    "a single class": (
        {"target": "constant"},
        "--target must hold at least two classes, got only 'x' in column 'const",
    ),
    "numbers for classes": (
        {"target": "score", "wanted": Wanted(True, "--scoring", "roc_auc")},
        "--scoring must suit the target, got 'roc_auc', which takes classes, for",
    ),
    "classes for numbers": (
        {"wanted": Wanted(False, "--task", "regression")},
        "--task must suit the target, got 'regression', which takes numbers, for 'no' in column 'ill'.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(slips, name):
    changes, message = REFUSED[name]
    with pytest.raises(InputError) as raised:
        read_records(slips, **COLUMNS | changes)
    assert message in str(raised.value)


def test_only_ids_or_nothing_as_features(slips):
    others = [name for name in pd.read_csv(slips, nrows=1) if name not in ("ill", "patient")]
    with pytest.raises(InputError, match="FILE must have columns besides target, groups and dropped ones"):
        read_records(slips, **COLUMNS, drop=others)
    for name in ("visit_id", "code"):
        others.remove(name)
    with pytest.raises(
        InputError, match="FILE must have features that are no ids, got 'visit_id', 'code' only; --keep"
    ):
        read_records(slips, **COLUMNS, drop=others)


def test_ids_are_left_out_unless_they_are_kept_or_the_model_is_the_users(slips):
    options = COLUMNS | {"drop": ("sick", "empty", "constant")}
    read = read_records(slips, **options)
    assert read.about["left out"] == "visit_id, code, copy (they look like ids)"
    assert not {"visit_id", "code", "copy", "sick"} & {*read.frame, *read.account.features}
    assert read.about["dropped"] == "sick, empty, constant"
    assert "visit_id" in read_records(slips, **options, keep=("visit_id",)).frame
    assert "code" in read_records(slips, **options, leave_out_ids=False).frame


def test_records_without_a_target_are_left_out_where_that_is_wanted(slips):
    options = COLUMNS | {"target": "gaps", "drop": ("sick", "ill")}
    read = read_records(slips, **options, drop_missing_target=True)
    assert read.about["dropped records"] == "22 records without a target"
    assert len(read.frame) == len(read.target) == 178
    assert not (read.rows % 9 == 3).any()


def test_features_that_may_be_clusters_of_another_linkage(slips):
    read = read_records(slips, **COLUMNS, drop=("sick",), more_groups=("copy",))
    assert read.columns_like_clusters() == ["middle", "tighter"]
    assert read.infinite == {"ratio": 4}


@pytest.mark.parametrize(
    ("target", "wanted", "classes"),
    [
        ("ill", Wanted(), True),
        ("grade", Wanted(), True),
        ("grade", Wanted(numbers=True), False),
        ("grade", Wanted(False), False),
        ("score", Wanted(), False),
    ],
)
def test_whole_numbers_are_classes_unless_something_says_otherwise(slips, target, wanted, classes):
    read = read_records(slips, **COLUMNS | {"target": target, "wanted": wanted}, keep=("sick",))
    assert read.classes == classes
    assert read.about["target"] == {"ill": "ill (classes no, yes)", "score": "score (numbers)"}.get(
        target, "grade (classes 1, 2, 3, 4, 5)" if classes else "grade (numbers)"
    )

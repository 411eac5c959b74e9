"""One codec for every result: what is written is read back, as JSON and as arrays, and what is no result is refused."""

import json
import math
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import Chance, KnownChance, Matrix, PlainData, from_arrays, plain, read, to_arrays
from outofcluster.evidence.laws import PieceLaw
from outofcluster.evidence.likely import NamedPairs
from outofcluster.evidence.sides import RateCheck
from outofcluster.metrics.facts import known_facts
from outofcluster.sampling.audit_samples import SideFacts
from outofcluster.sampling.store import Batch

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 3))
y = (X[:, 0] + rng.standard_normal(120) > 0).astype(int)
groups = np.repeat(np.arange(30), 4)
LEARNED = ooc.Leakage.from_true_groups(np.repeat(np.arange(15), 8), groups)
SCORING = ["neg_brier_score", "neg_log_loss"]


@pytest.fixture(scope="module")
def audits():
    options = {"groups": groups, "n_fits": 60, "random_state": 0}
    two_way = {"error_model": "records", "leakage": 0.1, "validation_leakage": 0.05, "scoring": SCORING}
    return (
        ooc.audit(GaussianNB(), X, y, **options, **two_way),
        ooc.audit(GaussianNB(), X, y, **options, leakage=LEARNED, error_model="fragments"),
    )


def dataclasses_in(value, found):
    """One example of every dataclass that a value holds, itself included."""
    if is_dataclass(value) and not isinstance(value, type):
        found.setdefault(type(value), value)
        value = vars(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            dataclasses_in(part, found)
    return found


@pytest.fixture(scope="module")
def results(audits):
    """An example of every class that is written to a file or as JSON, by its name."""
    found = dataclasses_in(LEARNED, {})
    for result in audits:
        dataclasses_in([result.samples, result.summary, result.test, result.leakage, result.table], found)
    rates, table = [0.0, 0.1], np.array([[0.3, 0.32], [0.34, np.nan]])
    more = (
        ooc.SensitivitySurface(rates, rates, table, table, table),
        Batch(2, 5, np.array([[0.1, 0.2]]), 3, (np.array([0.5, -0.5]), np.zeros(3))),
        SideFacts(np.arange(2), np.ones(2), np.array([3, -1]), 0.6, 0.9, RateCheck(1.0, 2.0, math.nan)),
        NamedPairs(("a", "b"), ("c", "c"), (0.25, 1.0)),
        known_facts("squared_error"),
    )
    for result in more:
        found.setdefault(type(result), result)
    return {kind.__name__: result for kind, result in found.items()}


def as_written(value):
    about, arrays = to_arrays(value)
    return json.dumps(about), {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


def test_arrays_give_every_result_back(results):
    for name, result in results.items():
        about, arrays = to_arrays(result)
        again = from_arrays(type(result), json.loads(json.dumps(about)), arrays)
        assert type(again) is type(result)
        assert as_written(again) == as_written(result), name
    assert {"AuditSamples", "EffectLosses", "EntitySuspects", "SideFacts", "UnitEffects"} < results.keys()
    assert {"AuditedClusters", "LikelyPieces", "LookUps", "NamedPairs", "SeenPieces"} < results.keys()
    assert {"FittedCurve", "LinkageErrors", "MetricSummary", "PieceLaw", "TableAccount"} < results.keys()


def test_json_gives_every_result_back(results):
    for name, result in results.items():
        if isinstance(result, PlainData):
            written = json.dumps(result.to_dict(), allow_nan=False)
            again = type(result).from_dict(json.loads(written))
            assert json.dumps(again.to_dict()) == written, name


def test_ends_of_a_range_that_are_infinite_come_back():
    facts = known_facts("squared_error")
    data = plain(facts)
    assert data["range"] == [0.0, None]
    assert read(type(facts), data, "facts") == facts


# --- every kind of field --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    rate: Chance
    law: tuple[int, float]


@dataclass(frozen=True)
class Outer:
    number: float
    count: int
    flag: bool
    word: Literal["a", "b"]
    chance: KnownChance
    table: Matrix
    vector: NDArray[np.int64]
    inner: Inner | None
    several: tuple[Inner, ...]
    by_index: dict[int, str]
    anything: Any


SOME = Outer(
    number=math.nan,
    count=10**30,
    flag=True,
    word="a",
    chance=0.5,
    table=np.array([[1.0, np.nan], [3.0, 4.0]]),
    vector=np.array([1, 2]),
    inner=Inner(math.nan, (3, 0.25)),
    several=(Inner(0.0, (1, 1.0)), Inner(1.0, (2, 2.0))),
    by_index={3: "three"},
    anything={"list": [1, None]},
)


def test_every_kind_of_field_goes_there_and_back():
    data = json.loads(json.dumps(plain(SOME), allow_nan=False))
    again = read(Outer, data, "an example")
    assert plain(again) == data
    assert (again.count, again.several, again.by_index, again.anything) == (
        SOME.count,
        SOME.several,
        SOME.by_index,
        SOME.anything,
    )
    assert math.isnan(again.number)
    assert again.table.dtype == float
    np.testing.assert_array_equal(again.table, SOME.table)


def test_arrays_are_named_by_their_place_and_numbers_stay_what_they_are():
    about, arrays = to_arrays(replace(SOME, number=math.inf))
    assert list(arrays) == ["table", "vector"]
    assert (about["table"], about["number"]) == ("table", math.inf)
    again = from_arrays(Outer, about, arrays)
    assert again.vector is SOME.vector
    assert again.number == math.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"number": "1"}, "'1' is not a number"),
        ({"number": True}, "True is not a number"),
        ({"number": 10**400}, "too large"),
        ({"count": 1.5}, "1.5 is not a whole number"),
        ({"flag": 1}, "1 is not true or false"),
        ({"word": "c"}, "'c' is none of 'a', 'b'"),
        ({"chance": 1.5}, r"1.5 does not lie in \[0, 1\]"),
        ({"chance": None}, "a number is not known"),
        ({"table": [1, 2]}, "a table must be a list of rows"),
        ({"table": [[1], [2, 3]]}, "a value does not fit"),
        ({"table": [["x"]]}, "'x' is not a number"),
        ({"inner": 3}, "3 is not an object"),
        ({"inner": {"rate": 0.1}}, "'law' is missing"),
        ({"inner": {"rate": -1, "law": [1, 2]}}, "-1 does not lie in"),
        ({"inner": {"rate": 0.1, "law": [1]}}, "a list must have 2 values, and has 1"),
        ({"several": None}, "None is not a list"),
        ({"several": "ab"}, "'ab' is not a list"),
        ({"by_index": {"x": "y"}}, "a value does not fit"),
        ({"by_index": ["x"]}, "is not an object"),
    ],
)
def test_data_that_do_not_fit_are_refused_in_one_sentence(change, message):
    with pytest.raises(InputError, match=message) as refusal:
        read(Outer, plain(SOME) | change, "an example")
    assert str(refusal.value).startswith("data of an example must be as to_dict gives it, but ")
    assert str(refusal.value).endswith(".")


def test_every_field_must_be_there_unless_a_class_leaves_out_its_defaults():
    for name in plain(SOME):
        with pytest.raises(InputError, match=f"but '{name}' is missing"):
            read(Outer, {key: value for key, value in plain(SOME).items() if key != name}, "an example")
    assert ooc.Leakage.from_dict({"rate": 0.1}) == ooc.Leakage(0.1)
    assert ooc.Leakage.from_dict(ooc.Leakage(0.1).to_dict()) == ooc.Leakage(0.1)
    with pytest.raises(InputError, match="it has no 'share'"):
        ooc.Leakage.from_dict({"rate": 0.1, "share": 0.1})
    with pytest.raises(InputError, match="data of a Leakage"):
        ooc.Leakage.from_dict({})


@pytest.mark.parametrize("data", [{}, {"pieces": [[1]]}, {"pieces": 3, "weights": [], "validation_share": 0.2}, []])
def test_a_law_that_is_none_is_refused(data):
    with pytest.raises(InputError):
        read(PieceLaw, data, "a law of pieces")


# --- archives -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kept:
    sums: Array
    names: tuple[str, ...]


def test_zeros_that_take_no_memory_take_none_in_a_file_and_after_it(tmp_path):
    zeros = np.broadcast_to(np.zeros(1), (50, 400, 1000))
    write_archive(tmp_path / "file", "sums", 1, Kept(zeros, ()))
    assert (tmp_path / "file").stat().st_size < 2000
    again = read_archive(tmp_path / "file", "sums", 1, Kept).sums
    assert (again.shape, again.strides) == (zeros.shape, zeros.strides)
    assert not again.any()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (1, 1), (2, 0, 3), (4, 1, 2)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?", "U3"])
def test_arrays_of_any_shape_and_type_come_back(tmp_path, shape, dtype):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    for sums in (array, array.T, array[..., ::-1]):
        write_archive(tmp_path / "file", "sums", 1, Kept(sums, ("é",)))
        again = read_archive(tmp_path / "file", "sums", 1, Kept)
        assert (again.sums.dtype, again.names) == (sums.dtype, ("é",))
        np.testing.assert_array_equal(again.sums, sums)


def test_objects_are_never_made_of_bytes(tmp_path):
    path = tmp_path / "file"
    write_archive(path, "sums", 1, Kept(np.array([None, 3], dtype=object), ()))
    with pytest.raises(InputError, match="which is not one"):
        read_archive(path, "sums", 1, Kept)


def test_damaged_and_other_archives_are_refused_in_one_sentence(tmp_path):
    path = tmp_path / "file"
    write_archive(path, "sums", 1, Kept(np.arange(3.0), ("a",)))
    data = path.read_bytes()
    with pytest.raises(InputError, match="which is a file of sums"):
        read_archive(path, "losses", 1, Kept)
    with pytest.raises(InputError, match=r"of format 2, got .* which has format 1"):
        read_archive(path, "sums", 2, Kept)
    with pytest.raises(InputError, match="which is not one"):
        read_archive(path, "sums", 1, Outer)
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises(InputError, match="which is not one or was cut short"):
            read_archive(path, "sums", 1, Kept)
    for position in range(0, len(data), 5):
        path.write_bytes(data[:position] + bytes([data[position] ^ 255]) + data[position + 1 :])
        try:
            again = read_archive(path, "sums", 1, Kept)
        except InputError:
            continue
        assert again.sums.tolist() == [0.0, 1.0, 2.0], "a date or another thing that holds nothing"

"""What tells who is who: how it is given, what is refused in one sentence, and text with slips as numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from outofcluster._base.exceptions import InputError
from outofcluster.evidence.encoding import encode_identity
from outofcluster.problem.problem import identity_columns

FRAME = pd.DataFrame({"age": [31, 60, 45], "born": [1990, 1961, 1976], "name": ["ann", "bob", "cid"]})


# --- how it is given ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    ("identity", "named"), [("born", ["born"]), (["name", "born"], ["name", "born"]), (("name",), ["name"])]
)
def test_columns_that_are_named_are_no_features(kind, identity, named):
    X, table = identity_columns(kind(FRAME.to_dict("list")), identity)
    assert list(X.columns) == [name for name in FRAME.columns if name not in named]
    assert list(table.columns) == named
    assert len(X) == len(table) == 3


def test_nothing_is_given():
    X, table = identity_columns(FRAME, None)
    assert X is FRAME
    assert table is None


@pytest.mark.parametrize(
    "X", [FRAME, FRAME[["age"]].to_numpy(), sparse.csr_array(np.eye(3))], ids=["frame", "array", "sparse"]
)
@pytest.mark.parametrize(
    "identity",
    [
        np.arange(6.0).reshape(3, 2),
        np.arange(3),
        np.array(["x", "y", "z"]),
        [[1.0], [2.0], [3.0]],
        [1, 2, 3],
        pd.Series([1, 2, 3]),
        pd.DataFrame({"device": ["p", "q", "p"]}),
        pl.DataFrame({"device": ["p", "q", "p"]}),
        pl.Series([1, 2, 3]),
    ],
    ids=lambda identity: type(identity).__name__,
)
def test_tables_and_arrays_have_one_row_per_record_and_leave_the_features_alone(X, identity):
    same, table = identity_columns(X, identity)
    assert same is X
    assert table.shape[0] == 3
    assert encode_identity(table, np.array([2, 0])).shape[0] == 2


BAD = [
    (FRAME, "burn", r"^identity must be a column of X, got 'burn'; did you mean 'born'\?$"),
    (FRAME, ["born", "zip"], r"^identity must be a column of X, got 'zip'; there are 'age', 'born', 'name'\.$"),
    (
        FRAME,
        ["age", "born", "name"],
        r"^X must have columns besides those of identity, got 'age', 'born', 'name' ",
    ),
    (
        FRAME.to_numpy(),
        "born",
        r"^identity must be an array, or the name of a column where X is a data frame, got ",
    ),
    (FRAME, [], r"^identity must have one row for each of the 3 records of X, got 0\.$"),
    (FRAME, np.zeros((2, 4)), r"^identity must have one row for each of the 3 records of X, got 2 by 4\.$"),
    (FRAME, np.zeros(4), r"^identity must have one row for each of the 3 records of X, got 4\.$"),
    (FRAME, np.zeros((3, 0)), r"^identity must have one row for each of the 3 records of X, got 3 by 0\.$"),
    (FRAME, np.zeros((3, 2, 2)), r"^identity must have one row for each of the 3 records of X, got 3 by 2 by 2\.$"),
    (FRAME, FRAME[:2], r"^identity must have one row for each of the 3 records of X, got 2 by 3\.$"),
    (FRAME, pl.DataFrame({"a": [1, 2]}), r"^identity must have one row for each of the 3 records of X, got 2 by 1\.$"),
    (FRAME, 7, r"^identity must have one row for each of the 3 records of X, got 7\.$"),
    (FRAME, {"born": [1, 2, 3]}, r"^identity must have one row for each of the 3 records of X, got "),
    (FRAME, [[1], [2, 3], [4]], r"^identity must be a table or an array, got "),
    (FRAME, sparse.csr_array(np.eye(3)), r"^identity must be a table or an array, got a sparse matrix; use identity\."),
    (FRAME, np.ma.masked_array([1, 2, 3], [0, 1, 0]), r"^identity must be an array without a mask"),
    (FRAME, FRAME[["born"]][::-1], r"^identity must have its rows in the order of X, got the same labels"),
    (FRAME, FRAME["born"][::-1], r"^identity must have its rows in the order of X, got the same labels"),
]


@pytest.mark.parametrize(("X", "identity", "message"), BAD, ids=range(len(BAD)))
def test_what_is_refused_is_refused_in_one_sentence(X, identity, message):
    with pytest.raises(InputError, match=message) as refused:
        identity_columns(X, identity)
    assert "\n" not in str(refused.value)


# --- as numbers -----------------------------------------------------------------------------------------


def slipped(name, rng):
    """The same name with two neighbouring letters exchanged, one left out, or one another."""
    place = int(rng.integers(1, len(name) - 1))
    letters = list(name)
    kind = rng.integers(3)
    if kind == 0:
        letters[place], letters[place - 1] = letters[place - 1], letters[place]
    elif kind == 1:
        del letters[place]
    else:
        letters[place] = "x"
    return "".join(letters)


def names_and_slips(count=60):
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("aeioulmnrstdkbv"), 10)) for _ in range(count)]
    return names, [slipped(name, rng) for name in names]


def own_share(encoded):
    """How many of the second half are nearer to their mate in the first half than to anybody else in it."""
    first, second = np.split(encoded, 2)
    distance = ((second[:, None] - first) ** 2).sum(axis=2)
    return np.mean(distance.argmin(axis=1) == np.arange(len(first)))


@pytest.mark.parametrize(
    "as_kind",
    [
        lambda names: pd.DataFrame({"name": names}),
        lambda names: pd.DataFrame({"name": pd.array(names, dtype="string")}),
        lambda names: pd.DataFrame({"name": pd.Categorical(names)}),
        lambda names: pl.DataFrame({"name": names}),
        np.array,
        lambda names: np.array(names, dtype=object).reshape(-1, 1),
    ],
    ids=["object", "string", "categorical", "polars", "array", "object array"],
)
def test_texts_with_a_slip_stay_close(as_kind):
    names, slips = names_and_slips()
    _, table = identity_columns(np.zeros((120, 1)), as_kind(names + slips))
    encoded = encode_identity(table, np.arange(120))
    assert encoded.shape == (120, 12)
    assert own_share(encoded) > 0.8
    np.testing.assert_allclose(encoded.mean(axis=0), 0, atol=0.2)


def test_missing_texts_are_like_no_text():
    names, slips = names_and_slips()
    texts = [*names, *slips]
    for missing in (None, np.nan, pd.NA):
        holed = [missing if place % 10 == 3 else text for place, text in enumerate(texts)]
        frame = pd.DataFrame({"name": pd.Series(holed, dtype=object)})
        encoded = encode_identity(frame, np.arange(120))
        assert np.isfinite(encoded).all()
        gone = encoded[3::10]
        np.testing.assert_allclose(gone, np.broadcast_to(gone[0], gone.shape), atol=1e-9)


def test_few_different_texts_have_an_indicator_each_and_numbers_and_dates_stay_numbers():
    frame = pd.DataFrame(
        {
            "town": ["a", "b", "c"] * 10,
            "seen": pd.date_range("2020-01-01", periods=30),
            "height": np.where(np.arange(30) == 4, np.nan, np.arange(30.0)),
        }
    )
    encoded = encode_identity(frame, np.arange(30))
    # Two of three towns, the date, the height and whether it is missing.
    assert encoded.shape == (30, 5)
    dates = (np.arange(30) - 14.5) / np.arange(30).std()
    assert any(np.allclose(column, dates) for column in encoded.T)
    levels = [len(np.unique(column.round(9))) for column in encoded.T]
    assert sorted(levels) == [2, 2, 2, 29, 30]


def test_embeddings_of_many_columns_become_their_principal_components():
    rng = np.random.default_rng(0)
    encoded = encode_identity(rng.standard_normal((80, 3)) @ rng.standard_normal((3, 100)), np.arange(80))
    assert encoded.shape[1] <= 40
    np.testing.assert_allclose(np.linalg.matrix_rank(encoded, tol=1e-3), 3)


def test_only_the_rows_that_are_asked_for_count():
    table = np.arange(20.0).reshape(10, 2)
    np.testing.assert_allclose(encode_identity(table, np.array([1, 3])), [[-1, -1], [1, 1]])

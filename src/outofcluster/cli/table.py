"""Tables of records: CSV and Parquet files, compressed or not, and what their columns are taken as.

Columns that are not numbers are turned into numbers by skrub's TableVectorizer, once for all records. It never sees the
target, so nothing about the target can leak, and fitting it anew in every resample would take far longer than fitting
the models. Imputing and scaling belong to the models and are fitted along with them.

In a file with semicolons numbers may have decimal commas, as spreadsheets of many countries write them. pandas takes
such a column for text, and a model would then learn from words. A column is read as numbers if every value that is not
missing is one and one of them has a comma. Lists such as "1,2,3" and numbers with points as well, such as "1.234,5",
are no such numbers.

A slip that cannot be meant (a date as the target, record numbers as clusters, the target among the features) is refused
in one sentence with its remedy. One that may be meant is said aloud in the account of the table.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import importlib
import io
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import shown
from outofcluster._base.exceptions import InputError, MissingExtraError, needing, one_line
from outofcluster.cli.models import Wanted
from outofcluster.problem.account import TableAccount, looks_like_dates

_PARQUET = (".parquet", ".pq")
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
# What compressed files start with.
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
# Whole numbers with at most this many different values are classes, unless the model or the loss says otherwise.
_MOST_CLASSES = 20
_NUMBER = r"\s*[-+]?(?:\d+(?:,\d*)?|,\d+)(?:[eE][-+]?\d+)?\s*"
# Share of numbers from which a column of text was probably meant as numbers.
_NEARLY_ALL = 0.9
# Records that are looked at first; most columns of text are done with after them.
_LOOKED_AT_FIRST = 500
# Clusters, and records that share one, from which a column that keeps to their bounds hardly does so by chance.
_LEAST_CLUSTERS = 10


# --- files --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A file as a data frame, with the digest of its bytes, and whether semicolons part its values."""

    frame: Any
    sha256: str
    semicolons: bool


def read_table(path: str, *, encoding: str = "utf-8") -> Table:
    """Read a CSV or Parquet file, or standard input, which is read once."""
    with needing("reading tables needs pandas", "cli"):
        import pandas as pd
    stored = _read_bytes(path)
    content = _unpack(stored, path)
    parquet = content.startswith(b"PAR1") or Path(path).suffix.lower() in _PARQUET
    encoding = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    separator = ","
    try:
        if parquet:
            frame = pd.read_parquet(io.BytesIO(content))
            names = [str(name) for name in frame.columns]
        else:
            first_line = io.TextIOWrapper(io.BytesIO(content), encoding=encoding).readline()
            separator = max(",;\t", key=first_line.count)
            frame, names = _read_csv(content, encoding=encoding, sep=separator)
    except ImportError:
        raise MissingExtraError("reading Parquet needs pyarrow: pip install 'outofcluster[cli]'.") from None
    except Exception as error:
        reason, form = one_line(error).rstrip("."), "Parquet" if parquet else "CSV"
        text = f"text in {encoding.removesuffix('-sig')}"
        sentences = {
            UnicodeError: f"FILE must be {text}, got {path!r} with bytes that are not; give its --encoding, such as "
            "latin-1.",
            LookupError: f"--encoding must be one that Python knows, such as latin-1, got {encoding!r}.",
            pd.errors.EmptyDataError: f"FILE must hold a line of column names and records, got {path!r}, which is "
            "empty.",
            pd.errors.ParserWarning: f"FILE must have one value per column in every line, got {path!r} with more "
            "values than names.",
            Exception: f"FILE must be a {form} file that can be read, got {path!r}: {reason}.",
        }
        raise InputError(next(sentences[kind] for kind in sentences if isinstance(error, kind))) from None
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"FILE must have columns of different names, got {path!r} with {repeated!r} more than once.")
    if len(frame) == 0:
        raise InputError(f"FILE must hold records, got {path!r} with column names only.")
    frame.columns = [str(name) for name in frame.columns]
    return Table(frame, hashlib.sha256(stored).hexdigest(), separator == ";")


def read_cells(path: str, option: str) -> Table:
    """Read a CSV file with every cell as the text that it is, and an empty one as an empty text."""
    with needing("reading tables needs pandas", "cli"):
        import pandas as pd
    stored = _read_bytes(path, option)
    try:
        text = stored.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Spreadsheets that do not write UTF-8 mostly write the letters of western Europe.
        text = stored.decode("cp1252", errors="replace")
    separator = max(",;\t", key=text.partition("\n")[0].count)
    try:
        frame = pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, index_col=False)
    except Exception as error:
        reason = one_line(error).rstrip(".")
        raise InputError(f"{option} must be a CSV file that can be read, got {path!r}: {reason}.") from None
    return Table(frame, hashlib.sha256(stored).hexdigest(), separator == ";")


def _read_csv(content: bytes, **options: Any) -> tuple[Any, list[str]]:
    """The frame and the names as they are in the file, where pandas would tell equal ones apart by numbers."""
    import pandas as pd

    names = pd.read_csv(io.BytesIO(content), header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    if int(pd.__version__.split(".")[0]) < 3:
        # Numbers are read as Python reads them, which later releases do by themselves.
        options["float_precision"] = "round_trip"
    with warnings.catch_warnings():
        # Without a column for the index, values beyond the names are dropped with this warning.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        # All lines of a column decide on its type, and not only some thousand at a time.
        frame = pd.read_csv(io.BytesIO(content), low_memory=False, index_col=False, **options)
    return frame, [name for name in names.iloc[0] if name]


def _read_bytes(path: str, option: str = "FILE") -> bytes:
    """What a file or a pipe holds; what is no table by its name is refused."""
    file = Path(path)
    if file.suffix.lower() in _SPREADSHEETS:
        raise InputError(f"{option} must be a CSV or Parquet file, got the spreadsheet {path!r}; save it as CSV first.")
    if path != "-" and not file.exists():
        near = list[str]()
        with suppress(OSError):
            near = difflib.get_close_matches(file.name, [other.name for other in file.parent.iterdir()], 1, 0.75)
        hint = f"; did you mean {str(file.with_name(near[0]))!r}?" if near else "."
        raise InputError(f"{option} must exist, got {path!r}{hint}")
    try:
        if path in ("-", "/dev/stdin"):
            # Opening it by its name would wait for another writer where standard input is a named pipe.
            with open(0, "rb", closefd=False) as opened:
                return opened.read()
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"{option} must be a file that can be read, got {path!r}: {error.strerror or error}."
        ) from None


def _unpack(content: bytes, path: str) -> bytes:
    """What a gzip file, or a zip of one file, holds; other content as it is."""
    try:
        if content.startswith(_GZIP):
            return gzip.decompress(content)
        if not content.startswith(_ZIP):
            return content
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            names = [info.filename for info in packed.infolist() if not info.is_dir()]
            names = [name for name in names if not name.startswith("__MACOSX/")]
            if len(names) == 1:
                return packed.read(names[0])
    except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(f"FILE must be a compressed file that can be read, got {path!r}: {error}.") from None
    raise InputError(f"FILE must be a table, or a zip that holds one and nothing else, got {path!r} with {len(names)}.")


# --- columns ------------------------------------------------------------------------------------------


def column(frame: Any, name: str, option: str, file: str = "FILE") -> NDArray[Any]:
    """The values of a column, none of them missing."""
    check_column(frame, name, option, file)
    _check_plain(frame, [name])
    _refuse_gaps(frame[name].isna().to_numpy(), name, option)
    return np.asarray(frame[name].to_numpy())


def _refuse_gaps(missing: NDArray[np.bool_], name: str, option: str, remedy: str = "") -> None:
    if missing.any():
        many, first = f"{int(missing.sum())} of them", f"the first in record {int(missing.argmax()) + 1}"
        must = f"{option} must be a column without missing values"
        raise InputError(f"{must}, got {name!r} with {many}, {first}{remedy}.")


def check_column(frame: Any, name: str, option: str, file: str = "FILE") -> None:
    """Refuse a name that no column has, and name the nearest ones."""
    if name in frame.columns:
        return
    near = difflib.get_close_matches(name, frame.columns, n=3, cutoff=0.5)
    near = near or [other for other in frame.columns if other.lower() == name.lower()]
    there = f"nearest: {shown(near)}" if near else f"there are: {shown(frame.columns)}"
    raise InputError(f"{option} must be a column of {file}, got {name!r} ({there}).")


def _check_plain(frame: Any, names: Iterable[str]) -> None:
    """Refuse columns whose values are lists or structures, as Parquet may hold them."""
    for name in names:
        value = next(iter(frame[name].dropna()), None) if frame[name].dtype == object else None
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise InputError(
                f"FILE must have columns of single values, got {name!r}, which holds a list or a structure in every "
                "record; leave it out with --drop."
            )


def read_decimal_commas(values: Any) -> tuple[Any, str | None]:
    """A column of text as numbers, None where it holds none; and a value that is no number where nearly all are."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values.dtype) or values.dtype.kind != "O":
        return None, None
    known = values.dropna()
    for words in (known[:_LOOKED_AT_FIRST], known):
        if not len(words) or not all(isinstance(word, str) for word in words):
            return None, None
        numeric = words.str.fullmatch(_NUMBER)
        if numeric.mean() < _NEARLY_ALL or not (numeric & words.str.contains(",", regex=False)).any():
            return None, None
    if not numeric.all():
        return None, str(words[~numeric].iloc[0])
    # Python reads each word by itself, so the numbers are as exact as those with points.
    return known.map(lambda word: float(word.replace(",", "."))).astype(float).reindex(values.index), None


def _with_decimal_commas(frame: Any, names: Iterable[str]) -> tuple[Any, dict[str, str]]:
    """A frame whose columns with decimal commas are numbers, and what is to be said about them."""
    read = {name: read_decimal_commas(frame[name]) for name in names}
    numbers = {name: values for name, (values, _) in read.items() if values is not None}
    nearly = [f"{name} ({other!r})" for name, (_, other) in read.items() if other is not None]
    about = {"decimal commas": first_names(list(numbers)), "nearly numbers": first_names(nearly)}
    frame = frame.copy(deep=False)
    for name, values in numbers.items():
        frame[name] = values
    return frame, about


def first_names(names: Sequence[str], most: int = 6) -> str:
    """The first few of some names, and dots for the rest."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


# --- records ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Records:
    """What a model is fitted to.

    Attributes
    ----------
    frame : DataFrame
        The feature columns as they are.
    target, groups : array
        Targets and clusters.
    classes : bool
        Whether the targets are classes.
    about : dict of str
        Where the records come from, in words.
    name : str
        What their file is called.
    rows : array of int
        Row of the file that each record comes from, counted from 0 below the names of the columns.
    account : TableAccount
        What the table holds.
    more_groups : dict of array
        Other clusters of the same records, by the name of their column.
    identity : DataFrame or None
        Columns that tell who is who and that no model sees.
    shown : DataFrame or None
        Columns that are shown or that subgroups are of, as they are in the file.
    """

    frame: Any
    target: NDArray[Any]
    groups: NDArray[Any]
    classes: bool
    about: dict[str, str]
    name: str
    rows: NDArray[np.int64]
    account: TableAccount
    more_groups: dict[str, NDArray[Any]] = field(default_factory=dict)
    identity: Any = None
    shown: Any = None

    @property
    def encoded(self) -> list[str]:
        """Columns that are not numbers."""
        import pandas as pd

        return [name for name in self.frame.columns if not pd.api.types.is_numeric_dtype(self.frame[name].dtype)]

    @property
    def infinite(self) -> dict[str, int]:
        """Features of numbers that hold infinite values, with the number of these."""
        numbers = self.frame.drop(columns=self.encoded)
        counts = {name: np.isinf(numbers[name].to_numpy(dtype=float, na_value=np.nan)).sum() for name in numbers}
        return {name: int(count) for name, count in counts.items() if count}

    def matrix(self, seed: int) -> NDArray[np.float64]:
        """The features as numbers; a missing value in a column of numbers stays NaN."""
        if not self.encoded:
            return self.frame.to_numpy(dtype=float, na_value=np.nan)  # type: ignore[no-any-return]
        how = "turned into numbers once, for all records, by skrub's TableVectorizer, which does not see the target"
        self.about["encoded"] = f"{first_names(self.encoded)}: {how}"
        with needing("columns that are not numbers need skrub", "cli"):
            skrub = importlib.import_module("skrub")
        vectoriser = skrub.TableVectorizer(high_cardinality=skrub.StringEncoder(random_state=seed))
        try:
            return vectoriser.fit_transform(self.frame).to_numpy(dtype=float)  # type: ignore[no-any-return]
        except Exception as error:
            got = f"{', '.join(map(repr, self.encoded[:6]))}: {one_line(error).rstrip('.')}"
            raise InputError(f"FILE must have columns that can be turned into numbers, got {got}.") from None

    def columns_like_clusters(self) -> list[str]:
        """Features that may be clusters of another linkage: they split or join these clusters, and are as many."""
        clusterings = (self.groups, *self.more_groups.values())
        labels = {name: each.to_numpy() for name, each in self.frame.items() if each.dtype.kind in "iuO"}
        whole = {name: values for name, values in labels.items() if not self.frame[name].isna().any()}
        return [name for name, values in whole.items() if any(_are_nested(values, other) for other in clusterings)]


def _are_nested(one: NDArray[Any], two: NDArray[Any]) -> bool:
    """Whether one of two clusterings refines the other, with many clusters in both and several records in some."""
    import pandas as pd

    pairs = pd.DataFrame({"one": one, "two": two}).drop_duplicates()
    n_coarse, n_fine = sorted((pairs["one"].nunique(), pairs["two"].nunique()))
    shared = len(one) - n_fine
    # Each cluster of the finer one is in a single pair.
    return bool(len(pairs) == n_fine and n_coarse >= max(_LEAST_CLUSTERS, n_fine / 2) and shared >= _LEAST_CLUSTERS)


def read_records(
    path: str,
    *,
    target: str,
    groups: str,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    encoding: str = "utf-8",
    wanted: Wanted,
    leave_out_ids: bool = True,
    more_groups: Sequence[str] = (),
    drop_missing_target: bool = False,
    identity: Sequence[str] = (),
    review_columns: Sequence[str] = (),
    by: Sequence[str] = (),
) -> Records:
    """The records of a file: targets, clusters, and all other columns as features."""
    table = read_table(path, encoding=encoding)
    frame, clusterings = table.frame, (groups, *more_groups)
    if target in clusterings:
        raise InputError(f"--target and --groups must be different columns, got {target!r} for both.")
    rows = _rows_with_target(frame, target, drop=drop_missing_target)
    n_dropped, commas = len(frame) - len(rows), dict[str, str]()
    if n_dropped:
        frame = frame.iloc[rows].reset_index(drop=True)
    if table.semicolons:
        frame, commas = _with_decimal_commas(frame, [name for name in frame if name not in {*clusterings, *drop}])
    y, clusters = column(frame, target, "--target"), {name: column(frame, name, "--groups") for name in clusterings}
    _check_target(y, target, classes=wanted.classes)
    named_by = {"--drop": drop, "--identity": identity, "--review-columns": review_columns, "--by": by}
    for option, names in named_by.items():
        for name in names:
            check_column(frame, name, option)
    if target in drop:
        raise InputError(f"--drop must not hold the target, got {target!r}.")
    if wrong := [name for name in identity if name in (target, *clusterings)]:
        raise InputError(f"--identity must be another column than those of target and groups, got {wrong[0]!r}.")
    seen = list(dict.fromkeys((*review_columns, *by)))
    _check_plain(frame, (*identity, *seen))
    features = frame.drop(columns=[target, *{*clusterings, *drop, *identity}])
    if features.shape[1] == 0:
        rest = "dropped ones" if not identity else "those that are dropped or tell who is who"
        raise InputError(f"FILE must have columns besides target, groups and {rest}, got {path!r} without any.")
    _check_plain(features, features.columns)
    classes = _are_classes(y, wanted.numbers) if wanted.classes is None else wanted.classes
    y = _as_classes(y, target, wanted) if classes else _as_numbers(y, target, wanted)
    account = TableAccount.of(features, y, clusters[groups], classes=classes)
    _check_slips(account, target=target, groups="" if more_groups else groups, keep=keep)
    ids = [name for name in (*account.ids, *account.like_groups) if name not in keep] if leave_out_ids else []
    if len(ids) == features.shape[1]:
        raise InputError(
            f"FILE must have features that are no ids, got {', '.join(map(repr, ids[:6]))} only; --keep takes one as a "
            "feature."
        )
    if ids:
        features = features.drop(columns=ids)
        account = TableAccount.of(features, y, clusters[groups], classes=classes)
    named = "standard input" if path == "-" else Path(path).name
    names, labels = account.features, np.unique(y).tolist() if classes else []
    look_like_ids = "they look like ids" if len(ids) > 1 else "it looks like an id"
    about = {
        "data": f"{named}, {len(frame):,} records of {len(np.unique(clusters[groups].astype(str))):,} clusters",
        "sha256": table.sha256,
        "target": f"{target} ({'classes ' + first_names([str(label) for label in labels]) if classes else 'numbers'})",
        "groups": groups,
        "features": ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else ""),
        "dropped": ", ".join(drop),
        "identity": ", ".join(identity),
        **commas,
        "dropped records": f"{n_dropped:,} records without a target" if n_dropped else "",
        "left out": f"{', '.join(ids)} ({look_like_ids})" if ids else "",
    }
    return Records(
        features,
        y,
        clusters[groups],
        classes,
        {name: words for name, words in about.items() if words},
        named,
        rows,
        # Copies of the target that are still there are meant.
        replace(account, copies=()),
        {name: clusters[name] for name in more_groups},
        identity=frame[list(dict.fromkeys(identity))] if identity else None,
        shown=frame[seen] if seen else None,
    )


def _rows_with_target(frame: Any, target: str, *, drop: bool) -> NDArray[np.int64]:
    """The rows of all records, or of those that have a target where the others are to be dropped."""
    check_column(frame, target, "--target")
    missing = frame[target].isna().to_numpy()
    if missing.all():
        raise InputError(f"--target must be a column with values, got {target!r}, which is empty.")
    if not drop:
        _refuse_gaps(missing, target, "--target", "; --drop-missing-target leaves these records out")
    return np.flatnonzero(~missing)


def _check_target(values: NDArray[Any], name: str, *, classes: bool | None) -> None:
    """Refuse a column of dates, numbers with words among them, and text that differs in most records."""
    if looks_like_dates(values):
        raise InputError(
            f"--target must hold classes or numbers, got dates such as {str(values[0])!r} in column {name!r}."
        )
    if values.dtype.kind in "biuf" or classes:
        return
    words = values.astype(str)
    numeric = np.array([_is_number(word) for word in words])
    if 0.5 < numeric.mean() < 1:
        raise InputError(
            f"--target must hold numbers or classes, got numbers with words such as {str(words[~numeric][0])!r} among "
            f"them in column {name!r}; leave the words empty, and give --drop-missing-target."
        )
    different = len(np.unique(words))
    if different > max(_MOST_CLASSES, len(words) / 2):
        raise InputError(
            f"--target must hold classes that occur several times, got {different:,} different values in "
            f"{len(words):,} records of column {name!r}; is it another column?"
        )


def _is_number(word: str) -> bool:
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True


def _are_classes(y: NDArray[Any], numbers: bool) -> bool:
    if numbers or y.dtype.kind not in "iuf":
        return y.dtype.kind not in "iuf"
    return bool(len(np.unique(y)) <= _MOST_CLASSES and (y == np.floor(y)).all())


def _as_numbers(y: NDArray[Any], name: str, wanted: Wanted) -> NDArray[np.float64]:
    if y.dtype.kind not in "biuf":
        words = [str(value) for value in y.tolist()]
        word = next((word for word in words if not _is_number(word)), words[0])
        raise wanted.refusal(f"numbers, for {word!r} in column {name!r}")
    return y.astype(float)


def _as_classes(y: NDArray[Any], name: str, wanted: Wanted) -> NDArray[Any]:
    labels = y.astype(str) if y.dtype.kind == "O" else y
    if labels.dtype.kind == "f":
        broken = labels[labels != np.floor(labels)]
        if len(broken):
            raise wanted.refusal(f"classes, for {broken[0]:g} in column {name!r}")
        labels = labels.astype(np.int64)
    if (labels == labels[0]).all():
        raise InputError(f"--target must hold at least two classes, got only {str(labels[0])!r} in column {name!r}.")
    return labels


def _check_slips(account: TableAccount, *, target: str, groups: str, keep: Sequence[str]) -> None:
    """Refuse what cannot be meant: record numbers as clusters, where there are such, and copies of the target."""
    for name in keep:
        if name not in account.features:
            raise InputError(f"--keep must be a feature, got {name!r}.")
    if groups and account.n_single == account.n_records:
        raise InputError(
            f"--groups must be a column of clusters, got {groups!r} with another value in every record; is it a column "
            "of record numbers?"
        )
    copies = [name for name in account.copies if name not in keep]
    if copies:
        quoted = f"'{copies[0]}'" if any(letter.isspace() for letter in copies[0]) else copies[0]
        raise InputError(
            f"FILE must not have the target among the features, got {copies[0]!r}, which is {target!r} in other words; "
            f"leave it out with --drop {quoted}, or say that it is meant with --keep {quoted}."
        )

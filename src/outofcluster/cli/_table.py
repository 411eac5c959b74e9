"""Tables of records: CSV and Parquet, compressed or not, columns by name, and features as numbers.

Columns that are not numbers are turned into numbers by skrub's TableVectorizer, once for all records. It never sees the
target, so nothing about the target can leak, and fitting it anew in every resample would take far longer than fitting
the models. Imputing and scaling belong to the models and are fitted along with them.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import importlib
import io
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.cli._commas import with_decimal_commas
from outofcluster.cli._target import check_target, first_word, with_targets

_PARQUET = (".parquet", ".pq")
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
"""What compressed files start with."""
_MOST_CLASSES = 20
"""Whole numbers with at most this many different values are classes, unless the model or the loss says otherwise."""


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
    more_groups : dict of array
        Other clusters of the same records, by the name of their column.
    """

    frame: Any
    target: NDArray[Any]
    groups: NDArray[Any]
    classes: bool
    about: dict[str, str]
    name: str
    rows: NDArray[np.int64]
    more_groups: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def encoded(self) -> list[str]:
        """Columns that are not numbers."""
        import pandas as pd

        numeric = pd.api.types.is_numeric_dtype
        return [name for name, dtype in zip(self.frame.columns, self.frame.dtypes, strict=True) if not numeric(dtype)]

    @property
    def infinite(self) -> dict[str, int]:
        """Features of numbers that hold infinite values, with the number of these."""
        words = set(self.encoded)
        counts = {
            name: int(np.isinf(self.frame[name].to_numpy(dtype=float, na_value=np.nan)).sum())
            for name in self.frame.columns
            if name not in words
        }
        return {name: count for name, count in counts.items() if count}

    def matrix(self, seed: int) -> NDArray[np.float64]:
        """The features as numbers; a missing value in a column of numbers stays NaN."""
        if not self.encoded:
            return self.frame.to_numpy(dtype=float, na_value=np.nan)  # type: ignore[no-any-return]
        try:
            skrub = importlib.import_module("skrub")
        except ImportError:
            raise MissingExtraError(
                "columns that are not numbers need skrub: pip install 'outofcluster[cli]'."
            ) from None
        vectoriser = skrub.TableVectorizer(high_cardinality=skrub.StringEncoder(random_state=seed))
        try:
            return vectoriser.fit_transform(self.frame).to_numpy(dtype=float)  # type: ignore[no-any-return]
        except Exception as error:
            names, reason = ", ".join(map(repr, self.encoded[:6])), " ".join(str(error).split()).rstrip(".")
            raise InputError(
                f"FILE must have columns that can be turned into numbers, got {names}: {reason}."
            ) from None


def read_table(path: str, *, encoding: str = "utf-8") -> Any:
    """Read a CSV or Parquet file as a data frame."""
    return _read(path, encoding)[0]


def _read(path: str, encoding: str) -> tuple[Any, str, bool]:
    """The table, the sha256 of its file, of which a pipe is read once, and whether semicolons part its values."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("reading tables needs pandas: pip install 'outofcluster[cli]'.") from None
    source, digest = _source(path)
    semicolons = False
    parquet = _starts_with(source, b"PAR1") or Path(path).suffix.lower() in _PARQUET
    try:
        if parquet:
            frame = pd.read_parquet(_opened(source))
        else:
            encoding = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
            options: dict[str, Any] = {"encoding": encoding, "sep": _separator(source, encoding)}
            semicolons = options["sep"] == ";"
            names = pd.read_csv(_opened(source), header=None, nrows=1, dtype=str, keep_default_na=False, **options)
            _check_names([name for name in names.iloc[0] if name], path)
            if int(pd.__version__.split(".")[0]) < 3:
                # Numbers are read as Python reads them, which later releases do by themselves.
                options["float_precision"] = "round_trip"
            # All lines of a column decide on its type, and not only some thousand at a time.
            with warnings.catch_warnings():
                # Without a column for the index, values beyond the names are dropped with this warning.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(_opened(source), low_memory=False, index_col=False, **options)
    except UnicodeError:
        raise InputError(
            f"FILE must be text in {encoding.removesuffix('-sig')}, got {path!r} with bytes that are not; give its "
            "--encoding, such as latin-1."
        ) from None
    except LookupError:
        raise InputError(f"--encoding must be one that Python knows, such as latin-1, got {encoding!r}.") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"FILE must hold a line of column names and records, got {path!r}, which is empty.") from None
    except pd.errors.ParserWarning:
        raise InputError(
            f"FILE must have one value per column in every line, got {path!r} with more values than names."
        ) from None
    except ImportError:
        raise MissingExtraError("reading Parquet needs pyarrow: pip install 'outofcluster[cli]'.") from None
    except InputError:
        raise
    except Exception as error:
        kind = "Parquet" if parquet else "CSV"
        reason = " ".join(str(error).split())
        raise InputError(f"FILE must be a {kind} file that can be read, got {path!r}: {reason.rstrip('.')}.") from None
    if len(frame) == 0:
        raise InputError(f"FILE must hold records, got {path!r} with column names only.")
    frame.columns = [str(name) for name in frame.columns]
    _check_names(list(frame.columns), path)
    return frame, digest, semicolons


def _source(path: str) -> tuple[Path | bytes, str]:
    """Where to read a table from: its file or, where that is compressed or can be read once only, its content."""
    file = Path(path)
    if file.suffix.lower() in _SPREADSHEETS:
        raise InputError(f"FILE must be a CSV or Parquet file, got the spreadsheet {path!r}; save it as CSV first.")
    if path != "-" and file.is_dir():
        raise InputError(f"FILE must be a CSV or Parquet file, got the folder {path!r}.")
    if path != "-" and not file.exists():
        near = difflib.get_close_matches(file.name, _neighbours(file), n=1, cutoff=0.75)
        hint = f"; did you mean {str(file.with_name(near[0]))!r}?" if near else "."
        raise InputError(f"FILE must exist, got {path!r}{hint}")
    try:
        if path == "-":
            content = sys.stdin.buffer.read()
        elif path == "/dev/stdin":
            # Opening it again would wait for another writer where standard input is a named pipe.
            with open(0, "rb", closefd=False) as opened:
                content = opened.read()
        elif not file.is_file() or path.startswith(("/dev/", "/proc/")):
            content = file.read_bytes()
        else:
            with open(file, "rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            if not _starts_with(file, _GZIP) and not _starts_with(file, _ZIP):
                return file, digest
            content = file.read_bytes()
    except (OSError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "there is no standard input"
        raise InputError(f"FILE must be a file that can be read, got {path!r}: {reason}.") from None
    return _unpacked(content, path), hashlib.sha256(content).hexdigest()


def _unpacked(content: bytes, path: str) -> bytes:
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


def _opened(source: Path | bytes) -> Any:
    return io.BytesIO(source) if isinstance(source, bytes) else source


def _starts_with(source: Path | bytes, start: bytes) -> bool:
    if isinstance(source, bytes):
        return source.startswith(start)
    with open(source, "rb") as file:
        return file.read(len(start)) == start


def _check_names(names: list[str], path: str) -> None:
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"FILE must have columns of different names, got {path!r} with {repeated!r} more than once.")


def _check_plain(frame: Any, names: list[str]) -> None:
    """Refuse columns whose values are lists or structures, as Parquet may hold them."""
    for name in names:
        values = frame[name]
        if values.dtype == object:
            value = next(iter(values.dropna()), None)
            if isinstance(value, list | tuple | dict | set | np.ndarray):
                raise InputError(
                    f"FILE must have columns of single values, got {name!r}, which holds a list or a structure in "
                    "every record; leave it out with --drop."
                )


def column(frame: Any, name: str, option: str, file: str = "FILE") -> NDArray[Any]:
    """The values of a column, none of them missing; if there is no such column, the error names the nearest ones."""
    _find(frame, name, option, file)
    _check_plain(frame, [name])
    values = frame[name]
    missing = values.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"{option} must be a column without missing values, got {name!r} with {int(missing.sum())} of them, the "
            f"first in record {int(missing.argmax()) + 1}."
        )
    return np.asarray(values.to_numpy())


def read_records(
    path: str,
    *,
    target: str,
    groups: str,
    drop: tuple[str, ...],
    encoding: str,
    classes: bool | None,
    numbers: bool,
    wanted_by: tuple[str, str] = ("--task", ""),
    more_groups: tuple[str, ...] = (),
    drop_missing_target: bool = False,
) -> Records:
    """The records of a file: targets, clusters, and all other columns as features.

    ``classes`` says whether the targets are classes, if an option tells, and ``wanted_by`` is the option and its value.
    ``numbers`` says that a target of numbers is never taken for classes.
    """
    frame, digest, semicolons = _read(path, encoding)
    if target in (groups, *more_groups):
        raise InputError(f"--target and --groups must be different columns, got {target!r} for both.")
    n_read = len(frame)
    frame, rows = with_targets(frame, target, drop=drop_missing_target)
    said = dict[str, str]()
    if semicolons:
        others_than = {groups, *more_groups, *drop}
        frame, commas, nearly = with_decimal_commas(frame, [name for name in frame.columns if name not in others_than])
        if commas:
            said["decimal commas"] = _shown(commas)
        if nearly:
            said["nearly numbers"] = _shown([f"{name} ({value!r})" for name, value in nearly.items()])
    y, clusters = column(frame, target, "--target"), column(frame, groups, "--groups")
    others = {name: column(frame, name, "--groups") for name in more_groups}
    check_target(y, target, classes=classes)
    for name in drop:
        _find(frame, name, "--drop")
        if name == target:
            raise InputError(f"--drop must not hold the target, got {name!r}.")
    features = frame.drop(columns=[target, *{groups, *more_groups, *drop}])
    if features.shape[1] == 0:
        raise InputError(f"FILE must have columns besides target, groups and dropped ones, got {path!r} without any.")
    _check_plain(features, list(features.columns))
    as_classes = _are_classes(y, numbers) if classes is None else classes
    y = _targets(y, target, as_classes, wanted_by)
    names = list(features.columns)
    kind = f"classes {', '.join(map(str, np.unique(y)[:6]))}" if as_classes else "numbers"
    named = "standard input" if path == "-" else Path(path).name
    about = {
        "data": f"{named}, {len(frame):,} records of {len(np.unique(clusters.astype(str))):,} clusters",
        "sha256": digest,
        "target": f"{target} ({kind}{', …' if as_classes and len(np.unique(y)) > 6 else ''})",
        "groups": groups,
        "features": ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else ""),
    }
    about |= said
    if drop:
        about["dropped"] = ", ".join(drop)
    if len(frame) < n_read:
        about["dropped records"] = f"{n_read - len(frame):,} records without a target"
    return Records(features, y, clusters, as_classes, about, named, rows, others)


def _shown(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")


def _neighbours(file: Path) -> list[str]:
    try:
        return [other.name for other in file.parent.iterdir()]
    except OSError:
        return []


def _separator(source: Path | bytes, encoding: str) -> str:
    """The separator that occurs most often in the line of column names."""
    if isinstance(source, bytes):
        first = io.TextIOWrapper(io.BytesIO(source), encoding=encoding).readline()
    else:
        with open(source, encoding=encoding) as lines:
            first = lines.readline()
    return max(",;\t", key=first.count)


def _find(frame: Any, name: str, option: str, file: str = "FILE") -> None:
    if name in frame.columns:
        return
    near = difflib.get_close_matches(name, frame.columns, n=3, cutoff=0.5)
    near = near or [other for other in frame.columns if other.lower() == name.lower()]
    there = near or list(frame.columns[:6])
    which = "nearest" if near else "there are"
    more = ", …" if not near and len(frame.columns) > 6 else ""
    raise InputError(
        f"{option} must be a column of {file}, got {name!r} ({which}: {', '.join(map(repr, there))}{more})."
    )


def _are_classes(y: NDArray[Any], numbers: bool) -> bool:
    if numbers or y.dtype.kind not in "iuf":
        return y.dtype.kind not in "iuf"
    return bool(len(np.unique(y)) <= _MOST_CLASSES and (y == np.floor(y)).all())


def _targets(y: NDArray[Any], name: str, classes: bool, wanted_by: tuple[str, str]) -> NDArray[Any]:
    option, value = wanted_by
    must = f"{option} must suit the target, got {value!r}, which takes"
    if not classes:
        if y.dtype.kind not in "biuf":
            raise InputError(f"{must} numbers, for {first_word(y)!r} in column {name!r}.")
        return y.astype(float)
    labels = y.astype(str) if y.dtype.kind == "O" else y
    if labels.dtype.kind == "f":
        if (labels != np.floor(labels)).any():
            number = labels[labels != np.floor(labels)][0]
            raise InputError(f"{must} classes, for {number:g} in column {name!r}.")
        labels = labels.astype(np.int64)
    classes_present = np.unique(labels)
    if len(classes_present) < 2:
        raise InputError(
            f"--target must hold at least two classes, got only {str(classes_present[0])!r} in column {name!r}."
        )
    return labels

"""Bunch, and the four data sets of the paper, prepared as the paper did and with its clusters to train and validate on.

What they have in common is filled in from a table of sources. Their descriptions are texts in the folder ``descr``.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from outofcluster._base.arguments import Array, check_choice, check_flag
from outofcluster.datasets._files import DataHome, Source, read_files


@dataclass(frozen=True, eq=False, repr=False)
class Bunch:
    """Records, their true clusters, and the split that goes with them.

    Attributes
    ----------
    data : array of shape (n, features)
        Features.
    target : array of shape (n,)
        Class of every record, a place in ``target_names``; a number for regression.
    groups : array of str of shape (n,)
        True cluster of every record.
    train_groups, validation_groups : tuple of str
        Clusters to train on, and clusters that are held out.
    feature_names : tuple of str
        Names of the columns; ``"cp=atypical"`` is 1 where ``cp`` is atypical and 0 elsewhere.
    target_names : tuple of str
        Names of the classes; empty for regression.
    licence : str
        Terms of use, and whom to name.
    DESCR : str
        Where the data come from, what was done to them, and what to beware of.
    e0 : float or None
        The loss on the validation clusters without leakage, where it is known.

    Examples
    --------
    >>> from outofcluster.datasets import make_partition
    >>> bunch = make_partition(15, 1000, random_state=0)
    >>> bunch.data.shape, bunch.train_groups, len(bunch.validation_rows)
    ((1015, 1), ('part 1',), 1000)
    """

    data: Array
    target: NDArray[Any]
    groups: NDArray[np.str_]
    train_groups: tuple[str, ...]
    validation_groups: tuple[str, ...]
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    licence: str
    DESCR: str
    e0: float | None = None

    @property
    def train_rows(self) -> NDArray[np.int64]:
        """Rows of the training clusters, increasing."""
        return np.flatnonzero(np.isin(self.groups, self.train_groups))

    @property
    def validation_rows(self) -> NDArray[np.int64]:
        """Rows of the validation clusters, increasing."""
        return np.flatnonzero(np.isin(self.groups, self.validation_groups))

    def __repr__(self) -> str:
        n, d = self.data.shape
        return (
            f"Bunch({n} records, {d} features; {len(self.train_rows)} records in {len(self.train_groups)} training "
            f"and {len(self.validation_rows)} in {len(self.validation_groups)} validation clusters)"
        )


HEART = Source(
    folder="heart",
    number=45,
    archive="heart+disease",
    creators="A. Janosi, W. Steinbrunn, M. Pfisterer and R. Detrano",
    sha256={
        "processed.cleveland.data": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
        "processed.hungarian.data": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
        "processed.switzerland.data": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
        "processed.va.data": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
    },
    train_groups=("Cleveland", "VA", "Switzerland"),
    validation_groups=("Hungary",),
    target_names=("healthy", "ill"),
)
ADULT = Source(
    folder="adult",
    number=2,
    archive="adult",
    creators="B. Becker and R. Kohavi",
    sha256={"adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"},
    train_groups=("United-States", "El-Salvador", "Germany", "Mexico", "Philippines", "Puerto-Rico"),
    validation_groups=("India", "Canada"),
    target_names=("<=50K", ">50K"),
)
PARKINSON = Source(
    folder="parkinson_speech",
    number=301,
    archive="parkinson+speech+dataset+with+multiple+types+of+sound+recordings",
    creators="B. E. Sakar and others",
    sha256={"train_data.txt": "2aade96f0355f61c6cd057bda9a1bcb3f3968960c22ad6e29d7a1e8f1a05ad35"},
    train_groups=tuple(str(person) for person in range(1, 41) if person % 4 != 1),
    validation_groups=tuple(str(person) for person in range(1, 41, 4)),
    target_names=("healthy", "ill"),
)
DOTA2 = Source(
    folder="dota2",
    number=367,
    archive="dota2+games+results",
    creators="S. Tridgell",
    sha256={
        "dota2Train.csv": "16823bf0ad99b4931e94809268807ef398edb7b1288b12b384aeddbee3d9ebda",
        "dota2Test.csv": "bcc9ce564421db7340b1464dedd2691bb18af06613726ff72d142ffc2ee2aff9",
    },
    train_groups=("type 1", "type 2"),
    validation_groups=("type 3",),
    target_names=("lost", "won"),
)

_HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "VA")
_HEART_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal"),
    "num",
)
_HEART_CATEGORIES = {
    "sex": {"0": "female", "1": "male"},
    "cp": {"1": "typical", "2": "atypical", "3": "non-anginal", "4": "asymptomatic"},
    "restecg": {"0": "normal", "1": "abnormal", "2": "hypertrophy"},
    "slope": {"1": "up", "2": "flat", "3": "down"},
    "thal": {"3": "normal", "6": "fixed", "7": "reversible"},
}
_CENSUS_COLUMNS = {"age": 0, "education_num": 4, "hours_per_week": 12, "race": 8, "occupation": 6}
_COUNTRY, _INCOME = 13, 14
_VOICE = (
    *("jitter_local", "jitter_abs", "jitter_rap", "jitter_ppq5", "jitter_ddp"),
    *("shimmer_local", "shimmer_db", "shimmer_apq3", "shimmer_apq5", "shimmer_apq11", "shimmer_dda"),
    *("ac", "nth", "htn", "median_pitch", "mean_pitch", "std_dev", "min_pitch", "max_pitch"),
    *("pulses", "periods", "mean_period", "std_dev_period", "unvoiced", "breaks", "deg_breaks"),
)
_GAMES = {"train": ["dota2Train.csv"], "test": ["dota2Test.csv"], "all": ["dota2Train.csv", "dota2Test.csv"]}
_TYPE, _FIRST_HERO = 3, 4


def load_heart(*, data_home: DataHome = None) -> Bunch:
    """Heart disease in four hospitals: 741 patients, 25 columns of features, clusters are hospitals.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``heart/processed.cleveland.data`` and the files of the other three hospitals, plain or
        gzipped. By default the one that the environment variable ``OUTOFCLUSTER_DATA`` names; if it is not set either,
        the files are downloaded with pooch and kept in its folder for caches.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_heart
    >>> heart = load_heart()  # doctest: +SKIP
    >>> len(heart.train_rows), len(heart.validation_rows)  # doctest: +SKIP
    (479, 262)
    """
    # The paper drops `ca`, which most hospitals did not record; sex, cp, restecg, slope and thal are categories, of
    # which `missing` is one; then it drops records that lack any other value.
    tables = [_read_texts(content) for content in read_files(HEART, list(HEART.sha256), data_home)]
    table, groups = np.vstack(tables), np.repeat(_HOSPITALS, [len(part) for part in tables])
    required = [name not in {"ca", *_HEART_CATEGORIES} for name in _HEART_COLUMNS]
    kept = (table[:, required] != "?").all(axis=1)
    columns = dict(zip(_HEART_COLUMNS, table[kept].T, strict=True))
    target = columns.pop("num").astype(float) >= 1
    del columns["ca"]
    return _bunch(HEART, target, groups[kept], *_feature_matrix(columns, _HEART_CATEGORIES))


def load_census(*, data_home: DataHome = None) -> Bunch:
    """Income in the US census of 1994: 30,589 people, clusters are countries of birth.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``adult/adult.data``, plain or gzipped. By default the one that the environment variable
        ``OUTOFCLUSTER_DATA`` names; if it is not set either, the file is downloaded with pooch and kept in its folder
        for caches.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_census
    >>> census = load_census()  # doctest: +SKIP
    >>> len(census.train_rows), len(census.validation_rows)  # doctest: +SKIP
    (30368, 221)
    """
    (content,) = read_files(ADULT, list(ADULT.sha256), data_home)
    table = _read_texts(content, ", ")
    table = table[np.isin(table[:, _COUNTRY], (*ADULT.train_groups, *ADULT.validation_groups))]
    columns = {name: table[:, index] for name, index in _CENSUS_COLUMNS.items()}
    matrix = _feature_matrix(columns, {"race": None, "occupation": None})
    return _bunch(ADULT, table[:, _INCOME] == ">50K", table[:, _COUNTRY].tolist(), *matrix)


def load_parkinson(*, data_home: DataHome = None) -> Bunch:
    """Voices with and without Parkinson's disease: 1,040 recordings, 26 features, clusters are people.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``parkinson_speech/train_data.txt``, plain or gzipped. By default the one that the environment
        variable ``OUTOFCLUSTER_DATA`` names; if it is not set either, the file is downloaded with pooch and kept in
        its folder for caches. If the archive holds it in a form that has to be unpacked by hand, the message says so.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_parkinson
    >>> parkinson = load_parkinson()  # doctest: +SKIP
    >>> len(parkinson.train_rows), len(parkinson.validation_rows)  # doctest: +SKIP
    (780, 260)
    """
    table = _read_numbers(read_files(PARKINSON, list(PARKINSON.sha256), data_home))
    # The first column is the person, the last two are UPDRS, which gives the answer away, and the target.
    return _bunch(PARKINSON, table[:, -1], table[:, 0].astype(np.int64).astype(str), table[:, 1:-2], _VOICE)


def load_dota2(
    *, data_home: DataHome = None, subset: Literal["train", "test", "all"] = "train", include_type: bool = False
) -> Bunch:
    """Who wins a game of Dota 2: 92,650 games, 113 features, clusters are types of game.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``dota2/dota2Train.csv`` and ``dota2/dota2Test.csv``, plain or gzipped. By default the one
        that the environment variable ``OUTOFCLUSTER_DATA`` names; if it is not set either, the files are downloaded
        with pooch and kept in its folder for caches.
    subset : {"train", "test", "all"}, default="train"
        The file to read. The paper uses "train" alone, and splits it by type of game.
    include_type : bool, default=False
        Put the type of game before the heroes, as the paper's experiments did. It identifies the cluster.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_dota2
    >>> dota2 = load_dota2()  # doctest: +SKIP
    >>> len(dota2.train_rows), len(dota2.validation_rows)  # doctest: +SKIP
    (57003, 35647)
    """
    check_choice("subset", subset, tuple(_GAMES))
    with_type = check_flag("include_type", include_type)
    table = _read_numbers(read_files(DOTA2, _GAMES[subset], data_home), np.int16)
    groups = np.array(["type 0", "type 1", "type 2", "type 3"])[table[:, _TYPE]]
    names = ["type", *(f"hero{i}" for i in range(table.shape[1] - _FIRST_HERO))]
    first = 0 if with_type else 1
    return _bunch(DOTA2, table[:, 0] > 0, groups, table[:, _TYPE + first :], names[first:])


def _bunch(source: Source, target: Any, groups: Any, data: NDArray[Any], feature_names: Sequence[str]) -> Bunch:
    """Records together with what their source says of them."""
    return Bunch(
        # As floats, because sums of products of small integers overflow without any warning.
        data=data.astype(float, order="C"),
        target=np.asarray(target).astype(np.int64),
        groups=np.array(groups),
        train_groups=source.train_groups,
        validation_groups=source.validation_groups,
        feature_names=tuple(feature_names),
        target_names=source.target_names,
        licence=f"CC BY 4.0 (attribution: the UCI Machine Learning Repository and {source.creators})",
        DESCR=describe(source.folder),
    )


def describe(name: str) -> str:
    """The description of a data set, one of the texts in the folder ``descr``."""
    return (resources.files("outofcluster.datasets") / "descr" / f"{name}.txt").read_text(encoding="utf-8")


# --- from the text of a file to a matrix -----------------------------------------------------------------


def _read_texts(content: bytes, separator: str = ",") -> NDArray[np.str_]:
    """The fields of every line that is not blank."""
    return np.array([line.split(separator) for line in content.decode().splitlines() if line])


def _read_numbers(contents: Iterable[bytes], dtype: DTypeLike = float) -> NDArray[Any]:
    """The rows of files that hold numbers with commas between them, one file after another."""
    return np.vstack([np.loadtxt(io.BytesIO(content), delimiter=",", dtype=dtype) for content in contents])


def _feature_matrix(
    columns: Mapping[str, NDArray[np.str_]], categories: Mapping[str, Mapping[str, str] | None]
) -> tuple[Array, list[str]]:
    """Numbers as they are, and one column of 0 and 1 for each value that a categorical column takes; and their names.

    Categories without labels are called by their values, and a value that was not recorded is the category "missing".
    """
    parts: list[Array] = []
    names: list[str] = []
    for name, texts in columns.items():
        if name not in categories:
            parts.append(texts.astype(float)[:, None])
            names.append(name)
            continue
        # One hospital writes 1.0 where the others write 1.
        values = [text.removesuffix(".0") for text in texts.tolist()]
        taken = set(values)
        labels = categories[name] or {value: value for value in sorted(taken - {"?"})}
        # A value that no record has would be a column of zeros.
        coded = {value: label for value, label in {**labels, "?": "missing"}.items() if value in taken}
        parts.append((np.array(values)[:, None] == np.array(list(coded))).astype(float))
        names += [f"{name}={label}" for label in coded.values()]
    return np.hstack(parts), names

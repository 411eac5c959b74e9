r"""An account of the table before any model is fitted: its records, clusters, features and target, and common slips.

*Ids.* A feature is taken for an id if it holds whole numbers or short words without a space and no value occurs twice,
or if its name says that it is one and it has at least half as many values as there are clusters. Numbers with a
fraction, dates and free text are no ids.

*The target among the features.* Let a feature have k different values. It determines the target if every one of its
values goes along with a single value of the target. By chance that happens easily if k is near the number of clusters,
since the target may be the same for all records of a cluster. It counts where every value is seen in five clusters or
more on average, :math:`k \le K / 5`, and where a single threshold of a number tells two classes apart. The feature is a
copy of the target if the converse holds as well, or if both are numbers that rise together, or fall, without a single
exception.

Columns are looked at only as long as they may still be one of these, so that a large table costs little.

*Models* are called "logistic regression" in the place of the line of code that made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import AnyArray, Codes, missing_values
from outofcluster._base.exceptions import InputError
from outofcluster._base.text import percentage

_ID_NAME = re.compile(
    r"(^|[_\W])(id|ids|uuid|guid|rowid|row|index|key)$|[a-z](Id|ID|UUID)$|^unnamed: 0$|^(id|uuid|guid)[_\W]",
)
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ].*)?$")
_NUMBER = re.compile(r"\s*[-+]?\d+[.,]\d+\s*$")
# Records from which values that all differ say something.
_LEAST_RECORDS = 20
_LONGEST_ID = 64
_CLUSTERS_PER_VALUE = 5
# Share of the records that are alone in their clusters, above which the clusters may be record numbers.
_RECORD_NUMBERS = 0.95
# Records that are looked at first; most columns are done with after them.
_FIRST = 500
# Rows of a matrix in which gaps are counted at once.
_ROWS_AT_ONCE = 10_000
_SHOWN_CLASSES, _SHOWN_NAMES = 6, 12


@dataclass(frozen=True)
class TableAccount:
    r"""What a table of records holds.

    Attributes
    ----------
    n_records, n_clusters, n_single : int
        Records, clusters, and clusters of a single record.
    typical, largest : int
        Median and largest number of records of a cluster.
    n_features : int
        Number of features.
    features : tuple of str
        Their names, where they have some.
    n_classes : int
        Number of classes of the target; 0 where it is a number.
    classes : tuple of (str, int)
        The most frequent classes with their numbers of records.
    variance : float or None
        Variance of a target of numbers; None for classes.
    numbers : bool
        Whether the classes are whole numbers.
    gaps : tuple of (str, int)
        Features with missing values, and how many.
    ids : tuple of str
        Features that look like ids.
    copies, determining : tuple of str
        Features that are the target in other words, and others that determine it.
    like_groups : tuple of str
        Features that are the clusters themselves.
    constant : dict of float
        What the best constant prediction loses, by the name of the loss; empty for several targets.

    Examples
    --------
    >>> import pandas as pd
    >>> from outofcluster.problem.account import TableAccount
    >>> frame = pd.DataFrame({"visit_id": range(40), "age": [30.5, 41.5] * 20, "sick": ["no", "yes"] * 20})
    >>> account = TableAccount.of(frame, [0, 1] * 20, np.repeat(range(10), 4), classes=True)
    >>> account.ids, account.copies
    (('visit_id',), ('age', 'sick'))
    >>> print(*account.lines, sep="\n")
    40 records of 10 clusters, 4 records in a typical cluster.
    The target has 2 classes: 0 (50 %), 1 (50 %).
    3 features: visit_id, age, sick; no missing values.
    """

    n_records: int
    n_clusters: int
    n_single: int
    typical: int
    largest: int
    n_features: int
    features: tuple[str, ...] = ()
    n_classes: int = 0
    classes: tuple[tuple[str, int], ...] = ()
    variance: float | None = None
    numbers: bool = False
    gaps: tuple[tuple[str, int], ...] = ()
    ids: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    determining: tuple[str, ...] = ()
    like_groups: tuple[str, ...] = ()
    constant: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Any, y: Any, groups: Any, *, classes: bool, codes: Codes | None = None) -> Self:
        """The account of checked records."""
        target = np.asarray(y)
        clusters = _codes(np.asarray(groups)) if codes is None else codes
        if target.dtype.kind in "mM":
            raise InputError(f"y must hold classes or numbers, got dates or times, such as {str(target[0])[:19]}.")
        sizes = np.bincount(clusters)
        shape = getattr(X, "shape", (len(target), 0))
        named = tuple(str(name) for name in X.columns) if hasattr(X, "columns") else ()
        about: dict[str, Any] = {"n_features": int(shape[1]) if len(shape) > 1 else 1, "features": named}
        if classes and target.ndim == 1:
            labels, counts = np.unique(_sortable(target), return_counts=True)
            order = np.argsort(-counts, kind="stable")[:_SHOWN_CLASSES]
            about |= {"n_classes": len(labels), "numbers": target.dtype.kind in "iuf"}
            about["classes"] = tuple((str(labels[i]), int(counts[i])) for i in order)
            shares = counts / counts.sum()
            squares = 1 - float(shares @ shares)
            # Of two classes one probability counts for Brier's score, of several all of them.
            brier = squares / 2 if len(shares) == 2 else squares
            entropy = -float(shares @ np.log(shares))
            about["constant"] = {"zero_one": 1 - float(shares.max()), "log_loss": entropy, "brier": brier}
        elif target.dtype.kind in "biuf":
            # Numbers whose squares are too large are refused in words when they are scored.
            with np.errstate(over="ignore", invalid="ignore"):
                values = target.astype(float)
                about["variance"] = float(np.var(values))
                if target.ndim == 1:
                    spread = float(np.mean(np.abs(values - np.median(values))))
                    about["constant"] = {"squared_error": about["variance"], "absolute_error": spread}
        if target.ndim == 1:
            # Values that cannot be compared with each other are no slip that could be named.
            with suppress(TypeError, ValueError):
                about |= _slips(X, target, groups, clusters)
        single, typical, largest = (sizes == 1).sum(), np.median(sizes), sizes.max()
        return cls(len(target), len(sizes), int(single), int(typical), int(largest), **about)

    @property
    def looks_like_record_numbers(self) -> bool:
        """Whether hardly any cluster has a second record, as where record numbers are taken for clusters."""
        return self.n_single > _RECORD_NUMBERS * self.n_records

    @property
    def looks_swapped(self) -> bool:
        """Whether there are only few clusters and many classes, each with several records."""
        few = self.n_clusters < _CLUSTERS_PER_VALUE
        return few and _CLUSTERS_PER_VALUE * self.n_clusters < self.n_classes <= self.n_records / 2

    @property
    def lines(self) -> tuple[str, ...]:
        """The account in sentences: clusters, target, and features."""
        return (self.clusters_in_words, self.target_in_words, self.features_in_words)

    @property
    def clusters_in_words(self) -> str:
        """Records and clusters."""
        sizes = f"{_count(self.typical, 'record')} in a typical cluster"
        if self.largest > self.typical:
            sizes += f" and {self.largest:,} in the largest"
        if self.n_single:
            sizes += f"; {_count(self.n_single, 'cluster')} with a single record"
        return f"{_count(self.n_records, 'record')} of {_count(self.n_clusters, 'cluster')}, {sizes}."

    @property
    def target_in_words(self) -> str:
        """The kind of the target, and how often each class occurs."""
        if not self.n_classes:
            return "The target is a number."
        classes = _count(self.n_classes, "class", "classes")
        return f"The target has {classes}: {self._with_shares(self.classes, self.n_classes)}."

    @property
    def features_in_words(self) -> str:
        """The features, and where values are missing."""
        names = ", ".join(self.features[:_SHOWN_NAMES]) + (", …" if len(self.features) > _SHOWN_NAMES else "")
        words = _count(self.n_features, "feature") + (f": {names}" if names else "")
        if not self.gaps:
            return f"{words}; no missing values."
        return f"{words}; values are missing in {self._with_shares(self.gaps, len(self.gaps))}."

    def _with_shares(self, counts: Sequence[tuple[str, int]], number: int) -> str:
        """The first names, each with its share of the records."""
        shown = [f"{name} ({percentage(count / self.n_records, 2)})" for name, count in counts[:_SHOWN_CLASSES]]
        return ", ".join(shown) + (", …" if number > len(shown) else "")


def id_like(name: str, values: AnyArray, n_clusters: int) -> bool:
    """Whether a column looks like an id of records or of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.problem.account import id_like
    >>> id_like("visit", np.arange(100), 20), id_like("age", np.arange(100) % 50, 20)
    (True, False)
    """
    kind, named, first = values.dtype.kind, bool(_ID_NAME.search(name)), values[:_FIRST]
    if kind not in "iuOUST" or len(values) < _LEAST_RECORDS:
        return False
    if kind not in "iu" and not all(isinstance(value, str) and _is_word(value) for value in first.tolist()):
        return False
    if not named and len(np.unique(_sortable(first))) < len(first):
        return False
    different = len(np.unique(_sortable(values)))
    return different == len(values) or (named and different >= n_clusters / 2)


def looks_like_dates(values: AnyArray) -> bool:
    """Whether a column holds dates or times, also as text."""
    if values.dtype.kind in "mM":
        return True
    words = [value for value in values[:_FIRST].tolist() if value is not None and value == value]
    return bool(words) and all(hasattr(word, "isoformat") or bool(_DATE.match(str(word))) for word in words)


def _is_word(value: str) -> bool:
    is_short = 0 < len(value) <= _LONGEST_ID and not any(character.isspace() for character in value)
    return is_short and not _DATE.match(value) and not _NUMBER.match(value)


def _slips(X: Any, target: AnyArray, groups: Any, clusters: Codes) -> dict[str, Any]:
    """Ids, copies of the target and of the clusters among the features, and missing values."""
    slips: dict[str, list[Any]] = {name: [] for name in ("ids", "copies", "determining", "like_groups", "gaps")}
    n_clusters, frame = int(clusters.max()) + 1, hasattr(X, "columns")
    codes, labels = _codes(target), np.asarray(groups).astype(str)
    for name, values, missing in _columns(X):
        if missing:
            slips["gaps"].append((name, missing))
        if frame and all(np.array_equal(values[:most].astype(str), labels[:most]) for most in (_FIRST, None)):
            slips["like_groups"].append(name)
        elif frame and not missing and id_like(name, values, n_clusters):
            slips["ids"].append(name)
        elif not missing and (kind := _gives_away(values, target, codes, n_clusters)):
            slips[kind].append(name)
    return {name: tuple(entries) for name, entries in slips.items()}


def _gives_away(values: AnyArray, target: AnyArray, codes: Codes, n_clusters: int) -> str:
    """Whether a feature is a copy of the target, or determines it; an empty word if it does neither."""
    numeric, n_targets = values.dtype.kind in "biuf", int(codes.max()) + 1
    if len(values) < _LEAST_RECORDS or n_targets < 2:
        return ""
    if numeric and n_targets == 2 and _separates(values, codes):
        return "copies" if len(np.unique(values)) == 2 else "determining"
    first = slice(_FIRST)
    if numeric and target.dtype.kind in "iuf" and n_targets > 2 and _monotone(values[first], target[first]):
        return "copies" if _monotone(values, target) else ""
    if not _determines(_codes(values[first]), codes[first]):
        return ""
    value_codes = _codes(values)
    n_values = int(value_codes.max()) + 1
    if n_values > n_clusters / _CLUSTERS_PER_VALUE or not _determines(value_codes, codes):
        return ""
    return "copies" if n_values == n_targets else "determining"


def _separates(values: AnyArray, codes: Codes) -> bool:
    # What does not separate the first records cannot separate all: most columns of a large file need not be read.
    first = codes[:_FIRST]
    if len(codes) > _FIRST and 0 < first.sum() < _FIRST and not _separates(values[:_FIRST], first):
        return False
    zero, one = values[codes == 0], values[codes == 1]
    return bool(zero.max() < one.min() or one.max() < zero.min())


def _monotone(values: AnyArray, target: AnyArray) -> bool:
    """Whether two columns of numbers rise together, or fall, with ties at the same places."""
    codes, of_target = _codes(values), _codes(target)
    alike = np.array_equal(codes, of_target) or np.array_equal(codes.max() - codes, of_target)
    return bool(of_target.max() > 1 and alike)


def _determines(value_codes: Codes, codes: Codes) -> bool:
    """Whether every value goes along with a single value of the target, and not every record has its own."""
    n_values = int(value_codes.max()) + 1
    last = np.empty(n_values, dtype=np.int64)
    last[value_codes] = codes
    return n_values < len(codes) and bool((last[value_codes] == codes).all())


def _columns(X: Any) -> Iterator[tuple[str, AnyArray, int]]:
    """The columns of a data frame or a matrix with their names and numbers of gaps; not those of a sparse matrix."""
    if hasattr(X, "columns"):
        for index, name in enumerate(X.columns):
            values = np.asarray(X.iloc[:, index] if hasattr(X, "iloc") else X[name])
            yield str(name), values, int(missing_values(values).sum())
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        for index, (column, missing) in enumerate(zip(X.T, _gaps(X), strict=True)):
            yield f"column {index}", column, missing


def _gaps(X: AnyArray) -> list[int]:
    """Missing values of every column, read in the order of the rows, so that a file is read only once."""
    gaps = np.zeros(X.shape[1], dtype=np.int64)
    for start in range(0, len(X), _ROWS_AT_ONCE):
        gaps += missing_values(X[start : start + _ROWS_AT_ONCE]).sum(axis=0)
    return list(map(int, gaps))


def _codes(values: AnyArray) -> Codes:
    return np.unique(_sortable(values), return_inverse=True)[1].reshape(-1).astype(np.int64)


def _sortable(values: AnyArray) -> AnyArray:
    return values.astype(str) if values.dtype.kind == "O" else values


def _count(number: int, what: str, several: str = "") -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {several or what + 's'}"


# Names that are not the words of the class; endings such as CV and Classifier may be left out.
_NAMES = {
    "LogisticRegression": "logistic regression",
    "Ridge": "ridge regression",
    "RidgeClassifier": "ridge classifier",
    "Lasso": "lasso",
    "ElasticNet": "elastic net",
    "LinearSVC": "linear support vector machine",
    "LinearSVR": "linear support vector regression",
    "SVC": "support vector machine",
    "SVR": "support vector regression",
    "SGDClassifier": "linear classifier by stochastic gradient descent",
    "SGDRegressor": "linear regression by stochastic gradient descent",
    "ExtraTrees": "extremely randomised trees",
    "HistGradientBoosting": "gradient boosting",
    "XGB": "gradient boosting (XGBoost)",
    "LGBM": "gradient boosting (LightGBM)",
    "CatBoost": "gradient boosting (CatBoost)",
    "MLP": "neural network",
    **dict.fromkeys(("GaussianNB", "BernoulliNB", "MultinomialNB"), "naive Bayes"),
    "GaussianProcess": "Gaussian process",
    "Dummy": "constant prediction",
    "VotingClassifier": "vote of several models",
    "VotingRegressor": "mean of several models",
    "Stacking": "stacked models",
}


# What steps before a model do, by their names and by how other names end.
_STEPS = {
    "OneHotEncoder": "one-hot encoding",
    "OrdinalEncoder": "ordinal encoding",
    "TargetEncoder": "target encoding",
    "TableVectorizer": "encoding of the columns",
    "PCA": "principal components",
    "TruncatedSVD": "singular vectors",
    "VarianceThreshold": "feature selection",
    "SelectKBest": "feature selection",
    "SelectFromModel": "feature selection",
    "PolynomialFeatures": "polynomial features",
    "SplineTransformer": "splines",
    "QuantileTransformer": "quantile transformation",
    "PowerTransformer": "power transformation",
    "KBinsDiscretizer": "binning",
    "FunctionTransformer": "a function of the features",
    "CountVectorizer": "counts of words",
    "TfidfVectorizer": "weighted counts of words",
}
_ENDS = {"Imputer": "imputation", "Scaler": "scaling"}


def estimator_in_words(printed: str) -> str:
    """What a model is called, from the way in which scikit-learn prints it, as files of samples keep it.

    Examples
    --------
    >>> from outofcluster.problem.account import estimator_in_words
    >>> estimator_in_words("LogisticRegression(max_iter=1000)")
    'logistic regression'
    >>> estimator_in_words("KNeighborsClassifier(n_neighbors=3)")
    '3 nearest neighbours'
    >>> estimator_in_words("Pipeline(steps=[('scale', StandardScaler()), ('fit', MyOwnForest(depth=3))])")
    'scaling, then my own forest'
    """
    name, bracket, inside = printed.partition("(")
    if not bracket or not re.fullmatch(r"[A-Za-z_]\w*", name):
        return printed
    if name == "Pipeline":
        *before, last = _steps(inside) or ["pipeline"]
        named = list(dict.fromkeys(words for step in before for words in _step_in_words(step)))
        return f"{', '.join(named)}, then {estimator_in_words(last)}" if named else estimator_in_words(last)
    if name.endswith("SearchCV"):
        tuned = re.search(r"estimator=([A-Za-z_]\w*\(.*)", inside)
        *before, last = estimator_in_words(tuned.group(1)).rpartition(", then ") if tuned else ["model"]
        return f"{''.join(before)}tuned {last}"
    if name.startswith("KNeighbors"):
        number = re.search(r"n_neighbors=(\d+)", inside)
        count = int(number.group(1)) if number else 5
        return "nearest neighbour" if count == 1 else f"{count} nearest neighbours"
    bare = name.removesuffix("CV")
    return _NAMES.get(bare) or _NAMES.get(re.sub("(Classifier|Regressor)$", "", bare)) or _words_of(name)


def _steps(inside: str) -> list[str]:
    """The steps of a pipeline, from what its brackets hold: "steps=[('scale', StandardScaler()), ...]"."""
    steps, depth, start = list[str](), 0, -1
    for bracket in re.finditer(r"([A-Za-z_]\w*)?\(|\[|[)\]]", inside):
        if bracket[0] in ")]":
            depth -= 1
            if depth == 2 and start >= 0:
                steps.append(inside[start : bracket.end()])
                start = -1
        else:
            # Within the list, and within the tuple of a name and a step.
            if depth == 2 and bracket[1]:
                start = bracket.start()
            depth += 1
    return steps


def _step_in_words(printed: str) -> list[str]:
    """What a step before the model does; several things where it is made of others."""
    name, _, inside = printed.partition("(")
    if name in ("Pipeline", "ColumnTransformer", "FeatureUnion"):
        return [words for step in _steps(inside) for words in _step_in_words(step)]
    return [_STEPS.get(name) or next((words for end, words in _ENDS.items() if name.endswith(end)), _words_of(name))]


def _words_of(name: str) -> str:
    """The words of a name in capitals: MyOwnForest, or HTTPModel."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", name.strip("_"))
    kept = [word if word.isupper() and len(word) > 1 else word.lower() for word in words]
    if len(kept) > 1 and kept[-1] in ("classifier", "regressor"):
        kept = kept[:-1]
    return " ".join(kept) or name

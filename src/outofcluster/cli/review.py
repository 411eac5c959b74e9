"""Review lists as files: what a person fills in with a spreadsheet, and what comes back from it.

A spreadsheet may write numbers otherwise than it read them: 007 becomes 7, a whole number 17.0, and in many countries
commas stand for decimal points and semicolons between columns. So every cell is read as text, and who compares names of
clusters takes whole numbers as numbers. A file without answers can be written again at any time, but answers are the
work of a person and are never overwritten.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster._base.text import printable
from outofcluster.auditing.result import Audit
from outofcluster.cli.options import read_rate
from outofcluster.cli.table import first_names, read_cells

# Clusters of a list by default, as far as there are so many.
SIZE = 50
_COLUMNS = ("cluster", "same_as", "inclusion_probability")


@dataclass(frozen=True)
class ReviewOptions:
    """The options of an audit that are about review lists.

    Attributes
    ----------
    review_list : str or None
        Where a list is written.
    review_size : int or None
        Its number of clusters, where one was given.
    review_columns : str or None
        Columns of the table that a reader sees, with commas between them.
    reviewed : str or None
        A list that was filled in.
    reviewer_error : str or None
        Share of its answers that are wrong, where one was given.
    """

    review_list: str | None
    review_size: int | None = None
    review_columns: str | None = None
    reviewed: str | None = None
    reviewer_error: str | None = None

    def __post_init__(self) -> None:
        belongs = {"review_size": "review_list", "review_columns": "review_list", "reviewer_error": "reviewed"}
        for name, other in belongs.items():
            if getattr(self, name) is not None and getattr(self, other) is None:
                option, missing = (f"--{word.replace('_', '-')}" for word in (name, other))
                raise InputError(f"{missing} must be given along with {option}.")

    @property
    def columns(self) -> list[str]:
        """The columns that a reader sees, by their names."""
        return [name.strip() for name in (self.review_columns or "").split(",") if name.strip()]

    def check(self, n_clusters: int) -> None:
        """Refuse a list of no cluster or of more clusters than there are, and one that would replace answers."""
        size, path = self.review_size, self.review_list
        if size is not None and not 1 <= size <= n_clusters:
            must = f"--review-size must lie between 1 and the number of clusters, {n_clusters}"
            raise InputError(f"{must}, got {size}.")
        if path is not None and path != "-" and _has_answers(path):
            raise InputError(
                f"--review-list must not replace answers, got {path!r}, which has some; give another name, or use "
                f"them with --reviewed."
            )

    def arguments(self) -> dict[str, Any]:
        """Arguments of `audit` for what was looked up."""
        wrong = None if self.reviewer_error is None else read_rate(self.reviewer_error, "--reviewer-error")
        answers = {} if self.reviewed is None else {"reviewed": read_reviewed(self.reviewed)}
        return answers if wrong is None else answers | {"reviewer_error": wrong}

    def written(self, result: Audit, seed: int) -> str:
        """The list of an audit as CSV, with the columns of its records that a reader sees."""
        size = min(SIZE, result.table.n_clusters) if self.review_size is None else self.review_size
        frame = result.review_list(size, columns=self.columns, random_state=seed)
        text = str(frame.to_csv(index=False))
        if self.review_list == "-":
            return printable(text)
        # A spreadsheet takes a file with other letters for one in UTF-8 only if it begins with this mark.
        return text if text.isascii() else f"\ufeff{text}"


def read_reviewed(path: str) -> Any:
    """A list that was filled in, with every cell as text."""
    cells = read_cells(path, "--reviewed")
    frame = cells.frame
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        got = first_names(list(frame.columns)) or "no columns"
        must = f"--reviewed must be a list that --review-list wrote, with the column {missing[0]!r}"
        raise InputError(f"{must}, got {got}.")
    if cells.semicolons:
        frame["inclusion_probability"] = frame["inclusion_probability"].str.replace(",", ".", regex=False)
    return frame


def _has_answers(path: str) -> bool:
    """Whether a file is a review list in which somebody has written something."""
    if not Path(path).is_file():
        return False
    with suppress(InputError):
        cells = read_cells(path, "--review-list").frame
        return "same_as" in cells.columns and bool((cells["same_as"].str.strip() != "").any())
    return False

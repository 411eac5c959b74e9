"""What is written of an audit: the same files for ``audit``, which fits models, and for ``show``, which fits none.

An output is an entry of `OUTPUTS`: its option, what its file holds, and which parts of `Audit` it tells.

*Review lists* are filled in with a spreadsheet and come back. A spreadsheet may write numbers otherwise than it read
them: 007 becomes 7, a whole number 17.0, and in many countries commas stand for decimal points and semicolons between
columns. So every cell is read as text, and who compares names of clusters takes whole numbers as numbers. A file
without answers can be written again at any time, but answers are the work of a person and are never overwritten.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.plain import plain
from outofcluster._base.text import percentage, printable
from outofcluster.auditing.checklist import Checklist
from outofcluster.auditing.result import Audit
from outofcluster.auditing.subgroups import Subgroups
from outofcluster.auditing.summary import Summary
from outofcluster.cli.options import Decorator, explain_option, fail_option, option, read_rate, together
from outofcluster.cli.printing import as_json, in_options, on_screen, show_audit
from outofcluster.cli.running import LEAST_SUSPICION, check_files
from outofcluster.cli.table import first_names, read_cells

_PICTURES = (".png", ".svg", ".pdf")
# Dots per inch that journals ask of a picture.
_DOTS = 300
# Clusters of a review list by default, as far as there are so many, and its columns.
SIZE = 50
_REVIEW_COLUMNS = ("cluster", "same_as", "inclusion_probability")


@dataclass(frozen=True)
class Answer:
    """An audit as it is asked, with what its outputs need beside it.

    Attributes
    ----------
    audit : Audit
        The audit.
    seed : int
        Seed of the draw of a review list.
    asked : dict
        Answers to further questions, by what they are called.
    command : dict of str
        The command that gave this answer, where it is another one than that of the audit.
    """

    audit: Audit
    seed: int = 0
    asked: Mapping[str, Any] = field(default_factory=dict)
    command: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def summary(self) -> Summary:
        """The numbers, with findings that name options."""
        return in_options(self.audit.summary)

    @cached_property
    def about(self) -> dict[str, str]:
        """Where the records and the answer come from."""
        return {**self.audit.source.about, **self.command}

    @cached_property
    def said(self) -> dict[str, str]:
        """The answers to further questions in words."""
        return {
            name: reply.to_string(index=False, float_format="{:.4f}".format)
            if hasattr(reply, "to_string")
            else str(reply)
            for name, reply in self.asked.items()
        }

    @cached_property
    def checklist(self) -> Checklist:
        """The checklist, with the subgroups that were asked for."""
        return self.audit.checklist(*(reply for reply in self.asked.values() if isinstance(reply, Subgroups)))

    @property
    def name(self) -> str:
        """What the file of the records is called; empty where there is none."""
        return self.about.get("data", "").partition(", ")[0]


# --- review lists ------------------------------------------------------------------------------------------


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
    missing = [name for name in _REVIEW_COLUMNS if name not in frame.columns]
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


# --- outputs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """A file that can be asked for.

    Attributes
    ----------
    words, text : str
        Its option, as in "--report FILE", and the line of the help.
    content : callable
        What the file holds, from an `Answer` and the options of the outputs.
    tells : tuple of str
        The public names of `Audit` that it tells.
    rare : bool
        Whether the short help leaves it out.
    """

    words: str
    text: str
    content: Callable[[Answer, Outputs], str | bytes]
    tells: tuple[str, ...]
    rare: bool = False

    @property
    def option(self) -> str:
        """The option without its value."""
        return self.words.partition(" ")[0]

    @property
    def name(self) -> str:
        """The name of its argument."""
        return self.option.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class Question:
    """Something that an audit can be asked beside its numbers.

    Attributes
    ----------
    options : decorator
        Its options.
    names : tuple of str
        The names of their arguments; the question is asked where one of them has a value.
    answer : callable
        What is printed and kept in the JSON, or several such things by what they are called.
    tells : tuple of str
        The public names of `Audit` that it tells.
    """

    options: Decorator
    names: tuple[str, ...]
    answer: Callable[[Audit, Mapping[str, Any]], Any]
    tells: tuple[str, ...]


def asks(names: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether one of these options was given."""
    return any(options[name] not in (None, False, ()) for name in names)


def ask(questions: Sequence[Question], audit: Audit, options: Mapping[str, Any]) -> dict[str, Any]:
    """The answers to the questions that were asked."""
    answers = dict[str, Any]()
    for question in questions:
        if asks(question.names, options):
            reply = question.answer(audit, options)
            answers |= reply if isinstance(reply, dict) else {question.names[0]: reply}
    return answers


def read_shares(words: str | None, name: str) -> list[float] | None:
    """Shares with commas between them."""
    return None if words is None else [read_rate(each, name) for each in words.split(",")]


def read_quantiles(words: str | None) -> dict[str, Any]:
    """The argument of `Audit.by` that says where numbers are cut."""
    return {} if words is None else {"quantiles": read_shares(words, "--quantiles")}


BY = Question(
    together(
        option("--by COL", "Answer by subgroup of this column; may be repeated.", multiple=True),
        option("--quantiles A,B", "Where --by cuts a column of numbers.  [into thirds]", rare=True),
    ),
    ("by",),
    lambda audit, options: {
        f"by {name}": audit.by(name, **read_quantiles(options["quantiles"])) for name in options["by"]
    },
    ("by", "records"),
)


@dataclass(frozen=True)
class Outputs:
    """What is to be written, and how the answer is shown.

    Attributes
    ----------
    files : dict
        The file of every output, None where it was not asked for.
    review : ReviewOptions
        How long a review list is, and what a reader of it sees.
    plot_of : str
        What is drawn.
    explain : bool
        Whether everything is explained.
    fail_on : str
        The level of a finding from which on the exit status is 1.
    """

    files: dict[str, str | None]
    review: ReviewOptions
    plot_of: str
    explain: bool
    fail_on: str

    @classmethod
    def taken_from(cls, options: dict[str, Any], asked: Mapping[str, Any]) -> Self:
        """The outputs among the options of a command, which keeps the rest of them, and whose questions are asked."""
        files = {output.option: options.pop(output.name) for output in OUTPUTS}
        named = [each.name for each in fields(ReviewOptions) if each.name in options]
        review = ReviewOptions(files["--review-list"], **{name: options.pop(name) for name in named})
        if files["--plot"] is not None and options["plot_of"] == "by" and not asked["by"]:
            raise InputError("--by must be given along with --plot-of by.")
        return cls(files, review, **{name: options.pop(name) for name in ("plot_of", "explain", "fail_on")})

    def check(self, inputs: dict[str, str | None], checkpoint: str | None = None) -> None:
        """Refuse files that cannot be written, or that would replace the records, each other, or finished work."""
        check_picture(self.files["--plot"])
        if self.files["--save"] == "-":
            raise InputError("--save must be the path of a file, got '-'.")
        check_files(self.files, inputs, checkpoint)

    @property
    def on_screen(self) -> bool:
        """Whether standard output holds one of them, and nothing else."""
        return on_screen(*self.files.values())

    def contents(self, answer: Answer) -> dict[str, Callable[[], str | bytes]]:
        """What every file that was asked for holds, once it is called."""

        def of(output: Output) -> Callable[[], str | bytes]:
            return lambda: output.content(answer, self)

        return {output.option: of(output) for output in OUTPUTS if self.files[output.option] is not None}

    def show(self, out: Any, answer: Answer) -> None:
        """Print the answer, and after it what else was asked."""
        show_audit(out, answer.summary, explain=self.explain)
        for words in answer.said.values():
            out.print(f"\n{words}")


def output_options() -> Decorator:
    """The options of all outputs, and those that say how the answer is shown."""
    return together(
        *(option(output.words, output.text, output.name, rare=output.rare) for output in OUTPUTS),
        option("--plot-of WHAT", f"{', '.join(PLOTS)}.  [curve]", choices=tuple(PLOTS), default="curve", rare=True),
        option("--review-size N", f"How many clusters it has.  [{SIZE}]", type=int, rare=True),
        explain_option,
        fail_option,
    )


# --- pictures -----------------------------------------------------------------------------------------


def check_picture(path: str | None) -> None:
    """Refuse a picture that could not be drawn, before anything is fitted."""
    if path is None:
        return
    if Path(path).suffix.lower() not in _PICTURES:
        raise InputError(f"--plot must be a file that ends with {', '.join(_PICTURES)}, got {path!r}.")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("--plot needs matplotlib: pip install 'outofcluster[plot]'.")


def picture(display: Any, path: str) -> bytes:
    """A display drawn in the format that the name of its file asks for."""
    drawn = io.BytesIO()
    form = Path(path).suffix.lower().removeprefix(".")
    with warnings.catch_warnings():
        # Names may hold characters that no font has.
        warnings.simplefilter("ignore")
        display.figure_.savefig(drawn, format=form, dpi=_DOTS, bbox_inches="tight")
    return drawn.getvalue()


def _sensitivity(answer: Answer) -> Any:
    from outofcluster.present.display import SensitivityDisplay

    return SensitivityDisplay.from_audit(answer.audit).plot()


def _folds(answer: Answer) -> Any:
    from outofcluster.present.display import FoldsDisplay

    return FoldsDisplay.from_audit(answer.audit).plot()


def _test(answer: Answer) -> Any:
    if answer.audit.test is None:
        raise InputError("--plot-of must be another one than 'test' for this audit, which has too few records for it.")
    return answer.audit.test.plot()


def _below(answer: Answer) -> Any:
    from outofcluster.present.display import UnmixingDisplay

    return UnmixingDisplay.from_audit(answer.audit).plot()


# What can be drawn of an audit, by the value of --plot-of; of several columns the first one.
PLOTS: dict[str, Callable[[Answer], Any]] = {
    "curve": lambda answer: answer.audit.plot(),
    "sensitivity": _sensitivity,
    "folds": _folds,
    "by": lambda answer: next(reply for name, reply in answer.asked.items() if name.startswith("by ")).plot(),
    "spread": lambda answer: answer.audit.spread().plot(),
    "test": _test,
    "below": _below,
}


# --- files --------------------------------------------------------------------------------------------


def _report(answer: Answer, _: Outputs) -> str:
    from outofcluster.present.report import render_html

    suspects = None
    # Features that tell no entities apart leave no suspects.
    with suppress(InputError):
        suspects = answer.audit.suspects()
    # The report draws a table of subgroups; all else is in words.
    shown = answer.said | {name: reply for name, reply in answer.asked.items() if isinstance(reply, Subgroups)}
    title = f"Audit of {answer.name or 'a cross-validation'}"
    return render_html(
        answer.summary,
        title=title,
        about=answer.about,
        suspects=suspects,
        answers=shown,
        checklist=answer.checklist,
    )


def _numbers(answer: Answer, _: Outputs) -> str:
    asked = {"answers": {name: _plain(reply) for name, reply in answer.asked.items()}} if answer.asked else {}
    checklist = plain(answer.checklist.items)
    return as_json(answer.summary.to_dict() | {"about": answer.about, "checklist": checklist} | asked)


def _plain(reply: Any) -> Any:
    """An answer as plain data: a data frame as its rows."""
    return plain(reply.to_dict("records") if hasattr(reply, "to_string") else reply)


def _table(frame: Any) -> str:
    return printable(str(frame.to_csv(index=False)))


def _suspicious(answer: Answer, _: Outputs) -> str:
    listed = answer.audit.suspects()
    return _table(listed[listed["probability"] >= LEAST_SUSPICION])


def _saved(answer: Answer, _: Outputs) -> bytes:
    whole = io.BytesIO()
    answer.audit.save(whole)
    return whole.getvalue()


def _drawn(answer: Answer, outputs: Outputs) -> bytes:
    return picture(PLOTS[outputs.plot_of](answer), str(outputs.files["--plot"]))


OUTPUTS = (
    Output("--report FILE", "Write an HTML report.", _report, ("write_html",)),
    Output(
        "--methods FILE", "Write paragraphs for a paper.", lambda a, _: f"{a.audit.methods_text()}\n", ("methods_text",)
    ),
    Output(
        "--checklist FILE",
        "Answer reporting guidelines, as far as is known.",
        lambda answer, _: f"{answer.checklist}\n",
        ("checklist",),
    ),
    Output("--plot FILE", "Draw the answer: PNG, SVG or PDF.", _drawn, ("plot",)),
    Output("--save FILE", "Keep the audit for 'outofcluster show'.", _saved, ("save",)),
    Output(
        "--json FILE",
        "Write the numbers as JSON; - for the screen.",
        _numbers,
        ("summary", "to_dict", "to_json", "source"),
    ),
    Output(
        "--suspects FILE",
        f"Write what looks leaked as CSV, down to {percentage(LEAST_SUSPICION)}.",
        _suspicious,
        ("suspects",),
    ),
    Output(
        "--review-list FILE",
        "Write clusters to look up as CSV, for a spreadsheet.",
        lambda answer, outputs: outputs.review.written(answer.audit, answer.seed),
        ("review_list",),
    ),
    Output(
        "--estimates FILE",
        "Write the estimates as CSV.",
        lambda answer, _: _table(answer.audit.to_frame()),
        ("to_frame",),
        rare=True,
    ),
    Output(
        "--samples FILE",
        "Write the losses of all fits as CSV.",
        lambda answer, _: _table(answer.audit.samples.to_frame()),
        ("samples", "pooled"),
        rare=True,
    ),
)

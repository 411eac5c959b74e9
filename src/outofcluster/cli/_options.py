"""Options that commands share, and the model and the records that they describe."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from outofcluster._base.exceptions import CheckpointWarning, InputError
from outofcluster._base.threads import one_thread
from outofcluster.cli._backend import backend_option, check_backend
from outofcluster.cli._guard import guard
from outofcluster.cli._models import MODELS, TAKE_INFINITE, make_model, make_scored, own_model, wanted_target
from outofcluster.cli._table import Records, read_records
from outofcluster.cli._words import complain
from outofcluster.problem.account import TableAccount

ERROR_MODELS = click.Choice(["auto", "records", "fragments"])

_FIRST = (
    click.argument("file", metavar="FILE"),
    click.option("--target", required=True, metavar="COL", help="Column to predict."),
)
_GROUPS = click.option("--groups", required=True, metavar="COL", help="Column of the clusters, never a feature.")
_GROUPS_BY_THRESHOLD = click.option(
    "--groups",
    required=True,
    multiple=True,
    metavar="THRESHOLD=COL",
    help="Linkage threshold and column of its clusters, such as 0.9=tight; once for each threshold.",
)
_OTHERS = (
    click.option("--drop", multiple=True, metavar="COL", help="Column to leave out; may be repeated."),
    click.option("--keep", multiple=True, metavar="COL", help="Feature that is no id although it looks like one."),
    click.option("--drop-missing-target", is_flag=True, help="Leave out records without a target."),
    click.option("--encoding", default="utf-8", metavar="NAME", help="Encoding of a CSV file.  [utf-8]"),
    click.option(
        "--task",
        type=click.Choice(["classification", "regression"]),
        metavar="KIND",
        help="classification or regression.  [by the target]",
    ),
    click.option(
        "--model",
        metavar="NAME",
        help=f"{', '.join(MODELS)}, or module:object.  [by the task]",
    ),
    click.option(
        "--loss",
        metavar="NAME",
        help="Loss, such as zero_one, squared_error or brier.",
    ),
    click.option(
        "--scoring",
        multiple=True,
        metavar="NAME",
        help="Metrics of scikit-learn by commas: roc_auc,f1.",
    ),
    click.option("--folds", default=5, show_default=True, metavar="N", help="Folds of the cross-validation."),
    click.option("--seed", default=0, show_default=True, metavar="N", help="The same seed gives the same numbers."),
    click.option("--jobs", type=int, metavar="N", help="Workers, -1 for all.  [1 for linear models, else -1]"),
    backend_option,
)

confidence_option = click.option(
    "--confidence-level", default=0.95, show_default=True, metavar="P", help="Confidence level of the intervals."
)
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["note", "info", "warning", "severe", "never"]),
    default="severe",
    metavar="LEVEL",
    help="Exit 1 from note, warning, severe or never.  [severe]",
)
json_option = click.option("--json", "json_path", metavar="FILE", help="Write the numbers as JSON; - for the screen.")


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is modelled."""
    return _with_options(command, (*_FIRST, _GROUPS, *_OTHERS))


def threshold_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same with clusters by linkage threshold."""
    return _with_options(command, (*_FIRST, _GROUPS_BY_THRESHOLD, *_OTHERS))


def _with_options(command: Callable[..., Any], options: tuple[Any, ...]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def quietly() -> Iterator[None]:
    """Fit thousands of small models with one thread each, and without the warnings of anybody else."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(str(message))

    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", CheckpointWarning)
        warnings.showwarning = show
        yield


@dataclass(frozen=True)
class Problem:
    """A model and its records.

    Attributes
    ----------
    estimator, X : estimator, array or DataFrame
        The model, and what it is fitted to.
    records : Records
        Targets, clusters, and where they come from.
    scored : dict
        What is measured, as the arguments ``loss`` or ``scoring`` of `audit`.
    n_jobs : int or None
        Workers.
    account : TableAccount
        What the table holds.
    backend : str
        Where the workers are.
    """

    estimator: Any
    X: Any
    records: Records
    scored: dict[str, Any]
    n_jobs: int | None
    account: TableAccount
    backend: str = "local"


def read_problem(
    file: str,
    *,
    target: str,
    groups: str,
    drop: tuple[str, ...],
    encoding: str,
    model: str | None,
    loss: str | None,
    scoring: tuple[str, ...],
    seed: int,
    jobs: int | None,
    backend: str = "local",
    more_groups: tuple[str, ...] = (),
    keep: tuple[str, ...] = (),
    drop_missing_target: bool = False,
    task: str | None = None,
) -> Problem:
    """Read the table and make the model; everything that can be wrong with them is found here.

    ``more_groups`` are further columns of clusters, which are no features either.
    """
    if check_backend(backend)[0] != "local" and jobs is None:
        jobs = -1
    if jobs == 0:
        raise InputError("--jobs must be a whole number other than 0, got 0.")
    own = None if model is None or model in MODELS else own_model(model)
    scored = make_scored(loss, scoring)
    wanted = wanted_target(model, own, scored, task)
    records = read_records(
        file,
        target=target,
        groups=groups,
        drop=drop,
        encoding=encoding,
        classes=wanted.classes,
        wanted_by=(wanted.option, wanted.value),
        numbers=model == "ridge",
        more_groups=more_groups,
        drop_missing_target=drop_missing_target,
    )
    guarded = guard(
        records, target=target, groups=groups, keep=keep, own_model=own is not None, singles=bool(more_groups)
    )
    records, account = guarded.records, guarded.account
    _say_infinite(records, model, own)
    if own is not None:
        return Problem(own, records.frame, records, scored, -1 if jobs is None else jobs, account, backend)
    X = records.matrix(max(seed, 0))
    if names := records.encoded:
        shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        how = "turned into numbers once, for all records, by skrub's TableVectorizer, which does not see the target"
        records.about["encoded"] = f"{shown}: {how}"
    estimator = make_model(model, X, classes=records.classes)
    many = -1 if model in ("forest", "boosting") else None
    return Problem(estimator, X, records, scored, many if jobs is None else jobs, account, backend)


def _say_infinite(records: Records, model: str | None, own: Any) -> None:
    """Keep features with infinite values for the account, and refuse them where a named model does not take them.

    Whether the user's own model takes them only its first fit can tell, after the account has named them.
    """
    n = f"{len(records.target):,} records"
    named = [(name, f"{count:,} of {n}") for name, count in records.infinite.items()]
    if not named:
        return
    if own is None and model not in TAKE_INFINITE:
        name, share = named[0]
        raise InputError(
            f"FILE must have finite features unless --model is {' or '.join(TAKE_INFINITE)} or your own, got {name!r} "
            f"with infinite values in {share}; leave it out with --drop."
        )
    shown = [f"{name} ({share})" for name, share in named[:6]]
    records.about["infinite values"] = ", ".join(shown) + (", …" if len(named) > 6 else "")

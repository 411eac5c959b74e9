"""Options that commands share, how their values are read, and the problem that they describe.

An option has the name of the argument of `audit` that it stands for, so that it is passed on as it is.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import click

from outofcluster._base.exceptions import InputError
from outofcluster.auditing.jobs import _FITS, _FITS_OF_PIECES
from outofcluster.cli.models import MODELS, TAKE_INFINITE, load_model, make_model, suggest, wanted_target
from outofcluster.cli.table import Records, first_names, read_records


class SuggestingGroup(click.Group):
    """A group of commands that names the one which was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command, or an error with a suggestion."""
        name, names = args[0], self.list_commands(ctx)
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = suggest(name, names)
            hint = f" (there are: {', '.join(names)})." if hint == "." else hint
            raise click.UsageError(f"No such command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


def _read_backend(context: click.Context, option: click.Parameter, backend: str) -> tuple[str, str]:
    """The kind of backend and its address; refuses what is neither of the three."""
    kind, separator, address = backend.partition("://")
    if backend == "local" or (kind in ("dask", "ray") and separator and address):
        return kind, address
    raise InputError(f"--backend must be local, dask://HOST:PORT or ray://HOST:PORT, got {backend!r}.")


_OF_COLUMNS = ("target", "groups", "more_groups", "drop", "keep", "drop_missing_target", "encoding")
"""Options that say what the columns of a table are."""

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_GROUPS = click.option("--groups", required=True, metavar="COL", help="Column of the clusters, never a feature.")
_GROUPS_BY_THRESHOLD = click.option(
    "--groups",
    required=True,
    multiple=True,
    metavar="THRESHOLD=COL",
    help="Linkage threshold and column of its clusters, such as 0.9=tight; once for each threshold.",
)
_TASKS = click.Choice(["classification", "regression"])
encoding_option = click.option("--encoding", default="utf-8", metavar="NAME", help="Encoding of a CSV file.  [utf-8]")
json_option = click.option("--json", "json_path", metavar="FILE", help="Write the numbers as JSON; - for the screen.")
explain_option = click.option("--explain", is_flag=True, help="Show in full what the answer rests on.")
_CONFIDENCE = click.option(
    "--confidence-level", default=0.95, show_default=True, metavar="P", help="Confidence level of the intervals."
)
_ERROR_MODEL = click.option(
    "--error-model",
    type=click.Choice(["auto", "records", "fragments"]),
    default="auto",
    metavar="KIND",
    help="What leaks: records (RATE is a share of the training records) or fragments (of the held-out ones).  [auto]",
)
_FAIL_ON = click.option(
    "--fail-on",
    type=click.Choice(["note", "info", "warning", "severe", "never"]),
    default="severe",
    metavar="LEVEL",
    help="Exit 1 from note, warning, severe or never.  [severe]",
)


def data_options(*, by_threshold: bool = False) -> _Decorator:
    """The options that say what is modelled, with one clustering, or with one for each linkage threshold."""
    option = click.option
    return _together(
        click.argument("file", metavar="FILE"),
        option("--target", required=True, metavar="COL", help="Column to predict."),
        _GROUPS_BY_THRESHOLD if by_threshold else _GROUPS,
        option("--drop", multiple=True, metavar="COL", help="Column to leave out; may be repeated."),
        option("--keep", multiple=True, metavar="COL", help="Feature that is no id although it looks like one."),
        option("--drop-missing-target", is_flag=True, help="Leave out records without a target."),
        encoding_option,
        option("--task", type=_TASKS, metavar="KIND", help="classification or regression.  [by the target]"),
        option("--model", metavar="NAME", help=f"{', '.join(MODELS)}, or module:object.  [by the task]"),
        option("--loss", metavar="NAME", help="Loss, such as zero_one, squared_error or brier."),
        option("--scoring", multiple=True, metavar="NAME", help="Metrics of scikit-learn by commas: roc_auc,f1."),
        option("--folds", "cv", default=5, show_default=True, metavar="N", help="Folds of the cross-validation."),
        option(
            "--seed",
            "random_state",
            default=0,
            show_default=True,
            metavar="N",
            help="The same seed gives the same numbers.",
        ),
        option("--jobs", "n_jobs", type=int, metavar="N", help="Workers, -1 for all.  [1 for linear models, else -1]"),
        option(
            "--backend",
            default="local",
            callback=_read_backend,
            metavar="WHERE",
            help="local, dask://HOST:PORT or ray://HOST:PORT.  [local]",
        ),
    )


def sampling_options(models: str) -> _Decorator:
    """The options that say how an audit samples; ``models`` says in words what is counted by --fits."""
    # A third of the fits for records is added below the leakage rate, and some for fragments without likely pieces.
    usual = f"records: {_FITS['records'] * 4 // 3}, fragments: {_FITS['fragments'] + _FITS_OF_PIECES}"
    return _together(
        _ERROR_MODEL,
        _CONFIDENCE,
        click.option("--fits", "n_fits", type=int, metavar="N", help=f"{models}.  [{usual}]"),
        click.option(
            "--no-unmix",
            "unmix",
            is_flag=True,
            callback=lambda _, __, off: False if off else "auto",
            help="Fit no models without the records that look leaked.",
        ),
    )


def output_options() -> _Decorator:
    """The options that say what becomes of the numbers and of finished work."""
    return _together(
        json_option,
        click.option("--checkpoint", metavar="FILE", help="Keep finished work here.  [a cache, until it is done]"),
        _FAIL_ON,
    )


def _together(*decorators: _Decorator) -> _Decorator:
    return lambda command: reduce(lambda decorated, decorator: decorator(decorated), reversed(decorators), command)


def read_rate(words: str, option: str = "--leakage") -> float | str:
    """A share between 0 and 1 from 0.12 or 12%; for a leakage rate also "data"."""
    other = "data" if option == "--leakage" else ""
    if other and words == other:
        return other
    bare = words.strip()
    percent = bare.endswith("%")
    try:
        share = float(bare.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        near = difflib.get_close_matches(bare.lower(), [other] if other else [], cutoff=0.7)
        meant = near[0] if near else _with_point(bare)
        question = f"; did you mean {meant}?" if meant else "."
        raise InputError(f"{option} must be a number{other and ' or data'}, got {words!r}{question}") from None
    if share > 1 and math.isfinite(share):
        fraction = share <= 100 and not percent
        got = f"{bare}; did you mean {share / 100:g}?" if fraction else f"{words!r}."
        raise InputError(f"{option} must be a share between 0 and 1, or a percentage such as 12%, got {got}")
    return share


def _with_point(words: str) -> str:
    """A number that was written with a decimal comma; nothing for other words."""
    try:
        return f"{float(words.replace(',', '.').removesuffix('%')):g}" + ("%" if words.endswith("%") else "")
    except ValueError:
        return ""


@dataclass(frozen=True)
class Problem:
    """A model and its records.

    Attributes
    ----------
    estimator, X : estimator, array or DataFrame
        The model, and what it is fitted to.
    records : Records
        Targets, clusters, and where they come from.
    arguments : dict
        Further arguments of `audit`: folds, workers, what is measured, and others that were given.
    backend : tuple of str
        Where the workers are: the kind of backend, and its address.
    """

    estimator: Any
    X: Any
    records: Records
    arguments: dict[str, Any]
    backend: tuple[str, str]


def read_problem(
    file: str,
    *,
    task: str | None,
    model: str | None,
    loss: str | None,
    scoring: tuple[str, ...],
    backend: tuple[str, str],
    **options: Any,
) -> Problem:
    """Read the table and make the model; everything that can be wrong with them is found here.

    ``options`` say what the columns are; the rest of them are arguments of `audit`.
    """
    columns = {name: options.pop(name) for name in _OF_COLUMNS if name in options}
    estimator = None if model is None or model in MODELS else load_model(model)
    metrics = [name.strip() for several in scoring for name in several.split(",")]
    measured = [("--loss", loss)] if loss else [("--scoring", name) for name in metrics]
    wanted = wanted_target(model, estimator, measured, task)
    records = read_records(file, **columns, wanted=wanted, leave_out_ids=estimator is None)
    if records.infinite:
        _say_infinite(records, allowed=estimator is not None or model in TAKE_INFINITE)
    slow = estimator is not None or model in ("forest", "boosting")
    X = records.frame if estimator is not None else records.matrix(max(options["random_state"], 0))
    estimator = estimator if estimator is not None else make_model(model, X, classes=records.classes)
    if options["n_jobs"] is None and (slow or backend[0] != "local"):
        options["n_jobs"] = -1
    options |= {"loss": loss, "scoring": metrics[0] if len(metrics) == 1 else metrics or None}
    return Problem(estimator, X, records, options, backend)


def _say_infinite(records: Records, *, allowed: bool) -> None:
    """Keep features with infinite values for the account, and refuse them where a named model does not take them.

    Whether the user's own model takes them only its first fit can tell, after the account has named them.
    """
    shares = {name: f"{count:,} of {len(records.target):,} records" for name, count in records.infinite.items()}
    if not allowed:
        name, share = next(iter(shares.items()))
        raise InputError(
            f"FILE must have finite features unless --model is {' or '.join(TAKE_INFINITE)} or your own, got {name!r} "
            f"with infinite values in {share}; leave it out with --drop."
        )
    records.about["infinite values"] = first_names([f"{name} ({share})" for name, share in shares.items()])

"""Options that commands share, how their values are read, and the problem that they describe.

An option has the name of the argument of `audit` that it stands for, so that it is passed on as it is.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from typing import Any

import click

from outofcluster._base.exceptions import InputError
from outofcluster.auditing.choices import PRECISION
from outofcluster.auditing.result import Audit
from outofcluster.cli.models import MODELS, SLOW, TAKE_INFINITE, load_model, make_model, suggest, wanted_target
from outofcluster.cli.table import Records, first_names, read_records
from outofcluster.errormodels.choose import MODELS as ERROR_MODELS
from outofcluster.leakage.rate import Leakage


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


class RareOption(click.Option):
    """An option that few people need, and that the short help leaves out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Its line in the help, or None where the help is short."""
        return None if ctx.meta.get(_FOLDED) else super().get_help_record(ctx)


class FoldedCommand(click.Command):
    """A command whose ``-h`` shows what most people need on one screen, and whose ``--help`` shows all."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The values of all options; which help is asked for is kept, since help is written while they are read."""
        ctx.meta[_FOLDED] = "-h" in args
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and how many more there are."""
        super().format_options(ctx, formatter)
        if ctx.meta.get(_FOLDED):
            more = sum(isinstance(each, RareOption) for each in self.params)
            formatter.write_paragraph()
            formatter.write_text(f"There are {more} more options for special cases: see --help.")


def _read_backend(context: click.Context, option: click.Parameter, backend: str) -> tuple[str, str]:
    """The kind of backend and its address; refuses what is neither of the three."""
    kind, separator, address = backend.partition("://")
    if backend == "local" or (kind in ("dask", "ray") and separator and address):
        return kind, address
    raise InputError(f"--backend must be local, dask://HOST:PORT or ray://HOST:PORT, got {backend!r}.")


# Where a context keeps whether its help is short.
_FOLDED = "outofcluster.cli.folded"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(
    words: str, text: str, name: str = "", *, choices: Sequence[str] = (), rare: bool = False, **settings: Any
) -> Decorator:
    """An option such as "--folds N" with its help; one without a second word is switched on.

    ``name`` is the argument for which it stands, where that is called otherwise, and ``choices`` are its values. A
    ``rare`` one is not in the short help.
    """
    if rare:
        settings["cls"] = RareOption
    flag, _, metavar = words.partition(" ")
    if choices:
        settings["type"] = click.Choice(choices)
    settings.setdefault("show_default", isinstance(settings.get("default"), int | float))
    names = [flag, name] if name else [flag]
    return click.option(*names, metavar=metavar or None, is_flag=None if metavar else True, help=text, **settings)


def example(words: str) -> str:
    """The end of a help text: an example."""
    return f"\b\nExample:\n  outofcluster {words}"


encoding_option = option("--encoding NAME", "Encoding of a CSV file.  [utf-8]", default="utf-8", rare=True)
json_option = option("--json FILE", "Write the numbers as JSON; - for the screen.", "json_path")
checkpoint_option = option("--checkpoint FILE", "Keep finished work here.  [a cache, until it is done]", rare=True)
fail_option = option(
    "--fail-on LEVEL",
    "Exit 1 from note, warning, severe or never.  [severe]",
    choices=("note", "info", "warning", "severe", "never"),
    default="severe",
    rare=True,
)
explain_option = option("--explain", "Show in full what the answer rests on.")
_GROUPS = option("--groups COL", "Column of the clusters, never a feature.", required=True)


def data_options(groups: Decorator = _GROUPS) -> Decorator:
    """The options that say what is modelled; ``groups`` is the one that names the clusters."""
    backends = "local, dask://HOST:PORT or ray://HOST:PORT.  [local]"
    tasks = ("classification", "regression")
    return together(
        click.argument("file", metavar="FILE"),
        option("--target COL", "Column to predict.", required=True),
        groups,
        option("--drop COL", "Column to leave out; may be repeated.", multiple=True),
        option("--keep COL", "Feature that is no id although it looks like one.", multiple=True, rare=True),
        option("--drop-missing-target", "Leave out records without a target.", rare=True),
        encoding_option,
        option("--task KIND", "classification or regression.  [by the target]", choices=tasks, rare=True),
        option("--model NAME", f"{', '.join(MODELS)}, or module:object.  [by the task]"),
        option("--loss NAME", "Loss, such as zero_one, squared_error or brier.", rare=True),
        option("--scoring NAME", "Metrics of scikit-learn by commas: roc_auc,f1.", multiple=True),
        option("--folds N", "Folds of the cross-validation.", "cv", default=5),
        option("--seed N", "The same seed gives the same numbers.", "random_state", default=0),
        option("--jobs N", "Workers, -1 for all.  [1 for linear models, else -1]", "n_jobs", type=int, rare=True),
        option("--backend WHERE", backends, default="local", callback=_read_backend, rare=True),
    )


def sampling_options(models: str) -> Decorator:
    """The options that say how an audit samples; ``models`` says in words what is counted by --fits."""
    share = "Fit until the error of the fits is this share of the standard error."
    kinds = "records, or fragments of clusters.  [auto]"
    unmix = "Fit no models without the records that look leaked."
    return together(
        option("--error-model KIND", f"What leaks: {kinds}", choices=("auto", "records", "fragments"), default="auto"),
        option("--confidence P", "Confidence level of the intervals.", "confidence_level", default=0.95, rare=True),
        option("--precision P", share, default=PRECISION, rare=True),
        option("--fits N", f"{models}.  [as many as --precision takes]", "n_fits", type=int),
        option("--time-limit SECONDS", "Begin no further round of fits after that.", type=float, rare=True),
        option("--no-unmix", unmix, "unmix", callback=lambda _, __, off: False if off else "auto", rare=True),
    )


def leakage_options(text: str) -> Decorator:
    """The options for how much leaks, which `read_leakage` and `read_leakage_std` read."""
    return together(
        option("--leakage RATE", text), option("--leakage-std STD", "Standard error of that share.", rare=True)
    )


def together(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, in the order of the help."""
    return lambda command: reduce(lambda decorated, decorator: decorator(decorated), reversed(decorators), command)


def read_leakage(words: str | None) -> Leakage | float | str | None:
    """What --leakage says: a number, the file of a rate, "data" (the default), or None for no correction."""
    if words is None or words == "data":
        return "data"
    if words == "none":
        return None
    # A number such as 0.12 has an ending, too.
    if words.lower().endswith(".json") or (os.path.isfile(words) and not _is_number(words)):
        try:
            return Leakage.load(words)
        except InputError as error:
            raise InputError(str(error).replace("path", "--leakage", 1)) from None
    return read_rate(words, "--leakage", others=("data", "none"), or_else=" or the file of a rate")


def read_leakage_std(std: str | None, leakage: str | None) -> float | None:
    """What --leakage-std says: the standard error of the number that --leakage says."""
    if std is None:
        return None
    if leakage is None:
        raise InputError("--leakage must be given along with --leakage-std.")
    rate = read_leakage(leakage)
    if not isinstance(rate, float):
        own = "" if rate is None else ", which has a standard error of its own"
        raise InputError(f"--leakage-std must be left out with --leakage {leakage}{own}.")
    return read_rate(std, "--leakage-std")


def at_rate(audit: Audit, rate: Leakage | float, std: float | None, validation: float | None = None) -> Audit:
    """The audit at a rate, of whose number the error model knows what it is a share of; no model is fitted."""
    if std is not None and isinstance(rate, float):
        rate = Leakage(rate, std, ERROR_MODELS[audit.error_model].side)
    return audit.at_leakage(rate, validation=validation)


def read_rate(words: str, option: str, *, others: Sequence[str] = (), or_else: str = "") -> float:
    """A share between 0 and 1 from 0.12 or 12%; ``others`` are words that the option takes as well."""
    bare = words.strip()
    percent = bare.endswith("%")
    try:
        share = float(bare.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        meant = "".join(difflib.get_close_matches(bare.lower(), others, n=1, cutoff=0.7)) or _with_point(bare)
        question = f"; did you mean {meant}?" if meant else "."
        allowed = ", ".join(["a number", *others]) + or_else
        raise InputError(f"{option} must be {allowed}, got {words!r}{question}") from None
    if share > 1 and math.isfinite(share):
        fraction = share <= 100 and not percent
        got = f"{bare}; did you mean {share / 100:g}?" if fraction else f"{words!r}."
        raise InputError(f"{option} must be a share between 0 and 1, or a percentage such as 12%, got {got}")
    return share


def _is_number(words: str) -> bool:
    with suppress(ValueError):
        float(words.strip().removesuffix("%"))
        return True
    return False


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

    def run(self, function: Callable[..., Any], *clusters: Any, **more: Any) -> Any:
        """What `audit`, or another function with its arguments, gives for this problem."""
        return function(self.estimator, self.X, self.records.target, *clusters, **self.arguments, **more)


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
    columns = {name: options.pop(name) for name in signature(read_records).parameters if name in options}
    estimator = None if model is None or model in MODELS else load_model(model)
    metrics = [name.strip() for several in scoring for name in several.split(",")]
    measured = [("--loss", loss)] if loss else [("--scoring", name) for name in metrics]
    wanted = wanted_target(model, estimator, measured, task)
    records = read_records(file, **columns, wanted=wanted, leave_out_ids=estimator is None)
    if records.infinite:
        _say_infinite(records, allowed=estimator is not None or model in TAKE_INFINITE)
    slow = estimator is not None or model in SLOW
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

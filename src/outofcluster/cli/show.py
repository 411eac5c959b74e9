"""``outofcluster show``: a saved audit, asked again without a fit.

What can be asked is in two lists. A `Choice` makes another audit of the same fits, such as one at another rate;
choices are made in the order of their list. A `Question` has an answer of its own, which is printed after the others
and kept in the JSON. Files are the outputs that ``audit`` has as well. A new method of `Audit` needs an entry in one of
these three lists.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

import outofcluster
from outofcluster._base.arguments import shown
from outofcluster._base.exceptions import InputError, needing
from outofcluster.auditing.result import Audit
from outofcluster.cli.options import (
    Decorator,
    FoldedCommand,
    at_rate,
    encoding_option,
    example,
    leakage_options,
    option,
    read_leakage,
    read_leakage_std,
    read_rate,
    together,
)
from outofcluster.cli.outputs import BY, Answer, Outputs, Question, ask, asks, output_options, read_shares
from outofcluster.cli.printing import console, exit_status
from outofcluster.cli.running import FinishedWork, command_line, conclude
from outofcluster.cli.table import read_table
from outofcluster.curves.base import Curve

_EXAMPLES = example(
    """audit visits.csv --target ill --groups patient --save visits.audit
  outofcluster show visits.audit --leakage 10% --plot figure.pdf --methods methods.txt"""
)
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """Another audit of the same fits.

    Attributes
    ----------
    options : decorator
        Its options.
    names : tuple of str
        The names of their arguments; the choice is made where one of them has a value.
    make : callable
        The other audit, from this one and the options.
    tells : tuple of str
        The public names of `Audit` that it reaches.
    """

    options: Decorator
    names: tuple[str, ...]
    make: Callable[[Audit, Options], Audit]
    tells: tuple[str, ...]


# --- another audit of the same fits -------------------------------------------------------------------


def _load(path: str, name: str) -> Audit:
    try:
        return Audit.load(path)
    except InputError as error:
        raise InputError(str(error).replace("path", name, 1)) from None


def _merge(audit: Audit, options: Options) -> Audit:
    for path in options["merge"]:
        audit = audit.merge(_load(path, "--merge"))
    return audit


def _metric(audit: Audit, options: Options) -> Audit:
    name = options["metric"]
    if name not in audit.metrics:
        raise InputError(f"--metric must be one that was audited ({', '.join(audit.metrics)}), got {name!r}.")
    # The other metrics are of the same records.
    same = {name: getattr(audit, name) for name in ("source", "table", "records")}
    return replace(audit.metrics[name], **same)


def _with_columns(audit: Audit, options: Options) -> Audit:
    """The audit with the columns that it kept, or with those of the table that was audited."""
    with needing("columns of records need pandas", "cli"):
        import pandas as pd
    if (path := options["table"]) is None:
        kept = audit.source.columns
        if missing := [name for name in options["by"] if name not in kept]:
            must = f"--by must be a column that the audit kept ({', '.join(kept) or 'none'})"
            raise InputError(f"{must}, got {missing[0]!r}; --table gives the others.")
        return replace(audit, records=pd.DataFrame(kept))
    table, rows = read_table(path, encoding=options["encoding"]), audit.source.rows
    known = audit.source.about.get("sha256", table.sha256)
    frame = table.frame if rows is None or known != table.sha256 else table.frame.iloc[rows]
    if known != table.sha256 or len(frame) != audit.table.n_records:
        raise InputError(f"--table must be the table that was audited, got {path!r}, which is another one.")
    return replace(audit, records=frame.reset_index(drop=True))


def _at_leakage(audit: Audit, options: Options) -> Audit:
    rate = read_leakage(options["leakage"])
    std = read_leakage_std(options["leakage_std"], options["leakage"])
    other_way = options["validation_leakage"]
    validation = None if other_way is None else read_rate(other_way, "--validation-leakage")
    if rate is None or (isinstance(rate, str) and options["leakage"] is not None and not audit.from_data):
        raise InputError(
            f"--leakage must be a rate for a saved audit, got {options['leakage']!r}; audit again for that."
        )
    if not isinstance(rate, str):
        return at_rate(audit, rate, std, validation)
    if validation is None:
        return audit
    if audit.leakage is None:
        raise InputError("--leakage must be given along with --validation-leakage for an audit without a rate.")
    return audit.at_leakage(audit.leakage, validation=validation)


def _curve(audit: Audit, options: Options) -> Audit:
    words = options["curve"]
    return audit.with_curve("auto" if words == "auto" else _read_curve(words))


def _read_curve(words: str) -> Curve:
    """A curve method as Python writes it, such as PolynomialCurve(3); nothing but its name and numbers is read."""
    kinds = {
        name: kind for name, kind in vars(outofcluster).items() if isinstance(kind, type) and issubclass(kind, Curve)
    }
    try:
        call = ast.parse(words.strip(), mode="eval").body
        named = call if isinstance(call, ast.Name) else call.func  # type: ignore[attr-defined]
        values = [] if call is named else [ast.literal_eval(value) for value in call.args]  # type: ignore[attr-defined]
        chosen = {} if call is named else {each.arg: ast.literal_eval(each.value) for each in call.keywords}  # type: ignore[attr-defined]
        kind = kinds[named.id]
    except (SyntaxError, ValueError, KeyError, AttributeError):
        there = f"auto or one of {', '.join(sorted(kinds))}, with its numbers as in 'PolynomialCurve(3)'"
        raise InputError(f"--curve must be {there}, got {words!r}.") from None
    try:
        return kind(*values, **chosen)
    except TypeError:
        parameters = ", ".join(kind().get_params()) or "none"
        raise InputError(f"--curve must have the parameters of {named.id} ({parameters}), got {words!r}.") from None


def _fold(audit: Audit, options: Options) -> Audit:
    folds = [fold.index for fold in audit.samples.folds]
    if options["fold"] not in folds:
        raise InputError(f"--fold must be one that was audited ({shown(folds)}), got {options['fold']}.")
    return audit.of_fold(folds.index(options["fold"]))


CHOICES = (
    Choice(
        option(
            "--merge AUDIT", "Another audit of the same table and model; may be repeated.", multiple=True, rare=True
        ),
        ("merge",),
        _merge,
        ("merge",),
    ),
    Choice(option("--metric NAME", "Ask about this one of several metrics."), ("metric",), _metric, ("metrics",)),
    Choice(
        together(
            option("--table FILE", "The table that was audited, for columns that it did not keep.", rare=True),
            encoding_option,
        ),
        ("table", "by"),
        _with_columns,
        ("records",),
    ),
    Choice(
        together(
            leakage_options("What if so much leaks: 0.12, 12%, rate.json.  [as audited]"),
            option(
                "--validation-leakage P", "What if so many held-out records belong to training clusters.", rare=True
            ),
        ),
        ("leakage", "leakage_std", "validation_leakage"),
        _at_leakage,
        ("at_leakage",),
    ),
    Choice(
        option("--confidence P", "Confidence level of the intervals.", type=float),
        ("confidence",),
        lambda audit, options: audit.with_confidence(options["confidence"]),
        ("with_confidence",),
    ),
    Choice(
        option("--units KIND", "clusters or records: what the intervals are about.", rare=True),
        ("units",),
        lambda audit, options: audit.with_units(options["units"]),
        ("with_units",),
    ),
    Choice(
        option("--curve METHOD", "Curve method for single records, as in 'PolynomialCurve(3)'.", rare=True),
        ("curve",),
        _curve,
        ("with_curve",),
    ),
    Choice(option("--fold N", "Ask about one fold alone.", type=int), ("fold",), _fold, ("of_fold",)),
)

# --- questions ----------------------------------------------------------------------------------------


def _over_rates(audit: Audit, options: Options) -> Any:
    rates = read_shares(options["rates"], "--rates")
    if options["validation_rates"] is None:
        return audit.sensitivity(rates)
    return audit.sensitivity_surface(rates, read_shares(options["validation_rates"], "--validation-rates"))


def _plan(name: str) -> Callable[[Audit, Options], Any]:
    def answer(audit: Audit, options: Options) -> Any:
        try:
            return getattr(outofcluster, name)(audit, options[name])
        except InputError as error:
            argument, words = str(error).split(" ", 1)
            named = {"width": f"--{name.replace('_', '-')}", "result": "AUDIT"}
            raise InputError(f"{named.get(argument, argument)} {words}") from None

    return answer


QUESTIONS = (
    Question(
        option("--tipping VALUE", "At which leakage rate is the corrected value this bad?", type=float),
        ("tipping",),
        lambda audit, options: audit.tipping_point(options["tipping"]),
        ("tipping_point", "value_at", "rate_grid"),
    ),
    Question(
        together(
            option("--sensitivity", "The corrected value over leakage rates."),
            option("--rates A,B", "These rates, by commas.  [0 to 30 %]", rare=True),
            option(
                "--validation-rates A,B", "And these shares of held-out records that leak the other way.", rare=True
            ),
        ),
        ("sensitivity", "rates", "validation_rates"),
        _over_rates,
        ("sensitivity", "sensitivity_surface"),
    ),
    BY,
    Question(
        option("--spread", "How much clusters differ, and what to expect of a new one."),
        ("spread",),
        lambda audit, _: audit.spread(),
        ("spread",),
    ),
    Question(
        option(
            "--plan-review WIDTH", "How many look-ups bring the interval of the optimism to this width?", type=float
        ),
        ("plan_review",),
        _plan("plan_review"),
        (),
    ),
    Question(
        option("--plan-clusters WIDTH", "And how many clusters that of the corrected value?", type=float, rare=True),
        ("plan_clusters",),
        _plan("plan_clusters"),
        (),
    ),
    Question(
        option("--parts", "The sources that the optimism rests on."),
        ("parts",),
        lambda audit, _: audit.parts(),
        ("parts",),
    ),
    Question(
        option("--cost", "How many models were fitted.", rare=True),
        ("cost",),
        lambda audit, _: audit.cost,
        ("cost", "seconds"),
    ),
)


@click.command("show", cls=FoldedCommand, epilog=_EXAMPLES)
@click.argument("audit", metavar="AUDIT")
@together(*(entry.options for entry in (*CHOICES, *QUESTIONS)))
@output_options()
@option("--review-columns A,B", "Columns of --table that help to look clusters up, by commas.", rare=True)
@option("--seed N", "Seed of the draw of --review-list.", default=0, rare=True)
def command(audit: str, seed: int, **options: Any) -> None:
    """Ask a saved audit again, without fitting a model.

    AUDIT is a file that 'outofcluster audit --save' wrote, or Audit.save in Python. The records are not needed. With an
    output on the screen (--json -) nothing else is printed.
    """
    outputs = Outputs.taken_from(options, options)
    outputs.check(
        {"AUDIT": audit, "--table": options["table"], **{f"--merge {path}": path for path in options["merge"]}}
    )
    if outputs.review.columns and options["table"] is None:
        raise InputError("--table must be given along with --review-columns.")
    result = _load(audit, "AUDIT")
    for choice in CHOICES:
        if asks(choice.names, options):
            result = choice.make(result, options)
    outputs.review.check(result.table.n_clusters)
    answer = Answer(result, seed, ask(QUESTIONS, result, options), command={"asked again": command_line()})
    status = exit_status(answer.summary.findings, outputs.fail_on)
    # Nothing is written unless everything can be told.
    contents = {name: _kept(make()) for name, make in outputs.contents(answer).items()}
    out = console()
    out.quiet = outputs.on_screen

    def show() -> None:
        clusters, *others = result.table.lines
        out.print(f"{answer.name}: {clusters}" if answer.name else clusters)
        for line in others:
            out.print(line)
        outputs.show(out, answer)

    conclude(out, FinishedWork(None), outputs.files, contents, show, status)


def _kept(content: str | bytes) -> Callable[[], str | bytes]:
    return lambda: content

"""``outofcluster audit``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from outofcluster._base.exceptions import InputError
from outofcluster.auditing.price import Announcement
from outofcluster.auditing.result import Source
from outofcluster.cli.options import (
    FoldedCommand,
    Problem,
    at_rate,
    checkpoint_option,
    data_options,
    example,
    leakage_options,
    option,
    read_leakage,
    read_leakage_std,
    read_problem,
    sampling_options,
)
from outofcluster.cli.outputs import BY, Answer, Outputs, ask, output_options, read_quantiles
from outofcluster.cli.printing import console, exit_status, show_account
from outofcluster.cli.running import FinishedWork, command_line, conclude, fitting
from outofcluster.errormodels.records import FITS_TO_UNMIX

_EXAMPLES = example(
    """audit visits.csv --target ill --groups patient --review-list look_up.csv
  (write into its column same_as which other patients are the same person, or none)
  outofcluster audit visits.csv --target ill --groups patient --reviewed look_up.csv"""
)


@click.command("audit", cls=FoldedCommand, epilog=_EXAMPLES)
@data_options()
@leakage_options("How much leaks: 0.12, 12%, rate.json or none.  [data]")
@option("--identity COL", "Column that tells who is who; never a feature.", multiple=True)
@option("--review-columns A,B", "Columns that help to look clusters up, by commas.", rare=True)
@option("--reviewed FILE", "Use a review list, once same_as is filled in.")
@option("--reviewer-error P", "Share of its answers that may be wrong.  [0]", rare=True)
@sampling_options("Models to fit")
@BY.options
@output_options()
@checkpoint_option
def command(
    file: str,
    leakage: str | None,
    leakage_std: str | None,
    checkpoint: str | None,
    by: tuple[str, ...],
    quantiles: str | None,
    **options: Any,
) -> None:
    """Audit the cross-validation of a model on a table of records.

    FILE is CSV or Parquet. All columns but the target and the groups are features; text, dates and gaps are handled.
    Nobody needs to know how much leaks: models are fitted without what looks leaked (--leakage data).
    """
    rate, std = read_leakage(leakage), read_leakage_std(leakage_std, leakage)
    asked = {"by": by, "quantiles": quantiles}
    outputs = Outputs.taken_from(options, asked)
    review, files = outputs.review, outputs.files
    outputs.check({"FILE": file, "--reviewed": review.reviewed}, checkpoint)
    if review.reviewed is not None and rate is None:
        raise InputError("--reviewed must be left out with --leakage none, which asks for no correction.")
    looked_up = review.arguments()
    problem = read_problem(file, review_columns=review.columns, by=by, **options)
    review.check(problem.records.account.n_clusters)
    out = console(error=outputs.on_screen)

    def begin(announcement: Announcement) -> Callable[[float], None]:
        # Whatever else is wrong with the command has been refused by now.
        if files["--suspects"] is not None:
            _check_suspects(problem, announcement.error_model, rate)
        if files["--review-list"] is not None:
            _check_review(problem, announcement.error_model)
        if by:
            _check_subgroups(problem, announcement, by, rate, **read_quantiles(quantiles))
        return show_account(out, problem, announcement)

    with fitting(problem, begin):
        work = FinishedWork.of(checkpoint, problem, file, options)
        result = work.run(lambda path: _audit(problem, rate, std, path, looked_up, by))
    answers, failures = dict[str, Any](), list[str]()
    try:
        answers = ask([BY], result, asked)
    except InputError as error:
        failures.append(str(error))
    answer = Answer(result, problem.arguments["random_state"], answers)
    conclude(
        out,
        work,
        files,
        outputs.contents(answer),
        show=lambda: outputs.show(out, answer),
        status=exit_status(answer.summary.findings, outputs.fail_on),
        failures=failures,
    )


def _check_suspects(problem: Problem, error_model: str, rate: Any) -> None:
    """Refuse to look for suspects where the two sides of the splits will not be compared."""
    if error_model == "records" and rate == "data":
        return
    if not problem.arguments["unmix"]:
        other = "" if error_model == "fragments" else ", or without --leakage"
        raise InputError(f"--suspects must be given without --no-unmix{other}.")
    n_folds, n_fits = problem.arguments["cv"], problem.arguments["n_fits"]
    if error_model == "records" and n_fits is not None and n_fits // n_folds < FITS_TO_UNMIX:
        raise InputError(
            f"--fits must be at least {FITS_TO_UNMIX * n_folds} for --suspects among single records, which is "
            f"{FITS_TO_UNMIX} for each fold, got {n_fits}."
        )


def _check_review(problem: Problem, error_model: str) -> None:
    """Refuse to draw clusters for somebody to look up where they are not compared, or are no pieces."""
    if error_model != "fragments":
        raise InputError(
            "--review-list must be given with --error-model fragments, got records, which leak one by one; --suspects "
            "lists those that look leaked."
        )
    if not problem.arguments["unmix"]:
        raise InputError("--review-list must be given without --no-unmix, since clusters are not compared with it.")


def _check_subgroups(
    problem: Problem, announcement: Announcement, by: tuple[str, ...], rate: Any, **quantiles: Any
) -> None:
    """Refuse columns without subgroups, and metrics that cannot be computed of a subgroup."""
    from outofcluster.auditing.subgroups import THIRDS, read_partition, refuse_single_records, refuse_unknown
    from outofcluster.metrics.resolve import NamedMetric
    from outofcluster.sampling.audit_samples import has_pieces

    metric = announcement.task.metrics[0]
    refuse_unknown("--by", metric.facts, computable=metric.is_mean or NamedMetric.of(metric) is not None)
    if rate is not None:
        pieces = has_pieces(announcement.error_model)
        refuse_single_records("--by", metric.facts, is_mean=metric.is_mean, has_pieces=pieces)
    for name in by:
        read_partition(name, problem.records.shown, len(problem.records.target), quantiles.get("quantiles", THIRDS))


def _plain_values(column: Any) -> tuple[Any, ...]:
    """The values of a column as a file can hold them: numbers, truth values and text."""
    if column.dtype.kind in "iufb":
        return tuple(column.tolist())
    return tuple(None if missing else str(value) for value, missing in zip(column, column.isna(), strict=True))


def _audit(
    problem: Problem,
    rate: Any,
    std: float | None,
    checkpoint: str | None,
    looked_up: dict[str, Any],
    by: tuple[str, ...],
) -> Any:
    from outofcluster.auditing.run import audit

    records = problem.records
    known: dict[str, Any] = looked_up if records.identity is None else looked_up | {"identity": records.identity}
    result = problem.run(audit, groups=records.groups, leakage=rate, progress=True, checkpoint=checkpoint, **known)
    # The table as it was read says more than the matrix that the model sees.
    kept = {name: _plain_values(records.shown[name]) for name in by}
    source = Source(records.about | {"command": command_line()}, records.rows, kept)
    result = replace(result, table=records.account, source=source, records=records.shown)
    # The error model, which is known now, says what the rate is a share of. Solving again needs no further fit.
    return result if std is None else at_rate(result, rate, std)

"""``outofcluster audit``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import click

from outofcluster._base.exceptions import InputError
from outofcluster._base.text import printable
from outofcluster.auditing.price import Announcement
from outofcluster.cli.options import (
    FoldedCommand,
    Problem,
    data_options,
    example,
    explain_option,
    option,
    output_options,
    read_leakage,
    read_leakage_std,
    read_problem,
    sampling_options,
)
from outofcluster.cli.printing import as_json, console, exit_status, in_options, on_screen, show_account, show_audit
from outofcluster.cli.review import SIZE, ReviewOptions
from outofcluster.cli.running import FinishedWork, check_files, command_line, conclude, fitting
from outofcluster.errormodels.choose import MODELS as ERROR_MODELS
from outofcluster.errormodels.records import FITS_TO_UNMIX
from outofcluster.leakage.rate import Leakage

_EXAMPLES = example(
    """audit visits.csv --target ill --groups patient --review-list look_up.csv
  (write into its column same_as which other patients are the same person, or none)
  outofcluster audit visits.csv --target ill --groups patient --reviewed look_up.csv"""
)


@click.command("audit", cls=FoldedCommand, epilog=_EXAMPLES)
@data_options()
@option("--leakage RATE", "How much leaks: 0.12, 12%, rate.json, none (no correction).  [data]")
@option("--leakage-std STD", "Standard error of that share.", rare=True)
@option("--identity COL", "Column that tells who is who; never a feature.", multiple=True)
@option("--review-list FILE", "Write clusters to look up as CSV, for a spreadsheet.")
@option("--review-size N", f"How many of them.  [{SIZE}]", type=int, rare=True)
@option("--review-columns A,B", "Columns that help to look them up, by commas.", rare=True)
@option("--reviewed FILE", "Use such a list, once same_as is filled in.")
@option("--reviewer-error P", "Share of its answers that may be wrong.  [0]", rare=True)
@sampling_options("Models to fit")
@explain_option
@option("--report FILE", "Write an HTML report.")
@option("--suspects FILE", "Write what looks leaked as CSV; rows count from 0.")
@output_options()
def command(
    file: str,
    leakage: str | None,
    leakage_std: str | None,
    explain: bool,
    report: str | None,
    suspects: str | None,
    json_path: str | None,
    checkpoint: str | None,
    fail_on: str,
    **options: Any,
) -> None:
    """Audit the cross-validation of a model on a table of records.

    FILE is CSV or Parquet. All columns but the target and the groups are features; text, dates and gaps are handled.
    Nobody needs to know how much leaks: models are fitted without what looks leaked (--leakage data).
    """
    rate, std = read_leakage(leakage), read_leakage_std(leakage_std, leakage)
    review = ReviewOptions(**{field.name: options.pop(field.name) for field in fields(ReviewOptions)})
    files = {"--report": report, "--json": json_path, "--suspects": suspects, "--review-list": review.review_list}
    check_files(files, {"FILE": file, "--reviewed": review.reviewed}, checkpoint)
    if review.reviewed is not None and rate is None:
        raise InputError("--reviewed must be left out with --leakage none, which asks for no correction.")
    looked_up = review.arguments()
    problem = read_problem(file, review_columns=review.columns, **options)
    review.check(problem.records.account.n_clusters)
    out, err = console(error=on_screen(*files.values())), console(error=True)
    if err.is_terminal:
        err.print("Cross-validating, then fitting further models, fold by fold.")

    def begin(announcement: Announcement) -> None:
        # Whatever else is wrong with the command has been refused by now.
        if suspects is not None:
            _check_suspects(problem, announcement.error_model, rate)
        if review.review_list is not None:
            _check_review(problem, announcement.error_model)
        show_account(out, problem, announcement)

    with fitting(problem, begin):
        work = FinishedWork.of(checkpoint, problem, file, options)
        result = work.run(lambda path: _audit(problem, rate, std, path, looked_up))
    summary = in_options(result.summary)
    about = problem.records.about | {"command": command_line()}

    def render_report() -> str:
        from outofcluster.present.report import render_html

        listed = None
        # Features that tell no entities apart leave no suspects.
        with suppress(InputError):
            listed = _suspects(result, problem)
        return render_html(summary, title=f"Audit of {problem.records.name}", about=about, suspects=listed)

    conclude(
        out,
        work,
        files,
        {
            "--report": render_report,
            "--json": lambda: as_json(summary.to_dict() | {"about": about}),
            "--suspects": lambda: printable(str(_suspects(result, problem).to_csv(index=False))),
            "--review-list": lambda: review.written(result, problem),
        },
        show=lambda: show_audit(out, summary, explain=explain),
        status=exit_status(summary.findings, fail_on),
    )


def _suspects(result: Any, problem: Problem) -> Any:
    """The training clusters or records that look leaked; records with their clusters, as rows of the file."""
    listed = result.suspects()
    if result.error_model == "fragments":
        return listed
    records = problem.records
    listed.insert(2, "cluster", records.groups[listed["record"]])
    return listed.assign(record=records.rows[listed["record"]])


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


def _audit(problem: Problem, rate: Any, std: float | None, checkpoint: str | None, looked_up: dict[str, Any]) -> Any:
    from outofcluster.auditing.run import audit

    records = problem.records
    known: dict[str, Any] = looked_up if records.identity is None else looked_up | {"identity": records.identity}
    result = problem.run(audit, groups=records.groups, leakage=rate, progress=True, checkpoint=checkpoint, **known)
    # The table as it was read says more than the matrix that the model sees.
    result = replace(result, table=records.account)
    if std is None:
        return result
    # The error model, which is known now, says what the rate is a share of. Solving again needs no further fit.
    return result.at_leakage(Leakage(rate, std, ERROR_MODELS[result.error_model].side))

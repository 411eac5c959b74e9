"""``outofcluster audit``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.files import write_whole
from outofcluster._base.text import printable
from outofcluster.auditing.beginning import Beginning, before_fits
from outofcluster.auditing.summary import Summary
from outofcluster.cli._account import account_printer
from outofcluster.cli._backend import on_backend
from outofcluster.cli._error_model import check_data_rate, chosen_error_model
from outofcluster.cli._finished import FinishedWork, check_files
from outofcluster.cli._options import (
    ERROR_MODELS,
    Problem,
    confidence_option,
    data_options,
    fail_on_option,
    json_option,
    quietly,
    read_problem,
)
from outofcluster.cli._print import console, exit_status, in_options, on_screen, show_audit, write_json
from outofcluster.cli._suggest import read_share
from outofcluster.cli._words import complain

_FITS_TO_UNMIX = 150
"""Fits of a fold from which on the two sides of its split are compared."""

_WRITTEN = {
    "--report": "The report is in {}.",
    "--suspects": "The suspects are in {}, the likeliest first.",
}
"""What is said of files that were written."""

_EPILOG = """\b
Example:
  outofcluster audit visits.csv --target ill --groups patient --leakage 0.1 --report visits.html"""


@click.command("audit", short_help="Correct a cross-validated loss.", epilog=_EPILOG)
@data_options
@click.option(
    "--leakage",
    metavar="RATE",
    help="Share that leaks: 0.12, 12%, or data (from them).",
)
@click.option("--leakage-std", metavar="STD", help="Standard error of that share.")
@click.option(
    "--error-model",
    type=ERROR_MODELS,
    default="auto",
    metavar="KIND",
    help="What leaks: records (RATE is a share of the training records) or fragments (of the held-out ones).  [auto]",
)
@click.option("--errors", "old_error_model", type=ERROR_MODELS, hidden=True, help="The old name of --error-model.")
@confidence_option
@click.option("--fits", type=int, metavar="N", help="Models to fit.  [records: 4000, fragments: 500]")
@click.option("--no-unmix", is_flag=True, help="Fit no models without the records that look leaked.")
@click.option("--explain", is_flag=True, help="Show in full what the answer rests on.")
@click.option("--report", metavar="FILE", help="Write an HTML report.")
@click.option(
    "--suspects",
    metavar="FILE",
    help="Write what looks leaked as CSV; rows count from 0.",
)
@json_option
@click.option("--checkpoint", metavar="FILE", help="Keep finished work here.  [a cache, until it is done]")
@fail_on_option
def command(
    file: str,
    leakage: str | None,
    leakage_std: str | None,
    error_model: str,
    old_error_model: str | None,
    confidence_level: float,
    folds: int,
    fits: int | None,
    no_unmix: bool,
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
    """
    error_model = old_error_model or error_model
    rate = _read_rate(leakage, leakage_std)
    files = {"--report": report, "--json": None if json_path == "-" else json_path, "--suspects": suspects}
    check_files(file, files, checkpoint)
    if suspects is not None and no_unmix and rate != "data":
        other = "" if error_model == "fragments" else ", or with --leakage data"
        raise InputError(f"--suspects must be given without --no-unmix{other}.")
    problem = read_problem(file, **options)
    out, err = console(error=on_screen(report, json_path, suspects)), console(error=True)
    if err.is_terminal:
        err.print("Cross-validating, then fitting models to resamples, fold by fold.", markup=False)
    # Where the fits run does not change them, so another backend goes on from what one has done.
    of_problem = {name: value for name, value in options.items() if name != "backend"}
    parts = [problem.records.about["sha256"], file, folds, fits, error_model, of_problem, no_unmix]
    progress = FinishedWork.of(checkpoint, parts)
    click.get_current_context().call_on_close(progress.release)
    try:
        with quietly(), on_backend(problem.backend):
            choices = {"error_model": error_model, "confidence_level": confidence_level, "cv": folds, "n_fits": fits}
            choices["unmix"] = False if no_unmix else "auto"
            choices["random_state"] = options["seed"]
            show_account = account_printer(out, problem.records, problem.account, problem.n_jobs)

            def begin(beginning: Beginning) -> None:
                # Whatever else is wrong with the command has been refused by now.
                if suspects is not None and rate != "data":
                    _check_suspects(problem, error_model, folds, fits)
                show_account(beginning)

            if rate == "data":
                check_data_rate(problem, [problem.records.groups], error_model, folds)
            with before_fits(begin):
                result = progress.run(lambda path: _audit(problem, rate, checkpoint=path, **choices))
    except KeyboardInterrupt:
        progress.stop(err)
    finally:
        progress.tidy()
    # Whatever was asked for is in its file before anything is shown.
    summary = in_options(result.summary)
    about = problem.records.about | {"command": shlex.join(["outofcluster", *sys.argv[1:]])}
    written, failed = _write(result, summary, problem, files, about)
    show_audit(out, summary, explain=explain)
    for name in written:
        if name in _WRITTEN:
            out.print(f"\n{_WRITTEN[name].format(files[name])}", markup=False)
    if json_path == "-":
        write_json("-", _as_json(summary, about))
    for sentence in failed:
        complain(sentence)
    if failed:
        # The work is kept, so that the same command can write them without another fit.
        sys.exit(3)
    progress.drop()
    sys.exit(exit_status(summary.findings, fail_on))


def _write(
    result: Any, summary: Summary, problem: Problem, files: dict[str, str | None], about: dict[str, str]
) -> tuple[list[str], list[str]]:
    """Write the files that were asked for: the options of those that were written, and a sentence for each other."""
    from outofcluster.present.report import render_html

    listed = None if summary.auc is None else _suspects(result, problem)

    def suspects() -> str:
        return printable(str((_suspects(result, problem) if listed is None else listed).to_csv(index=False)))

    content: dict[str, Callable[[], str]] = {
        "--report": lambda: render_html(
            summary, title=f"Audit of {problem.records.name}", about=about, suspects=listed
        ),
        "--json": lambda: _as_json(summary, about) + "\n",
        "--suspects": suspects,
    }
    written, failed = list[str](), list[str]()
    for name, path in files.items():
        if path is None:
            continue
        try:
            write_whole(name, path, content[name]())
            written.append(name)
        except (InputError, MissingExtraError) as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"{name} could not be written to {path!r}: {error.strerror or error}.")
    return written, failed


def _suspects(result: Any, problem: Problem) -> Any:
    """The training clusters or records that look leaked; records with their clusters, as rows of the file."""
    try:
        listed = result.suspects()
    except InputError:
        if result.error_model == "records":
            raise
        # Python's sentence names its own function, and is about few clusters or about features that tell nothing.
        raise InputError(
            "--suspects must go with records that show which clusters belong together, got clusters that are too few, "
            "or features that do not tell them apart."
        ) from None
    if result.error_model == "fragments":
        return listed
    records = problem.records
    listed.insert(2, "cluster", records.groups[listed["record"]])
    return listed.assign(record=records.rows[listed["record"]])


def _as_json(summary: Summary, about: dict[str, str]) -> str:
    return json.dumps(summary.to_dict() | {"about": about}, indent=2, allow_nan=False)


def _read_rate(leakage: str | None, std: str | None) -> Any:
    """The rate as a `Leakage`, "data", or None; refused where it is neither."""
    from outofcluster.leakage.rate import Leakage

    if leakage is None:
        if std is not None:
            raise InputError("--leakage must be given along with --leakage-std.")
        return None
    if leakage == "data":
        if std is not None:
            raise InputError(
                "--leakage-std must be left out with --leakage data, which has a standard error of its own."
            )
        return leakage
    rate = read_share("--leakage", leakage, other="data")
    return Leakage(rate, None if std is None else read_share("--leakage-std", std))


def _check_suspects(problem: Problem, error_model: str, folds: int, fits: int | None) -> None:
    """Refuse to look for suspects among single records where the two sides of the splits will not be compared."""
    chosen, _ = chosen_error_model(problem, problem.records.groups, error_model, folds)
    if chosen == "records" and fits is not None and fits // folds < _FITS_TO_UNMIX:
        raise InputError(
            f"--fits must be at least {_FITS_TO_UNMIX * folds} for --suspects among single records, which is "
            f"{_FITS_TO_UNMIX} for each fold, got {fits}."
        )


def _audit(problem: Problem, rate: Any, **choices: Any) -> Any:
    from outofcluster.auditing.run import audit
    from outofcluster.leakage.rate import Leakage

    result = audit(
        problem.estimator,
        problem.X,
        problem.records.target,
        groups=problem.records.groups,
        leakage=rate.rate if isinstance(rate, Leakage) else rate,
        **problem.scored,
        n_jobs=problem.n_jobs,
        progress=True,
        **choices,
    )
    # The table as it was read says more than the matrix that the model sees.
    result = replace(result, table=problem.account)
    if not isinstance(rate, Leakage) or rate.std is None:
        return result
    # The error model, which is known now, says what the rate is a share of. Solving again needs no further fit.
    return result.at_leakage(Leakage(rate.rate, rate.std, "train" if result.error_model == "records" else "validation"))

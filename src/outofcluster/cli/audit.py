"""``outofcluster audit``."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from outofcluster._base.exceptions import InputError
from outofcluster.cli._options import Problem, data_options, json_option, quietly, read_problem
from outofcluster.cli._print import console, exit_status, in_options, show_audit, write_json

__all__ = ["command"]

_LARGEST_RATE = 0.5
_FITS_TO_UNMIX = 150
"""Fits of a fold from which on the two sides of its split are compared."""
_ERROR_MODELS = click.Choice(["auto", "records", "fragments"])

_EPILOG = """\b
Example:
  outofcluster audit visits.csv --target ill --groups patient --leakage 0.1 --report visits.html"""


@click.command("audit", short_help="Correct a cross-validated loss.", epilog=_EPILOG)
@data_options
@click.option(
    "--leakage",
    metavar="RATE",
    help="Share that leaks, or data: from the records.",
)
@click.option("--leakage-std", type=float, metavar="STD", help="Standard error of that share.")
@click.option(
    "--error-model",
    type=_ERROR_MODELS,
    default="auto",
    metavar="KIND",
    help="What leaks: records (RATE is a share of the training records) or fragments (of the held-out ones).  [auto]",
)
@click.option("--errors", "old_error_model", type=_ERROR_MODELS, hidden=True, help="The old name of --error-model.")
@click.option(
    "--confidence-level", default=0.95, show_default=True, metavar="P", help="Confidence level of the intervals."
)
@click.option("--fits", type=int, metavar="N", help="Models to fit.  [records: 4000, fragments: 500]")
@click.option("--no-unmix", is_flag=True, help="Fit no models without the records that look leaked.")
@click.option("--report", metavar="FILE", help="Write an HTML report.")
@click.option(
    "--suspects",
    metavar="FILE",
    help="Write the records that look leaked, as CSV.",
)
@json_option
@click.option("--checkpoint", metavar="FILE", help="Keep finished work here.  [a cache, until it is done]")
@click.option(
    "--fail-on",
    type=click.Choice(["info", "warning", "severe", "never"]),
    default="severe",
    metavar="LEVEL",
    help="Exit with 1 for findings from info, warning or severe on, or never.  [severe]",
)
def command(
    file: str,
    leakage: str | None,
    leakage_std: float | None,
    error_model: str,
    old_error_model: str | None,
    confidence_level: float,
    folds: int,
    fits: int | None,
    no_unmix: bool,
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
    from outofcluster.present.report import write_html, write_whole

    error_model = old_error_model or error_model
    rate = _read_rate(leakage, leakage_std)
    _check_outputs(
        file, {"--report": report, "--json": None if json_path == "-" else json_path, "--suspects": suspects}
    )
    if suspects is not None:
        _check_suspects(
            error_model, rate, no_unmix=no_unmix, fits_per_fold=None if fits is None else fits // max(folds, 1)
        )
    problem = read_problem(file, **options)
    out, err = console(error=json_path == "-"), console(error=True)
    if err.is_terminal:
        err.print("Cross-validating, then fitting models to resamples, fold by fold.", markup=False)
    parts = [problem.records.about["sha256"], file, folds, fits, error_model, options, no_unmix]
    progress = _Progress.of(checkpoint, parts)
    try:
        with quietly():
            choices = {"error_model": error_model, "confidence_level": confidence_level, "cv": folds, "n_fits": fits}
            choices["unmix"] = False if no_unmix else "auto"
            if suspects is not None:
                # The records model is the only one that has suspects; fragments are refused before the first fit.
                choices["error_model"] = _records_only(problem, error_model, folds)
            result = _audit(problem, rate, random_state=options["seed"], checkpoint=progress.path, **choices)
    except KeyboardInterrupt:
        err.print()
        if progress.path is not None and progress.exists:
            err.print("Stopped. What was fitted is kept, and the same command goes on from there.", markup=False)
        else:
            err.print("Stopped before anything was fitted. The same command starts again.", markup=False)
        sys.exit(130)
    finally:
        progress.tidy()
    summary = in_options(result.summary)
    about = problem.records.about | {"command": shlex.join(["outofcluster", *sys.argv[1:]])}
    _introduce(out, problem)
    show_audit(out, summary)
    listed = None if summary.auc is None else result.suspects()
    if report is not None:
        write_html(summary, report, title=f"Audit of {Path(file).name}", about=about, suspects=listed)
        out.print(f"\nThe report is in {report}.", markup=False)
    if suspects is not None:
        assert listed is not None
        listed.insert(2, "cluster", problem.records.groups[listed["record"]])
        write_whole("--suspects", suspects, listed.to_csv(index=False))
        out.print(f"\nThe suspects are in {suspects}, the likeliest first.", markup=False)
    if json_path is not None:
        write_json(json_path, json.dumps(summary.to_dict() | {"about": about}, indent=2, allow_nan=False))
    progress.drop()
    sys.exit(exit_status(summary.findings, fail_on))


def _read_rate(leakage: str | None, std: float | None) -> Any:
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
    try:
        rate = float(leakage)
    except ValueError:
        raise InputError(f"--leakage must be a number or data, got {leakage!r}.") from None
    if rate > _LARGEST_RATE:
        raise InputError(f"--leakage must be at most {_LARGEST_RATE}, beyond which nothing can be told, got {rate:g}.")
    return Leakage(rate, std)


def _check_outputs(file: str, outputs: dict[str, str | None]) -> None:
    """Refuse files that cannot be written, that would replace the records, or that would replace each other."""
    from outofcluster.present.report import check_destination

    places = {os.path.realpath(file): "FILE"}
    for name, path in outputs.items():
        if path is None:
            continue
        check_destination(name, path)
        other = places.setdefault(os.path.realpath(path), name)
        if other != name:
            raise InputError(f"{name} must be another file than {other}, got {path!r} for both.")


def _check_suspects(error_model: str, rate: Any, *, no_unmix: bool, fits_per_fold: int | None) -> None:
    """Refuse to look for suspects where the two sides of the splits will not be compared."""
    if error_model == "fragments":
        raise InputError("--suspects must go with --error-model records, got fragments.")
    if rate == "data":
        return
    if no_unmix:
        raise InputError("--suspects must be given without --no-unmix, or with --leakage data.")
    if fits_per_fold is not None and fits_per_fold < _FITS_TO_UNMIX:
        raise InputError(
            f"--fits must be at least {_FITS_TO_UNMIX} per fold for --suspects, got {fits_per_fold} per fold."
        )


def _records_only(problem: Problem, error_model: str, folds: int) -> str:
    """The error model where it is that of records; refused where the clusters look like linked pieces."""
    from outofcluster.auditing.choices import choose_error_model
    from outofcluster.split.folds import Clusters, make_folds

    groups = problem.records.groups
    split = make_folds(problem.X, problem.records.target, groups, folds)
    chosen, reason = choose_error_model(error_model, None, split, Clusters.of(groups, None).codes)
    if chosen != "records":
        raise InputError(
            f"--suspects must go with --error-model records, got auto, which stands for {chosen}: {reason}."
        )
    return error_model


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
    if not isinstance(rate, Leakage) or rate.std is None:
        return result
    # The error model, which is known now, says what the rate is a share of. Solving again needs no further fit.
    return result.at_leakage(Leakage(rate.rate, rate.std, "train" if result.error_model == "records" else "validation"))


def _introduce(out: Any, problem: Problem) -> None:
    about = problem.records.about
    model = " ".join(repr(problem.estimator).split())
    out.print(f"{about['data']}; target {about['target']}.", markup=False)
    if "encoded" in about:
        out.print(f"Columns {about['encoded']}.", markup=False)
    out.print(f"Model: {model if len(model) <= 200 else model[:197] + '...'}", markup=False)


class _Progress:
    """The place of finished work: where the user says, or in a cache until the audit is done."""

    def __init__(self, path: str | None, folder: Path | None) -> None:
        self.path, self._folder = path, folder

    @classmethod
    def of(cls, checkpoint: str | None, parts: list[Any]) -> _Progress:
        """The place that the same command finds again."""
        if checkpoint is not None:
            return cls(checkpoint, None)
        from outofcluster._base.version import __version__

        name = hashlib.sha256(repr([__version__, *parts]).encode()).hexdigest()[:24]
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(cache) / "outofcluster" / "audits" / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return cls(None, None)
        return cls(str(folder / "fits"), folder)

    @property
    def exists(self) -> bool:
        """Whether there is finished work."""
        assert self.path is not None
        place = Path(self.path)
        return any(any(place.parent.glob(f"{place.name}.{part}*")) for part in ("baselines", "fold"))

    def tidy(self) -> None:
        """Remove the cache if it is empty."""
        if self._folder is not None and not self.exists:
            shutil.rmtree(self._folder, ignore_errors=True)

    def drop(self) -> None:
        """Remove the cache once it is no longer needed."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

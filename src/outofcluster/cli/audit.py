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


_EPILOG = """\b
Example:
  outofcluster audit visits.csv --target ill --groups patient --leakage 0.1 --report visits.html"""


@click.command("audit", short_help="Correct a cross-validated loss.", epilog=_EPILOG)
@data_options
@click.option("--leakage", type=float, metavar="RATE", help="Share that leaks; see 'outofcluster leakage'.")
@click.option("--leakage-std", type=float, metavar="STD", help="Its standard error.")
@click.option(
    "--error-model",
    "--errors",
    "error_model",
    type=click.Choice(["auto", "records", "fragments"]),
    default="auto",
    metavar="KIND",
    help="What leaks: records (RATE is a share of the training records), or fragments: pieces of clusters (of the "
    "held-out records).  [auto: by the clusters' sizes]",
)
@click.option("--fits", type=int, metavar="N", help="Models to fit in all.  [3000 for records, 400 for fragments]")
@click.option("--report", metavar="FILE", help="Write an HTML report.")
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
    leakage: float | None,
    leakage_std: float | None,
    error_model: Any,
    folds: int,
    fits: int | None,
    report: str | None,
    json_path: str | None,
    checkpoint: str | None,
    fail_on: str,
    **options: Any,
) -> None:
    """Audit the cross-validation of a model on a table of records.

    FILE is CSV or Parquet. All columns but the target and the groups are features; text, dates and gaps are handled.
    """
    from outofcluster.leakage.rate import Leakage
    from outofcluster.present.report import check_destination, write_html

    if leakage is None and leakage_std is not None:
        raise InputError("--leakage must be given along with --leakage-std.")
    if leakage is not None and leakage > _LARGEST_RATE:
        raise InputError(
            f"--leakage must be at most {_LARGEST_RATE}, beyond which nothing can be told, got {leakage:g}."
        )
    given = None if leakage is None else Leakage(leakage, leakage_std)
    for name, path in (("--report", report), ("--json", None if json_path == "-" else json_path)):
        if path is not None:
            check_destination(name, path)
    problem = read_problem(file, **options)
    out, err = console(error=json_path == "-"), console(error=True)
    if err.is_terminal:
        err.print("Cross-validating, then fitting models to resamples, fold by fold.", markup=False)
    kept = _Kept.of(checkpoint, [problem.records.about["sha256"], file, folds, fits, error_model, options])
    try:
        with quietly():
            result = _audit(problem, given, error_model, folds, fits, options["seed"], kept.path)
    except KeyboardInterrupt:
        err.print()
        if kept.path is not None and kept.any:
            err.print("Stopped. What was fitted is kept; the same command goes on from there.", markup=False)
        else:
            err.print("Stopped before anything was fitted; the same command starts again.", markup=False)
        sys.exit(130)
    finally:
        kept.tidy()
    summary = in_options(result.summary)
    about = problem.records.about | {"command": shlex.join(["outofcluster", *sys.argv[1:]])}
    _introduce(out, problem)
    show_audit(out, summary)
    if report is not None:
        write_html(summary, report, title=f"Audit of {Path(file).name}", about=about)
        out.print(f"\nThe report is in {report}.", markup=False)
    if json_path is not None:
        write_json(json_path, json.dumps(summary.to_dict() | {"about": about}, indent=2, allow_nan=False))
    kept.drop()
    sys.exit(exit_status(summary.findings, fail_on))


def _audit(
    problem: Problem, given: Any, error_model: Any, folds: int, fits: int | None, seed: int, checkpoint: str | None
) -> Any:
    from outofcluster.auditing.run import audit
    from outofcluster.leakage.rate import Leakage

    result = audit(
        problem.estimator,
        problem.X,
        problem.records.target,
        groups=problem.records.groups,
        leakage=None if given is None else given.rate,
        error_model=error_model,
        cv=folds,
        loss=problem.loss,
        n_fits=fits,
        n_jobs=problem.n_jobs,
        random_state=seed,
        progress=True,
        checkpoint=checkpoint,
    )
    if given is None or given.std is None:
        return result
    # What the rate is a share of is known once the error model is; another solution needs no further fit.
    return result.at_leakage(
        Leakage(given.rate, given.std, "train" if result.error_model == "records" else "validation")
    )


def _introduce(out: Any, problem: Problem) -> None:
    about = problem.records.about
    model = " ".join(repr(problem.estimator).split())
    out.print(f"{about['data']}; target {about['target']}.", markup=False)
    if "encoded" in about:
        out.print(f"Columns {about['encoded']}.", markup=False)
    out.print(f"Model: {model if len(model) <= 200 else model[:197] + '...'}", markup=False)


class _Kept:
    """Where finished work is kept: where the user says, or in a cache until it is done."""

    def __init__(self, path: str | None, folder: Path | None) -> None:
        self.path, self._folder = path, folder

    @classmethod
    def of(cls, checkpoint: str | None, parts: list[Any]) -> _Kept:
        """A place that the same command finds again."""
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
    def any(self) -> bool:
        """Whether something was kept."""
        assert self.path is not None
        place = Path(self.path)
        return any(place.parent.glob(f"{place.name}.fold*"))

    def tidy(self) -> None:
        """Leave no empty folder behind."""
        if self._folder is not None and not self.any:
            shutil.rmtree(self._folder, ignore_errors=True)

    def drop(self) -> None:
        """Forget what only served to go on."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

"""``outofcluster sweep``."""

from __future__ import annotations

import io
import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.files import write_whole
from outofcluster.auditing.beginning import before_fits
from outofcluster.cli._account import account_printer
from outofcluster.cli._backend import on_backend
from outofcluster.cli._error_model import check_data_rate
from outofcluster.cli._finished import FinishedWork, check_files
from outofcluster.cli._options import (
    ERROR_MODELS,
    Problem,
    confidence_option,
    fail_on_option,
    json_option,
    quietly,
    read_problem,
    threshold_options,
)
from outofcluster.cli._print import console, exit_status, on_screen, show_sweep, write_json
from outofcluster.cli._suggest import read_share
from outofcluster.cli._words import complain

_PICTURES = (".png", ".svg", ".pdf")

_EPILOG = """\b
Example:
  outofcluster sweep visits.csv --target ill --groups 0.5=loose --groups 0.9=tight \\
      --leakage 0.5=0.02 --leakage 0.9=0.1 --plot visits.png"""


@click.command("sweep", short_help="Audit at several linkage thresholds.", epilog=_EPILOG)
@threshold_options
@click.option(
    "--leakage",
    multiple=True,
    metavar="[THRESHOLD=]RATE",
    help="Share that leaks at a threshold, once for each of them; a RATE alone holds for all.",
)
@click.option(
    "--error-model",
    type=ERROR_MODELS,
    default="auto",
    metavar="KIND",
    help="What leaks: records (RATE is a share of the training records) or fragments (of the held-out ones).  [auto]",
)
@confidence_option
@click.option("--fits", type=int, metavar="N", help="Models to fit at each threshold.  [records: 4000, fragments: 500]")
@click.option("--no-unmix", is_flag=True, help="Fit no models without the records that look leaked.")
@click.option("--plot", metavar="FILE", help="Draw the answer: PNG, SVG or PDF.")
@json_option
@click.option("--checkpoint", metavar="FILE", help="Keep finished work here.  [a cache, until it is done]")
@fail_on_option
def command(
    file: str,
    groups: tuple[str, ...],
    leakage: tuple[str, ...],
    error_model: str,
    confidence_level: float,
    folds: int,
    fits: int | None,
    no_unmix: bool,
    plot: str | None,
    json_path: str | None,
    checkpoint: str | None,
    fail_on: str,
    **options: Any,
) -> None:
    """Audit the cross-validation of a model at several linkage thresholds.

    FILE is CSV or Parquet, with one column of clusters for each threshold of the linkage. The higher the threshold, the
    smaller the clusters: a column of a higher threshold may only split the clusters of a lower one. All other columns
    but the target are features.

    The table shows where the loss begins to depend on the clusters, and where one giant cluster forms.
    """
    columns = _by_threshold("--groups", groups)
    rates = _read_rates(leakage)
    _check_picture(plot)
    files = {"--json": None if json_path == "-" else json_path, "--plot": plot}
    check_files(file, files, checkpoint)
    first, *others = dict.fromkeys(columns.values())
    problem = read_problem(file, groups=first, more_groups=tuple(others), **options)
    clusters = {first: problem.records.groups} | problem.records.more_groups
    out, err = console(error=on_screen(json_path, plot)), console(error=True)
    parts = [problem.records.about["sha256"], file, "sweep", columns, folds, fits, error_model, options, no_unmix]
    work = FinishedWork.of(checkpoint, parts)
    click.get_current_context().call_on_close(work.release)
    try:
        with quietly(), on_backend(problem.backend):
            choices = {"leakage": rates, "error_model": error_model, "confidence_level": confidence_level}
            choices |= {"cv": folds, "n_fits": fits, "unmix": False if no_unmix else "auto"}
            choices["random_state"] = options["seed"]
            by_threshold = {threshold: clusters[name] for threshold, name in columns.items()}
            printer = account_printer(out, problem.records, problem.account, problem.n_jobs, n_thresholds=len(columns))
            if "data" in (rates.values() if isinstance(rates, dict) else [rates]):
                check_data_rate(problem, by_threshold.values(), error_model, folds)
            with before_fits(printer):
                result = work.run(lambda path: _sweep(problem, by_threshold, checkpoint=path, **choices))
    except KeyboardInterrupt:
        work.stop(err)
    finally:
        work.tidy()
    about = problem.records.about | {"command": shlex.join(["outofcluster", *sys.argv[1:]])}
    about |= {"data": about["data"].partition(" of ")[0], "groups": ", ".join(groups)}
    # Whatever was asked for is in its file before anything is shown.
    written = json.dumps(result.to_dict() | {"about": about}, indent=2, allow_nan=False)
    failed = [_write(name, path, written, result) for name, path in files.items() if path is not None]
    show_sweep(out, result)
    if plot is not None and not failed[-1]:
        out.print(f"\nThe picture is in {plot}.", markup=False)
    if json_path == "-":
        write_json("-", written)
    for sentence in filter(None, failed):
        complain(sentence)
    if any(failed):
        # The work is kept, so that the same command can write them without another fit.
        sys.exit(3)
    work.drop()
    sys.exit(exit_status([finding for own in result.findings.values() for finding in own], fail_on))


def _write(name: str, path: str, text: str, result: Any) -> str:
    """Write one of the files that were asked for; a sentence if that fails, else nothing."""
    try:
        write_whole(name, path, f"{text}\n" if name == "--json" else _picture(result, path))
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"{name} could not be written to {path!r}: {error.strerror or error}."
    return ""


def _by_threshold(option: str, words: tuple[str, ...]) -> dict[float, str]:
    """Words of the form THRESHOLD=VALUE."""
    read = dict[float, str]()
    for word in words:
        threshold, equals, value = word.partition("=")
        try:
            number = float(threshold)
        except ValueError:
            equals = ""
        if not equals or not value:
            raise InputError(f"{option} must be THRESHOLD={'COL' if option == '--groups' else 'RATE'}, got {word!r}.")
        if number in read:
            raise InputError(f"{option} must be given once for each threshold, got {number:g} more than once.")
        read[number] = value
    return read


def _read_rates(words: tuple[str, ...]) -> Any:
    """One rate for all thresholds, rates by threshold, or None."""
    if len(words) == 1 and "=" not in words[0]:
        return _rate(words[0])
    return {threshold: _rate(value) for threshold, value in _by_threshold("--leakage", words).items()} or None


def _rate(word: str) -> float | str:
    return word if word == "data" else read_share("--leakage", word, other="data")


def _sweep(problem: Problem, groups: dict[float, Any], **choices: Any) -> Any:
    from outofcluster.auditing.sweep import sweep

    return sweep(
        problem.estimator,
        problem.X,
        problem.records.target,
        groups,
        **problem.scored,
        n_jobs=problem.n_jobs,
        progress=True,
        **choices,
    )


def _check_picture(path: str | None) -> None:
    """Refuse a picture that could not be drawn, before anything is fitted."""
    if path is None:
        return
    if Path(path).suffix.lower() not in _PICTURES:
        raise InputError(f"--plot must be a file that ends with {', '.join(_PICTURES)}, got {path!r}.")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("--plot needs matplotlib: pip install 'outofcluster[plot]'.")


def _picture(result: Any, path: str) -> bytes:
    drawn = io.BytesIO()
    result.plot().figure_.savefig(drawn, format=Path(path).suffix.lower().removeprefix("."), dpi=150)
    return drawn.getvalue()

"""``outofcluster sweep``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from outofcluster._base.exceptions import InputError
from outofcluster.cli.options import (
    FoldedCommand,
    checkpoint_option,
    data_options,
    example,
    fail_option,
    json_option,
    option,
    read_leakage,
    read_problem,
    sampling_options,
)
from outofcluster.cli.outputs import check_picture, picture
from outofcluster.cli.printing import as_json, console, exit_status, on_screen, show_account, show_sweep
from outofcluster.cli.running import FinishedWork, check_files, command_line, conclude, fitting

_GROUPS = "Linkage threshold and column of its clusters, such as 0.9=tight; once for each threshold."
_LEAKAGE = "How much leaks at a threshold, as for audit, once for each; a RATE alone holds for all.  [data]"

_EXAMPLE = """sweep visits.csv --target ill --groups 0.5=loose --groups 0.9=tight \\
      --leakage 0.5=0.02 --leakage 0.9=0.1 --plot visits.png"""


@click.command("sweep", cls=FoldedCommand, epilog=example(_EXAMPLE))
@data_options(option("--groups THRESHOLD=COL", _GROUPS, required=True, multiple=True))
@option("--leakage [THRESHOLD=]RATE", _LEAKAGE, multiple=True)
@sampling_options("Models to fit at each threshold")
@option("--plot FILE", "Draw the answer: PNG, SVG or PDF.")
@json_option
@checkpoint_option
@fail_option
def command(
    file: str,
    groups: tuple[str, ...],
    leakage: tuple[str, ...],
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
    from outofcluster.auditing.sweep import sweep

    columns = _by_threshold("--groups", groups)
    rates = _read_rates(leakage)
    check_picture(plot)
    files = {"--json": json_path, "--plot": plot}
    check_files(files, {"FILE": file}, checkpoint)
    first, *others = dict.fromkeys(columns.values())
    problem = read_problem(file, groups=first, more_groups=tuple(others), **options)
    clusters = {first: problem.records.groups} | problem.records.more_groups
    by_threshold = {threshold: clusters[name] for threshold, name in columns.items()}
    out = console(error=on_screen(*files.values()))
    with fitting(problem, partial(show_account, out, problem, n_thresholds=len(columns))):
        work = FinishedWork.of(checkpoint, problem, file, options | {"groups": groups})
        chosen = {"leakage": rates, "progress": True}
        result = work.run(lambda path: problem.run(sweep, by_threshold, checkpoint=path, **chosen))
    about = problem.records.about | {"command": command_line(), "groups": ", ".join(groups)}
    about["data"] = about["data"].partition(" of ")[0]
    conclude(
        out,
        work,
        files,
        {
            "--json": lambda: as_json(result.to_dict() | {"about": about}),
            "--plot": lambda: picture(result.plot(), str(plot)),
        },
        show=lambda: show_sweep(out, result),
        status=exit_status([finding for findings in result.findings.values() for finding in findings], fail_on),
    )


def _by_threshold(option: str, words: tuple[str, ...]) -> dict[float, str]:
    """Words of the form THRESHOLD=VALUE."""
    values = dict[float, str]()
    for word in words:
        threshold, _, value = word.partition("=")
        try:
            number = float(threshold if value else "")
        except ValueError:
            form = "COL" if option == "--groups" else "RATE"
            raise InputError(f"{option} must be THRESHOLD={form}, got {word!r}.") from None
        if number in values:
            raise InputError(f"{option} must be given once for each threshold, got {number:g} more than once.")
        values[number] = value
    return values


def _read_rates(words: tuple[str, ...]) -> Any:
    """One rate for all thresholds, or rates by threshold; without any, what the records show."""
    if len(words) < 2 and "=" not in "".join(words):
        return read_leakage(words[0] if words else None)
    return {threshold: read_leakage(value) for threshold, value in _by_threshold("--leakage", words).items()}

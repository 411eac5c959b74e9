"""``outofcluster reproduce``."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("reproduce")
@click.argument("names", nargs=-1, required=True, metavar="heart|census|parkinson|dota2|synthetic|timing|all")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder of the UCI files. By default the one that OUTOFCLUSTER_DATA names, else they are downloaded.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    help="Folder for the results.",
)
@click.option("--quick", is_flag=True, help="Fewer fits and draws: minutes instead of an hour.")
@click.option("--jobs", default=-1, show_default=True, help="Workers, -1 for all cores; results do not depend on it.")
@click.option("--seed", default=0, show_default=True, help="Seed.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a summary.")
def command(
    names: tuple[str, ...], data: Path | None, out: Path, quick: bool, jobs: int, seed: int, as_json: bool
) -> None:
    """Run the experiments of the paper again, one or several of them, or all.

    Every experiment is run in two protocols. In the paper's, resamples are drawn from the true clusters, so that only
    the noise of resampling shows. In the field protocol records leak once, as they do in practice, and the estimators
    see the leaky split and nothing else. Figures (PNG, SVG) and tables (CSV, JSON) go to a folder for each.

    A run that was stopped goes on where it was when it is started again; finished parts are not repeated.
    """
    from outofcluster.reproduction import reproduce

    result = reproduce(names, data_home=data, out=out, quick=quick, n_jobs=jobs, random_state=seed, progress=True)
    click.echo(json.dumps(result.results, indent=1, allow_nan=False) if as_json else str(result))

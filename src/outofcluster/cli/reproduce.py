"""``outofcluster reproduce``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from outofcluster.cli.options import option

_FOLDER = click.Path(path_type=Path)
_DATA = "Folder of the UCI files. By default the one that OUTOFCLUSTER_DATA names, else they are downloaded."


@click.command("reproduce")
@click.argument("names", nargs=-1, required=True, metavar="heart|census|parkinson|dota2|synthetic|timing|all")
@option("--data PATH", _DATA, "data_home", type=_FOLDER)
@option("--out PATH", "Folder for the results.  [default: reproduction]", type=_FOLDER, default="reproduction")
@option("--quick", "Fewer fits and draws: minutes instead of an hour.")
@option("--jobs INTEGER", "Workers, -1 for all cores; results do not depend on it.", "n_jobs", default=-1)
@option("--seed INTEGER", "Seed.", "random_state", default=0)
@option("--json", "Print the results as JSON instead of a summary.", "as_json")
def command(names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Run the experiments of the paper again, one or several of them, or all.

    Every experiment is run in two protocols. In the paper's, resamples are drawn from the true clusters, so that only
    the noise of resampling shows. In the field protocol records leak once, as they do in practice, and the estimators
    see the leaky split and nothing else. Figures (PNG, SVG) and tables (CSV, JSON) go to a folder for each.

    A run that was stopped goes on where it was when it is started again; finished parts are not repeated.
    """
    from outofcluster.reproduction import reproduce

    result = reproduce(names, progress=True, **options)
    click.echo(json.dumps(result.results, indent=1, allow_nan=False) if as_json else str(result))

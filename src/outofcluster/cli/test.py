"""``outofcluster test``."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import click

from outofcluster.cli.options import FoldedCommand, data_options, example, json_option, option, read_problem
from outofcluster.cli.printing import as_json, console, on_screen, show_account, write_output
from outofcluster.cli.running import check_files, fitting


@click.command("test", cls=FoldedCommand, epilog=example("test visits.csv --target ill --groups patient"))
@data_options()
@option("--alpha P", "Level of the test.", default=0.05)
@json_option
@option("--fail-on-effect", "Exit with 1 if an effect was found.")
def command(file: str, alpha: float, json_path: str | None, fail_on_effect: bool, **options: Any) -> None:
    """Test whether training on records of the held-out clusters makes the model better on them.

    If it does, there is something for leakage to act on. Whether a score is inflated is what the audit says. No
    leakage rate is needed, and the audit has the same p-value for the same seed.
    FILE is a CSV or Parquet file.
    """
    from outofcluster.auditing.effect_test import leakage_test

    check_files({"--json": json_path}, {"FILE": file})
    problem = read_problem(file, **options)
    records, out = problem.records, console(error=on_screen(json_path))
    with fitting(problem, partial(show_account, out, problem)):
        result = problem.run(leakage_test, groups=records.groups, alpha=alpha)
    plain = result.to_dict() | {"sentence": result.sentence, "about": records.about}
    write_output("--json", json_path, as_json(plain))
    out.print(f"\n{result.outcome}", style="bold")
    for line in str(result).split("\n")[1:]:
        out.print(line)
    sys.exit(int(fail_on_effect and result.rejected))

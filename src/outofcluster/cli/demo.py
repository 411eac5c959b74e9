"""``outofcluster demo``."""

from __future__ import annotations

import click

from outofcluster._base.files import check_outputs
from outofcluster.cli._options import json_option
from outofcluster.cli._print import console, in_options, on_screen, show_audit, write_json


@click.command("demo", short_help="See it work on simulated patients.")
@click.option("--report", default="report.html", show_default=True, metavar="FILE", help="HTML report to write.")
@json_option
@click.option("--explain", is_flag=True, help="Show in full what the answer rests on.")
@click.option("--fits", default=200, show_default=True, metavar="N", help="Models to fit to resamples.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="Seed of the simulation.")
def command(report: str, json_path: str | None, explain: bool, fits: int, seed: int) -> None:
    """See it work on simulated patients, for whom the true loss is known. Nothing is downloaded.

    A linkage put the records of 800 patients together, but left some patients in two pieces. Folds keep every piece on
    one side of the split. Where the other piece trains, the model recognises the patient, and its score looks too
    good.
    """
    from outofcluster.cli.demonstration import run_demo
    from outofcluster.present.report import write_html

    check_outputs({"--report": report, "--json": None if json_path == "-" else json_path}, {})
    demo = run_demo(n_fits=fits, seed=seed)
    out = console(error=on_screen(report, json_path))
    patients, summary = demo.patients, in_options(demo.audit.summary)
    naive, truth = summary.naive.value, demo.truth
    groups = f"{len(set(patients.groups.tolist())):,}"
    records = f"{len(patients.target):,} records"
    people = f"{len(set(patients.entities.tolist())):,}"
    for line in (
        f"Simulated: {records} of {people} patients. The linkage left {demo.n_split} of them in two pieces, "
        f"so it counts {groups} patients. The task is to predict who is ill.",
        f"A 5-fold cross-validation that keeps the linked patients whole shows {100 * naive:.1f} % wrong predictions.",
        f"{demo.looked_up} patients were looked up by hand. They show that {100 * demo.leakage.rate:.0f} % of the "
        f"held-out records (give or take {100 * (demo.leakage.std or 0):.0f} %) have a piece of their patient in "
        "training.",
        "The audit knows no more than that. Because this is a simulation, the truth can be shown beside it: the loss "
        "of models that saw no leaked record, on 3,000 new patients.",
    ):
        out.print(line, markup=False)
    show_audit(out, summary, truth=truth, explain=explain)
    holds = "contains" if demo.covered else "misses, as one in twenty does,"
    out.print(
        f"\nThe interval of the corrected loss {holds} the truth, {truth:.4f}.",
        markup=False,
        style="bold",
    )
    about = {
        "data": f"simulated with outofcluster.datasets.make_patients: {records} of {people} patients, {groups} groups",
        "truth": f"{truth:.4f}, of models without leaked records on 3,000 new patients",
        "command": f"outofcluster demo --fits {fits} --seed {seed}",
    }
    write_html(summary, report, title="Demonstration: simulated patients", about=about)
    out.print(f"The report is in {report}; open it in a browser and move the slider.", markup=False)
    if json_path is not None:
        write_json(json_path, demo.to_json())

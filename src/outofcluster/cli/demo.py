"""``outofcluster demo``: simulated patients whose linkage errs, an audit of a model, and the truth beside it.

What a user would know (records, linked groups, a small sample of patients looked up by hand) goes into the audit. What
only a simulation knows (whose record it truly is) goes into the truth: models are trained without the leaked records
and scored on many patients that none of them has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from outofcluster._base.arguments import check_integer
from outofcluster.auditing.result import Audit
from outofcluster.cli.options import explain_option, json_option, option
from outofcluster.cli.printing import as_json, console, in_options, on_screen, show_audit, write_output
from outofcluster.cli.running import check_files
from outofcluster.datasets import Patients, make_patients
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import make_folds

_PATIENTS, _LOOKED_UP, _NEW = 800, 150, 3000
_LAW: dict[str, Any] = {"n_records": (3, 7), "n_features": 6, "signal": 0.7, "record_noise": 0.25}
_SPLIT_SHARE = 0.35
_FOLDS = 5


@click.command("demo")
@option("--report FILE", "HTML report to write.", default="report.html", show_default=True)
@json_option
@explain_option
@option("--fits N", "Models to fit to resamples.", default=200)
@option("--seed N", "Seed of the simulation.", default=0)
def command(report: str, json_path: str | None, explain: bool, fits: int, seed: int) -> None:
    """See it work on simulated patients, for whom the true loss is known. Nothing is downloaded.

    A linkage put the records of 800 patients together, but left some patients in two pieces. Folds keep every piece on
    one side of the split. Where the other piece trains, the model recognises the patient, and its score looks too
    good.
    """
    from outofcluster.present.report import write_html

    check_files({"--report": report, "--json": json_path}, {})
    demo = run_demo(n_fits=fits, seed=seed)
    out = console(error=on_screen(report, json_path))
    patients, summary = demo.patients, in_options(demo.audit.summary)
    n_groups, n_people = len(np.unique(patients.groups)), len(np.unique(patients.entities))
    groups, people = f"{n_groups:,}", f"{n_people:,}"
    records, truth = f"{len(patients.target):,} records", f"{demo.truth:.4f}"
    for line in (
        f"Simulated: {records} of {people} patients. The linkage left {n_groups - n_people} of them in two pieces, "
        f"so it counts {groups} patients. The task is to predict who is ill.",
        f"A 5-fold cross-validation that keeps the linked patients whole shows {100 * summary.naive.value:.1f} % wrong "
        "predictions.",
        f"{_LOOKED_UP} patients were looked up by hand. They show that {100 * demo.leakage.rate:.0f} % of the "
        f"held-out records (give or take {100 * (demo.leakage.std or 0):.0f} %) have a piece of their patient in "
        "training.",
        "The audit knows no more than that. Because this is a simulation, the truth can be shown beside it: the loss "
        "of models that saw no leaked record, on 3,000 new patients.",
    ):
        out.print(line)
    show_audit(out, summary, truth=demo.truth, explain=explain)
    holds = "contains" if demo.covered else "misses, as one in twenty does,"
    out.print(f"\nThe interval of the corrected loss {holds} the truth, {truth}.", style="bold")
    about = {
        "data": f"simulated with outofcluster.datasets.make_patients: {records} of {people} patients, {groups} groups",
        "truth": f"{truth}, of models without leaked records on 3,000 new patients",
        "command": f"outofcluster demo --fits {fits} --seed {seed}",
    }
    write_html(summary, report, title="Demonstration: simulated patients", about=about)
    out.print(f"The report is in {report}; open it in a browser and move the slider.")
    write_output("--json", json_path, as_json(demo.to_dict()))


@dataclass(frozen=True)
class Demo:
    """A simulated problem, what the audit says about it, and the truth.

    Attributes
    ----------
    patients : Patients
        The records, the linked groups, and whose records they truly are.
    leakage : Leakage
        The rate that the patients show whose records were checked by hand.
    audit : Audit
        The audit.
    truth : float
        The loss on new patients of models that saw no leaked record.
    """

    patients: Patients
    leakage: Leakage
    audit: Audit
    truth: float

    @property
    def covered(self) -> bool:
        """Whether the interval of the corrected loss contains the truth."""
        assert self.audit.corrected is not None
        low, high = self.audit.corrected.interval
        return low <= self.truth <= high

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the audit, with the truth."""
        return self.audit.to_dict() | {"truth": self.truth, "covered": self.covered}


def run_demo(*, n_fits: int = 200, seed: int = 0) -> Demo:
    """Simulate patients and audit a nearest-neighbour model on them."""
    from sklearn.neighbors import KNeighborsClassifier

    from outofcluster.auditing.run import audit

    state, fits = check_integer("seed", seed, least=0), check_integer("n_fits", n_fits, least=60)
    *states, look_up = np.random.SeedSequence(state).spawn(3)
    seed_of_data, seed_of_new = (int(sequence.generate_state(1)[0]) for sequence in states)
    patients = make_patients(_PATIENTS, split_share=_SPLIT_SHARE, random_state=seed_of_data, **_LAW)
    sample = np.random.default_rng(look_up).choice(_PATIENTS, _LOOKED_UP, replace=False)
    rows = np.isin(patients.entities, sample)
    leakage = Leakage.from_true_groups(patients.entities[rows], patients.groups[rows], cv=_FOLDS, of="validation")
    model = KNeighborsClassifier(5, weights="distance")
    options: dict[str, Any] = {"error_model": "fragments", "cv": _FOLDS, "n_fits": fits, "random_state": state}
    result = audit(model, patients.data, patients.target, groups=patients.groups, leakage=leakage, **options)
    return Demo(patients, leakage, result, _truth(model, patients, seed_of_new))


def _truth(model: Any, patients: Patients, seed: int) -> float:
    """Mean over the folds of the loss on new patients, for models trained without records of held-out patients."""
    from sklearn.base import clone

    new = make_patients(_NEW, split_share=0.0, random_state=seed, **_LAW)
    losses = []
    for fold in make_folds(patients.data, patients.target, patients.groups, _FOLDS):
        clean = fold.train[~np.isin(patients.entities[fold.train], patients.entities[fold.validation])]
        fitted = clone(model).fit(patients.data[clean], patients.target[clean])
        losses.append(float(np.mean(fitted.predict(new.data) != new.target)))
    return float(np.mean(losses))

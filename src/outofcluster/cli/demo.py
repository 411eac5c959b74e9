"""``outofcluster demo``: simulated patients whose linkage errs, an audit of a model, and the truth beside it.

What a user would know (records and linked groups) goes into the audit, and after that the answers of somebody who looks
up a few of the linked patients. What only a simulation knows (whose record it truly is) goes into the truth: models are
trained without the leaked records and scored on many patients that none of them has seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from outofcluster._base.arguments import check_integer
from outofcluster._base.text import percentage
from outofcluster.auditing.result import Audit
from outofcluster.cli.options import explain_option, json_option, option
from outofcluster.cli.printing import as_json, console, in_options, on_screen, show_audit, write_output
from outofcluster.cli.running import check_files
from outofcluster.datasets import Patients, make_patients
from outofcluster.inference.estimates import between, fixed
from outofcluster.problem.folds import make_folds

_PATIENTS, _LOOKED_UP, _NEW = 800, 50, 3000
_LAW: dict[str, Any] = {"n_records": (3, 7), "n_features": 6, "signal": 0.7, "record_noise": 0.25}
_SPLIT_SHARE = 0.35
_FOLDS = 5


@click.command("demo")
@option("--report FILE", "HTML report to write.", default="report.html", show_default=True)
@json_option
@explain_option
@option("--fits N", "Models to fit with imitated pieces.", default=20)
@option("--seed N", "Seed of the simulation.", default=0)
def command(report: str, json_path: str | None, explain: bool, fits: int, seed: int) -> None:
    """See it work on simulated patients, for whom the true loss is known. Nothing is downloaded.

    A linkage put the records of 800 patients together, but left some patients in two pieces. Folds keep every piece on
    one side of the split. Where the other piece trains, the model recognises the patient, and its score looks too
    good. Nobody tells the audit how often that happens.
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
        f"A 5-fold cross-validation that keeps the linked patients whole shows {percentage(summary.naive.value)} wrong "
        "predictions.",
        "The audit knows the records and the linked patients, and nothing else. Because this is a simulation, the "
        "truth can be shown beside it: the loss of models that saw no leaked record, on 3,000 new patients.",
    ):
        out.print(line)
    show_audit(out, summary, truth=demo.truth, explain=explain)
    holds = "contains" if demo.covered else "misses, as one in twenty does,"
    out.print(f"\nThe interval of the corrected loss {holds} the truth, {truth}.", style="bold")
    out.print(_what_looking_up_adds(demo))
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
    audit : Audit
        The audit, without a rate.
    looked_up : Audit
        The audit once some of the linked patients were looked up.
    truth : float
        The loss on new patients of models that saw no leaked record.
    """

    patients: Patients
    audit: Audit
    looked_up: Audit
    truth: float

    @property
    def covered(self) -> bool:
        """Whether the interval of the corrected loss contains the truth."""
        assert self.audit.corrected is not None
        low, high = self.audit.corrected.interval
        return low <= self.truth <= high

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the audit, with the truth."""
        assert self.looked_up.corrected is not None
        after = {"corrected_after_looking_up": self.looked_up.corrected.to_dict()}
        return self.audit.to_dict() | {"truth": self.truth, "covered": self.covered} | after


def _what_looking_up_adds(demo: Demo) -> str:
    """A sentence about the audit with look-ups."""
    before, after = demo.audit.optimism, demo.looked_up.optimism
    assert before is not None
    assert after is not None
    widths = [high - low for low, high in (before.interval, after.interval)]
    narrower = f", with an interval that is {percentage((1 - widths[1] / widths[0]), 2)} narrower"
    return (
        f"Looking up would add to that: with answers about {_LOOKED_UP} of the linked patients (audit --review-list, "
        f"then --reviewed) the optimism is {fixed(after.value, 4)} ({between(after, 4)})"
        f"{narrower if widths[1] < widths[0] else ''}."
    )


def run_demo(*, n_fits: int = 20, seed: int = 0) -> Demo:
    """Simulate patients and audit a nearest-neighbour model on them."""
    from sklearn.neighbors import KNeighborsClassifier

    from outofcluster.auditing.run import audit

    state, fits = check_integer("seed", seed, least=0), check_integer("n_fits", n_fits, least=4 * _FOLDS)
    seed_of_data, seed_of_new, seed_of_list = (
        int(sequence.generate_state(1)[0]) for sequence in np.random.SeedSequence(state).spawn(3)
    )
    patients = make_patients(_PATIENTS, split_share=_SPLIT_SHARE, random_state=seed_of_data, **_LAW)
    model = KNeighborsClassifier(5, weights="distance")
    options: dict[str, Any] = {"groups": patients.groups, "error_model": "fragments", "cv": _FOLDS}
    options |= {"n_fits": fits, "random_state": state}
    result = audit(model, patients.data, patients.target, **options)
    listed = result.review_list(_LOOKED_UP, random_state=seed_of_list)
    answers = listed.assign(same_as=_answers(listed["cluster"], patients))
    looked_up = audit(model, patients.data, patients.target, reviewed=answers, **options)
    return Demo(patients, result, looked_up, _truth(model, patients, seed_of_new))


def _answers(clusters: Iterable[str], patients: Patients) -> list[str]:
    """What somebody writes who knows all patients: the other groups of the same patient, or none."""
    owner = dict(zip(patients.groups.tolist(), patients.entities.tolist(), strict=True))
    answers = []
    for own in map(int, clusters):
        others = [str(group) for group in owner if owner[group] == owner[own] and group != own]
        answers.append("; ".join(others) or "none")
    return answers


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

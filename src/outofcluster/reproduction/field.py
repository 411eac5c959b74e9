"""The field protocol: what a user lives through.

Which records of V leak into T̂ is drawn once (p0 = 0.1), and with it T̂ and V̂ are all that is known. Every estimator is
run on them as a user would: resamples with replacement of n records, levels injected on top of what leaked. The draw of
the leak is repeated, and errors are against the loss of the same learner trained on resamples of the clean T and scored
on all of V. The naive estimate is the loss at level 0 of the default's run, which has most of its fits there.

Where V is too small to make up a tenth of T̂ (the census), every draw also takes some of T at random; in the synthetic
study it makes new records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.exceptions import FitError, InputError
from outofcluster.auditing.effect_test import leakage_test
from outofcluster.datasets import Bunch
from outofcluster.design.extrapolation import largest_level
from outofcluster.reproduction.estimators import default_designs
from outofcluster.reproduction.means import Means
from outofcluster.reproduction.parameters import LEAKAGE, Effort, Study
from outofcluster.reproduction.records import Records, field_records, learner, quiet
from outofcluster.reproduction.seeds import seed_for
from outofcluster.reproduction.store import Scratch, Store
from outofcluster.split.simulation import simulate_leakage

__all__ = ["Draw", "run_field"]


@dataclass(frozen=True)
class Draw:
    """One draw of the leak: losses at the paper's levels and of the default's sizes, the truth, the test's p-value."""

    equidistant: Means
    default: tuple[Means, ...]
    iid: float
    truth: float
    rate: float
    sizes: tuple[int, int]
    pvalue: float | None

    @property
    def naive(self) -> float:
        """The loss without injection."""
        return float(self.default[0].means[0])


def run_field(
    study: Study, effort: Effort, bunch: Bunch | None, store: Store, *, seed: int, n_jobs: int | None
) -> tuple[Draw, ...]:
    """Run or find all draws of the leak; ``bunch`` is None for the synthetic study."""
    common = None
    if bunch is not None and study.field_train is None:
        common = _common_truth(study, effort, bunch, store, seed, n_jobs)
    return tuple(_draw(study, effort, bunch, store, seed, draw, n_jobs, common) for draw in range(effort.draws))


def _draw(
    study: Study,
    effort: Effort,
    bunch: Bunch | None,
    store: Store,
    root: int,
    draw: int,
    n_jobs: int | None,
    common: float | None,
) -> Draw:
    """A part for the paper's levels, and one for the default's, on the same leaky split."""
    seed = seed_for(root, study.name, "field", draw)
    clean = field_records(study, bunch, seed_for(seed, 0))
    split = simulate_leakage(
        clean.groups, clean.validation_groups, rate=LEAKAGE, unit="records", random_state=seed_for(seed, 1)
    )
    records = Records(study, clean, n_jobs)
    sides: dict[str, Any] = {"train": split.train, "validation": split.validation, "replace": True}
    levels = np.linspace(0, 1, study.levels)
    counts = np.full(len(levels), max(effort.field_fits // study.levels, 2))
    designs = default_designs(
        study.n,
        effort.field_fits,
        y=None if bunch is None else clean.target[split.train],
        largest=largest_level(study.n, len(split.validation)),
    )

    def paper_levels(scratch: Scratch) -> dict[str, Any]:
        truth = None
        if common is None:
            run = records.losses([0.0], [effort.field_truth_fits], seed=seed_for(seed, 4), replace=True)
            truth = float(run.means[0])
        return {
            "losses": records.losses(levels, counts, seed=seed_for(seed, 2), **sides),
            "iid": records.iid(1, seed=seed_for(seed, 5), replace=True),
            "truth": truth,
            "pvalue": _pvalue(study, clean, split, seed_for(seed, 6)),
        }

    def default_levels(scratch: Scratch) -> list[Means]:
        return [
            records.losses(design.injected, design.n_fits, seed=seed_for(seed, 3, size), n=size, **sides)
            for size, design in designs.items()
        ]

    told = f"field protocol, draw {draw + 1} of {effort.draws}"
    parameters: dict[str, Any] = {
        "n": study.n,
        "levels": study.levels,
        "train": study.field_train,
        "fits": effort.field_fits,
        "truth_fits": effort.field_truth_fits if common is None else None,
        "draw": draw,
    }
    first = store.part(f"field-{draw:03d}", parameters, paper_levels, told=told)
    parameters = {
        "sizes": list(designs),
        "levels": designs[study.n].injected,
        "train": study.field_train,
        "fits": [design.n_fits for design in designs.values()],
        "draw": draw,
    }
    second = store.part(f"field-default-{draw:03d}", parameters, default_levels, told=f"{told}, default")
    return Draw(
        equidistant=Means.read(first["losses"]),
        default=tuple(Means.read(run) for run in second),
        iid=first["iid"],
        truth=first["truth"] if common is None else common,
        rate=split.rate,
        sizes=(len(split.train), len(split.validation)),
        pvalue=first["pvalue"],
    )


def _pvalue(study: Study, clean: Bunch, split: Any, seed: int) -> float | None:
    """The hypothesis test on what the user has; None where the records do not suffice for it."""
    try:
        with quiet():
            return leakage_test(
                learner(study.loss),
                clean.data,
                clean.target,
                groups=split.groups,
                cv=[(split.train, split.validation)],
                loss=study.loss,
                random_state=seed,
            ).pvalue
    except (FitError, InputError):
        return None


def _common_truth(study: Study, effort: Effort, bunch: Bunch, store: Store, seed: int, n_jobs: int | None) -> float:
    def measure(scratch: Scratch) -> Means:
        return Records(study, bunch, n_jobs).losses(
            [0.0],
            [effort.field_truth_fits],
            seed=seed_for(seed, study.name, "field truth"),
            replace=True,
            checkpoint=scratch("truth"),
        )

    parameters = {"n": study.n, "fits": effort.field_truth_fits}
    return float(store.part("field-truth", parameters, measure, told="field protocol, true loss")["means"][0])

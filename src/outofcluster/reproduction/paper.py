"""The paper's protocol: replicates drawn without replacement from the oracle pools.

Training records come from the clean T and from V with probability p, so the injected fraction *is* the level p. Levels
are equidistant from p0 to 1, a trial has t replicates at each, and trials are independent. All that differs between
trials is which replicates were drawn: their spread is Monte-Carlo noise, and says nothing about other records.

Every replicate is scored on all of V that it did not train on; the paper's table has 100 validation records, which
changes the noise of a replicate and not what is estimated.

The default has the same fits at its own levels above p0 and its own sizes (fewer on the census and on Dota 2, see
:mod:`.parameters`). The true loss is that of replicates with p = 0, by many fits; in the synthetic study it is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outofcluster.curves.operator import BinomialOperator
from outofcluster.datasets import Bunch, partition_losses
from outofcluster.reproduction.estimators import default_designs
from outofcluster.reproduction.means import Means
from outofcluster.reproduction.parameters import LEAKAGE, TRUE_LEVELS, Effort, Study
from outofcluster.reproduction.partition import iid_loss, sample_partition
from outofcluster.reproduction.records import Records
from outofcluster.reproduction.seeds import seed_for
from outofcluster.reproduction.store import Scratch, Store

__all__ = ["PaperRun", "Trial", "run_paper"]


@dataclass(frozen=True)
class Trial:
    """One trial: losses at the paper's levels and those of the default's sizes, as a user at p0 sees them; IID loss."""

    equidistant: Means
    default: tuple[Means, ...]
    iid: float

    @property
    def naive(self) -> float:
        """The loss at p0."""
        return float(self.equidistant.means[0])


@dataclass(frozen=True)
class PaperRun:
    """All trials, and the true curve at some levels p (of which the first is 0)."""

    trials: tuple[Trial, ...]
    truth: Means

    @property
    def e0(self) -> float:
        """The true e_0."""
        return float(self.truth.means[0])


@dataclass(frozen=True)
class _Source:
    """Where replicates come from: records, or the synthetic study's model."""

    study: Study
    bunch: Bunch | None
    n_jobs: int | None

    @property
    def classes(self) -> Any:
        """The targets, where there are any: every study on records has classes."""
        return None if self.bunch is None else self.bunch.target[self.bunch.train_rows]

    def losses(self, p: Any, counts: Any, seed: int, checkpoint: Path, n: int | None = None) -> Means:
        if self.bunch is None:
            return sample_partition(p, counts, n=self.study.n if n is None else n, seed=seed)
        records = Records(self.study, self.bunch, self.n_jobs)
        return records.losses(p, counts, seed=seed, replace=False, n=n, checkpoint=checkpoint)

    def iid(self, splits: int, seed: int) -> float:
        if self.bunch is None:
            return iid_loss(300 * splits, n=self.study.n, seed=seed)
        return Records(self.study, self.bunch, self.n_jobs).iid(splits, seed=seed, replace=False)


def run_paper(
    study: Study, effort: Effort, bunch: Bunch | None, store: Store, *, seed: int, n_jobs: int | None
) -> PaperRun:
    """Run or find all trials and the true curve; ``bunch`` is None for the synthetic study."""
    source = _Source(study, bunch, n_jobs)
    truth = _closed_form(study) if bunch is None else _measured_truth(source, effort, store, seed)
    return PaperRun(tuple(_trial(source, effort, store, seed, trial) for trial in range(effort.trials)), truth)


def _trial(source: _Source, effort: Effort, store: Store, root: int, trial: int) -> Trial:
    """A part for the paper's levels, and one for the default's: either may change without the other."""
    study = source.study
    seed = seed_for(root, study.name, "paper", trial)
    told = f"paper protocol, trial {trial + 1} of {effort.trials}"
    p, counts = np.linspace(LEAKAGE, 1, study.levels), np.full(study.levels, effort.fits)
    designs = default_designs(study.n, effort.default_fits, y=source.classes)
    own = LEAKAGE + (1 - LEAKAGE) * designs[study.n].injected

    def paper_levels(scratch: Scratch) -> dict[str, Any]:
        return {
            "losses": source.losses(p, counts, seed_for(seed, 0), scratch("losses")),
            "iid": source.iid(effort.iid_splits, seed_for(seed, 2)),
        }

    def default_levels(scratch: Scratch) -> list[Means]:
        return [
            source.losses(own, design.n_fits, seed_for(seed, 1, size), scratch(f"losses-{size}"), size)
            for size, design in designs.items()
        ]

    parameters: dict[str, Any] = {
        "n": study.n,
        "levels": study.levels,
        "fits": effort.fits,
        "iid_splits": effort.iid_splits,
    }
    first = store.part(f"paper-{trial:02d}", parameters | {"trial": trial}, paper_levels, told=told)
    parameters = {"sizes": list(designs), "levels": own, "fits": [d.n_fits for d in designs.values()], "trial": trial}
    second = store.part(f"paper-default-{trial:02d}", parameters, default_levels, told=f"{told}, default")
    return Trial(
        Means.read(first["losses"]).seen_by_user(LEAKAGE),
        tuple(Means.read(run).seen_by_user(LEAKAGE) for run in second),
        first["iid"],
    )


def _measured_truth(source: _Source, effort: Effort, store: Store, seed: int) -> Means:
    counts = np.full(len(TRUE_LEVELS), effort.curve_fits)
    counts[0] = effort.truth_fits
    stored = store.part(
        "truth",
        {"n": source.study.n, "levels": TRUE_LEVELS, "fits": counts},
        lambda scratch: source.losses(
            TRUE_LEVELS, counts, seed_for(seed, source.study.name, "truth"), scratch("truth")
        ),
        told=f"true curve at {len(TRUE_LEVELS)} levels",
    )
    return Means.read(stored)


def _closed_form(study: Study) -> Means:
    p = np.array(TRUE_LEVELS)
    losses = BinomialOperator(p, study.n).matrix() @ partition_losses(study.n)
    return Means(p, losses, np.zeros(len(p)), np.zeros(len(p), dtype=int), study.n)

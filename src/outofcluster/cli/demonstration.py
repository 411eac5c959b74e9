"""The demonstration: simulated patients whose linkage errs, an audit of a model, and the truth beside it.

What a user would know (records, linked groups, a small sample of patients looked up by hand) goes into the audit. What
only a simulation knows (whose record it truly is) goes into the truth: models are trained without the leaked records
and scored on many patients that none of them has seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.arguments import check_integer
from outofcluster.auditing.result import Audit
from outofcluster.datasets import Patients, make_patients
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import make_folds

_PATIENTS, _LOOKED_UP, _NEW = 800, 150, 3000
_LAW = {"n_records": (3, 7), "n_features": 6, "signal": 0.7, "record_noise": 0.25}
_SPLIT_SHARE = 0.35
_FOLDS = 5


@dataclass(frozen=True)
class Demo:
    """A simulated problem, what the audit says about it, and the truth.

    Attributes
    ----------
    patients : Patients
        The records, the linked groups, and whose records they truly are.
    looked_up : int
        Patients whose records were checked by hand for the leakage rate.
    leakage : Leakage
        The rate that they show.
    audit : Audit
        The audit.
    truth : float
        The loss on new patients of models that saw no leaked record.
    """

    patients: Patients
    looked_up: int
    leakage: Leakage
    audit: Audit
    truth: float

    @property
    def n_split(self) -> int:
        """Patients whose records the linkage left in two groups."""
        pieces = np.unique(np.stack([self.patients.entities, self.patients.groups]), axis=1)[0]
        return int((np.bincount(pieces) > 1).sum())

    @property
    def covered(self) -> bool:
        """Whether the interval of the corrected loss contains the truth."""
        assert self.audit.corrected is not None
        low, high = self.audit.corrected.interval
        return low <= self.truth <= high

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the audit, with the truth."""
        return self.audit.to_dict() | {"truth": self.truth, "covered": self.covered}

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def run_demo(*, n_fits: int = 200, seed: int = 0) -> Demo:
    """Simulate patients and audit a nearest-neighbour model on them.

    Examples
    --------
    >>> from outofcluster.cli.demonstration import run_demo
    >>> demo = run_demo(n_fits=60, seed=1)
    >>> demo.audit.naive.value < demo.audit.corrected.value
    True
    >>> demo.audit.naive.interval[1] < demo.truth
    True
    """
    from sklearn.neighbors import KNeighborsClassifier

    from outofcluster.auditing.run import audit

    state, fits = check_integer("seed", seed, least=0), check_integer("n_fits", n_fits, least=60)
    data_state, new_state, look_up = np.random.SeedSequence(state).spawn(3)
    patients = make_patients(_PATIENTS, split_share=_SPLIT_SHARE, random_state=_number(data_state), **_LAW)  # type: ignore[arg-type]
    sample = np.random.default_rng(look_up).choice(_PATIENTS, _LOOKED_UP, replace=False)
    rows = np.isin(patients.entities, sample)
    leakage = Leakage.from_true_groups(patients.entities[rows], patients.groups[rows], cv=_FOLDS, of="validation")
    model = KNeighborsClassifier(5, weights="distance")
    result = audit(
        model,
        patients.data,
        patients.target,
        groups=patients.groups,
        leakage=leakage,
        error_model="fragments",
        cv=_FOLDS,
        n_fits=fits,
        random_state=state,
    )
    return Demo(patients, _LOOKED_UP, leakage, result, _truth(model, patients, _number(new_state)))


def _truth(model: Any, patients: Patients, seed: int) -> float:
    """Mean over the folds of the loss on new patients, for models trained without records of held-out patients."""
    from sklearn.base import clone

    new = make_patients(_NEW, split_share=0.0, random_state=seed, **_LAW)  # type: ignore[arg-type]
    losses = []
    for fold in make_folds(patients.data, patients.target, patients.groups, _FOLDS):
        clean = fold.train[~np.isin(patients.entities[fold.train], patients.entities[fold.validation])]
        fitted = clone(model).fit(patients.data[clean], patients.target[clean])
        losses.append(float(np.mean(fitted.predict(new.data) != new.target)))
    return float(np.mean(losses))


def _number(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1)[0])

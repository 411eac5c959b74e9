"""What else is asked of a study: the curve's shape, the hypothesis test, and whether the learner makes a difference."""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcluster._base.plain import plain
from outofcluster._base.validation import Array
from outofcluster.auditing.effect_test import leakage_test
from outofcluster.curves.shape import diagnose_points
from outofcluster.datasets import Bunch, make_partition
from outofcluster.reproduction.field import Draw
from outofcluster.reproduction.means import Means, binned, pooled
from outofcluster.reproduction.paper import PaperRun
from outofcluster.reproduction.parameters import LEAKAGE, Effort, Study
from outofcluster.reproduction.records import Records, hinge, learner, load, quiet
from outofcluster.reproduction.seeds import seed_for
from outofcluster.reproduction.store import Scratch, Store

__all__ = ["field_shape", "paper_shape", "run_checks", "run_tests", "true_shape"]

_MOST_LEVELS = 20
"""Levels at which a shape is judged: more would spread the same fits thinner."""

_FEW_LEVELS = 10
"""Levels between which slopes are shown."""

_LEAST_DRAWS = 20
"""Draws of the leak from which their spread is known well enough to judge a shape by it."""

_CHECK_LEVELS = (0.0, LEAKAGE, 1.0)


def paper_shape(run: PaperRun) -> dict[str, Any]:
    """Shape of the losses over all trials, with their Monte-Carlo errors."""
    together = binned(pooled([trial.equidistant for trial in run.trials]), _MOST_LEVELS)
    few = binned(together, _FEW_LEVELS)
    slopes, bends = _contrasts(few.levels(LEAKAGE))
    return _shape(together, LEAKAGE, judged=True) | {
        "slopes": _errors(few, slopes, slopes @ few.means, _spread(slopes, few.standard_errors)),
        "bends": _errors(few, bends, bends @ few.means, _spread(bends, few.standard_errors)),
    }


def true_shape(run: PaperRun) -> dict[str, Any]:
    """Shape of the true curve, which reaches down to p = 0, where no user sees it."""
    return _shape(run.truth, 0.0, judged=bool(np.all(run.truth.standard_errors > 0)))


def field_shape(draws: tuple[Draw, ...]) -> dict[str, Any]:
    """Shape of the losses averaged over draws of the leak, with the errors of that average.

    What a draw adds at all levels alike has no part in the shape: it is taken off before errors are worked out.
    """
    runs = [binned(draw.equidistant, _MOST_LEVELS) for draw in draws]
    losses = np.array([run.means for run in runs])
    centred = losses - losses.mean(axis=1, keepdims=True)
    together = Means(
        runs[0].injected, losses.mean(axis=0), _error_of_mean(centred), sum(run.n_fits for run in runs), runs[0].size
    )
    few = [binned(run, _FEW_LEVELS) for run in runs]
    found = _shape(together, LEAKAGE, judged=len(draws) >= _LEAST_DRAWS)
    for name, contrasts in zip(("slopes", "bends"), _contrasts(few[0].levels(LEAKAGE)), strict=True):
        each = np.array([contrasts @ run.means for run in few])
        found[name] = _errors(few[0], contrasts, each.mean(axis=0), _error_of_mean(each))
    return found


def _error_of_mean(values: Array) -> Array:
    error: Array = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return error


def _contrasts(p: Array) -> tuple[Array, Array]:
    """Rows that give the slopes between neighbouring levels, and the changes from one slope to the next."""
    slopes = np.diff(np.eye(len(p)), axis=0) / np.diff(p)[:, None]
    return slopes, np.diff(slopes, axis=0)


def _spread(contrasts: Array, errors: Array) -> Array:
    """Standard errors of contrasts of independent losses."""
    spread: Array = np.sqrt(contrasts**2 @ errors**2)
    return spread


def _errors(run: Means, contrasts: Array, value: Array, error: Array) -> dict[str, Any]:
    """Contrasts with their errors, placed at the middle of the levels they involve."""
    involved = contrasts != 0
    p = involved @ run.levels(LEAKAGE) / involved.sum(axis=1)
    return {"p": p, "value": value, "standard_error": error}


def _shape(run: Means, leakage: float, *, judged: bool) -> dict[str, Any]:
    p = run.levels(leakage)
    found = diagnose_points(p, run.means, run.standard_errors if judged else None)
    return {
        "p": p,
        "loss": run.means,
        "standard_error": run.standard_errors,
        "n_fits": int(np.sum(run.n_fits)),
        **{
            check.shape: plain(check)
            | {"holds": check.holds, "exceeds_noise": check.exceeds_noise, "sentence": str(check)}
            for check in (found.decreasing, found.convex)
        },
    }


def run_tests(study: Study, effort: Effort, bunch: Bunch | None, store: Store, *, seed: int) -> dict[str, Any]:
    """The hypothesis test on the paper's split: once as a user would, then with the folds dealt anew."""

    def measure(scratch: Scratch) -> dict[str, Any]:
        records = make_partition(1000, 1000, random_state=seed_for(seed, "test data")) if bunch is None else bunch
        split = [(records.train_rows, records.validation_rows)]
        with quiet():
            found = [
                leakage_test(
                    learner(study.loss),
                    records.data,
                    records.target,
                    groups=records.groups,
                    cv=split,
                    loss=study.loss,
                    random_state=seed_for(seed, study.name, "test", deal),
                )
                for deal in range(effort.tests)
            ]
        return {
            "first": found[0].to_dict() | {"sentence": found[0].sentence},
            "pvalues": [test.pvalue for test in found],
            "rejected": sum(test.rejected for test in found),
            "deals": len(found),
            "mean_difference": float(np.mean([test.difference for test in found])),
            "median_detectable": float(np.median([test.detectable for test in found])),
        }

    result: dict[str, Any] = store.part("test", {"deals": effort.tests}, measure, told="hypothesis test")
    return result


def run_checks(
    study: Study, effort: Effort, bunch: Bunch | None, store: Store, data_home: Any, *, seed: int, n_jobs: int | None
) -> dict[str, Any]:
    """Losses at p = 0, p0 and 1 with the published learner, and for Dota 2 with the type of game as a feature."""
    if bunch is None or effort.check_fits == 0:
        return {}
    parameters = {"n": study.n, "levels": _CHECK_LEVELS, "fits": effort.check_fits}
    counts = np.full(len(_CHECK_LEVELS), effort.check_fits)
    seed_here = seed_for(seed, study.name, "check")
    if study.name == "dota2":

        def with_type(scratch: Scratch) -> Means:
            records = Records(study, load("dota2", data_home, include_type=True), n_jobs)
            return records.losses(_CHECK_LEVELS, counts, seed=seed_here, replace=False, checkpoint=scratch("type"))

        return {
            "with the type of game as a feature": store.part("check-type", parameters, with_type, told="type check")
        }

    def with_hinge(scratch: Scratch) -> Means:
        records = Records(study, bunch, n_jobs, hinge())
        return records.losses(_CHECK_LEVELS, counts, seed=seed_here, replace=False, checkpoint=scratch("hinge"))

    return {
        "SVC(kernel='linear', C=1), hinge loss": store.part("check-hinge", parameters, with_hinge, told="hinge check")
    }

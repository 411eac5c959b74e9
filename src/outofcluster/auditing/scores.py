"""Corrected scores in the form of scikit-learn's ``cross_validate``, for code that already reads its results.

A scorer cannot give a corrected score: it sees one fitted model and the held-out records of one fold, and the
correction comes from many models that are fitted with other training records, over all folds. A splitter cannot
either, since it fits nothing. So this is a function with the arguments of ``cross_validate``, which audits and then
writes the result in that form: greater is better, and one value per fold. The optimism is estimated from all folds
together, so every fold is corrected by the same amount.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster.auditing.run import audit
from outofcluster.metrics.base import is_a


def corrected_cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    leakage: Any,
    scoring: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Cross-validate as scikit-learn's ``cross_validate`` does, with the corrected scores beside the others.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself.
    X, y : array, sparse matrix, or data frame; array
        Records and targets.
    groups : array
        Approximate cluster of every record.
    leakage : float, Leakage, one for each fold, or "data"
        The leakage rate, as `audit` takes it.
    scoring : str, scorer, callable, or a list or dict of these, optional
        What to measure; by default what the estimator's own ``score`` gives, the accuracy or R².
    **options : dict
        Further options of `audit`, among them ``cv``, ``n_jobs`` and ``params``, which ``cross_validate`` has as well,
        and ``random_state``.

    Returns
    -------
    dict
        For one metric, arrays ``test_score``, which are those of ``cross_validate``, and ``corrected_score``, with one
        value per fold; for several, ``test_NAME`` and ``corrected_NAME``. Greater is better, as in scikit-learn:
        "neg_mean_squared_error" is negative. ``audit`` is the whole `Audit`, with its intervals and findings. A fold
        that could not be audited is left out, and a finding names it.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> rate = ooc.Leakage(0.12, std=0.02, of="validation")
    >>> options = {"groups": patients.groups, "leakage": rate, "n_fits": 100, "random_state": 0}
    >>> scores = ooc.corrected_cross_validate(KNeighborsClassifier(3), patients.data, patients.target, **options)
    >>> print(scores["test_score"].mean().round(2), scores["corrected_score"].mean().round(2))
    0.67 0.65
    """
    if leakage is None:
        raise InputError("leakage must be a rate, a Leakage or 'data' for a corrected score, got None.")
    wanted = _score_of(estimator) if scoring is None else scoring
    result = audit(estimator, X, y, groups=groups, leakage=leakage, scoring=wanted, **options)
    several = isinstance(scoring, Mapping | list | tuple | set)
    scores: dict[str, Any] = {}
    for name, by_metric in result.metrics.items():
        assert by_metric.optimism is not None
        # Inside the package everything is a loss, of which scikit-learn's scores are the negative.
        values = np.array([-float(fold.own_losses.mean()) for fold in by_metric.samples.folds]) + 0.0
        scores[f"test_{name if several else 'score'}"] = values
        scores[f"corrected_{name if several else 'score'}"] = values - by_metric.optimism.value
    return scores | {"audit": result}


def _score_of(estimator: Any) -> str:
    """What the method ``score`` of an estimator measures."""
    if is_a("classifier", estimator):
        return "accuracy"
    if is_a("regressor", estimator):
        return "r2"
    name = type(estimator).__name__
    raise InputError(f"scoring must be given for {name}, which is neither classifier nor regressor, got None.")

"""A check for skore's reports, whether the cross-validated score is inflated by errors of the clustering.

skore runs any object with these attributes and a ``check_function`` (its protocol ``Check``), so nothing of skore is
imported here. The folds are those of the report, which skore takes as a list of (train, test) where clusters must stay
together, since its splitters see no groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster.auditing.run import audit


@dataclass(eq=False)
class LeakageCheck:
    """Tells a skore report whether its score is inflated by leakage through clustering errors.

    Parameters
    ----------
    groups : array
        Approximate cluster of every record.
    leakage : "data", float, Leakage, or one for each fold
        How much leaks, as `outofcluster.audit` takes it.
    options : dict
        Further arguments of `outofcluster.audit`, such as ``scoring`` or ``random_state``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import outofcluster as ooc
    >>> from outofcluster.present.skore import LeakageCheck
    >>> from sklearn.model_selection import GroupKFold
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> folds = list(GroupKFold(5).split(patients.data, groups=patients.groups))
    >>> check = LeakageCheck(patients.groups, options={"random_state": 0})
    >>> report = SimpleNamespace(  # skore.evaluate(model, X, y, splitter=folds) makes a real one
    ...     estimator_=KNeighborsClassifier(3), X=patients.data, y=patients.target, split_indices=folds
    ... )
    >>> print(check.check_function(report))
    Error rate 0.334 → 0.375 on new clusters. Cross-validation is too optimistic by 0.041 (0.024 to 0.058).
    """

    groups: Any
    leakage: Any = "data"
    options: dict[str, Any] = field(default_factory=dict)
    report_types: list[str] = field(default_factory=lambda: ["cross-validation"], init=False, repr=False)

    code = "OOC001"
    title = "Score inflated by clustering errors"
    docs_url = None
    severity = "issue"
    slow = True

    def __post_init__(self) -> None:
        if self.leakage is None:
            raise InputError("leakage must be a rate, a Leakage or 'data' for a check of a score, got None.")

    def check_function(self, report: Any) -> str | None:
        """Audit the model of a report on the folds of the report."""
        folds = [tuple(split) for split in report.split_indices]
        result = audit(
            report.estimator_, report.X, report.y, groups=self.groups, leakage=self.leakage, cv=folds, **self.options
        )
        inflated = result.optimism is not None and result.optimism.interval[0] > 0
        return result.summary.headline if inflated else None

r"""Several models on the same resamples: the interval of their difference, and whether correcting changes the ranking.

Models are audited on the same folds with the same random numbers, so that replicate r at level i trains every
model on the same records. The difference of two corrected losses then has the influences :math:`D_c^A - D_c^B`,
in which what makes a cluster hard for both cancels, and the Monte-Carlo variance

.. math:: \sum_f ω_f^2 \sum_i \Bigl( \frac{o_A^2 σ_A^2}{t_A} + \frac{o_B^2 σ_B^2}{t_B}
          - \frac{2 m\, o_A o_B σ_{AB}}{t_A t_B} \Bigr)

with m = min(t_A, t_B) shared replicates of covariance σ_AB (fold and level left out of the notation). The Monte-Carlo
noise of the influences is shared as the losses are: of ν_A and ν_B at a level, whose replicates have the correlation
r, :math:`ν_A + ν_B - 2 r \sqrt{ν_A ν_B}` is in the difference, and is taken out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import stdtrit

from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.markup import element, fragment, table
from outofcluster._base.plain import data_frame, plain
from outofcluster._base.validation import Array
from outofcluster.auditing.result import Audit, Estimate
from outofcluster.auditing.run import audit
from outofcluster.inference.linear import between_units
from outofcluster.inference.pooling import Optimism
from outofcluster.sampling.fitting import check_cloneable
from outofcluster.sampling.losses import resolve_loss
from outofcluster.split.folds import make_folds

__all__ = ["Comparison", "Difference", "compare"]

_SCHEMA = 1
_LARGEST_RATE = 0.5


def compare(
    estimators: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    groups: Any,
    leakage: Any = None,
    cv: Any = None,
    loss: Any = None,
    random_state: int | None = None,
    **options: Any,
) -> Comparison:
    """Audit several models on the same resamples.

    Parameters
    ----------
    estimators : dict
        Estimators by name, at least two.
    X, y, groups, leakage, cv, loss, random_state
        As in `audit`.
    **options
        Further options of `audit`, the same for all: ``errors``, ``method``, ``n_fits``, ``n_jobs``, …
        ``checkpoint`` gets the model's place in ``estimators`` added.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> patient = np.repeat(np.arange(60), 4)
    >>> level = rng.standard_normal((60, 3))
    >>> X = level[patient] + 0.2 * rng.standard_normal((240, 3))
    >>> y = (level[:, 0] + rng.standard_normal(60) > 0)[patient]
    >>> models = {"linear": LogisticRegression(), "neighbour": KNeighborsClassifier(1)}
    >>> found = ooc.compare(models, X, y, groups=patient, leakage=0.1, n_fits=80, random_state=0)
    >>> found.ranking
    ('linear', 'neighbour')
    """
    models = _check_models(estimators, loss, y)
    folds = make_folds(X, y, groups, cv)
    pairs = [(fold.train, fold.validation) for fold in folds]
    seed = np.random.SeedSequence().generate_state(1)[0] if random_state is None else random_state
    checkpoint = options.pop("checkpoint", None)
    audits, left_out = dict[str, Audit](), dict[str, str]()
    for place, (name, estimator) in enumerate(models.items()):
        file = None if checkpoint is None else f"{checkpoint}.model{place}"
        try:
            audits[name] = audit(
                estimator,
                X,
                y,
                groups=groups,
                leakage=leakage,
                cv=pairs,
                loss=loss,
                random_state=int(seed),
                checkpoint=file,
                **options,
            )
        except FitError as error:
            left_out[name] = str(error)
    if not audits:
        name, reason = next(iter(left_out.items()))
        raise FitError(f"No model could be audited; the first, {name!r}: {reason}", None)
    return Comparison(audits, left_out)


def _check_models(estimators: Any, loss: Any, y: Any) -> dict[str, Any]:
    """Models that can be cloned and share one loss, before any of them is fitted."""
    if not isinstance(estimators, Mapping) or len(estimators) < 2:
        got = len(estimators) if isinstance(estimators, Mapping) else type(estimators).__name__
        raise InputError(f"estimators must be a dict of at least two estimators by name, got {got}.")
    names = dict[str, str]()
    for name, estimator in estimators.items():
        if not isinstance(name, str):
            raise InputError(f"estimators must have strings as names, got {name!r}.")
        check_cloneable(f"estimators[{name!r}]", estimator)
        names[name] = resolve_loss(loss, estimator, y).name
    if len(set(names.values())) > 1:
        raise InputError(f"estimators must share one loss, got {', '.join(sorted(set(names.values())))}; give loss=.")
    return dict(estimators)


@dataclass(frozen=True)
class Difference:
    """The first model's loss less the second's, as it is and corrected (None without a leakage rate)."""

    first: str
    second: str
    naive: Estimate
    corrected: Estimate | None

    @property
    def changes_sign(self) -> bool:
        """Whether the model that looks better is not the better one."""
        return self.corrected is not None and self.naive.value * self.corrected.value < 0

    def __str__(self) -> str:
        corrected = "" if self.corrected is None else f"; corrected {self.corrected}"
        return f"{self.first} less {self.second}: {self.naive}{corrected}"


@dataclass(frozen=True)
class Comparison:
    """Audits of several models on the same resamples.

    Attributes
    ----------
    audits : dict of Audit
        By the models' names.
    left_out : dict of str
        Models that could not be fitted, and why.
    """

    audits: dict[str, Audit]
    left_out: dict[str, str]

    @property
    def naive_ranking(self) -> tuple[str, ...]:
        """Names by the loss as it is, the best first."""
        return tuple(sorted(self.audits, key=lambda name: self.audits[name].naive.value))

    @property
    def ranking(self) -> tuple[str, ...]:
        """Names by the corrected loss, or by the loss as it is without a leakage rate."""
        values = {name: found.naive if found.corrected is None else found.corrected for name, found in self._items}
        return tuple(sorted(values, key=lambda name: values[name].value))

    @property
    def ranking_changes(self) -> bool:
        """Whether correcting changes the ranking."""
        return self.ranking != self.naive_ranking

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Every pair of models, the better one (by the ranking) first."""
        return tuple(self.difference(first, second) for first, second in combinations(self.ranking, 2))

    def difference(self, first: str, second: str) -> Difference:
        """The loss of one model less that of another, with paired intervals."""
        a, b = self._audit(first), self._audit(second)
        naive = _estimate(a, b, a.pooled.naive_only(), b.pooled.naive_only(), 0.0)
        corrected = None
        if a.leakage is not None and b.leakage is not None:
            rates = np.array([leak.rate for leak in a.leakage])
            stds = np.array([leak.std or 0.0 for leak in a.leakage])
            solved = [found.pooled.solve(found.method, rates) for found in (a, b)]
            moved = [found.pooled.rate_effect(found.method, rates, stds) for found in (a, b)]
            corrected = _estimate(a, b, solved[0], solved[1], (moved[0] - moved[1]) ** 2)
        return Difference(first, second, naive, corrected)

    def tipping_point(self, first: str, second: str) -> float | None:
        """The smallest leakage rate up to 0.5 from which on the model that looks better is the worse one."""
        a, b = self._audit(first), self._audit(second)

        def gap(rate: float) -> float:
            parts = [
                found.pooled.naive + found.pooled.solve(found.method, np.full(len(found.pooled.runs), rate)).value
                for found in (a, b)
            ]
            return parts[0] - parts[1]

        rates = np.linspace(0, _LARGEST_RATE, 51)
        gaps = np.array([gap(float(rate)) for rate in rates])
        crossed = np.flatnonzero(gaps * gaps[0] < 0)
        if not len(crossed):
            return None
        from scipy.optimize import brentq

        return float(brentq(gap, rates[crossed[0] - 1], rates[crossed[0]], xtol=1e-6))

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data."""
        data: dict[str, Any] = plain(
            {
                "schema": _SCHEMA,
                "models": {name: found.to_dict() for name, found in self._items},
                "left_out": self.left_out,
                "naive_ranking": self.naive_ranking,
                "ranking": self.ranking,
                "ranking_changes": self.ranking_changes,
                "differences": self.differences,
            }
        )
        return data

    def to_json(self) -> str:
        """The numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row a model in the order of the ranking."""
        rows = [_row(name, self.audits[name]) for name in self.ranking]
        return data_frame({column: [row[column] for row in rows] for column in rows[0]})

    def __str__(self) -> str:
        width = max(len(name) for name in self.audits)
        lines = [f"{'':{width}}  as it is                     corrected"]
        for name in self.ranking:
            found = self.audits[name]
            lines.append(f"{name:{width}}  {found.naive!s:27}  {found.corrected or 'no leakage rate given'}")
        verdict = "changes" if self.ranking_changes else "does not change"
        if self.audits[self.ranking[0]].corrected is not None:
            lines.append(f"Correcting {verdict} the ranking.")
        lines += [str(difference) for difference in self.differences]
        lines += [f"{name} was left out: {reason}" for name, reason in self.left_out.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(name, str(self.audits[name].naive), str(self.audits[name].corrected or "")) for name in self.ranking]
        said = [str(difference) for difference in self.differences]
        said += [f"{name} was left out: {reason}" for name, reason in self.left_out.items()]
        verdict = "changes" if self.ranking_changes else "does not change"
        parts = [element("p", line) for line in (f"Correcting {verdict} the ranking.", *said)]
        return fragment(table(("model", "as it is", "corrected"), rows), *parts)

    @property
    def _items(self) -> list[tuple[str, Audit]]:
        return list(self.audits.items())

    def _audit(self, name: str) -> Audit:
        if name not in self.audits:
            raise InputError(f"{name!r} is not one of the models {', '.join(map(repr, self.audits))}.")
        return self.audits[name]


def _row(name: str, found: Audit) -> dict[str, Any]:
    corrected = found.corrected
    low, high = (math.nan, math.nan) if corrected is None else corrected.interval
    return {
        "model": name,
        "naive": found.naive.value,
        "corrected": math.nan if corrected is None else corrected.value,
        "low": low,
        "high": high,
    }


def _estimate(a: Audit, b: Audit, of_a: Optimism, of_b: Optimism, of_rate: float) -> Estimate:
    """The difference of two losses; audits that lost different folds are not paired any more."""
    if not np.array_equal(a.pooled.units, b.pooled.units) or len(a.pooled.runs) != len(b.pooled.runs):
        raise InputError("Models can be compared on the same folds only, and some fold of one could not be audited.")
    value = a.pooled.naive + of_a.value - b.pooled.naive - of_b.value
    monte_carlo = _monte_carlo(a, b, of_a, of_b)
    raw = between_units(a.pooled.influence(of_a) - b.pooled.influence(of_b))
    data = max(raw - _influence_noise(a, b, of_a, of_b), 0.25 * raw) + of_rate
    reach = float(stdtrit(max(a.pooled.n_scored - 1, 1), 0.975)) * math.sqrt(monte_carlo + data)
    return Estimate(value, (value - reach, value + reach), math.sqrt(monte_carlo), math.sqrt(data))


def _influence_noise(a: Audit, b: Audit, of_a: Optimism, of_b: Optimism) -> float:
    noise_a, noise_b = a.pooled.influence_noise(of_a), b.pooled.influence_noise(of_b)
    shared = 0.0
    for fold, columns in enumerate(_columns(a, b)):
        for i, j, first, second in columns:
            of_both = np.sign(of_a.training[fold, i] * of_b.training[fold, j]) * _correlation(first, second)
            shared += noise_a[fold, i] + noise_b[fold, j] - 2 * of_both * math.sqrt(noise_a[fold, i] * noise_b[fold, j])
            noise_a[fold, i] = noise_b[fold, j] = 0.0
    return float(shared + noise_a.sum() + noise_b.sum())


def _monte_carlo(a: Audit, b: Audit, of_a: Optimism, of_b: Optimism) -> float:
    total = a.pooled.monte_carlo_of(of_a) + b.pooled.monte_carlo_of(of_b)
    for fold, columns in enumerate(_columns(a, b)):
        shared = (of_a.weights[fold, i] * of_b.weights[fold, j] * _shared(t, s) for i, j, t, s in columns)
        total -= 2 * a.pooled.shares[fold] ** 2 * sum(shared)
    return max(total, 0.0)


def _columns(a: Audit, b: Audit) -> Iterator[list[tuple[int, int, Array, Array]]]:
    """For each fold, the columns of both that are of the same size and level, and their replicates."""
    for run_a, run_b in zip(a.pooled.runs, b.pooled.runs, strict=True):
        of_b = {key: (j, losses) for j, (key, losses) in enumerate(run_b.replicates.items())}
        yield [
            (i, of_b[key][0], losses, of_b[key][1])
            for i, (key, losses) in enumerate(run_a.replicates.items())
            if key in of_b
        ]


def _shared(first: Array, second: Array) -> float:
    """Covariance of two means whose first replicates are the same resamples."""
    m = min(len(first), len(second))
    if m < 2:
        return 0.0
    return m * float(np.cov(first[:m], second[:m])[0, 1]) / (len(first) * len(second))


def _correlation(first: Array, second: Array) -> float:
    m = min(len(first), len(second))
    if m < 3 or first[:m].std() == 0 or second[:m].std() == 0:
        return 1.0
    return float(np.corrcoef(first[:m], second[:m])[0, 1])

"""The scoreboard: how near the automatic default comes to the loss on new clusters.

    python benchmarks/accuracy.py [--json FILE] [--quick]

The paper's five experiments in both protocols come from the committed full run of ``outofcluster reproduce``, in which
every estimator has the same budget of fits, or the default a smaller one. Nine further scenarios are simulated here,
with other learners, regression and classification, rates from 0.02 to 0.3, no effect, a strong one, a curve that is not
convex, and many small clusters: one data set each, of which records (or pieces of clusters) leak anew 50 times; the
truth is the loss of the same learner trained without them. Exit status 1 if a figure falls short.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import outofcluster as ooc
from _figures import Figures, median_seconds, run
from outofcluster.curves import families

PAPER = Path(__file__).parent.parent / "docs" / "paper" / "results.json"
THEIRS = ("trend", "sketch", "basis")
DRAWS = 50


@dataclass(frozen=True)
class Scenario:
    """A learner on clusters of which the last ones are held out.

    ``conflict`` lets the held-out clusters follow other slopes, ``shift`` moves their targets, ``spread`` is the
    deviation of the clusters' own levels: each is something that leaked records teach about held-out clusters.
    """

    name: str
    estimator: Any
    rate: float
    train_clusters: int
    validation_clusters: int
    size: int
    features: int
    classify: bool
    spread: float = 0.5
    conflict: float = 0.0
    shift: float = 0.0
    unit: str = "records"
    n_fits: int | None = None

    def records(self, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
        """X, y, the true cluster, and the held-out clusters."""
        count = self.train_clusters + self.validation_clusters
        cluster = np.repeat(np.arange(count), self.size)
        X = rng.standard_normal((count, self.features))[cluster]
        X += 0.5 * rng.standard_normal(X.shape)
        slopes = np.zeros((count, self.features))
        slopes[:, :2] = 1.0, 0.5
        slopes[self.train_clusters :] += self.conflict * rng.standard_normal(self.features)
        level = self.spread * rng.standard_normal(count)
        level[self.train_clusters :] += self.shift
        y = (X * slopes[cluster]).sum(axis=1) + level[cluster] + 0.7 * rng.standard_normal(len(cluster))
        return X, (y > 0).astype(int) if self.classify else y, cluster, np.arange(self.train_clusters, count)


SCENARIOS = (
    Scenario("ridge, few large clusters", Ridge(), 0.1, 6, 3, 150, 8, False, conflict=0.4),
    Scenario("linear regression, one shifted cluster", LinearRegression(), 0.02, 5, 1, 300, 5, False, shift=1.5),
    Scenario("logistic regression, other slopes", LogisticRegression(), 0.2, 6, 2, 200, 10, True, conflict=0.5),
    Scenario("linear SVM, other slopes", LinearSVC(), 0.1, 6, 2, 200, 20, True, spread=0.3, conflict=0.4),
    Scenario("linear SVM, no effect", LinearSVC(), 0.1, 10, 10, 60, 6, True, spread=0.0),
    Scenario("logistic regression, strong shift", LogisticRegression(), 0.3, 3, 3, 200, 6, True, shift=1.5),
    Scenario("15 neighbours, not convex", KNeighborsClassifier(15), 0.1, 5, 2, 120, 4, True, 1.5, n_fits=300),
    Scenario("forest, other slopes", RandomForestRegressor(10), 0.1, 10, 5, 60, 6, False, 1.0, 0.5, n_fits=150),
    Scenario(
        "3 neighbours, many small clusters", KNeighborsClassifier(3), 0.2, 120, 60, 4, 4, True, 1.5, unit="fragments"
    ),
)


def leak(scenario: Scenario, draw: int) -> dict[str, float]:
    """One draw of what leaks: the loss as it is, the corrected one, the truth, and whether the interval covers it."""
    X, y, cluster, held_out = scenario.records(np.random.default_rng(sum(map(ord, scenario.name))))
    fragments = scenario.unit == "fragments"
    split = ooc.simulate_leakage(
        cluster, held_out, scenario.rate, unit=scenario.unit, of="moved" if fragments else "train", random_state=draw
    )
    train, validation = split.train, split.validation
    clean = train[~np.isin(cluster[train], held_out)]
    truth = _loss(scenario, X, y, clean, np.flatnonzero(np.isin(cluster, held_out)))
    rate = np.isin(cluster[validation], cluster[train]).mean() if fragments else split.rate
    audit = ooc.audit(
        scenario.estimator,
        X,
        y,
        groups=split.groups,
        cv=[(train, validation)],
        error_model=scenario.unit,
        leakage=ooc.Leakage(float(rate), of="validation" if fragments else "train"),
        n_fits=scenario.n_fits,
        random_state=draw,
    )
    low, high = audit.corrected.interval
    naive, value = audit.naive.value, audit.corrected.value
    return {"truth": truth, "naive": naive, "corrected": value, "covers": low <= truth <= high}


def _loss(scenario: Scenario, X: Any, y: Any, train: Any, scored: Any) -> float:
    """Mean over ten fits, for learners with a random state of their own."""
    seeded = "random_state" in scenario.estimator.get_params()
    losses = []
    for state in range(10 if seeded else 1):
        model = clone(scenario.estimator)
        if seeded:
            model.set_params(random_state=state)
        predicted = model.fit(X[train], y[train]).predict(X[scored])
        losses.append(np.mean(predicted != y[scored] if scenario.classify else (predicted - y[scored]) ** 2))
    return float(np.mean(losses))


def field(figures: Figures, draws: int) -> None:
    """Every scenario: RMSE over the naive estimate's, and coverage."""
    for scenario in SCENARIOS:
        rows = Parallel(n_jobs=2)(delayed(leak)(scenario, draw) for draw in range(draws))
        truth, naive, corrected, covers = (np.array([row[key] for row in rows], dtype=float) for key in rows[0])
        judge_field(figures, scenario.name, naive - truth, corrected - truth)
        figures.at_least(f"{scenario.name}: 95 % interval covers", covers.mean(), 0.9)


def judge_field(figures: Figures, name: str, naive: Any, ours: Any) -> None:
    """RMSE over naive's, held to 0.6 where the naive bias exceeds two standard errors, else to no harm.

    What would be left of it if the bias were known exactly, the spread over draws, stands beside it.
    """
    biased = abs(naive.mean()) > 2 * naive.std(ddof=1) / np.sqrt(len(naive))
    ratio = np.sqrt(np.mean(ours**2) / np.mean(naive**2))
    figures.note(f"{name}: naive bias", naive.mean())
    figures.at_most(f"{name}: RMSE over naive's{', biased' if biased else ''}", ratio, 0.6 if biased else 1.05)
    figures.note(f"{name}: RMSE with the bias known, over naive's", naive.std() / np.sqrt(np.mean(naive**2)))


def paper(figures: Figures, path: Path) -> None:
    """The five experiments: median errors in the paper's protocol, RMSE in the field's."""
    studies = json.loads(path.read_text())["studies"]
    medians, worst = dict[str, list[float]](), dict[str, list[float]]()
    for name, study in studies.items():
        methods, e0 = study["protocols"]["paper"]["methods"], study["protocols"]["paper"]["e0"]
        for method in ("naive", *THEIRS, "default"):
            errors = np.abs(np.array(methods[method]["errors"], dtype=float))
            medians.setdefault(method, []).append(max(float(np.nanmedian(errors)), 1e-3 * e0))
            worst.setdefault(method, []).append(float(np.nanmax(errors)) / e0)
            figures.note(f"paper protocol, {name}, {method}: median error", float(np.nanmedian(errors)))
    means = {method: float(np.exp(np.mean(np.log(values)))) for method, values in medians.items()}
    best = min(THEIRS, key=lambda method: means[method])
    for method, value in means.items():
        figures.note(f"paper protocol, {method}: geometric mean of the medians", value)
    figures.at_most(
        f"paper protocol: geometric mean over the best of theirs ({best})", means["default"] / means[best], 0.5
    )
    figures.at_most(
        "paper protocol: worst relative error over the best of theirs",
        max(worst["default"]) / min(max(worst[method]) for method in THEIRS),
        0.4,
    )
    for name, study in studies.items():
        methods = study["protocols"]["field"]["methods"]
        naive, ours = (np.array(methods[method]["errors"], dtype=float) for method in ("naive", "default"))
        judge_field(figures, f"field protocol, {name}", naive, ours)


def solve_time(figures: Figures) -> None:
    """From losses to e_0 with its derivative and the variance of the choice, with no help from earlier solves."""
    p = np.tile([0.1, 0.13, 0.2, 0.35, 0.6], 3)
    for n in (100, 10_000, 10**9):
        sizes = np.repeat([n, round((8 * n) ** 0.5), 8], 5)
        errors = np.full(15, 1e-3)

        def solve(sizes: Any = sizes, errors: Any = errors) -> Any:
            families._table.cache_clear()
            curve = ooc.AutoCurve().fit_points(p, 0.2 + 0.1 / (1 + 8 * p), sizes, standard_errors=errors)
            return curve.e0_, curve.derivative_, curve.choice_variance_

        figures.at_most(f"solve time, n = {n:g}: milliseconds", 1e3 * median_seconds(solve, 15), 20)


def measure(figures: Figures, quick: bool) -> None:
    solve_time(figures)
    if PAPER.exists():
        paper(figures, PAPER)
    field(figures, 8 if quick else DRAWS)


if __name__ == "__main__":
    sys.exit(run(__doc__, measure, ("outofcluster", "numpy", "scipy", "scikit-learn", "numba")))

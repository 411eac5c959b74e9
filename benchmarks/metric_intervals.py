"""Do intervals of metrics cover? Data sets drawn anew, for records and fragments, by metrics that papers report.

    python benchmarks/metric_intervals.py [--data-sets N] [--jobs N] [--json FILE]

Each cell draws data sets of new clusters with leakage, and audits each of them once, by all its metrics together. The
truth is not taken from the package: over many further data sets of the same kind the user's own models are
cross-validated as they are, and without the training records that leaked. The means are the expected naive and clean
values of the metric. The audit is told the rate at which the records of its data set leaked, which differs from one
data set to the next. So its naive value is compared with that which is expected at that rate, by a straight line
through the further data sets. The optimism is that of the very cross-validation that is audited, and is compared with
its own: the same folds without the records that leaked. The other intervals must allow for other clusters in training
and in validation. A figure is the share of intervals that hold their truth; 92 to 98 % is asked for. Audits are default
ones. In the last two cells the rate comes from 100 audited entities.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import outofcluster as ooc
from _figures import Figures
from worlds import EntityWorld, MixedWorld, cut_some

CLASSES = ("roc_auc", "average_precision", "neg_log_loss", "balanced_accuracy")
NUMBERS = ("r2", "neg_mean_squared_error")
LEAST, MOST = 0.92, 0.98
TRUTHS = 10
"""Data sets behind the truth for each one that is audited."""


@dataclass(frozen=True)
class Drawn:
    """A data set with leakage: records, both kinds of clusters, folds, the clean training rows, and the true rate."""

    X: Any
    y: Any
    groups: Any
    entity: Any
    folds: list[tuple[Any, Any]]
    clean: list[Any]
    rate: float


@dataclass(frozen=True)
class Cell:
    """What is drawn, the model, its metrics, and how it is audited."""

    name: str
    draw: Callable[[np.random.Generator], Drawn]
    estimator: Any
    metrics: tuple[str, ...]
    error_model: str
    audited_entities: int = 0
    """Entities that were looked up, from which rate and cuts are learned; with none the rate is known exactly."""


def records(world: MixedWorld, rng: np.random.Generator) -> Drawn:
    """Twenty clusters per side, of which a tenth of the training records leaked."""
    X, y, cluster = world.draw(rng, 40, 20)
    leaky = ooc.simulate_leakage(cluster, np.arange(20, 40), 0.1, random_state=int(rng.integers(2**31)))
    clean = leaky.train[cluster[leaky.train] < 20]
    return Drawn(X, y, leaky.groups, cluster, [(leaky.train, leaky.validation)], [clean], float(leaky.rate))


def fragments(numbers: bool, rng: np.random.Generator) -> Drawn:
    """A hundred and fifty entities of four records, of which a quarter is cut in two."""
    world = EntityWorld()
    features, labels = world.clusters(rng, 150)
    X, y, entity = world.records(rng, (features, labels), 4)
    if numbers:
        level = features[:, 0] + rng.standard_normal(150)
        y = level[entity] + 0.5 * rng.standard_normal(len(entity))
    groups = cut_some(rng, entity, 0.25)
    folds = list(GroupKFold(5, shuffle=True, random_state=int(rng.integers(2**31))).split(X, y, groups))
    clean = [train[~np.isin(entity[train], entity[held_out])] for train, held_out in folds]
    rate = np.concatenate([np.isin(entity[held_out], entity[train]) for train, held_out in folds]).mean()
    return Drawn(X, y, groups, entity, folds, clean, float(rate))


def own_values(cell: Cell, data: Drawn) -> dict[str, tuple[float, float]]:
    """By every metric, the mean over folds as it is, and without the leaked training records."""
    values = {}
    models = [
        [clone(cell.estimator).fit(data.X[rows], data.y[rows]) for rows in (train, clean)]
        for (train, _), clean in zip(data.folds, data.clean, strict=True)
    ]
    for metric in cell.metrics:
        scorer = get_scorer(metric)
        by_fold = [
            [scorer(model, data.X[held_out], data.y[held_out]) for model in pair]
            for pair, (_, held_out) in zip(models, data.folds, strict=True)
        ]
        naive, clean = np.mean(by_fold, axis=0)
        values[metric] = (float(naive), float(clean))
    return values


def true_values(cell: Cell, seed: int) -> tuple[float, dict[str, tuple[float, float]]]:
    """The rate, and the user's own values, in one further data set."""
    data = cell.draw(np.random.default_rng([1, seed]))
    return data.rate, own_values(cell, data)


def audited(cell: Cell, seed: int) -> tuple[float, dict[str, tuple[Any, ...]]]:
    """The rate, and by every metric the optimism of this very cross-validation behind the intervals.

    These are those of the naive value, the corrected value and the optimism, in scikit-learn's sign.
    """
    rng = np.random.default_rng([2, seed])
    data = cell.draw(rng)
    leakage = ooc.Leakage(data.rate, of="train" if cell.error_model == "records" else "validation")
    if cell.audited_entities:
        looked_up = np.isin(data.entity, rng.choice(np.unique(data.entity), cell.audited_entities, replace=False))
        leakage = ooc.Leakage.from_true_groups(data.entity[looked_up], data.groups[looked_up], cv=5)
    result = ooc.audit(
        cell.estimator,
        data.X,
        data.y,
        groups=data.groups,
        cv=data.folds,
        leakage=leakage,
        error_model=cell.error_model,
        scoring=list(cell.metrics),
        pool="folds",
        random_state=seed,
    )
    intervals, true = {}, own_values(cell, data)
    for metric, own in result.metrics.items():
        sign = -1 if metric.startswith("neg_") else 1
        both = [tuple(sorted(sign * end for end in estimate.interval)) for estimate in (own.naive, own.corrected)]
        naive, clean = true[metric]
        intervals[metric] = (*both, own.optimism.interval, naive - clean)
    return data.rate, intervals


CELLS = (
    Cell("logistic, records", partial(records, MixedWorld(True)), LogisticRegression(), CLASSES, "records"),
    Cell("least squares, records", partial(records, MixedWorld(False)), LinearRegression(), NUMBERS, "records"),
    Cell("9 neighbours, fragments", partial(fragments, False), KNeighborsClassifier(9), CLASSES, "fragments"),
    Cell("3 neighbours, fragments", partial(fragments, True), KNeighborsRegressor(3), NUMBERS, "fragments"),
    Cell("9 neighbours, audited", partial(fragments, False), KNeighborsClassifier(9), CLASSES, "fragments", 100),
    Cell("3 neighbours, audited", partial(fragments, True), KNeighborsRegressor(3), NUMBERS, "fragments", 100),
)


def judge(figures: Figures, cell: Cell, data_sets: int, jobs: int) -> None:
    """Print the coverage of every metric."""
    parallel = Parallel(n_jobs=jobs)
    truths = parallel(delayed(true_values)(cell, seed) for seed in range(TRUTHS * data_sets))
    rows = parallel(delayed(audited)(cell, seed) for seed in range(data_sets))
    rates = np.array([rate for rate, _ in truths])
    for metric in cell.metrics:
        own = np.array([values[metric] for _, values in truths])
        figures.note(f"{cell.name}, {metric}: naive value", own[:, 0].mean())
        figures.note(f"{cell.name}, {metric}: value on new clusters", own[:, 1].mean())
        expected = {
            "naive": np.polynomial.Polynomial.fit(rates, own[:, 0], 1),
            "corrected": np.polynomial.Polynomial([own[:, 1].mean()]),
        }
        hits = {
            what: [row[metric][place][0] <= at_rate(rate) <= row[metric][place][1] for rate, row in rows]
            for place, (what, at_rate) in enumerate(expected.items())
        }
        hits["optimism"] = [row[metric][2][0] <= row[metric][3] <= row[metric][2][1] for _, row in rows]
        for what, each in hits.items():
            covered = np.mean(each)
            error = np.sqrt(covered * (1 - covered) / data_sets)
            figures.between(f"{cell.name}, {metric}: interval of {what} covers", covered, LEAST, MOST, error)


def main() -> int:
    """Run all cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cell", type=int, action="append", help="the number of a cell, from 0; all by default")
    options = parser.parse_args()
    figures = Figures()
    for number in options.cell or range(len(CELLS)):
        judge(figures, CELLS[number], options.data_sets, options.jobs)
    if options.json:
        figures.write(options.json, ("outofcluster", "numpy", "scikit-learn"))
    return figures.exit_status()


if __name__ == "__main__":
    sys.exit(main())

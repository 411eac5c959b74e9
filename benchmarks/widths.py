"""Are intervals as wide as they should be? Claimed standard errors over actual errors, in twelve worlds.

    python benchmarks/widths.py [--only NAME ...] [--data-sets N] [--jobs N] [--json FILE]

Data sets are drawn anew, with leakage, and each of them is audited once with all defaults, by all its metrics together.
Six worlds, whose names begin with A, had a part in choices of the package; six, whose names begin with B, had none. For
records there are single splits whose held-out clusters lost records to the training side (``simulate_leakage``), and
five folds of clusters of which a share of records carries another cluster's name. Such a record trains where its own
cluster is held out, and is not scored where the cluster is whose name it carries, so that nothing leaks the other way.
The audit is told the realised share of leaked training records. For pieces there are entities that a linkage left in
pieces; the audit is told the realised share of the held-out records whose entity trains, with a standard error of 0.01,
or nothing. Three estimates are judged, each against a truth of its own that plain scikit-learn computes:

*optimism*: the loss on the same folds without every training record whose true cluster is held out, less the loss as it
is. Both models have the same random numbers; learners that draw some are fitted several times, and the mean counts.

*corrected*: what the models without these records lose on fresh clusters of the same population, as many and as large
as those that the fold holds out, averaged over many such draws. (A fold's AUC or R² depends on how many clusters it
holds out, so that one large draw would be another truth.)

*naive*: the same for the models as they are, trained with all training records. None of these has anything to do with a
fresh cluster, so that here the optimism counts as an error of the naive value. Beside it, as *naive, own rate*, stands
its error against the value that is expected where as much leaks: the truth of *corrected*, less the mean of the true
optimism over all data sets. It is not judged (``JUDGED``).

A ratio is the root mean square of claimed standard errors (``se_data`` and ``se_monte_carlo``) over that of errors.
Data set i of a world draws from ``SeedSequence(SEED, spawn_key=(crc32(name), i))``, so that any number of workers, and
any choice of worlds, gives the same numbers. ``--only`` takes starts of names: A and B are the two lists. Exit status 1
if a figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, log_loss, mean_squared_error, r2_score, roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from threadpoolctl import threadpool_limits

import outofcluster as ooc
from _figures import Figures, versions
from people import heavy_tailed, jackknifed, quiet, ratio_of_rms, rms
from worlds import EntityWorld, MixedWorld, chip_off, cut_some, scatter_some

SEED = 20190416
DATA_SETS = 100
FRESH, REPEATS = 40, 10
"""Draws of fresh clusters for every fold, and fits of learners with random numbers of their own."""
MEDIAN_RATIO, EACH_RATIO = (0.9, 1.25), (0.8, 1.6)
"""Claimed over actual error, in the median and in each."""
MEDIAN_COVERS, EACH_COVERS = (0.92, 0.98), 0.9
"""Coverage of 95 % intervals, in the median and in each."""
ESTIMATES, OWN_RATE = ("optimism", "naive", "corrected"), "naive, own rate"
JUDGED = ESTIMATES
"""The estimates that are held to these bounds; figures of the others are shown for information."""
PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "joblib")

Rng = np.random.Generator
Folds = list[tuple[Any, Any]]


# --- metrics ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A metric in its own sign, as audits show it.

    Attributes
    ----------
    name, words : str
        What scikit-learn calls its scorer, and what a reader calls it.
    sign : int
        1 for a loss, -1 for a metric of which more is better.
    by_fold : bool
        Whether folds count alike; otherwise records do.
    score : function
        Of targets and predictions, which are probabilities of class 1 for classifiers.
    """

    name: str
    words: str
    sign: int
    by_fold: bool
    score: Callable[[Any, Any], float]


CLASSES = (
    # The accuracy has the errors of the error rate, and can be asked for together with the others.
    Metric("accuracy", "error rate", -1, False, lambda y, p: float(np.mean((p > 0.5) == y))),
    Metric("roc_auc", "AUC", -1, True, roc_auc_score),
    Metric("average_precision", "average precision", -1, True, average_precision_score),
    Metric("neg_log_loss", "log loss", 1, False, partial(log_loss, labels=[0, 1])),
)
NUMBERS = (
    Metric("neg_mean_squared_error", "squared error", 1, False, mean_squared_error),
    Metric("r2", "R²", -1, True, r2_score),
)


# --- what is drawn ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Levels(EntityWorld):
    """Entities with a level in the place of a label: the first feature plus N(0, 1), seen with noise N(0, 1/4)."""

    classes: bool = False

    def clusters(self, rng: Rng, count: int) -> tuple[Any, ...]:
        features = rng.standard_normal((count, 6))
        return features, features[:, 0] + rng.standard_normal(count)

    def records(self, rng: Rng, clusters: tuple[Any, ...], counts: Any) -> tuple[Any, Any, Any]:
        X, level, entity = super().records(rng, clusters, counts)
        return X, level + 0.5 * rng.standard_normal(len(level)), entity


@dataclass(frozen=True)
class Data:
    """A data set with leakage: records, true and observed clusters, folds, and what the audit is told."""

    X: Any
    y: Any
    cluster: Any
    groups: Any
    folds: Folds
    options: dict[str, Any]


def leaked(cluster: Any, folds: Folds) -> list[Any]:
    """For each fold, which of the training records belong to a cluster that is held out."""
    return [np.isin(cluster[train], cluster[test]) for train, test in folds]


def splits(rng: Rng, groups: Any, n_folds: int = 5) -> Folds:
    """Folds of observed clusters."""
    cv = GroupKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    return list(cv.split(np.zeros((len(groups), 1)), groups=groups))


def records_of(X: Any, y: Any, cluster: Any, groups: Any, folds: Folds) -> Data:
    """Single records leak, at the realised rate, which is known."""
    rate = float(np.mean([own.mean() for own in leaked(cluster, folds)]))
    options = {"error_model": "records", "leakage": ooc.Leakage(rate, of="train")}
    return Data(X, y, cluster, groups, folds, options)


def one_split(world: MixedWorld, trains: int, held_out: int, size: int, rate: float, rng: Rng) -> Data:
    """One split, with so many clusters a side, and this share of the training records leaked."""
    X, y, cluster = world.draw(rng, trains + held_out, size)
    state = int(rng.integers(2**31))
    leaky = ooc.simulate_leakage(cluster, np.arange(trains, trains + held_out), rate, random_state=state)
    return records_of(X, y, cluster, leaky.groups, [(leaky.train, leaky.validation)])


def other_names(world: MixedWorld, count: int, size: int, share: float, rng: Rng) -> Data:
    """Five folds of clusters of which this share of records carries another cluster's name, and is never scored."""
    X, y, cluster = world.draw(rng, count, size)
    other = (cluster + rng.integers(1, count, len(cluster))) % count
    groups = np.where(rng.random(len(cluster)) < share, other, cluster)
    folds = [(train, test[groups[test] == cluster[test]]) for train, test in splits(rng, groups)]
    return records_of(X, y, cluster, groups, folds)


def in_pieces(
    world: EntityWorld,
    sizes: Callable[[Rng], Any],
    link: Callable[[Rng, Any], Any],
    rate_known: bool,
    rng: Rng,
) -> Data:
    """Five folds of entities that a linkage left in pieces."""
    counts = sizes(rng)
    X, y, entity = world.records(rng, world.clusters(rng, len(counts)), counts)
    groups = link(rng, entity)
    folds = splits(rng, groups)
    options: dict[str, Any] = {"error_model": "fragments"}
    if rate_known:
        rate = np.concatenate([np.isin(entity[test], entity[train]) for train, test in folds]).mean()
        options["leakage"] = ooc.Leakage(float(rate), std=0.01, of="validation")
    return Data(X, y, entity, groups, folds, options)


def four_each(rng: Rng) -> Any:
    """Two hundred entities of four records."""
    return np.full(200, 4)


def two_to_six(rng: Rng) -> Any:
    """Two hundred entities of two to six records."""
    return rng.integers(2, 7, 200)


def heavy(rng: Rng) -> Any:
    """Two hundred entities, most of them with two or three records and some with dozens."""
    return heavy_tailed(rng, 200)


# --- the truth about one data set ---------------------------------------------------------------------


def fitted(estimator: Any, state: int, X: Any, y: Any) -> Any:
    """A copy that was fitted, with this seed where it takes one."""
    copy = clone(estimator)
    if "random_state" in copy.get_params():
        copy.set_params(random_state=state)
    return copy.fit(X, y)


def scores(metrics: Sequence[Metric], model: Any, X: Any, y: Any, parts: int = 1) -> Any:
    """Every metric, averaged over parts of equal size that follow each other."""
    predicted = model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.predict(X)
    pairs = list(zip(y.reshape(parts, -1), predicted.reshape(parts, -1), strict=True))
    return np.array([np.mean([metric.score(*pair) for pair in pairs]) for metric in metrics])


@dataclass(frozen=True)
class Truth:
    """One value per metric, of models as they are and without the leaked records, on the folds and on fresh clusters.

    Forests are fitted ``REPEATS`` times.
    """

    as_it_is: Any
    clean: Any
    as_it_is_fresh: Any
    clean_fresh: Any

    @classmethod
    def of(cls, world: Any, estimator: Any, metrics: Sequence[Metric], data: Data, rng: Rng) -> Truth:
        X, y = data.X, data.y
        # Boosting takes a seed as well, but draws nothing with it as long as it sets no records aside.
        repeats = REPEATS if isinstance(estimator, RandomForestClassifier) else 1
        by_fold = []
        for (train, test), out in zip(data.folds, leaked(data.cluster, data.folds), strict=True):
            counts = np.bincount(data.cluster[test])
            counts, parts = counts[counts > 0], FRESH // repeats
            values = np.zeros((4, len(metrics)))
            for _ in range(repeats):
                state = int(rng.integers(2**31))
                fresh = world.records(rng, world.clusters(rng, parts * len(counts)), np.tile(counts, parts))[:2]
                for place, rows in enumerate((train, train[~out])):
                    model = fitted(estimator, state, X[rows], y[rows])
                    values[place] += scores(metrics, model, X[test], y[test]) / repeats
                    values[2 + place] += scores(metrics, model, *fresh, parts) / repeats
            by_fold.append(values)
        sizes = np.array([len(test) for _, test in data.folds])
        shares = np.array([np.ones(len(sizes)) if metric.by_fold else sizes for metric in metrics]).T
        return cls(*np.sum(np.array(by_fold) * (shares / shares.sum(axis=0))[:, None], axis=0))


# --- worlds -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """What is drawn, and the learner; the name begins with that of the list."""

    name: str
    estimator: Any
    population: Any
    draw: Callable[[Rng], Data]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return CLASSES if self.population.classes else NUMBERS

    def seed(self, data_set: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(SEED, spawn_key=(crc32(self.name.encode()), data_set))

    def data_set(self, data_set: int) -> tuple[Data, Truth, int]:
        """A data set, the truth about it, and the seed of its audit."""
        drawn, known, own = self.seed(data_set).spawn(3)
        data = self.draw(np.random.default_rng(drawn))
        truth = Truth.of(self.population, self.estimator, self.metrics, data, np.random.default_rng(known))
        return data, truth, int(own.generate_state(1)[0])

    def audit(self, data: Data, state: int, **options: Any) -> Any:
        """An audit with what it may know; ``options`` are further ones."""
        asked = data.options | {"groups": data.groups, "cv": data.folds, "random_state": state} | options
        return ooc.audit(self.estimator, data.X, data.y, **asked)


def records_world(name: str, estimator: Any, population: MixedWorld, draw: Callable[..., Data], *about: Any) -> World:
    return World(name, estimator, population, partial(draw, population, *about))


def pieces_world(name: str, estimator: Any, population: EntityWorld, *about: Any, rate_known: bool = True) -> World:
    return World(name, estimator, population, partial(in_pieces, population, *about, rate_known))


WORLDS = (
    records_world(
        "A, records, one split, logistic, turned slopes",
        LogisticRegression(), MixedWorld(True, turn=0.7), one_split, 20, 15, 30, 0.1,
    ),
    records_world("A, records, one split, ridge", Ridge(), MixedWorld(False), one_split, 25, 15, 30, 0.1),
    records_world(
        "A, records, five folds, 9 neighbours", KNeighborsClassifier(9), MixedWorld(True), other_names, 40, 15, 0.3
    ),
    pieces_world(
        "A, pieces, 3 neighbours, cut in two",
        KNeighborsClassifier(3), EntityWorld(), four_each, partial(cut_some, share=0.25),
    ),
    pieces_world(
        "A, pieces, boosting of numbers, heavy tails",
        HistGradientBoostingRegressor(max_iter=50), Levels(), heavy, partial(cut_some, share=0.25),
    ),
    pieces_world(
        "A, pieces, 9 neighbours, heavy tails, no rate",
        KNeighborsClassifier(9), EntityWorld(), heavy, partial(chip_off, share=0.05), rate_known=False,
    ),
    records_world(
        "B, records, one split, naive Bayes, levels",
        GaussianNB(), MixedWorld(True, between=0.0, within=1.0), one_split, 25, 15, 40, 0.2,
    ),
    records_world(
        "B, records, five folds, ridge, turned slopes",
        Ridge(), MixedWorld(False, turn=0.5), other_names, 24, 35, 0.25,
    ),
    records_world(
        "B, records, five folds, logistic, no effect",
        LogisticRegression(), MixedWorld.without_effect(True), other_names, 20, 40, 0.3,
    ),
    pieces_world(
        "B, pieces, 3 neighbours of numbers, chipped off",
        KNeighborsRegressor(3), Levels(), two_to_six, partial(chip_off, share=0.06, most=2),
    ),
    pieces_world(
        "B, pieces, forest, scattered, no rate",
        RandomForestClassifier(30), EntityWorld(), two_to_six, partial(scatter_some, share=0.2), rate_known=False,
    ),
    pieces_world(
        "B, pieces, boosting, heavy tails",
        HistGradientBoostingClassifier(max_iter=50), EntityWorld(), heavy, partial(chip_off, share=0.05),
    ),
)  # fmt: skip


# --- one audit ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """One estimate of one data set beside its truth."""

    value: float
    claimed: float
    low: float
    high: float
    truth: float


def audited(world: World, data_set: int) -> dict[tuple[str, str], Seen]:
    """Every estimate by the name of its metric and its own."""
    with threadpool_limits(1):
        data, truth, state = world.data_set(data_set)
        result = world.audit(data, state, scoring=[metric.name for metric in world.metrics])
    rows = {}
    for place, metric in enumerate(world.metrics):
        own = result.metrics[metric.name]
        # An optimism has the sign of losses whatever the metric; a value has that of the metric.
        truths = {
            "optimism": metric.sign * (truth.clean - truth.as_it_is)[place],
            "naive": truth.as_it_is_fresh[place],
            "corrected": truth.clean_fresh[place],
        }
        for name in ESTIMATES:
            estimate = getattr(own, name)
            claimed = float(np.hypot(estimate.se_data, estimate.se_monte_carlo))
            rows[metric.name, name] = Seen(estimate.value, claimed, *estimate.interval, float(truths[name]))
    return rows


# --- all data sets ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One estimate by one metric in one world, over its data sets."""

    world: str
    metric: str
    estimate: str
    truth: float
    mean_error: float
    rmse: float
    claimed: float
    ratio: float
    ratio_error: float | None
    coverage: float

    @classmethod
    def of(cls, world: str, metric: str, estimate: str, seen: Sequence[Seen], truths: Any) -> Row:
        values, claimed, low, high = (
            np.array([getattr(one, name) for one in seen]) for name in ("value", "claimed", "low", "high")
        )
        errors = values - truths
        ratio, ratio_error = jackknifed(ratio_of_rms, claimed, errors)
        coverage = float(np.mean((low <= truths) & (truths <= high)))
        about = (float(truths.mean()), float(errors.mean()), rms(errors), rms(claimed))
        return cls(world, metric, estimate, *about, ratio, ratio_error, coverage)

    @property
    def holds(self) -> bool:
        return EACH_RATIO[0] <= self.ratio <= EACH_RATIO[1] and self.coverage >= EACH_COVERS

    def __str__(self) -> str:
        mark = "     " if self.estimate not in JUDGED else "holds" if self.holds else "SHORT"
        error = "" if self.ratio_error is None else f"± {self.ratio_error:.2f}"
        numbers = f"{self.truth:>9.4f}{self.mean_error:>+10.4f}{self.rmse:>9.4f}{self.claimed:>9.4f}"
        return (
            f"{mark}  {self.metric:<19}{self.estimate:<17}{numbers}{self.ratio:>7.2f} {error:<7}{self.coverage:>8.1%}"
        )


HEAD = (
    f"       {'metric':<19}{'estimate':<17}{'truth':>9}{'mean err.':>10}{'RMSE':>9}{'claimed':>9}{'ratio':>7}"
    f"{'covers':>16}"
)


def table(world: World, data_sets: int, jobs: int) -> Iterator[Row]:
    """The rows of a world, one for every metric and estimate."""
    all_rows = Parallel(n_jobs=jobs)(delayed(quiet)(partial(audited, world), i) for i in range(data_sets))
    for metric in world.metrics:
        seen = {name: [rows[metric.name, name] for rows in all_rows] for name in ESTIMATES}
        truths = {name: np.array([one.truth for one in seen[name]]) for name in ESTIMATES}
        for name in ESTIMATES:
            yield Row.of(world.name, metric.words, name, seen[name], truths[name])
        expected = truths["corrected"] - metric.sign * truths["optimism"].mean()
        yield Row.of(world.name, metric.words, OWN_RATE, seen["naive"], expected)


def judge(figures: Figures, rows: Sequence[Row]) -> None:
    """The median and the extremes of every estimate, over all worlds and metrics; and of both lists by themselves."""
    for name in (*ESTIMATES, OWN_RATE):
        own = [row for row in rows if row.estimate == name]
        ratios, covers = ([getattr(row, what) for row in own] for what in ("ratio", "coverage"))
        what = f"{name}, {len(own)} cells: "
        if name not in JUDGED:
            for part, pick in (("median", np.median), ("least", min), ("greatest", max)):
                figures.note(f"{what}claimed over actual error, {part}", pick(ratios))
            for part, pick in (("median", np.median), ("least", min)):
                figures.note(f"{what}95 % interval covers, {part}", pick(covers))
            continue
        figures.between(f"{what}claimed over actual error, median", np.median(ratios), *MEDIAN_RATIO)
        figures.at_least(f"{what}claimed over actual error, least", min(ratios), EACH_RATIO[0])
        figures.at_most(f"{what}claimed over actual error, greatest", max(ratios), EACH_RATIO[1])
        figures.between(f"{what}95 % interval covers, median", np.median(covers), *MEDIAN_COVERS)
        figures.at_least(f"{what}95 % interval covers, least", min(covers), EACH_COVERS)
        for part in "AB":
            of_part = [row for row in own if row.world.startswith(part)]
            if of_part:
                ratio, covered = (np.median([getattr(row, what) for row in of_part]) for what in ("ratio", "coverage"))
                figures.note(f"{name}, list {part}: claimed over actual error, median", ratio)
                figures.note(f"{name}, list {part}: 95 % interval covers, median", covered)
    short = sum(not row.holds for row in rows if row.estimate in JUDGED)
    figures.note("worlds, metrics and estimates out of their bounds", short)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="worlds whose names start with one of these")
    parser.add_argument("--data-sets", type=int, default=DATA_SETS, help=f"of every world, {DATA_SETS} by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1 by default)")
    parser.add_argument("--json", type=Path, help="also write table and figures, with versions, to this file")
    options = parser.parse_args()
    chosen = [world for world in WORLDS if world.name.startswith(tuple(options.only))]
    if not chosen:
        parser.error("\n  ".join(["no world's name starts so; the names are:", *(world.name for world in WORLDS)]))
    rows: list[Row] = []
    for world in chosen:
        start = time.perf_counter()
        own = list(table(world, options.data_sets, options.jobs))
        print(f"\n{world.name}: {options.data_sets} data sets, {time.perf_counter() - start:.0f} s\n{HEAD}")
        print("\n".join(map(str, own)), flush=True)
        rows += own
    print()
    figures = Figures()
    judge(figures, rows)
    if options.json:
        about = {"versions": versions(PACKAGES), "data_sets": options.data_sets}
        about |= {"figures": [asdict(row) for row in figures.rows], "table": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(about, indent=2) + "\n")
    return figures.exit_status()


if __name__ == "__main__":
    sys.exit(main())

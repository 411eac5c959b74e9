"""What an audit says by subgroup and of new clusters, against truths that the package does not compute.

    python benchmarks/subgroups.py [--quick] [--only NAME ...] [--data-sets N] [--json FILE]

*Subgroups.* Worlds in which leakage differs by subgroup. The truth of a data set's optimism is the loss of scikit-learn
on the same folds without the training records of held-out entities, less the loss as it is. The naive and the corrected
loss of new clusters are the means of these two over many data sets that are drawn for it.

- *halves*: entities of two sexes; the linkage cut 35 % of one of them and none of the other. Three neighbours.
- *regions*: three regions, of which 10, 25 and 40 % of the entities were cut. A target of numbers.
- *visits*: early and late records of the same entities, so that subgroups share clusters; only late ones were cut off.
- *wards*: single records with the name of another cluster, 5 % in one half of the wards and 25 % in the other; the
  rates are known. Nine neighbours.
- *ranks*: the world of *halves* under AUC, with fifteen neighbours.

Simultaneous coverage is the share of data sets in which the intervals of all subgroups hold their truths. The level of
the difference of the optimism is the share in which its interval misses the true difference. Its power is the share in
which an effect of two of its standard errors, added to the estimate or taken off it, would show if there were no other.

*New clusters.* Losses of clusters with known expectations, of equal and unequal sizes, and how often the prediction
interval holds the expected loss of one more cluster (averaged over the law of these, so that there is no noise in it).
Under AUC a cluster has normal scores whose distance between the classes, and a share of positive records, of its own.

*Time* of both on an audit of 100,000 records.

``--quick`` draws a few data sets. Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import ndtr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import outofcluster as ooc
from _figures import Figures
from outofcluster.auditing.spread import fit_spread

PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "joblib")
DATA_SETS, QUICK_DATA_SETS = 100, 5
FOR_THE_TRUTH = 400
COVERAGE, LEVEL, POWER = (0.92, 0.98), 0.06, 0.45
SECONDS, MANY_RECORDS = 1.0, 100_000
CLUSTERS = (30, 100, 300)
PREDICTIONS, QUICK_PREDICTIONS = 400, 50
SEED = 20_26


@dataclass(frozen=True)
class Data:
    """Records, true and observed clusters, subgroups, folds, and what an audit may know."""

    X: Any
    y: Any
    entity: Any
    groups: Any
    subgroup: Any
    folds: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] | None = None


@dataclass(frozen=True)
class World:
    name: str
    estimator: Any
    draw: Callable[[np.random.Generator], Data]
    squared: bool = False
    auc: bool = False

    def losses(self, data: Data, *, clean: bool) -> Any:
        """The loss of every record that is scored (NaN for others), with or without records of held-out entities.

        Under AUC it is the score of the record.
        """
        losses = np.full(len(data.y), np.nan)
        for train, test in data.folds:
            rows = train[~np.isin(data.entity[train], data.entity[test])] if clean else train
            model = clone(self.estimator).fit(data.X[rows], data.y[rows])
            if self.auc:
                losses[test] = model.predict_proba(data.X[test])[:, 1]
                continue
            predicted = model.predict(data.X[test])
            losses[test] = (predicted - data.y[test]) ** 2 if self.squared else predicted != data.y[test]
        return losses

    def means(self, data: Data, *, clean: bool) -> dict[str, float]:
        losses = self.losses(data, clean=clean)
        if self.auc:
            return {name: self.mean_auc(data, losses, data.subgroup == name) for name in np.unique(data.subgroup)}
        return {name: float(np.nanmean(losses[data.subgroup == name])) for name in np.unique(data.subgroup).tolist()}

    @staticmethod
    def mean_auc(data: Data, scores: Any, kept: Any) -> float:
        """The mean over folds of the AUC within a subgroup."""
        folds = [test[kept[test]] for _, test in data.folds]
        return float(np.mean([roc_auc_score(data.y[rows], scores[rows]) for rows in folds]))


def folded(rng: np.random.Generator, groups: Any) -> list[Any]:
    cv = GroupKFold(5, shuffle=True, random_state=int(rng.integers(2**31)))
    return list(cv.split(np.zeros((len(groups), 1)), groups=groups))


def pieces(rng: np.random.Generator, shares: dict[str, float], *, numbers: bool = False, visits: bool = False) -> Data:
    """Entities of heavy-tailed sizes, some of them cut in two, more of them in some subgroups."""
    count = 300
    entity = np.repeat(np.arange(count), np.minimum(1 + rng.geometric(0.3, count), 15))
    profile = rng.standard_normal((count, 6))
    X = profile[entity] + 0.3 * rng.standard_normal((len(entity), 6))
    score = (profile[:, 0] + rng.standard_normal(count))[entity] + 0.6 * rng.standard_normal(len(entity))
    names = np.array(list(shares))
    of_entity = names[np.arange(count) % len(names)]
    late = rng.random(len(entity)) < 0.5
    subgroup = np.where(late, "late", "early") if visits else of_entity[entity]
    groups = entity.copy()
    for e in range(count):
        rows = np.flatnonzero((entity == e) & (late if visits else True))
        whole = int((entity == e).sum())
        share = shares["late"] if visits else shares[str(of_entity[e])]
        if len(rows) and whole > 1 and rng.random() < share:
            size = 1 if rng.random() < 0.7 else int(rng.integers(1, len(rows) + 1))
            groups[rng.permutation(rows)[: min(size, whole - 1)]] = count + e
    return Data(X, score if numbers else (score > 0).astype(int), entity, groups, subgroup, folded(rng, groups))


def wards(rng: np.random.Generator, shares: dict[str, float]) -> Data:
    """Wards of fifteen records, of which some carry another ward's name and are never scored; the rates are known."""
    count, size = 60, 15
    entity = np.repeat(np.arange(count), size)
    centre, level = rng.standard_normal((count, 4)), 0.7 * rng.standard_normal(count)
    X = centre[entity] + 0.5 * rng.standard_normal((len(entity), 4))
    score = X[:, 0] + 0.5 * X[:, 1] + level[entity] + 0.7 * rng.standard_normal(len(entity))
    subgroup = np.array(list(shares))[entity % 2]
    chance = np.array([shares[str(name)] for name in subgroup])
    other = (entity + rng.integers(1, count, len(entity))) % count
    groups = np.where(rng.random(len(entity)) < chance, other, entity)
    folds = [(train, test[groups[test] == entity[test]]) for train, test in folded(rng, groups)]
    own = [(train, np.isin(entity[train], entity[test])) for train, test in folds]
    rate = float(np.mean([leaks.mean() for _, leaks in own]))
    rates = {}
    for name in shares:
        of_group = [float((leaks & (subgroup[train] == name)).mean()) for train, leaks in own]
        held_out = np.concatenate([subgroup[test] == name for _, test in folds])
        rates[name] = float(np.mean(of_group)) / float(held_out.mean())
    options = {"error_model": "records", "leakage": ooc.Leakage(rate, of="train")}
    return Data(X, (score > 0).astype(int), entity, groups, subgroup, folds, options, rates)


WORLDS = (
    World("halves", KNeighborsClassifier(3), lambda rng: pieces(rng, {"f": 0.0, "m": 0.35})),
    World(
        "regions",
        KNeighborsRegressor(3),
        lambda rng: pieces(rng, {"north": 0.1, "south": 0.25, "west": 0.4}, numbers=True),
        squared=True,
    ),
    World("visits", KNeighborsClassifier(3), lambda rng: pieces(rng, {"early": 0.0, "late": 0.35}, visits=True)),
    World("wards", KNeighborsClassifier(9), lambda rng: wards(rng, {"old": 0.25, "new": 0.05})),
    World("ranks", KNeighborsClassifier(15), lambda rng: pieces(rng, {"f": 0.0, "m": 0.35}), auc=True),
)


def seeded(world: World, kind: int, number: int) -> np.random.Generator:
    position = [each.name for each in WORLDS].index(world.name)
    return np.random.default_rng([SEED, position, kind, number])


# --- subgroups --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Of one data set: which kinds of intervals held all their truths, and errors of the difference of the optimism."""

    held: dict[str, bool]
    scaled: dict[str, list[float]]
    misses: list[bool]
    shows: list[float]
    errors: list[float]


def audited(world: World, number: int, truth: dict[str, dict[str, float]]) -> Outcome:
    data = world.draw(seeded(world, 0, number))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = data.options | ({"scoring": "roc_auc"} if world.auc else {})
        result = ooc.audit(
            world.estimator, data.X, data.y, groups=data.groups, cv=data.folds, random_state=number, **options
        )
        by = result.by(data.subgroup, leakage=data.rates)
    naive, clean = world.means(data, clean=False), world.means(data, clean=True)
    truths = {"naive": truth["naive"], "corrected": truth["clean"]}
    # The optimism is that of a loss.
    sign = -1 if world.auc else 1
    truths["optimism"] = {name: sign * (clean[name] - naive[name]) for name in naive}
    held, scaled = {}, {}
    for kind, known in truths.items():
        of_kind = {group.name: getattr(group, kind) for group in by.groups}
        held[kind] = all(each.interval[0] <= known[name] <= each.interval[1] for name, each in of_kind.items())
        scaled[kind] = [(each.value - known[name]) / standard_error(each) for name, each in of_kind.items()]
    misses, shows, errors = [], [], []
    for pair in by.differences:
        estimate = pair.optimism
        real = truths["optimism"][pair.first] - truths["optimism"][pair.second]
        low, high = estimate.interval
        misses.append(not low <= real <= high)
        reach = (high - low) / 2
        off = estimate.value - real
        # An effect of two standard errors, of either sign, in the place of the true difference.
        shows.append(float(np.mean([abs(off + sign * 2 * estimate.se_data) > reach for sign in (1, -1)])))
        errors.append(off / estimate.se_data)
    return Outcome(held, scaled, misses, shows, errors)


def standard_error(estimate: Any) -> float:
    return float(np.hypot(estimate.se_data, estimate.se_monte_carlo))


def of_truth(world: World, number: int) -> tuple[dict[str, float], dict[str, float]]:
    data = world.draw(seeded(world, 1, number))
    return world.means(data, clean=False), world.means(data, clean=True)


def mean_over(dicts: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in dicts])) for name in dicts[0]}


def measure_subgroups(figures: Figures, world: World, n_data_sets: int, jobs: int) -> None:
    known = Parallel(jobs)(delayed(of_truth)(world, number) for number in range(FOR_THE_TRUTH))
    truth = {"naive": mean_over([a for a, _ in known]), "clean": mean_over([b for _, b in known])}
    outcomes = Parallel(jobs)(delayed(audited)(world, number, truth) for number in range(n_data_sets))
    for kind in ("naive", "corrected", "optimism"):
        share = float(np.mean([outcome.held[kind] for outcome in outcomes]))
        error = float(np.sqrt(share * (1 - share) / n_data_sets))
        figures.between(f"{world.name}: simultaneous coverage, {kind}", share, *COVERAGE, error)
        scaled = np.array([outcome.scaled[kind] for outcome in outcomes])
        root = float(np.sqrt((scaled**2).mean()))
        figures.note(f"{world.name}: root mean squared error of {kind}, standard errors", root)
        figures.note(f"{world.name}: bias of {kind}, standard errors", float(scaled.mean()))
    # Intervals of several pairs hold together, so that a data set counts once.
    level = float(np.mean([any(outcome.misses) for outcome in outcomes]))
    figures.at_most(f"{world.name}: level of the difference of the optimism", level, LEVEL)
    if all(len(outcome.shows) == 1 for outcome in outcomes):
        power = float(np.mean([outcome.shows[0] for outcome in outcomes]))
        figures.at_least(f"{world.name}: its power at an effect of two standard errors", power, POWER)
    errors = np.concatenate([outcome.errors for outcome in outcomes])
    figures.note(
        f"{world.name}: root mean squared error of the difference, standard errors", np.sqrt((errors**2).mean())
    )
    figures.note(f"{world.name}: its bias, standard errors", errors.mean())


# --- new clusters -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clusters:
    """A law of the expected losses of clusters, of losses within a cluster, and the range of a loss."""

    name: str
    expected: Callable[[np.random.Generator, int], Any]
    losses: Callable[[np.random.Generator, Any], Any]
    loss_range: tuple[float, float]


def absolute(rng: np.random.Generator, expected: Any) -> Any:
    return expected + 1.5 * rng.standard_normal(len(expected))


def squared(rng: np.random.Generator, expected: Any) -> Any:
    return expected * rng.chisquare(1, len(expected))


def wrong(rng: np.random.Generator, expected: Any) -> Any:
    return (rng.random(len(expected)) < expected).astype(float)


LAWS = (
    Clusters("normal", lambda rng, n: 0.8 * rng.standard_normal(n), absolute, (-np.inf, np.inf)),
    Clusters("error rates", lambda rng, n: rng.beta(4, 8, n), wrong, (0.0, 1.0)),
    Clusters("squared errors", lambda rng, n: np.exp(0.5 * rng.standard_normal(n)), squared, (0.0, np.inf)),
)


def ranked(rng: np.random.Generator, count: int, sizes: Any) -> tuple[Any, Any, Any]:
    """Labels, scores and clusters of records, of which about two in ten are positive."""
    code = np.repeat(np.arange(count), sizes)
    y = rng.random(len(code)) < rng.beta(1.6, 6.4, count)[code]
    return y, distances(rng, count)[code] * y + rng.standard_normal(len(code)), code


def distances(rng: np.random.Generator, count: int) -> Any:
    """By how much the scores of positive records lie above those of negative ones, in each of some clusters."""
    return 1.3 + 0.5 * rng.standard_normal(count)


def sizes_of(rng: np.random.Generator, count: int, equal: bool) -> Any:
    return np.full(count, 12) if equal else np.minimum(1 + rng.geometric(0.1, count), 100)


def covered(law: Clusters, count: int, equal: bool, number: int) -> float:
    """The share of new clusters within the interval of one data set."""
    rng = np.random.default_rng([SEED, count, equal, number])
    sizes = sizes_of(rng, count, equal)
    code = np.repeat(np.arange(count), sizes)
    losses = law.losses(rng, law.expected(rng, count)[code])
    low, high = fit_spread(losses, code, sizes, law.loss_range, 0.95).interval
    new = law.expected(rng, 2000)
    return float(((low <= new) & (new <= high)).mean())


def auc_covered(count: int, equal: bool, number: int) -> float:
    """The same for the AUC within clusters of about 100 records, by an audit that was asked for no correction."""
    rng = np.random.default_rng([SEED, 1, count, equal, number])
    sizes = np.full(count, 100) if equal else np.clip(np.exp(4.3 + 0.8 * rng.standard_normal(count)), 10, 1000)
    y, scores, groups = ranked(rng, count, sizes.astype(int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ooc.audit(
            AsItIs(), scores[:, None], y.astype(int), groups=groups, scoring="roc_auc", leakage=None, n_fits=40
        )
    low, high = result.spread().interval
    new = ndtr(distances(rng, 2000) / np.sqrt(2))
    return float(((low <= new) & (new <= high)).mean())


class AsItIs(ClassifierMixin, BaseEstimator):
    """A classifier whose score is its feature."""

    def fit(self, X: Any, y: Any) -> AsItIs:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return X[:, 0]

    def predict(self, X: Any) -> Any:
        return self.classes_[(X[:, 0] > 0).astype(int)]


def measure_new_clusters(figures: Figures, n_data_sets: int, jobs: int) -> None:
    for law in LAWS:
        for count in CLUSTERS:
            for equal in (True, False):
                shares = Parallel(jobs)(delayed(covered)(law, count, equal, number) for number in range(n_data_sets))
                kind = "equal" if equal else "unequal"
                what = f"new cluster: {law.name}, {count} of {kind} sizes"
                error = float(np.std(shares) / np.sqrt(n_data_sets))
                figures.between(what, float(np.mean(shares)), *COVERAGE, error)
    for count in CLUSTERS:
        for equal in (True, False):
            shares = Parallel(jobs)(delayed(auc_covered)(count, equal, number) for number in range(n_data_sets // 4))
            what = f"new cluster: AUC, {count} of {'equal' if equal else 'unequal'} sizes"
            figures.between(what, float(np.mean(shares)), *COVERAGE, float(np.std(shares) / np.sqrt(len(shares))))


# --- time -------------------------------------------------------------------------------------------------


def measure_time(figures: Figures) -> None:
    rng = np.random.default_rng(SEED)
    groups = np.repeat(np.arange(MANY_RECORDS // 5), 5)
    X = rng.standard_normal((MANY_RECORDS // 5, 3))[groups] + 0.3 * rng.standard_normal((MANY_RECORDS, 3))
    y = (X[:, 0] + rng.standard_normal(MANY_RECORDS) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ooc.audit(
            LogisticRegression(), X, y, groups=groups, leakage=0.1, unmix=False, n_fits=20, random_state=0
        )
    region = np.array(["east", "north", "south", "west"])[groups % 4]
    for what, ask in (("by()", lambda: result.by(region)), ("spread()", result.spread)):
        start = time.perf_counter()
        ask()
        figures.at_most(f"{what} on {MANY_RECORDS:,} records, seconds", time.perf_counter() - start, SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--data-sets", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n_data_sets = options.data_sets or (QUICK_DATA_SETS if options.quick else DATA_SETS)
    figures = Figures()
    wanted = options.only or [*(world.name for world in WORLDS), "new", "time"]
    for world in WORLDS:
        if world.name in wanted:
            measure_subgroups(figures, world, n_data_sets, options.jobs)
    if "new" in wanted:
        measure_new_clusters(figures, QUICK_PREDICTIONS if options.quick else PREDICTIONS, options.jobs)
    if "time" in wanted:
        measure_time(figures)
    if options.json:
        figures.write(options.json, PACKAGES)
    return figures.exit_status()


if __name__ == "__main__":
    sys.exit(main())

"""The price of an audit in cross-validations, and what is lost by paying no more.

    python benchmarks/price.py [--quick] [--only NAME ...] [--repeats N] [--data-sets N] [--jobs N] [--json FILE]

Prices are CPU times of this process, with a single thread, over those of scikit-learn's ``cross_val_score`` with the
same estimator on the same folds. The two take turns, and a price is the median of a few. Parts, by name:

*pieces*. Default audits of simulated patients, a quarter of whom a linkage left in two pieces, in five folds: without a
rate, and with one and its standard error; a random forest, histogram gradient boosting and LightGBM where it is
installed; 1,000 and 10,000 records.

*records*. The same for ten hospitals whose slopes and levels differ, of which a tenth of the training records leaked.

*cheap*. Logistic regression and five neighbours. What counts here are fits, in cross-validations, and the seconds of an
audit that are not those of so many fits and scores of the user's own.

*precision*. Fits with ``precision=0.5`` over those of the default.

*accuracy*. Root mean squared error of the corrected loss with default fits over that with many, in eight worlds of
:mod:`widths`, whose truth is the loss on fresh clusters of models that were trained without the leaked records.

*seeds*. How far the half-width of the naive AUC's interval depends on the random state, for the same data and folds.

*no effect*. Hospitals that are all alike: width of the interval of the optimism over that of a paired bootstrap of the
held-out clusters, of their mean differences between the same folds without the leaked records and as they are.

``--quick`` leaves out 10,000 records, and takes one repeat, five random states and a few data sets. Exit status 1 if a
figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from threadpoolctl import threadpool_limits

import outofcluster as ooc
from _figures import Figures
from people import geometric, jackknifed, quiet, ratio_of_rms
from widths import WORLDS, Data, World, leaked, other_names
from worlds import EntityWorld, MixedWorld, cut_some

PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "joblib")
SIZES, FOLDS = (1_000, 10_000), 5
REPEATS, DATA_SETS, STATES, BOOTSTRAPS = 3, 40, 20, 2_000
QUICK_DATA_SETS, QUICK_STATES = 4, 5
PIECES, RECORDS = (10, 15), (25, 40)
"""The median price and the worst one, in cross-validations."""
BEYOND = {1_000: 1.0, 10_000: 3.0}
"""Seconds beyond the fits, by the number of records."""
MANY = {"fragments": 500, "records": 4_000}
"""Fits that leave hardly any Monte-Carlo error."""
HALF, AS_GOOD, SAME_WIDTH, NO_WIDER = 0.55, 1.05, 0.03, 1.5
LEAST_SECONDS = 0.3
"""CPU time below which a cross-validation is repeated before it counts."""

RATE = ooc.Leakage(0.2, std=0.03, of="validation")
CHEAP = {"logistic": LogisticRegression(), "5 neighbours": KNeighborsClassifier(5)}
FOREST = {"forest": RandomForestClassifier(100, n_jobs=1)}


def costly() -> dict[str, Any]:
    """Models that take most of an audit's time."""
    models = FOREST | {"boosting": HistGradientBoostingClassifier()}
    if find_spec("lightgbm") is None:
        print("       LightGBM: left out, since it is not installed")
        return models
    from lightgbm import LGBMClassifier

    return models | {"LightGBM": LGBMClassifier(n_jobs=1, verbose=-1)}


# --- what is audited ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Records with observed clusters, the folds that the user and the audit share, and what the audit is told."""

    name: str
    X: Any
    y: Any
    groups: Any
    options: dict[str, Any]
    folds: list[tuple[Any, Any]] = field(init=False)

    def __post_init__(self) -> None:
        folds = list(GroupKFold(FOLDS).split(self.X, self.y, self.groups))
        object.__setattr__(self, "folds", folds)

    def cross_validate(self, estimator: Any) -> Any:
        """What the user does."""
        return cross_val_score(estimator, self.X, self.y, cv=self.folds, n_jobs=1)

    def audit(self, estimator: Any, **options: Any) -> Any:
        """An audit with all defaults but for ``options``."""
        asked = {"groups": self.groups, "cv": self.folds, "n_jobs": 1, "random_state": 0} | self.options | options
        return ooc.audit(estimator, self.X, self.y, **asked)


def patients(n: int) -> tuple[Any, Any, Any]:
    """So many records of patients with two and more each, of whom a quarter is in two pieces: X, y, linked clusters."""
    rng, world = np.random.default_rng(0), EntityWorld()
    sizes = geometric(rng, n)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), n) + 1]
    X, y, entity = world.records(rng, world.clusters(rng, len(sizes)), sizes)
    return X[:n], y[:n], cut_some(rng, entity[:n], 0.25)


def hospitals(n: int) -> tuple[Any, Any, Any]:
    """So many records of ten hospitals, whose slopes and levels differ."""
    return MixedWorld(True, turn=0.5).draw(np.random.default_rng(0), 10, n // 10)


def of_pieces(sizes: Sequence[int]) -> Iterator[tuple[int, Problem]]:
    """Patients without a rate and with one."""
    for n in sizes:
        for name, leakage in (("no rate", "data"), ("a rate", RATE)):
            options = {"error_model": "fragments", "leakage": leakage}
            yield n, Problem(f"pieces, {name}, {n:,} records", *patients(n), options)


def of_records(sizes: Sequence[int]) -> Iterator[tuple[int, Problem]]:
    """Hospitals."""
    for n in sizes:
        yield n, Problem(f"records, {n:,} records", *hospitals(n), {"error_model": "records", "leakage": 0.1})


# --- prices -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How much is run."""

    quick: bool
    repeats: int
    data_sets: int
    jobs: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return SIZES[:1] if self.quick else SIZES


@dataclass(frozen=True)
class Price:
    """CPU seconds of the user's own cross-validation and of an audit, and the fits of the audit."""

    own: float
    audit: float
    fits: int

    @property
    def ratio(self) -> float:
        return self.audit / self.own

    @property
    def cross_validations(self) -> float:
        """The fits, in cross-validations."""
        return self.fits / FOLDS

    @property
    def beyond(self) -> float:
        """Seconds that are not those of as many fits and scores of the user's own."""
        return self.audit - self.cross_validations * self.own


def cpu_seconds(function: Callable[[], Any], least: float = 0.0) -> tuple[float, Any]:
    """Mean CPU time of as many calls as take so many seconds together, one at least, and what the last one gave."""
    start, calls = time.process_time(), 0
    while not calls or time.process_time() - start < least:
        calls, given = calls + 1, function()
    return (time.process_time() - start) / calls, given


def price(problem: Problem, estimator: Any, repeats: int) -> Price:
    """Medians over repeats, in each of which the two take turns."""
    own, audits, fits = [], [], 0
    for _ in range(repeats):
        own.append(cpu_seconds(partial(problem.cross_validate, estimator), LEAST_SECONDS)[0])
        seconds, result = cpu_seconds(partial(problem.audit, estimator))
        audits.append(seconds)
        fits = int(result.cost.fits)
    return Price(float(np.median(own)), float(np.median(audits)), fits)


def warm_up(problems: Callable[[Sequence[int]], Iterator[tuple[int, Problem]]]) -> None:
    """Import and compile before anything is timed."""
    for _, problem in problems(SIZES[:1]):
        problem.audit(GaussianNB())


def judge_prices(figures: Figures, what: str, values: Sequence[float], bounds: tuple[float, float]) -> None:
    """The median and the worst of all prices."""
    figures.at_most(f"{what}, median of {len(values)}", np.median(values), bounds[0])
    figures.at_most(f"{what}, worst of {len(values)}", max(values), bounds[1])


def whole_prices(
    what: str, problems: Callable[..., Any], bounds: tuple[float, float], figures: Figures, options: Options
) -> None:
    """CPU time of audits over the user's own, where models take most of it."""
    warm_up(problems)
    ratios, models = [], costly()
    for _, problem in problems(options.sizes):
        for name, model in models.items():
            paid = price(problem, model, options.repeats)
            figures.note(f"{problem.name}, {name}: CPU, in cross-validations", paid.ratio)
            figures.note(f"{problem.name}, {name}: fits, in cross-validations", paid.cross_validations)
            ratios.append(paid.ratio)
    judge_prices(figures, f"{what}: CPU, in cross-validations", ratios, bounds)


def cheap(figures: Figures, options: Options) -> None:
    """Fits, and what an audit does besides, where a model takes next to no time."""
    for what, problems, bounds in (("pieces", of_pieces, PIECES), ("records", of_records, RECORDS)):
        warm_up(problems)
        fits = []
        for n, problem in problems(options.sizes):
            for name, model in CHEAP.items():
                paid = price(problem, model, options.repeats)
                figures.note(f"{problem.name}, {name}: fits, in cross-validations", paid.cross_validations)
                figures.note(f"{problem.name}, {name}: CPU, in cross-validations", paid.ratio)
                figures.at_most(f"{problem.name}, {name}: CPU seconds beyond the fits", paid.beyond, BEYOND[n])
                fits.append(paid.cross_validations)
        judge_prices(figures, f"{what}, cheap models: fits, in cross-validations", fits, bounds)


def precision(figures: Figures, options: Options) -> None:
    """What half the precision costs."""
    ratios = []
    for _, problem in (*of_pieces(SIZES[:1]), *of_records(SIZES[:1])):
        for name, model in (CHEAP if options.quick else CHEAP | FOREST).items():
            full, half = (problem.audit(model, **asked).cost.fits for asked in ({}, {"precision": 0.5}))
            figures.note(f"{problem.name}, {name}: fits, precision=0.5 over default", half / full)
            ratios.append(half / full)
    figures.at_most(f"precision=0.5: fits over those of the default, median of {len(ratios)}", np.median(ratios), HALF)


# --- as accurate as with many fits --------------------------------------------------------------------


def eight_worlds() -> list[World]:
    """Four worlds of records and four of pieces, all with cheap models."""
    slow = (HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier)
    swift = [world for world in WORLDS if not isinstance(world.estimator, slow)]
    records, pieces = ([world for world in swift if f", {kind}, " in world.name] for kind in ("records", "pieces"))
    numbers = next(world for world in WORLDS if isinstance(world.estimator, HistGradientBoostingRegressor))
    name = numbers.name.replace("boosting", "9 neighbours")
    return [*records[:4], *pieces[:3], replace(numbers, name=name, estimator=KNeighborsRegressor(9))]


def errors_of(world: World, data_set: int) -> tuple[float, float]:
    """Errors of the corrected loss with default fits and with many, in one data set."""
    with threadpool_limits(1):
        data, truth, state = world.data_set(data_set)
        many = MANY[data.options["error_model"]]
        results = (world.audit(data, state, scoring=world.metrics[0].name, **asked) for asked in ({}, {"n_fits": many}))
        default, long = (result.corrected.value - truth.clean_fresh[0] for result in results)
    return float(default), float(long)


def accuracy(figures: Figures, options: Options) -> None:
    """What fewer fits cost in error: for every world, and by the geometric mean of all."""
    ratios = []
    for world in eight_worlds():
        rows = Parallel(options.jobs)(delayed(quiet)(partial(errors_of, world), i) for i in range(options.data_sets))
        ratio, error = jackknifed(ratio_of_rms, *np.array(rows).T)
        figures.note(f"{world.name}: RMSE at the default over that with many fits", ratio, error)
        ratios.append(ratio)
    figures.note(f"RMSE at the default over that with many fits, greatest of {len(ratios)} worlds", max(ratios))
    mean = np.exp(np.mean(np.log(ratios)))
    figures.at_most(f"RMSE at the default over that with many fits, mean of {len(ratios)} worlds", mean, AS_GOOD)


# --- intervals ----------------------------------------------------------------------------------------


def seeds(figures: Figures, options: Options) -> None:
    """The same data and folds with other random states."""
    states = QUICK_STATES if options.quick else STATES
    patients_and_hospitals = [problem for _, problem in (*of_pieces(SIZES[:1]), *of_records(SIZES[:1]))]
    for problem in patients_and_hospitals:
        for name, model in (("logistic", LogisticRegression()), ("9 neighbours", KNeighborsClassifier(9))):
            results = [problem.audit(model, scoring="roc_auc", random_state=state) for state in range(states)]
            widths = np.array([np.diff(result.naive.interval)[0] / 2 for result in results])
            what = f"{problem.name}, {name}: naive half-width, {states} seeds, range"
            figures.at_most(what, np.ptp(widths) / np.median(widths), SAME_WIDTH)


def bootstrapped_width(estimator: Any, data: Data, rng: np.random.Generator) -> float:
    """Width of the 95 % interval of a paired bootstrap of the held-out clusters."""
    gains, clusters = [], []
    for (train, test), out in zip(data.folds, leaked(data.cluster, data.folds), strict=True):
        as_it_is, clean = (
            clone(estimator).fit(data.X[rows], data.y[rows]).predict(data.X[test]) != data.y[test]
            for rows in (train, train[~out])
        )
        gains.append(clean.astype(float) - as_it_is)
        clusters.append(data.cluster[test])
    _, cluster = np.unique(np.concatenate(clusters), return_inverse=True)
    means = np.bincount(cluster, np.concatenate(gains)) / np.bincount(cluster)
    drawn = means[rng.integers(len(means), size=(BOOTSTRAPS, len(means)))].mean(axis=1)
    return float(np.diff(np.quantile(drawn, [0.025, 0.975]))[0])


def width_without_effect(estimator: Any, data_set: int) -> tuple[float, float]:
    """Widths of the interval of the optimism, and of the bootstrap's, for twenty hospitals that are all alike."""
    with threadpool_limits(1):
        rng = np.random.default_rng([data_set, 7])
        data = other_names(MixedWorld.without_effect(True), 20, 50, 0.4, rng)
        told = data.options | {"groups": data.groups, "cv": data.folds, "random_state": data_set}
        result = ooc.audit(estimator, data.X, data.y, **told)
        return float(np.diff(result.optimism.interval)[0]), bootstrapped_width(estimator, data, rng)


def no_effect(figures: Figures, options: Options) -> None:
    """Whether the interval is hardly wider than what the held-out clusters themselves allow for."""
    for name, model in CHEAP.items():
        call = partial(width_without_effect, model)
        rows = Parallel(options.jobs)(delayed(quiet)(call, i) for i in range(options.data_sets))
        audits, bootstraps = np.array(rows).T
        figures.note(f"hospitals without an effect, {name}: median width of the optimism", np.median(audits))
        figures.note(f"hospitals without an effect, {name}: median width by bootstrap", np.median(bootstraps))
        what = f"hospitals without an effect, {name}: width over the bootstrap's, median"
        figures.at_most(what, np.median(audits / bootstraps), NO_WIDER)


# --- command line -------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Figures, Options], None]] = {
    "pieces": partial(whole_prices, "pieces", of_pieces, PIECES),
    "records": partial(whole_prices, "records", of_records, RECORDS),
    "cheap": cheap,
    "precision": precision,
    "accuracy": accuracy,
    "seeds": seeds,
    "no effect": no_effect,
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out what takes long")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="parts; all by default")
    parser.add_argument("--repeats", type=int, help=f"of every price, {REPEATS} by default")
    parser.add_argument("--data-sets", type=int, help=f"of every world, {DATA_SETS} by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes, where nothing is timed (1 by default)")
    parser.add_argument("--json", type=Path, help="also write the figures, with versions, to this file")
    given = parser.parse_args()
    options = Options(
        quick=given.quick,
        repeats=given.repeats or (1 if given.quick else REPEATS),
        data_sets=given.data_sets or (QUICK_DATA_SETS if given.quick else DATA_SETS),
        jobs=given.jobs,
    )
    figures = Figures()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in given.only:
            PARTS[name](figures, options)
    if given.json:
        lightgbm = ("lightgbm",) if find_spec("lightgbm") else ()
        figures.write(given.json, (*PACKAGES, *lightgbm))
    return figures.exit_status()


if __name__ == "__main__":
    sys.exit(main())

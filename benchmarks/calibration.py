"""Calibration of the audit: whether what it claims holds over simulated data sets whose truth is known.

    python benchmarks/calibration.py [--data-sets N] [--json FILE] [--jobs J] [--only NAME] [--update]

A cell is a design, a number of data sets and the figures made of them. The truth is a closed form or the loss on large
independent samples, never an estimate of the package. Data set i of a cell draws from
``SeedSequence(SEED, spawn_key=(crc32(name), i))``, so that any number of workers, and any choice of cells, gives the
same numbers. ``--data-sets`` caps the number of data sets of every cell, for a quick look; the figures that are
committed (calibration.json) come from the full study, about an hour on two cores. ``--update`` puts the cells that
``--only`` chose into a file of the whole study.

Audits of records are studied twice: with the curve above the leakage rate alone (``unmix=False``), and, in cells whose
names start with "below the rate", with levels below it as well, as is the default.
Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import outofcluster as ooc
import worlds
from _figures import Figures, versions
from worlds import APART, ENTITIES, LEVELS, SLOPES, EntityWorld, MixedWorld

SCHEMA = 1
SEED = 20190416
BELOW, BELOW_SETS = "below the rate, ", 50
"""Start of the names of cells with levels below the leakage rate, and how many data sets each of them has."""
PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "numba", "joblib")

Seed = np.random.SeedSequence
Row = dict[str, Any]
Columns = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One design: what is simulated for each data set, and what is made of all of them."""

    name: str
    design: str
    data_sets: int
    task: Callable[[Seed], Row]
    judge: Callable[[Figures, Columns], None]

    def simulate(self, data_sets: int | None = None, jobs: int = 1) -> Columns:
        """The results of the task, with one column per quantity and one row per data set."""
        count = self.data_sets if data_sets is None else min(self.data_sets, data_sets)
        seeds = [Seed(SEED, spawn_key=(crc32(self.name.encode()), i)) for i in range(count)]
        rows = Parallel(n_jobs=jobs)(delayed(self.task)(seed) for seed in seeds)
        return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def streams(seed: Seed) -> tuple[np.random.Generator, int]:
    """A generator for the data, and a seed for what is under test."""
    data, own = seed.spawn(2)
    return np.random.default_rng(data), int(own.generate_state(1)[0])


def share(hits: Any) -> tuple[float, float]:
    """A share and its standard error, never 0 so that a share of 100 % does not claim to be exact."""
    n, p = len(hits), float(np.mean(hits))
    near = (p * n + 1) / (n + 2)
    return p, float(np.sqrt(near * (1 - near) / n))


def root_mean_square(values: Any) -> float:
    return float(np.sqrt(np.mean(values**2)))


def mean(values: Any) -> tuple[float, float]:
    """A mean and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


# --- words that several designs share -----------------------------------------------------------------

LEARNERS = {False: ("LinearRegression", "squared error"), True: ("LinearSVC", "zero-one loss of the target's sign")}
LEAK = "Single records leak: {:.0%} of the training records are expected to, and the realised rate is given."
REMOVED = (
    "Truth: the learner fitted to the training records of other clusters alone, scored on fresh records of the "
    "held-out clusters in the proportions of the validation records. Removed: the mean of corrected less naive, over "
    "the mean of the truth less the loss, on the same fresh records, of the learner fitted to all training records."
)

# --- coverage -----------------------------------------------------------------------------------------

CLEAN_SETS = 10
RATE_ERROR = 0.25


def learner(world: MixedWorld) -> Any:
    return LinearSVC() if world.classes else LinearRegression()


def cover(world: MixedWorld, n_clusters: int, rate: float, unmix: Any, seed: Seed) -> Row:
    """One split audited at its realised rate, and at one seen with an error; and what clean training sets lose."""
    rng, state = streams(seed)
    X, y, cluster = world.draw(rng, 2 * n_clusters, 20)
    leaky = ooc.simulate_leakage(cluster, np.arange(n_clusters, 2 * n_clusters), rate, random_state=state)
    known = ooc.audit(
        learner(world), X, y, groups=leaky.groups, leakage=leaky.rate, error_model="records",
        cv=[(leaky.train, leaky.validation)], random_state=state, kernel=True, unmix=unmix,
    )  # fmt: skip
    std = RATE_ERROR * rate
    unsure = known.at_leakage(ooc.Leakage(max(float(rng.normal(leaky.rate, std)), 0.0), std=std))
    clean = [learner(world).fit(*world.draw(rng, n_clusters, 20)[:2]) for _ in range(CLEAN_SETS)]
    row = {"truth": float(np.mean([world.population_loss(model) for model in clean]))}
    for name, estimate in (("known", known.corrected), ("unsure", unsure.corrected), ("naive", known.naive)):
        row |= {name: estimate.value, f"{name}_low": estimate.interval[0], f"{name}_high": estimate.interval[1]}
        row[f"{name}_error"] = float(np.hypot(estimate.se_data, estimate.se_monte_carlo))
    return row


def covered(rows: Columns, name: str) -> Any:
    """Which intervals contain the truth, which is the same for all data sets."""
    truth = rows["truth"].mean()
    return (rows[f"{name}_low"] <= truth) & (truth <= rows[f"{name}_high"])


def judge_coverage(figures: Figures, rows: Columns) -> None:
    (known, error), (unsure, unsure_error) = share(covered(rows, "known")), share(covered(rows, "unsure"))
    figures.between("95 % interval covers, rate known", known, 0.92, 0.98, error)
    figures.at_least("95 % interval covers, rate given with its standard error", unsure, 0.92, unsure_error)
    note_coverage(figures, rows)


def judge_coverage_below(figures: Figures, rows: Columns) -> None:
    for name, words in (("known", "rate known"), ("unsure", "rate given with its standard error")):
        hits, error = share(covered(rows, name))
        figures.at_least(f"95 % interval covers, {words}", hits, 0.9, error)
    note_coverage(figures, rows)


def note_coverage(figures: Figures, rows: Columns) -> None:
    truth, truth_error = mean(rows["truth"])
    reach = float(np.mean(rows["known_high"] - rows["known_low"])) / 2
    figures.at_most("standard error of the truth over the interval's half width", truth_error / reach, 0.02)
    figures.note("the truth: loss on new clusters", truth, truth_error)
    for name, words in (("known", "rate known"), ("unsure", "rate with its standard error"), ("naive", "naive")):
        figures.note(f"{words}: mean error", *mean(rows[name] - truth))
        figures.note(f"{words}: standard deviation over data sets", rows[name].std(ddof=1))
        figures.note(f"{words}: standard error claimed, root mean square", root_mean_square(rows[f"{name}_error"]))
    figures.note("naive: 95 % interval covers", *share(covered(rows, "naive")))


def coverage() -> Iterator[Cell]:
    for classes, n_clusters, rate in product((False, True), (20, 60), (0.02, 0.1, 0.2)):
        name, loss = LEARNERS[classes]
        design = (
            f"{n_clusters} clusters a side of 20 records in one split, {name}, {loss}. {APART}. {LEAK.format(rate)} "
            f"Given with its standard error: the realised rate plus N(0, ({RATE_ERROR:g} * {rate:g})²), at least 0. "
            f"Truth: the loss over the population, in closed form, of models fitted to {n_clusters} clusters without "
            f"leakage, averaged over {CLEAN_SETS} new training sets a data set."
        )
        task = partial(cover, MixedWorld(classes), n_clusters, rate)
        cell = f"coverage, {name}, {n_clusters} clusters a side, rate {rate:g}"
        yield Cell(cell, design, 400, partial(task, False), judge_coverage)
        yield Cell(f"{BELOW}{cell}", design, BELOW_SETS, partial(task, "auto"), judge_coverage_below)


# --- bias removed -------------------------------------------------------------------------------------


def compare(audit: Any, truth: float, as_it_is: float) -> Row:
    """What is needed to judge a correction: both losses, what fresh records say, its standard error, any alarm."""
    error = float(np.hypot(audit.corrected.se_data, audit.corrected.se_monte_carlo))
    alarms = {finding.code for finding in audit.findings if finding.severity in ("warning", "severe")}
    values = {"naive": audit.naive.value, "corrected": audit.corrected.value, "truth": truth, "as_it_is": as_it_is}
    return values | {"error": error, "alarms": " ".join(sorted(alarms))}


def correct_records(world: MixedWorld, n_clusters: int, size: int, rate: float, unmix: Any, seed: Seed) -> Row:
    rng, state = streams(seed)
    clusters = world.clusters(rng, 2 * n_clusters)
    X, y, cluster = data = world.records(rng, clusters, size)
    split = [(np.flatnonzero(cluster < n_clusters), np.flatnonzero(cluster >= n_clusters))]
    groups, leakage = cluster, 0.0
    if rate > 0:
        leaky = ooc.simulate_leakage(cluster, np.arange(n_clusters, 2 * n_clusters), rate, random_state=state)
        split, groups, leakage = [(leaky.train, leaky.validation)], leaky.groups, leaky.rate
    audit = ooc.audit(
        learner(world), X, y, groups=groups, leakage=leakage, error_model="records", cv=split, random_state=state,
        kernel=True, unmix=unmix,
    )  # fmt: skip
    return compare(audit, *worlds.fresh_losses(rng, world, clusters, data, split, learner(world), times=40))


def correct_fragments(world: EntityWorld, estimator: Any, cut: float, n_fits: int, seed: Seed) -> Row:
    rng, state = streams(seed)
    clusters = world.clusters(rng, 250)
    X, y, entity = data = world.records(rng, clusters, 4)
    groups = worlds.cut_some(rng, entity, cut)
    folds = list(GroupKFold(5, shuffle=True, random_state=state).split(X, y, groups))
    leaks = np.concatenate([np.isin(entity[validation], entity[train]) for train, validation in folds])
    audit = ooc.audit(
        estimator, X, y, groups=groups, leakage=ooc.Leakage(float(leaks.mean()), of="validation"),
        error_model="fragments", cv=folds, n_fits=n_fits, random_state=state,
    )  # fmt: skip
    repeats = 2 if "random_state" in estimator.get_params() else 1
    truth = worlds.fresh_losses(rng, world, clusters, data, folds, estimator, times=10, repeats=repeats)
    return compare(audit, *truth)


def judge_bias(figures: Figures, rows: Columns) -> None:
    bias, bias_error = mean(rows["naive"] - rows["truth"])
    got, needed = rows["corrected"] - rows["naive"], rows["truth"] - rows["as_it_is"]
    removed = float(got.mean() / needed.mean())
    error = mean(got - removed * needed)[1] / abs(float(needed.mean()))
    if abs(bias) > 2 * bias_error:
        figures.between("share of the naive loss's bias that is removed", removed, 0.8, 1.15, error)
    else:
        figures.note("share of the naive loss's bias that is removed (bias below 2 standard errors)", removed, error)
    figures.note("naive loss less the truth", bias, bias_error)
    figures.note("corrected loss less the truth", *mean(rows["corrected"] - rows["truth"]))
    rmse = [root_mean_square(rows[name] - rows["truth"]) for name in ("corrected", "naive")]
    figures.note("root mean square error, corrected over naive", rmse[0] / rmse[1])


def record_biases() -> Iterator[Cell]:
    mixes = {"that differ in levels": LEVELS, "that differ in slopes": SLOPES, "apart": APART}
    for (mix, text), classes, rate in product(mixes.items(), (False, True), (0.1, 0.2)):
        alike = MixedWorld(classes, between=0, within=1, turn=0.7 if text is SLOPES else 0)
        name, loss = LEARNERS[classes]
        design = f"4 clusters a side of 150 records in one split, {name}, {loss}. {text}. {LEAK.format(rate)} {REMOVED}"
        task = partial(correct_records, MixedWorld(classes) if text is APART else alike, 4, 150, rate)
        cell = f"bias, records, clusters {mix}, {name}, rate {rate:g}"
        yield Cell(cell, design, 400, partial(task, False), judge_bias)
        yield Cell(f"{BELOW}{cell}", design, BELOW_SETS, partial(task, "auto"), judge_bias)


def fragment_biases() -> Iterator[Cell]:
    knn = (KNeighborsClassifier(3), "3 nearest neighbours", 400, 40)
    forest = (RandomForestClassifier(20), "random forest of 20 trees", 100, 40)
    for (estimator, name, n_fits, count), cut in product((knn, forest), (0.15, 0.4)):
        design = (
            f"{ENTITIES} {cut:.0%} of the entities are cut in two pieces of random size, as linkage would. 5 group "
            f"folds, {name}, zero-one loss, n_fits = {n_fits}; the realised share of the validation records that leak "
            f"is given. {REMOVED}"
        )
        task = partial(correct_fragments, EntityWorld(), estimator, cut, n_fits)
        yield Cell(f"bias, fragments, {name}, {cut:.0%} cut", design, count, task, judge_bias)


# --- nothing to correct -------------------------------------------------------------------------------


def judge_agreement(figures: Figures, rows: Columns) -> None:
    off = rows["corrected"] - rows["naive"]
    agree, agree_error = share(np.abs(off) <= rows["error"])
    alarms = [alarm.split() for alarm in rows["alarms"]]
    quiet, quiet_error = share([not alarm for alarm in alarms])
    figures.at_least("share of data sets: corrected within one standard error of naive", agree, 0.98, agree_error)
    figures.at_least("share of data sets: no finding that is a warning or worse", quiet, 0.98, quiet_error)
    for code in sorted(set(chain.from_iterable(alarms))):
        figures.note(f"  share of data sets with {code}", *share([code in alarm for alarm in alarms]))
    figures.note("corrected less naive", *mean(off))
    figures.note("standard error claimed, root mean square", root_mean_square(rows["error"]))


def agreements() -> Iterator[Cell]:
    for classes in (False, True):
        name, loss = LEARNERS[classes]
        setting = f"20 clusters a side of 40 records in one split, {name}, {loss}."
        task = partial(correct_records, MixedWorld(classes), 20, 40, 0.0, False)
        design = f"{setting} {APART}. No record leaks, and a rate of 0 is given."
        yield Cell(f"no leakage, records, {name}", design, 200, task, judge_agreement)
        task = partial(correct_records, MixedWorld.without_effect(classes), 20, 40, 0.1, False)
        design = f"{setting} All records are drawn alike, whatever their cluster. {LEAK.format(0.1)}"
        yield Cell(f"no cluster effect, records, {name}", design, 200, task, judge_agreement)
    knn, setting = (
        KNeighborsClassifier(3),
        f"{ENTITIES} 5 group folds, 3 nearest neighbours, zero-one loss, n_fits = 400.",
    )
    task = partial(correct_fragments, EntityWorld(), knn, 0.0, 400)
    design = f"{setting} No entity is cut, and a rate of 0 is given."
    yield Cell("no leakage, fragments, 3 nearest neighbours", design, 40, task, judge_agreement)
    task = partial(correct_fragments, EntityWorld(effect=False), knn, 0.12, 400)
    design = (
        f"{setting} But every record has features and a label of its own. 12 % of the entities are cut in two, so that "
        "about 10 % of the validation records leak; the realised share is given."
    )
    yield Cell("no cluster effect, fragments, 3 nearest neighbours", design, 40, task, judge_agreement)


# --- leakage rates ------------------------------------------------------------------------------------


def estimate_rate(world: Callable[[np.random.Generator], Any], seed: Seed) -> Row:
    """An estimated rate with its interval, and its own truth where the world tells it."""
    drawn = world(streams(seed)[0])
    estimate, truth = drawn if isinstance(drawn, tuple) else (drawn, np.nan)
    low, high = estimate.interval()
    return {"rate": estimate.rate, "std": estimate.std, "low": low, "high": high, "truth": truth}


def judge_rates(figures: Figures, rows: Columns, truth: Callable[[np.random.Generator], float] | None = None) -> None:
    true = rows["truth"] if truth is None else np.full(len(rows["rate"]), truth(np.random.default_rng(SEED)))
    off, error = mean(rows["rate"] - true)
    figures.between("bias of the rate over the rate", off / true.mean(), -0.1, 0.1, error / true.mean())
    hits, hits_error = share((rows["low"] <= true) & (true <= rows["high"]))
    figures.at_least("95 % interval covers", hits, 0.9, hits_error)
    figures.note("the true rate, mean", true.mean())
    spread = (rows["rate"] - true).std(ddof=1)
    figures.note("standard error claimed over the standard deviation", rows["std"].mean() / spread)


def rates() -> Iterator[Cell]:
    for of, (n_entities, split) in product(("train", "validation"), ((60, False), (300, False), (200, True))):
        folds = "one split that holds out 30 %" if split else "5 folds"
        design = (
            f"Leakage.from_true_groups of {n_entities} audited entities, as a share of the {of} records, for {folds}. "
            "Entities of 1 to 8 records, large ones cut more often, into up to three pieces. Truth: the share realised "
            "by 60,000 entities, over ten draws of the folds or of the split."
        )
        task = partial(estimate_rate, partial(worlds.audited, n_entities=n_entities, of=of, split=split))
        judge = partial(judge_rates, truth=partial(worlds.linkage_truth, of=of, split=split))
        # The name seeds the cell, so it keeps the older name of from_true_groups.
        yield Cell(f"rate, from_audit of {n_entities} entities, {of}, {folds}", design, 600, task, judge)
    for of, split in product(("train", "validation"), (False, True)):
        folds = "one split that holds out 30 %" if split else "4 folds"
        design = (
            f"Leakage.from_pair_probabilities, as a share of the {of} records, for {folds}: 300 approximate clusters "
            "of 3 records, 90 pairs of which match as wholes with the stated probabilities, Beta(0.4, 1.2). Truth: the "
            "share realised by the matches drawn, over 20 draws of the folds."
        )
        task = partial(estimate_rate, partial(worlds.paired, of=of, split=split))
        yield Cell(f"rate, from_pair_probabilities, {of}, {folds}", design, 600, task, judge_rates)
    design = (
        "Leakage.from_pair_probabilities for 5 folds: 150 single records with three candidates each, of which at most "
        "one matches, with the stated probabilities. Truth: the share realised by the matches drawn."
    )
    task = partial(estimate_rate, worlds.with_candidates)
    yield Cell("rate, from_pair_probabilities, several candidates", design, 600, task, judge_rates)


# --- the study ----------------------------------------------------------------------------------------


def cells() -> tuple[Cell, ...]:
    """Every cell of the study."""
    return (*coverage(), *record_biases(), *fragment_biases(), *agreements(), *rates())


def judged(cell: Cell, data_sets: int | None, jobs: int) -> dict[str, Any]:
    """One cell's figures, as they go to the file."""
    start = time.perf_counter()
    print(f"\n{cell.name}", flush=True)
    rows = cell.simulate(data_sets, jobs)
    figures, count = Figures(), len(next(iter(rows.values())))
    cell.judge(figures, rows)
    print(f"       {count} data sets, {time.perf_counter() - start:.0f} s", flush=True)
    written = [asdict(figure) | {"holds": figure.holds} for figure in figures.rows]
    return {"name": cell.name, "design": cell.design, "data_sets": count, "figures": written}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, help="at most this many data sets per cell")
    parser.add_argument("--json", type=Path, help="also write the figures, with versions and seeds, to this file")
    parser.add_argument("--jobs", type=int, default=2, help="workers (default 2)")
    parser.add_argument("--only", default="", help="only cells whose name starts like this")
    parser.add_argument("--update", action="store_true", help="keep the other cells that the file of --json holds")
    options = parser.parse_args()
    chosen = [cell for cell in cells() if cell.name.startswith(options.only)]
    study_cells = [judged(cell, options.data_sets, options.jobs) for cell in chosen]
    if options.update and options.json:
        known = {cell["name"]: cell for cell in json.loads(options.json.read_text())["cells"]}
        known |= {cell["name"]: cell for cell in study_cells}
        study_cells = [known[cell.name] for cell in cells() if cell.name in known]
    short = [
        f"{cell['name']}: {figure['what']}"
        for cell in study_cells
        for figure in cell["figures"]
        if figure["holds"] is False
    ]
    print("\nEvery figure holds." if not short else "\nShort:\n  " + "\n  ".join(short))
    if options.json:
        study = {
            "schema": SCHEMA,
            "versions": versions(PACKAGES),
            "seed": SEED,
            "seeding": "data set i of a cell: numpy SeedSequence(seed, spawn_key=(crc32(name), i))",
            "short": short,
            "cells": study_cells,
        }
        options.json.write_text(json.dumps(study, indent=1, ensure_ascii=False) + "\n")
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())

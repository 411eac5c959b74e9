"""Does an interval get as narrow as a plan says? Planned against realised widths, for look-ups and for clusters.

    python benchmarks/planning.py [--quick] [--only NAME ...] [--draws N] [--jobs N] [--json FILE]

*look-ups*. Six worlds of entities in pieces. Each data set is audited without a rate, 20 clusters are looked up, and
the audit with these answers plans for an interval of the optimism that is 0.7 times as wide. Then a list of as many
clusters as it says is drawn by ``review_list`` and answered, and the data set is audited with these answers. The figure
is the realised width over the planned one, as a geometric mean over data sets. Beside it stands the same for a plan
before anything was looked up, which has no bound: how much is missed is a guess then.

*clusters*. Six worlds: four of pieces, two of which know their leakage rate and two of which have 60 look-ups, and two
of hospitals with misplaced records. Each data set is audited, and ``plan_clusters`` plans for an interval of the
corrected value that is 0.7 times as wide. Then another data set with as many clusters as it says is drawn from the same
world and audited in the same way. The figure is the realised width over the planned one.

Answers come from the truth, without mistakes. A plan that is refused, since its width cannot be reached, is counted.
Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

import outofcluster as ooc
from _figures import Figures, versions
from people import LIKE_THE_REST, NEIGHBOURS, WORLDS, Options, PieceWorld, column, filled_in, folds_of, true_rate

PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "joblib", "pandas")
SEED, DRAWS = 25, 16
FIRST, NARROWER = 20, 0.7
"""Look-ups before a plan, and the width that is planned for over the present one."""
LEAST, MOST = 0.8, 1.2
"""The bounds of a realised width over the planned one."""
Row = dict[str, float]


def rng_of(name: str, draw: int, part: int = 0) -> Any:
    return np.random.default_rng([SEED, draw, part, *name.encode()])


def width(estimate: Any) -> float:
    return estimate.interval[1] - estimate.interval[0]


# --- look-ups ---------------------------------------------------------------------------------------------


def look_ups(name: str, draw: int) -> Row:
    """One data set: what a plan says, and what comes of it, after the first answers and before them."""
    data = X, y, _, linked = WORLDS[name].draw(rng_of(name, draw))
    audit = partial(ooc.audit, NEIGHBOURS, X, y, groups=linked, cv=folds_of(linked, draw), random_state=draw)
    before = audit()

    def with_look_ups(n: int) -> Any:
        return audit(reviewed=filled_in(before.review_list(n, random_state=draw), data))

    row: Row = {}
    for stage, result in (("after", with_look_ups(FIRST)), ("before", before)):
        wanted = NARROWER * width(result.optimism)
        try:
            plan = ooc.plan_review(result, wanted)
        except ooc.InputError:
            row |= {f"{stage}: ratio": np.nan, f"{stage}: look-ups": np.nan}
            continue
        realised = width(with_look_ups(plan.look_ups).optimism)
        row |= {f"{stage}: ratio": realised / wanted, f"{stage}: look-ups": plan.look_ups}
    return row


# --- clusters ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """Pieces of entities, audited with a leakage rate that is known, or with look-ups."""

    world: PieceWorld
    looked_up: int = 0

    @property
    def entities(self) -> int:
        return self.world.entities // 2

    def audit(self, rng: Any, draw: int, entities: int) -> Any:
        data = X, y, _, linked = replace(self.world, entities=entities).draw(rng)
        folds = folds_of(linked, draw)
        audit = partial(ooc.audit, NEIGHBOURS, X, y, groups=linked, cv=folds, random_state=draw)
        if not self.looked_up:
            return audit(leakage=ooc.Leakage(true_rate(data, folds), of="validation"), error_model="fragments")
        return audit(reviewed=filled_in(audit().review_list(self.looked_up, random_state=draw), data))


@dataclass(frozen=True)
class Hospitals:
    """Hospitals with a level of their own, and a tenth of their records under the name of another one."""

    estimator: Any
    classes: bool
    entities: int = 30

    def audit(self, rng: Any, draw: int, entities: int) -> Any:
        sizes = rng.integers(10, 41, entities)
        entity = np.repeat(np.arange(entities), sizes)
        level = rng.standard_normal((entities, 4))
        X = level[entity] + 0.7 * rng.standard_normal((len(entity), 4))
        y = X[:, 0] + level[entity, 1] + rng.standard_normal(len(entity))
        y = (y > 0).astype(int) if self.classes else y
        moved = rng.random(len(entity)) < 0.1
        linked = np.where(moved, rng.integers(0, entities, len(entity)), entity)
        return ooc.audit(
            self.estimator,
            X,
            y,
            groups=linked,
            leakage=0.08,
            error_model="records",
            units="clusters",
            random_state=draw,
        )


STUDIES: dict[str, Study | Hospitals] = {
    "single records, known rate": Study(LIKE_THE_REST["single records"]),
    "heavy-tailed sizes, known rate": Study(LIKE_THE_REST["heavy-tailed sizes"]),
    "merges, 60 look-ups": Study(WORLDS["merges"], 60),
    "noisy chips, 60 look-ups": Study(WORLDS["noisy chips"], 60),
    "hospitals, ridge": Hospitals(Ridge(), classes=False),
    "hospitals, logistic": Hospitals(LogisticRegression(), classes=True),
}


def clusters(name: str, draw: int) -> Row:
    """One data set: how many clusters a plan says, and the width that another data set of so many has."""
    study = STUDIES[name]
    result = study.audit(rng_of(name, draw), draw, study.entities)
    wanted = NARROWER * width(result.corrected)
    try:
        plan = ooc.plan_clusters(result, wanted)
    except ooc.InputError:
        return {"ratio": np.nan, "clusters": np.nan}
    entities = round(study.entities * plan.clusters / plan.now)
    larger = study.audit(rng_of(name, draw, 1), draw, entities)
    return {"ratio": width(larger.corrected) / wanted, "clusters": plan.clusters / plan.now}


# --- figures ----------------------------------------------------------------------------------------------


def judge(figures: Figures, what: str, ratios: Any, *, bounded: bool) -> None:
    """The geometric mean of realised widths over planned ones, and how far single data sets are from it."""
    known = np.log(ratios[np.isfinite(ratios)])
    figures.note(f"{what}: plans refused, of {len(ratios)}", len(ratios) - len(known))
    if len(known) < 2:
        return
    middle = float(np.exp(known.mean()))
    error = middle * float(known.std(ddof=1) / np.sqrt(len(known)))
    if bounded:
        figures.between(f"{what}: realised over planned width", middle, LEAST, MOST, error)
    else:
        figures.note(f"{what}: realised over planned width", middle, error)
    figures.note(f"{what}: deviation of its logarithm over data sets", float(known.std(ddof=1)))


def judge_look_ups(name: str, figures: Figures, options: Options) -> None:
    (rows,) = options.rows(f"look-ups, {name}", DRAWS, partial(look_ups, name))
    for stage, words in (("after", f"after {FIRST} look-ups"), ("before", "before any")):
        judge(figures, f"look-ups, {name}, {words}", column(rows, f"{stage}: ratio"), bounded=stage == "after")
        figures.note(f"look-ups, {name}, {words}: median plan", float(np.nanmedian(column(rows, f"{stage}: look-ups"))))


def judge_clusters(name: str, figures: Figures, options: Options) -> None:
    (rows,) = options.rows(f"clusters, {name}", DRAWS, partial(clusters, name))
    judge(figures, f"clusters, {name}", column(rows, "ratio"), bounded=True)
    many = float(np.nanmedian(column(rows, "clusters")))
    figures.note(f"clusters, {name}: median plan, in present numbers", many)


CELLS = {
    **{f"look-ups, {name}": partial(judge_look_ups, name) for name in WORLDS},
    **{f"clusters, {name}": partial(judge_clusters, name) for name in STUDIES},
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three data sets of everything")
    parser.add_argument("--only", nargs="+", default=[""], help="cells whose names start with one of these")
    parser.add_argument("--draws", type=int, help=f"data sets of every cell ({DRAWS} by default)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1 by default)")
    parser.add_argument("--json", type=Path, help="also write the figures, with versions, to this file")
    asked = parser.parse_args()
    known = json.loads(asked.json.read_text())["cells"] if asked.json and asked.json.exists() else {}
    options = Options(asked.draws or (3 if asked.quick else None), asked.jobs, "B", known)
    status = 0
    for name, cell in CELLS.items():
        if not name.startswith(tuple(asked.only)):
            continue
        figures = Figures()
        cell(figures, options)
        status |= figures.exit_status()
        known[name] = [vars(row) for row in figures.rows]
        if asked.json:
            kept = {name: known[name] for name in CELLS if name in known}
            asked.json.write_text(json.dumps({"versions": versions(PACKAGES), "cells": kept}, indent=2) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())

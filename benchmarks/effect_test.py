"""Level and power of the test for a cluster effect, over data sets drawn anew and over seeds.

    python benchmarks/effect_test.py [--data-sets N] [--seeds N] [--jobs J]

The level is that of six designs in which clusters are alike, or differ in what cannot be learnt, with 2,000 data sets
each by default; the power is that on the README's example, and on the paper's heart split where
``OUTOFCLUSTER_DATA`` names its files.
Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import outofcluster as ooc
import worlds

DESIGNS = (worlds.logistic, worlds.skewed, worlds.coin, worlds.rare, worlds.single_split, worlds.noisy_clusters)
MOST, LEAST = 0.058, 0.95


def level_of(design: Callable[[np.random.Generator], tuple[Any, ...]], seed: int) -> bool:
    """Whether the test rejects on a data set without a cluster effect."""
    warnings.simplefilter("ignore")
    estimator, X, y, groups, options = design(np.random.default_rng(seed))
    return bool(ooc.leakage_test(estimator, X, y, groups=groups, random_state=seed, **options).rejected)


def found(name: str, seed: int) -> bool:
    """Whether the test rejects on a data set with a known effect."""
    warnings.simplefilter("ignore")
    if name == "README":
        data = ooc.datasets.make_patients(random_state=0)
        return bool(
            ooc.leakage_test(
                KNeighborsClassifier(3), data.data, data.target, groups=data.groups, random_state=seed
            ).rejected
        )
    heart = ooc.datasets.load_heart()
    split = [(heart.train_rows, heart.validation_rows)]
    test = ooc.leakage_test(LinearSVC(), heart.data, heart.target, groups=heart.groups, cv=split, random_state=seed)
    return bool(test.rejected)


def main() -> int:
    """Run everything, print one line per figure, and say whether all bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    short = 0
    for design in DESIGNS:
        runs = Parallel(n_jobs=options.jobs)(delayed(level_of)(design, seed) for seed in range(options.data_sets))
        share = float(np.mean(runs))
        short += share > MOST
        print(f"level  {design.__name__:15} {share:7.3%} of {options.data_sets} (at most {MOST:.1%})", flush=True)
    for name in ("README", "heart") if "OUTOFCLUSTER_DATA" in os.environ else ("README",):
        share = float(np.mean(Parallel(n_jobs=options.jobs)(delayed(found)(name, s) for s in range(options.seeds))))
        short += share < LEAST
        print(f"power  {name:15} {share:7.1%} of {options.seeds} seeds (at least {LEAST:.0%})", flush=True)
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main())

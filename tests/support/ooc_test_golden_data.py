"""Small tables for the golden cases, made by numpy from seeds; no file is read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Hospitals(NamedTuple):
    """A few large clusters, of which single records are in the wrong one, and a split that holds some of them out."""

    X: np.ndarray
    y: np.ndarray
    label: np.ndarray
    groups: np.ndarray
    weight: np.ndarray
    probability: np.ndarray
    split: list[tuple[np.ndarray, np.ndarray]]


def hospitals(seed: int = 0, n_train: int = 5, n_held: int = 3, size: int = 50, rate: float = 0.1) -> Hospitals:
    rng = np.random.default_rng(seed)
    count = n_train + n_held
    true = np.repeat(np.arange(count), size)
    X = rng.standard_normal((count, 4))[true] + 0.6 * rng.standard_normal((len(true), 4))
    slopes = np.zeros((count, 4))
    slopes[:, :2] = 1.0, 0.5
    slopes[n_train:] += 0.6 * rng.standard_normal(4)
    y = (X * slopes[true]).sum(axis=1) + 0.7 * rng.standard_normal(len(true))
    groups = true.copy()
    held = np.flatnonzero(true >= n_train)
    leaked = rng.choice(held, int(rate * n_train * size), replace=False)
    groups[leaked] = rng.integers(0, n_train, len(leaked))
    score = 2.5 * (true >= n_train) + rng.standard_normal(len(true))
    probability = 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + 2.5 * score - 2.5**2 / 2)))
    label = (y + 0.5 * rng.standard_normal(len(y)) > 0).astype(int)
    weight = rng.uniform(0.5, 2.0, len(y))
    split = [(np.flatnonzero(groups < n_train), np.flatnonzero(groups >= n_train))]
    return Hospitals(X, y, label, groups, weight, probability, split)


class Patients(NamedTuple):
    """Many small clusters, of which some have lost a record to a cluster of its own."""

    X: np.ndarray
    y: np.ndarray
    label: np.ndarray
    groups: np.ndarray
    true: np.ndarray
    weight: np.ndarray


def patients(seed: int = 0, count: int = 60, each: int = 6) -> Patients:
    rng = np.random.default_rng(seed)
    true = np.repeat(np.arange(count), each)
    profile = 2 * rng.standard_normal((count, 12))
    X = profile[true] + rng.standard_normal((len(true), 12))
    y = rng.standard_normal(count)[true] + 0.3 * rng.standard_normal(len(true))
    groups = true.copy()
    for new, entity in enumerate(rng.choice(count, count // 3, replace=False)):
        pieces = 1 + new % 2
        groups[each * entity + rng.choice(each, pieces, replace=False)] = count + new
    label = (y + 0.3 * rng.standard_normal(len(y)) > 0).astype(int)
    return Patients(X, y, label, groups, true, rng.uniform(0.5, 2.0, len(y)))

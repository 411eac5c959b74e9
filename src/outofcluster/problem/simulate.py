r"""Clustering errors made on purpose, at a wanted rate: for tests, teaching and experiments.

Records of the giving side (V for "to_train", T for "to_validation") move independently with probability q; the expected
share of the receiving side that they make up is

.. math:: p_0 = \frac{q M}{R + q M}, \qquad\text{so}\qquad q = \frac{p_0 R}{(1-p_0) M} ,

with R the number of records on the receiving side and M that on the giving side. For fragments, q is the probability
that a cluster of s ≥ 2 records is cut; the moving piece has 1 to s-1 records, all sizes equally likely, s/2 on average,
so :math:`M = \sum_{s \ge 2} s/2`. (This is the ratio of the expectations; the mean of the realised share differs from
it by a term of order 1/R.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import check_choice, check_number, check_share, listed, refuse_unhashable, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster.problem.folds import Clusters, Rows

# Numbers of clusters up to which the next ones are other numbers, for floats too.
_LARGEST_LABEL = 2**52


@dataclass(frozen=True, eq=False)
class SimulatedLeakage:
    """A clustering with errors, and the split that it leads to.

    Attributes
    ----------
    groups : array of shape (n,)
        Observed, partly wrong, cluster of every record.
    train, validation : array of int
        Rows of T̂ and V̂.
    moved : array of bool of shape (n,)
        Records on the wrong side.
    rate : float
        Realised share of T̂ that truly belongs to validation clusters (p0); for "to_validation", of V̂ that truly
        belongs to training clusters.
    validation_rate : float
        Realised share of V̂'s records whose true cluster also has records in T̂ (rho0).
    """

    groups: NDArray[Any]
    train: Rows
    validation: Rows
    moved: NDArray[np.bool_]
    rate: float
    validation_rate: float

    def __repr__(self) -> str:
        sizes = f"{len(self.train)} training and {len(self.validation)} validation records"
        return f"SimulatedLeakage({sizes}, {int(self.moved.sum())} on the wrong side)"


def simulate_leakage(
    groups: Any,
    validation_groups: Any,
    rate: float,
    *,
    of: Literal["train", "validation", "moved"] = "train",
    direction: Literal["to_train", "to_validation"] = "to_train",
    unit: Literal["records", "fragments"] = "records",
    random_state: RandomState = None,
) -> SimulatedLeakage:
    """Put records on the wrong side of a split at a wanted rate, as a wrong clustering would.

    Parameters
    ----------
    groups : array of shape (n,)
        True cluster of every record.
    validation_groups : array
        The clusters that are held out.
    rate : float
        How much leaks; see ``of``.
    of : {"train", "validation", "moved"}, default="train"
        What ``rate`` is a share of. "train" (with direction "to_train"): the expected share of T̂ that truly belongs to
        validation clusters. "validation" (with direction "to_validation"): the expected share of V̂ that truly belongs
        to training clusters. "moved": the probability with which a record moves, or a cluster is cut.
    direction : {"to_train", "to_validation"}, default="to_train"
        Side on which the records wrongly end up.
    unit : {"records", "fragments"}, default="records"
        "records": single records move, and take the label of a random cluster of the other side. "fragments": a cluster
        of at least two records is cut in two, and one piece moves, with a label of its own.
    random_state : int, RandomState or Generator, optional
        The seed, or numpy's generator from which to draw one.

    Returns
    -------
    SimulatedLeakage

    Examples
    --------
    >>> import outofcluster as ooc
    >>> hospital = np.repeat(["A", "B", "C", "D"], 250)
    >>> split = ooc.simulate_leakage(hospital, ["D"], rate=0.1, random_state=0)
    >>> len(split.train), len(split.validation), round(split.rate, 3)
    (823, 177, 0.089)
    >>> bool((hospital[split.moved] == "D").all()), sorted(set(split.groups[split.moved].tolist()))
    (True, ['A', 'B', 'C'])
    """
    check_choice("of", of, ("train", "validation", "moved"))
    check_choice("direction", direction, ("to_train", "to_validation"))
    check_choice("unit", unit, ("records", "fragments"))
    clusters = Clusters.of(groups, None)
    infinite = [name for name in clusters.names if isinstance(name, float) and math.isinf(name)]
    if infinite:
        raise InputError(f"groups must hold finite numbers or other labels, got {infinite[0]}.")
    held_out = _held_out(clusters, validation_groups)
    if of not in ("moved", direction.removeprefix("to_")):
        side = direction.removeprefix("to_")
        raise InputError(f"of must be {side!r} or 'moved' for direction {direction!r}, got {of!r}.")
    rng = np.random.default_rng(seed_of(random_state))

    gives = held_out if direction == "to_train" else ~held_out
    giving = gives[clusters.codes]
    sizes = np.bincount(clusters.codes)
    can_be_cut = gives & (sizes >= 2)
    if unit == "fragments" and not can_be_cut.any():
        raise InputError("groups must hold a cluster of at least two records on the giving side for unit 'fragments'.")
    most = int(giving.sum()) if unit == "records" else float(sizes[can_be_cut].sum() / 2)
    q = _probability(rate, of, most, int((~giving).sum()))

    names: list[Any] = clusters.names
    if unit == "records":
        moved = giving & (rng.random(len(giving)) < q)
        receiving = np.flatnonzero(~gives)
        codes = np.where(moved, rng.choice(receiving, size=len(giving)), clusters.codes)
    else:
        codes, cut = cut_clusters(clusters.codes, can_be_cut, q, rng)
        moved = codes != clusters.codes
        names = names + _new_names(names, np.flatnonzero(cut), clusters.labels.dtype.kind)
    if moved.sum() == giving.sum():
        got = f"{rate:g}, at which all {most:g} of them moved"
        raise InputError(f"rate must leave records on the giving side, got {got}.")

    trains = ~held_out[clusters.codes] ^ moved
    train, validation = np.flatnonzero(trains), np.flatnonzero(~trains)
    realised = float(moved[train if direction == "to_train" else validation].mean())
    validation_rate = float(np.isin(clusters.codes[validation], clusters.codes[train]).mean())
    observed = _array(names, clusters.labels.dtype.kind)[codes]
    return SimulatedLeakage(observed, train, validation, moved, realised, validation_rate)


def cut_clusters(
    codes: Rows, can_be_cut: NDArray[np.bool_], probability: float, rng: np.random.Generator
) -> tuple[Rows, NDArray[np.bool_]]:
    """Cut clusters in two, as a linkage does that misses a match."""
    sizes = np.bincount(codes)
    cut = can_be_cut & (rng.random(len(sizes)) < probability)
    piece = np.where(cut, rng.integers(1, np.maximum(sizes, 2)), 0)
    new_codes = np.cumsum(cut) - 1 + len(sizes)
    return np.where(random_position(codes, rng) < piece[codes], new_codes[codes], codes), cut


def random_position(codes: Rows, rng: np.random.Generator) -> Rows:
    """The position of every record among those of its cluster, in random order: the first few may form a piece."""
    sizes = np.bincount(codes)
    order = np.lexsort((rng.random(len(codes)), codes))
    position = np.empty(len(codes), dtype=np.int64)
    position[order] = np.arange(len(codes)) - (np.cumsum(sizes) - sizes)[codes[order]]
    return position


def _probability(rate: float, of: str, most: float, receiving: int) -> float:
    """The probability of moving that gives the wanted rate, if ``most`` are expected to move at probability 1."""
    if of == "moved":
        return check_share("rate", rate)
    wanted = check_number("rate", rate, least=0)
    largest = most / (receiving + most)
    if wanted > largest:
        must = f"rate must be at most {largest:.6g}, the share when everything moves that can"
        raise InputError(f"{must}, got {wanted:g}.")
    return min(1.0, wanted * receiving / ((1 - wanted) * most))


def _held_out(clusters: Clusters, validation_groups: Any) -> NDArray[np.bool_]:
    """For each cluster, whether it is one of the validation clusters."""
    number_of = {name: i for i, name in enumerate(clusters.names)}
    held_out = np.zeros(len(number_of), dtype=bool)
    single = isinstance(validation_groups, str | bytes) or not isinstance(validation_groups, Iterable)
    # The members of a set are in no order that counts.
    several = sorted(validation_groups, key=short) if isinstance(validation_groups, Set) else validation_groups
    wanted = [validation_groups] if single else listed("validation_groups", several)
    for name in refuse_unhashable("validation_groups", wanted):
        if name not in number_of:
            got = f"{short(name)}, which is not one of them"
            raise InputError(f"validation_groups must hold clusters of groups, got {got}.")
        held_out[number_of[name]] = True
    if not held_out.any() or held_out.all():
        got = f"{int(held_out.sum())} of {len(number_of)} clusters"
        raise InputError(f"validation_groups must leave clusters for validation and for training, got {got}.")
    return held_out


def _new_names(names: list[Any], cut: Rows, kind: str) -> list[Any]:
    """A label that is not in use yet for each cluster that was cut: the next number, or a name like "patient 7 (2)"."""
    used, fresh = set(names), []
    if kind in "biuf":
        # Beyond what a float can count, and an integer can hold, a larger number would be one that is there already.
        most = max(names)
        following = itertools.count(most + 1 if abs(most) < _LARGEST_LABEL else 0)
        return list(itertools.islice((number for number in following if number not in used), len(cut)))
    for c in cut:
        numbered = (f"{names[c]} ({number})" for number in itertools.count(2))
        name = next(name for name in numbered if name not in used)
        used.add(name)
        fresh.append(name)
    return fresh


def _array(names: list[Any], kind: str) -> NDArray[Any]:
    """Labels as an array of the kind that they had; objects stay as they are."""
    if kind in "biufU":
        return np.asarray(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array

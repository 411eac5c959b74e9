"""Bunch: records with their clusters, and which clusters train and which are held out; descriptions of data sets."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Bunch:
    """Records, their true clusters, and the split that goes with them.

    Attributes
    ----------
    data : array of shape (n, features)
        Features.
    target : array of shape (n,)
        Class of every record, a place in ``target_names``; a number for regression.
    groups : array of str of shape (n,)
        True cluster of every record.
    train_groups, validation_groups : tuple of str
        Clusters to train on, and clusters that are held out.
    feature_names : tuple of str
        Names of the columns; ``"cp=atypical"`` is 1 where ``cp`` is atypical and 0 elsewhere.
    target_names : tuple of str
        Names of the classes; empty for regression.
    licence : str
        Terms of use, and whom to name.
    DESCR : str
        Where the data come from, what was done to them, and what to beware of.
    e0 : float or None
        The loss on the validation clusters without leakage, where it is known.

    Examples
    --------
    >>> from outofcluster.datasets import make_partition
    >>> bunch = make_partition(15, 1000, random_state=0)
    >>> bunch.data.shape, bunch.train_groups, len(bunch.validation_rows)
    ((1015, 1), ('part 1',), 1000)
    """

    data: Array
    target: NDArray[Any]
    groups: NDArray[np.str_]
    train_groups: tuple[str, ...]
    validation_groups: tuple[str, ...]
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    licence: str
    DESCR: str
    e0: float | None = None

    @property
    def train_rows(self) -> Rows:
        """Rows of the training clusters, increasing."""
        return np.flatnonzero(np.isin(self.groups, self.train_groups))

    @property
    def validation_rows(self) -> Rows:
        """Rows of the validation clusters, increasing."""
        return np.flatnonzero(np.isin(self.groups, self.validation_groups))

    def __repr__(self) -> str:
        n, d = self.data.shape
        return (
            f"Bunch({n} records, {d} features; {len(self.train_rows)} records in {len(self.train_groups)} training "
            f"and {len(self.validation_rows)} in {len(self.validation_groups)} validation clusters)"
        )


def describe(name: str) -> str:
    """The description of a data set, one of the texts in the folder ``descr``."""
    return (resources.files("outofcluster.datasets") / "descr" / f"{name}.txt").read_text(encoding="utf-8")

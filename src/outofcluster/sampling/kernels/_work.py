"""The arrays that the compiled loops work on, allocated once for a block of replicates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outofcluster.sampling.kernels._algebra import PADDING, padded
from outofcluster.sampling.kernels._compiled_draw import identity_orders

LOSSES = ("zero_one", "log_loss", "brier", "squared_error", "absolute_error")
"""The position of a loss is its code in the compiled loops."""


class Settings(NamedTuple):
    """Parameters of the model, its scaler and its loss, as numbers."""

    strength: float
    """C, or alpha."""
    intercept: bool
    intercept_scaling: float
    exact: bool
    """Whether the problem must be well posed without a penalty."""
    with_mean: bool
    with_std: bool
    loss: int
    classifier: bool


class Problem(NamedTuple):
    """The pools and the level that replicates are drawn at."""

    X: Any
    y: Any
    train: Any
    validation: Any
    train_units: Any
    """One row per partition, the units of all partitions numbered through."""
    validation_units: Any
    key: Any
    level: int
    injected: float
    replace: bool


class Work(NamedTuple):
    """Buffers of a replicate: the draw, its rows, and what the fitted model gives on V."""

    uniforms: Any
    orders: Any
    swaps: Any
    t_drawn: Any
    v_drawn: Any
    v_counts: Any
    rows: Any
    targets: Any
    mean: Any
    scale: Any
    weights: Any
    """Coefficients on the columns of X, and the intercept."""
    v_columns: Any
    """The columns of V, each contiguous."""
    v_targets: Any
    v_losses: Any
    t_unit_counts: Any
    v_unit_counts: Any
    v_unit_excess: Any


class Solver(NamedTuple):
    """Buffers of a fit."""

    H: Any
    U: Any
    inverse: Any
    right: Any
    w: Any
    step: Any
    correction: Any
    margins: Any
    change: Any
    picked: Any
    """Rows to add, with spare places at the end."""
    weights: Any
    columns: Any
    """The drawn rows by columns."""
    weighted: Any
    """The rows to add, times their weights."""
    active: Any


class Out(NamedTuple):
    """Results of a block, in the order of its replicates and of the units."""

    losses: Any
    redraws: Any
    handled: Any
    train_sums: Any
    validation_sums: Any


def make_solver(n: int, d: int) -> Solver:
    """Buffers for n rows of d columns and an intercept."""
    p = padded(d + 1)
    return Solver(
        H=np.zeros((p, p)),
        U=np.zeros((p, p)),
        inverse=np.zeros(p),
        right=np.zeros(p),
        w=np.zeros(p),
        step=np.zeros(p),
        correction=np.zeros(p),
        margins=np.zeros(n),
        change=np.zeros(n),
        picked=np.zeros(n + PADDING, np.int64),
        weights=np.zeros(n + PADDING),
        columns=np.zeros((d + 1, n)),
        weighted=np.zeros((n, p)),
        active=np.zeros(n, np.bool_),
    )


def make_work(n: int, d: int, n_T: int, n_V: int, train_units: int, validation_units: int, *, replace: bool) -> Work:
    """Buffers for n rows of d columns drawn from pools of n_T and n_V records, with so many units."""
    return Work(
        uniforms=np.zeros(2 * n),
        orders=identity_orders(n_T, n_V, replace),
        swaps=np.zeros(n, np.int64),
        t_drawn=np.zeros(n, np.int64),
        v_drawn=np.zeros(n, np.int64),
        v_counts=np.zeros(n_V, np.int64),
        rows=np.zeros((n, padded(d + 1))),
        targets=np.zeros(n),
        mean=np.zeros(d),
        scale=np.ones(d),
        weights=np.zeros(d + 1),
        v_columns=np.zeros((d, n_V)),
        v_targets=np.zeros(n_V),
        v_losses=np.zeros(n_V),
        t_unit_counts=np.zeros(train_units, np.int64),
        v_unit_counts=np.zeros(validation_units, np.int64),
        v_unit_excess=np.zeros(validation_units),
    )

"""Checks of arguments, each failing with one sentence: the argument, its value, what is allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outofcluster._base.exceptions import InputError

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Points:
    """Checked input of a curve: losses ``b`` observed at levels ``p``, for training sets of size ``n``.

    ``weights`` is None when all levels count alike, so that the common case costs nothing; ``errors`` are the standard
    errors of the losses, where they are known; ``smaller`` the size of each loss, where some are below n.
    """

    p: Array
    b: Array
    n: int
    weights: Array | None
    errors: Array | None = None
    smaller: NDArray[np.int64] | None = None

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The size of the training sets behind each loss."""
        return np.full(len(self.p), self.n) if self.smaller is None else self.smaller

    @property
    def lowest(self) -> int:
        """Which of the losses at the full size has the lowest level."""
        if self.smaller is None:
            return int(self.p.argmin())
        return int(np.where(self.smaller == self.n, self.p, np.inf).argmin())

    def scaled(self, rows: Array) -> Array:
        """Rows times the square roots of their weights: the residuals a least-squares fit minimises."""
        if self.weights is None:
            return rows
        root = np.sqrt(self.weights)
        return root * rows if rows.ndim == 1 else root[:, None] * rows

    def require_levels(self, needed: int, what: str) -> None:
        """Refuse fewer levels than a method has parameters."""
        if len(self.p) < needed:
            raise InputError(f"p must hold at least {needed} levels for {what}, got {len(self.p)}.")

    def require_nonnegative(self, why: str) -> None:
        """Refuse negative losses where the curve cannot be negative."""
        if self.b.min() < 0:
            i = int(self.b.argmin())
            raise InputError(f"b must be non-negative {why}, got b[{i}] = {self.b[i]:g}.")


def check_points(
    p: ArrayLike, b: ArrayLike, n: Any, weights: ArrayLike | None = None, errors: ArrayLike | None = None
) -> Points:
    """Check levels, losses, size or sizes, weights and standard errors together.

    Without weights, standard errors give them.
    """
    if np.ndim(n):
        return _check_sizes(p, b, n, weights, errors)
    levels = check_levels(p)
    losses = check_vector("b", b)
    if len(losses) != len(levels):
        raise InputError(
            f"b must have one loss for each level of p, got {len(losses)} losses for {len(levels)} levels."
        )
    size = check_integer("n", n, least=1)
    known = None if errors is None else _check_errors(errors, len(levels))
    if weights is None:
        return Points(levels, losses, size, None if known is None else precision_weights(known), known)
    w = check_vector("weights", weights)
    if len(w) != len(levels):
        raise InputError(f"weights must have one weight for each level of p, got {len(w)} for {len(levels)} levels.")
    if w.min() <= 0:
        i = int(w.argmin())
        raise InputError(f"weights must be positive, got weights[{i}] = {w[i]:g}.")
    return Points(levels, losses, size, w, known)


def _check_sizes(p: ArrayLike, b: ArrayLike, n: Any, weights: ArrayLike | None, errors: ArrayLike | None) -> Points:
    """Points of several sizes: levels are distinct within each."""
    levels = check_vector("p", p)
    sizes = [check_integer(f"n[{i}]", size, least=1) for i, size in enumerate(n)]
    if len(sizes) != len(levels):
        raise InputError(f"n must be one size, or one for each level of p, got {len(sizes)} for {len(levels)} levels.")
    smaller = np.array(sizes, dtype=np.int64)
    for size in np.unique(smaller):
        check_levels(levels[smaller == size])
    # The others are checked as for one size, with levels that do not repeat.
    order = np.linspace(0, 1, len(levels))
    found = check_points(order, b, int(smaller.max()), weights, errors)
    return replace(found, p=levels, smaller=smaller)


def _check_errors(errors: ArrayLike, n_levels: int) -> Array | None:
    """Standard errors of the losses; None where one of them is not known (a level with a single replicate)."""
    given = _vector("standard_errors", errors)
    if len(given) != n_levels:
        raise InputError(
            f"standard_errors must have one value for each level of p, got {len(given)} for {n_levels} levels."
        )
    if (given < 0).any():
        i = int(np.flatnonzero(given < 0)[0])
        raise InputError(f"standard_errors must not be negative, got standard_errors[{i}] = {given[i]:g}.")
    return given if np.isfinite(given).all() else None


def precision_weights(standard_errors: Array) -> Array | None:
    """Weights 1/σ² with mean 1; equal where a level's error is not known, and not beyond bounds where it is 0."""
    if not np.isfinite(standard_errors).all() or standard_errors.max() == 0:
        return None
    precision = 1 / np.maximum(standard_errors, 0.05 * np.median(standard_errors[standard_errors > 0])) ** 2
    weights: Array = precision / precision.mean()
    return weights


def check_levels(p: ArrayLike) -> Array:
    """Distinct levels in [0, 1], in the order given."""
    levels = _vector("p", p)
    # One sort answers everything: NaN goes last, and equal levels become neighbours.
    ordered = np.sort(levels)
    if not (ordered[0] >= 0 and ordered[-1] <= 1):
        i = int(np.flatnonzero(~((levels >= 0) & (levels <= 1)))[0])
        raise InputError(f"p must lie in [0, 1], got p[{i}] = {levels[i]:g}.")
    if (ordered[1:] == ordered[:-1]).any():
        repeated = ordered[1:][ordered[1:] == ordered[:-1]][0]
        raise InputError(f"p must hold distinct levels, got {repeated:g} more than once; average its losses.")
    return levels


def check_vector(name: str, values: ArrayLike) -> Array:
    """A one-dimensional, non-empty array of finite floats."""
    vector = _vector(name, values)
    if not np.isfinite(vector).all():
        i = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise InputError(f"{name} must be finite, got {name}[{i}] = {vector[i]}.")
    return vector


def _vector(name: str, values: ArrayLike) -> Array:
    try:
        vector = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, got {_short(values)}.") from None
    if vector.ndim != 1 or vector.size == 0:
        raise InputError(f"{name} must be a non-empty array of one dimension, got shape {vector.shape}.")
    return vector


def check_integer(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """A whole number in [least, most]; 5.0 counts as 5, True and 5.5 do not count."""
    allowed = f"at least {least}" if most is None else f"between {least} and {most}"
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = int(value) if isinstance(value, float) and value.is_integer() else index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number {allowed}, got {_short(value)}.") from None
    if number < least or (most is not None and number > most):
        raise InputError(f"{name} must be a whole number {allowed}, got {number}.")
    return number


def check_number(name: str, value: Any, *, least: float, strict: bool = False) -> float:
    """A finite number at least (or, strictly, above) a bound."""
    allowed = f"above {least:g}" if strict else f"at least {least:g}"
    try:
        if isinstance(value, bool | np.bool_ | str):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number {allowed}, got {_short(value)}.") from None
    if not math.isfinite(number) or number < least or (strict and number == least):
        raise InputError(f"{name} must be a finite number {allowed}, got {number:g}.")
    return number


def check_share(name: str, value: Any, within: str = "[0, 1]") -> float:
    """A number between 0 and 1; a round bracket in ``within``, such as "[0, 1)", leaves that end out."""
    share = check_number(name, value, least=0)
    if share > 1 or (share == 1 and within[-1] == ")") or (share == 0 and within[0] == "("):
        raise InputError(f"{name} must lie in {within}, got {share:g}.")
    return share


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """One of a few values."""
    if value not in allowed:
        choices = " or ".join(repr(choice) for choice in allowed)
        raise InputError(f"{name} must be {choices}, got {_short(value)}.")


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {_short(value)}.")
    return bool(value)


def check_indices(j: ArrayLike, n: int) -> NDArray[np.int64]:
    """Whole numbers in [0, n], of any shape: the positions at which a curve can be asked for."""
    given = np.asarray(j)
    if given.dtype.kind not in "iuf" or (given.dtype.kind == "f" and not (given == np.floor(given)).all()):
        raise InputError(f"j must hold whole numbers between 0 and {n}, got {_short(j)}.")
    if given.size and (given.min() < 0 or given.max() > n):
        outside = given[(given < 0) | (given > n)].ravel()[0]
        raise InputError(f"j must hold whole numbers between 0 and {n}, got {outside:g}.")
    return given.astype(np.int64)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def first_missing(values: Any) -> int | None:
    """Row of the first missing value: None, NaN, NaT or the NA of pandas."""
    # A list stays objects: as an array of strings it would hide a NaN.
    array = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
    if array.dtype.kind in "fc":
        missing = np.isnan(array)
    elif array.dtype.kind in "mM":
        missing = np.isnat(array)
    elif array.dtype.kind == "O" and array.size:
        missing = np.frompyfunc(_is_missing, 1, 1)(array).astype(bool)
    else:
        return None
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
    return int(rows[0]) if len(rows) else None


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)

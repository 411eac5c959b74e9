"""The checked input of a curve: losses at levels, with the sizes of the training sets and how much each loss counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outofcluster._base.arguments import LARGEST, Array, check_integer, check_vector, short
from outofcluster._base.exceptions import InputError

LARGEST_SIZE = 2**62


@dataclass(frozen=True)
class Points:
    """Losses ``b`` observed at levels ``p``, for training sets of size ``n``.

    Attributes
    ----------
    p : array of shape (m,)
        Levels.
    b : array of shape (m,)
        Losses.
    n : int
        Size of the training sets; the largest, where there are several.
    weights : array of shape (m,) or None
        Weights of the squared residuals; None where all losses count alike, so that the common case costs nothing.
    errors : array of shape (m,) or None
        Standard errors of the losses, where they are known.
    size_of_each : array of int of shape (m,) or None
        Size of the training sets behind each loss, where there are several sizes.
    """

    p: Array
    b: Array
    n: int
    weights: Array | None
    errors: Array | None = None
    size_of_each: NDArray[np.int64] | None = None

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The size of the training sets behind each loss."""
        return np.full(len(self.p), self.n) if self.size_of_each is None else self.size_of_each

    @property
    def lowest(self) -> int:
        """The position of the loss with the lowest level, among those of size n."""
        return int(np.where(self.sizes == self.n, self.p, np.inf).argmin())

    def scaled(self, rows: Array) -> Array:
        """Rows times the square roots of their weights: the residuals that a least-squares fit minimises."""
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
    """Check levels, losses, one size or several, weights and standard errors together.

    Where no weights are given, the standard errors give them.
    """
    several = not isinstance(n, int | float | np.generic) and _is_array(n)
    levels, sizes = _check_sizes(p, n) if several else (check_levels(p), None)
    losses = check_losses(b, len(levels))
    size = check_size("n", n) if sizes is None else int(sizes.max())
    known_errors = None if errors is None else _check_errors(errors, len(levels))
    if weights is None:
        return Points(levels, losses, size, _precision_weights(known_errors), known_errors, sizes)
    checked_weights = check_vector("weights", weights)
    _check_count("weights", "weight", checked_weights, len(levels))
    check_positive("weights", checked_weights)
    return Points(levels, losses, size, checked_weights, known_errors, sizes)


def _check_count(name: str, noun: str, values: Array, n_levels: int) -> None:
    """Refuse values that are not one for each level."""
    if len(values) != n_levels:
        raise InputError(f"{name} must have one {noun} for each level of p, got {len(values)} for {n_levels} levels.")


def check_positive(name: str, values: Array) -> None:
    """Refuse values that are not above 0."""
    if values.min() <= 0:
        i = int(values.argmin())
        raise InputError(f"{name} must be positive, got {name}[{i}] = {values[i]:g}.")


def _check_sizes(p: ArrayLike, n: Any) -> tuple[Array, NDArray[np.int64]]:
    """Levels that are distinct within each size, and the size of each."""
    levels = check_vector("p", p)
    several = check_vector("n", n).tolist()
    sizes = np.array([check_size(f"n[{i}]", size) for i, size in enumerate(several)], dtype=np.int64)
    if len(sizes) != len(levels):
        raise InputError(f"n must be one size, or one for each level of p, got {len(sizes)} for {len(levels)} levels.")
    for size in np.unique(sizes):
        check_levels(levels[sizes == size])
    return levels, sizes


def _is_array(value: Any) -> bool:
    try:
        return np.ndim(value) > 0
    except Exception:  # Lists of uneven length, and objects that cannot be asked.
        return True


def check_size(name: str, n: Any) -> int:
    """A size of training sets; beyond `LARGEST_SIZE` numbers of leaked records are no whole numbers of the machine."""
    size = check_integer(name, n, least=1)
    if size > LARGEST_SIZE:
        raise InputError(f"{name} must be at most {LARGEST_SIZE}, got {short(size)}.")
    return size


def check_levels(p: ArrayLike) -> Array:
    """Distinct levels in [0, 1], in the order in which they were given."""
    levels = check_vector("p", p, finite=False)
    # One sort answers everything: NaN goes last, and equal levels become neighbours.
    ordered = np.sort(levels)
    if not (ordered[0] >= 0 and ordered[-1] <= 1):
        i = int(np.flatnonzero(~((levels >= 0) & (levels <= 1)))[0])
        raise InputError(f"p must lie in [0, 1], got p[{i}] = {levels[i]:g}.")
    if (ordered[1:] == ordered[:-1]).any():
        repeated = ordered[1:][ordered[1:] == ordered[:-1]][0]
        raise InputError(f"p must hold distinct levels, got {repeated:g} more than once; average its losses.")
    return levels


def check_losses(b: ArrayLike, n_levels: int) -> Array:
    """One finite loss for each level."""
    losses = check_vector("b", b)
    if np.abs(losses).max() > LARGEST:
        raise InputError(f"b must hold losses of at most {LARGEST:g}, got {losses[np.abs(losses).argmax()]:g}.")
    if len(losses) != n_levels:
        raise InputError(f"b must have one loss for each level of p, got {len(losses)} losses for {n_levels} levels.")
    return losses


def check_indices(j: ArrayLike, n: int, name: str = "j") -> NDArray[np.int64]:
    """Whole numbers in [0, n], of any shape: the positions at which a curve has a value."""
    must = f"{name} must hold whole numbers between 0 and {n}"
    try:
        positions = np.asarray(j)
    except Exception:
        raise InputError(f"{must}, got {short(j)}.") from None
    kind = positions.dtype.kind
    masked = isinstance(j, np.ma.MaskedArray)
    if masked or kind not in "iuf" or (kind == "f" and not (positions == np.floor(positions)).all()):
        raise InputError(f"{must}, got {short(j)}.")
    outside = positions[(positions < 0) | (positions > n)].ravel()
    if outside.size:
        raise InputError(f"{must}, got {outside[0]:g}.")
    return positions.astype(np.int64)


def _check_errors(standard_errors: ArrayLike, n_levels: int) -> Array | None:
    """Standard errors of the losses; None where one of them is not known (a level with a single replicate)."""
    errors = check_vector("standard_errors", standard_errors, finite=False)
    _check_count("standard_errors", "value", errors, n_levels)
    if (errors < 0).any():
        i = int(np.flatnonzero(errors < 0)[0])
        raise InputError(f"standard_errors must not be negative, got standard_errors[{i}] = {errors[i]:g}.")
    return errors if np.isfinite(errors).all() else None


def _precision_weights(errors: Array | None) -> Array | None:
    """Weights 1/σ² with mean 1, none of them without bound where an error is 0; None where no error is known."""
    if errors is None or errors.max() == 0:
        return None
    middle = np.median(errors[errors > 0])
    # Weights do not depend on the unit of the errors. In a power of two near the middle one, no square is too large or
    # too small, and nothing is rounded.
    unit = np.frexp(middle)[1]
    precision = 1 / np.maximum(np.ldexp(errors, -unit), 0.05 * np.ldexp(middle, -unit)) ** 2
    return np.asarray(precision / precision.mean())

r"""How the trend filter represents a curve: by its values on the index grid, or by a spline.

Either way there are coefficients c⁽⁰⁾, and the coefficients of the i-th derivative follow by weighted differences,

.. math:: c^{(i+1)}_j = (c^{(i)}_{j+1} - c^{(i)}_j) / h^{(i)}_j ,

down to the order k of the filter, whose norm is ‖R c⁽ᵏ⁾‖.

grid
    c⁽⁰⁾ = (e_0, …, e_n), h = 1, R = I: derivatives are per index, ‖R c⁽ᵏ⁾‖ = ‖D_k e‖. Exact, with n + 1 unknowns.
spline
    Derivatives are per unit of p: e_j = f(j/n) with f a spline of degree k + 1 on equal pieces of [0, 1], in
    B-splines. Their derivative has the coefficients above with h = (t_{j+q+1} - t_{j+1}) / q, t the knots and q
    the degree; f⁽ᵏ⁾ is piecewise linear and R is the Cholesky factor of the Gram matrix of hat functions. Signs
    of c⁽¹⁾ and c⁽²⁾ carry over to f′ and f″ (variation diminishing), so a curve with decreasing coefficients
    decreases at every j. Its size does not depend on n, and fourth differences multiply rounding errors by
    (pieces)⁴ rather than n⁴.

The minimiser on the grid is smooth between levels, so a spline loses little: see the benchmark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline
from scipy.linalg import cholesky_banded

from outofcluster._base.validation import Array
from outofcluster.curves.operator import BinomialOperator

__all__ = ["Representation", "differences", "grid", "spline"]


@dataclass(frozen=True)
class Representation:
    """How coefficients make a curve: its losses, derivatives and values."""

    design: Any
    """The losses A e as a linear function of the coefficients: a dense or sparse matrix with one row per level."""
    steps: tuple[Array, ...]
    """The h⁽ⁱ⁾, i = 0, …, order - 1."""
    root: sparse.spmatrix
    """R, with ‖f⁽ᵏ⁾‖ = ‖R c⁽ᵏ⁾‖."""
    knots: Array | None
    """Knots of the spline; None on the grid."""

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return int(self.design.shape[1])

    @property
    def order(self) -> int:
        """Order k of the penalised derivative."""
        return len(self.steps)

    def derivative(self, order: int) -> sparse.spmatrix:
        """The matrix that takes c⁽⁰⁾ to c⁽ᵒʳᵈᵉʳ⁾."""
        matrix = sparse.identity(self.size, format="csr")
        for step in self.steps[:order]:
            matrix = sparse.diags(1 / step) @ differences(len(step) + 1) @ matrix
        return matrix

    @property
    def equal_steps(self) -> bool:
        """Whether derivatives are plain differences, as on the grid."""
        return self.knots is None

    def values(self, coefficients: Array, j: Any, n: int) -> Array:
        """The curve e_j."""
        if self.knots is None:
            entries: Array = coefficients[j]
            return entries
        return np.asarray(BSpline(self.knots, coefficients, self.order + 1)(np.asarray(j) / n))


def grid(design: Any, order: int) -> Representation:
    """The curve by its values, one for each column of the design."""
    size = design.shape[1]
    steps = tuple(np.ones(size - 1 - i) for i in range(order))
    return Representation(design, steps, sparse.identity(size - order, format="csr"), None)


def spline(operator: BinomialOperator, order: int, pieces: int) -> Representation:
    """The curve as a spline of degree order + 1 on equal pieces."""
    degree = order + 1
    breaks = np.linspace(0, 1, pieces + 1)
    knots = np.concatenate([np.zeros(degree), breaks, np.ones(degree)])
    design = operator.expect(lambda x: BSpline.design_matrix(x, knots, degree))
    steps = []
    for i in range(order):
        q, inner = degree - i, knots[i : len(knots) - i]
        steps.append((inner[q + 1 : -1] - inner[1 : -q - 1]) / q)
    # Gram matrix of the hat functions: they overlap by h/6, and have norm² h/3 for each piece they stand on.
    diagonal = np.full(pieces + 1, 2 / 3 / pieces)
    diagonal[[0, -1]] /= 2
    beside = np.full(pieces, 1 / 6 / pieces)
    factor = cholesky_banded(np.stack([np.append(0, beside), diagonal]))
    root = sparse.diags([factor[1], factor[0, 1:]], [0, 1], format="csr")
    return Representation(design, tuple(steps), root, knots)


def differences(size: int) -> sparse.spmatrix:
    """Forward differences of a vector, as a matrix."""
    return sparse.diags([-np.ones(size - 1), np.ones(size - 1)], [0, 1], shape=(size - 1, size), format="csr")

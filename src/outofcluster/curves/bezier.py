"""Bézier form of a loss curve (paper, Section 5.3 and appendix B).

The columns of A are the Bernstein polynomials of degree n, so the losses observed at level p are the Bézier curve

    B(p) = Σ_j C(n, j) p^j (1-p)^{n-j} P_j,   P_j = (j/n, e_j),

whose first coordinate is p itself. The e_j are its Bernstein coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array

__all__ = ["Bezier"]

_MAX_CONTROL_POINTS = 1_000_000
_MAX_BPOLY_DEGREE = 1000
"""For larger degrees the binomial coefficients in BPoly exceed the range of a double."""


@dataclass(frozen=True)
class Bezier:
    """A loss curve in Bernstein form.

    Parameters
    ----------
    coefficients : array of shape (n + 1,)
        Bernstein coefficients e_0, …, e_n.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> curve = ooc.PolynomialCurve(degree=1).fit_points([0.2, 0.6, 1.0], [0.40, 0.30, 0.20], n=2)
    >>> bezier = curve.to_bezier()
    >>> bezier.control_points
    array([[0.  , 0.45 ],
           [0.5 , 0.325],
           [1.  , 0.2  ]])
    >>> float(bezier.bpoly(0.6))
    0.3
    """

    coefficients: Array

    @property
    def degree(self) -> int:
        """Degree of the curve, which is n."""
        return len(self.coefficients) - 1

    @property
    def control_points(self) -> Array:
        """The points (j/n, e_j), as an array of shape (n + 1, 2)."""
        return np.column_stack([np.arange(self.degree + 1) / self.degree, self.coefficients])

    @cached_property
    def bpoly(self) -> Any:
        """The curve as a ``scipy.interpolate.BPoly`` on [0, 1], for n up to 1000."""
        if self.degree > _MAX_BPOLY_DEGREE:
            raise InputError(f"n must be at most {_MAX_BPOLY_DEGREE} for a BPoly, got {self.degree}.")
        from scipy.interpolate import BPoly

        return BPoly(self.coefficients[:, None], [0.0, 1.0])

    @staticmethod
    def check_degree(n: int) -> None:
        """Refuse a degree whose control points would not fit in memory.

        Parameters
        ----------
        n : int
            The degree.
        """
        if n >= _MAX_CONTROL_POINTS:
            raise InputError(
                f"n must be below {_MAX_CONTROL_POINTS} for a Bézier form, which has n + 1 control points, got {n}."
            )

r"""What a curve is fitted to, and how far the fitted curve falls from no leakage to the lowest level.

The fall is the optimism of these losses. Its weights are its derivatives with respect to every loss, those of the
method itself where it has them in closed form. Else they are central differences :math:`(f(b_i + h) - f(b_i - h))/2h`,
with a thousandth of the range of the losses for h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.curves.base import Curve
from outofcluster.curves.unmixing import Unmixed


@dataclass(frozen=True)
class Fall:
    """How far a fitted curve falls from no leakage to the lowest level.

    Attributes
    ----------
    value : float
        The fall.
    e0 : float
        The curve's ê_0.
    weights, of_e0 : array of shape (columns,)
        Weights of the losses in the fall, and in ê_0.
    exact : bool
        Whether the weights are exact, those of a linear method or derivatives in closed form.
    choice : float
        Variance over the curves that the method averages.
    """

    value: float
    e0: float
    weights: Array
    of_e0: Array
    exact: bool
    choice: float


@dataclass(frozen=True)
class Problem:
    """What a curve is fitted to.

    Attributes
    ----------
    p, b : array of shape (columns,)
        Levels, and the losses there.
    n : int or array of int
        One size of training sets, or that of every column.
    errors : array of shape (columns,)
        Monte-Carlo standard errors of the losses.
    unmixed : Unmixed or None
        Losses below the leakage rate, for a curve that uses them.
    """

    p: Array
    b: Array
    n: Any
    errors: Array
    unmixed: Unmixed | None

    def fit(self, curve: Curve, b: Array | None = None) -> Curve:
        """A curve of the same parameters, fitted to the losses as they are, or to others at the same levels."""
        below: dict[str, Any] = {} if self.unmixed is None else {"unmixed": self.unmixed}
        losses = self.b if b is None else b
        return curve.unfitted().fit_points(self.p, losses, self.n, standard_errors=self.errors, **below)

    def fall(self, curve: Curve, *, lowest: float, derive: bool) -> Fall:
        """The fall of the fitted curve; weights are exact where there is a closed form, else central differences."""
        fitted, b = self.fit(curve), self.b
        value, e0 = float(fitted.optimism_), float(fitted.e0_)
        weights, of_e0 = fitted.optimism_derivative_, fitted.derivative_
        if weights is not None and of_e0 is not None:
            return Fall(value, e0, weights, of_e0, True, fitted.choice_variance_)
        derivatives = np.zeros((2, len(b)))
        step = 1e-3 * max(float(np.ptp(b)), 1e-6)
        for i in range(len(b) if derive else 0):
            shifted = []
            for sign in (1, -1):
                moved = b.copy()
                moved[i] = max(moved[i] + sign * step, lowest)
                again = self.fit(curve, moved)
                shifted.append((again.optimism_, again.e0_))
            derivatives[:, i] = (np.array(shifted[0]) - shifted[1]) / (2 * step)
        return Fall(value, e0, derivatives[0], derivatives[1], False, fitted.choice_variance_)

r"""Leakage both ways: what held-out losses are once records that are held out by mistake are taken off.

Let a share p0 of T̂ truly belong to held-out clusters, and a share r0 of V̂ to training clusters,

.. math:: \hat T ∼ (1-p_0) P_T + p_0 P_V , \qquad \hat V ∼ (1-r_0) P_V + r_0 P_T .

A resample that draws the fraction a from V̂ holds the share :math:`p = (1-a)p_0 + a(1-r_0) = p_0 + (1-p_0-r_0)a` of
records of P_V. A model loses S_V on records of V̂ that were not drawn, and S_T on those of T̂. With L_V and L_T its
losses under the two laws these are :math:`S_V = (1-r_0)L_V + r_0 L_T` and :math:`S_T = (1-p_0)L_T + p_0 L_V`, so that

.. math:: L_V = c_1 S_V - c_2 S_T, \qquad c_1 = \frac{1-p_0}{1-p_0-r_0}, \quad c_2 = \frac{r_0}{1-p_0-r_0} = c_1 - 1 ,

which is put in the place of the losses of all levels and sizes; the curve is then followed to p = 0 as ever. The user's
own model has the loss b on V̂ (the naive loss) and b_T on training records that it was not fitted to, by ten-fold
cross-validation within T̂. So

.. math:: \text{corrected} = c_1 b - c_2 b_T + (\hat e_0 - \hat L_V(p_0))
          = b + c_2 (b - b_T) + (\hat e_0 - \hat L_V(p_0)) .

For p0 = 0 this is :math:`[b - r_0 b_T]/(1 - r_0)`.

*S_T needs few fits and no other sampling*: scoring what is left of T̂ after drawing the fraction a from V̂ is scoring
what is left of V̂ after drawing the fraction 1 - a from T̂, with the sides exchanged. It counts c_2 times only, and
changes slowly with a: so a parabola in a is fitted to it, for every size. Below the leakage rate its tangent at a = 0
is continued, and the own model's b_T is its value at 0.

*Below the leakage rate* a draw with the weights 1 - s r has the level :math:`p_0 - (1-p_0-r_0)μ/(1-μ)`. The curve
expects :math:`(1-p_0)` there. So it is given the mass μ̃ with :math:`μ̃/(1-μ̃) = \frac{1-p_0-r_0}{1-p_0} μ/(1-μ)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.sampling.audit_samples import FoldSamples
from outofcluster.sampling.samples import LossSamples

_DEGREE, _LEVELS_OF_DEGREE = 2, 4
"""Degree of S_T in a, and the number of levels from which on it is a parabola and not a line."""
_LOWEST = -0.5
"""Injected fraction below which S_T is not continued."""


@dataclass(frozen=True)
class Both:
    """How the losses of both sides combine at rates p0 and r0.

    Attributes
    ----------
    of_validation, of_train : float
        c_1 and c_2.
    """

    of_validation: float
    of_train: float

    @classmethod
    def at(cls, rate: float, reverse: float) -> Both:
        """Those of a fold."""
        left = 1 - rate - reverse
        return cls((1 - rate) / left, reverse / left)


@dataclass(frozen=True)
class TrainSide:
    """S_T of one fold in every column: those of the levels of each size, then those below the leakage rate.

    Attributes
    ----------
    losses, errors : array of shape (columns,)
        The losses, and their Monte-Carlo standard errors.
    own : float
        b_T of the user's own model.
    """

    losses: Array
    errors: Array
    own: float

    @classmethod
    def of(cls, fold: FoldSamples, below: Array) -> TrainSide:
        """That of a fold."""
        scores = fold.train_scores
        assert scores is not None
        by_size = {run.size: run for run in scores.runs}
        losses, errors = list[Array](), list[Array]()
        for samples in fold.by_size:
            # A size that failed with the sides exchanged takes the losses of the full size.
            run = by_size.get(samples.size, scores.runs[0])
            rows = _rows(run, samples.injected)
            losses.append(rows @ _means(run))
            errors.append(np.sqrt(rows**2 @ _squared_errors(run)))
        own = float(scores.losses.mean())
        full = scores.runs[0]
        rows = _rows(full, below) - _rows(full, np.zeros(1))
        losses.append(own + rows @ _means(full))
        errors.append(np.sqrt(rows**2 @ _squared_errors(full)))
        return cls(np.concatenate(losses), np.concatenate(errors), own)


def _means(run: LossSamples) -> Array:
    """Mean losses by increasing fraction from V̂, which is 1 less that of the exchanged sides."""
    return run.means[::-1]


def _squared_errors(run: LossSamples) -> Array:
    squares: Array = np.nan_to_num(run.standard_errors[::-1], nan=0.0) ** 2
    return squares


def _rows(run: LossSamples, at: Array) -> Array:
    """How the smooth S_T at fractions ``at`` is made of the mean losses of a run."""
    a = 1 - run.injected[::-1]
    degree = min(_DEGREE if len(a) >= _LEVELS_OF_DEGREE else 1, len(a) - 1)
    inverse = np.linalg.pinv(np.vander(a, degree + 1, increasing=True))
    basis = np.vander(np.maximum(at, 0.0), degree + 1, increasing=True)
    if degree >= 1:
        basis[:, 1] += np.clip(at, _LOWEST, 0.0)
    return np.asarray(basis @ inverse)


def rescaled_masses(masses: Array, rate: float, reverse: float) -> Array:
    """Masses μ̃ that stand for the same levels where nothing leaks the other way."""
    odds = masses / (1 - masses) * (1 - rate - reverse) / (1 - rate)
    return np.asarray(odds / (1 + odds))

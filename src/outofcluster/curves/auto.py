r"""The automatic curve: curves of many shapes, averaged by how well they explain the losses.

No single shape suits all learners: some losses fall steeply with the first leaked records, others hardly at all, and
what happens below the lowest level is not observed. So the curve is taken to be :math:`e(x) = c + A\,h(x)` in the
share x = j/n of leaked records, A ≥ 0, with h one of the shapes of :mod:`outofcluster.curves.average`. For each of
them c and A follow from weighted least squares, and it counts by

.. math:: π_k ∝ \exp(-χ_k^2/2)\; α_k^{-3}\; \exp(-3 \log^2 β_k), \qquad
          α_k = \frac{h_k(0) - (A h_k)(p_{max})}{(A h_k)(p_{min}) - (A h_k)(p_{max})} ,

that is by its fit, and by how much it amplifies what was observed on the way from the lowest level to no leakage. The
more it amplifies, the less it counts: of two curves that explain the losses equally well, the one that claims less is
the more likely. A variance of (1 % of the fall)² is added to that of each loss, since no such curve is exactly the true
one. A line without any fall counts four times as much beforehand as all shapes together, so that losses which show no
effect are not given one. A curve that starts above the largest possible loss does not count. The estimate is the
average :math:`\hat e_0 = \sum_k π_k e_{0k}`, and so is the whole curve.

*Several sizes.* At n = 100 and p0 = 0.1 hardly any training set is free of leaked records. Losses above p0 therefore
tell little about e_0: two data sets may have the same losses there and differ below. Of training sets of 8 records,
43 % are free of leaked records. Smaller training sets have other losses, with a c and an A of their own, but nearly the
same *shape* in x, and A changes slowly with the size. So every size has its own c, the 1 % above grows by 2 % with
every halving of the size, and the heights A follow a random walk over the logarithm of the size,

.. math:: A_{s+1} = A_s + N(0,\; 0.2^2 A_s^2 \log_2(n_{s+1}/n_s)) ,

A filter from the smallest size to the largest gives, for each shape, the height at the largest size and the likelihood
of all losses. With one size this is the formula above. A size whose losses are more than twice as high is left out: its
models learn something else.

*Uncertainty.* The variance of the choice is :math:`\sum_k π_k (o_k - \bar o)^2`, with o the optimism, plus the variance
of the random walk; it belongs in every interval. For the variance that comes from the losses, the shares and the
filter's gains are held fixed, :math:`\bar w = \sum_k π_k\, ∂e_{0k}/∂b`, since the variance of the choice stands for how
they may vary.

A h is an expectation over the binomial distribution, whose cost does not depend on n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.arguments import Array, check_share, short
from outofcluster._base.exceptions import InputError
from outofcluster.curves.average import AverageSolution, Rung, ShapeAverage
from outofcluster.curves.base import Curve, Needs, Samples
from outofcluster.curves.points import Points
from outofcluster.curves.unmixing import RatedSolution, Unmixed, UnmixedSolution, mass_of_injected


@dataclass(eq=False)
class AutoCurve(Curve):
    """Curves of many shapes, steep and gentle, averaged by how well they fit and how little they claim.

    Give ``standard_errors`` to ``fit_points`` where they are known (``fit`` does so): they decide how much the losses
    tell about the shape. ``n`` may hold one size per loss: smaller training sets tell what happens below the lowest
    level. The estimate e_0 is that of the largest size.

    Parameters
    ----------
    largest : float, optional
        The largest value that the loss can take, such as 1 for the zero-one loss; curves that start above it do not
        count. Without a bound by default.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> p = np.array([0.1, 0.13, 0.2, 0.35, 0.6])
    >>> b = 0.2 + 0.1 / (1 + 100 * p / 12)
    >>> curve = ooc.AutoCurve().fit_points(p, b, n=100, standard_errors=np.full(5, 1e-4))
    >>> round(curve.e0_, 2)
    0.3
    """

    largest: float = field(default=math.inf, repr=False)

    @property
    def needs(self) -> Needs:
        """Levels and sizes of its own, levels below the leakage rate, and any losses."""
        return Needs("automatic", sizes=True, nonnegative=False, unmixed=True)

    def within(self, loss_range: tuple[float, float]) -> AutoCurve:
        """The same curve, with ``largest`` set to the largest possible loss where it was infinite.

        Parameters
        ----------
        loss_range : tuple of float
            The smallest and the largest value that the loss can take; infinite where there is no bound.

        Returns
        -------
        AutoCurve
            The curve itself where ``largest`` is given already, else a new one that is not fitted.
        """
        return replace(self, largest=loss_range[1]) if self.largest == math.inf else self

    def fit_points(
        self,
        p: ArrayLike,
        b: ArrayLike,
        n: int | ArrayLike,
        weights: ArrayLike | None = None,
        *,
        standard_errors: ArrayLike | None = None,
        unmixed: Unmixed | None = None,
    ) -> Self:
        """Fit the curve to losses observed at levels of leakage, and to losses below the leakage rate.

        Parameters
        ----------
        p : array of shape (m,)
            Distinct levels in [0, 1]: the share of training records that truly come from validation clusters.
        b : array of shape (m,)
            Mean loss at each level.
        n : int or array of int of shape (m,)
            Size of the training sets, or one size for each loss.
        weights : array of shape (m,), optional
            Positive weights of the squared residuals, ideally 1 / variance of b; all alike by default.
        standard_errors : array of shape (m,), optional
            Standard errors of b, by which it is judged how well each curve fits.
        unmixed : Unmixed, optional
            Losses of draws that leave leaked records out; the lowest level of p is then the leakage rate.

        Returns
        -------
        self
            The same curve, fitted.
        """
        super().fit_points(p, b, n, weights, standard_errors=standard_errors)
        if unmixed is not None:
            above: Any = self._fitted()
            solution = UnmixedSolution if unmixed.known is None else RatedSolution
            self._solution = solution(above.points, above.average, unmixed, self.largest)
        return self

    def fit(self, samples: Samples | Sequence[Samples], leakage: float) -> Self:
        """Fit the curve to loss samples, for a leakage rate that is known or assumed.

        The more precise the mean loss of a level is, the more the level counts. Losses at negative injected fractions
        are those of draws that leave leaked records out, below the leakage rate.

        Parameters
        ----------
        samples : LossSamples, or a list of them
            Losses at injected fractions, of one or several sizes.
        leakage : float
            Share p0 of the training records that truly belong to validation clusters, in [0, 1).

        Returns
        -------
        self
            The same curve, fitted.
        """
        runs: Sequence[Any] = samples if isinstance(samples, Sequence) else (samples,)
        if all(min(getattr(run, "injected", (0,))) >= 0 for run in runs):
            return super().fit(samples, leakage)
        rate = check_share("leakage", leakage, "[0, 1)")
        above, below = list[Array](), list[Array]()
        for run in runs:
            removes = run.injected < 0
            sizes = np.full(len(run.means), run.size)
            above.append(np.stack([run.levels(rate), run.means, sizes, run.standard_errors])[:, ~removes])
            if removes.any():
                masses = mass_of_injected(run.injected)
                below.append(np.stack([masses, run.means, run.standard_errors, run.kept])[:, removes])
        p, b, n, errors = np.concatenate(above, axis=1)
        unmixed = np.concatenate(below, axis=1)
        unmixed = unmixed[:, np.argsort(unmixed[0])]
        return self.fit_points(p, b, n.astype(int), standard_errors=errors, unmixed=Unmixed(*unmixed))

    @property
    def unmixing_(self) -> UnmixedSolution | None:
        """What the losses below the leakage rate say; None where there were none."""
        solution = self._fitted()
        return solution if isinstance(solution, UnmixedSolution) else None

    def _solve(self, points: Points) -> AverageSolution:
        points.require_levels(3, "a learning curve")
        limit: Any = self.largest
        if isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or math.isnan(limit):
            raise InputError(f"largest must be a number, got {short(limit)}.")
        # A size with a single level says nothing about the height of its curve.
        sizes, counts = np.unique(points.sizes, return_counts=True)
        if counts[-1] < 2:
            raise InputError(f"n must give the largest size, {sizes[-1]}, at least two levels of p, got one.")
        rungs = [Rung.of(points, size) for size in sizes[counts > 1]]
        loss = rungs[-1].lowest_loss
        comparable = tuple(rung for rung in rungs if rung.lowest_loss - loss <= abs(loss))
        return AverageSolution(points, ShapeAverage(comparable, rungs[-1].at_highest, self.largest))

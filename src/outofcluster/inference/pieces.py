r"""Two estimates of the optimism where whole pieces of entities leak, and how they are put together.

*By the curve.* Cuts are imitated, and the gain from a piece that trains is extrapolated to ρ0
(:mod:`outofcluster.inference.pooled`). This is precise, but it supposes that linkage cuts entities as the imitation
does. Where it chips single records off large entities, an imitated piece teaches more than a real one, and the optimism
comes out too large.

*By pieces.* Models are trained without the likeliest pieces of held-out entities, and without as many other clusters
(:mod:`outofcluster.sampling.resamplers`). With Δ the mean difference of the two losses over the held-out records that
lose a piece, a record of an entity that also trains gains Δ, and a share ρ0 of all records is of this kind:

.. math:: O_B = ρ_0 Δ .

These are real pieces, so that no law of cuts is supposed. Nor does it matter how many of the pieces are found: Δ is a
mean over those that are. What is supposed is that the others matter as much. Some of the clusters that are left out are
no pieces, but look like some. If they teach a model less than pieces do, Δ is too small, and if those that are hard to
find teach less, it is too large.

*Together.* The cuts may be wrong by a relative error with standard deviation α = 1/2, and the choice of pieces by one
of β = 1/5. With :math:`s_A^2` the Monte-Carlo variance of the curve's optimism and :math:`s_B^2` the variance of O_B,
by the influences of the held-out clusters and by the fits, but at least :math:`γ^2 O_A^2/m`,

.. math:: O = (1-w) O_A + w O_B, \qquad
          w = \frac{s_A^2 + α^2 O_A^2}{s_A^2 + α^2 O_A^2 + s_B^2 + β^2 O_B^2} .

m is the number of clusters that lose a piece. Most of them gain little and a few gain much, so that a sample of few
clusters in which no large gain occurs has a small mean *and* a small spread. The gains of clusters vary by about
γ = 1.4 times their mean, and the least variance is what such gains with the mean of the curve's would have.

The interval has :math:`w(1-w)(O_A - O_B)^2 + w^2 β^2 O_B^2` in it for the choice between the two, and what the least
variance adds. Both estimates vanish at ρ0 = 0. Where no piece is found w is 0, and the curve stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass

_OF_CUTS, _OF_PIECES, _OF_GAINS = 0.5, 0.2, 1.4
"""α, β and γ: relative errors of the imitated cuts and of the choice of pieces, and the relative spread of gains."""


@dataclass(frozen=True)
class TwoReadings:
    """The optimism by the curve and by pieces that were left out.

    Attributes
    ----------
    by_curve, by_pieces : float
        The two estimates.
    curve_variance, pieces_variance : float
        Variance of each from noise.
    n_clusters : int
        Held-out clusters that lose a piece.
    """

    by_curve: float
    by_pieces: float
    curve_variance: float
    pieces_variance: float
    n_clusters: int

    @property
    def weight(self) -> float:
        """w: how much the estimate by pieces counts."""
        of_curve = self.curve_variance + (_OF_CUTS * self.by_curve) ** 2
        of_pieces = self.pieces_variance + self._unseen + (_OF_PIECES * self.by_pieces) ** 2
        return of_curve / (of_curve + of_pieces) if of_curve > 0 else 0.0

    @property
    def _unseen(self) -> float:
        """What is missing to the least variance of the estimate by pieces."""
        return max((_OF_GAINS * self.by_curve) ** 2 / max(self.n_clusters, 1) - self.pieces_variance, 0.0)

    @property
    def value(self) -> float:
        """The weighted mean of both."""
        return (1 - self.weight) * self.by_curve + self.weight * self.by_pieces

    @property
    def choice(self) -> float:
        """Variance of the choice between the two."""
        apart, of_pieces = self.by_curve - self.by_pieces, self._unseen + (_OF_PIECES * self.by_pieces) ** 2
        return self.weight * (1 - self.weight) * apart**2 + self.weight**2 * of_pieces

r"""Probabilities of single records that they leaked: the rate that follows, and whether the records agree with them.

With q_j the probability that record j of T̂ belongs to a held-out cluster, the rate of a fold is the mean of q over T̂.
Which records leaked is chance, so that the share that did differs from it with the variance
:math:`\sum_j q_j(1-q_j)/n^2`.

*What the records themselves add.* With r the density ratio of V̂ to T̂ (:mod:`outofcluster.evidence.sides`) and
ε the rate that the data show (:mod:`outofcluster.leakage.data`), a leaked record is :math:`Λ = r(1-ε)/(1-εr)` times as
likely as a clean one to have such features and target. Where q knows nothing of these, such as that of a linkage tool
which compares names, Bayes' rule gives the probability given both,

.. math:: \frac{q'}{1-q'} = \frac{q}{1-q}\,Λ^{1-d} ,

with d = 0. Where q is a probability given features and target already, d = 1 and q' = q. *How much q knows of them* is
read off the q-weighted mean of the scores f of T̂'s records: it is :math:`(a/\bar q) F_V + (1 - a/\bar q) α` in the
first case, with a the mean of q², F_V the mean score of V̂ and α that of clean records, and F_V in the second. Where it
lies between the two is the share d. Probabilities that are too low have the same effect, though a smaller one: d counts
as 0 below a half.

*Whether q is right.* If all odds are wrong by a factor exp(-c), the derivative of the log likelihood
:math:`\sum_j \log(q_j Λ_j + 1 - q_j)` by c is :math:`U = \sum_j (q'_j - q_j)` at c = 0, with the information
:math:`I = \sum_j (q'_j - q_j)^2`. So :math:`z = U/\sqrt I` is standard normal where q is right (the score test), and
exp(U/I) estimates the factor that the odds lack. Where q knows features and target, only its mean can be compared with
the rate that the data show.

Where the sides can hardly be told apart (an AUC below 0.75), the estimated Λ is too rough for this test. There another
one is made, with less power, which trusts the scores only to be those of one law for leaked and held-out records:
:math:`E[f | q] = α + q\,(F_V - α)` if q is right, so that the regression of f on q, continued to q = 1, meets F_V.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from outofcluster._base.arguments import Array
from outofcluster.evidence.sides import Sides
from outofcluster.evidence.suspects import RateCheck
from outofcluster.leakage.data import estimate_rate
from outofcluster.leakage.rate import Leakage

# AUC from which the likelihood ratio is good enough to judge probabilities by it.
_TOLD_APART = 0.75
_KNOWS_FROM = 0.5
# The least share of clean records among those that look alike, so that no likelihood ratio is without bound.
_LEAST_CLEAN = 0.05


def rate_of_records(probabilities: Array) -> Leakage:
    """The rate of a fold whose training records leak with these probabilities, independently.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.leakage.records import rate_of_records
    >>> print(rate_of_records(np.array([0.0, 0.0, 0.5, 0.5])))
    25% ± 17.7% of the training records leak (95% interval 4.99% to 67.9%)
    """
    std = math.sqrt(float((probabilities * (1 - probabilities)).sum())) / len(probabilities)
    return Leakage(float(probabilities.mean()), std or None, "train")


def check_record_rates(probabilities: Array, sides: Sides) -> RateCheck:
    """Compare the probabilities of a fold's training records with how much they look like held-out records."""
    known = _known(probabilities, expit(sides.score_train), float(expit(sides.score_validation).mean()))
    if known > 0:
        return RateCheck(0.0, 0.0, known)
    if sides.auc < _TOLD_APART:
        return _by_regression(probabilities, expit(sides.score_train), expit(sides.score_validation))
    moved = _updated(probabilities, sides.ratio_train, estimate_rate(sides).rate, 1.0) - probabilities
    return RateCheck(float(moved.sum()), float((moved**2).sum()), known)


def _by_regression(q: Array, f: Array, of_held_out: Array) -> RateCheck:
    """Whether the regression of the scores on q, continued to q = 1, meets the mean score of V̂."""
    centred = q - q.mean()
    if not float(centred @ centred) > 1e-12 * len(q):
        return RateCheck(0.0, 0.0, 0.0)
    slope = float(centred @ f / (centred @ centred))
    residuals = f - f.mean() - slope * centred
    # The value at 1 is a weighted sum of scores.
    weights = 1 / len(q) + (1 - q.mean()) * centred / (centred @ centred)
    variance = float(weights**2 @ residuals**2) + float(of_held_out.var()) / max(len(of_held_out) - 1, 1)
    clean = float(f.mean()) - slope * float(q.mean())
    apart = float(of_held_out.mean()) - clean
    z = (slope - apart) / math.sqrt(variance) if variance > 0 else 0.0
    if apart <= 0 or z == 0:
        return RateCheck(0.0, 0.0, 0.0)
    # As a score and an information with the same z and the factor that the slope shows.
    logarithm = math.log(max(slope / apart, math.exp(-3)))
    return RateCheck(z**2 / logarithm, (z / logarithm) ** 2, 0.0) if logarithm else RateCheck(0.0, 0.0, 0.0)


def informed_rates(probabilities: Array, sides: Sides, known: float) -> Array:
    """The probabilities of having leaked once features and target are taken into account as well."""
    return _updated(probabilities, sides.ratio_by_part, estimate_rate(sides).rate, 1 - known)


def _updated(q: Array, ratio: Array, rate: float, power: float) -> Array:
    """Probabilities q with their odds multiplied by the likelihood ratio of a leaked and a clean record, to a power."""
    evidence = ratio * (1 - rate) / np.maximum(1 - rate * ratio, _LEAST_CLEAN)
    # Certain records stay certain, whatever they look like.
    multiplied = q * evidence**power
    updated: Array = np.where(q < 1, multiplied / (multiplied + np.maximum(1 - q, 1e-300)), 1.0)
    return updated


def _known(q: Array, f: Array, held_out: float) -> float:
    """d, and 0 where it is within its noise or small."""
    if not q.any():
        return 0.0
    rate, sharpness = float(q.mean()), float((q**2).mean() / q.mean())
    clean = (float(f.mean()) - rate * held_out) / (1 - rate)
    weighted = float(q @ f / q.sum())
    least = sharpness * held_out + (1 - sharpness) * clean
    noise = math.sqrt(float((q**2) @ (f - weighted) ** 2)) / float(q.sum())
    if held_out - least <= 0 or weighted - least < 2 * noise:
        return 0.0
    share = min((weighted - least) / (held_out - least), 1.0)
    return share if share > _KNOWS_FROM else 0.0

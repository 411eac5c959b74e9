r"""What the records themselves say about p0: an estimate, an upper bound, and a check of probabilities.

**The bound.** Let L of the n_T records of T̂ have leaked, so that p0 = L/n_T. Leaked records and the n_V records of V̂
are exchangeable: which of them ended up where is chance. Take a region of (x, y) that was chosen without looking at
these records, and let a records of T̂ and b records of V̂ fall into it. At most a of the L leaked records did. Suppose
that L + n_V records, of which a + b are in the region, are dealt at random into L and n_V. The probability that at most
a of the L are in the region is

.. math:: \sum_{x \le a} \binom{a+b}{x} \binom{L + n_V - a - b}{L - x} \Big/ \binom{L + n_V}{L} ,

which decreases in L. The largest L for which it exceeds α gives a bound, whatever the laws are and however bad the
scores: bad scores make it large, not wrong. T̂ may hold records that merely look like V̂, so it is a bound, and no more.

Regions are {score ≥ t}. For every fold of the cross-fit t is chosen on the other folds, and records are counted in this
fold; a and b are the sums over folds. So there is no choice among regions left to pay for. The folds are still not
quite independent, because each fold's scores come from models that saw the others. Worked out at α = 5 %, the bound
held in 92 % and 94 % of about 100 data sets each of two simulated worlds in which the sides are told apart so well that
nothing makes it conservative, and in 99 % or more in six other worlds. The bound is therefore worked out at α/2. This
one constant was settled on those two worlds. On new draws of one of them and of two others, 120 data sets each, the
bound then held in 97 to 98 %.

**The estimate.** With F = b/n_V the share of V̂ in the region, the ratio (a/n_T)/F is p0 where the region holds no
record of T's own, and too high by those that it holds. The ceiling ε of the stack
(:mod:`outofcluster.evidence.sides`) allows for them, but where the sides separate completely every ε from 0
to p0 fits equally well. So

.. math:: \hat p_0 = (1 - F^2)\,\min(ε, \text{ratio}) + F^2\,\text{ratio} .

Where the sides cannot be told apart (AUC below 0.75) the estimate means little, and only the bound can be relied on.

**Probabilities of single records.** With q_j the probability that record j of T̂ belongs to a held-out cluster, the
rate of a fold is the mean of q over T̂. Which records leaked is chance, so that the share that did differs from it with
the variance :math:`\sum_j q_j(1-q_j)/n^2`.

*What the records themselves add.* With r the density ratio of V̂ to T̂ (:mod:`outofcluster.evidence.sides`) and
ε the rate that the data show, a leaked record is :math:`Λ = r(1-ε)/(1-εr)` times as
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
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import hypergeom

from outofcluster._base.arguments import Array, check_choice
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import check_records, take_rows, target_array
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster._base.threads import one_thread
from outofcluster.evidence.encoding import is_discrete
from outofcluster.evidence.laws import AssumedCuts, Cuts
from outofcluster.evidence.likely import Z95, SeenPieces, look_for_pieces
from outofcluster.evidence.sides import RateCheck, Sides, tell_sides_apart
from outofcluster.problem.folds import Clusters, Fold, Rows, looks_linked, make_folds

# Thresholds that are tried: quantiles of V̂'s scores.
_THRESHOLDS = 40
# α of the bound, and the share of it at which the bound is worked out; see above.
_ALPHA, _SAFETY = 0.05, 0.5
# Imitated cuts of every cluster.
_CUTS = 4
# Records on either side that a rate needs.
_LEAST_RECORDS = 10
# AUC from which the likelihood ratio is good enough to judge probabilities by it.
_TOLD_APART = 0.75
# Share of features and target from which the probabilities of records count as knowing them.
_KNOWS_FROM = 0.5
# The least share of clean records among those that look alike, so that no likelihood ratio is without bound.
_LEAST_CLEAN = 0.05
# What is said about probabilities of which features and target say nothing.
_NO_CHECK = RateCheck(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class DataRate:
    """An estimate of p0 from the data alone, its upper bound, and the standard error that fits their distance."""

    rate: float
    upper: float
    std: float


def read_data(X: Any, y: Any, groups: Any, cv: Any, error_model: Any) -> tuple[Any, tuple[Fold, ...], Rows, str]:
    """Checked records, folds and clusters, and the error model that they suggest where none was chosen."""
    X = check_records(X)
    if y is not None:
        target_array(y)
    folds = make_folds(X, y, groups, cv)
    clusters = Clusters.of(groups, None).codes
    check_choice("error_model", error_model, ("auto", "records", "fragments"))
    if error_model == "auto":
        linked = looks_linked([clusters[fold.validation] for fold in folds])
        error_model = "fragments" if linked else "records"
    return X, folds, clusters, error_model


def rate_of_records_data(
    X: Any, y: Any, folds: Sequence[Fold], clusters: Rows, discriminator: Any, random_state: RandomState
) -> DataRate:
    """The rate of a cross-validation from which single records leak, over all its folds."""
    _check(y, folds)
    seeds = np.random.SeedSequence(seed_of(random_state)).spawn(len(folds))
    choices = {"classifier": discriminator, "discrete": y is not None and is_discrete(y), "parts": False}
    rates = []
    with one_thread():
        for fold, seed in zip(folds, seeds, strict=True):
            rows = (fold.train, fold.validation)
            rates.append(estimate_rate(tell_sides_apart(X, y, *rows, clusters=clusters, seed=seed, **choices)))
    return over_folds(rates)


def pieces_in_data(
    X: Any, y: Any, folds: Sequence[Fold], clusters: Rows, identity: Any, random_state: RandomState
) -> SeenPieces:
    """What the records of a cross-validation show about split entities."""
    cut_seed, pair_seed = np.random.SeedSequence(seed_of(random_state)).spawn(2)
    cuts = Cuts.draw(clusters, _CUTS, AssumedCuts(), np.random.default_rng(cut_seed))
    discrete = y is not None and is_discrete(y)
    options = {"cuts": cuts, "seed": pair_seed, "discrete": discrete, "identity": identity}
    return look_for_pieces(X, y, clusters, folds, **options).seen


def _check(y: Any, folds: Sequence[Fold]) -> None:
    """Refuse folds for which no rate of single records can come from the data, before anything is fitted."""
    for fold in folds:
        for name, rows in (("training", fold.train), ("validation", fold.validation)):
            if len(rows) < _LEAST_RECORDS:
                raise InputError(
                    f"cv must leave at least {_LEAST_RECORDS} {name} records in every fold for a rate from the data, "
                    f"got {len(rows)} in fold {fold.index}."
                )
            if y is not None and is_discrete(y):
                first = np.asarray(take_rows(y, rows[:1]))[0]
                if np.all(np.asarray(take_rows(y, rows)) == first):
                    raise InputError(
                        f"y must have at least two classes on both sides for a rate from the data, got only {first} "
                        f"among the {name} records of fold {fold.index}."
                    )


def estimate_rate(sides: Sides) -> DataRate:
    """Estimate p0 and bound it from above, from out-of-fold scores."""
    a = b = 0
    for k in range(int(max(sides.fold_train.max(), sides.part.max())) + 1):
        train, validation = sides.fold_train == k, sides.part == k
        threshold = _best_threshold(sides.score_train[~train], sides.score_validation[~validation])
        a += int((sides.score_train[train] >= threshold).sum())
        b += int((sides.score_validation[validation] >= threshold).sum())
    n_train, n_validation = len(sides.score_train), len(sides.score_validation)
    share = b / n_validation
    ratio = min(1.0, a / n_train / share) if b else 1.0
    upper = largest_count(a, b, n_train, n_validation, _SAFETY * _ALPHA) / n_train
    rate = (1 - share**2) * min(sides.ceiling, ratio) + share**2 * ratio
    if a == 0 and b and sides.ceiling < 2e-4:  # The least ε that the stack can have stands for none.
        rate = 0.0
    rate = min(rate, upper, 1 - 1 / n_train)
    return DataRate(rate, upper, (upper - rate) / Z95)


def over_folds(rates: Sequence[DataRate]) -> DataRate:
    """The rate of several folds: means over them.

    The mean of the folds' bounds is the bound for the mean of their rates. The folds share records, so that their
    errors may go together, and nothing is gained by pretending that they do not.
    """
    return DataRate(*(float(np.mean([getattr(rate, field.name) for rate in rates])) for field in fields(DataRate)))


def largest_count(a: int, b: int, n_train: int, n_validation: int, alpha: float) -> int:
    """Largest number of leaked records, at most n_train, that a and b records in the region allow."""
    if b == 0 or _tail(a, b, n_train, n_validation) > alpha:
        return n_train
    # The tail exceeds α at the lower end, and not at the upper one.
    return a + bisect_left(range(a + 1, n_train), True, key=lambda m: _tail(a, b, m, n_validation) <= alpha)


def _tail(a: int, b: int, leaked: int, n_validation: int) -> float:
    """P(at most a of the a + b records in the region are among the leaked ones)."""
    return float(hypergeom.cdf(a, leaked + n_validation, a + b, leaked))


def _best_threshold(train: Array, validation: Array) -> float:
    """The threshold with the smallest bound, by a quick approximation: a normal law for the log of the ratio."""
    thresholds = np.unique(np.quantile(validation, np.linspace(0.02, 1, _THRESHOLDS)[:-1]))
    a = len(train) - np.searchsorted(np.sort(train), thresholds)
    b = np.maximum(len(validation) - np.searchsorted(np.sort(validation), thresholds), 1)
    outside = 1 - b / len(validation)
    bound = (a + 1) / b * np.exp(Z95 * np.sqrt(outside * (1 / (a + 1) + 1 / b)))
    return float(thresholds[np.argmin(bound)])


def rate_of_records(probabilities: Array) -> tuple[float, float | None]:
    """The rate of a fold whose training records leak with these probabilities, independently; its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.leakage.data import rate_of_records
    >>> rate, std = rate_of_records(np.array([0.0, 0.0, 0.5, 0.5]))
    >>> rate, round(std, 3)
    (0.25, 0.177)
    """
    std = math.sqrt(float((probabilities * (1 - probabilities)).sum())) / len(probabilities)
    return float(probabilities.mean()), std or None


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
        return _NO_CHECK
    slope = float(centred @ f / (centred @ centred))
    residuals = f - f.mean() - slope * centred
    # The value at 1 is a weighted sum of scores.
    weights = 1 / len(q) + (1 - q.mean()) * centred / (centred @ centred)
    variance = float(weights**2 @ residuals**2) + float(of_held_out.var()) / max(len(of_held_out) - 1, 1)
    clean = float(f.mean()) - slope * float(q.mean())
    apart = float(of_held_out.mean()) - clean
    z = (slope - apart) / math.sqrt(variance) if variance > 0 else 0.0
    if apart <= 0 or z == 0:
        return _NO_CHECK
    # As a score and an information with the same z and the factor that the slope shows.
    logarithm = math.log(max(slope / apart, math.exp(-3)))
    return RateCheck(z**2 / logarithm, (z / logarithm) ** 2, 0.0) if logarithm else _NO_CHECK


def informed_rates(probabilities: Array, sides: Sides, known: float) -> Array:
    """The probabilities of having leaked once features and target are taken into account as well."""
    return _updated(probabilities, sides.ratio_by_part, estimate_rate(sides).rate, 1 - known)


def _updated(q: Array, ratio: Array, rate: float, power: float) -> Array:
    """Probabilities q with their odds multiplied by the likelihood ratio of a leaked and a clean record, to a power."""
    evidence = ratio * (1 - rate) / np.maximum(1 - rate * ratio, _LEAST_CLEAN)
    # Certain records stay certain, whatever they look like.
    multiplied = q * evidence**power
    return np.where(q < 1, multiplied / (multiplied + np.maximum(1 - q, 1e-300)), 1.0)


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

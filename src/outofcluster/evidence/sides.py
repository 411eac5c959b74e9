r"""What tells the held-out records from the training records: the density ratio of V̂ to T̂, cross-fitted.

Let V̂ have the law P_V of (x, y), and T̂ the law (1-p0) P_T + p0 P_V, since a share p0 of its records leaked. A
classifier that tells V̂ from T̂ gives r(x, y) = dP_V/dT̂ at every record: its odds times \|T̂\|/\|V̂\|.

Folds are by record, dealt within clusters, and cut both sides at once: fold k leaves out its records of T̂ and of V̂.
They must not be by cluster. r is the ratio for *these* clusters, and a leaked record is recognised by the rest of its
own cluster, which must be among what was learned from. With folds by record, a leaked record of T̂ and a record of V̂ in
the same fold are scored by one model that saw neither: they are exchangeable, which is all that the bound for p0 needs.

For weights of training sets V̂ must be cross-fitted as well: when part h of V̂ is scored, the weights come from models
that saw neither the weighted record nor part h. Parts are folds: for the records of T̂ in fold j and part h of V̂, a
model is taught by the other folds of T̂ and the other parts of V̂, with three folds by two thirds of both sides.

**The members stacked, with a ceiling.** T̂ has the law (1-p0) P_T + p0 P_V, so with u = log dP_V/dP_T

.. math:: \frac1r = \frac{dT̂}{dP_V} = p_0 + (1-p_0)\,e^{-u} :

r never exceeds 1/p0. The stack has this form, with u = α + Σ_m w_m η_m, weights w ≥ 0 of the members' log ratios η_m,
and a ceiling 1/ε that is learned with them. ε is the maximum-likelihood estimate of p0 under this model (logistic
regression with an asymptote: presence-only regression, Ward et al. 2009).

The weights are drawn towards each other, weakly, and their sum towards 1, as it is for log ratios that mean what they
say. Where few records lie between the sides, this is what tells their overlap from the ceiling.

It is cross-fitted over the same folds as the members: the stack that scores a record was not taught by it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from outofcluster._base.exceptions import InputError
from outofcluster.evidence.encoding import Floats, Ints, encode
from outofcluster.evidence.members import Members, check_classifier, some_of_both

# Values of ε from which the stack is fitted: the likelihood may have several maxima.
_FIRST_CEILINGS = (0.02, 0.1, 0.3)
# Steps of the optimiser from each start, and from the best point that they reach.
_STEPS = (6, 60)
# Penalties of the weights: towards each other, and of their sum towards 1.
_EVEN, _SUM = 1.0, 10.0
_BOUNDS_INTERCEPT, _BOUNDS_WEIGHT, _BOUNDS_CEILING = (-10, 10), (0, 5), (1e-4, 0.95)
# Records that teach a stack, drawn at random where there are more.
_MOST_TAUGHT = 20_000


@dataclass(frozen=True, eq=False)
class Stack:
    """Weights and ceiling: of all records, and for each fold those without its records.

    Attributes
    ----------
    whole : array of shape (members + 2,)
        Intercept, weights and ceiling that all records teach.
    without_fold : array of shape (folds, members + 2)
        The same, taught without the records of each fold.
    """

    whole: Floats
    without_fold: Floats

    def log_ratio(self, by_member: Floats, fold: Ints) -> Floats:
        """Log r of records in these folds, from the members' log ratios, one column per member."""
        stacked = np.empty(len(fold))
        for k, theta in enumerate(self.without_fold):
            stacked[fold == k] = _log_ratio(theta, by_member[fold == k])[0]
        return stacked


def fit_stack(by_member: Floats, side: Ints, fold: Ints, order: Floats) -> Stack:
    """Fit the stack to all records, and once without each fold."""
    everyone = np.arange(len(side))
    # Each stack has starts of its own: one that began at the fit to all records would know of those it scores.
    taught = [everyone, *(np.flatnonzero(fold != k) for k in range(int(fold.max()) + 1))]
    some = [some_of_both(rows, side, order, _MOST_TAUGHT) for rows in taught]
    whole, *without_fold = [_fit(by_member[rows], side[rows]) for rows in some]
    return Stack(whole, np.array(without_fold))


def _fit(by_member: Floats, side: Ints) -> Floats:
    """Intercept, weights and ceiling: a few steps from several starts, then on from the best point."""
    from scipy.optimize import minimize

    members = by_member.shape[1]
    bounds = [_BOUNDS_INTERCEPT] + [_BOUNDS_WEIGHT] * members + [_BOUNDS_CEILING]

    known = (by_member, side, float(logit(side.mean())))

    def descend(start: Floats, steps: int) -> Any:
        options = {"maxiter": steps}
        return minimize(_objective, start, known, jac=True, bounds=bounds, method="L-BFGS-B", options=options)

    starts = (np.array([0.0, *np.full(members, 1 / members), ceiling]) for ceiling in _FIRST_CEILINGS)
    best = min((descend(start, _STEPS[0]) for start in starts), key=lambda fit: float(fit.fun))
    return np.asarray(descend(best.x, _STEPS[1]).x)


def _log_ratio(theta: Floats, by_member: Floats) -> tuple[Floats, Floats, Floats]:
    """Log r, and its derivatives by u and by ε."""
    u = np.clip(theta[0] + by_member @ theta[1:-1], -30, 30)
    away, ceiling = np.exp(-u), theta[-1]
    inverse = ceiling + (1 - ceiling) * away
    return -np.log(inverse), (1 - ceiling) * away / inverse, (away - 1) / inverse


def _objective(theta: Floats, by_member: Floats, side: Ints, log_odds: float) -> tuple[float, Floats]:
    """Minus the log likelihood, with the penalties, and its gradient."""
    log_ratio, by_u, by_ceiling = _log_ratio(theta, by_member)
    eta = log_odds + log_ratio
    uneven = theta[1:-1] - 1 / by_member.shape[1]
    penalty = 0.5 * (_EVEN * uneven @ uneven + _SUM * uneven.sum() ** 2)
    p = expit(eta)
    value = -np.log1p(-p).sum() - eta @ side + penalty
    slope = p - side
    by_weights = by_member.T @ (slope * by_u) + _EVEN * uneven + _SUM * uneven.sum()
    return float(value), np.concatenate([[slope @ by_u], by_weights, [slope @ by_ceiling]])


# Folds of the cross-fit, and parts of V̂. The number of models grows with the square, what each model lacks shrinks.
_FOLDS = 3
# Weight in the stack from which a member is worth fitting again for every part of V̂.
_LEAST_WEIGHT = 0.1


@dataclass(frozen=True, eq=False)
class Sides:
    """What the records say about their side, each by models that never saw it.

    Attributes
    ----------
    ratio_by_part : array of shape (parts, records of T̂)
        r at the records of T̂ for every part of V̂, by models that saw neither the record nor the part.
    ratio_validation : array of shape (records of V̂,)
        r at the records of V̂.
    part : array of int of shape (records of V̂,)
        Part of each record of V̂, which is its fold.
    ratio_train : array of shape (records of T̂,)
        r at the records of T̂, by models that saw all parts of V̂ but one.
    score_train, score_validation : array
        The logit of being held out, an increasing function of r.
    fold_train : array of int
        Fold of every record of T̂: models of the other folds gave its score.
    auc, log_loss : float
        Quality of the scores. ``log_loss`` is relative to knowing only the sizes of the sides: below 1 is useful.
    ceiling : float
        ε of the stack, whose largest ratio is 1/ε: an estimate of p0.
    """

    ratio_by_part: Floats
    ratio_validation: Floats
    part: Ints
    ratio_train: Floats
    score_train: Floats
    score_validation: Floats
    fold_train: Ints
    auc: float
    log_loss: float
    ceiling: float


def tell_sides_apart(
    X: Any,
    y: Any,
    train: Any,
    validation: Any,
    *,
    clusters: Any,
    seed: np.random.SeedSequence | int | None,
    classifier: Any = None,
    estimator: Any = None,
    discrete: bool | None = None,
    parts: bool = True,
) -> Sides:
    """Cross-fit the density ratio of V̂ to T̂ over both sides.

    Examples
    --------
    >>> from outofcluster.evidence.sides import tell_sides_apart
    >>> rng = np.random.default_rng(0)
    >>> clusters = np.repeat(np.arange(5), 40)
    >>> X = rng.standard_normal((5, 3))[clusters] + 0.2 * rng.standard_normal((200, 3))
    >>> train, validation = np.arange(160), np.arange(160, 200)
    >>> sides = tell_sides_apart(X, X[:, 0], train, validation, clusters=clusters, seed=0)
    >>> sides.auc > 0.99, sides.ratio_by_part.shape
    (True, (3, 160))
    """
    if classifier is not None:
        check_classifier(classifier)
    train, validation = np.asarray(train, dtype=np.int64), np.asarray(validation, dtype=np.int64)
    n, m = len(train), len(validation)
    if min(n, m) < 2:
        raise InputError(f"train and validation must hold at least 2 records each to be told apart, got {n} and {m}.")
    rows = np.concatenate([train, validation])
    side = np.repeat([0, 1], [n, m])
    codes = np.unique(np.asarray(clusters)[rows], return_inverse=True)[1].astype(np.int64)
    rng = np.random.default_rng(seed)
    fold = _deal(rng, side, codes, min(_FOLDS, n, m))
    records = encode(X, y, rows, estimator=estimator, discrete=discrete)
    members = Members(records, codes, side, rng.random(len(rows)), classifier)
    by_member = _out_of_fold(members, fold, rng)
    stack = fit_stack(by_member, side, fold, members.order)
    log_ratio = stack.log_ratio(by_member, fold)
    scores = log_ratio + logit(side.mean())
    by_part = _log_ratio_by_part(members, stack, by_member, fold, rng) if parts else np.empty((0, n))
    return Sides(
        ratio_by_part=np.exp(by_part),
        ratio_validation=np.exp(log_ratio[n:]),
        part=fold[n:],
        ratio_train=np.exp(log_ratio[:n]),
        score_train=scores[:n],
        score_validation=scores[n:],
        fold_train=fold[:n],
        auc=auc(scores[n:], scores[:n]),
        log_loss=_relative_log_loss(scores, side),
        ceiling=float(stack.whole[-1]),
    )


def _deal(rng: np.random.Generator, side: Ints, clusters: Ints, n_folds: int) -> Ints:
    """Folds by record, dealt within clusters one after the other: even within sides, and nearly so within clusters."""
    order = np.lexsort((rng.random(len(side)), clusters, side))
    fold = np.empty(len(side), dtype=np.int64)
    for s in (0, 1):
        rows = order[side[order] == s]
        fold[rows] = (np.arange(len(rows)) + rng.integers(n_folds)) % n_folds
    return fold


def _out_of_fold(members: Members, fold: Ints, rng: np.random.Generator) -> Floats:
    """The members' log ratios at all records, one column per member, by models of the other folds."""
    by_member = np.empty((len(fold), len(members.names)))
    for k in range(int(fold.max()) + 1):
        taught, new = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        for m, name in enumerate(members.names):
            by_member[new, m] = members.log_ratio(name, taught, new, _seed(rng))
    return by_member


def _log_ratio_by_part(
    members: Members, stack: Stack, by_member: Floats, fold: Ints, rng: np.random.Generator
) -> Floats:
    """Log r at the records of T̂ for every part of V̂, from models that saw neither; shape (parts, records of T̂).

    Members that hardly count in the stack are not fitted again: theirs are the log ratios with one fold left out.
    """
    n, n_folds = int((members.side == 0).sum()), int(fold.max()) + 1
    train_fold = fold[:n]
    # Parts of the same fold as the record have the log ratios with this fold left out.
    by_part = np.tile(stack.log_ratio(by_member[:n], train_fold), (n_folds, 1))
    for part, of in itertools.permutations(range(n_folds), 2):
        taught = np.flatnonzero(np.where(members.side == 1, fold != part, fold != of))
        new = np.flatnonzero(train_fold == of)
        again = by_member[new]
        for m, name in enumerate(members.names):
            if stack.whole[1 + m] >= _LEAST_WEIGHT:
                again[:, m] = members.log_ratio(name, taught, new, _seed(rng), again=True)
        by_part[part, new] = stack.log_ratio(again, train_fold[new])
    return by_part


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1000))


def auc(high: Floats, low: Floats) -> float:
    """Probability that a score of the first kind is higher than one of the second, ties counted half."""
    order = np.sort(low)
    twice = np.searchsorted(order, high, "left").sum() + np.searchsorted(order, high, "right").sum()
    return float(twice / 2 / (len(high) * len(low)))


def _relative_log_loss(scores: Floats, side: Ints) -> float:
    """Log loss of the scores over that of the sizes of the sides."""
    loss = np.mean(np.logaddexp(0, np.where(side == 1, -scores, scores)))
    share = side.mean()
    return float(loss / -(share * np.log(share) + (1 - share) * np.log1p(-share)))


# The largest logarithm of a factor that is believed.
_LARGEST_STEP = 3.0


@dataclass(frozen=True)
class RateCheck:
    """What features and target of records say about their probabilities.

    Attributes
    ----------
    score : float
        U: by how many records the probabilities rise in all when features and target are taken into account.
    information : float
        I: the variance of that if the probabilities are right.
    known : float
        d: how much the probabilities know of features and target, from 0 to 1.
    """

    score: float
    information: float
    known: float

    @classmethod
    def pooled(cls, checks: Sequence[RateCheck]) -> RateCheck | None:
        """Those of all folds together, whose held-out clusters are different ones; None without any."""
        if not checks:
            return None
        known = sum(check.known for check in checks) / len(checks)
        return cls(sum(check.score for check in checks), sum(check.information for check in checks), known)

    @property
    def factor(self) -> float:
        """By what the odds of all records would have to be multiplied."""
        if self.information <= 0:
            return 1.0
        return math.exp(min(max(self.score / self.information, -_LARGEST_STEP), _LARGEST_STEP))

    @property
    def z(self) -> float:
        """The score in standard errors; negative where the probabilities are too high."""
        return self.score / math.sqrt(self.information) if self.information > 0 else 0.0

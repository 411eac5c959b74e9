r"""What tells the held-out records from the training records: the density ratio of V̂ to T̂, cross-fitted.

Let V̂ have the law P_V of (x, y), and T̂ the law (1-p0) P_T + p0 P_V, since a share p0 of its records leaked. A
classifier that tells V̂ from T̂ gives r(x, y) = dP_V/dT̂ at every record: its odds times \|T̂\|/\|V̂\|.

Folds are by record, dealt within clusters, and cut both sides at once: fold k leaves out its records of T̂ and of V̂.
They must not be by cluster. r is the ratio for *these* clusters, and a leaked record is recognised by the rest of its
own cluster, which must be among what was learned from. With folds by record, a leaked record of T̂ and a record of V̂ in
the same fold are scored by one model that saw neither: they are exchangeable, which is all that the bound for p0 needs.

For weights of training sets V̂ must be cross-fitted as well: when part h of V̂ is scored, the weights come from models
that saw neither the weighted record nor part h. Parts are folds, so that a model without the folds j and h serves both
ways: T̂'s records of fold j with part h, and those of fold h with part j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from outofcluster._base.exceptions import InputError
from outofcluster.split.discriminator.encoding import Floats, Ints, encode
from outofcluster.split.discriminator.members import Members, check_classifier
from outofcluster.split.discriminator.stack import Stack, fit_stack

__all__ = ["Sides", "tell_sides_apart"]

_FOLDS = 5
"""Folds of the cross-fit, and parts of V̂: the time grows with them, what each model lacks shrinks."""
_LEAST_WEIGHT = 0.1
"""Weight in the stack from which a member is worth fitting again for every part of V̂."""


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
    fold_train, fold_validation : array of int
        Fold of every record: models of the other folds gave its score.
    auc, log_loss : float
        Quality of the scores. ``log_loss`` is relative to knowing only the sizes of the sides: below 1 is useful.
    ceiling : float
        ε of the stack, whose largest ratio is 1/ε: an estimate of p0.
    weights : dict of str to float
        Weight of each member in the stack.
    """

    ratio_by_part: Floats
    ratio_validation: Floats
    part: Ints
    ratio_train: Floats
    score_train: Floats
    score_validation: Floats
    fold_train: Ints
    fold_validation: Ints
    auc: float
    log_loss: float
    ceiling: float
    weights: dict[str, float]


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

    Parameters
    ----------
    X : array, sparse matrix or frame of n records
        Features: numbers, categories, with missing values or without.
    y : array of shape (n,) or (n, outputs), or None
        Target.
    train, validation : array of int
        Rows of T̂ and of V̂.
    clusters : array of shape (n,)
        Approximate cluster of every record.
    seed : SeedSequence, int or None
        Where the randomness comes from; results are the same for the same seed.
    classifier : classifier, optional
        A classifier with ``predict_proba``, which replaces the ensemble. It is given encoded features and target.
    estimator : estimator, optional
        The user's model. Where it is a pipeline, its preprocessing is applied to the features first.
    discrete : bool, optional
        Whether the target holds classes; by default that is judged by its values.
    parts : bool, default=True
        Whether ``ratio_by_part`` is needed, which takes about half of the time; without, it has no rows.

    Returns
    -------
    Sides

    Examples
    --------
    >>> from outofcluster.split.discriminator import tell_sides_apart
    >>> rng = np.random.default_rng(0)
    >>> clusters = np.repeat(np.arange(5), 40)
    >>> X = rng.standard_normal((5, 3))[clusters] + 0.2 * rng.standard_normal((200, 3))
    >>> train, validation = np.arange(160), np.arange(160, 200)
    >>> sides = tell_sides_apart(X, X[:, 0], train, validation, clusters=clusters, seed=0)
    >>> sides.auc > 0.99, sides.ratio_by_part.shape
    (True, (5, 160))
    """
    if classifier is not None:
        check_classifier(classifier)
    train, validation = np.asarray(train, dtype=np.int64), np.asarray(validation, dtype=np.int64)
    n = len(train)
    if min(n, len(validation)) < 2:
        raise InputError(
            f"train and validation must hold at least 2 records each to be told apart, got {n} and {len(validation)}."
        )
    rows = np.concatenate([train, validation])
    side = np.repeat([0, 1], [n, len(validation)])
    codes = np.unique(np.asarray(clusters)[rows], return_inverse=True)[1].astype(np.int64)
    rng = np.random.default_rng(seed)
    fold = _deal(rng, side, codes, min(_FOLDS, n, len(validation)))
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
        fold_validation=fold[n:],
        auc=_auc(scores, side),
        log_loss=_relative_log_loss(scores, side),
        ceiling=stack.ceiling,
        weights=dict(zip(members.names, stack.whole[1:-1].tolist(), strict=True)),
    )


def _deal(rng: np.random.Generator, side: Ints, clusters: Ints, n_folds: int) -> Ints:
    """Folds by record, dealt within clusters one after the other: even within sides, and nearly so within clusters."""
    order = np.lexsort((rng.random(len(side)), clusters, side))
    fold = np.empty(len(side), dtype=np.int64)
    for s in (0, 1):
        own = order[side[order] == s]
        fold[own] = (np.arange(len(own)) + rng.integers(n_folds)) % n_folds
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
    by_part = np.empty((n_folds, n))
    own_fold = fold[:n]
    own_part = stack.log_ratio(by_member[:n], own_fold)
    for j in range(n_folds):
        by_part[j, own_fold == j] = own_part[own_fold == j]
        for h in range(j):
            left_out = (fold == j) | (fold == h)
            new = np.flatnonzero(left_out[:n])
            again = by_member[new]
            for m, name in enumerate(members.names):
                if stack.whole[1 + m] >= _LEAST_WEIGHT:
                    again[:, m] = members.log_ratio(name, np.flatnonzero(~left_out), new, _seed(rng), again=True)
            log_ratio = stack.log_ratio(again, own_fold[new])
            for part, of in ((h, j), (j, h)):
                by_part[part, new[own_fold[new] == of]] = log_ratio[own_fold[new] == of]
    return by_part


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1000))


def _auc(scores: Floats, side: Ints) -> float:
    """Probability that a record of V̂ has a higher score than one of T̂, ties counted half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    n, m = int((side == 0).sum()), int((side == 1).sum())
    return float((ranks[side == 1].sum() - m * (m + 1) / 2) / (n * m))


def _relative_log_loss(scores: Floats, side: Ints) -> float:
    """Log loss of the scores over that of the sizes of the sides."""
    loss = np.mean(np.logaddexp(0, np.where(side == 1, -scores, scores)))
    share = side.mean()
    return float(loss / -(share * np.log(share) + (1 - share) * np.log1p(-share)))

r"""Logistic regression whose labels in T̂ are uncertain.

T̂ has the law (1-ε) P_T + ε P_V: leaked records carry the wrong label. With η = log dP_V/dP_T, the probability that a
record of T̂ leaked is q = ε e^η / (ε e^η + 1 - ε). EM takes q as the label of that record, fits again, and sets ε to the
mean of q, for a few rounds. It starts from the labels as they are and ε = 0.1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from outofcluster.split.discriminator.encoding import Encoded, Floats, Ints, standardise

__all__ = ["FIRST_RATE", "ROUNDS", "logistic_log_ratio", "logistic_terms", "probability_of_leaking"]

FIRST_RATE = 0.1
"""Rate of leakage at which EM starts."""
ROUNDS = 3
"""Rounds of EM."""
_PENALTY = 1.0
"""Ridge penalty of all coefficients but the intercept, for standardised columns."""
_MOST_TERMS = 160
"""Columns of the regression, with products and squares."""
_MOST_ENTRIES = 20_000_000
"""Records times columns beyond which products and squares are left out."""


def probability_of_leaking(log_ratio: Floats, rate: float) -> tuple[Floats, float]:
    """For records of T̂ with these η: the probability that each one leaked, and the rate that follows."""
    leaked = expit(log_ratio + logit(rate))
    return leaked, float(np.clip(leaked.mean(), 1e-3, 0.6))


def logistic_terms(records: Encoded) -> Floats:
    """Columns of the regression: features, targets, their products, and squares, as far as there is room."""
    features, targets = records.features, records.targets
    blocks = [features, targets]
    room = min(_MOST_TERMS, _MOST_ENTRIES // len(features)) - features.shape[1] - targets.shape[1]
    for target in targets.T:
        if room >= features.shape[1]:
            blocks.append(features * target[:, None])
            room -= features.shape[1]
    # The square of a column with two values says nothing new.
    for columns in (features, targets):
        several = columns[:, [len(np.unique(column[:50])) > 2 for column in columns.T]]
        if room >= several.shape[1]:
            blocks.append(several**2)
            room -= several.shape[1]
    return standardise(np.column_stack(blocks))


def logistic_log_ratio(terms: Floats, side: Ints, new: Floats) -> Floats:
    """η at new records; ``side`` is 0 for the records of T̂ and 1 for those of V̂."""
    columns = np.column_stack([np.ones(len(terms)), terms])
    ridge = np.full(columns.shape[1], _PENALTY)
    ridge[0] = 1e-6
    labels = side.astype(np.float64)
    beta = _newton(columns, labels, ridge, np.zeros(columns.shape[1]))
    training, rate = side == 0, FIRST_RATE
    for _ in range(ROUNDS):
        # The intercept refers to the odds of the labels that were taught.
        labels[training], rate = probability_of_leaking(columns[training] @ beta - logit(labels.mean()), rate)
        beta = _newton(columns, labels, ridge, beta)
    return np.asarray(beta[0] + new @ beta[1:] - logit(labels.mean()))


def _newton(columns: Floats, labels: Floats, ridge: Floats, beta: Floats) -> Floats:
    """Logistic regression on labels in [0, 1] by Newton's method; steps that do not help are halved."""

    def objective(beta: Floats) -> float:
        eta = columns @ beta
        return float(np.logaddexp(0, eta).sum() - labels @ eta + 0.5 * ridge @ beta**2)

    value = objective(beta)
    for _ in range(20):
        p = expit(columns @ beta)
        curvature = (columns * np.maximum(p * (1 - p), 1e-5)[:, None]).T @ columns + np.diag(ridge)
        step = np.linalg.solve(curvature, columns.T @ (labels - p) - ridge * beta)
        size = 1.0
        while (after := objective(beta + size * step)) > value and size > 1e-3:
            size /= 2
        if after > value:
            break
        beta, gain, value = beta + size * step, value - after, after
        if gain < 1e-3:
            break
    return beta

r"""The members of the ensemble: each is taught by some records and gives log dP_V/dT̂ at others.

* ``logistic``: ridge regression on features, target, their products and squares, with EM;
* ``clusters``: one law for every approximate cluster, with EM;
* ``trees``: extremely randomised trees on features and target, which level off at 1/p0 by themselves;
* ``classifier``: a classifier of the user's, which replaces the three.

The first two give dP_V/dP_T instead, for which the stack (:mod:`outofcluster.evidence.sides`) has a ceiling.

**Logistic regression whose labels in T̂ are uncertain.** T̂ has the law (1-ε) P_T + ε P_V: leaked records carry the
wrong label. With η = log dP_V/dP_T, the probability that a record of T̂ leaked is q = ε e^η / (ε e^η + 1 - ε). EM takes
q as the label of that record, fits again, and sets ε to the mean of q, for a few rounds. It starts from the labels as
they are and ε = 0.1.

**The laws of both sides as mixtures.** There is one Student law for every approximate cluster, and for every class in
it. A component's mean borrows one record from its cluster's mean. A cluster's spread is its own, with 4 records per
column borrowed from the spread of the side; a cluster with fewer records than columns has the spread of the side. The
laws of a side are added up with their shares. Tails are those of 20 degrees of freedom, since distant records prove
nothing.

Leaked records would widen the laws of T̂'s clusters until they cover V̂. So what describes T̂ is learned by EM, with
the weight 1 - q for a record that leaked with probability q.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit, logsumexp

from outofcluster._base.exceptions import FitError, InputError, described
from outofcluster.evidence.encoding import Encoded, Floats, Ints, standardise

# Rate of leakage at which EM starts.
FIRST_RATE = 0.1
# Rounds of EM.
ROUNDS = 3
# Ridge penalty of all coefficients but the intercept, for standardised columns.
_PENALTY = 1.0
# Columns of the regression, with products and squares.
_MOST_TERMS = 160
# Records times columns beyond which products and squares are left out.
_MOST_ENTRIES = 20_000_000


def probability_of_leaking(log_ratio: Floats, rate: float) -> tuple[Floats, float]:
    """For records of T̂ with these η: the probability that each one leaked, and the rate that follows."""
    leaked = expit(log_ratio + logit(rate))
    return leaked, float(np.clip(leaked.mean(), 1e-3, 0.6))


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


# Records per column that a cluster's spread borrows from its side's.
_BORROWED = 4.0
# Degrees of freedom of the Student laws.
_FREEDOM = 20.0
# Clusters of a side with a law of their own; where there are more, clusters with near means share one.
_MOST_CLUSTERS = 200
# Records at which densities are worked out at once.
_CHUNK = 1 << 14


def cluster_log_ratio(records: Encoded, clusters: Ints, side: Ints, taught: Ints, new: Ints) -> Floats:
    """Log ratio of V's law to T's at the records ``new``, by laws that were taught by the records ``taught``."""
    points, classes = records.points, np.zeros_like(side) if records.classes is None else records.classes
    n_classes = int(classes.max()) + 1
    training, held_out = taught[side[taught] == 0], taught[side[taught] == 1]
    of_training, of_held_out = (_merged(points[rows], clusters[rows]) for rows in (training, held_out))
    law_v = _Law(points[held_out], classes[held_out], of_held_out, np.ones(len(held_out)), n_classes)
    law_t = _Law(points[training], classes[training], of_training, np.ones(len(training)), n_classes)
    by_v, rate = law_v(points[training], classes[training]), FIRST_RATE
    for _ in range(ROUNDS):
        leaked, rate = probability_of_leaking(by_v - law_t(points[training], classes[training]), rate)
        law_t = _Law(points[training], classes[training], of_training, 1 - leaked, n_classes)
    return law_v(points[new], classes[new]) - law_t(points[new], classes[new])


def _merged(points: Floats, clusters: Ints) -> Ints:
    """Clusters numbered from 0; where there are very many, those with near means become one."""
    codes = np.unique(clusters, return_inverse=True)[1]
    n = int(codes.max()) + 1
    if n <= _MOST_CLUSTERS:
        return codes
    from scipy.cluster.vq import vq

    means = np.column_stack([np.bincount(codes, column) for column in points.T]) / np.bincount(codes)[:, None]
    examples = means[np.linspace(0, n - 1, _MOST_CLUSTERS).astype(np.int64)]
    nearest, _ = vq(means, examples)
    return np.unique(nearest[codes], return_inverse=True)[1]


class _Law:
    """A mixture of Student laws, one for every cluster and class; means and spreads borrow from cluster and side."""

    def __init__(self, points: Floats, classes: Ints, clusters: Ints, weight: Floats, n_classes: int) -> None:
        d, n = points.shape[1], int(clusters.max()) + 1
        component = clusters * n_classes + classes
        self.d, self.n, self.n_classes = d, n, n_classes
        self.sizes = np.bincount(component, weight, minlength=n * n_classes)
        by_cluster = self.sizes.reshape(n, n_classes)
        totals = np.column_stack([np.bincount(component, weight * z, minlength=n * n_classes) for z in points.T])
        of_cluster = by_cluster.sum(axis=1) + 1e-9
        middles = totals.reshape(n, n_classes, d).sum(axis=1) / of_cluster[:, None]
        self.means = (totals + np.repeat(middles, n_classes, axis=0)) / (self.sizes + 1)[:, None]
        shares = of_cluster[:, None] / of_cluster.sum() * (by_cluster + 1 / n_classes) / (of_cluster[:, None] + 1)
        self.log_shares = np.log(shares.ravel())
        rest = (points - self.means[component]) * np.sqrt(weight)[:, None]
        free = max(weight.sum() - min((self.sizes > 0).sum(), weight.sum() / 2), 1.0)
        pooled = rest.T @ rest / free
        pooled = 0.95 * pooled + 0.05 * np.diag(np.diag(pooled)) + 1e-3 * np.eye(d)
        large = np.bincount(clusters, minlength=n) > d
        # Clusters that share a spread, small ones that of the side, with a root of its inverse.
        self.roots = [(np.flatnonzero(~large), _root(pooled))]
        for cluster in np.flatnonzero(large):
            around = rest[clusters == cluster]
            spread = (around.T @ around + _BORROWED * d * pooled) / (of_cluster[cluster] + _BORROWED * d)
            self.roots.append((np.array([cluster]), _root(spread)))

    def __call__(self, points: Floats, classes: Ints) -> Floats:
        """Log density at some records, up to a constant that all laws share."""
        starts = range(0, max(len(points), 1), _CHUNK)
        return np.concatenate([self._at(points[i : i + _CHUNK], classes[i : i + _CHUNK]) for i in starts])

    def _at(self, points: Floats, classes: Ints) -> Floats:
        density = np.full((len(points), self.n), -np.inf)
        for label in np.unique(classes):
            rows = np.flatnonzero(classes == label)
            for clusters, root in self.roots:
                components = clusters * self.n_classes + label
                density[np.ix_(rows, clusters)] = self._components(points[rows], root, components)
        return np.asarray(logsumexp(density, axis=1))

    def _components(self, points: Floats, root: tuple[Floats, float], components: Ints) -> Floats:
        """Log densities of components that share a root of the inverse spread."""
        inverse, log_determinant = root
        z, means = points @ inverse.T, self.means[components] @ inverse.T
        squares = np.maximum((z**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2 * z @ means.T, 0)
        wider = 1 + 1 / (self.sizes[components] + 1)  # The mean is uncertain as well.
        tails = 0.5 * (_FREEDOM + self.d) * np.log1p(squares / (_FREEDOM * wider))
        return np.asarray(self.log_shares[components] - 0.5 * (log_determinant + self.d * np.log(wider)) - tails)


def _root(spread: Floats) -> tuple[Floats, float]:
    """A root of the inverse, and the log determinant."""
    inverse = np.linalg.inv(np.linalg.cholesky(spread))
    return inverse, float(-2 * np.log(np.diag(inverse)).sum())


_TREES = 30
# Trees of the ensemble where one fold is left out, and where two are.
_TREES_AGAIN = 15
# Records in a leaf, at least.
_LEAST_LEAF = 3
# Largest absolute log ratio of a member: a single record must not decide the stack.
_CLIP = 10.0
# Records that teach a model, drawn at random where there are more, so that the time does not grow without end.
_MOST_TAUGHT = 8_000


def check_classifier(classifier: Any) -> None:
    """Refuse a discriminator that is no classifier with probabilities."""
    must = "discriminator must be a classifier with predict_proba"
    if isinstance(classifier, type):
        raise InputError(f"{must}, got the class {classifier.__name__} itself.")
    if not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise InputError(f"{must}, got {type(classifier).__name__}, which has none.")


@dataclass(frozen=True, eq=False)
class Members:
    """The records of both sides, and the models that tell them apart.

    Attributes
    ----------
    records : Encoded
        Records of T̂, then of V̂.
    clusters : array of int
        Approximate cluster of every record.
    side : array of int
        0 for T̂ and 1 for V̂.
    order : array of float
        One random number per record: those with the smallest ones teach, where not all can.
    classifier : classifier, optional
        The user's own.
    """

    records: Encoded
    clusters: Ints
    side: Ints
    order: Floats
    classifier: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the members."""
        return ("logistic", "clusters", "trees") if self.classifier is None else ("classifier",)

    @cached_property
    def _terms(self) -> Floats:
        """Columns of the regression: features, targets, their products, and squares, as far as there is room."""
        features, targets = self.records.features, self.records.targets
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

    def log_ratio(self, name: str, taught: Ints, new: Ints, seed: int, *, again: bool = False) -> Floats:
        """Log ratio at the records ``new`` by a member that was taught by the records ``taught``.

        With ``again`` the same has been asked for other records that were left out, and fewer trees are enough.
        """
        taught = some_of_both(taught, self.side, self.order, _MOST_TAUGHT)
        side = self.side[taught]
        if name == "logistic":
            ratio = logistic_log_ratio(self._terms[taught], side, self._terms[new])
        elif name == "clusters":
            ratio = cluster_log_ratio(self.records, self.clusters, self.side, taught, new)
        else:
            columns, asked = self.records.columns[taught], self.records.columns[new]
            if name == "trees":
                probability = _trees(columns, side, asked, seed, _TREES_AGAIN if again else _TREES)
            else:
                probability = _classified(self.classifier, columns, side, asked, seed)
            # So many records cannot show that a probability is 0 or 1.
            ratio = logit((probability * len(side) + 0.5) / (len(side) + 1)) - logit(side.mean())
        return np.clip(ratio, -_CLIP, _CLIP)


def some_of_both(rows: Ints, side: Ints, order: Floats, most: int) -> Ints:
    """At most so many of the rows, half of them of the smaller side if it has as many."""
    if len(rows) <= most:
        return rows
    sides = sorted((rows[side[rows] == s] for s in (0, 1)), key=len)
    few = min(len(sides[0]), most // 2)
    drawn = [of[np.argsort(order[of], kind="stable")[:n]] for of, n in zip(sides, (few, most - few), strict=True)]
    return np.sort(np.concatenate(drawn))


def _trees(columns: Floats, side: Ints, new: Floats, seed: int, count: int) -> Floats:
    """Mean of the trees' shares of V̂."""
    # Trees that regress on 0 and 1 are those that classify by the Gini index, in less time. A forest of scikit-learn's
    # would spend most of its time on copies of its parameters.
    from sklearn.tree import ExtraTreeRegressor

    taught, asked = columns.astype(np.float32), new.astype(np.float32)
    labels, shares = side.astype(np.float64), np.zeros(len(new))
    for tree in range(count):
        model = ExtraTreeRegressor(min_samples_leaf=_LEAST_LEAF, max_features=0.5, random_state=seed + tree)
        shares += model.fit(taught, labels, check_input=False).predict(asked, check_input=False)
    return shares / count


def _classified(classifier: Any, columns: Floats, side: Ints, new: Floats, seed: int) -> Floats:
    """Probabilities of V̂ by a clone of the user's classifier, with the seed where it asks for one."""
    from sklearn.base import clone

    try:
        model = clone(classifier)
        if hasattr(model, "get_params"):
            settings = model.get_params().items()
            open_seeds = [key for key, value in settings if value is None and key.endswith("random_state")]
            model.set_params(**dict.fromkeys(open_seeds, seed))
        model.fit(columns, side)
        probability = np.asarray(model.predict_proba(new)[:, list(model.classes_).index(1)], dtype=np.float64)
    except Exception as error:
        raise FitError(f"The classifier that tells the sides of a split apart failed: {described(error)}") from error
    if probability.shape != (len(new),) or not ((probability >= 0) & (probability <= 1)).all():
        raise FitError(
            "The classifier that tells the sides of a split apart must give one probability between 0 and 1 per "
            f"record, got shape {probability.shape} for {len(new)} records."
        )
    return probability

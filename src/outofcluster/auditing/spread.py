r"""How different clusters are: the spread of the loss over held-out clusters, and what to expect of one new cluster.

*Model.* Cluster c with :math:`m_c` held-out records has the mean loss :math:`y_c = θ_c + ε_c`, with
:math:`θ_c ∼ (μ, τ^2)` over the population of clusters, and :math:`ε_c` of variance :math:`v_c = σ^2/m_c`. τ is what is
asked for; the standard deviation of the :math:`y_c` has the noise of small clusters in it. σ² is the variance of losses
within clusters,

.. math:: \hat σ^2 = \frac{\sum_c \sum_{i ∈ c} (ℓ_{ci} - y_c)^2}{\sum_c (m_c - 1)} .

*A metric of a set of records*, such as AUC, is computed within every cluster in which it is defined, by the user's own
model, and the optimism of the audit is added. The :math:`ℓ_{ci}` are then pseudo losses
(:mod:`outofcluster.metrics.base`), from which the jackknife within classes gives a variance of :math:`y_c`. With
:math:`m_{ck}` records of class k (all are of one class where targets are numbers)

.. math:: \tilde v_c = \frac{1}{(m_c - 1)^2} \sum_k \frac{m_{ck} - 1}{m_{ck}}
          \sum_{i ∈ ck} (ℓ_{ci} - \bar ℓ_{ck})^2 .

For a single cluster that is a poor guide, 0 where the model orders all records rightly. So it says how large the noise
is on the whole, and the numbers of records say how it differs:

.. math:: v_c = \hat φ/n_c, \qquad \hat φ = \frac{\sum_c u_c\, n_c\, \tilde v_c}{\sum_c u_c}, \qquad
          \frac{1}{n_c} = \sum_k \frac{1}{m_{ck}}, \qquad \frac{1}{u_c} = \sum_k \frac{1}{m_{ck} - 1} .

*Corrected.* Losses of records are those of the models without likely pieces, where the audit has such models, else
those of the user's own. All of them are moved by one number, so that their mean over all records is the corrected loss
of the audit. τ does not depend on that number, and the variance s² of the correction comes on top.

*Between-cluster variance.* With :math:`w_c(t) = 1/(t + v_c)` and :math:`μ(t) = \sum w_c y_c/\sum w_c`,

.. math:: Q(t) = \sum_c w_c(t)\, (y_c - μ(t))^2

falls with t, and at :math:`t = τ^2` it is :math:`χ^2_{K-1}` with K clusters for normal losses. :math:`\hat τ^2` solves
:math:`Q = K-1` (Paule and Mandel), which is the method of moments for clusters of unequal sizes, or is 0.

*One new cluster.* Not knowing τ counts. With q from :math:`χ^2_{K-1}`, the t with :math:`Q(t) = q` (0 where there is
none) is a draw from the confidence distribution of τ². The expected loss of a new cluster, less the estimate, is then
:math:`N(0,\ t + 1/\sum w_c(t) + s^2)`. The interval is between the quantiles of the mixture of these normal laws over a
grid of 200 equally likely q. With equal sizes and no noise it is Student's,
:math:`\bar y ± t_{K-1} \sqrt{(1 + 1/K)\, s_y^2}`.

*Not normal.* Losses that have a smallest and a largest value are cut to these. For those without an upper end, such as
squared errors, clusters are skewed: the mixture is one of log-normal laws of the same means and variances. A variance
of skewed values is known less well. With w the variance of the :math:`y_c` over the square of their mean, plus 1 (at
most 1½), Q has the law of :math:`χ^2_ν (K-1)/ν` with :math:`ν = 2(K-1)/(2 + γ)`, and γ the excess kurtosis of a
log-normal law, :math:`w^4 + 2w^3 + 3w^2 - 6`.

*A row of the picture* is a cluster's loss drawn towards the mean, :math:`μ + B_c (y_c - μ)` with
:math:`B_c = τ^2/(τ^2 + v_c)`, and its interval :math:`± z \sqrt{B_c v_c}`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import PlainData, data_frame
from outofcluster._base.text import fragment, percentage, printable, table
from outofcluster.auditing.subgroups import check_computable
from outofcluster.inference.estimates import Estimate, decimals, fixed
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.audit_samples import AuditSamples
from outofcluster.sampling.predicted import losses_within_clusters

# Clusters below which nothing is said about a new one, and those of two or more records that noise is seen in.
LEAST_CLUSTERS, _LEAST_SEVERAL = 10, 5
# Points of the confidence distribution of τ².
_POINTS = 200
# The largest squared coefficient of variation of clusters that kurtosis is derived from.
_MOST_SKEWED = 0.5


@dataclass(frozen=True, eq=False)
class Spread(PlainData, what="a spread over clusters"):
    """How much the loss or metric differs between clusters; ``print`` it, or draw it with ``plot``.

    Attributes
    ----------
    value : float
        The standard deviation between clusters, without the noise of small clusters.
    value_interval : tuple of float
        Its interval.
    interval : tuple of float
        Prediction interval: where the expected value of one new cluster lies.
    mean : float
        The mean over clusters, each counting by what it says.
    observed : float
        The standard deviation of the values of the clusters as they are, noise included.
    corrected : bool
        Whether the values are corrected for leakage; else they are cross-validated as they are.
    clusters : tuple of str
        The clusters that were held out, from the lowest to the highest of ``values``.
    records : array of int
        Their held-out records.
    raw, values, low, high : array
        The value of every cluster as it is, drawn towards the mean, and the ends of its interval.
    metric : MetricFacts
        What is measured.
    confidence_level : float
        Level of all intervals.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> options = {"groups": patients.groups, "random_state": 0}
    >>> result = ooc.audit(KNeighborsClassifier(3), patients.data, patients.target, **options)
    >>> spread = result.spread()
    >>> spread.interval[0] < result.corrected.value < spread.interval[1]
    True
    """

    value: float
    value_interval: tuple[float, float]
    interval: tuple[float, float]
    mean: float
    observed: float
    corrected: bool
    clusters: tuple[str, ...]
    records: Array
    raw: Array
    values: Array
    low: Array
    high: Array
    metric: MetricFacts
    confidence_level: float = 0.95

    def to_frame(self) -> Any:
        """The clusters as a table.

        Returns
        -------
        pandas.DataFrame
            One row per cluster, from the lowest value to the highest: cluster, records, raw, value, low and high.
        """
        columns = {"cluster": list(self.clusters), "records": self.records, "raw": self.raw}
        return data_frame(columns | {"value": self.values, "low": self.low, "high": self.high})

    def plot(self, ax: Any = None) -> Any:
        """Draw all clusters in order, with the prediction interval; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SpreadDisplay
        """
        from outofcluster.present.display import SpreadDisplay

        return SpreadDisplay.from_spread(self).plot(ax)

    @property
    def lines(self) -> list[str]:
        """What there is to say, in sentences."""
        level, kind = percentage(self.confidence_level), "corrected " if self.corrected else ""
        value, observed, mean = map(self.written, (self.value, self.observed, self.mean))
        new = self._ends(self.interval, "and")
        return [
            f"The {kind}{self.metric.label} of one new cluster lies between {new} ({level} prediction interval).",
            f"Between clusters it has a standard deviation of {value} ({self._ends(self.value_interval)}), and of "
            f"{observed} with the noise of small clusters.",
            f"{len(self.clusters)} clusters were held out; their mean is {mean}.",
        ]

    def written(self, number: float) -> str:
        """A number with as many decimals as suit the interval of the standard deviation.

        Parameters
        ----------
        number : float
            One of the numbers of this result.

        Returns
        -------
        str
        """
        return fixed(number, max(decimals(Estimate(self.value, self.value_interval, math.nan, math.nan)) - 1, 0))

    def _ends(self, interval: tuple[float, float], word: str = "to") -> str:
        return f" {word} ".join(map(self.written, interval))

    def __str__(self) -> str:
        return printable("\n".join(self.lines))

    def _repr_html_(self) -> str:
        rows = [("one new cluster", self.written(self.mean), self._ends(self.interval))]
        between = "standard deviation between clusters"
        rows.append((between, self.written(self.value), self._ends(self.value_interval)))
        return fragment(table(("", self.metric.label, f"{percentage(self.confidence_level)} interval"), rows))


def spread(audit: Any) -> Spread:
    """The spread of the losses of an audit over its held-out clusters."""
    samples, optimism = audit.samples, audit.solution.optimism
    within = _within_clusters(samples)
    numbers, code, sizes = np.unique(within.clusters, return_inverse=True, return_counts=True)
    _check_clusters(code, sizes, within)
    error = 0.0 if optimism is None else math.hypot(optimism.se_data, optimism.se_monte_carlo)
    losses = within.losses + (0.0 if optimism is None else optimism.value)
    level = audit.confidence_level
    fitted = fit_spread(losses, code, sizes, samples.loss_range, level, error, strata=within.strata)
    return _shown(audit, numbers, sizes, fitted, corrected=optimism is not None)


@dataclass(frozen=True, eq=False)
class _Within:
    """Held-out records: their clusters, their losses before the optimism is added, and their classes, if these count.

    ``where`` says in words which clusters these are.
    """

    clusters: Codes
    losses: Array
    strata: Codes | None = None
    where: str = ""


def _within_clusters(samples: AuditSamples) -> _Within:
    folds, named = samples.folds, samples.named
    if not check_computable("spread()", samples):
        losses = np.concatenate([fold.measured_by("seen", "clusters") for fold in folds])
        # What pools the folds pools the change as well.
        own = np.concatenate([fold.own_losses for fold in folds])
        return _Within(np.concatenate([fold.clusters for fold in folds]), losses - float((losses - own).mean()))
    assert named is not None
    parts = [losses_within_clusters(named, samples.metric, fold) for fold in folds]
    clusters = np.concatenate([fold.clusters[rows] for fold, (rows, *_) in zip(folds, parts, strict=True)])
    losses, classes = np.concatenate([each for _, each, _ in parts]), np.concatenate([each for *_, each in parts])
    where = f" in which {samples.metric.label} is defined"
    return _Within(clusters, losses, classes if named.n_classes else None, where)


def _check_clusters(code: Codes, sizes: Codes, within: _Within) -> None:
    """Refuse clusters that do not show how different clusters are."""
    if len(sizes) < LEAST_CLUSTERS:
        raise InputError(
            f"spread() needs at least {LEAST_CLUSTERS} held-out clusters{within.where}, since fewer do not show how "
            f"different clusters are, got {len(sizes)}."
        )
    each = "" if within.strata is None else " of each of their classes"
    _, of, counts = _cells(code, within.strata, len(sizes))
    several = len(sizes) - len(np.unique(of[counts == 1]))
    if several < _LEAST_SEVERAL:
        raise InputError(
            f"spread() needs at least {_LEAST_SEVERAL} held-out clusters of two or more records{each}, which show the "
            f"noise within clusters, got {several}."
        )


def _cells(code: Codes, strata: Codes | None, n_clusters: int) -> tuple[Codes, Codes, Codes]:
    """Records of one cluster and class: the cell of every record, and the cluster and the records of every cell."""
    cells, cell = np.unique(code if strata is None else code + n_clusters * strata, return_inverse=True)
    return cell, cells % n_clusters, np.bincount(cell)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The fitted model, in losses."""

    mean: float
    std: float
    std_interval: tuple[float, float]
    interval: tuple[float, float]
    observed: float
    raw: Array
    drawn: Array
    reach: Array


def fit_spread(
    losses: Array,
    code: Any,
    sizes: Any,
    loss_range: tuple[float, float],
    level: float,
    error: float = 0.0,
    *,
    strata: Codes | None = None,
) -> _Fitted:
    """The model of the module's head for losses of records, codes of their clusters and, if any, of their classes."""
    y = np.bincount(code, losses) / sizes
    count, noise = len(y), _noise(losses, code, sizes, strata)
    total = float(y.var(ddof=1))
    if total <= 0:
        raise InputError("spread() needs clusters whose losses differ, got the same loss for all of them.")
    tau2 = _solve(y, noise, count - 1.0)
    freedom = _freedom(y, total, loss_range)

    def quantile_of_q(share: Any) -> Any:
        return chi2.ppf(share, freedom) * ((count - 1) / freedom)

    drawn = np.array([_solve(y, noise, q) for q in quantile_of_q((np.arange(_POINTS) + 0.5) / _POINTS)])
    means, errors = np.array([_mean(y, noise, t) for t in drawn]).T
    mean = float(_mean(y, noise, tau2)[0])
    interval = _mixture(means, drawn + errors + error**2, loss_range, level)
    tail = (1 - level) / 2
    ends = [_solve(y, noise, float(quantile_of_q(share))) for share in (1 - tail, tail)]
    shrink = tau2 / (tau2 + noise) if tau2 > 0 else np.zeros(count)
    reach = ndtri(1 - tail) * np.sqrt(shrink * noise)
    std_interval = math.sqrt(ends[0]), math.sqrt(ends[1])
    return _Fitted(
        mean, math.sqrt(tau2), std_interval, interval, math.sqrt(total), y, mean + shrink * (y - mean), reach
    )


def _noise(losses: Array, code: Codes, sizes: Codes, strata: Codes | None) -> Array:
    """v: the noise of every cluster."""
    cell, of, m = _cells(code, strata, len(sizes))
    squares = np.bincount(cell, (losses - (np.bincount(cell, losses) / m)[cell]) ** 2) * (m - 1) / m
    variance = np.bincount(of, squares) / np.maximum(sizes - 1, 1) ** 2
    n = 1 / np.bincount(of, 1 / m)
    with np.errstate(divide="ignore"):
        weight = 1 / np.bincount(of, 1 / (m - 1))
    return np.asarray(float(weight @ (n * variance)) / float(weight.sum()) / n)


def _is_skewed(loss_range: tuple[float, float]) -> bool:
    """Whether losses have a smallest value and no largest one."""
    return loss_range[0] == 0 and math.isinf(loss_range[1])


def _freedom(y: Array, variance: float, loss_range: tuple[float, float]) -> float:
    """Degrees of freedom of Q: those of normal values, or fewer by the kurtosis of log-normal ones."""
    count = len(y)
    if not _is_skewed(loss_range):
        return count - 1.0
    w = 1 + min(variance / max(float(y.mean()) ** 2, 1e-300), _MOST_SKEWED)
    return 2 * (count - 1) / (2 + w**4 + 2 * w**3 + 3 * w**2 - 6)


def _mean(y: Array, noise: Array, t: float) -> tuple[float, float]:
    """μ(t), and its variance."""
    weights = 1 / np.maximum(t + noise, 1e-300)
    return float(weights @ y / weights.sum()), float(1 / weights.sum())


def _solve(y: Array, noise: Array, wanted: float) -> float:
    """The t with Q(t) as wanted; 0 where even Q(0) is less."""

    def excess(t: float) -> float:
        weights = 1 / (t + noise)
        return float(weights @ (y - weights @ y / weights.sum()) ** 2) - wanted

    total = float(((y - y.mean()) ** 2).sum())
    # Without any noise Q has its closed form, and no end at 0.
    if not noise.any():
        return total / wanted
    if excess(0.0 if noise.all() else 1e-12 * total) <= 0:
        return 0.0
    most = total / wanted + float(noise.max())
    return float(brentq(excess, 0.0 if noise.all() else 1e-12 * total, most, xtol=1e-12 * total, rtol=1e-10))


def _mixture(means: Array, variances: Array, loss_range: tuple[float, float], level: float) -> tuple[float, float]:
    """Quantiles of a mixture of normal laws, or of log-normal ones where losses have no upper end."""
    least, most = loss_range
    skewed = _is_skewed(loss_range) and bool((means > 0).all())
    if skewed:
        variances = np.log1p(variances / means**2)
        means = np.log(means) - variances / 2
    spread = np.sqrt(np.maximum(variances, 1e-300))

    def quantile(share: float) -> float:
        low, high = float((means - 40 * spread).min()), float((means + 40 * spread).max())
        return float(brentq(lambda x: float(ndtr((x - means) / spread).mean()) - share, low, high, xtol=1e-9))

    ends = [quantile((1 - level) / 2), quantile((1 + level) / 2)]
    if skewed:
        ends = [math.exp(end) for end in ends]
    return min(max(ends[0], least), most), min(max(ends[1], least), most)


def _shown(audit: Any, numbers: Any, sizes: Any, fitted: _Fitted, *, corrected: bool) -> Spread:
    """The fitted model in the metric's own sign."""
    metric = audit.metric
    named = audit.samples.cluster_names
    ends = (np.clip(fitted.drawn + sign * fitted.reach, *audit.samples.loss_range) for sign in (-1, 1))
    low, high = metric.shown_interval(*ends)
    values, raw = metric.shown(fitted.drawn), metric.shown(fitted.raw)
    order = np.argsort(values, kind="stable")
    return Spread(
        value=fitted.std,
        value_interval=fitted.std_interval,
        interval=metric.shown_interval(*fitted.interval),
        mean=metric.shown(fitted.mean),
        observed=fitted.observed,
        corrected=corrected,
        clusters=tuple(str(named[number]) if named else str(number) for number in numbers[order].tolist()),
        records=sizes[order],
        raw=np.asarray(raw)[order],
        values=np.asarray(values)[order],
        low=np.asarray(low)[order],
        high=np.asarray(high)[order],
        metric=metric,
        confidence_level=audit.confidence_level,
    )

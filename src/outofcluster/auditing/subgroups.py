r"""For whom a score holds: naive, corrected and optimism by subgroup of records or clusters, without another fit.

Every subgroup is solved as a problem of its own (:mod:`outofcluster.errormodels.subgroups`), with the same curve and
the same intervals as the whole audit. What is added here is how intervals hold together.

*Simultaneous intervals.* With G subgroups, and R the correlation matrix of their estimates, every interval has the
individual level 1-α at which

.. math:: P\Bigl(\max_g |Z_g| \le z_{1-α/2}\Bigr) = 0.95, \qquad Z \sim N(0, R) ,

and Student's quantile for that level and the subgroup's own clusters. Subgroups that share clusters have

.. math:: \operatorname{cov}(\hat θ_g, \hat θ_h) = (1+φ) \frac{K}{K-1} \sum_c D_{gc} D_{hc} ,

D the influences of clusters (:mod:`outofcluster.inference.intervals`), and K the number of all clusters. All other
sources of error are taken to be independent, and without shared clusters α is Šidák's, :math:`1 - 0.95^{1/G}`: both
make intervals wider where errors are shared, as they are by a model that all subgroups are scored with.

*The difference of two subgroups* has the influences :math:`D_{gc} - D_{hc}`, and the variances of all other sources of
both. Where only the mean leakage rate is known, what one subgroup has more of it another one has less. With
:math:`s_g^2` the variance by this split and the shares :math:`W_g` of the held-out records it adds

.. math:: 2 r s_g s_h , \qquad r = \sqrt{\frac{W_g W_h}{(1-W_g)(1-W_h)}} .

Degrees of freedom are those of Welch and Satterthwaite. The intervals of all pairs are simultaneous, so that with two
subgroups the only one has the level as it stands.

*Small subgroups* are named and not judged: those of fewer than ten clusters, or of fewer than thirty records where
records are the units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtrit

from outofcluster._base.arguments import (
    AnyArray,
    Array,
    Bools,
    Codes,
    check_vector,
    missing_values,
    short,
    shown,
)
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import PlainData, data_frame
from outofcluster._base.rows import n_rows
from outofcluster._base.text import fragment, percentage, printable, table
from outofcluster.auditing.solution import Solution
from outofcluster.errormodels.choose import error_model_of
from outofcluster.errormodels.pooled import Pooled
from outofcluster.errormodels.subgroups import PiecesOfSubgroup, split_rate, subgroup_of
from outofcluster.inference.estimates import Estimate, between, decimals, fixed
from outofcluster.inference.functional import Functional, Influences
from outofcluster.inference.intervals import Uncertainty
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.base import NotDefinedError
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.audit_samples import AuditSamples, has_pieces

# Clusters, or records where these are the units, below which a subgroup is not judged, and the most subgroups that are.
LEAST = {"clusters": 10, "records": 30}
_MOST = 20
# Different numbers up to which each of them is a subgroup, and the quantiles at which more of them are cut.
_FEW_NUMBERS = 6
THIRDS = (1 / 3, 2 / 3)
# Draws of the joint distribution; the level that they give is right to about 0.001.
_DRAWS = 50_000
_MISSING = "missing"
_KINDS = ("naive", "corrected", "optimism")


@dataclass(frozen=True)
class Subgroup:
    """One subgroup.

    Attributes
    ----------
    name : str
        Its value of the column.
    records, clusters : int
        Its held-out records, and observed clusters that they belong to.
    naive, corrected, optimism : Estimate or None
        The estimates, with simultaneous intervals; None where the subgroup is too small to be judged, and of the last
        two also where nothing is corrected.
    leakage : float or None
        The leakage rate that is seen or known; None where it is neither.
    at_least : bool
        Whether the optimism is a lower bound.
    left_out : tuple of int
        Folds in which the metric is not defined for the subgroup, and which do not count for it.
    """

    name: str
    records: int
    clusters: int
    naive: Estimate | None = None
    corrected: Estimate | None = None
    optimism: Estimate | None = None
    leakage: float | None = None
    at_least: bool = False
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True)
class SubgroupDifference:
    """The estimates of one subgroup less those of another.

    Attributes
    ----------
    first, second : str
        Names of the subgroups.
    naive, corrected, optimism : Estimate or None
        The differences, with intervals that are simultaneous over all pairs.
    """

    first: str
    second: str
    naive: Estimate
    corrected: Estimate | None = None
    optimism: Estimate | None = None


@dataclass(frozen=True, eq=False)
class Subgroups(PlainData, what="subgroups"):
    """Naive, corrected and optimism by subgroup; ``print`` it, or draw it with ``plot``.

    Attributes
    ----------
    column : str
        What the subgroups are of.
    groups : tuple of Subgroup
        All subgroups, those that are too small to be judged among them.
    differences : tuple of SubgroupDifference
        Every pair of judged subgroups.
    metric : MetricFacts
        What is measured.
    units : str
        What counts as one independent unit: "clusters" or "records".
    confidence_level : float
        The level at which all intervals of one kind hold together.
    cuts : str
        Where numbers were cut, in words; empty where each value is a subgroup.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> options = {"groups": patients.groups, "random_state": 0}
    >>> result = ooc.audit(KNeighborsClassifier(3), patients.data, patients.target, **options)
    >>> sex = ["female" if int(group) % 2 else "male" for group in patients.groups]
    >>> by_sex = result.by(sex)
    >>> [group.name for group in by_sex.groups]
    ['female', 'male']
    """

    column: str
    groups: tuple[Subgroup, ...]
    differences: tuple[SubgroupDifference, ...]
    metric: MetricFacts
    units: str
    confidence_level: float = 0.95
    cuts: str = ""

    @property
    def judged(self) -> tuple[Subgroup, ...]:
        """The subgroups that are large enough."""
        return tuple(group for group in self.groups if group.naive is not None)

    @property
    def small(self) -> tuple[str, ...]:
        """Names of the subgroups that are too small to be judged."""
        return tuple(group.name for group in self.groups if group.naive is None)

    def to_frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per subgroup: subgroup, records, clusters, then naive, naive_low and naive_high, the same for
            corrected and optimism, and the leakage rate. What is not known is NaN.
        """
        rows = []
        for group in self.groups:
            row: dict[str, Any] = {"subgroup": group.name, "records": group.records, "clusters": group.clusters}
            for kind in _KINDS:
                row |= dict(zip((kind, f"{kind}_low", f"{kind}_high"), _ends(getattr(group, kind)), strict=True))
            rows.append(row | {"leakage": math.nan if group.leakage is None else group.leakage})
        return data_frame(rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw naive and corrected values, one row per subgroup; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SubgroupsDisplay
        """
        from outofcluster.present.display import SubgroupsDisplay

        return SubgroupsDisplay.from_subgroups(self).plot(ax)

    @property
    def lines(self) -> list[str]:
        """What there is to say, one sentence or subgroup in each line."""
        heading = (
            f"{self.metric.title} by {self.column}; the {percentage(self.confidence_level)} intervals hold together."
        )
        lines = [heading, *([self.cuts] if self.cuts else [])]
        lines += [f"  {group.name} ({_size(group)}): {_of_group(group)}" for group in self.judged]
        for pair in self.differences if len(self.differences) <= _SHOWN_PAIRS else ():
            shown_kind = "optimism" if pair.optimism is not None else "naive"
            estimate = pair.optimism or pair.naive
            verdict = "differs" if _apart(estimate) else "no difference is shown"
            lines.append(f"The {shown_kind} of {pair.first} less that of {pair.second}: {estimate} ({verdict}).")
        for group in self.judged:
            if group.left_out:
                folds = ", ".join(map(str, group.left_out))
                lines.append(f"Without fold {folds} for {group.name}, whose records there have no {self.metric.label}.")
        if self.small:
            named = ", ".join(f"{group.name} ({_size(group)})" for group in self.groups if group.naive is None)
            least = f"fewer than {LEAST[self.units]} {self.units}"
            lines.append(f"Too small to be judged, with {least}: {named}.")
        return lines

    def __str__(self) -> str:
        return printable("\n".join(self.lines))

    def _repr_html_(self) -> str:
        header = (self.column, "records", "clusters", *_KINDS)
        digits = decimals(*(group.naive for group in self.judged if group.naive is not None))
        rows = [
            (
                group.name,
                f"{group.records}",
                f"{group.clusters}",
                *(_cell(getattr(group, kind), digits) for kind in _KINDS),
            )
            for group in self.groups
        ]
        return fragment(table(header, rows), self.cuts)


# Pairs up to which each of them is printed.
_SHOWN_PAIRS = 10


def _size(group: Subgroup) -> str:
    return f"{group.records} records of {group.clusters} clusters"


def _cell(estimate: Estimate | None, digits: int) -> str:
    return "–" if estimate is None else f"{fixed(estimate.value, digits)} ({between(estimate, digits)})"


def _of_group(group: Subgroup) -> str:
    """The numbers of a subgroup in words."""
    assert group.naive is not None
    if group.corrected is None or group.optimism is None:
        return f"{group.naive}"
    digits = min(decimals(group.naive, group.corrected, group.optimism), 3)
    naive, corrected, optimism = (_cell(each, digits) for each in (group.naive, group.corrected, group.optimism))
    bound = "at least " if group.at_least else ""
    return f"{naive} → {corrected}; too optimistic by {bound}{optimism}"


def _ends(estimate: Estimate | None) -> tuple[float, float, float]:
    return (math.nan,) * 3 if estimate is None else (estimate.value, *estimate.interval)


def _apart(estimate: Estimate) -> bool:
    return not estimate.interval[0] <= 0 <= estimate.interval[1]


# --- the subgroups ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Partition:
    """The subgroup of every record.

    Attributes
    ----------
    column : str
        What the subgroups are of.
    names : tuple of str
        Their names.
    codes : array of int
        The subgroup of every record, in the order of the records.
    cuts : str
        Where numbers were cut, in words.
    """

    column: str
    names: tuple[str, ...]
    codes: Codes
    cuts: str = ""


def read_partition(by: Any, records: Any, n_records: int, quantiles: Any) -> Partition:
    """The subgroups that a column's name, an array or a function of the records stands for."""
    name, values = _read_values(by, records)
    if n_rows("by", values) != n_records:
        raise InputError(f"by must have one value for each of the {n_records} records, got {n_rows('by', values)}.")
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"by must be a single column, got an array of shape {array.shape}.")
    gaps = missing_values(array)
    known = array[~gaps]
    if known.dtype.kind == "O" and len(known) and all(isinstance(value, int | float) for value in known):
        known = known.astype(float)
    partition = _of_known(name, known, _read_quantiles(quantiles))
    if gaps.any():
        codes = np.full(n_records, len(partition.names))
        codes[~gaps] = partition.codes
        partition = replace(partition, names=(*partition.names, _MISSING), codes=codes)
    if len(partition.names) < 2:
        value = partition.names[0]
        raise InputError(f"by must have at least two different values, got {short(value)} for all records.")
    return partition


def _read_values(by: Any, records: Any) -> tuple[str, Any]:
    if isinstance(by, str):
        if records is None:
            raise InputError(
                f"by must be an array with one value per record where the audit has no data frame, got {short(by)}."
            )
        if by not in records.columns:
            raise InputError(f"by must name a column of the data ({shown(list(records.columns))}), got {short(by)}.")
        return by, records[by]
    if callable(by):
        if records is None:
            raise InputError("by must be an array where the audit has no data frame, got a function of its records.")
        return getattr(by, "__name__", "subgroup").replace("<lambda>", "subgroup"), by(records)
    return str(getattr(by, "name", None) or "subgroup"), by


def _read_quantiles(quantiles: Any) -> Array:
    shares = np.unique(check_vector("quantiles", quantiles))
    if shares[0] <= 0 or shares[-1] >= 1:
        wrong = shares[(shares <= 0) | (shares >= 1)][0]
        raise InputError(f"quantiles must lie between 0 and 1, got {wrong:g}.")
    return shares


def _of_known(name: str, values: AnyArray, quantiles: Array) -> Partition:
    if not len(values):
        return Partition(name, (), np.zeros(0, dtype=np.int64))
    if values.dtype.kind == "O":
        labels = {value: str(value) for value in set(values.tolist())}
        order = {label: code for code, label in enumerate(sorted(set(labels.values())))}
        codes = np.array([order[labels[value]] for value in values.tolist()], dtype=np.int64)
        return Partition(name, tuple(order), codes)
    different, codes = np.unique(values, return_inverse=True)
    if values.dtype.kind not in "iufM" or len(different) <= _FEW_NUMBERS:
        return Partition(name, tuple(_written(value) for value in different), codes.astype(np.int64))
    cuts = np.unique(
        np.quantile(values, quantiles, method="inverted_cdf")
        if values.dtype.kind != "M"
        else np.sort(values)[(quantiles * len(values)).astype(int)]
    )
    cuts = cuts[cuts > different[0]]
    ends = [_written(cut) for cut in cuts]
    names = [f"below {ends[0]}"] if ends else [f"{_written(different[0])} or more"]
    names += [f"{low} to below {high}" for low, high in pairwise(ends)]
    names += [f"{ends[-1]} or more"] if ends else []
    shares = ", ".join(f"{share:.3g}" for share in quantiles)
    stated = f"{name} is cut at its quantiles {shares}: {', '.join(ends)}."
    return Partition(name, tuple(names), np.searchsorted(cuts, values, side="right").astype(np.int64), stated)


def _written(value: Any) -> str:
    """A value as the name of a subgroup."""
    if isinstance(value, np.datetime64):
        return str(value)[:10]
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


# --- the estimates ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """A subgroup that is judged: its problem, its rates, and what is not known of the split of the rate.

    ``split`` is the standard error of the optimism by that alone.
    """

    name: str
    solution: Solution
    share: float
    split: float = 0.0

    @property
    def pooled(self) -> Pooled:
        return self.solution.pooled


def subgroups(audit: Any, by: Any, *, leakage: Mapping[str, Any] | None, quantiles: Any) -> Subgroups:
    """The estimates of an audit by subgroup."""
    _check_audit(audit)
    partition = read_partition(by, audit.records, audit.table.n_records, quantiles)
    folds, units = audit.samples.folds, audit.units
    codes = [partition.codes[fold.rows] for fold in folds]
    counted = [_counts(audit, [some == code for some in codes]) for code in range(len(partition.names))]
    judged = [
        code
        for code, (records, clusters) in enumerate(counted)
        if (clusters if units == "clusters" else records) >= LEAST[units]
    ]
    _check_judged(partition, judged, units)
    rates = _read_rates(audit, leakage, [partition.names[code] for code in judged])
    parts = [
        _solved(audit, partition.names[code], [some == code for some in codes], rates.get(partition.names[code]))
        for code in judged
    ]
    level = audit.confidence_level
    estimates = {kind: _simultaneous(parts, kind, level) for kind in _KINDS}
    metric = audit.metric
    groups = []
    for code, name in enumerate(partition.names):
        records, clusters = counted[code]
        if code not in judged:
            groups.append(Subgroup(name, records, clusters))
            continue
        at = judged.index(code)
        naive, corrected = (_shown(estimates[kind][at], metric) for kind in ("naive", "corrected"))
        rate, bound = _rate_of(parts[at]), parts[at].solution.at_least
        optimism, left_out = estimates["optimism"][at], _left_out(audit, parts[at], codes, code)
        groups.append(Subgroup(name, records, clusters, naive, corrected, optimism, rate, bound, left_out))
    differences = _differences(parts, level, metric)
    return Subgroups(partition.column, tuple(groups), differences, metric, units, level, partition.cuts)


def refuse_unknown(asked: str, metric: MetricFacts, *, computable: bool) -> None:
    """Refuse a metric that cannot be computed of some records only."""
    if not computable:
        raise InputError(
            f"{asked} needs a loss that every record has, or a metric that is known by its name and needs predictions "
            f"alone, such as 'roc_auc' or 'r2', got {metric.label}."
        )


def refuse_single_records(asked: str, metric: MetricFacts, *, is_mean: bool, has_pieces: bool) -> None:
    """Refuse a metric of a set of records where single records leak at a rate."""
    if not is_mean and not has_pieces:
        raise InputError(
            f"{asked} needs a loss that every record has, such as the error rate, where single records leak "
            f"(error_model='records'), got {metric.label}: the predictions for its many resamples are not kept."
        )


def check_computable(asked: str, samples: AuditSamples) -> bool:
    """Whether the metric is one of a set of records, for which there are predictions; else it has losses of records."""
    if is_mean := not any(fold.pseudo for fold in samples.folds):
        return not is_mean
    refuse_unknown(asked, samples.metric, computable=samples.named is not None)
    if not all(fold.predicted for fold in samples.folds):
        raise InputError(
            f"{asked} needs an audit of one seed for {samples.metric.label}, got one that was merged of several, whose "
            "models predict differently; ask each of them before they are merged."
        )
    return True


def _check_audit(audit: Any) -> None:
    of_sets = check_computable("by()", audit.samples)
    pieces = has_pieces(audit.samples.error_model)
    if audit.solution.has_rate:
        refuse_single_records("by()", audit.metric, is_mean=not of_sets, has_pieces=pieces)
    if audit.validation_leakage > 0:
        raise InputError(
            f"by() needs validation_leakage of 0, got {audit.validation_leakage:g}: which training records a subgroup "
            "was mixed with is not known."
        )


def _check_judged(partition: Partition, judged: Sequence[int], units: str) -> None:
    least = f"at least {LEAST[units]} {units}"
    if len(judged) > _MOST:
        raise InputError(f"by must give at most {_MOST} subgroups with {least}, got {len(judged)}; join some of them.")
    if len(judged) < 2:
        raise InputError(
            f"by must give two or more subgroups with {least}, got {len(judged)} of {len(partition.names)}."
        )


def _counts(audit: Any, kept: Sequence[Bools]) -> tuple[int, int]:
    """Held-out records and clusters."""
    clusters = [fold.clusters[some] for fold, some in zip(audit.samples.folds, kept, strict=True)]
    return sum(map(len, clusters)), len(np.unique(np.concatenate(clusters)))


def _read_rates(audit: Any, leakage: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Leakage]:
    """Rates of subgroups that the user knows."""
    if leakage is None:
        return {}
    if not isinstance(leakage, Mapping):
        raise InputError(f"leakage must be a mapping from subgroups to their rates, got {short(leakage)}.")
    unknown = [name for name in leakage if name not in names]
    if unknown:
        raise InputError(f"leakage must name subgroups that are judged ({shown(names)}), got {short(unknown[0])}.")
    model = error_model_of(audit.samples)
    return {name: model.read_leakage(rate, 1)[0] for name, rate in leakage.items()}


def _solved(audit: Any, name: str, kept: Sequence[Bools], known: Leakage | None) -> _Part:
    """A subgroup as a problem of its own, with its leakage rate."""
    whole = audit.pooled
    try:
        part = subgroup_of(whole, kept)
    except NotDefinedError as why:
        must = f"by must give subgroups in which {audit.metric.label} is defined"
        raise InputError(f"{must}, got {name!r}, in which it is not, since {why}.") from None
    share = sum(map(np.count_nonzero, kept)) / sum(map(len, kept))
    there = np.isin([fold.index for fold in whole.folds], [fold.index for fold in part.folds])
    solution = replace(audit.solution, pooled=part)
    if known is not None:
        rates = np.full(part.n_folds, known.rate)
        stds = np.full(part.n_folds, known.std or 0.0)
        return _Part(name, replace(solution, rates=rates, stds=stds, from_data=False), share)
    rates, stds = audit.solution.rates, audit.solution.stds
    if not audit.solution.has_rate:
        return _Part(name, solution, share)
    if audit.from_data and part.measured is not None:
        # What is seen in the subgroup says how much leaks there.
        seen = part.seen_rate if isinstance(part, PiecesOfSubgroup) else 0.0
        return _Part(name, replace(solution, rates=np.full(part.n_folds, min(seen, 0.99)), stds=stds[there]), share)
    split, most = split_rate(whole, kept, rates), error_model_of(audit.samples).largest_rate
    known_part = np.minimum(split.ratio * rates[there], most), split.ratio * stds[there]
    without = replace(solution, rates=known_part[0], stds=known_part[1])
    full = replace(without, stds=np.hypot(known_part[1], split.error * rates[there]))
    error = math.sqrt(max(_variance(full) - _variance(without), 0.0))
    return _Part(name, full, share, error)


def _left_out(audit: Any, part: _Part, codes: Sequence[Codes], code: int) -> tuple[int, ...]:
    """Folds with records of a subgroup for which the metric is not defined."""
    counted = {fold.index for fold in part.pooled.folds}
    folds = zip(audit.samples.folds, codes, strict=True)
    return tuple(fold.index for fold, some in folds if (some == code).any() and fold.index not in counted)


def _rate_of(part: _Part) -> float | None:
    """The leakage rate of a subgroup."""
    if not part.solution.has_rate:
        return None
    return part.solution.mean_rate


# --- intervals that hold together -------------------------------------------------------------------------


def _functional(solution: Solution, kind: str) -> Functional:
    """What an estimate is made of."""
    if kind == "naive":
        return solution.pooled.naive_functional()
    correction = solution.correction
    return solution.pooled.corrected(correction) if kind == "corrected" else correction.estimate


def _variance(solution: Solution) -> float:
    """The variance of the optimism."""
    correction = solution.correction
    source = solution.pooled.optimism_uncertainty(correction, solution.rate_effect)
    return source.monte_carlo + source.data


def _influence(part: _Part, kind: str, units: Codes) -> Array:
    """D, for units by their numbers; 0 for the optimism, which is that of this cross-validation."""
    influence = np.zeros(len(units))
    if kind != "optimism":
        pooled = part.pooled
        of_part = Influences(pooled.columns).of_units(_functional(part.solution, kind))
        influence[np.searchsorted(units, pooled.units)] = of_part
    return influence


def _apart_from_units(part: _Part, kind: str) -> float:
    """The variance of an estimate from everything but the units."""
    return 0.0 if kind == "naive" else _variance(part.solution)


@dataclass(frozen=True, eq=False)
class _Joint:
    """The joint distribution of the estimates of all subgroups."""

    parts: Sequence[_Part]
    influences: Array
    others: Array
    training: float

    @classmethod
    def of(cls, parts: Sequence[_Part], kind: str) -> _Joint:
        units = np.unique(np.concatenate([part.pooled.units for part in parts]))
        influences = np.stack([_influence(part, kind, units) for part in parts])
        others = np.array([_apart_from_units(part, kind) for part in parts])
        return cls(parts, influences, others, parts[0].pooled.training_share)

    @property
    def covariance(self) -> Array:
        """The covariance matrix of the module's head."""
        count = self.influences.shape[1]
        shared = (1 + self.training) * count / max(count - 1, 1) * self.influences @ self.influences.T
        return np.asarray(shared + np.diag(self.others))


def joint_level(level: float, covariance: Array) -> float:
    """The individual level at which intervals of estimates with this covariance hold together at a level.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.auditing.subgroups import joint_level
    >>> round(joint_level(0.95, np.eye(2)), 4)
    0.9747
    >>> round(joint_level(0.95, np.ones((2, 2))), 2)
    0.95
    """
    errors = np.sqrt(np.diag(covariance))
    known = np.isfinite(errors) & (errors > 0)
    count = int(known.sum())
    correlation = covariance[np.ix_(known, known)] / np.outer(errors[known], errors[known])
    if count < 2 or np.allclose(correlation, np.eye(count), atol=1e-6):
        return float(level ** (1 / max(count, 1)))
    values, vectors = np.linalg.eigh(correlation)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, count))
    moved = draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return float(2 * ndtr(np.quantile(np.abs(moved).max(axis=1), level)) - 1)


def _simultaneous(parts: Sequence[_Part], kind: str, level: float) -> list[Estimate | None]:
    """The estimates of one kind, with intervals that hold together."""
    if kind != "naive" and not parts[0].solution.has_rate:
        return [None] * len(parts)
    each = joint_level(level, _Joint.of(parts, kind).covariance)
    solved = [getattr(replace(part.solution, confidence_level=each), kind) for part in parts]
    return [replace(estimate, confidence_level=level) for estimate in solved]


def _shown(estimate: Estimate | None, metric: MetricFacts) -> Estimate | None:
    return None if estimate is None else estimate.shown_as(metric)


def _differences(parts: Sequence[_Part], level: float, metric: MetricFacts) -> tuple[SubgroupDifference, ...]:
    """All pairs of subgroups."""
    pairs = list(combinations(range(len(parts)), 2))
    by_kind = dict[str, list[Estimate]]()
    for kind in _KINDS if parts[0].solution.has_rate else _KINDS[:1]:
        joint = _Joint.of(parts, kind)
        contrasts = np.zeros((len(pairs), len(parts)))
        for row, (one, other) in enumerate(pairs):
            contrasts[row, [one, other]] = 1.0, -1.0
        each = joint_level(level, contrasts @ joint.covariance @ contrasts.T)
        estimates = [_difference(joint, one, other, kind, each, level) for one, other in pairs]
        turned = kind != "optimism"
        by_kind[kind] = [estimate.shown_as(metric) if turned else estimate for estimate in estimates]
    return tuple(
        SubgroupDifference(parts[one].name, parts[other].name, *(by_kind[kind][row] for kind in by_kind))
        for row, (one, other) in enumerate(pairs)
    )


def _difference(joint: _Joint, one: int, other: int, kind: str, each: float, level: float) -> Estimate:
    """One subgroup less another."""
    a, b = joint.parts[one], joint.parts[other]
    value = _functional(a.solution, kind).value - _functional(b.solution, kind).value
    opposed = math.sqrt(a.share * b.share / max((1 - a.share) * (1 - b.share), 1e-12))
    others = float(joint.others[one] + joint.others[other])
    if kind != "naive":
        others += 2 * min(opposed, 1.0) * a.split * b.split
    source = Uncertainty(joint.influences[one] - joint.influences[other], 0.0, others, training=joint.training)
    of_units = source.of_units if kind != "optimism" else 0.0
    diagonal = np.diag(joint.covariance)[[one, other]]
    freedom = np.array([max(part.pooled.n_scored - 1, 1) for part in (a, b)])
    joined = float(diagonal.sum() ** 2 / max(float((diagonal**2 / freedom).sum()), 1e-300))
    reach = float(stdtrit(max(joined, 1.0), 0.5 + each / 2)) * math.sqrt(of_units + others)
    return Estimate(value, (value - reach, value + reach), 0.0, math.sqrt(of_units + others), level)

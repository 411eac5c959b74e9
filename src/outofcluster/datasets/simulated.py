r"""Generated data: patients whose linkage errs, to try out an audit, and the synthetic study of the paper.

**Patients.** Every patient has a profile u ~ N(0, I); a record is u plus noise. The target follows the first entry of
the profile, so a learner predicts new patients a little, and known patients much better. The linkage splits some
patients: a piece of 1 to s - 1 of their s records gets a group of its own. A splitter that keeps groups whole can then
put the two pieces of a patient on different sides, and the score is optimistic.

**The synthetic study** has two parts, a line through the origin in each, and a known loss at every leakage. In part T,
which trains, :math:`y = θ_T x + ε` with x uniform on :math:`[-w_T, w_T]`; in part V, which is held out, :math:`θ_V` and
:math:`w_V` take their place. ε is normal with standard deviation σ in both. The study has
:math:`θ = (1, 2)`, :math:`w = (1, 10)`, σ = 0.5, training sets of n = 15 records, m = 30 levels of leakage from
:math:`p_0 = 0.1` to 1, and 1000 validation records.

The learner is least squares through the origin, :math:`\hat θ = Σxy / Σx^2`. Of its n records let j come from V; with A
the sum of :math:`x^2` over those of T, B over those of V and S = A + B,

.. math:: \hat θ - θ_V = (θ_T - θ_V) \frac{A}{S} + \frac{Σxε}{S}, \qquad
   e_j = σ^2 + \frac{w_V^2}{3} \left[ (θ_T - θ_V)^2 \, E\frac{A^2}{S^2} + σ^2 \, E\frac{1}{S} \right] .

The two expectations are integrals over one variable, since :math:`1/S = \int e^{-tS} dt` and
:math:`1/S^2 = \int t e^{-tS} dt` over t > 0, and the records are independent:

.. math:: E\frac{1}{S} = \int_0^∞ φ_T^{n-j} φ_V^j \, dt, \qquad
   E\frac{A^2}{S^2} = \int_0^∞ t \, (φ_T^{n-j})'' φ_V^j \, dt, \qquad φ(t) = E\, e^{-t x^2} .

1/S has an expectation for n ≥ 3 only, as the tail of :math:`φ^n` is that of :math:`t^{-n/2}`. With t = exp(s) the
integrands are analytic for :math:`|\mathrm{Im}\, s| < π/2` and decay at both ends, so the trapezoid rule with step h
errs by about :math:`\exp(-π^2/h)`. What is left is rounding: some 13 digits are right for n = 15, 11 for n = 20,000.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma, gammainc

from outofcluster._base.arguments import (
    Array,
    check_choice,
    check_integer,
    check_number,
    check_share,
    check_vector,
    short,
)
from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster.datasets.loaders import Bunch, describe
from outofcluster.problem.simulate import cut_clusters

Pair = tuple[float, float]

_STEP = 0.2
_NEGLIGIBLE = 1e-18
_BLOCK = 4096
# Records of a part, which take a second and a few gigabytes.
_MOST_RECORDS = 10_000_000
# Records for which losses are computed: each is an integral, and a million take half a minute.
_MOST_LOSSES = 1_000_000
# Sizes of slopes, widths and noise for which the integrals stay within floating-point numbers.
_LARGEST = 1e30
_PARTS = ("part 1", "part 2")

# Records times features, which take two gigabytes on the way.
_MOST_NUMBERS = 100_000_000


# --- patients --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Patients:
    """Records of patients, the groups that a linkage put them into, and the true patient of each record.

    Attributes
    ----------
    data : array of shape (n, features)
        Features.
    target : array of shape (n,)
        0 or 1, or a number for regression; the same for all records of a patient.
    groups : array of int of shape (n,)
        Approximate clusters: what the linkage says.
    entities : array of int of shape (n,)
        True clusters: the patient of every record.
    feature_names, target_names : tuple of str
        Names of the columns, and of the classes (empty for regression).
    DESCR : str
        What was simulated.
    """

    data: Array
    target: NDArray[Any]
    groups: NDArray[np.int64]
    entities: NDArray[np.int64]
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    DESCR: str

    def __repr__(self) -> str:
        n, d = self.data.shape
        patients, groups = len(np.unique(self.entities)), len(np.unique(self.groups))
        return f"Patients({n} records, {d} features; {patients} patients in {groups} groups)"


def make_patients(
    n_patients: int = 250,
    *,
    n_records: int | tuple[int, int] = 4,
    n_features: int = 6,
    split_share: float = 0.15,
    target: Literal["classification", "regression"] = "classification",
    signal: float = 0.7,
    record_noise: float = 0.25,
    random_state: RandomState = None,
) -> Patients:
    """Patients with several records each, some of whom the linkage splits in two.

    Parameters
    ----------
    n_patients : int, default=250
        Number of patients, which are the true clusters.
    n_records : int or pair of int, default=4
        Records of every patient; for a pair, all numbers from the first to the second are equally likely.
    n_features : int, default=6
        Length of a profile.
    split_share : float, default=0.15
        Probability that a patient with at least two records is split, between 0 and 1.
    target : {"classification", "regression"}, default="classification"
        "regression": signal times the first entry of the profile, plus normal noise of variance 1 that is drawn once
        per patient. "classification": whether that is above 0.
    signal : float, default=0.7
        How strongly the target depends on the profile, which is what can be learnt for new patients.
    record_noise : float, default=0.25
        Standard deviation of a record around its patient's profile; the smaller it is, the easier it is to recognise
        a patient.
    random_state : int, RandomState or Generator, optional
        The seed, or numpy's generator from which to draw one.

    Returns
    -------
    Patients
        The records of a patient follow one another.

    Examples
    --------
    >>> from outofcluster.datasets import make_patients
    >>> patients = make_patients(100, n_records=(1, 5), random_state=0)
    >>> patients
    Patients(307 records, 6 features; 100 patients in 113 groups)

    The share of held-out records whose patient has records in training:

    >>> from sklearn.model_selection import GroupKFold
    >>> folds = GroupKFold(5).split(patients.data, groups=patients.groups)
    >>> shares = [np.isin(patients.entities[test], patients.entities[train]).mean() for train, test in folds]
    >>> round(float(np.mean(shares)), 2)
    0.15
    """
    count = check_integer("n_patients", n_patients, least=2)
    fewest, most = _records_each(n_records)
    d = check_integer("n_features", n_features, least=1)
    if count * most * d > _MOST_NUMBERS:
        got = f"{short(count)}, {short(most)} and {short(d)}"
        raise InputError(f"n_patients times n_records times n_features must be at most {_MOST_NUMBERS}, got {got}.")
    share = check_share("split_share", split_share)
    check_choice("target", target, ("classification", "regression"))
    strength = check_number("signal", signal, least=0)
    spread = check_number("record_noise", record_noise, least=0)
    rng = np.random.default_rng(seed_of(random_state))

    sizes = rng.integers(fewest, most + 1, count)
    profile = rng.standard_normal((count, d))
    response = strength * profile[:, 0] + rng.standard_normal(count)
    entities = np.repeat(np.arange(count), sizes)
    data = profile[entities] + spread * rng.standard_normal((len(entities), d))
    classes = target == "classification"
    measured = "whether the patient is ill" if classes else "a measurement"
    groups, split = cut_clusters(entities, sizes >= 2, share, rng)
    return Patients(
        data=data,
        target=(response > 0).astype(np.int64)[entities] if classes else response[entities],
        groups=groups,
        entities=entities,
        feature_names=tuple(f"x{i}" for i in range(d)),
        target_names=("healthy", "ill") if classes else (),
        DESCR=describe("patients").format(patients=count, records=len(entities), split=split.sum(), target=measured),
    )


def _records_each(n_records: Any) -> tuple[int, int]:
    if isinstance(n_records, tuple | list) and len(n_records) == 2:
        fewest = check_integer("n_records[0]", n_records[0], least=1)
        return fewest, check_integer("n_records[1]", n_records[1], least=fewest)
    same = check_integer("n_records", n_records, least=1)
    return same, same


# --- the synthetic study ---------------------------------------------------------------------------------


def partition_losses(
    n: int = 15,
    *,
    slopes: tuple[float, float] = (1.0, 2.0),
    half_widths: tuple[float, float] = (1.0, 10.0),
    noise: float = 0.5,
) -> Array:
    """The curve of the synthetic study: expected losses by the number of leaked training records.

    Parameters
    ----------
    n : int, default=15
        Training records, at least 3.
    slopes : pair of float, default=(1.0, 2.0)
        Slopes of the part that trains and of the part that is held out.
    half_widths : pair of float, default=(1.0, 10.0)
        In each of the two parts, x is uniform between minus and plus this number.
    noise : float, default=0.5
        Standard deviation of the noise, in both parts.

    Returns
    -------
    array of shape (n + 1,)
        e_j for j = 0, …, n: the expected squared error, on a new record of the part that is held out, of least squares
        through the origin on n - j records of the part that trains and j of the other. Right to 11 digits or more.

    Examples
    --------
    >>> from outofcluster.datasets import partition_losses
    >>> partition_losses(15)[:4]
    array([35.351845,  6.37784 ,  1.56771 ,  0.637952])
    """
    size, slope, width, deviation = _checked("n", n, _MOST_LOSSES, slopes, half_widths, noise)
    # In blocks, so that memory does not grow with n times the points of the integral.
    blocks = np.split(np.arange(size + 1), range(_BLOCK, size + 1, _BLOCK))
    return np.concatenate([_losses(size, slope, width, deviation, block) for block in blocks])


def make_partition(
    n_train: int = 15,
    n_validation: int = 1000,
    *,
    slopes: tuple[float, float] = (1.0, 2.0),
    half_widths: tuple[float, float] = (1.0, 10.0),
    noise: float = 0.5,
    random_state: RandomState = None,
) -> Bunch:
    """Records of the synthetic study: two parts with a line through the origin in each, and the known e_0.

    Parameters
    ----------
    n_train, n_validation : int, default=15 and 1000
        Records of the part that trains, at least 3, and of the part that is held out.
    slopes : pair of float, default=(1.0, 2.0)
        Slopes of the part that trains and of the part that is held out.
    half_widths : pair of float, default=(1.0, 10.0)
        In each of the two parts, x is uniform between minus and plus this number.
    noise : float, default=0.5
        Standard deviation of the noise, in both parts.
    random_state : int, RandomState or Generator, optional
        The seed, or numpy's generator from which to draw one.

    Returns
    -------
    Bunch
        Records of the training part come first. ``e0`` is the expected loss of a model trained on n_train records
        without leakage.

    Examples
    --------
    >>> from outofcluster.datasets import make_partition
    >>> bunch = make_partition(15, 1000, random_state=0)
    >>> x, y = bunch.data[bunch.train_rows, 0], bunch.target[bunch.train_rows]
    >>> round(float(x @ y / (x @ x)), 1)
    0.9
    >>> round(bunch.e0, 3)
    35.352
    """
    n, slope, width, deviation = _checked("n_train", n_train, _MOST_RECORDS, slopes, half_widths, noise)
    held_out = _at_most("n_validation", check_integer("n_validation", n_validation, least=1), _MOST_RECORDS)
    rng = np.random.default_rng(seed_of(random_state))
    part = np.repeat([0, 1], [n, held_out])
    x = rng.uniform(-1, 1, len(part)) * np.array(width)[part]
    return Bunch(
        data=x[:, None],
        target=x * np.array(slope)[part] + deviation * rng.standard_normal(len(part)),
        groups=np.array(_PARTS)[part],
        train_groups=_PARTS[:1],
        validation_groups=_PARTS[1:],
        feature_names=("x",),
        target_names=(),
        licence="none needed: the records are simulated",
        DESCR=describe("partition").format(*slope, *width, deviation, n),
        e0=float(_losses(n, slope, width, deviation, np.zeros(1, dtype=np.int64))[0]),
    )


def _checked(name: str, n: Any, most: int, slopes: Any, half_widths: Any, noise: Any) -> tuple[int, Pair, Pair, float]:
    size = _at_most(name, check_integer(name, n, least=3), most)
    slope, width = _pair("slopes", slopes), _pair("half_widths", half_widths)
    if min(width) <= 0:
        raise InputError(f"half_widths must be positive, got {short(half_widths)}.")
    deviation = check_number("noise", noise, least=0)
    for name, values in (("slopes", slope), ("half_widths", width), ("noise", (deviation,))):
        for value in values:
            if value and not 1 / _LARGEST <= abs(value) <= _LARGEST:
                allowed = f"0 or between {1 / _LARGEST:g} and {_LARGEST:g} in size"
                raise InputError(f"{name} must be {allowed}, got {value:g}.")
    return size, slope, width, deviation


def _at_most(name: str, size: int, most: int) -> int:
    if size > most:
        raise InputError(f"{name} must be at most {most}, got {short(size)}.")
    return size


def _pair(name: str, values: Any) -> Pair:
    numbers = check_vector(name, values).tolist()
    if len(numbers) != 2:
        raise InputError(f"{name} must be a pair of numbers, one for each part, got {short(values)}.")
    return numbers[0], numbers[1]


def _losses(n: int, slopes: Pair, widths: Pair, noise: float, j: NDArray[np.int64]) -> Array:
    """The losses e_j by the trapezoid rule in s = log t."""
    t = _grid(n, widths)[:, None]
    stays = n - j
    phi, first, second = (_moment(t, widths[0], k) for k in range(3))
    leaks = _moment(t, widths[1], 0) ** j
    # Powers below 0 occur only with a factor of 0.
    curvature = stays * second * phi ** (stays - 1.0) + stays * (stays - 1) * first**2 * phi ** (stays - 2.0)
    squared_share = _STEP * (t**2 * curvature * leaks).sum(axis=0)
    inverse = _STEP * (t * phi**stays * leaks).sum(axis=0)
    bias = (slopes[0] - slopes[1]) ** 2 * squared_share
    return np.asarray(noise**2 + widths[1] ** 2 / 3 * (bias + noise**2 * inverse))


def _grid(n: int, widths: Pair) -> Array:
    """Values of t, evenly spaced in log t, that cover all of the integral but a negligible part.

    Below, the integrand of E 1/S is at most t, and E 1/S at least 1/(n w²) for the larger w. Above, φ is at most
    0.89/(w√t) for the smaller w, which bounds what is left out by a multiple of t^(1-n/2).
    """
    small, large = min(widths), max(widths)
    spread = n * (large / small) ** 2
    low = math.log(_NEGLIGIBLE / (n * large**2))
    high = 2 / (n - 2) * math.log(spread**2 / _NEGLIGIBLE) + 1 - 2 * math.log(small)
    return np.asarray(np.exp(np.arange(low, high + _STEP, _STEP)))


def _moment(t: Array, width: float, k: int) -> Array:
    """E x^(2k) exp(-t x²) for x uniform on [-width, width]: w^(2k) γ(k + ½, z) / (2 z^(k + ½)) with z = t w²."""
    z = t * width**2
    return np.asarray(width ** (2 * k) * gammainc(k + 0.5, z) * gamma(k + 0.5) / (2 * z ** (k + 0.5)))

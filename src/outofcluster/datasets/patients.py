"""Simulated patients, some of whose records a linkage failed to bring together: to try out an audit.

Every patient has a profile u ~ N(0, I); a record is u plus noise. The target follows the first entry of the profile,
so a learner predicts new patients a little, and known patients much better. The linkage splits some patients: a piece
of 1 to s - 1 of their s records gets a group of its own. A splitter that keeps groups whole can then put the two pieces
of a patient on different sides, and the score is optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, check_choice, check_integer, check_number, check_share, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster.problem.simulate import cut_clusters

_MOST_NUMBERS = 100_000_000
"""Records times features, which take two gigabytes on the way."""

_DESCR = """Simulated patients whose records were linked with errors

{patients} patients with {records} records in all, of whom {split} have their records in two groups. `groups` is what
the linkage says, `entities` is the truth. Target: {target}, the same for all records of a patient.
"""


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
        raise InputError(
            f"n_patients times n_records times n_features must be at most {_MOST_NUMBERS}, "
            f"got {short(count)}, {short(most)} and {short(d)}."
        )
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
    groups, split = cut_clusters(entities, sizes >= 2, share, rng)
    return Patients(
        data=data,
        target=(response > 0).astype(np.int64)[entities] if classes else response[entities],
        groups=groups,
        entities=entities,
        feature_names=tuple(f"x{i}" for i in range(d)),
        target_names=("healthy", "ill") if classes else (),
        DESCR=_DESCR.format(
            patients=count,
            records=len(entities),
            split=int(split.sum()),
            target="whether the patient is ill" if classes else "a measurement",
        ),
    )


def _records_each(n_records: Any) -> tuple[int, int]:
    if isinstance(n_records, tuple | list) and len(n_records) == 2:
        fewest = check_integer("n_records[0]", n_records[0], least=1)
        return fewest, check_integer("n_records[1]", n_records[1], least=fewest)
    same = check_integer("n_records", n_records, least=1)
    return same, same

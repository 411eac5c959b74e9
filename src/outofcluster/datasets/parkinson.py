"""Voices of people with and without Parkinson's disease: the paper's third data set."""

from __future__ import annotations

import numpy as np

from outofcluster.datasets._bunch import Bunch
from outofcluster.datasets._files import DataHome, read_files
from outofcluster.datasets._sources import PARKINSON
from outofcluster.datasets._table import read_numbers

_FEATURES = (
    *("jitter_local", "jitter_abs", "jitter_rap", "jitter_ppq5", "jitter_ddp"),
    *("shimmer_local", "shimmer_db", "shimmer_apq3", "shimmer_apq5", "shimmer_apq11", "shimmer_dda"),
    *("ac", "nth", "htn", "median_pitch", "mean_pitch", "std_dev", "min_pitch", "max_pitch"),
    *("pulses", "periods", "mean_period", "std_dev_period", "unvoiced", "breaks", "deg_breaks"),
)
_SUBJECTS = 40

_DESCR = """Voices of people with and without Parkinson's disease

1,040 recordings: 26 of each of 40 people. Target: whether the person is ill. Clusters: the people, "1" to "40". The
paper validates on every fourth person (1, 5, 9, ..., 37; 260 recordings) and trains on the other 30 (780 recordings).

Features: 26 measures of the voice (jitter, shimmer, harmonicity, pitch, pulses, voice breaks). The severity score
UPDRS, which the file also has, is not among them: it gives the answer away.

Beware: the target is the same for all recordings of a person (1 to 20 are ill, 21 to 40 are not), so a learner that
recognises a person knows the answer.

Source: UCI Machine Learning Repository, Parkinson's Speech with Multiple Types of Sound Recordings (B. E. Sakar and
others), https://archive.ics.uci.edu/dataset/301
"""


def load_parkinson(*, data_home: DataHome = None) -> Bunch:
    """Voices with and without Parkinson's disease: 1,040 recordings, 26 features, clusters are people.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``parkinson_speech/train_data.txt``, plain or gzipped. By default the one that the environment
        variable ``OUTOFCLUSTER_DATA`` names; if it is not set either, the file is downloaded with pooch and kept in
        its folder for caches. If the archive holds it in a form that has to be unpacked by hand, the message says so.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_parkinson
    >>> parkinson = load_parkinson()  # doctest: +SKIP
    >>> len(parkinson.train_rows), len(parkinson.validation_rows)  # doctest: +SKIP
    (780, 260)
    """
    (content,) = read_files(PARKINSON, ["train_data.txt"], data_home)
    table = read_numbers([content])
    people = [str(person) for person in range(1, _SUBJECTS + 1)]
    held_out = tuple(people[::4])
    return Bunch(
        # The first column is the person, the last two are UPDRS and the target.
        data=np.ascontiguousarray(table[:, 1:-2]),
        target=table[:, -1].astype(np.int64),
        groups=table[:, 0].astype(np.int64).astype(str),
        train_groups=tuple(person for person in people if person not in held_out),
        validation_groups=held_out,
        feature_names=_FEATURES,
        target_names=("healthy", "ill"),
        licence=PARKINSON.licence,
        DESCR=_DESCR,
    )

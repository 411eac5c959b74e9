"""Who wins a game of Dota 2, by the heroes chosen: the paper's fourth data set."""

from __future__ import annotations

from typing import Literal

import numpy as np

from outofcluster._base.arguments import check_choice, check_flag
from outofcluster.datasets._bunch import Bunch
from outofcluster.datasets._files import DataHome, read_files
from outofcluster.datasets._sources import DOTA2
from outofcluster.datasets._table import read_numbers

_FILES = {"train": ["dota2Train.csv"], "test": ["dota2Test.csv"], "all": ["dota2Train.csv", "dota2Test.csv"]}
_TYPE, _FIRST_HERO = 3, 4

_DESCR = """Who wins a game of Dota 2

92,650 games (the file dota2Train.csv; dota2Test.csv has 10,294 more). Target: whether the first team won. Clusters: the
type of game, "type 1" (15 games), "type 2" (56,988) and "type 3" (35,647). The paper trains on types 1 and 2 and
validates on type 3. The file's column named `cluster` is the region of the server and is not used.

Features: hero0 to hero112, 1 where the first team chose the hero, -1 where the other did, 0 where none did. hero23 and
hero107 are 0 in every game.

Beware: the experiments that the paper reports had the type of game among the features (114 in all), which gives the
cluster away. It is left out here unless asked for with include_type=True.

Source: UCI Machine Learning Repository, Dota2 Games Results (S. Tridgell), https://archive.ics.uci.edu/dataset/367
"""


def load_dota2(
    *, data_home: DataHome = None, subset: Literal["train", "test", "all"] = "train", include_type: bool = False
) -> Bunch:
    """Who wins a game of Dota 2: 92,650 games, 113 features, clusters are types of game.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``dota2/dota2Train.csv`` and ``dota2/dota2Test.csv``, plain or gzipped. By default the one
        that the environment variable ``OUTOFCLUSTER_DATA`` names; if it is not set either, the files are downloaded
        with pooch and kept in its folder for caches.
    subset : {"train", "test", "all"}, default="train"
        The file to read. The paper uses "train" alone, and splits it by type of game.
    include_type : bool, default=False
        Put the type of game before the heroes, as the paper's experiments did. It identifies the cluster.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_dota2
    >>> dota2 = load_dota2()  # doctest: +SKIP
    >>> len(dota2.train_rows), len(dota2.validation_rows)  # doctest: +SKIP
    (57003, 35647)
    """
    check_choice("subset", subset, tuple(_FILES))
    with_type = check_flag("include_type", include_type)
    table = read_numbers(read_files(DOTA2, _FILES[subset], data_home), np.int16)
    first = _TYPE if with_type else _FIRST_HERO
    heroes = tuple(f"hero{i}" for i in range(table.shape[1] - _FIRST_HERO))
    return Bunch(
        # As floats, because sums of products of small integers overflow without any warning.
        data=table[:, first:].astype(float, order="C"),
        target=(table[:, 0] > 0).astype(np.int64),
        groups=np.array(["type 0", "type 1", "type 2", "type 3"])[table[:, _TYPE]],
        train_groups=("type 1", "type 2"),
        validation_groups=("type 3",),
        feature_names=("type", *heroes) if with_type else heroes,
        target_names=("lost", "won"),
        licence=DOTA2.licence,
        DESCR=_DESCR,
    )

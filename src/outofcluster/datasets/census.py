"""Income in the US census of 1994 by country of birth: the paper's second data set."""

from __future__ import annotations

import numpy as np

from outofcluster.datasets._bunch import Bunch
from outofcluster.datasets._files import DataHome, read_files
from outofcluster.datasets._sources import ADULT
from outofcluster.datasets._table import feature_matrix, read_rows

_TRAIN = ("United-States", "El-Salvador", "Germany", "Mexico", "Philippines", "Puerto-Rico")
_VALIDATION = ("India", "Canada")
_PLACES = {"age": 0, "education_num": 4, "hours_per_week": 12, "race": 8, "occupation": 6}
_COUNTRY, _INCOME = 13, 14

_DESCR = """Income in the US census of 1994

30,589 people of the eight countries of birth that the paper uses, of the 32,561 in the file. Target: whether income is
above 50,000 dollars a year. Clusters: the countries. The paper trains on the United States (29,170 people), El Salvador
(106), Germany (137), Mexico (643), the Philippines (198) and Puerto Rico (114), and validates on India (100) and
Canada (121).

Features: age, years of education (education_num), hours of work a week (hours_per_week) and, as columns of 0 and 1 for
each value that occurs, race and occupation. An unknown occupation is a category of its own (1,729 people in training
clusters, 14 in validation clusters).

Beware: 96 % of the training records come from one cluster.

Source: UCI Machine Learning Repository, Adult (B. Becker, R. Kohavi), https://archive.ics.uci.edu/dataset/2
"""


def load_census(*, data_home: DataHome = None) -> Bunch:
    """Income in the US census of 1994: 30,589 people, clusters are countries of birth.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``adult/adult.data``, plain or gzipped. By default the one that the environment variable
        ``OUTOFCLUSTER_DATA`` names; if it is not set either, the file is downloaded with pooch and kept in its folder
        for caches.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_census
    >>> census = load_census()  # doctest: +SKIP
    >>> len(census.train_rows), len(census.validation_rows)  # doctest: +SKIP
    (30368, 221)
    """
    (content,) = read_files(ADULT, ["adult.data"], data_home)
    countries = {*_TRAIN, *_VALIDATION}
    rows = [row for row in read_rows(content, ", ") if row[_COUNTRY] in countries]
    columns = [(name, [row[place] for row in rows]) for name, place in _PLACES.items()]
    data, names = feature_matrix(columns, {"race": None, "occupation": None})
    return Bunch(
        data=data,
        target=np.array([int(row[_INCOME] == ">50K") for row in rows]),
        groups=np.array([row[_COUNTRY] for row in rows]),
        train_groups=_TRAIN,
        validation_groups=_VALIDATION,
        feature_names=names,
        target_names=("<=50K", ">50K"),
        licence=ADULT.licence,
        DESCR=_DESCR,
    )

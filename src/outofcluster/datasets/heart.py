"""Heart disease in four hospitals: the paper's first data set.

The paper's preparation: `ca` is dropped, since most hospitals did not record it; sex, cp, restecg, slope and thal are
categories, of which `missing` is one; then records that lack any other value are dropped.
"""

from __future__ import annotations

import numpy as np

from outofcluster.datasets._bunch import Bunch
from outofcluster.datasets._files import DataHome, read_files
from outofcluster.datasets._sources import HEART
from outofcluster.datasets._table import feature_matrix, read_rows

_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal"),
    "num",
)

_HOSPITALS = {"Cleveland": "cleveland", "Hungary": "hungarian", "Switzerland": "switzerland", "VA": "va"}

_CATEGORIES = {
    "sex": {"0": "female", "1": "male"},
    "cp": {"1": "typical", "2": "atypical", "3": "non-anginal", "4": "asymptomatic"},
    "restecg": {"0": "normal", "1": "abnormal", "2": "hypertrophy"},
    "slope": {"1": "up", "2": "flat", "3": "down"},
    "thal": {"3": "normal", "6": "fixed", "7": "reversible"},
}

_DESCR = """Heart disease in four hospitals

741 patients of the hospitals in Cleveland (303), Hungary (262), Switzerland (46) and of the VA in Long Beach (130).
Target: whether the coronary arteries are narrowed (num >= 1). Clusters: the hospitals. The paper trains on Cleveland,
VA and Switzerland and validates on Hungary.

Features: age, resting blood pressure (trestbps), cholesterol (chol), fasting blood sugar above 120 mg/dl (fbs), largest
heart rate (thalach), angina under exercise (exang), ST depression (oldpeak), and, as columns of 0 and 1 for each value
that occurs, sex, kind of chest pain (cp), resting electrocardiogram (restecg), slope of the ST segment (slope) and
thallium scan (thal). A missing value of these five is a category of its own. Of the 920 patients, those that lack any
other feature are left out, and `ca` is not used.

Beware: chol = 0 means "not recorded", for every Swiss patient and for 49 of the VA's 200. Whether slope and thal are
missing tells much about the hospital.

Source: UCI Machine Learning Repository, Heart Disease (A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano),
https://archive.ics.uci.edu/dataset/45
"""


def load_heart(*, data_home: DataHome = None) -> Bunch:
    """Heart disease in four hospitals: 741 patients, 25 columns of features, clusters are hospitals.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds ``heart/processed.cleveland.data`` and the files of the other three hospitals, plain or
        gzipped. By default the one that the environment variable ``OUTOFCLUSTER_DATA`` names; if it is not set either,
        the files are downloaded with pooch and kept in its folder for caches.

    Returns
    -------
    Bunch

    Examples
    --------
    >>> from outofcluster.datasets import load_heart
    >>> heart = load_heart()  # doctest: +SKIP
    >>> len(heart.train_rows), len(heart.validation_rows)  # doctest: +SKIP
    (479, 262)
    """
    contents = read_files(HEART, [f"processed.{name}.data" for name in _HOSPITALS.values()], data_home)
    records, groups = [], []
    for hospital, content in zip(_HOSPITALS, contents, strict=True):
        for row in read_rows(content):
            record = dict(zip(_COLUMNS, row, strict=True))
            del record["ca"]
            if not any(value == "?" and name not in _CATEGORIES for name, value in record.items()):
                records.append(record)
                groups.append(hospital)
    features = [name for name in _COLUMNS if name not in ("ca", "num")]
    # One hospital writes 1.0 where the others write 1.
    columns = [
        (name, [record[name].removesuffix(".0") if name in _CATEGORIES else record[name] for record in records])
        for name in features
    ]
    data, names = feature_matrix(columns, _CATEGORIES)
    return Bunch(
        data=data,
        target=np.array([int(float(record["num"]) >= 1) for record in records]),
        groups=np.array(groups),
        train_groups=("Cleveland", "VA", "Switzerland"),
        validation_groups=("Hungary",),
        feature_names=names,
        target_names=("healthy", "ill"),
        licence=HEART.licence,
        DESCR=_DESCR,
    )

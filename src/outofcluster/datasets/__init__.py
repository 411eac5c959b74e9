"""Data to try things on: the four data sets of the paper, its synthetic study, and patients whose linkage errs.

The loaders read the raw files of the UCI archive and prepare them as the paper did. Files are looked for in the folder
``data_home``, else in the one that the environment variable ``OUTOFCLUSTER_DATA`` names; if neither is given they are
downloaded once and kept. The sha256 of every file is checked each time it is read.

>>> from outofcluster import datasets
>>> datasets.make_partition(15, 1000, random_state=0)
Bunch(1015 records, 1 features; 15 records in 1 training and 1000 in 1 validation clusters)
"""

from outofcluster.datasets.loaders import Bunch, load_census, load_dota2, load_heart, load_parkinson
from outofcluster.datasets.simulated import Patients, make_partition, make_patients, partition_losses

__all__ = [
    "Bunch",
    "Patients",
    "load_census",
    "load_dota2",
    "load_heart",
    "load_parkinson",
    "make_partition",
    "make_patients",
    "partition_losses",
]

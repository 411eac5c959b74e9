"""
Many models compared
====================

Leakage does not flatter all models alike. One that can recognise a patient gains much from a leaked record, a linear
one little, so the ranking itself can be wrong. `outofcluster.compare` audits all of them on the same resamples, which
makes their differences far less noisy than their losses.
"""

# %%
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import outofcluster as ooc
from outofcluster.present.display import ComparisonDisplay

law = {"n_records": (3, 7), "signal": 0.7, "record_noise": 0.2}
patients = ooc.datasets.make_patients(300, split_share=0.5, random_state=3, **law)
models = {
    "logistic": LogisticRegression(),
    "1 neighbour": KNeighborsClassifier(1),
    "9 neighbours": KNeighborsClassifier(9, weights="distance"),
    "small tree": DecisionTreeClassifier(max_depth=4),
}
found = ooc.compare(
    models,
    patients.data,
    patients.target,
    groups=patients.groups,
    leakage=ooc.Leakage(0.4, std=0.04, of="validation"),
    n_fits=80,
    random_state=0,
)
print(found)

# %%
# Each model's own interval is wide, since patients differ; the order is what changes.
ComparisonDisplay.from_comparison(found).plot()

# %%
# Two models head to head
# -----------------------
# One neighbour looks better than nine. The interval of a difference is paired: what makes a patient hard for both
# cancels.
pair = found.difference("9 neighbours", "1 neighbour")
print(pair)

# %%
# The tipping point is the leakage rate from which on the model that looks better is the worse one. Below it the choice
# stands whatever the rate is.
print(found.tipping_point("9 neighbours", "1 neighbour"))

# %%
# Was it right?
# -------------
new = ooc.datasets.make_patients(2000, split_share=0.0, random_state=4, **law)
unique = ooc.datasets.make_patients(300, split_share=0.0, random_state=3, **law)
for name in found.ranking:
    truth = np.mean(models[name].fit(unique.data, unique.target).predict(new.data) != new.target)
    result = found.audits[name]
    print(f"{name:14s} as it is {result.naive.value:.3f}  corrected {result.corrected.value:.3f}  truth {truth:.3f}")

"""
Many models compared
====================

Leakage does not flatter all models equally. A model that can recognise a patient gains much from a leaked record, and a
linear model gains little, so the ranking itself can be wrong. `outofcluster.compare` audits all models on the same
resamples, which makes their differences far less noisy than their losses.
"""

# %%
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import outofcluster as ooc

law = {"n_records": (3, 7), "signal": 0.7, "record_noise": 0.2}
patients = ooc.datasets.make_patients(300, split_share=0.5, random_state=3, **law)
models = {
    "logistic": LogisticRegression(),
    "1 neighbour": KNeighborsClassifier(1),
    "9 neighbours": KNeighborsClassifier(9, weights="distance"),
    "small tree": DecisionTreeClassifier(max_depth=4),
}
comparison = ooc.compare(
    models,
    patients.data,
    patients.target,
    groups=patients.groups,
    random_state=0,
)
print(comparison)

# %%
# The interval of each model is wide, because patients differ. What changes is the order.
comparison.plot()

# %%
# Two models head to head
# -----------------------
# One neighbour looks better than nine. The interval of a difference is paired: if a patient is hard for both models,
# that cancels out.
pair = comparison.difference("9 neighbours", "1 neighbour")
print(pair)

# %%
# Above the tipping point, a leakage rate, the model that looks better is the worse one. Below it the choice between the
# two stays the same, whatever the rate is.
print(comparison.tipping_point("9 neighbours", "1 neighbour"))

# %%
# Was it right?
# -------------
new = ooc.datasets.make_patients(2000, split_share=0.0, random_state=4, **law)
unique = ooc.datasets.make_patients(300, split_share=0.0, random_state=3, **law)
for name in comparison.ranking:
    truth = np.mean(models[name].fit(unique.data, unique.target).predict(new.data) != new.target)
    result = comparison.audits[name]
    print(f"{name:14s} as it is {result.naive.value:.3f}  corrected {result.corrected.value:.3f}  truth {truth:.3f}")

# %%
# The order is right: nine neighbours are better than one, and cross-validation has it the other way round. The values
# of the neighbours are close to the truth as well. For the linear model the truth lies just above the interval. Leakage
# is not the reason, since it hardly gains from it: these 300 patients happen to be easier for it, and for the tree,
# than the 2,000 new ones.

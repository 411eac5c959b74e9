"""
When the rate is not known: test, sensitivity, tipping point
============================================================

Often nobody knows how many records leak. Three questions can be answered all the same. Is there anything for leakage to
act on? How much would the loss change if the rate were so and so? And how large would it have to be before a decision
changes?
"""

# %%
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.present.display import LossCurveDisplay, SensitivityDisplay

patients = ooc.datasets.make_patients(400, n_records=(3, 7), split_share=0.3, random_state=2)
X, y, groups = patients.data, patients.target, patients.groups

# %%
# Is there a cluster effect?
# --------------------------
# The test trains some models on records of the held-out clusters and others on records of other clusters. It needs no
# rate, and says what it did not show as plainly as what it did.
model = KNeighborsClassifier(7, weights="distance")
print(ooc.leakage_test(model, X, y, groups=groups, cv=2, random_state=0))

# %%
# What if?
# --------
# Without a rate there is no corrected loss, but models have been fitted, and every rate is a matter of microseconds.
result = ooc.audit(model, X, y, groups=groups, n_fits=200, random_state=0)
print(result.sensitivity([0.0, 0.1, 0.2, 0.3]))

# %%
# Losses fall as pieces of held-out patients are added to training. That is what leakage does.
LossCurveDisplay.from_audit(result).plot()

# %%
# When would it matter?
# ---------------------
# A linear model is the rival; it is simple enough to gain little from leaked records. As it is, nearest neighbours look
# better or worse by so much:
rival = 1 - cross_val_score(LogisticRegression(), X, y, groups=groups, cv=GroupKFold(5)).mean()
print(f"rival {rival:.3f}, nearest neighbours {result.naive.value:.3f}")

# %%
# They must lose no more than five points on it to be worth their other merits. If less than this share of the held-out
# records leaks, they do:
threshold = rival + 0.05
print(result.tipping_point(threshold))

# %%
SensitivityDisplay.from_audit(result, threshold=threshold, rates=np.linspace(0, 0.5, 26)).plot()

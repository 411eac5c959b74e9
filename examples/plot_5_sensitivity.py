"""
What if? Test, sensitivity, tipping point
=========================================

An audit needs no leakage rate. Still one may want to ask what a certain rate would mean. Is there anything for leakage
to act on? How much would the loss change if the rate had a certain value? How large would the rate have to be to change
a decision?
"""

# %%
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.present.display import SensitivityDisplay

patients = ooc.datasets.make_patients(400, n_records=(3, 7), split_share=0.3, random_state=2)
X, y, groups = patients.data, patients.target, patients.groups

# %%
# Is there a cluster effect?
# --------------------------
# The test fits pairs of models, each to half of the records of its own clusters, and scores both on the other halves.
# If models do better on clusters they know, there is something for leakage to act on. No rate is needed.
model = KNeighborsClassifier(7, weights="distance")
test = ooc.leakage_test(model, X, y, groups=groups, cv=2, random_state=0)
print(test)

# %%
# The losses behind it, one mark per model:
test.plot()

# %%
# What if?
# --------
# With ``leakage=None`` nothing is corrected. But the models have been fitted, and every rate is solved for in
# milliseconds. What can be seen of the leakage is part of each of these answers.
result = ooc.audit(model, X, y, groups=groups, leakage=None, random_state=0)
print(result.sensitivity([0.0, 0.1, 0.2, 0.3]))

# %%
# The loss is lower where a piece of a held-out patient was put into training. That is what leakage does.
result.plot()

# %%
# When would it matter?
# ---------------------
# The rival is a linear model. It is so simple that it gains little from leaked records. These are the two losses as
# they are:
rival = 1 - cross_val_score(LogisticRegression(), X, y, groups=groups, cv=GroupKFold(5)).mean()
print(f"rival {rival:.3f}, nearest neighbours {result.naive.value:.3f}")

# %%
# Suppose that nearest neighbours are still worth using if their loss is at most five points above that of the rival.
# This is the case if less than this share of the held-out records leaks:
threshold = rival + 0.05
print(result.tipping_point(threshold))

# %%
SensitivityDisplay.from_audit(result, threshold=threshold, rates=np.linspace(0, 0.5, 26)).plot()

# %%
# Was it right?
# -------------
# In a simulation the rate is known, and so is the loss of models without leaked records, here on the same held-out
# patients and on 3,000 new ones.
new = ooc.datasets.make_patients(3000, n_records=(3, 7), split_share=0.0, random_state=5)
leaked, same, others = [], [], []
for fold in result.samples.folds:
    leaked.extend(np.isin(patients.entities[fold.rows], np.delete(patients.entities, fold.rows)))
    clean = ~np.isin(patients.entities, patients.entities[fold.rows])
    fitted = model.fit(X[clean], y[clean])
    same.extend(fitted.predict(X[fold.rows]) != y[fold.rows])
    others.append(np.mean(fitted.predict(new.data) != new.target))
rate = float(np.mean(leaked))
print(f"at the true rate, {rate:.3f}: corrected {result.at_leakage(rate).corrected}")
print(f"truth: {np.mean(same):.3f} on the same patients, {np.mean(others):.3f} on new ones")

# %%
# Yes: at the true rate the corrected loss lies between the two truths, and both are inside the interval. The true rate
# is far above the tipping point, so the rival is the better choice. The default, ``leakage="data"``, needs no rate:
print(ooc.audit(model, X, y, groups=groups, random_state=0).corrected)

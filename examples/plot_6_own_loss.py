"""
A loss of your own
==================

The loss can be any function of the true and the predicted values that gives one loss per record. Here a missed illness
costs ten times as much as a false alarm.
"""

# %%
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc

patients = ooc.datasets.make_patients(300, n_records=(3, 6), split_share=0.4, random_state=7)
X, y, groups = patients.data, patients.target, patients.groups


def cost(y_true, y_pred):
    """One cost per record: 10 for a missed illness, 1 for a false alarm."""
    return np.where(y_true == y_pred, 0.0, np.where(y_true == 1, 10.0, 1.0))


class Cautious(KNeighborsClassifier):
    """Predicts "ill" where at least one neighbour in six is ill."""

    def predict(self, X):
        """1 where the cost of a missed illness outweighs that of a false alarm."""
        return (self.predict_proba(X)[:, 1] > 1 / 6).astype(int)


model = Cautious(7, weights="distance")
result = ooc.audit(model, X, y, groups=groups, loss=cost, cv=4, random_state=0)
print(result)

# %%
result.plot()

# %%
# Losses with a name
# ------------------
# "zero_one", "squared_error", "absolute_error", "log_loss" and "brier" are built in. Losses of probabilities react to
# leakage more finely than losses of classes do.
brier = ooc.audit(model, X, y, groups=groups, loss="brier", cv=4, random_state=0)
print(brier.corrected, brier.bias)

# %%
# Metrics
# -------
# Any metric of scikit-learn works as well, shown in its own sign and name, and several are measured from the same fits.
# A metric such as AUC looks at all held-out records at once; what each cluster adds to it is found by leaving the
# cluster out.
scoring = ["roc_auc", "average_precision"]
area = ooc.audit(model, X, y, groups=groups, scoring=scoring, cv=4, random_state=0)
for name, own in area.metrics.items():
    print(f"{name}: {own.naive} as it is, {own.corrected} corrected, optimism {own.optimism}")

# %%
# Was it right?
# -------------
# Models are trained without the leaked records, and scored on the same held-out patients and on 3,000 new ones.
new = ooc.datasets.make_patients(3000, n_records=(3, 6), split_share=0.0, random_state=8)
same, others = [], []
for fold in result.samples.folds:
    clean = ~np.isin(patients.entities, patients.entities[fold.rows])
    fitted = model.fit(X[clean], y[clean])
    same.extend(cost(y[fold.rows], fitted.predict(X[fold.rows])))
    others.append(np.mean(cost(new.target, fitted.predict(new.data))))
print(f"as it is {result.naive}, corrected {result.corrected}")
print(f"truth: {np.mean(same):.3f} on the same patients, {np.mean(others):.3f} on new ones")

# %%
# Yes: the corrected cost is next to the truth on the same patients, and the interval contains that on new ones. Few
# records carry most of this cost, those of missed illnesses, so a few patients decide, and the interval is wide.

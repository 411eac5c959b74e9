"""
Regression
==========

Here the model predicts a number instead of a class. Customers have several orders each, and their identities were
resolved from e-mail addresses and names. The loss is the squared error, which has no upper limit. No leakage rate is
known.
"""

# %%
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import outofcluster as ooc
from outofcluster.present.display import FoldsDisplay

law = {"n_records": (2, 8), "n_features": 5, "target": "regression", "signal": 1.2, "record_noise": 0.3}
customers = ooc.datasets.make_patients(220, split_share=0.4, random_state=1, **law)
print(customers)

# %%
# A model that can memorise
# -------------------------
# We use three nearest neighbours. ``n_jobs`` would spread the fits over several workers, and the numbers would be the
# same.
neighbours = ooc.audit(
    KNeighborsRegressor(3, weights="distance"),
    customers.data,
    customers.target,
    groups=customers.groups,
    cv=4,
    random_state=0,
)
print(neighbours)

# %%
neighbours.plot()

# %%
FoldsDisplay.from_audit(neighbours).plot()

# %%
# A model that cannot
# -------------------
# A linear model with five coefficients cannot memorise single customers. Leakage changes next to nothing, and the audit
# says so.
ridge = ooc.audit(
    Ridge(),
    customers.data,
    customers.target,
    groups=customers.groups,
    cv=4,
    random_state=0,
)
for name, result in {"neighbours": neighbours, "ridge": ridge}.items():
    share = result.bias / result.naive.value
    print(f"{name}: too low by {result.bias:.3f} of {result.naive.value:.3f}, or {100 * share:.0f} %")

# %%
# Was it right?
# -------------
# We train both models without the leaked orders, and score them on the same held-out customers and on 3,000 new ones.
new = ooc.datasets.make_patients(3000, split_share=0.0, random_state=2, **law)
for name, result in {"neighbours": neighbours, "ridge": ridge}.items():
    model = KNeighborsRegressor(3, weights="distance") if name == "neighbours" else Ridge()
    same, others = [], []
    for fold in result.samples.folds:
        clean = ~np.isin(customers.entities, customers.entities[fold.rows])
        fitted = model.fit(customers.data[clean], customers.target[clean])
        same.extend((fitted.predict(customers.data[fold.rows]) - customers.target[fold.rows]) ** 2)
        others.append(np.mean((fitted.predict(new.data) - new.target) ** 2))
    print(f"{name}: as it is {result.naive}, corrected {result.corrected}")
    print(f"  truth: {np.mean(same):.3f} on the same customers, {np.mean(others):.3f} on new ones")

# %%
# Yes, for these folds: the corrected values are close to what the models lose on the same customers without leaked
# orders. New customers are easier to predict than these 220, for both models, so the truth on them lies lower. Squared
# errors depend on a few customers, and the intervals are wide. For the linear model there was nothing to correct, and
# nothing was.

"""
Regression
==========

Here the model predicts a number instead of a class. Customers have several orders each, and their identities were
resolved from e-mail addresses and names. The loss is the squared error, which has no upper limit.
"""

# %%
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import outofcluster as ooc
from outofcluster.present.display import FoldsDisplay

law = {"n_records": (2, 8), "n_features": 5, "target": "regression", "signal": 1.2, "record_noise": 0.3}
customers = ooc.datasets.make_patients(220, split_share=0.4, random_state=1, **law)
split = np.isin(customers.entities, np.arange(80))
leakage = ooc.Leakage.from_true_groups(customers.entities[split], customers.groups[split], cv=4, of="validation")
print(leakage)

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
    leakage=leakage,
    cv=4,
    n_fits=160,
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
    leakage=leakage,
    cv=4,
    n_fits=200,
    random_state=0,
)
for name, result in {"neighbours": neighbours, "ridge": ridge}.items():
    print(
        f"{name}: too low by {result.bias:.3f} of {result.naive.value:.3f}, or {result.bias / result.naive.value:.0%}"
    )

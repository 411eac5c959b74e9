"""
A loss of one's own
===================

Any function of the true and the predicted values that gives one loss a record will do. Here a missed illness costs ten
times a false alarm.
"""

# %%
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.present.display import LossCurveDisplay

patients = ooc.datasets.make_patients(300, n_records=(3, 6), split_share=0.4, random_state=7)
X, y, groups = patients.data, patients.target, patients.groups


def cost(y_true, y_pred):
    """One cost a record: 10 for a missed illness, 1 for a false alarm."""
    return np.where(y_true == y_pred, 0.0, np.where(y_true == 1, 10.0, 1.0))


class Cautious(KNeighborsClassifier):
    """Calls ill whom at least one neighbour in six was."""

    def predict(self, X):
        """1 where the cost of a missed illness outweighs that of a false alarm."""
        return (self.predict_proba(X)[:, 1] > 1 / 6).astype(int)


model = Cautious(7, weights="distance")
leakage = ooc.Leakage(0.25, std=0.04, of="validation")
result = ooc.audit(model, X, y, groups=groups, leakage=leakage, loss=cost, cv=4, n_fits=160, random_state=0)
print(result)

# %%
LossCurveDisplay.from_audit(result).plot()

# %%
# Losses with a name
# ------------------
# "zero_one", "squared_error", "absolute_error", "log_loss" and "brier" are built in. Probabilities notice leakage more
# finely than classes do.
brier = ooc.audit(model, X, y, groups=groups, leakage=leakage, loss="brier", cv=4, n_fits=160, random_state=0)
print(brier.corrected, brier.bias)

# %%
# Scorers
# -------
# A scikit-learn scorer works as well; its loss is minus its score. It looks at all held-out records at once, so no
# record has a loss of its own, and the interval cannot tell which records make the score vary: prefer a loss a record
# where there is one.
from sklearn.metrics import get_scorer  # noqa: E402

area = ooc.audit(
    model, X, y, groups=groups, leakage=leakage, loss=get_scorer("roc_auc"), cv=4, n_fits=160, random_state=0
)
print(f"area under the curve: {-area.naive.value:.3f} as it is, {-area.corrected.value:.3f} corrected")

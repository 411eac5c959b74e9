"""The README's picture: an audit of simulated clinics, drawn by ``python docs/images/draw.py``.

Sixty clinics of 40 records, each with levels and slopes of its own; a tenth of the training records truly belong to
held-out clinics.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.linear_model import LogisticRegression

import outofcluster as ooc
from outofcluster.present.display import LossCurveDisplay, SensitivityDisplay

mpl.use("Agg")

from matplotlib import pyplot as plt


def main() -> None:
    """Audit and draw."""
    rng = np.random.default_rng(1)
    clinic = np.repeat(np.arange(60), 40)
    kind = np.where(np.arange(60) < 30, 0.0, 1.0)
    X = rng.standard_normal((2400, 6))
    slopes = np.array([1.0, 0.5, 0, 0, 0, 0]) + 0.8 * kind[:, None] * rng.standard_normal(6)
    score = (X * slopes[clinic]).sum(axis=1) + 0.4 * rng.standard_normal(60)[clinic] + rng.standard_normal(2400)
    leaky = ooc.simulate_leakage(clinic, np.arange(30, 60), rate=0.1, random_state=0)
    audit = ooc.audit(
        LogisticRegression(),
        X,
        score > 0,
        groups=leaky.groups,
        cv=[(leaky.train, leaky.validation)],
        leakage=leaky.rate,
        error_model="records",
        random_state=0,
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(13.2, 5.2), layout="constrained")
    LossCurveDisplay.from_audit(audit).plot(ax=left)
    SensitivityDisplay.from_audit(audit).plot(ax=right)
    figure.savefig(Path(__file__).with_name("loss_curve.png"), dpi=100)


if __name__ == "__main__":
    main()

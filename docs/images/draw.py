"""The pictures of the README and of the page on levels below the rate: ``python docs/images/draw.py``.

Thirty hospitals of 50 records, of which ten are held out. These ten measure with other equipment, which shows in one
feature, and their patients are ill less often than a model from elsewhere thinks. A tenth of the training records truly
belong to them: enough for the model to learn about them, too few to show in its losses above that rate.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.linear_model import LogisticRegression

import outofcluster as ooc
from outofcluster.present.display import SensitivityDisplay, UnmixingDisplay

mpl.use("Agg")

from matplotlib import pyplot as plt

HERE = Path(__file__).parent


def hospitals() -> tuple[ooc.Audit, float]:
    """The audit, and the loss of a model that never saw a leaked record."""
    rng = np.random.default_rng(1)
    hospital = np.repeat(np.arange(30), 50)
    held_out = hospital >= 20
    X = 0.5 * rng.standard_normal((30, 8))[hospital] + rng.standard_normal((1500, 8))
    X[held_out, 2] += 2
    level = 0.3 * rng.standard_normal(30)[hospital] - 2 * held_out
    ill = X[:, 0] + 0.5 * X[:, 1] + level + 0.7 * rng.standard_normal(1500) > 0
    leaky = ooc.simulate_leakage(hospital, np.arange(20, 30), rate=0.1, random_state=0)
    audit = ooc.audit(
        LogisticRegression(),
        X,
        ill,
        groups=leaky.groups,
        cv=[(leaky.train, leaky.validation)],
        leakage=leaky.rate,
        error_model="records",
        random_state=0,
    )
    clean = leaky.train[~held_out[leaky.train]]
    model = LogisticRegression().fit(X[clean], ill[clean])
    return audit, 1 - model.score(X[leaky.validation], ill[leaky.validation])


def main() -> None:
    """Audit and draw."""
    audit, truth = hospitals()
    figure, (left, right) = plt.subplots(1, 2, figsize=(13.2, 5.4), layout="constrained")
    UnmixingDisplay.from_audit(audit).plot(ax=left)
    SensitivityDisplay.from_audit(audit).plot(ax=right)
    figure.savefig(HERE / "loss_curve.png", dpi=100)

    figure, ax = plt.subplots(figsize=(8.0, 5.4), layout="constrained")
    UnmixingDisplay.from_audit(audit).plot(ax=ax)
    ax.axhline(truth, color="black", linewidth=1, linestyle=(0, (1, 2)))
    ax.text(float(ax.get_xlim()[1]), truth, f"the truth: {truth:.3f} ", ha="right", va="bottom", fontsize="small")
    ax.set_xlim(*ax.get_xlim())
    figure.savefig(HERE / "below_the_rate.png", dpi=100)
    print(audit, f"truth: {truth:.4f}", sep="\n")


if __name__ == "__main__":
    main()

"""
Curve methods side by side
==========================

A curve method knows nothing of models or records. It takes levels and losses, and gives a curve. In the paper's
synthetic study the whole curve is known, from no leaked record to all of them. It falls by a factor of twenty within
the first two leaked records.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import outofcluster as ooc

n, p0 = 15, 0.1
truth = ooc.datasets.partition_losses(n)
print(truth[:4].round(2))

# %%
# What is observed at level p is an average over the number of leaked records, which is binomial. We add noise of 1 %.
p = p0 + (1 - p0) * np.array([0.0, 0.03, 0.1, 0.25, 0.6, 1.0])
exact = ooc.BinomialOperator(p, n).apply(truth)
errors = 0.01 * exact
b = exact + errors * np.random.default_rng(0).standard_normal(len(p))

# %%
# All methods are called in the same way. They differ in what they assume.
curves = {
    "automatic": ooc.AutoCurve(),
    "completely monotone": ooc.CompletelyMonotoneCurve(),
    "polynomial, degree 3": ooc.PolynomialCurve(3),
    "trend filter": ooc.TrendFilterCurve(order=4),
    "sketch": ooc.SketchCurve(n_groups=4),
}
for name, curve in curves.items():
    curve.fit_points(p, b, n, standard_errors=errors)
    print(f"{name:22s} e_0 = {curve.e0_:6.2f}   (truth {truth[0]:.2f})")

# %%
# Which were right? The automatic and the completely monotone curve, because this truth is of the kind that they assume:
# a steep fall that flattens. The polynomial and the trend filter are too smooth for it, and the sketch is constant
# where the curve falls most. They are far too low, and nothing in the observed losses tells them so.

# %%
# Above the lowest level all of them agree with the losses. Below it nothing was observed, and the assumption decides.
grid = np.linspace(0, 0.4, 81)
operator = ooc.BinomialOperator(grid, n)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.axvspan(0, p0, color="#EEEEEE")
ax.plot(grid, operator.apply(truth), color="black", linewidth=3, alpha=0.3, label="truth")
for name, curve in curves.items():
    ax.plot(grid, operator.apply(curve.values(np.arange(n + 1))), label=name, linewidth=1.5)
ax.plot(p, b, "ko", markersize=5, label="observed")
ax.set(xlim=(0, 0.4), ylim=(0, 40), xlabel="share of leaked records", ylabel="squared error")
ax.legend(frameon=False)

# %%
# Another rate needs no further fit: the levels move, and the curve is solved again.
for rate in (0.05, 0.1, 0.15):
    levels = rate + (1 - rate) * (p - p0) / (1 - p0)
    print(rate, round(ooc.AutoCurve().fit_points(levels, b, n, standard_errors=errors).e0_, 1))

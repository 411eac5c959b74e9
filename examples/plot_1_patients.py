"""
Patients whose records were linked with errors
==============================================

A linkage put the records of patients together, but left some patients in two pieces. Group folds keep every piece on
one side of the split. Where the other piece of a held-out patient trains, the model recognises the patient, and the
score looks too good. A few patients were looked up by hand. They give the leakage rate, and the audit does the rest.
"""

# %%
# The data
# --------
# There are 400 patients with 3 to 7 records each. ``groups`` holds what the linkage says. ``entities`` holds whose
# record it truly is, which nobody knows in practice.
import tempfile

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.present.display import FoldsDisplay

law = {"n_records": (3, 7), "signal": 0.7, "record_noise": 0.25}
patients = ooc.datasets.make_patients(400, split_share=0.35, random_state=101, **law)
model = KNeighborsClassifier(5, weights="distance")
print(patients)

# %%
# The leakage rate
# ----------------
# All records of 100 patients, drawn at random, were looked up. There are many patients with few records each, so whole
# pieces leak, and the rate is a share of the held-out records (``of="validation"``).
looked_up = np.random.default_rng(0).choice(400, 100, replace=False)
rows = np.isin(patients.entities, looked_up)
leakage = ooc.Leakage.from_true_groups(patients.entities[rows], patients.groups[rows], cv=5, of="validation")
print(leakage)

# %%
# The audit
# ---------
# The first line is what a cross-validation with ``GroupKFold`` reports, the second is what one gets without groups, and
# the third is the answer.
result = ooc.audit(
    model,
    patients.data,
    patients.target,
    groups=patients.groups,
    leakage=leakage,
    n_fits=200,
    random_state=0,
)
print(result)

# %%
# The curve shows the losses with more and more pieces put into training on purpose, and the line back to none.
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
# Yes: both truths lie inside the interval, and the corrected value between them, while cross-validation is too low by
# about a seventh.

# %%
# Other choices later
# -------------------
# The result holds the losses of all fits. So it can be saved and read again, and it can be solved for another rate,
# curve or level of confidence. No model is fitted for that.
with tempfile.TemporaryDirectory() as folder:
    result.save(f"{folder}/patients.audit")
    again = ooc.Audit.load(f"{folder}/patients.audit")
print(again.with_confidence(0.8).corrected, again.with_curve(ooc.PolynomialCurve(2)).corrected)

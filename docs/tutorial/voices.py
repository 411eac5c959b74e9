"""Make the table of the tutorial and everything that its page shows: ``python docs/tutorial/voices.py``.

The recordings are real (`outofcluster.datasets.load_parkinson`, which reads or downloads them), and so are the people.
The linkage is made here: 14 of the 40 people are split in two, as a linkage by name and date of birth would. So the
truth is known, and the page can say how far the answer is from it. It takes about a minute.
"""

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outofcluster as ooc

HERE = Path(__file__).parent
LINKAGES = 5
# What each person said, in the order of the recordings, by the description of the data set.
KINDS = ["vowel"] * 3 + ["number"] * 10 + ["sentence"] * 4 + ["word"] * 9
# Headings of the checklist that the page shows.
SHOWN = ("## TRIPOD+AI", "### 12d", "### 23a", "### 23b", "## REFORMS", "### 6b", "## GUILD", "### Data linkage")


def voices(seed):
    """The table: measures of the voice, what was said, the person, the person as linked, and whether ill."""
    data = ooc.datasets.load_parkinson()
    table = pd.DataFrame(data.data, columns=data.feature_names)
    person = np.asarray(data.groups).astype(int)
    linked, rng = person.copy(), np.random.default_rng(seed)
    for split in rng.choice(np.unique(person), 14, replace=False):
        rows = rng.permutation(np.flatnonzero(person == split))
        linked[rows[: rng.integers(6, 21)]] = 100 + split
    kind = np.tile(KINDS, len(np.unique(person)))
    return table.assign(person=person, kind=kind, linked=linked, ill=data.target)


def parts(table):
    """Records, targets, linked people and true people."""
    X = table.drop(columns=["person", "kind", "linked", "ill"])
    return X, table["ill"].to_numpy(), table["linked"].to_numpy(), table["person"].to_numpy()


def audited(table, answers=None):
    """The audit of the page, without look-ups or with them."""
    X, y, linked, _ = parts(table)
    return ooc.audit(model(), X, y, groups=linked, error_model="fragments", reviewed=answers, random_state=0)


def looked_up(table, audit):
    """A review list of twenty clusters, with the answers of somebody who knows the people."""
    _, _, linked, person = parts(table)
    answers = audit.review_list(20, random_state=0)
    person_of = dict(zip(linked.astype(str), person, strict=True))
    mates = [[other for other in person_of if person_of[other] == person_of[one]] for one in answers["cluster"]]
    own = zip(answers["cluster"], mates, strict=True)
    return answers.assign(same_as=["; ".join(m for m in others if m != one) or "none" for one, others in own])


def model():
    """Five nearest neighbours on features of one scale."""
    return make_pipeline(StandardScaler(), KNeighborsClassifier(5))


def without_leakage(table):
    """Error rate on the same folds if no recording of a held-out person trains, and as many others do not either.

    Fewer people to learn from make a model worse by themselves, which is no leakage. So the model without the held-out
    people is compared with models without as many other people, thirty of them in each fold.
    """
    X, y, linked, person = parts(table)
    X, rng, errors = X.to_numpy(), np.random.default_rng(0), []

    def wrong(kept, test):
        return (model().fit(X[kept], y[kept]).predict(X[test]) != y[test]).mean()

    for train, test in GroupKFold(5).split(X, y, linked):
        held_out = np.isin(person[train], person[test])
        mates = np.unique(linked[train][held_out])
        others = np.setdiff1d(linked[train], mates)
        drawn = [rng.choice(others, len(mates), replace=False) for _ in range(30)]
        control = np.mean([wrong(train[~np.isin(linked[train], some)], test) for some in drawn])
        gain = wrong(train[~held_out], test) - control
        errors.append((wrong(train, test) + gain, len(test)))
    rates, sizes = np.transpose(errors)
    return float(np.average(rates, weights=sizes))


def command(words, folder):
    """What a command prints."""
    run = [sys.executable, "-c", "from outofcluster.cli import main; main()", *words]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def excerpt(markdown, titles):
    """Some sections of a checklist, each with what stands above it."""
    sections = re.split(r"\n\n(?=#)", markdown)
    shown = [next(part for part in sections if part.startswith(title)) for title in titles]
    return "\n\n".join(shown)


def wrapped(line):
    """A line as several, where it is long."""
    start = re.match(" *", line)[0]
    return textwrap.fill(line, 100, subsequent_indent=start)


def main():
    """Write every text."""
    table = voices(0)
    said = {}
    with tempfile.TemporaryDirectory() as folder:
        table.drop(columns="person").to_csv(f"{folder}/voices.csv", index=False)
        words = ["--target", "ill", "--groups", "linked", "--drop", "kind"]
        said["test"] = command(["test", "voices.csv", *words], folder)
    result = audited(table)
    said["audit"] = str(result)
    said["headline"], first = result.summary.headline, result
    answers = looked_up(table, result)
    said["list"] = answers.drop(columns="inclusion_probability").head(8).to_string(index=False)
    result = audited(table, answers)
    said["again"] = str(result)
    said["methods"] = "\n\n".join(textwrap.fill(part, 100) for part in result.methods_text().split("\n\n"))
    by = result.by(table["kind"])
    for name, asked in (("by", by), ("spread", result.spread())):
        said[name] = "\n".join(wrapped(line) for line in str(asked).splitlines())
    checklist = result.checklist(by).to_markdown()
    said["checklist"] = "\n".join(wrapped(line) for line in excerpt(checklist, SHOWN).splitlines())
    tried = []
    for seed in range(LINKAGES):
        other = voices(seed)
        alone = audited(other)
        reviewed = audited(other, looked_up(other, alone))
        values = [each.value for each in (alone.naive, alone.corrected, reviewed.corrected)]
        tried.append((*values, without_leakage(other)))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("linkage  cross-validated  corrected  after 20 look-ups  without leakage")
        rows = [(f"{number:7d}", values) for number, values in enumerate(tried, 1)]
        for number, row in [*rows, ("   mean", np.mean(tried, axis=0))]:
            print(f"{number}  {row[0]:15.3f}  {row[1]:9.3f}  {row[2]:17.3f}  {row[3]:15.3f}")
    said["truth"] = out.getvalue()
    marks = {"by group": first.naive, "audited": first.corrected, "after 20 look-ups": result.corrected}
    numbers = {name: [each.value, *each.interval] for name, each in marks.items()}
    numbers |= {"random folds": [first.iid.value, *first.iid.interval], "truth": tried[0][-1]}
    (HERE / "numbers.json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    for name, text in said.items():
        (HERE / f"{name}.txt").write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

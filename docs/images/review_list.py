"""The picture of a review list on the page about looking up: ``python docs/images/review_list.py``.

Simulated patients get names and years of birth, which no model sees and which the linkage did not use. The audit draws
twelve of their clusters, and somebody who knows the patients has answered for the first nine of them.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc

mpl.use("Agg")

from matplotlib import pyplot as plt

HERE = Path(__file__).parent
FIRST = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gail", "Hugo", "Ines", "Jan", "Kim", "Lea", "Max", "Nora", "Otto"]
LAST = ["Adler", "Brook", "Castle", "Drake", "Ember", "Field", "Grove", "Hill", "Irving", "Jonas", "Keller", "Lind"]
ANSWERED = 9
INK, QUIET, BLUE, SHADE = "#222222", "#777777", "#0072B2", "#F2F2F2"
WIDTHS = {
    "cluster": 0.07,
    "records": 0.07,
    "name": 0.2,
    "born": 0.05,
    "likely_mates": 0.37,
    "same_as": 0.08,
    "inclusion_probability": 0.16,
}


def drawn() -> pd.DataFrame:
    """A review list with names and years of birth, filled in in part."""
    patients = ooc.datasets.make_patients(300, n_records=(3, 7), record_noise=0.4, split_share=0.35, random_state=0)
    rng = np.random.default_rng(5)
    first, last = rng.choice(FIRST, 300), rng.choice(LAST, 300)
    born = rng.integers(1930, 2005, 300)
    # Some records have the first letter of the name alone.
    in_short = rng.random(len(patients.groups)) < 0.1
    spelt = [
        f"{first[person][0]}. {last[person]}" if short else f"{first[person]} {last[person]}"
        for person, short in zip(patients.entities, in_short, strict=True)
    ]
    shown = {"name": spelt, "born": born[patients.entities]}
    audit = ooc.audit(KNeighborsClassifier(3), patients.data, patients.target, groups=patients.groups, random_state=0)
    table = audit.review_list(12, columns=shown, random_state=3)
    person = dict(zip(patients.groups.astype(str), patients.entities, strict=True))
    mates = [[other for other in person if other != one and person[other] == person[one]] for one in table["cluster"]]
    answers = ["; ".join(others) or "none" for others in mates]
    return table.assign(same_as=answers[:ANSWERED] + [""] * (len(table) - ANSWERED))


def draw(table: pd.DataFrame) -> plt.Figure:
    """The table as a spreadsheet shows it, with the answers in colour."""
    columns = list(table.columns)
    cells = table.astype({"inclusion_probability": float}).round({"inclusion_probability": 3}).astype(str)
    figure, ax = plt.subplots(figsize=(12, 4.3), layout="constrained")
    ax.axis("off")
    drawn = ax.table(
        cellText=cells.to_numpy(),
        colLabels=columns,
        colWidths=[WIDTHS[name] for name in columns],
        cellLoc="left",
        colLoc="left",
        loc="center",
        bbox=(0, 0, 1, 1),
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(10)
    for (row, column), cell in drawn.get_celld().items():
        answer = columns[column] == "same_as"
        # Matplotlib pads in proportion to the width of a cell.
        cell.PAD = 0.006 / WIDTHS[columns[column]]
        cell.set(edgecolor="#CCCCCC", facecolor=SHADE if row == 0 else "white")
        cell.get_text().set_color(BLUE if answer else QUIET if columns[column] == "inclusion_probability" else INK)
        cell.get_text().set_weight("bold" if row == 0 or answer else "normal")
        if answer and row > 0:
            cell.set_facecolor("#EAF3FA")
    return figure


def main() -> None:
    """Audit and draw."""
    table = drawn()
    draw(table).savefig(HERE / "review_list.png", dpi=110)
    print(table.to_string())


if __name__ == "__main__":
    main()

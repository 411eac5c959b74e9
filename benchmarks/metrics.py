"""Time of an audit with three metrics over that of the same audit with one: both from the same fits, side by side.

The two audits take turns in one process, so that whatever else the machine does slows both, and the ratio is that of
the smallest times. At most 1.15 is asked for.

Run ``python benchmarks/metrics.py``; ``--fits`` and ``--rounds`` make it shorter or longer.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc

ONE = "roc_auc"
THREE = ["roc_auc", "average_precision", "neg_brier_score"]
MOST = 1.15


def seconds(model: object, error_model: str, scoring: object, n_fits: int) -> float:
    """Processor time of one audit."""
    patients = ooc.datasets.make_patients(random_state=0)
    leakage = ooc.Leakage(0.1, of="validation" if error_model == "fragments" else "train")
    started = time.process_time()
    ooc.audit(
        model,
        patients.data,
        patients.target,
        groups=patients.groups,
        leakage=leakage,
        error_model=error_model,
        scoring=scoring,
        n_fits=n_fits,
        unmix=False,
        random_state=0,
    )
    return time.process_time() - started


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'model':24}{'errors':12}{'one, s':>8}{'three, s':>10}{'ratio':>8}")
    for model in (LogisticRegression(), KNeighborsClassifier(5)):
        for error_model in ("fragments", "records"):
            rounds = [
                [seconds(model, error_model, scoring, options.fits) for scoring in (ONE, THREE)]
                for _ in range(options.rounds)
            ]
            one, three = np.min(rounds, axis=0)
            ratio = three / one
            mark = "" if ratio <= MOST else f"  above {MOST}"
            print(f"{type(model).__name__:24}{error_model:12}{one:8.2f}{three:10.2f}{ratio:8.3f}{mark}")


if __name__ == "__main__":
    main()

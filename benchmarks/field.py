"""Estimate the default of the field protocol anew, and put it into the committed results.

    python benchmarks/field.py FOLDER [STUDY ...]

For when only the default has changed: the paper's protocol and the paper's estimators take most of the time of a full
run of ``outofcluster reproduce``. The draws of the leak are those of the full run, and their true losses are taken from
the committed file; that the draws are the same is checked by their rates. The naive estimate is the loss at level 0 of
the default's fits, so that it is made anew as well. Claims and the pictures of errors follow from the new file.
Finished fits are kept in FOLDER, and the data are those of OUTOFCLUSTER_DATA.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from outofcluster._base.plain import plain
from outofcluster.reproduction.claims import judge
from outofcluster.reproduction.figures import draw_errors, rendered
from outofcluster.reproduction.parts import Parts, Progress, to_json
from outofcluster.reproduction.protocols import field_leaks
from outofcluster.reproduction.results import LABELS, estimate, make_curves, method_errors
from outofcluster.reproduction.sources import Source, load
from outofcluster.reproduction.studies import STUDIES

PAPER = Path(__file__).parent.parent / "docs" / "paper"


def estimates(name: str, folder: Path, seed: int) -> dict[str, Any]:
    """The default's and the naive estimate in every draw of the leak, with the rates of the draws."""
    study, bunch = STUDIES[name], None if name == "synthetic" else load(name, None)
    curve, rows = make_curves(study)["default"], []
    source = Source(study, bunch, Parts(folder / name, {"study": name}, Progress(1)), 1)
    for leak in field_leaks(source, study.full, seed):
        above, below = leak.default(study.full)
        fits_below = 0 if below is None else below.n_fits
        rows.append((estimate(curve, above, below), above[0].means[0], leak.split.rate, fits_below))
    return dict(zip(("default", "naive", "rates", "unmixed"), np.array(rows).T, strict=True))


def replaced(name: str, field: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The committed figures of the field protocol with the new estimates in them."""
    rates, known = new["rates"], field["realised_rate"]
    if not np.allclose([rates.mean(), rates.std(ddof=1)], [known["mean"], known["std"]], rtol=1e-9):
        sys.exit(f"{name}: the leakage rates are not the committed ones, so these are other draws of the leak.")
    committed = field["methods"]
    truth = np.array(committed["naive"]["estimates"]) - np.array(committed["naive"]["errors"])
    naive = method_errors(new["naive"], truth)
    methods = committed | {
        method: {"label": LABELS[method], **method_errors(new[method], truth, naive)} for method in ("naive", "default")
    }
    for row in methods.values():
        row["rmse_over_naive"] = row["rmse"] / naive["rmse"]
        row["median_over_naive"] = row["median_absolute_error"] / naive["median_absolute_error"]
    bias = truth - new["naive"]
    return field | {
        "naive_bias": bias.mean(),
        "relative_naive_bias": bias.mean() / truth.mean(),
        "naive_bias_standard_error": bias.std(ddof=1) / np.sqrt(len(bias)),
        "fits_a_draw": field["fits_a_draw"] | {"unmixed": int(new["unmixed"][0])},
        "methods": methods,
    }


def main(folder: Path, names: list[str]) -> None:
    """Run the studies one after the other, and write after each."""
    path = PAPER / "results.json"
    for name in names or list(STUDIES):
        new = estimates(name, folder, json.loads(path.read_text())["seed"])
        # Only now, since another process may have written another study in the meantime.
        results = json.loads(path.read_text())
        protocols = results["studies"][name]["protocols"]
        before, field = protocols["field"], plain(replaced(name, protocols["field"], new))
        for method in ("naive", "default"):
            figures = [part["methods"][method][key] for key in ("rmse", "rmse_over_naive") for part in (before, field)]
            print("{}, {}: RMSE {:.4g}, now {:.4g}; over naive's {:.3f}, now {:.3f}".format(name, method, *figures))
        protocols["field"] = field
        results["claims"] = plain(judge(results["studies"], results["timing"]))
        path.write_text(to_json(results))
        (PAPER / name / "errors.svg").write_bytes(rendered(draw_errors(results["studies"][name]))["svg"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])

"""The directive ``run-r``: R code, and below it what it prints where R and reticulate are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

__all__ = ["RunR", "is_there", "output_of"]


def is_there() -> bool:
    """Whether R can be run with reticulate."""
    rscript = shutil.which("Rscript")
    return (
        rscript is not None
        and subprocess.run([rscript, "-e", "library(reticulate)"], capture_output=True).returncode == 0
    )


def output_of(code: str, folder: Path) -> str:
    """What R code prints in a folder with the table visits.csv, by the Python that runs this."""
    import pandas as pd

    import outofcluster as ooc

    patients = ooc.datasets.make_patients(random_state=0)
    table = pd.DataFrame(patients.data).add_prefix("x").assign(ill=patients.target, patient=patients.groups)
    table.to_csv(folder / "visits.csv", index=False)
    (folder / "audit.R").write_text(code, encoding="utf-8")
    environment = os.environ | {"RETICULATE_PYTHON": sys.executable}
    done = subprocess.run(
        ["Rscript", "audit.R"], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        raise RuntimeError(f"The R code fails: {done.stderr.strip()}")
    return done.stdout


class RunR(SphinxDirective):
    """R code with its output."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The code, and what it prints."""
        code = "\n".join(self.content)
        shown: list[nodes.Node] = [nodes.literal_block(code, code, language="r")]
        if is_there():
            with tempfile.TemporaryDirectory() as folder:
                printed = output_of(code, Path(folder))
            shown.append(nodes.literal_block(printed, printed, language="text"))
        return shown

"""The R code of the page on other tools, where R and reticulate are installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import outofcluster as ooc

PAGE = Path(__file__).parents[2] / "docs" / "other_tools.md"


@pytest.mark.slow
def test_the_r_code_runs(tmp_path):
    pandas = pytest.importorskip("pandas")
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("R is not installed")
    if subprocess.run([rscript, "-e", "library(reticulate)"], capture_output=True).returncode:
        pytest.skip("reticulate is not installed in R")
    patients = ooc.datasets.make_patients(random_state=0)
    table = pandas.DataFrame(patients.data).add_prefix("x").assign(ill=patients.target, patient=patients.groups)
    table.to_csv(tmp_path / "visits.csv", index=False)
    (code,) = re.findall(r"```r\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "audit.R").write_text(code)
    environment = os.environ | {"RETICULATE_PYTHON": sys.executable}
    done = subprocess.run(
        [rscript, "audit.R"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "For internal validation, 1,000 records" in done.stdout
    assert (tmp_path / "report.html").exists()

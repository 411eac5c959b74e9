"""The R code of the page on other tools: run where R and reticulate are installed, shown without output elsewhere."""

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "other_tools.md").read_text(encoding="utf-8")
CODE = re.findall(r"```\{run-r\}\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def r():
    for needed in ("sphinx", "pandas"):
        pytest.importorskip(needed)
    sys.path.insert(0, str(DOCS / "_ext"))
    import ooc_docs.r

    sys.path.remove(str(DOCS / "_ext"))
    return ooc_docs.r


def test_without_r_the_page_shows_the_code_alone(r, monkeypatch):
    monkeypatch.setattr(r.shutil, "which", lambda _: None)
    directive = r.RunR.__new__(r.RunR)
    directive.content = CODE[0].splitlines()
    (shown,) = directive.run()
    assert shown.astext() == CODE[0].rstrip("\n")
    assert 'py_require("outofcluster")' in shown.astext()


@pytest.mark.slow
def test_the_r_code_runs(r, tmp_path):
    if not r.is_there():
        pytest.skip("R with reticulate is not installed")
    (code,) = CODE
    assert "For internal validation, 1,000 records" in r.output_of(code, tmp_path)
    assert (tmp_path / "report.html").exists()

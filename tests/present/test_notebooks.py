"""Notebooks that are executed without a browser: results are sentences and tables, and figures are shown once."""

import re

import pytest

pytest.importorskip("ipykernel")
nbformat = pytest.importorskip("nbformat")
preprocessors = pytest.importorskip("nbconvert.preprocessors")

PATIENTS = """
import outofcluster as ooc
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
patients = ooc.datasets.make_patients(random_state=0)
data = {"X": patients.data, "y": patients.target, "groups": patients.groups, "random_state": 0, "progress": True}
"""
NOTEBOOKS = {
    "an audit of patients": [
        PATIENTS,
        "result = ooc.audit(KNeighborsClassifier(3), **data)",
        "result",
        "display = result.plot()\ndisplay",
        "display",
        "result.explain()",
        "result.methods_text()",
        "result.tipping_point(0.99)",
        "result.test",
        "result.spread()",
        "ooc.plan_review(result, 0.03)",
        "result.samples",
        "result.findings, result.cost, result.naive",
        "result.review_list(5, random_state=0)",
    ],
    "a comparison": [
        PATIENTS,
        "models = {'near': KNeighborsClassifier(3), 'line': LogisticRegression()}\nboth = ooc.compare(models, **data)",
        "both",
        "both.plot()",
        "both.differences",
        "both.to_frame()",
        "both.tipping_point('near', 'line')",
        "scores = ooc.corrected_cross_validate(models['near'], **data)\nscores['audit']",
    ],
    "hospitals, of which single records leak": [
        "import numpy as np, outofcluster as ooc\nfrom sklearn.linear_model import Ridge\n"
        "rng = np.random.default_rng(0)\nward = np.repeat(np.arange(10), 40)\n"
        "X = rng.standard_normal((10, 3))[ward] + rng.standard_normal((400, 3))",
        "ooc.simulate_leakage(ward, [0, 1], rate=0.1, random_state=0)",
        "ooc.Leakage(0.1, std=0.02)",
        "result = ooc.audit(Ridge(), X, X[:, 0], groups=ward, leakage=0.1, error_model='records', random_state=0, "
        "progress=True)",
        "result",
        "result.plot();",
        "result.sensitivity([0, 0.1])",
        "result.sensitivity([0, 0.1]).plot()",
        "result.samples.folds[0].main",
    ],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_arrays_one_figure_and_few_lines_of_progress(name):
    cells = [nbformat.v4.new_code_cell(code) for code in NOTEBOOKS[name]]
    notebook = nbformat.v4.new_notebook(cells=cells)
    preprocessors.ExecutePreprocessor(timeout=300, kernel_name="python3").preprocess(notebook, {})
    for cell in notebook.cells:
        last, texts = cell.source.splitlines()[-1], [_text(output) for output in cell.outputs]
        assert not re.search(r"array\(\[|\\n", "".join(texts)), last
        if "progress=True" in cell.source or "**data" in cell.source:
            lines = [line for text in texts for line in text.split("\n") if re.search("fits|models|They take", line)]
            assert 1 <= len(lines) <= 10, last
        if "plot()" in last or last == "display":
            assert [list(output.data) for output in cell.outputs] == [["text/plain", "image/png"]], last


def _text(output):
    """What a cell put out, as text."""
    return output.text if output.output_type == "stream" else output.data.get("text/plain", "")

"""The dependency rules, read off the imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import outofcluster

ROOT = Path(outofcluster.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
CORE = [
    f
    for f in MODULES
    if f.parent.name == "curves" or f.stem in ("binomial", "design", "inference", "shape", "errors", "_validation")
]


def imported(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", CORE, ids=lambda f: f.stem)
def test_the_array_core_knows_numpy_scipy_and_the_solver_only(path):
    allowed = set(sys.stdlib_module_names) | {"numpy", "scipy", "clarabel", "kmedoids", "outofcluster"}
    assert {name.split(".")[0] for name in imported(path)} <= allowed
    above = ("cli", "demo", "kernels", "losses", "sampling", "split")
    assert not [name for name in imported(path) if name.startswith(tuple(f"outofcluster.{room}" for room in above))]


def test_sampling_never_takes_a_leakage_rate():
    for path in (ROOT / "sampling").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg) and "leak" in node.arg:
                # LossSamples.levels turns injected fractions into shares, for the curves that ask for it.
                assert path.stem == "samples", path


def test_importing_is_light():
    """Neither scikit-learn nor numba is needed before a model is fitted."""
    code = "import sys, outofcluster; sys.exit('numba' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("path", MODULES, ids=lambda f: f.stem)
def test_modules_stay_small(path):
    assert len(path.read_text().splitlines()) <= 400


RESULTS = {
    "Audit",
    "Comparison",
    "Estimate",
    "LeakageTest",
    "LossSamples",
    "Sensitivity",
    "ShapeDiagnosis",
    "Summary",
}
"""Made by functions, which have the examples."""


def test_every_public_name_is_documented_with_an_example():
    for name in outofcluster.__all__:
        if name.startswith("__") or name in (
            "Audit",
            "Comparison",
            "Estimate",
            "LeakageTest",
            "LossSamples",
            "ShapeDiagnosis",
        ):
            continue
        assert ">>>" in getattr(outofcluster, name).__doc__, name


def test_importing_needs_none_of_the_extras():
    missing = ["click", "rich", "kmedoids", "matplotlib", "pandas", "cvxpy"]
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); import outofcluster"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

"""The rules that the whole package obeys: who imports whom, what importing costs, and examples for users.

The contracts on imports are in pyproject.toml, under tool.importlinter.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import outofcluster

ROOT = Path(__file__).parents[2]
PACKAGE = Path(outofcluster.__file__).parent


def test_imports_keep_the_contracts(capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    kept = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True) == 0
    assert kept, capsys.readouterr().out


def test_sampling_never_takes_a_leakage_rate():
    for path in (PACKAGE / "sampling").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg) and "leak" in node.arg:
                # LossSamples.levels turns injected fractions into shares, for the curves that ask for it.
                assert path.stem in ("samples", "levels"), path


def test_importing_is_light():
    """Neither scikit-learn nor numba is needed before a model is fitted."""
    code = "import sys, outofcluster; sys.exit('numba' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_importing_needs_none_of_the_extras():
    missing = ["click", "rich", "matplotlib", "numba", "pandas", "cvxpy", "jinja2", "pooch"]
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); import outofcluster"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


MADE_BY_FUNCTIONS = {
    "Audit",
    "Comparison",
    "Difference",
    "Estimate",
    "Finding",
    "LeakageTest",
    "LossSamples",
    "ShapeDiagnosis",
    "Sweep",
}
"""Results, whose examples are those of the functions that make them."""


def test_every_public_name_is_documented_with_an_example():
    for name in outofcluster.__all__:
        public = getattr(outofcluster, name)
        exception = isinstance(public, type) and issubclass(public, Exception)
        if not (name.startswith("__") or exception or name in MADE_BY_FUNCTIONS):
            assert ">>>" in public.__doc__, name


@pytest.mark.slow
def test_workers_find_the_estimators_of_tests_beside_another_package_called_tests(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    files = [ROOT / "tests" / "sampling" / name for name in ("test_sampling_input.py", "test_samples_file.py")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", "-k", "worker or interrupted", *files],
        env=os.environ | {"PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout

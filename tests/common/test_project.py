"""Files that say the same thing twice agree: versions, lowest requirements, commands of the README."""

import re
import tomllib
from pathlib import Path

import pytest

import outofcluster

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def bounds(requirements):
    """The lowest version of each requirement, without zeros at the end."""
    found = (re.match(r"([A-Za-z-]+)\s*>=\s*([\d.]+)$", line) for line in requirements)
    return {match[1]: re.sub(r"(\.0)+$", "", match[2]) for match in found if match}


def test_the_lowest_versions_that_are_tested_are_those_of_the_requirements():
    listed = dict(re.findall(r"^([a-z-]+)==([\d.]+)$", (ROOT / ".ci" / "lowest.txt").read_text(), re.M))
    tested = {name: re.sub(r"(\.0)+$", "", version) for name, version in listed.items()}
    required = bounds(PROJECT["dependencies"])
    assert len(required) == len(PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    assert tested.items() >= required.items()
    assert tested.items() >= (bounds(extras["pandas"]) | bounds(extras["plot"]) | bounds(extras["fast"])).items()


def test_the_conda_recipe_has_the_same_requirements_and_version():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    extras = PROJECT["optional-dependencies"]
    wanted = bounds(PROJECT["dependencies"]) | bounds(extras["cli"]) | bounds(extras["report"])
    assert bounds(recipe["requirements"]["run"]).items() >= wanted.items()
    assert recipe["context"]["version"] == outofcluster.__version__


def test_the_citation_has_the_version():
    assert f"version: {outofcluster.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_workflows_and_templates_are_yaml_and_try_every_python_of_the_classifiers():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
    assert len(files) >= 5
    read = {path.name: yaml.safe_load(path.read_text()) for path in files}
    tried = read["tests.yml"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tried == named


def test_links_of_the_readme_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md"):
        text = (ROOT / name).read_text()
        targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not target.startswith("http")]
        for target in targets:
            path, _, anchor = target.partition("#")
            assert (ROOT / path).exists(), (name, target)
            if anchor:
                titles = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.M)
                assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, target
    assert len(re.findall(r"\]\((?!http)", (ROOT / "README.md").read_text())) > 20


def test_the_readme_has_the_two_commands_where_the_script_looks_for_them():
    text = (ROOT / "README.md").read_text()
    assert '<!-- main job -->\n```sh\npip install ".[cli]" && outofcluster demo\n```' in text
    assert '<!-- tests -->\n```sh\npip install -e ".[test]" && pytest\n```' in text

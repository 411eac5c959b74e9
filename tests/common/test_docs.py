"""The pages: complete, true, and without dead ends. Building them, and running the gallery, is slow."""

import ast
import doctest
import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import calibration as study
import outofcluster as ooc
from outofcluster import cli
from outofcluster import reproduction as paper
from outofcluster.auditing import checks
from outofcluster.present import display

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES = ROOT / "docs", sorted((ROOT / "examples").glob("plot_*.py"))
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("*.rst")])
SEVERITIES = {"info", "warning", "severe"}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

sys.path.insert(0, str(DOCS / "_ext"))

from ooc_docs import accuracy, commands, generate, linkage, markdown, people, reproduction  # noqa: E402
from ooc_docs import calibration as calibration_page  # noqa: E402


def named(page):
    """The sections of a page, by title, with their text."""
    parts = re.split(r"^#{2,3} (.+)$", (DOCS / page).read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# --- complete ------------------------------------------------------------------------------------------


def test_every_finding_has_a_section_with_what_it_means_and_what_to_do():
    sections = {title: text for title, text in named("findings.md").items() if "**Severity:**" in text}
    assert sections.keys() == checks.CODES.keys()
    for code, text in sections.items():
        assert checks.CODES[code] in " ".join(text.split()), code
        assert "*What to do.*" in text, code


def test_findings_have_the_severities_that_the_page_says():
    raised = {}
    for each in checks.CHECKS:
        for node in ast.walk(ast.parse(inspect.getsource(each.look))):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            said = {name} & SEVERITIES
            if name == "Remark":
                said = {part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)} & SEVERITIES
            raised.setdefault(each.code, set()).update(said)
    for code, text in named("findings.md").items():
        if "**Severity:**" in text:
            said = " ".join(text.split()).partition("**Severity:**")[2].partition(". ")[0]
            assert SEVERITIES & set(re.findall(r"\w+", said)) == raised[code], code


def test_the_reference_has_every_public_name():
    module, listed = "outofcluster", set()
    for line in (DOCS / "api.rst").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [A-Za-z][\w.]*", line):
            listed.add(f"{module}.{line.strip()}")
    public = {f"outofcluster.{name}" for name in ooc.__all__ if name not in ("__version__", "datasets")}
    public |= {f"outofcluster.datasets.{name}" for name in ooc.datasets.__all__}
    public |= {f"outofcluster.present.display.{name}" for name in display.__all__}
    public |= {f"outofcluster.reproduction.{name}" for name in paper.__all__}
    assert public <= listed, public - listed
    for name in listed:
        place, _, last = name.rpartition(".")
        assert getattr(import_module(place), last).__doc__, name


def test_the_command_line_page_has_every_help_text():
    page = commands.page()
    listed = re.findall(r"^## `outofcluster ?(.*)`$", page, re.M)
    assert listed[0] == ""
    assert {name.split()[0] for name in listed[1:]} == set(cli.COMMANDS)
    assert {"leakage audited", "leakage pairs", "leakage precision-recall"} <= set(listed)
    assert "--target COL" in page
    assert "<!-- generated: commands -->" in (DOCS / "command_line.md").read_text()


def test_every_page_is_in_a_table_of_contents_and_every_marker_is_known():
    contents = (DOCS / "index.md").read_text()
    for page in PAGES:
        assert page.stem == "index" or re.search(rf"^{page.stem}$", contents, re.M), page
        for marker in re.findall(r"^<!-- generated: (.*) -->$", page.read_text(), re.M):
            assert marker == "commands" or marker in generate.FROM_FILES, (page, marker)


def test_the_gallery_covers_what_was_promised():
    titles = " ".join(path.read_text().split('"""')[1] for path in EXAMPLES).lower()
    assert len(EXAMPLES) >= 6
    for subject in (
        "linked with errors",
        "hospital",
        "many models compared",
        "regression",
        "sensitivity",
        "loss of your own",
    ):
        assert subject in titles


# --- no dead ends --------------------------------------------------------------------------------------


def slug(title):
    """The anchor of a heading, as MyST makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_links_lead_somewhere():
    built = {f"auto_examples/{path.stem}.rst" for path in EXAMPLES} | {"auto_examples/index.rst"}
    generated = {"calibration.md": {"leakage-rates"}}
    for page in PAGES:
        text = page.read_text()
        targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"```\{image\} (\S+)", text)
        for target in targets:
            if target.startswith(("http:", "https:")):
                continue
            path, _, anchor = target.partition("#")
            assert path in built or (DOCS / path).exists(), (page.name, target)
            if anchor:
                titles = re.findall(r"^#+ (.+)$", (DOCS / path).read_text(), re.M)
                known = {slug(title) for title in titles} | {slug(title).replace("_", "-") for title in titles}
                assert anchor in known | generated.get(path, set()), (page.name, target)


def test_pictures_are_there_for_light_and_dark_pages_and_need_nothing_else():
    listed = re.search(r"^PICTURES.*?= \((.*?)\)$", (DOCS / "pictures" / "draw.py").read_text(), re.M | re.S)[1]
    drawn = re.findall(r"\w+", listed)
    files = {path.name for path in (DOCS / "pictures").glob("*.svg")}
    assert files == {f"{name}-{theme}.svg" for name in drawn for theme in ("light", "dark")}
    for path in (DOCS / "pictures").glob("*.svg"):
        assert "<script" not in path.read_text()
        assert "<image" not in path.read_text()


# --- true ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if ">>>" in page.read_text()], ids=lambda page: page.stem)
def test_examples_on_pages_give_what_they_say(page):
    outcome = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_small_pieces_of_markdown():
    assert doctest.testmod(markdown).failed == 0
    assert markdown.table(["a", "b"], [["1", "2"]], "lr") == "| a | b |\n| :--- | ---: |\n| 1 | 2 |\n"
    assert markdown.escape("|x| < e_0 & *") == r"\|x\| &lt; e\_0 &amp; \*"


def test_formulas_become_mathml():
    pytest.importorskip("docutils", reason="formulas are translated by docutils (extra docs)")
    from ooc_docs import mathml

    tall = re.sub(r"\s", "", mathml.to_mathml(r"\hat e_0 = \frac12 ‖x‖ ≥ 0", block=True))
    assert "<mfrac><mn>1</mn><mn>2</mn></mfrac>" in tall
    assert "munder" not in tall
    assert "≥" in tall
    formulas = [
        formula
        for page in PAGES
        for both in re.findall(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+?)\$(?!\$)", page.read_text(), re.S)
        for formula in both
        if formula
    ]
    assert len(formulas) > 100
    for formula in formulas:
        assert "<math" in mathml.to_mathml(formula, block=False), formula


# --- pages made of results -----------------------------------------------------------------------------


@pytest.fixture
def calibrated():
    """A study of two cells, in the form that the benchmark itself writes."""

    def judge(figures, rows):
        figures.between("95 % interval covers, rate known", float(rows["hit"].mean()), 0.92, 0.98, 0.01)
        figures.at_most("standard error of the truth over the interval's half width", 0.0123, 0.02)
        figures.note("naive: mean error", -0.0345, 0.001)

    cells = [
        study.Cell(f"coverage, {name}, rate 0.1", f"For {name} <b>.", 20, lambda seed, hit=hit: {"hit": hit}, judge)
        for name, hit in (("good", 0.95), ("bad", 0.7))
    ]
    cells.append(study.Cell("odd one", "Another.", 20, lambda seed: {"hit": 0.95}, judge))
    judged = [study.judged(cell, 4, 1) for cell in cells]
    written = {
        "schema": study.SCHEMA,
        "versions": {"python": "3.11"},
        "seed": 1,
        "seeding": "by number",
        "short": ["coverage, bad, rate 0.1: 95 % interval covers, rate known"],
        "cells": judged,
    }
    return json.loads(json.dumps(written))


def test_the_calibration_page_shows_every_cell_and_hides_no_shortfall(calibrated):
    page = calibration_page.page(calibrated)
    assert "3 designs, 12 simulated data sets" in page
    assert "**5 of 6 figures reach what was required of them.**" in page
    assert "- coverage, bad, rate 0.1: 95 % interval covers, rate known" in page
    assert "| good, rate 0.1 | 4 | 95.0 % ± 1.0 % ✓ |\n" in page
    assert "| bad, rate 0.1 | 4 | 70.0 % ± 1.0 % **short** |\n" in page
    assert "95 % interval covers, rate known (92 % to 98 %)" in page
    assert "## Further cells" in page
    assert "For good &lt;b&gt;." in page
    assert "half width | 0.0123 ✓ | at most 0.0200 |" in page
    assert "| naive: mean error | -0.0345 ± 0.00100 |  |" in page


def methods(error, over):
    names = {"iid": "IID", "naive": "LOCO (naive)", "trend": "T4+mono", "sketch": "Sketch", "basis": "Basis"}
    return {
        name: {
            "label": label,
            "errors": [error] * 3,
            "median_absolute_error": error * (1 if name != "default" else 0.1),
            "rmse": error,
            "rmse_over_naive": over,
            "worst_relative_error": error,
        }
        for name, label in (names | {"default": "package default"}).items()
    }


@pytest.fixture
def reproduced():
    """Two studies and no timing, with the fields that the pages read."""
    shape = {"holds": False, "exceeds_noise": True, "pvalue": 0.001, "sentence": "Convex: no."}
    good = shape | {"holds": True, "exceeds_noise": False}

    def part(e0, fall):
        return {
            "e0": e0,
            "relative_naive_bias": 0.15,
            "relative_fall": 0.25,
            "naive_bias": 0.04,
            "naive_bias_standard_error": 0.002,
            "shape": {"decreasing": good, "convex": shape},
            "truth": {"p": [0.0, 0.1, 0.55], "loss": [e0, e0 - fall, e0 - 2 * fall], "standard_error": [0.0] * 3},
            "sizes": [{"size": 8, "p": [0.1, 0.5], "loss": [0.3, 0.2], "standard_error": [0.001, 0.001]}],
            "methods": methods(0.02, 0.5),
        }

    def one(name, title):
        return {
            "name": name,
            "title": title,
            "cluster": "hospital",
            "unit": "share of records misclassified",
            "learner": "LinearSVC(C=1)",
            "leakage": 0.1,
            "records": {"train": 479, "validation": 262},
            "parameters": {"n": 100},
            "protocols": {"paper": part(0.27, 0.03), "field": part(0.28, 0.03)},
            "test": {"first": {"sentence": "No cluster effect was found."}, "rejected": 1, "deals": 5},
        }

    claim = {
        "claim": "The loss is |convex|.",
        "where": "Section 6",
        "verdict": "does not hold",
        "reason": "not on heart, by 1 % of e_0",
        "sentence": "e_0 at p0.",
    }
    studies = {"heart": one("heart", "Heart disease"), "census": one("census", "1994 US census")}
    made = {"schema": 1, "quick": True, "seed": 0, "versions": {"python": "3.11"}}
    return made | {"studies": studies, "timing": None, "claims": [claim, claim | {"verdict": "holds", "reason": ""}]}


def test_the_paper_page_has_verdicts_and_figures_from_the_results(reproduced):
    claims = reproduction.claims(reproduced)
    assert r"| The loss is \|convex\|. | **does not hold**: not on heart, by 1 % of $e_0$ |" in claims
    assert r"| The loss is \|convex\|. | **holds** |" in claims
    assert r"| The loss is \|convex\|. (Section 6) | $e_0$ at $p_0$. |" in claims.partition("<details>")[2]
    assert "quick run" in claims
    assert "quick run" not in reproduction.claims(reproduced | {"quick": False})
    studies = reproduction.studies(reproduced)
    assert "### Heart disease\n\nAs a user would see it, cross-validation with leakage shows a loss" in studies
    assert "that is 15.0 % too low; the error of the package default is 0.50 times that of no correction." in studies
    assert "| package default | 0.00200 | 0.00200 | 0.0200 | 0.50 |" in studies
    assert "are not convex, beyond noise (p ≤ 0.001)" in studies
    for picture in ("errors", "curves", "shape"):
        assert f"```{{image}} paper/census/{picture}.svg" in studies
    assert "not measured" in reproduction.timing(reproduced)


def test_solve_times_are_in_milliseconds_beside_the_papers(reproduced):
    row = {"study": "heart", "label": "Basis", "n": 100, "levels": 200, "seconds": 2e-5, "paper_seconds": 0.5847}
    shown = reproduction.timing(reproduced | {"timing": {"table": [row | {"cvxpy_seconds": None}]}})
    assert "| Heart disease | Basis | 100 | 200 | 0.0200 | – | 585 |" in shown


def test_the_scoreboard_compares_with_the_best_of_theirs(reproduced):
    page = reproduction.scoreboard(reproduced)
    assert "The default's geometric mean is **0.10** of the best of the paper's" in page
    assert "| package default | 0.50 | 0.50 |" in page
    assert "| *the mean bias known and taken out* | 0.00 | 0.00 |" in page
    twins = reproduction.twins(reproduced)
    assert "| Heart disease | 1.00 ± 0.00 | 0.00 ± 0.00 | **2.00 ± 0.00** |" in twins
    assert "| Heart disease | 8 | 0.3000 ± 0.0010 | 0.2000 ± 0.0010 |" in reproduction.sizes(reproduced)


def test_the_accuracy_tables_have_a_row_a_scenario():
    kept = {"kind": "at most", "standard_error": None}
    figures = [
        kept | {"what": "ridge: RMSE over naive's, biased", "value": 0.7, "bound": 0.6},
        kept | {"what": "ridge: 95 % interval covers", "value": 0.94, "bound": 0.9, "kind": "at least"},
        kept | {"what": "solve time, n = 100: milliseconds", "value": 3.0, "bound": 20},
    ]
    page = accuracy.page({"versions": {"python": "3.11"}, "figures": figures})
    assert "| ridge | 0.700 **short** | 94 % ✓ |" in page
    assert "**2 of 3 figures" in page


def measured(what, value, bound=None, kind="at most"):
    return {"what": what, "value": value, "bound": bound, "kind": kind, "standard_error": 0.01 if bound else None}


def test_the_table_of_linkages_has_a_row_for_each_data_set_and_model():
    world = "forest, FEBRL 3"
    cells = {
        world: [
            measured(f"{world}: error over naive's", 0.4, 0.35),
            measured(f"{world}: error of naive", -0.05),
            measured(f"{world}: error of corrected", 0.02),
            measured(f"{world}: error without a rate", -0.01),
            measured(f"{world}: validation records that leak", 0.25),
        ],
        "records, one": [measured("records, one: 95 % interval covers", 0.95, 0.92, "at least")],
    }
    page = linkage.page({"versions": {"python": "3.11"}, "cells": cells})
    assert "| FEBRL 3 | forest of 30 trees | 25 % | -0.050 | +0.020 | -0.010 | 0.40 ± 0.01 **short** |" in page
    assert "| records, one: 95 % interval covers | 95 % ± 1 % ✓ | at least 0.92 |" in page
    assert "**1 of 2 figures" in page
    assert "design before" not in page


def test_audits_of_linkages_by_the_design_before_are_not_shown():
    cells = {
        "forest, FEBRL 3": [measured("forest, FEBRL 3: error over naive's", 0.2, 0.35)],
        "coverage, one": [measured("coverage, one: corrected, 95 % interval covers", 0.95, 0.92, "at least")],
        "records, one": [measured("records, one: 95 % interval covers", 0.95, 0.92, "at least")],
    }
    page = linkage.page({"versions": {"python": "3.11"}, "cells": cells})
    assert "FEBRL 3" not in page
    assert "coverage, one" not in page
    assert "measured with the design before" in page
    assert "**1 of 1 figures" in page


def test_the_table_of_people_has_every_figure_with_its_bound():
    cells = {
        "seen": [measured("seen, keys: error", 0.22, 0.9), measured("seen, keys: optimism", 0.03)],
        "intervals": [measured("drifted: 95 % interval covers", 0.9, [0.92, 0.98], "between")],
    }
    page = people.page({"versions": {"python": "3.11"}, "cells": cells})
    assert "| seen, keys: error | 0.22 ± 0.010 ✓ | at most 0.90 |" in page
    assert "| drifted: 95 % interval covers | 90.0 % ± 1.0 % **short** | 92.0 % to 98.0 % |" in page
    assert "| seen, keys: optimism | 0.030 |" in page.partition("<details>")[2]
    assert "**1 of 2 figures" in page


def test_missing_or_foreign_results_stop_the_build(tmp_path):
    with pytest.raises(generate.ResultsError, match=r"gone\.json is missing"):
        generate.generate("calibration", lambda setting: tmp_path / "gone.json")
    (tmp_path / "old.json").write_text('{"schema": 99}')
    with pytest.raises(generate.ResultsError, match="must be of schema 1"):
        generate.read_results(tmp_path / "old.json")
    (tmp_path / "cut.json").write_text('{"schema": 1')
    with pytest.raises(generate.ResultsError, match="is not JSON"):
        generate.read_results(tmp_path / "cut.json")
    with pytest.raises(generate.ResultsError, match="Nothing generates 'weather'"):
        generate.fill(
            "a\n<!-- generated: weather -->\n", lambda name: generate.generate(name, lambda setting: tmp_path)
        )


def settings():
    """The files that conf.py names."""
    return dict(re.findall(r'^(\w+_json) = "(.+)"$', (DOCS / "conf.py").read_text(), re.M))


@pytest.mark.parametrize("marker", generate.FROM_FILES)
def test_the_committed_results_make_pages(marker):
    page = generate.generate(marker, lambda setting: (DOCS / settings()[setting]).resolve())
    assert "| " in page
    for picture in re.findall(r"```\{image\} (\S+)", page):
        assert (DOCS / picture).exists(), picture


# --- what takes long -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_the_gallery_run(path, tmp_path):
    environment = os.environ | {"MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_pages_build_without_a_warning_and_fetch_nothing(tmp_path):
    for name in ("sphinx", "sphinx_gallery", "myst_parser", "furo"):
        pytest.importorskip(name, reason=f"building the pages needs {name}: pip install 'outofcluster[docs]'")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*command, str(DOCS), str(tmp_path / "html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "html").rglob("*.html"):
        text = page.read_text()
        assert not re.search(r'(?:src|<link[^>]*href)="(?:https?:)?//', text), page
        assert "<!-- generated:" not in text, page

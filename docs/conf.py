"""Sphinx configuration. Build with ``sphinx-build -W docs docs/_build/html``; nothing is fetched, then or later."""

import re
import sys
import warnings
from pathlib import Path

from sphinx import addnodes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import outofcluster  # noqa: E402

project = "outofcluster"
author = "the authors of outofcluster"
copyright = "the authors of outofcluster, BSD 3-Clause licence"
version = release = outofcluster.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "ooc_docs.pages",
]
exclude_patterns = ["_build", "_ext", "paper/**/*.md", "pictures/*.py"]
templates_path = ["_templates"]

# Where the numbers of generated pages come from, relative to this file; a file that is missing stops the build.
accuracy_json = "../benchmarks/accuracy.json"
calibration_json = "../benchmarks/calibration.json"
linkage_json = "../benchmarks/linkage.json"
people_json = "../benchmarks/people.json"
reproduction_json = "paper/results.json"

html_theme = "furo"
html_title = "outofcluster"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5d8f", "color-brand-content": "#0b5d8f"},
    "dark_css_variables": {"color-brand-primary": "#6db9e8", "color-brand-content": "#6db9e8"},
}

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_url_schemes = ("http", "https", "mailto")

# Backquoted words in docstrings are names of the package where there is one, else just words.
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_ignore_module_all = False
# Two pages whose names differ in case only would be one on some file systems.
autosummary_filename_map = {"outofcluster.audit": "outofcluster.audit_function"}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("outofcluster",),
    "backreferences_dir": "generated/backreferences",
    "inspect_global_variables": False,
    "min_reported_time": 1000,
    "write_computation_times": False,
    "show_signature": False,
    "download_all_examples": False,
    "capture_repr": ("_repr_html_",),
}

# An example that warns should say so in its text, not in the log of the build.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def join_names(app, what, name, obj, options, lines):
    """Join the names of attributes that are described together: with spaces Sphinx reads all but the last as a type."""
    lines[:] = [re.sub(r"^:(ivar|vartype) (\w+(?:, \w+)+):", lambda m: m[0].replace(", ", ","), line) for line in lines]


def show_names(app, doctree):
    """Show those names apart again, and without links, which would lead to other classes with an attribute so named."""
    for node in list(doctree.findall(addnodes.literal_strong)):
        if isinstance(node.parent, addnodes.pending_xref) and node.parent["reftype"] == "obj":
            node.parent.replace_self(node)
        elif node.astext() == ",":
            node.replace_self(addnodes.literal_strong("", ", "))


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", join_names, priority=900)
    app.connect("doctree-read", show_names)

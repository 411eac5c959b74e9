"""The Sphinx extension: fills in generated text, and registers the formulas.

A page asks for generated text with a line of its own, ``<!-- generated: NAME -->``. A file that is missing, or of a
schema that is not known, stops the build: a page without its numbers would look finished.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

from ooc_docs import mathml
from ooc_docs.generate import FROM_FILES, fill, generate
from ooc_docs.r import RunR

__all__ = ["setup"]

_WORDS = {"shape", "sequence", "function", "array", "levels", "folds"}


def _fill_page(app: Any, name: str, content: list[str]) -> None:
    def file(setting: str) -> Path:
        path = Path(app.srcdir, getattr(app.config, setting)).resolve()
        app.env.note_dependency(str(path))
        return path

    content[0] = fill(content[0], lambda marker: generate(marker, file))


def _unlink_words(app: Any, tree: Any) -> None:
    """Types such as "array of shape (n,)" are words; Sphinx would look for an object called shape."""
    for reference in list(tree.findall(addnodes.pending_xref)):
        if reference.get("reftype") == "class" and reference["reftarget"] in _WORDS:
            reference.replace_self(nodes.emphasis("", reference["reftarget"]))


def setup(app: Any) -> dict[str, Any]:
    """Register everything."""
    app.connect("doctree-read", _unlink_words)
    for setting in {setting for setting, _ in FROM_FILES.values()}:
        app.add_config_value(setting, "", "env", str)
    app.connect("source-read", _fill_page)
    mathml.setup(app)
    app.add_directive("run-r", RunR)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

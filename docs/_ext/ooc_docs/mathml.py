"""Formulas as MathML, written while the pages are built: readers need neither a script nor the network.

docutils translates TeX to MathML, and refuses what it does not know. Before it does, signs that the docstrings write as
themselves (≥, ∈, ‖) become commands, single digits of fractions get their braces, and an accented letter is closed, so
that its subscript is not set below it as below a sum.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

__all__ = ["setup", "to_mathml"]

_ACCENT = re.compile(r"(\\(?:hat|bar|tilde)\s*(?:\{[^{}]*\}|\\[A-Za-z]+|[^\s{}\\]))(?=\s*[_^])")
_FRACTION = re.compile(r"(\\[td]?frac)\s*(\d)\s*(?:(\d)|(?=\{))")
_SIGNS = {
    "≥": r"\ge ",
    "≤": r"\le ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "∼": r"\sim ",
    "∝": r"\propto ",
    "∈": r"\in ",
    "∉": r"\notin ",
    "∂": r"\partial ",
    "∞": r"\infty ",
    "…": r"\ldots ",
    "·": r"\cdot ",
    "±": r"\pm ",
    "‖": r"\Vert ",
    "∩": r"\cap ",
    "⊤": r"\top ",
    "½": r"\tfrac{1}{2}",
    "−": "-",
}


def to_mathml(tex: str, *, block: bool) -> str:
    """The MathML of a formula; a ``MathError`` where it cannot be read."""
    prepared = "".join(_SIGNS.get(sign, sign) for sign in tex)
    prepared = _ACCENT.sub(r"\1{}", prepared)
    prepared = _FRACTION.sub(
        lambda found: f"{found[1]}{{{found[2]}}}" + (f"{{{found[3]}}}" if found[3] else ""), prepared
    )
    return str(latex2mathml.tex2mathml(prepared, as_block=block))


def _markup(node: Any, *, block: bool) -> str:
    try:
        return to_mathml(node.astext(), block=block)
    except latex2mathml.MathError as error:
        logging.getLogger(__name__).warning("the formula %r cannot be read: %s", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(_markup(node, block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: Any) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})</span>')
    translator.body.append(f"{_markup(node, block=True)}</div>")
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Make the renderer known as "mathml"."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))

"""From a summary to a file: the template rendered with its style and script inside."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from outofcluster._base.exceptions import InputError, MissingExtraError, needing
from outofcluster._base.files import check_destination, write_whole
from outofcluster._base.text import percentage, printable
from outofcluster.auditing.checklist import Checklist
from outofcluster.auditing.result import Audit
from outofcluster.auditing.subgroups import Subgroups
from outofcluster.auditing.summary import Summary
from outofcluster.auditing.summary_parts import counted
from outofcluster.inference.estimates import between, fixed
from outofcluster.present.display.base import capitalized
from outofcluster.present.report.view import view, view_of_subgroups

# Suspicious records that a report lists.
_LISTED = 10


def render_html(
    result: Any,
    *,
    title: str = "Audit of a cross-validation",
    about: Mapping[str, str] | None = None,
    suspects: Any = None,
    answers: Mapping[str, Any] | None = None,
    checklist: Checklist | None = None,
) -> str:
    """The report as one HTML document; ``answers`` are texts, `Subgroups` or a `Spread` by what was asked.

    The checklist of an audit has the subgroups among the answers; that of a summary alone is given, or left out.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.report import render_html
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "random_state": 0}
    >>> result = ooc.audit(Ridge(), X, X[:, 0], groups=np.repeat(np.arange(20), 10), **options)
    >>> html = render_html(result, about={"data": "<b>records</b>.csv"})
    >>> "&lt;b&gt;records&lt;/b&gt;.csv" in html, "http:" in html
    (True, False)
    """
    summary = getattr(result, "summary", result)
    if not isinstance(summary, Summary):
        raise InputError(f"result must be an Audit or a Summary, got {type(result).__name__}.")
    with needing("the report needs jinja2", "report"):
        import jinja2
        from markupsafe import Markup
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # What a reader sees holds no control characters. What is no plain string is a number, or markup of this room.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {filter.__name__: filter for filter in (between, counted, fixed, percentage)}
    environment.filters["thousands"] = "{:,}".format
    style, script = _read("style.css"), _read("script.js")
    listed = _suspects(result) if suspects is None else suspects
    if checklist is None and isinstance(result, Audit):
        checklist = result.checklist(*(reply for reply in (answers or {}).values() if isinstance(reply, Subgroups)))
    return environment.get_template("template.html").render(
        view(summary, about or {}, [] if listed is None else listed.head(_LISTED).to_dict("records")),
        title=title,
        # Texts with columns keep them.
        answers=[_answer(name, found) for name, found in (answers or {}).items()],
        guidelines=[] if checklist is None else checklist.guidelines,
        # Both are files of this package, and the page's policy allows them and nothing else.
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def write_html(result: Any, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the report into a file, which appears complete or not at all; the options are those of `render_html`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.report import write_html
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "random_state": 0}
    >>> result = ooc.audit(Ridge(), X, X[:, 0], groups=np.repeat(np.arange(20), 10), **options)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = write_html(result, Path(folder) / "report.html").stat().st_size
    >>> size < 200_000
    True
    """
    check_destination("path", path)
    return write_whole("path", path, render_html(result, **options))


def _answer(name: str, reply: Any) -> dict[str, Any]:
    """An answer as a table of subgroups, or in words."""
    words = str(reply)
    by = view_of_subgroups(reply) if isinstance(reply, Subgroups) else None
    return {"name": capitalized(name), "by": by, "words": words, "aligned": bool(re.search(r"\S {2,}\S", words))}


def _suspects(result: Any) -> Any:
    """The suspects of an audit that compared the sides of its splits; None without, and without pandas."""
    compared = hasattr(result, "suspects") and (result.summary.auc is not None or result.summary.seen is not None)
    if compared:
        # Features that tell no entities apart leave no suspects.
        with suppress(MissingExtraError, InputError):
            return result.suspects()
    return None


def _read(name: str) -> str:
    return (resources.files("outofcluster.present.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

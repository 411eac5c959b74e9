"""From the name of a generated part to its Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ooc_docs import accuracy, calibration, commands, linkage, people, reproduction

__all__ = ["FROM_FILES", "ResultsError", "fill", "generate", "read_results"]

_MARKER = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)
_SCHEMA = 1

FROM_FILES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "accuracy": ("accuracy_json", accuracy.page),
    "calibration": ("calibration_json", calibration.page),
    "linkage": ("linkage_json", linkage.page),
    "people": ("people_json", people.page),
    "claims": ("reproduction_json", reproduction.claims),
    "studies": ("reproduction_json", reproduction.studies),
    "timing": ("reproduction_json", reproduction.timing),
    "scoreboard": ("reproduction_json", reproduction.scoreboard),
    "twins": ("reproduction_json", reproduction.twins),
    "sizes": ("reproduction_json", reproduction.sizes),
}
"""Parts by name, with the setting in conf.py that names the file they are made of."""


class ResultsError(RuntimeError):
    """Results that a page shows are not there, or not of a kind that it knows."""


def generate(marker: str, file: Callable[[str], Path]) -> str:
    """The part that a marker asks for; ``file`` gives the path of a setting."""
    if marker == "commands":
        return commands.page()
    if marker not in FROM_FILES:
        raise ResultsError(f"Nothing generates {marker!r}.")
    setting, make = FROM_FILES[marker]
    return make(read_results(file(setting)))


def read_results(path: Path) -> Any:
    """The content of a results file, checked."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing: a page shows its numbers, so the build stops here.") from None
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path} is not JSON: {error}.") from None
    if not isinstance(found, dict) or found.get("schema", _SCHEMA) != _SCHEMA:
        raise ResultsError(f"{path} must be of schema {_SCHEMA}, which is what the pages know how to show.")
    return found


def fill(text: str, make: Callable[[str], str]) -> str:
    """A page with its markers replaced."""
    return _MARKER.sub(lambda found: make(found[1]), text)

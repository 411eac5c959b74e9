"""Commands with odd options and odd files."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from _fuzz_calls import Case, world

__all__ = ["draw_command"]

RNG = np.random.Generator


def _table(rng: RNG) -> pd.DataFrame:
    X, label, number, groups = world()
    frame = pd.DataFrame(X, columns=["one", "two", "three"])
    return frame.assign(
        ill=label, score=number, patient=groups, person=np.where(rng.random(len(groups)) < 0.1, 99, groups)
    )


def _file(rng: RNG) -> tuple[str, str]:
    """A file of records in the current folder: what is odd about it, and its name."""
    frame = _table(rng)
    if rng.random() < 0.5:
        frame.to_csv("records.csv", index=False)
        return "plain", "records.csv"
    text = frame.to_csv(index=False)
    forms: dict[str, Callable[[], Any]] = {
        "empty": lambda: Path("records.csv").write_bytes(b""),
        "header": lambda: Path("records.csv").write_text(text.splitlines()[0] + "\n"),
        "one row": lambda: Path("records.csv").write_text("\n".join(text.splitlines()[:2])),
        "binary": lambda: Path("records.csv").write_bytes(bytes(range(256)) * 20),
        "nul": lambda: Path("records.csv").write_text(text.replace("ill", "i\0l", 1)),
        "utf-16": lambda: Path("records.csv").write_bytes(text.encode("utf-16")),
        "latin": lambda: Path("records.csv").write_bytes(text.replace("one", "öne").encode("latin-1")),
        "bom": lambda: Path("records.csv").write_bytes(b"\xef\xbb\xbf" + text.encode()),
        "semicolons": lambda: Path("records.csv").write_text(text.replace(",", ";")),
        "ragged": lambda: Path("records.csv").write_text(text + "1,2,3,4,5,6,7,8,9\n"),
        "short line": lambda: Path("records.csv").write_text(text + "1,2\n"),
        "quote": lambda: Path("records.csv").write_text(text + '"open,1,2'),
        "twins": lambda: Path("records.csv").write_text(text.replace("one,two", "one,one", 1)),
        "unnamed": lambda: Path("records.csv").write_text(text.replace("one,", ",", 1)),
        "gaps": lambda: frame.assign(one=np.where(np.arange(len(frame)) % 3 == 0, np.nan, 1)).to_csv("records.csv"),
        "gaps in the target": lambda: frame.assign(ill=np.nan).to_csv("records.csv"),
        "gaps in the groups": lambda: frame.assign(patient=[None, 1] * (len(frame) // 2)).to_csv("records.csv"),
        "text": lambda: frame.assign(one=[f"word {i % 7}" for i in range(len(frame))]).to_csv("records.csv"),
        "control": lambda: frame.rename(columns={"one": "o\x1b[31mne\x07"}).to_csv("records.csv"),
        "huge": lambda: frame.assign(one=frame.one * 1e300).to_csv("records.csv"),
        "infinite": lambda: frame.assign(one=np.inf).to_csv("records.csv"),
        "constant": lambda: frame.assign(one=1, two=1, three=1).to_csv("records.csv"),
        "dates": lambda: frame.assign(one="2020-01-01").to_csv("records.csv"),
        "folder": lambda: os.mkdir("records.csv"),
        "absent": lambda: None,
        "gzip as csv": lambda: Path("records.csv").write_bytes(gzip.compress(text.encode())),
    }
    if rng.random() < 0.15:
        frame.to_parquet("records.parquet")
        if rng.random() < 0.5:
            content = bytearray(Path("records.parquet").read_bytes())
            content[rng.integers(len(content))] ^= 255
            Path("records.parquet").write_bytes(content[: rng.integers(1, len(content) + 1)])
            return "damaged parquet", "records.parquet"
        return "parquet", "records.parquet"
    name = list(forms)[rng.integers(len(forms))]
    forms[name]()
    return name, "records.csv"


_ODD_TEXT = (
    "",
    "x",
    "-1",
    "0",
    "nan",
    "inf",
    "1e400",
    "0.1",
    "two\nlines",
    "\x1b[31m",
    "🙂",
    "--",
    "a" * 500,
    "-",
    "/dev/null",
)


def _value(rng: RNG, *good: str) -> str:
    return _ODD_TEXT[rng.integers(len(_ODD_TEXT))] if rng.random() < 0.12 else good[rng.integers(len(good))]


def draw_command(rng: RNG) -> Case:
    """A command at random."""
    form, file = _file(rng)
    files = list[str]()
    kind = ("audit", "audit", "test", "leakage", "help")[rng.integers(5)]
    options: dict[str, tuple[str, ...]]
    if kind == "help":
        words = [_value(rng, "demo", "test", "audit", "leakage", "nonsense", "--version"), "--help"]
    elif kind == "leakage":
        words, options = _leakage(rng, file)
        words += _some(rng, options, files, 0.2)
    else:
        shared = {
            "--drop": ("one", "two", "person", "nothing"),
            "--encoding": ("utf-8", "latin-1", "utf-16", "nonsense"),
            "--model": ("logistic", "ridge", "nonsense", "os:getcwd", "sklearn.linear_model:Ridge"),
            "--loss": ("zero_one", "squared_error", "log_loss", "nonsense"),
            "--scoring": ("roc_auc", "r2", "accuracy,roc_auc", "nonsense"),
            "--folds": ("2", "3", "1", "0", "500"),
            "--seed": ("1", "-1", "99999999999999999999999"),
            "--jobs": ("1", "0"),
            "--json": ("-", "out.json", "records.csv", "no/folder/out.json"),
        }
        more = {
            "--leakage": ("0.1", "0", "0.3", "0.9", "data", "-1"),
            "--leakage-std": ("0.01", "-1"),
            "--error-model": ("auto", "records", "fragments", "x"),
            "--confidence-level": ("0.9", "2"),
            "--report": ("out.html", "records.csv", "."),
            "--suspects": ("out.csv", "records.csv"),
            "--checkpoint": ("work", "no/folder/work"),
            "--fail-on": ("never", "info", "x"),
            "--no-unmix": (),
        }
        words = [kind, file, "--target", _value(rng, "ill", "ill", "score", "nothing"), "--groups"]
        words += [_value(rng, "patient", "patient", "patient", "ill")]
        words += _some(rng, shared | more if kind == "audit" else shared | {"--alpha": ("0.1", "3")}, files, 0.15)
        words += ["--fits", _value(rng, "60", "60", "120", "0", "x")] if kind == "audit" else []
    case = Case(
        "outofcluster", lambda: _run(words), {}, {"file": form, "words": " ".join(words)[:300].replace("\n", "\\n")}
    )
    case.files = (*files, "work*", "cache*")
    return case


def _some(rng: RNG, options: dict[str, tuple[str, ...]], files: list[str], share: float) -> list[str]:
    """Some of the options; those that name files that may be written are noted."""
    words = list[str]()
    for name, values in options.items():
        if rng.random() < share:
            words.append(name)
            if values:
                words.append(_value(rng, *values))
                if name in ("--json", "--report", "--suspects", "--checkpoint"):
                    files += [words[-1], f"{words[-1]}.*"]
    return words


def _leakage(rng: RNG, file: str) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    kind = ("audited", "pairs", "precision-recall", "nonsense")[rng.integers(4)]
    shared = {"--folds": ("3", "0", "x"), "--json": ("-", "out.json")}
    if kind == "audited":
        return ["leakage", kind, file, "--true", _value(rng, "person"), "--groups", _value(rng, "patient")], shared
    if kind == "pairs":
        pairs = pd.DataFrame({"left": rng.integers(140, size=30), "right": rng.integers(120, size=30)})
        pairs.assign(probability=rng.random(30) * rng.choice([1, 1, 1, 2])).to_csv("pairs.csv", index=False)
        return ["leakage", kind, "pairs.csv", file, "--groups", _value(rng, "patient")], shared | {"--id": ("one", "x")}
    numbers = ("0.9", "1", "0", "2")
    words = ["leakage", kind, "--precision", _value(rng, *numbers), "--recall", _value(rng, *numbers)]
    return words, shared | {"--links": ("100", "0"), "--records": ("100", "0"), "--mates": ("2", "0")}


def _run(words: list[str]) -> None:
    """Run the command in this process; whatever breaks the rule becomes an error."""
    from outofcluster.cli import main

    out, err = io.StringIO(), io.StringIO()
    before = _contents()
    cache, os.environ["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME"), str(Path("cache").absolute())
    arguments, sys.argv = sys.argv, ["outofcluster", *words]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = arguments
        if cache is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = cache
    after = _contents()
    changed = [name for name, content in before.items() if after.get(name) != content]
    if changed:
        raise AssertionError(f"the input {changed[0]} was changed")
    said = err.getvalue()
    if code not in (None, 0, 1, 2):
        raise AssertionError(f"exit status {code}: {said[-200:]}")
    if "Traceback" in said + out.getvalue():
        raise AssertionError(f"a traceback: {said[-300:]}")
    if code == 2 and not said.startswith("Usage:") and len(said.strip().splitlines()) != 1:
        raise AssertionError(f"a refusal of {len(said.strip().splitlines())} lines: {said[:200]!r}")
    if any(mark in said + out.getvalue() for mark in ("\x1b", "\x07", "\x00")):
        raise AssertionError("control characters on the screen")
    if code in (None, 0, 1) and "--json" in words and words[words.index("--json") + 1] == "-":
        json.loads(out.getvalue(), parse_constant=_not_json)


def _contents() -> dict[str, bytes]:
    """What is in the files of records and pairs."""
    return {str(path): path.read_bytes() for path in Path(".").glob("*.*") if path.is_file()}


def _not_json(token: str) -> Any:
    raise AssertionError(f"{token} in JSON")

"""What the golden files hold of a result, and how a result of today is compared with them.

`sampled_arrays` is the only function here that knows how samples are stored inside of a result. If that changes, only
this adapter has to change with it, and its keys stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import outofcluster as ooc

FOLDER = Path(__file__).parents[1] / "golden"
OF_ARRAY = ("shape", "dtype", "sha256", "sum", "min", "max", "checksum")
"""What is kept of an array, in the order of the lists in the golden files."""
RATES = (0.0, 0.05, 0.1, 0.2, 0.3)
LONG = 12
"""Lists of more numbers than this are kept as a few of their numbers and sums over all of them."""
STRICT, LOOSE = 1e-12, 1e-6
"""Relative and absolute tolerance of numbers with the same packages, and relative tolerance with other ones."""

# --- the adapter ----------------------------------------------------------------------------------------


def sampled_arrays(result: ooc.Audit) -> dict[str, np.ndarray]:
    """All arrays that the fits of an audit left behind, by keys such as "fold0/main/losses"."""
    several = len(result.metrics) > 1
    arrays = dict[str, np.ndarray]()
    for name, own in result.metrics.items():
        before = f"{name}:" if several else ""
        arrays |= {f"{before}{key}": array for key, array in _of_metric(own.samples)}
    return arrays


def _of_metric(samples: Any) -> Iterator[tuple[str, np.ndarray]]:
    yield "random/rows", samples.random_folds.rows
    yield "random/losses", samples.random_folds.losses
    if samples.effect is not None:
        yield "effect/train", samples.effect.train
        yield "effect/validation", samples.effect.validation
        yield "effect/numbers", samples.effect.numbers
    if samples.seen is not None:
        seen = samples.seen
        yield "seen/pairs", np.stack([seen.left, seen.right])
        yield "seen/probability", seen.probability
        yield "seen/numbers", np.array([seen.auc, seen.caught, seen.rate, seen.upper])
    if samples.look_ups is not None:
        yield "looked up/clusters", samples.look_ups.clusters
        yield "looked up/mates", np.concatenate(samples.look_ups.mates)
        yield "looked up/probability", samples.look_ups.probability
    for fold in samples.folds:
        for key, array in _of_fold(fold):
            yield f"fold{fold.index}/{key}", array


def _of_fold(fold: Any) -> Iterator[tuple[str, np.ndarray]]:
    yield "rows", fold.rows
    yield "own_losses", fold.own_losses
    for name, losses in fold.pseudo.items():
        yield f"pseudo/{name}", losses
    if fold.sides is not None:
        yield "sides/ratio", fold.sides.ratio
        yield "sides/resembles", fold.sides.resembles
        yield "sides/numbers", np.array([fold.sides.auc, fold.sides.log_loss])
    if fold.entities is not None:
        yield "entities/probability", fold.entities.probability
        yield "entities/held_out_clusters", fold.entities.held_out_clusters
    if fold.likely is not None:
        yield "likely/pairs", np.stack([fold.likely.train_clusters, fold.likely.held_out_clusters])
        yield "likely/probability", fold.likely.probability
        yield "likely/control", fold.likely.control_clusters
    for name, of_model in fold.measured.items():
        for key, losses in of_model.items():
            yield f"{name}/{key}", losses
    if fold.train_losses is not None:
        yield "trained/losses", fold.train_losses.losses
    for role, run in fold.runs.items():
        key = role.replace("size ", "size").replace(" ", "_")
        key = key.replace("exchanged,_size", "exchanged")
        for name, array in loss_arrays(run):
            yield f"{key}/{name}", array


def loss_arrays(run: ooc.LossSamples) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of one run: losses, a row of numbers for each level, and the sums behind influences."""
    yield "losses", np.concatenate(run.losses)
    levels = [run.injected, run.counts, run.redraws, run.effective, run.kept, run.strata]
    yield "levels", np.array(levels, dtype=float)
    for kind, effects in run.effects.items():
        yield f"{kind}/validation", effects.sums


# --- what is kept ---------------------------------------------------------------------------------------


def packages() -> dict[str, str]:
    """What decides over the last bits of a number: versions, and the machine code that the linear algebra takes."""
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}
    kinds = {str(info.get("architecture")) for info in threadpool_info() if info["user_api"] == "blas"}
    return versions | {"blas": ", ".join(sorted(kinds))}


def pinned_array(array: Any) -> dict[str, Any]:
    """Shape, type, digest and sums of an array; the checksum weighs the entries by fixed pseudo-random numbers."""
    values = np.ascontiguousarray(array)
    about = {
        "shape": list(values.shape),
        "dtype": values.dtype.str,
        "sha256": hashlib.sha256(values.tobytes()).hexdigest()[:16],
    }
    numbers = values.astype(float).ravel()
    if not len(numbers):
        return about
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    weights = np.random.default_rng(12345).uniform(0.5, 1.5, len(finite))
    sums = {
        "sum": math.fsum(finite),
        "min": finite.min(),
        "max": finite.max(),
        "checksum": math.fsum(finite * weights),
    }
    # Fifteen digits are more than the tolerance asks for; the digest holds all of them.
    return about | {name: float(f"{number:.15g}") for name, number in sums.items()}


def plain(value: Any) -> Any:
    """A value as JSON can hold it, with long lists of numbers made short, and without versions."""
    if value is None or isinstance(value, bool | str):
        return masked(value) if isinstance(value, str) else value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): plain(own) for key, own in value.items() if key not in ("version", "versions")}
    if hasattr(value, "columns"):
        return {str(name): plain(list(value[name])) for name in value.columns}
    several = list(value)
    if several and all(isinstance(own, list | tuple) for own in several):
        flat = [number for own in several for number in own]
        if len(flat) > LONG and all(isinstance(number, float) for number in flat):
            return {"rows": len(several)} | plain(flat)
    if len(several) <= LONG:
        return [plain(own) for own in several]
    if not all(isinstance(own, int | float | np.number) for own in several):
        shown = [plain(own) for own in several]
        if len(several) <= 40:
            return shown
        digest = hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]
        return {"length": len(shown), "some": shown[:: len(shown) // 5], "text_sha256": digest}
    numbers = np.array(several, dtype=float)
    about = pinned_array(numbers)
    kept = {name: about[name] for name in ("min", "max", "sum", "checksum")}
    return {"length": len(numbers), "some": numbers[:: len(numbers) // 5].tolist()} | plain(kept)


def masked(text: str) -> str:
    """A text without the version of the package, and without times and paths.

    A time is what follows "which takes" up to the end of the sentence. A path begins with a slash and has another one.
    """
    text = text.replace(ooc.__version__, "VERSION")
    text = re.sub(r"They\s+take\s[^.]*\.", "They take TIME.", text)
    return re.sub(r"(?<![\w<.\]])/(?:[\w.+-]+/)+[\w.+-]*", "PATH", text)


def attempt(compute: Callable[[], Any]) -> Any:
    """What a call gives, or the sentence by which it refuses."""
    try:
        return plain(compute())
    except (ooc.InputError, ooc.SolverError) as error:
        return {"refused": masked(f"{type(error).__name__}: {error}")}


def brief(result: ooc.Audit) -> dict[str, Any]:
    """The corrected value and the optimism of an audit alone."""
    estimates = {name: getattr(result, name) for name in ("corrected", "optimism")}
    return {name: None if own is None else own.to_dict() for name, own in estimates.items()} | {"range": result.range}


def pinned_findings(findings: Any) -> list[list[str]]:
    return [[finding.code, finding.severity, masked(finding.message)] for finding in findings]


def pinned_audit(result: ooc.Audit, full: bool = False) -> dict[str, Any]:
    """What is kept of an audit; `full` is for a few cases only, since it takes more time and space."""
    # Both of these are kept apart from the summary.
    summary = {name: part for name, part in result.to_dict().items() if name not in ("findings", "methods")}
    naive = result.naive.value
    worse = naive - 0.02 if result.metric.greater_is_better else naive + 0.02
    other = "records" if result.units == "clusters" else "clusters"
    return {
        "samples": {key: pinned_array(array) for key, array in sampled_arrays(result).items()},
        "summary": plain(summary),
        "texts": {
            "str": masked(str(result)),
            "methods": attempt(result.methods_text),
            **({"explain": masked(result.explain())} if full else {}),
        },
        "findings": {name: pinned_findings(own.findings) for name, own in result.metrics.items()},
        "solved": {
            "frame": attempt(result.to_frame),
            "sensitivity": attempt(lambda: result.sensitivity(RATES).to_frame()),
            "tipping_point": attempt(lambda: result.tipping_point(worse).rate),
            "at_leakage": attempt(lambda: brief(result.at_leakage(0.07))),
            "with_curve": attempt(lambda: brief(result.with_curve(ooc.PolynomialCurve(2)))),
            "with_units": attempt(lambda: brief(result.with_units(other))),
            "with_confidence": attempt(lambda: brief(result.with_confidence(0.8))),
            "parts": attempt(result.parts),
            "review_list": attempt(lambda: result.review_list(6, random_state=0)),
            "others": [brief(own) for own in result.others],
        },
        "suspects": attempt(result.suspects),
        "saved": _saved_and_read(result, full),
        **({"samples_frame": attempt(result.samples.to_frame)} if full else {}),
    }


def pinned_briefly(result: ooc.Audit) -> dict[str, Any]:
    """What is kept of an audit that only differs by how its losses were sampled."""
    return {
        "samples": {key: pinned_array(array) for key, array in sampled_arrays(result).items()},
        "texts": {"str": masked(str(result))},
        "solved": {"frame": plain(result.to_frame()), "others": plain([brief(own) for own in result.others])},
        "saved": _saved_and_read(result, full=False),
    }


def _saved_and_read(result: ooc.Audit, full: bool) -> dict[str, bool]:
    """Whether an audit is the same after it was written and read."""
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder, "audit"))
        again = ooc.Audit.load(Path(folder, "audit"))
    before, after = sampled_arrays(result), sampled_arrays(again)
    equal = {
        "text": str(again) == str(result),
        "estimates": plain(brief(again)) == plain(brief(result)),
        "samples": list(before) == list(after) and all(before[key].tobytes() == after[key].tobytes() for key in before),
    }
    if full:
        equal |= {
            "dict": plain(again.to_dict()) == plain(result.to_dict()),
            "json": again.to_json() == result.to_json(),
        }
    return equal


# --- the files, and the comparison ----------------------------------------------------------------------


def path_of(case: str) -> Path:
    return FOLDER / "files" / f"{case}.json"


def write(case: str, content: dict[str, Any]) -> None:
    """Write the file of a case, with one line for each entry of the second level."""
    lines = []
    short = {"samples": {key: list(own.values()) for key, own in content.get("samples", {}).items()}}
    for name, part in ({"packages": packages()} | content | (short if "samples" in content else {})).items():
        if isinstance(part, dict) and part:
            entries = [f"  {_dumped(key)}: {_dumped(value)}" for key, value in part.items()]
            lines.append(f"{_dumped(name)}: {{\n" + ",\n".join(entries) + "\n}")
        else:
            lines.append(f"{_dumped(name)}: {_dumped(part)}")
    path_of(case).parent.mkdir(exist_ok=True)
    path_of(case).write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def read(case: str) -> dict[str, Any]:
    content = json.loads(path_of(case).read_text(encoding="utf-8"))
    for key, own in content.get("samples", {}).items():
        content["samples"][key] = dict(zip(OF_ARRAY, own, strict=False))
    return content


def differences(case: str, content: Mapping[str, Any]) -> list[str]:
    """Where a result of today differs from the golden file, each as a sentence with the key and both values."""
    expected = read(case)
    same = expected.pop("packages") == packages()
    found = json.loads(json.dumps(content))
    return [f"{case}: {line}" for line in _differences("", expected, found, same)]


def _differences(key: str, expected: Any, found: Any, same: bool) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        scale = max((abs(expected.get(end, 0.0)) for end in ("min", "max") if _is_number(expected.get(end))), default=0)
        for name in [*expected, *(name for name in found if name not in expected)]:
            inner = f"{key}/{name}" if key else name
            if name not in expected or name not in found:
                yield f"{inner} is only in {'the golden file' if name in expected else 'the result'}"
            elif name.endswith("sha256"):
                if same and expected[name] != found[name]:
                    yield f"{inner}: expected {expected[name]}, found {found[name]}"
            elif name in ("sum", "checksum") and _is_number(expected[name]) and scale:
                # Entries of both signs cancel out, so that a sum is judged by the size of what it is a sum of.
                length = math.prod(expected.get("shape", [])) if "shape" in expected else expected.get("length", 1)
                if not _close(expected[name], found[name], same, scale * length):
                    yield f"{inner}: expected {expected[name]!r}, found {found[name]!r}"
            else:
                yield from _differences(inner, expected[name], found[name], same)
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{key}: expected {len(expected)} entries, found {len(found)}: {_short(expected)}, {_short(found)}"
            return
        for place, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(f"{key}[{place}]", one, other, same)
    elif _is_number(expected) and _is_number(found):
        if not _close(expected, found, same):
            yield f"{key}: expected {expected!r}, found {found!r}"
    elif isinstance(expected, str) and isinstance(found, str):
        # Digits that are shown can change with other packages, words cannot.
        if expected != found if same else _words(expected) != _words(found):
            yield f"{key}: {_where(expected, found)}"
    elif expected != found:
        yield f"{key}: expected {_short(expected)}, found {_short(found)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(expected: float, found: Any, same: bool, size: float = 0.0) -> bool:
    if not _is_number(found):
        return False
    tolerance = STRICT if same else LOOSE
    return abs(expected - found) <= tolerance * max(abs(expected), abs(found), size) + STRICT


def _words(text: str) -> str:
    return re.sub(r"\d+([.,]\d+)*", "#", text)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


def _where(expected: str, found: str) -> str:
    """The first place at which two texts differ, with some words around it."""
    place = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
    start = max(0, (min(len(expected), len(found)) if place is None else place) - 40)
    return f"expected …{expected[start : start + 120]!r}, found …{found[start : start + 120]!r}"

"""Odd calls of the public functions and of the command line, and one rule for what may come of them.

The rule: a result that is finite and valid, or one of the package's own errors with a message of one line. Arguments
stay as they were, no file appears beside those that were named, and no call takes half a minute of processor time.
Calls are drawn at random from a seed, each from a stream of its own, so that a single one can be made again:

    python benchmarks/fuzz.py --cases 20000
    python benchmarks/fuzz.py --command-line --cases 1000
    python benchmarks/fuzz.py --seed 3 --first 1234 --cases 1

It exits with 1 if a call breaks the rule. Memory is limited, so that what asks for too much shows as an error.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from scipy import sparse

import outofcluster as ooc
from _fuzz_calls import Case, draw_case
from _fuzz_cli import draw_command

__all__ = ["Outcome", "run", "run_case"]

TIMEOUT = 30
"""Seconds of processor time that a call may take."""
LONGEST = 1000
"""Characters of the longest message that is still a sentence."""
MEMORY = 8 * 2**30


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a call: "fine", "refused", or the way in which it broke the rule."""

    kind: str
    detail: str = ""

    @property
    def broken(self) -> bool:
        """Whether the rule was broken."""
        return self.kind not in ("fine", "refused")


class _Late(BaseException):
    """A call that took too long; not an Exception, so that nothing in the package catches it."""


def problems(result: Any) -> Iterator[str]:
    """What is wrong with a result."""
    if isinstance(result, ooc.Audit):
        yield from _audit_problems(result)
    elif isinstance(result, ooc.Comparison):
        str(result)
        json.loads(result.to_json())
        if set(result.ranking) != set(result.audits) or set(result.audits) & set(result.left_out):
            yield "a ranking of other models than those that were audited"
        for one in result.audits.values():
            yield from _audit_problems(one)
    elif isinstance(result, ooc.LeakageTest):
        str(result)
        result.to_json()
        if not 0 <= result.pvalue <= 1 or not math.isfinite(result.difference):
            yield f"p-value {result.pvalue}, difference {result.difference}"
    elif isinstance(result, ooc.Leakage):
        if not 0 <= result.rate <= 1 or not (result.std is None or 0 <= result.std < math.inf):
            yield f"rate {result.rate} ± {result.std}"
        str(result)
        yield from problems(result.interval())
    elif isinstance(result, ooc.Estimate):
        low, high = result.interval
        if not (math.isfinite(result.value) and math.isfinite(low) and math.isfinite(high)):
            yield f"estimate {result.value} in {result.interval}"
        elif low > high:
            yield f"the interval {result.interval}"
    elif isinstance(result, ooc.Sensitivity):
        yield from problems([result.rates, result.values, result.low, result.high])
    elif isinstance(result, ooc.LossSamples):
        yield from problems([result.means, *result.losses, result.injected])
    elif isinstance(result, ooc.Difference):
        yield from problems([result.naive, result.corrected])
    elif isinstance(result, bool | np.bool_ | str | None):
        return
    elif isinstance(result, float | int | np.number):
        if not np.isfinite(float(result)):
            yield f"the number {result}"
    elif isinstance(result, pd.DataFrame):
        return
    elif sparse.issparse(result):
        yield from problems(result.data)
    elif isinstance(result, np.ndarray):
        if result.dtype.kind in "fc" and not np.isfinite(result).all():
            yield f"an array with {result[~np.isfinite(result)][0]}"
    elif isinstance(result, Mapping):
        yield from problems(list(result.values()))
    elif isinstance(result, list | tuple):
        for each in result:
            yield from problems(each)
    elif dataclasses.is_dataclass(result) and type(result).__name__ in ("Bunch", "Patients", "SimulatedLeakage"):
        for each in dataclasses.fields(result):
            yield from problems(getattr(result, each.name))


def _audit_problems(result: ooc.Audit) -> Iterator[str]:
    str(result)
    json.loads(result.to_json())
    result.to_frame()
    for name in ("naive", "iid", "corrected", "optimism"):
        for problem in problems(getattr(result, name)):
            yield f"{name}: {problem}"
    low, high = result.samples.loss_range
    shown = sorted(result.metric.shown_interval(low, high)) if hasattr(result.metric, "shown_interval") else [low, high]
    if not shown[0] - 1e-9 <= result.naive.value <= shown[1] + 1e-9:
        yield f"naive {result.naive.value} outside of {shown}"
    if result.test is not None:
        yield from problems(result.test)


def judge(call: Callable[[], Any]) -> Outcome:
    """Make a call and say what came of it."""
    try:
        result = call()
        wrong = next(problems(result), None)
        return Outcome("fine") if wrong is None else Outcome("not finite", wrong)
    except _Late:
        return Outcome("late", f"more than {TIMEOUT} s")
    except Exception as error:
        message = _text(error)
        where = traceback.extract_tb(error.__traceback__)[-1]
        if not type(error).__module__.startswith("outofcluster"):
            place = f"{Path(where.filename).name}:{where.lineno}"
            return Outcome("foreign", f"{type(error).__name__} at {place}: {message[:160]}")
        if len(message.splitlines()) != 1 or not message.isprintable():
            return Outcome("lines", message[:160])
        if len(message) > LONGEST:
            return Outcome("long", f"{len(message)} characters: {message[:160]}")
        return Outcome("refused", message)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "a message that cannot be read"


def _digest(value: Any) -> Any:
    """A digest that tells whether a value was changed; None where there is none."""
    if isinstance(value, dict):
        return {name: _digest(own) for name, own in value.items()}
    if sparse.issparse(value):
        # Sparse matrices remember whether they were found to be sorted, which is no change of what they hold.
        return {name: _digest(own) for name, own in vars(value).items() if not name.startswith("_has_")}
    try:
        # Tables remember what was asked of them, so only their values count.
        own = np.asarray(value) if hasattr(value, "to_numpy") else value
        if isinstance(own, np.ndarray) and own.dtype == object and any(map(sparse.issparse, own.flat)):
            return [_digest(each) for each in own.flat]
        digest = joblib.hash(own)
        return digest if joblib.hash(own) == digest else None
    except BaseException:
        return None


@contextmanager
def _in_time() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise _Late

    # Processor time, since other work on the machine is no fault of the call.
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, TIMEOUT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run_case(seed: int, number: int, draw: Callable[[np.random.Generator], Case]) -> tuple[Case, Outcome]:
    """One call, in a folder of its own."""
    rng = np.random.default_rng([seed, number])
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            case = draw(rng)
            before = {name: _digest(value) for name, value in case.arguments.items()}
            there = {str(path) for path in Path(".").rglob("*")}
            with _in_time():
                outcome = judge(case.call)
            for name, digest in before.items():
                if digest is not None and _digest(case.arguments[name]) != digest and not _drawn_from(case, name):
                    outcome = Outcome("changed", name)
            new = {str(path) for path in Path(".").rglob("*")} - there
            extra = [path for path in new if not any(fnmatch.fnmatch(path, pattern) for pattern in case.files)]
            if extra:
                outcome = Outcome("file", extra[0])
        finally:
            os.chdir(home)
    return case, outcome


def _drawn_from(case: Case, name: str) -> bool:
    """Whether an argument is meant to change: a generator that is drawn from, or an iterator that is used up."""
    value = case.arguments[name]
    inside = value.values() if isinstance(value, dict) else [value]
    return any(isinstance(each, np.random.Generator | np.random.RandomState | Iterator) for each in inside)


def run(
    seed: int, cases: int, draw: Callable[[np.random.Generator], Case] = draw_case, *, first: int = 0, show: bool = True
) -> tuple[Counter[str], list[str]]:
    """Make many calls; count what came of them, and list what broke the rule."""
    counts, broken = Counter[str](), list[str]()
    for number in range(first, first + cases):
        case, outcome = run_case(seed, number, draw)
        counts[outcome.kind] += 1
        if outcome.broken:
            broken.append(f"case {number}: {outcome.kind}: {outcome.detail} <- {case.described}")
            if show:
                print(f"  {broken[-1]}", flush=True)
    return counts, broken


def main() -> None:
    """Read the options, make the calls, and say how many broke the rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--command-line", action="store_true", help="commands instead of calls")
    parser.add_argument("--refusals", action="store_true", help="show some of the messages of refused calls")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    started = time.monotonic()
    draw = draw_command if options.command_line else draw_case
    if options.refusals:
        for number in range(options.first, options.first + options.cases):
            case, outcome = run_case(options.seed, number, draw)
            print(f"{number} {outcome.kind}: {outcome.detail} <- {case.described}")
        return
    counts, broken = run(options.seed, options.cases, draw, first=options.first)
    print(f"{options.cases} calls in {time.monotonic() - started:.0f} s: {dict(counts)}")
    print(f"{len(broken)} broke the rule")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()

"""What the terminal shows: tables and sentences that need no statistics, with options in the place of arguments."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from outofcluster._base.files import is_standard_output, write_whole
from outofcluster._base.text import percentage, printable
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.price import Announcement, time_they_take
from outofcluster.auditing.summary import OPTIMISM, Summary
from outofcluster.auditing.sweep import Sweep
from outofcluster.cli.options import Problem
from outofcluster.inference.estimates import Estimate, Sensitivity, between, decimals, fixed

_WIDTH = 100
_SEVERITIES = {"severe": ("Severe", "bold red"), "warning": ("Warning", "yellow"), "info": ("Note", "cyan")}
_RANK = {"note": 0, "info": 0, "warning": 1, "severe": 2, "never": 3}

# Options that are called otherwise than the arguments for which they stand.
_OPTIONS = {
    "confidence_level": "--confidence",
    "blocking_recall's": "--blocking-recall's",
    "blocking_rules": "--rules",
    "by()": "--by",
    "cv": "--folds",
    "groups_by_threshold": "--groups",
    "n": "--review-size",
    "n_fits": "--fits",
    "n_jobs": "--jobs",
    "ids": "--id",
    "n_links": "--links",
    "n_records": "--records",
    "plan_clusters()": "--plan-clusters",
    "plan_review()": "--plan-review",
    "random_state": "--seed",
    "rate": "--leakage",
    "rules": "--rules",
    "std": "--leakage-std",
    "suspects()": "--suspects",
    "review_list()": "--review-list",
    "spread()": "--spread",
    "threshold": "--tipping",
    "validation": "--validation-leakage",
}
_SAME_NAME = {"alpha", "blocking_recall", "checkpoint", "drawn", "error_model", "leakage", "left", "loss", "mates"}
_SAME_NAME |= {"precision", "precision_std", "recall", "recall_std", "right", "sampled", "scoring"}
_SAME_NAME |= {
    "by",
    "curve",
    "identity",
    "quantiles",
    "rates",
    "reviewed",
    "reviewer_error",
    "time_limit",
    "units",
    "validation_rates",
}
_OPTIONS |= {name: f"--{name.replace('_', '-')}" for name in _SAME_NAME}

# What to do about findings whose own remedy names arguments of Python.
_REMEDIES = {
    "error-model": "Give --error-model if you know better.",
    "linkage-facts": "Review pairs: --reviewed and --blocking-recall of 'outofcluster leakage pairs'.",
    "exact-rate": "Give --leakage-std, or move the slider of the report.",
    "small-validation": "Use fewer --folds.",
    "single-class": "Use fewer --folds; the values are those of resamples with every class.",
    "giant-cluster": "A linkage that chains different entities together needs a higher threshold; look at "
    "'outofcluster sweep'.",
    "unbalanced-folds": "Use fewer --folds, or smaller clusters.",
    "singleton-clusters": "Check that --groups is the column of the clusters, and not one of record numbers.",
    "swapped-columns": "Check that --target and --groups are not swapped.",
    "id-like-feature": "Leave them out with --drop, unless they are meant.",
    "target-among-features": "Leave them out with --drop if they are not known before the target is.",
    "numbers-as-classes": "Use --task regression if they are amounts.",
    "curve-and-unmixing": "The curve cannot see a fall below the leakage rate; the range above needs no curve.",
    "lack-of-fit": "Raise --fits, or try another curve: 'outofcluster show' has --curve.",
}

# Words of Python in messages and remedies, and what the command line has in their place.
_PHRASES = {
    "error_model='fragments'": "--error-model fragments",
    "units='records'": "'outofcluster show' with --units records",
    "units='clusters'": "'outofcluster show' with --units clusters",
    "leakage='data'": "--leakage data",
    "unmix=False": "--no-unmix",
    "identity=": "--identity",
    "review_list()": "--review-list",
    "sensitivity()": "the table of rates",
    "Leakage.from_true_groups": "'outofcluster leakage audited'",
}

# What the account of a table says about how it was read.
_REMARKS = {
    "dropped records": "Left out: {}.",
    "left out": "Left out: {}; --keep takes a column as a feature.",
    "infinite values": "Infinite values: {}.",
    "decimal commas": "Read as numbers with decimal commas: {}.",
    "nearly numbers": "Taken as text, although nearly all values are numbers with decimal commas, because of others: "
    "{}.",
    "encoded": "Columns {}.",
}


def complain(message: str) -> None:
    """Print a sentence about arguments as one about the options that stand for them."""
    # Arguments come first, as in "loss and scoring must", or with their values, as in "error_model='fragments'".
    sentence = re.sub(r"^\S+( and \w+)?", lambda m: " ".join(_OPTIONS.get(w, w) for w in m[0].split()), message)
    sentence = re.sub(
        r"(?<= )(\w+)=(['\"]?)([\w.]*)\2", lambda m: f"{_OPTIONS[m[1]]} {m[3]}" if m[1] in _OPTIONS else m[0], sentence
    )
    # Standard error may be closed, which is no reason to fail.
    with suppress(OSError, ValueError):
        print(f"outofcluster: {printable(sentence)}", file=sys.stderr, flush=True)


def console(*, error: bool = False) -> Any:
    """A rich console that prints words as they are. Text that goes to a file or a pipe has a fixed width."""
    from rich.console import Console
    from rich.segment import Segment

    class Printing(Console):
        """Shows no control characters that names may hold, and does not mind that a pipe is closed."""

        def render(self, renderable: Any, options: Any = None) -> Any:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text), style, control)

        def print(self, *objects: Any, **options: Any) -> None:
            try:
                super().print(*objects, **options)
            except BrokenPipeError:
                self.on_broken_pipe()

        def on_broken_pipe(self) -> None:
            self.quiet = True
            _close_pipe(sys.stderr if error else sys.stdout)

    made = Printing(stderr=error, markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.width = _WIDTH
    return made


def _close_pipe(stream: Any) -> None:
    """Send what nobody reads any more nowhere, so that nothing complains about it at the end either."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def in_options(summary: Summary) -> Summary:
    """The same summary with findings that name options."""
    findings = tuple(
        replace(each, message=_in_options(each.message), remedy=_in_options(_REMEDIES.get(each.code, each.remedy)))
        for each in summary.findings
    )
    return replace(summary, findings=findings)


def _in_options(words: str) -> str:
    for phrase, option in _PHRASES.items():
        words = words.replace(phrase, option)
    return words


def exit_status(findings: Sequence[Finding], fail_on: str) -> int:
    """1 if there is a finding of at least the severity that was asked for, else 0."""
    return int(any(_RANK[finding.severity] >= _RANK[fail_on] for finding in findings))


def write_output(option: str, path: str | None, content: str | bytes) -> None:
    """Write a file that was asked for, or on the screen for ``-``."""
    if path is None:
        return
    if path != "-":
        write_whole(option, path, content)
        return
    try:
        sys.stdout.write(str(content))
        sys.stdout.flush()
    except BrokenPipeError:
        _close_pipe(sys.stdout)


def as_json(numbers: dict[str, Any]) -> str:
    """Numbers as JSON, on lines of their own."""
    return json.dumps(numbers, indent=2, allow_nan=False) + "\n"


def on_screen(*paths: str | None) -> bool:
    """Whether one of the outputs goes to standard output, which then holds nothing else."""
    return any(path is not None and (path == "-" or is_standard_output(path)) for path in paths)


def show_account(
    out: Any, problem: Problem, announcement: Announcement, *, n_thresholds: int | None = None
) -> Callable[[float], None]:
    """Print what the table holds and what will be fitted; what is returned prints about how long that takes.

    ``n_thresholds`` is the number of linkage thresholds of a sweep, whose clusters are in its own table.
    """
    records, account = problem.records, problem.records.account
    about, (clusters, target, features) = records.about, account.lines
    if n_thresholds is not None:
        clusters = f"{account.n_records:,} records, with clusters by {n_thresholds} linkage thresholds."
    target = target.removeprefix("The target has ").removeprefix("The target is ")
    file, name = about["data"].partition(", ")[0], about["target"].partition(" (")[0]
    lines = [f"{file}: {clusters}", f"Target {name}: {target}", features]
    lines += [words.format(about[name]) for name, words in _REMARKS.items() if name in about]
    if account.determining:
        lines.append(f"These features give the target away: {', '.join(account.determining)}.")
    if others := records.columns_like_clusters():
        lines.append(f"These features look like clusters as well: {', '.join(others)}; --drop leaves a column out.")
    if n_thresholds is None and account.looks_like_record_numbers:
        lines.append("Nearly all clusters have a single record: is --groups the right column?")
    if account.looks_swapped:
        swapped = f"{account.n_clusters} clusters and {account.n_classes} classes"
        lines.append(f"There are {swapped}: are --target and --groups swapped?")
    if account.numbers and account.n_classes > 2:
        lines.append("Its numbers are taken as classes; --task regression takes them as amounts.")
    for line in lines:
        out.print(line)
    n_times = n_thresholds or 1
    out.print(announcement.in_words(n_times=n_times))
    return lambda seconds: out.print(time_they_take(n_times * seconds))


def show_audit(out: Any, summary: Summary, *, truth: float | None = None, explain: bool = False) -> None:
    """Print the answer, the numbers behind it, the test and the warnings; the rest in one line, or explained."""
    from rich.padding import Padding
    from rich.text import Text

    out.print(f"\n{summary.headline}\n", style="bold")
    out.print(Padding(_numbers(summary, truth), (0, 0, 0, 2), expand=False))
    out.print()
    if summary.metrics:
        out.print(Padding(_metrics(summary), (0, 0, 1, 2), expand=False))
    for line in summary.answers:
        out.print(line)
    if summary.corrected is None and summary.sensitivity is not None:
        out.print(Padding(_rates(summary, summary.sensitivity), (1, 0, 0, 2), expand=False))
    for finding in summary.findings if explain else summary.loud:
        word, style = _SEVERITIES[finding.severity]
        out.print(Text.assemble("\n", (word, style), (f" {finding.code}: ", "bold"), finding.message))
        if finding.remedy:
            out.print(Padding(f"What to do: {finding.remedy}", (0, 0, 0, 4), expand=False))
    out.print(f"\n{summary.title}")
    said = summary.answers
    rest = [line for line in summary.sentences[1:] if line not in said] if explain else [summary.standing("--explain")]
    for line in rest:
        out.print(line)


def show_sweep(out: Any, sweep: Sweep) -> None:
    """Print the numbers of each threshold, the advice, and the findings."""
    from rich.padding import Padding

    table = _plain_table("threshold", "leakage", "clusters", "largest", "as it is", "corrected", "optimism")
    for cells in sweep.cells:
        # The intervals of the first and the last estimate do not fit into a line.
        as_it_is, corrected, optimism = cells[4:]
        table.add_row(*cells[:4], as_it_is.partition(" (")[0], corrected, optimism.partition(" (")[0])
    out.print(f"\n{sweep.advice}\n", style="bold")
    out.print(
        f"{sweep.metric.title}, {sweep.metric.better} is better; largest: share of the records in the largest cluster."
    )
    out.print(Padding(table, (1, 0, 1, 2), expand=False))
    for line in sweep.sentences[1:]:
        out.print(line)


def _numbers(summary: Summary, truth: float | None) -> Any:
    table = _plain_table(summary.metric.label, "value", f"{percentage(summary.confidence_level)} interval")
    digits = decimals(*summary.estimates.values())
    for name, estimate in summary.estimates.items():
        _add_row(table, name, estimate, digits, "bold" if estimate is summary.corrected else "")
    if truth is not None:
        table.add_row("the truth", fixed(truth, digits), "", style="bold green")
    if summary.optimism is not None:
        table.add_section()
        _add_row(table, OPTIMISM, summary.optimism, digits)
    return table


def _metrics(summary: Summary) -> Any:
    """All metrics of the same fits, with a line for each estimate, since three intervals do not fit into one."""
    table = _plain_table("metric", "value", f"{percentage(summary.confidence_level)} interval")
    for one in summary.metrics:
        digits = decimals(*(estimate for estimate in (one.naive, one.corrected) if estimate is not None))
        named = {"as it is": one.naive, "corrected": one.corrected, "optimism": one.optimism}
        for name, estimate in named.items():
            if estimate is not None:
                _add_row(table, f"{one.metric.label}, {name}", estimate, digits, "bold" if name == "corrected" else "")
        table.add_section()
    return table


def _rates(summary: Summary, sensitivity: Sensitivity) -> Any:
    table = _plain_table("if the leakage rate is", "corrected", f"{percentage(summary.confidence_level)} interval")
    digits = decimals(*summary.estimates.values())
    curves = (sensitivity.values, sensitivity.low, sensitivity.high)
    for rate in (0.02, 0.05, 0.1, 0.2):
        index = int(abs(sensitivity.rates - rate).argmin())
        value, low, high = (fixed(values[index], digits) for values in curves)
        table.add_row(percentage(sensitivity.rates[index]), value, f"{low} to {high}")
    return table


def _add_row(table: Any, name: str, estimate: Estimate, digits: int, style: str = "") -> None:
    table.add_row(name, fixed(estimate.value, digits), between(estimate, digits), style=style)


def _plain_table(*names: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place == 1 else "left")
    return table

"""``outofcluster leakage``: the rate from looked-up records, from pair probabilities, or from precision and recall."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from outofcluster._base.arguments import check_integer, shown
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.text import percentage
from outofcluster.cli.options import SuggestingGroup, encoding_option, example, json_option, option, read_rate
from outofcluster.cli.printing import as_json, console, on_screen, write_output
from outofcluster.cli.running import check_files
from outofcluster.cli.table import column, read_decimal_commas, read_table
from outofcluster.errormodels.choose import MODELS
from outofcluster.leakage.blocking import capture_recapture
from outofcluster.leakage.linkage import which_rules
from outofcluster.leakage.rate import Leakage
from outofcluster.leakage.review import PAIR_COLUMNS

# Columns of a file of pairs; the second are those of splink.
_PAIRS = ((*PAIR_COLUMNS[0], "probability"), (*PAIR_COLUMNS[1], "match_probability"))
_MARKS = {"true": True, "1": True, "1.0": True, "yes": True, "false": False, "0": False, "0.0": False, "no": False}

_out = option("--out FILE", "Keep the rate and all that is known about it, for audit --leakage FILE.")
_folds = option("--folds N", "Folds of the cross-validation to come.", "cv", default=5)
_DRAWN = "What was drawn at random: entities (true clusters), records, or clusters (approximate ones).  [entities]"
_RULES = "Columns of a blocking rule, by commas; may be repeated. PAIRS has COL_l and COL_r."
_SAMPLED = "Column of true and false: which records were drawn, the others being mates that were looked up."
_AUDITED = "leakage audited sample.csv --true person --groups patient --drawn records \\\n      --sampled drawn"
_PRECISION_RECALL = "leakage precision-recall --precision 0.95 --recall 0.9 --file v.csv --groups id"


@click.group("leakage", cls=SuggestingGroup)
def command() -> None:
    """Compute how much leaks, for 'outofcluster audit --leakage', which works without it as well.

    Where whole pieces of clusters leak, as those of patients do, it is a share of the held-out records. Where single
    records leak, it is a share of the training records. Each of these commands gives both.
    """


@command.command("audited", epilog=example(_AUDITED))
@click.argument("file", metavar="FILE")
@option("--true COL", "Column of the true clusters.", "true_column", required=True)
@option("--groups COL", "Column of the approximate clusters.", required=True)
@option("--drawn KIND", _DRAWN, choices=("entities", "records", "clusters"), default="entities")
@option("--sampled COL", _SAMPLED)
@_folds
@encoding_option
@_out
@json_option
def from_audited(
    file: str,
    true_column: str,
    groups: str,
    sampled: str | None,
    encoding: str,
    out: str | None,
    json_path: str | None,
    **drawing: Any,
) -> None:
    """Compute the rate from records whose true clusters were looked up.

    Draw records at random, look up all records of their true clusters, wherever the linkage put them, and mark the
    ones that were drawn: --drawn records --sampled COL. FILE has all of them. Without the mates the rate comes out too
    low.
    """
    files = _files(out, json_path, {"FILE": file})
    frame = read_table(file, encoding=encoding).frame
    if true_column == groups:
        raise InputError(f"--true and --groups must be different columns, got {groups!r} for both.")
    true, approximate = column(frame, true_column, "--true"), column(frame, groups, "--groups")
    drawing["sampled"] = None if sampled is None else _marks(frame, sampled)
    _show(Leakage.from_true_groups(true, approximate, **drawing), files)


@command.command("pairs", epilog=example("leakage pairs predictions.parquet visits.csv --groups patient --id visit"))
@click.argument("pairs", metavar="PAIRS")
@click.argument("file", metavar="FILE")
@option("--groups COL", "Column of FILE with the approximate clusters.", required=True)
@option("--id COL", "Column of FILE with the names of records in PAIRS.  [row numbers from 0]", "id_column")
@option("--left COL", "Column of PAIRS: one record.")
@option("--right COL", "Column of PAIRS: the other one.")
@option("--probability COL", "Column of PAIRS: probability that both belong to one cluster.")
@option("--rules COLS", _RULES, "blocking_rules", multiple=True)
@option("--reviewed FILE", "Pairs that somebody looked at: left, right, match.")
@option("--blocking-recall X", "Share of the true pairs that are in PAIRS, or 'reviewed'.")
@option("--blocking-recall-std X", "Standard error of that number.", type=float)
@_folds
@encoding_option
@_out
@json_option
def from_pairs(
    pairs: str,
    file: str,
    groups: str,
    id_column: str | None,
    cv: int,
    blocking_rules: tuple[str, ...],
    reviewed: str | None,
    blocking_recall: str | None,
    blocking_recall_std: float | None,
    encoding: str,
    out: str | None,
    json_path: str | None,
    **chosen: str | None,
) -> None:
    """Compute the rate from the match probabilities of a linkage tool, one pair of records per line.

    The pairs that matter are those below the threshold for a link, so ask the tool for them too. The columns are called
    left, right and probability, or have splink's names. Records that are not in FILE are left out.

    The rate is a lower bound, since blocking left pairs out; --rules gives a larger one. Reviewed pairs correct the
    probabilities, or say what is missing: then draw them by something that the linkage does not look at.
    """
    files = _files(out, json_path, {"PAIRS": pairs, "FILE": file, "--reviewed": reviewed})
    recall = _recall(blocking_recall, blocking_recall_std, blocking_rules)
    if pairs == file and not Path(file).is_file():
        raise InputError(f"PAIRS and FILE must be different files, got {file!r} for both, which can be read once.")
    table, frame = read_table(pairs, encoding=encoding).frame, read_table(file, encoding=encoding).frame
    usual = next((names for names in _PAIRS if set(names) <= set(table.columns)), _PAIRS[0])
    names = [chosen[role] or name for role, name in zip(_PAIRS[0], usual, strict=True)]
    one, two, m = (column(table, name, f"--{role}", "PAIRS") for role, name in zip(_PAIRS[0], names, strict=True))
    numbers, _ = read_decimal_commas(table[names[2]])
    known: dict[str, Any] = {"left": one, "right": two, "probability": m if numbers is None else numbers.to_numpy()}
    approximate = column(frame, groups, "--groups")
    if id_column is None:
        for name, values in zip(names, (one, two), strict=False):
            _check_row_numbers(name, values, frame)
    else:
        # Names may be numbers in one file and text in the other.
        ids = _as_text(column(frame, id_column, "--id"))
        known |= {"left": _as_text(one), "right": _as_text(two), "ids": ids}
    if blocking_rules:
        rules = [tuple(rule.split(",")) for rule in blocking_rules]
        recall = capture_recapture(which_rules("PAIRS", table, rules), known["probability"])
    if reviewed is not None:
        answers = read_table(reviewed, encoding=encoding).frame
        known["reviewed"] = _answers(answers, (names[0], names[1]), as_text=id_column is not None)
    _show(Leakage.from_pair_probabilities(groups=approximate, cv=cv, blocking_recall=recall, **known), files)


@command.command("precision-recall", epilog=example(_PRECISION_RECALL))
@option("--precision X", "Share of the linked pairs that are true.", type=float, required=True)
@option("--recall X", "Share of the true pairs that are linked.", type=float, required=True)
@option("--precision-std X", "Standard error of the precision.", type=float)
@option("--recall-std X", "Standard error of the recall.", type=float)
@option("--links N", "Number of linked pairs: all pairs inside clusters.", "n_links", type=float)
@option("--records N", "Number of records.", "n_records", type=int)
@option("--file FILE", "Count links, records and mates in this table instead.")
@option("--groups COL", "Its column of the approximate clusters.")
@option("--mates X", "Mates of a leaking record on the other side.  [by the sizes of --groups, else 1]", type=float)
@_folds
@encoding_option
@_out
@json_option
def from_precision_recall(
    file: str | None,
    groups: str | None,
    cv: int,
    encoding: str,
    out: str | None,
    json_path: str | None,
    **known: Any,
) -> None:
    """Compute the rate from the pairwise precision and recall of the clustering.

    With --file and --groups the number of mates follows from the sizes of the clusters, as if single records were lost.
    Without them and without --mates the rates are upper bounds, because each missed pair is taken to leak a record of
    its own.
    """
    files = _files(out, json_path, {"--file": file})
    if (file is None) != (groups is None):
        missing, present = ("--groups", "--file") if groups is None else ("--file", "--groups")
        raise InputError(f"{missing} must be given along with {present}.")
    if file is not None and groups is not None:
        for name, option in (("n_links", "--links"), ("n_records", "--records")):
            if known[name] is not None:
                raise InputError(f"{option} must be left out with --file, which is counted instead.")
        known["groups"] = column(read_table(file, encoding=encoding).frame, groups, "--groups")
    known["validation_share"] = 1 / check_integer("cv", cv, least=2)
    at_most = file is None and known["mates"] is None
    _show(Leakage.from_precision_recall(**known), files, at_most=at_most)


def _files(out: str | None, json_path: str | None, inputs: dict[str, str | None]) -> dict[str, str | None]:
    """What is written, once it is known that it can be."""
    if out == "-":
        raise InputError("--out must be a file such as rate.json, got '-'; --json - shows the numbers.")
    files = {"--out": out, "--json": json_path}
    check_files(files, inputs)
    return files


def _show(leakage: Leakage, files: dict[str, str | None], *, at_most: bool = False) -> None:
    """Print the rates of both error models and write them; ``at_most`` says that they are upper bounds."""
    out, numbers, kept = console(error=on_screen(*files.values())), dict[str, Any](), files["--out"]
    leaks = {"fragments": "If pieces of clusters leak, as those of patients do", "records": "If single records leak"}
    for name, words in leaks.items():
        rate, most = getattr(leakage, MODELS[name].side), MODELS[name].largest_rate
        out.print(f"{words}:\n    {'at most ' if at_most else ''}{replace(rate, facts=None)}")
        if rate.rate > most:
            out.print(f"    That is more than {percentage(most)}. For such rates nothing can be told.")
        bounds = {"at_most": at_most, "at_least": rate.at_least}
        known = {bound: True for bound, holds in bounds.items() if holds}
        numbers[name] = {"rate": rate.rate, "std": rate.std, "of": rate.of} | known
    if leakage.facts is not None:
        about = str(leakage.facts)
        if about:
            out.print(about)
        if leakage.facts.blocking is not None:
            numbers["blocking_recall"] = plain(leakage.facts.blocking)
    if kept is None:
        # A number alone would not say how sure it is, nor how entities are cut.
        out.print("Keep all that is known in a file, --out rate.json, and audit with --leakage rate.json.")
    else:
        leakage.save(kept)
        out.print(f"Audit with --leakage {shlex.quote(kept)}.")
    write_output("--json", files["--json"], as_json(numbers))


def _marks(frame: Any, name: str, option: str = "--sampled", must: str = "be a column of") -> Any:
    """A column of true and false, also as 1 and 0 or as yes and no."""
    words = _as_text(column(frame, name, option))
    marks = [_MARKS.get(word.strip().lower()) for word in words]
    if None in marks:
        wrong = words[marks.index(None)]
        raise InputError(f"{option} must {must} true and false, got {wrong!r} in column {name!r}.")
    return np.array(marks)


def _recall(words: str | None, std: float | None, rules: tuple[str, ...]) -> Any:
    """What --blocking-recall says: a number, with its standard error, or "reviewed"."""
    if words is not None and rules:
        raise InputError("--rules must be left out with --blocking-recall, which says more.")
    recall = words if words in (None, "reviewed") else read_rate(str(words), "--blocking-recall", others=("reviewed",))
    if std is None:
        return recall
    if not isinstance(recall, float):
        raise InputError("--blocking-recall must be a number along with --blocking-recall-std.")
    return recall, std


def _answers(frame: Any, pair: tuple[str, str], *, as_text: bool) -> Any:
    """The pairs that were reviewed, without those that have no answer yet."""
    names = next((each for each in (pair, *PAIR_COLUMNS) if set(each) <= set(frame.columns)), None)
    if names is None or "match" not in frame.columns:
        raise InputError(f"--reviewed must have the columns left, right and match, got {shown(frame.columns)}.")
    frame = frame[frame["match"].notna()]
    sides = [column(frame, name, "--reviewed", "that file") for name in names]
    left, right = map(_as_text, sides) if as_text else (side.tolist() for side in sides)
    return frame.assign(left=left, right=right, match=_marks(frame, "match", "--reviewed", "answer by"))


def _check_row_numbers(name: str, values: Any, frame: Any) -> None:
    """Refuse what are no row numbers of FILE, and say which of its columns has the values, if there is one."""
    n_rows, words = len(frame), set(_as_text(values))
    texts = (frame[other].astype(str) for other in frame.columns)
    named = next((text.name for text in texts if text.is_unique and words <= set(text)), None)
    option = "--id COL, the column of FILE that has these values" if named is None else f"--id {named}"
    inside = np.isin(values, np.arange(n_rows)) if values.dtype.kind in "iu" else np.zeros(len(values), dtype=bool)
    if not inside.all():
        wrong = str(values[~inside][0])
        raise InputError(f"{name!r} must hold row numbers from 0 to {n_rows - 1}, got {wrong!r}; give {option}.")
    if named is not None and frame[named].tolist() != list(range(n_rows)):
        console(error=True).print(f"{name!r} is taken as row numbers; {option} takes it as names.")


def _as_text(values: Any) -> list[str]:
    return [str(value) for value in values.tolist()]

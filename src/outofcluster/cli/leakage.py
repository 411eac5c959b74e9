"""``outofcluster leakage``: the rate from looked-up records, from pair probabilities, or from precision and recall."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster._base.files import check_outputs
from outofcluster.cli._commas import read_decimal_commas
from outofcluster.cli._options import json_option
from outofcluster.cli._print import console, on_screen, write_json
from outofcluster.cli._suggest import SuggestingGroup
from outofcluster.cli._table import column, read_table
from outofcluster.errormodels.choose import MODELS
from outofcluster.leakage.rate import Leakage

_PAIRS = (("left", "right", "probability"), ("unique_id_l", "unique_id_r", "match_probability"))
"""Columns of a file of pairs; the second are those of splink."""

_folds = click.option(
    "--folds", default=5, show_default=True, metavar="N", help="Folds of the cross-validation to come."
)
_encoding = click.option("--encoding", default="utf-8", metavar="NAME", help="Encoding of a CSV file.  [utf-8]")


@click.group("leakage", cls=SuggestingGroup, short_help="Compute the leakage rate.")
def command() -> None:
    """Compute the leakage rate that 'outofcluster audit --leakage' asks for.

    It is a share of the training records if single records leak, or a share of the held-out records if whole pieces of
    clusters leak. Each of these commands gives both.
    """


@command.command(
    "audited",
    epilog="""\b
Example:
  outofcluster leakage audited sample.csv --true person --groups patient --drawn records \\
      --sampled drawn""",
)
@click.argument("file", metavar="FILE")
@click.option("--true", "true_column", required=True, metavar="COL", help="Column of the true clusters.")
@click.option("--groups", required=True, metavar="COL", help="Column of the approximate clusters.")
@click.option(
    "--drawn",
    type=click.Choice(["entities", "records", "clusters"]),
    default="entities",
    metavar="KIND",
    help="What was drawn at random: entities (true clusters), records, or clusters (approximate ones).  [entities]",
)
@click.option(
    "--sampled",
    metavar="COL",
    help="Column of true and false: which records were drawn, the others being mates that were looked up.",
)
@_folds
@_encoding
@json_option
def from_audited(
    file: str,
    true_column: str,
    groups: str,
    drawn: str,
    sampled: str | None,
    folds: int,
    encoding: str,
    json_path: str | None,
) -> None:
    """Compute the rate from records whose true clusters were looked up.

    Draw records at random, look up all records of their true clusters, wherever the linkage put them, and mark the
    ones that were drawn: --drawn records --sampled COL. FILE has all of them. Without the mates the rate comes out too
    low.
    """
    _check(json_path, {"FILE": file})
    if sampled is not None and drawn == "entities":
        raise InputError("--drawn must be records or clusters along with --sampled, got entities.")
    frame = read_table(file, encoding=encoding)
    if true_column == groups:
        raise InputError(f"--true and --groups must be different columns, got {groups!r} for both.")
    true, approximate = column(frame, true_column, "--true"), column(frame, groups, "--groups")
    marks = None if sampled is None else _marks(frame, sampled)
    _show(
        lambda of: Leakage.from_true_groups(true, approximate, cv=folds, of=of, drawn=drawn, sampled=marks), json_path
    )


@command.command(
    "pairs",
    epilog="""\b
Example:
  outofcluster leakage pairs predictions.parquet visits.csv --groups patient --id visit""",
)
@click.argument("pairs", metavar="PAIRS")
@click.argument("file", metavar="FILE")
@click.option("--groups", required=True, metavar="COL", help="Column of FILE with the approximate clusters.")
@click.option(
    "--id", "id_column", metavar="COL", help="Column of FILE with the names of records in PAIRS.  [row numbers from 0]"
)
@click.option("--left", metavar="COL", help="Column of PAIRS: one record.")
@click.option("--right", metavar="COL", help="Column of PAIRS: the other one.")
@click.option("--probability", metavar="COL", help="Column of PAIRS: probability that both belong to one cluster.")
@_folds
@_encoding
@json_option
def from_pairs(
    pairs: str,
    file: str,
    groups: str,
    id_column: str | None,
    left: str | None,
    right: str | None,
    probability: str | None,
    folds: int,
    encoding: str,
    json_path: str | None,
) -> None:
    """Compute the rate from the match probabilities of a linkage tool, one pair of records per line.

    The pairs that matter are those below the threshold for a link, so ask the tool for them too. The columns are called
    left, right and probability, or have splink's names, unless you name others.
    """
    _check(json_path, {"PAIRS": pairs, "FILE": file})
    if pairs == file and not Path(file).is_file():
        raise InputError(f"PAIRS and FILE must be different files, got {file!r} for both, which can be read once.")
    table, frame = read_table(pairs, encoding=encoding), read_table(file, encoding=encoding)
    usual = next((names for names in _PAIRS if set(names) <= set(table.columns)), _PAIRS[0])
    names = [chosen or name for chosen, name in zip((left, right, probability), usual, strict=True)]
    one, two, m = (
        column(table, name, option, "PAIRS")
        for name, option in zip(names, ("--left", "--right", "--probability"), strict=True)
    )
    read, _ = read_decimal_commas(table[names[2]])
    m = m if read is None else read.to_numpy()
    approximate = column(frame, groups, "--groups")
    if id_column is None:
        rows = [_row_numbers(name, values, frame) for name, values in zip(names, (one, two), strict=False)]
    else:
        known = _places(column(frame, id_column, "--id"), id_column)
        rows = [_rows(name, values, known, id_column) for name, values in zip(names, (one, two), strict=False)]
    _show(
        lambda of: Leakage.from_pair_probabilities(rows[0], rows[1], m, groups=approximate, cv=folds, of=of), json_path
    )


@command.command(
    "precision-recall",
    epilog="""\b
Example:
  outofcluster leakage precision-recall --precision 0.95 --recall 0.9 --file v.csv --groups id""",
)
@click.option("--precision", type=float, metavar="X", required=True, help="Share of the linked pairs that are true.")
@click.option("--recall", type=float, metavar="X", required=True, help="Share of the true pairs that are linked.")
@click.option("--precision-std", type=float, metavar="X", help="Standard error of the precision.")
@click.option("--recall-std", type=float, metavar="X", help="Standard error of the recall.")
@click.option("--links", type=float, metavar="N", help="Number of linked pairs: all pairs inside clusters.")
@click.option("--records", type=int, metavar="N", help="Number of records.")
@click.option("--file", metavar="FILE", help="Count links, records and mates in this table instead.")
@click.option("--groups", metavar="COL", help="Its column of the approximate clusters.")
@click.option(
    "--mates",
    type=float,
    metavar="X",
    help="Mates of a leaking record on the other side.  [by the sizes of --groups, else 1]",
)
@_folds
@_encoding
@json_option
def from_precision_recall(
    precision: float,
    recall: float,
    precision_std: float | None,
    recall_std: float | None,
    links: float | None,
    records: int | None,
    file: str | None,
    groups: str | None,
    mates: float | None,
    folds: int,
    encoding: str,
    json_path: str | None,
) -> None:
    """Compute the rate from the pairwise precision and recall of the clustering.

    With --file and --groups the number of mates follows from the sizes of the clusters, as if single records were lost.
    Without them and without --mates the rates are upper bounds, because each missed pair is taken to leak a record of
    its own.
    """
    _check(json_path, {} if file is None else {"--file": file})
    clusters = None
    if file is not None:
        if groups is None:
            raise InputError("--groups must be given along with --file.")
        if links is not None or records is not None:
            given = "--links" if links is not None else "--records"
            raise InputError(f"{given} must be left out with --file, which is counted instead.")
        clusters = column(read_table(file, encoding=encoding), groups, "--groups")
    elif groups is not None:
        raise InputError("--file must be given along with --groups.")
    elif links is None or records is None:
        raise InputError("--links and --records must be given, or --file and --groups.")
    if folds < 2:
        raise InputError(f"--folds must be a whole number at least 2, got {folds}.")

    def rate_of(side: Any) -> Leakage:
        return Leakage.from_precision_recall(
            precision,
            recall,
            validation_share=1 / folds,
            groups=clusters,
            n_links=links,
            n_records=records,
            mates=mates,
            of=side,
            precision_std=precision_std,
            recall_std=recall_std,
        )

    _show(rate_of, json_path, at_most=clusters is None and mates is None)


def _check(json_path: str | None, inputs: dict[str, str]) -> None:
    check_outputs({"--json": None if json_path == "-" else json_path}, inputs)


def _show(rate_of: Callable[[Any], Leakage], json_path: str | None, *, at_most: bool = False) -> None:
    """Print the rates of both error models; ``at_most`` says that they are upper bounds."""
    rates = {"records": rate_of("train"), "fragments": rate_of("validation")}
    out = console(error=on_screen(json_path))
    words = {"records": "If single records leak", "fragments": "If pieces of clusters leak"}
    for error_model, leakage in rates.items():
        std = "" if leakage.std is None else f" --leakage-std {leakage.std:.3g}"
        out.print(f"{words[error_model]}:\n    {'at most ' if at_most else ''}{leakage}", markup=False)
        if leakage.rate > (most := MODELS[error_model].largest_rate):
            out.print(f"    That is more than {100 * most:g} %. For such rates nothing can be told.", markup=False)
        else:
            out.print(f"    audit with: --error-model {error_model} --leakage {leakage.rate:.3g}{std}", markup=False)
    if json_path is not None:
        plain = {name: {"rate": rate.rate, "std": rate.std, "of": rate.of} for name, rate in rates.items()}
        for name in (name for name, rate in rates.items() if rate.at_least):
            plain[name]["at_least"] = True
        if at_most:
            plain = {name: rate | {"at_most": True} for name, rate in plain.items()}
        write_json(json_path, json.dumps(plain, indent=2, allow_nan=False))


def _marks(frame: Any, name: str) -> Any:
    """A column of true and false, also as 1 and 0 or as yes and no."""
    values = column(frame, name, "--sampled")
    words = np.array([str(value).strip().lower() for value in values.tolist()])
    marked, unmarked = np.isin(words, ("true", "1", "1.0", "yes")), np.isin(words, ("false", "0", "0.0", "no"))
    if not (marked | unmarked).all():
        wrong = str(values[~(marked | unmarked)][0])
        raise InputError(f"--sampled must be a column of true and false, got {wrong!r} in column {name!r}.")
    return marked


def _row_numbers(name: str, values: Any, frame: Any) -> Any:
    """Row numbers; where they are none, or may be names as well, a sentence says which column has them."""
    count, named = len(frame), _column_with(frame, values)
    option = "--id COL, the column of FILE that has these values" if named is None else f"--id {named}"
    if values.dtype.kind in "iu" and values.min() >= 0 and values.max() < count:
        if named is not None and frame[named].tolist() != list(range(count)):
            console(error=True).print(f"{name!r} is taken as row numbers; {option} takes it as names.", markup=False)
        return values
    raise InputError(
        f"{name!r} must hold row numbers from 0 to {count - 1}, got {_first_outside(values, count)!r}; give {option}."
    )


def _first_outside(values: Any, count: int) -> str:
    if values.dtype.kind not in "iu":
        return str(values[0])
    return str(values[(values < 0) | (values >= count)][0])


def _column_with(frame: Any, values: Any) -> str | None:
    """The column of FILE without repetitions that has all these values."""
    wanted = {str(value) for value in values.tolist()}
    for name in frame.columns:
        own = frame[name].astype(str)
        if own.is_unique and wanted <= set(own):
            return str(name)
    return None


def _places(ids: Any, name: str) -> dict[str, int]:
    places = {str(label): row for row, label in enumerate(ids.tolist())}
    if len(places) < len(ids):
        raise InputError(
            f"--id must be a column without repetitions, got {name!r} with {len(ids) - len(places)} of them."
        )
    return places


def _rows(name: str, values: Any, known: dict[str, int], id_column: str) -> Any:
    unknown = [value for value in values.tolist() if str(value) not in known]
    if unknown:
        raise InputError(f"{name!r} must hold values of {id_column!r}, got {str(unknown[0])!r}, which is not one.")
    return np.array([known[str(value)] for value in values.tolist()], dtype=np.int64)

"""The paper's parameters (appendix D), and how much work a full and a quick run put into each study.

A :class:`Study` holds what the paper fixed by hand, an :class:`Effort` what a run may spend. The full effort has the
paper's own m and t; the quick one has fewer fits and draws, and nothing else differs. On the census the default has a
tenth of the fits that the paper's levels have, and 600 training records per draw of the leak, since the 221 validation
records cannot make up a tenth of 30,000. On Dota 2 a fit takes a hundred times as long as elsewhere, since it is scored
on 35,000 records. In the synthetic study the truth is known, and fits cost next to nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import outofcluster as ooc

__all__ = ["ALL", "IID_FITS", "LEAKAGE", "STUDIES", "TIMING", "TRUE_LEVELS", "Effort", "Study", "check_names"]

LEAKAGE = 0.1
"""The paper's leakage rate p0, in every study."""

TRUE_LEVELS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.7, 0.85, 1.0)
"""Levels at which the true curve is measured."""

IID_FITS = 300
"""Fits on one random split."""

TIMING = "timing"

_STUDIES = """
name      | title              | cluster          | loss          | n   | levels | trend_penalty | sketch_penalty | degree | groups | field_train
heart     | Heart disease      | hospital         | zero_one      | 100 | 200    | 10            | 0.1            | 7      | 7      | null
census    | 1994 US census     | country of birth | zero_one      | 100 | 200    | 10            | 0.1            | 7      | 7      | 600
parkinson | Parkinson's speech | subject          | zero_one      | 100 | 20     | 1000          | 0.1            | 2      | 7      | null
dota2     | Dota 2             | type of game     | zero_one      | 100 | 20     | 1000          | 0.1            | 2      | 7      | null
synthetic | Synthetic study    | part             | squared_error | 15  | 30     | 0.1           | 0.01           | 7      | 10     | 150
"""  # noqa: E501

_FULL = """
name      | trials | fits  | default_fits | truth_fits | curve_fits | iid_splits | draws | field_fits | field_truth_fits | tests | check_fits
heart     | 10     | 1000  | 200000       | 200000     | 20000      | 5          | 100   | 10000      | 50000            | 50    | 1500
census    | 10     | 10000 | 200000       | 200000     | 20000      | 5          | 100   | 10000      | 5000             | 50    | 1500
parkinson | 10     | 10000 | 200000       | 200000     | 20000      | 5          | 100   | 10000      | 50000            | 50    | 1500
dota2     | 10     | 1000  | 10000        | 20000      | 2000       | 1          | 50    | 1000       | 10000            | 10    | 4000
synthetic | 10     | 1000  | 30000        | 0          | 0          | 1          | 100   | 10000      | 5000             | 50    | 0
"""  # noqa: E501

_QUICK = """
name      | trials | fits | default_fits | truth_fits | curve_fits | iid_splits | draws | field_fits | field_truth_fits | tests | check_fits
heart     | 10     | 100  | 20000        | 40000      | 4000       | 1          | 5     | 4000       | 10000            | 5     | 0
census    | 10     | 100  | 20000        | 40000      | 4000       | 1          | 5     | 4000       | 2000             | 5     | 0
parkinson | 10     | 1000 | 20000        | 40000      | 4000       | 1          | 5     | 4000       | 10000            | 5     | 0
dota2     | 5      | 40   | 800          | 1500       | 300        | 1          | 5     | 400        | 800              | 3     | 0
synthetic | 10     | 1000 | 30000        | 0          | 0          | 1          | 5     | 4000       | 2000             | 5     | 0
"""  # noqa: E501


@dataclass(frozen=True)
class Effort:
    """Fits and repetitions of one study.

    Attributes
    ----------
    trials : int
        Independent trials of the paper's protocol.
    fits : int
        t, replicates at each of the study's levels in a trial.
    default_fits : int
        Fits in a trial for the package's own default, over its own levels.
    truth_fits : int
        Fits for the true e_0.
    curve_fits : int
        Fits for each other level of the true curve.
    iid_splits : int
        Random splits behind the estimate that ignores clusters, with ``IID_FITS`` fits each.
    draws : int
        Draws of which records leak, in the field protocol.
    field_fits : int
        Fits in each such draw for the paper's estimators together, and as many for the default.
    field_truth_fits : int
        Fits for the true loss of the field protocol: in each draw where the data differ between draws, else once.
    tests : int
        How often the hypothesis test deals its folds anew.
    check_fits : int
        Fits at each level of the check of the learner (another solver, another feature); 0 for none.
    """

    trials: int
    fits: int
    default_fits: int
    truth_fits: int
    curve_fits: int
    iid_splits: int
    draws: int
    field_fits: int
    field_truth_fits: int
    tests: int
    check_fits: int


@dataclass(frozen=True)
class Study:
    """One data set with the parameters that the paper set for it by hand.

    Attributes
    ----------
    name, title, cluster : str
        Its name on the command line, its name in print, and what its clusters are.
    loss : str
        The loss.
    n, levels : int
        Training records of a replicate (n), and levels of leakage (m), equidistant from p0 to 1.
    trend_penalty, sketch_penalty : float
        The penalties of T4+mono and of the sketch.
    degree, groups : int
        Degree s of the basis, and number k of the sketch's groups.
    field_train : int or None
        Records of the training clusters that a user of the field protocol has, drawn anew each time; None for all.
    full, quick : Effort
        What a run spends.
    """

    name: str
    title: str
    cluster: str
    loss: str
    n: int
    levels: int
    trend_penalty: float
    sketch_penalty: float
    degree: int
    groups: int
    field_train: int | None
    full: Effort
    quick: Effort

    @property
    def unit(self) -> str:
        """The unit of the loss, in words."""
        return "share of records misclassified" if self.loss == "zero_one" else "squared error"

    def n_fits(self, effort: Effort) -> int:
        """Models that a run of the study fits, apart from those of the hypothesis test."""
        trial = self.levels * effort.fits + IID_FITS * effort.iid_splits + effort.default_fits
        draw = self.levels * self.field_count(effort) + IID_FITS + effort.field_fits
        truth = effort.truth_fits + (len(TRUE_LEVELS) - 1) * effort.curve_fits + 3 * effort.check_fits
        truths = effort.field_truth_fits * (1 if self.field_train is None else effort.draws)
        return effort.trials * trial + effort.draws * draw + truth + truths

    def field_count(self, effort: Effort) -> int:
        """Fits at each of the paper's levels in a draw of the field protocol."""
        return max(effort.field_fits // self.levels, 2)


def _rows(table: str) -> dict[str, dict[str, Any]]:
    """The rows of a table by their first cell, each by the names of its columns, with numbers and null as in JSON."""
    header, *lines = ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines())
    return {cells[0]: dict(zip(header[1:], map(_value, cells[1:]), strict=True)) for cells in lines}


def _value(cell: str) -> Any:
    try:
        return json.loads(cell)
    except ValueError:
        return cell


_EFFORTS = [{name: Effort(**row) for name, row in _rows(table).items()} for table in (_FULL, _QUICK)]
STUDIES = {
    name: Study(name, **row, full=_EFFORTS[0][name], quick=_EFFORTS[1][name]) for name, row in _rows(_STUDIES).items()
}
"""The five studies, in the order in which they are run."""

ALL = (*STUDIES, TIMING)


def check_names(names: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The studies asked for, in the order of :data:`ALL`, each once.

    Examples
    --------
    >>> check_names(["timing", "heart"])
    ('heart', 'timing')
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    unknown = [repr(name) for name in wanted if name not in (*ALL, "all")]
    if unknown or not wanted:
        raise ooc.InputError(f"names must hold {', '.join(ALL)} or all, got {unknown[0] if unknown else 'none'}.")
    return ALL if "all" in wanted else tuple(name for name in ALL if name in wanted)

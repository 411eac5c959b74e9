"""``reproduce``: check everything, then run study after study, and write what each gives as soon as it is there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import outofcluster as ooc
from outofcluster._base.arguments import check_flag, check_integer, short
from outofcluster._base.files import check_destination
from outofcluster._base.plain import plain
from outofcluster._base.threads import one_thread
from outofcluster.datasets import Bunch
from outofcluster.reproduction.claims import judge
from outofcluster.reproduction.figures import check_matplotlib
from outofcluster.reproduction.outputs import make_folder, summary, write_overall, write_study, write_timing
from outofcluster.reproduction.parts import Parts, Progress, digest, versions
from outofcluster.reproduction.protocols import field_draws, run_checks, run_tests, trials, truth
from outofcluster.reproduction.results import field_results, paper_results
from outofcluster.reproduction.sources import LEARNERS, Source, load
from outofcluster.reproduction.studies import LEAKAGE, STUDIES, TIMING, Effort, check_names
from outofcluster.reproduction.timing import run_timing

__all__ = ["Reproduction", "reproduce"]

_SCHEMA = 1
_PROTOCOL = 2
"""Raised whenever what is sampled changes, so that stored parts of an older way are not taken for today's."""


@dataclass(frozen=True)
class Reproduction:
    """What a run gave.

    Attributes
    ----------
    folder : Path
        Where everything was written.
    results : dict
        Plain data: ``studies`` by name, ``timing``, ``claims``, and what they were made with.
    """

    folder: Path
    results: dict[str, Any]

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The paper's claims, each with what was measured and a verdict."""
        return list(self.results["claims"])

    def __str__(self) -> str:
        return summary(self.results)


def reproduce(
    names: str | list[str] | tuple[str, ...] = "all",
    *,
    data_home: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] = "reproduction",
    quick: bool = False,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool = False,
) -> Reproduction:
    """Run the paper's experiments, in its own protocol and in one that is close to practice.

    A run that was stopped goes on where it was, and one that has been run before only makes anew what has changed.

    Parameters
    ----------
    names : str or list of str, default="all"
        "heart", "census", "parkinson", "dota2", "synthetic", "timing", or "all".
    data_home : path, optional
        Folder of the UCI files; see :mod:`outofcluster.datasets`.
    out : path, default="reproduction"
        Folder for the results; each study has a folder of its own in it.
    quick : bool, default=False
        Fewer fits and draws.
    n_jobs : int, optional
        Workers, as in joblib. The results do not depend on it.
    random_state : int, default=0
        Seed.
    progress : bool, default=False
        Count the fits of all studies in one line of a terminal.

    Returns
    -------
    Reproduction
        The results, and where they were written.

    Examples
    --------
    >>> from outofcluster.reproduction import reproduce
    >>> run = reproduce("heart", data_home="uci", out="results", quick=True)  # doctest: +SKIP
    >>> print(run)  # doctest: +SKIP
    """
    wanted = check_names(names)
    seed = check_integer("random_state", random_state, least=0)
    made_with = {"quick": check_flag("quick", quick), "seed": seed, "versions": versions()}
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
        raise ooc.InputError(f"n_jobs must be None or a whole number other than 0, got {short(n_jobs)}.")
    check_matplotlib()
    efforts = {name: STUDIES[name].quick if quick else STUDIES[name].full for name in wanted if name != TIMING}
    # Data come before the folder, so that data that are not there leave no folder behind.
    bunches = {name: None if name == "synthetic" else load(name, data_home) for name in efforts}
    folder = make_folder(Path(out).expanduser())
    check_destination("out", folder / "results.json")
    total = sum(STUDIES[name].n_fits(effort) for name, effort in efforts.items())
    results: dict[str, Any] = {"schema": _SCHEMA, **made_with, "studies": {}, "timing": None}
    with one_thread(), Progress(total, show=check_flag("progress", progress)) as bar:
        for name in wanted:
            study_folder, bunch = make_folder(folder / name), bunches.pop(name, None)
            parts = Parts(study_folder / "parts", _common(name, bunch, seed), bar)
            if name == TIMING:
                results["timing"] = plain(run_timing(parts, quick=quick, seed=seed) | made_with)
                write_timing(study_folder, results["timing"])
            else:
                source = Source(STUDIES[name], bunch, parts, n_jobs)
                study = _study(source, efforts[name], data_home, made_with)
                results["studies"][name] = plain(study)
                write_study(study_folder, results["studies"][name])
    results = plain(results | {"claims": judge(results["studies"], results["timing"])})
    write_overall(folder, results)
    return Reproduction(folder, results)


def _common(name: str, bunch: Bunch | None, seed: int) -> dict[str, Any]:
    """What all parts of a study depend on."""
    names = ("data", "target", "groups", "train_groups", "validation_groups")
    data = None if bunch is None else digest([getattr(bunch, name) for name in names])
    made_by = {"version": versions()["outofcluster"], "protocol": _PROTOCOL}
    return made_by | {"study": name, "leakage": LEAKAGE, "seed": seed, "data": data}


def _study(source: Source, effort: Effort, data_home: Any, made_with: dict[str, Any]) -> dict[str, Any]:
    study, bunch, seed = source.study, source.bunch, made_with["seed"]
    true_curve = truth(source, effort, seed)
    paper = list(trials(source, effort, seed, float(true_curve.means[0])))
    field = list(field_draws(source, effort, seed))
    test = run_tests(source, effort, seed)
    checks = run_checks(source, effort, data_home, seed)
    records = None
    if bunch is not None:
        records = {"train": len(bunch.train_rows), "validation": len(bunch.validation_rows)}
    keys = ("n", "levels", "trend_penalty", "sketch_penalty", "degree", "groups")
    return {
        "name": study.name,
        "title": study.title,
        "cluster": study.cluster,
        "unit": study.unit,
        **made_with,
        "leakage": LEAKAGE,
        "learner": LEARNERS[study.loss],
        "records": records,
        "parameters": {key: getattr(study, key) for key in keys} | {"effort": effort, "paper_t": study.full.fits},
        "protocols": {"paper": paper_results(study, true_curve, paper), "field": field_results(study, field)},
        "test": test,
        "checks": checks,
    }

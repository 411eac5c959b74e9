"""``reproduce``: check everything, then run study after study, and write what each gives as soon as it is there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.validation import check_flag, check_integer
from outofcluster.datasets import Bunch
from outofcluster.reproduction.checks import field_shape, paper_shape, run_checks, run_tests, true_shape
from outofcluster.reproduction.claims import judge
from outofcluster.reproduction.field import run_field
from outofcluster.reproduction.figures import check_matplotlib
from outofcluster.reproduction.outputs import write_overall, write_study, write_timing
from outofcluster.reproduction.paper import run_paper
from outofcluster.reproduction.parameters import LEAKAGE, PROTOCOL, STUDIES, TIMING, Effort, Study, check_names
from outofcluster.reproduction.progress import Reporter
from outofcluster.reproduction.records import LEARNERS, data_digest, load
from outofcluster.reproduction.results import field_results, fitted_curves, paper_results
from outofcluster.reproduction.store import Store, make_folder, remove_empty
from outofcluster.reproduction.timing import run_timing
from outofcluster.reproduction.versions import versions

__all__ = ["Reproduction", "reproduce"]

_SCHEMA = 1


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
        from outofcluster.reproduction.summary import summary

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
        Write a line on standard error for every part that is finished.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> from outofcluster.reproduction import reproduce
    >>> found = reproduce("heart", data_home="uci", out="results", quick=True)  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    """
    wanted = check_names(names)
    small = check_flag("quick", quick)
    seed = check_integer("random_state", random_state, least=0)
    if n_jobs is not None and check_integer("n_jobs", n_jobs, least=-1024) == 0:
        raise InputError("n_jobs must be None or a whole number other than 0, got 0.")
    check_matplotlib()
    # Data come before the folder, so that data that are not there leave no folder behind.
    bunches = {name: _bunch(name, data_home) for name in wanted if name != TIMING}
    folder = Path(out).expanduser()
    report = Reporter(progress)
    studies: dict[str, Any] = {}
    timing = None
    made = [parent for parent in (*reversed(folder.parents), folder) if not parent.exists()]
    try:
        make_folder(folder)
        for name in wanted:
            report.study(name)
            data = bunches.pop(name, None)
            store = Store(make_folder(folder / name), _common(name, data, seed), report)
            if name == TIMING:
                timing = plain(run_timing(store, quick=small, seed=seed) | _made_with(small, seed))
                write_timing(store.folder, timing)
            else:
                studies[name] = plain(_study(STUDIES[name], data, store, data_home, small, seed, n_jobs))
                write_study(store.folder, studies[name])
            report.line(f"written to {store.folder}")
    finally:
        remove_empty([*made, *(folder / name for name in wanted)])
    results = plain(
        {"schema": _SCHEMA, **_made_with(small, seed), "studies": studies, "timing": timing}
        | {"claims": judge(studies, timing)}
    )
    write_overall(folder, results)
    return Reproduction(folder, results)


def _bunch(name: str, data_home: Any) -> Bunch | None:
    return None if name == "synthetic" else load(name, data_home)


def _common(name: str, bunch: Bunch | None, seed: int) -> dict[str, Any]:
    """What all parts of a study depend on."""
    return {
        "version": versions()["outofcluster"],
        "protocol": PROTOCOL,
        "study": name,
        "leakage": LEAKAGE,
        "seed": seed,
        "data": None if bunch is None else data_digest(bunch),
    }


def _made_with(quick: bool, seed: int) -> dict[str, Any]:
    return {"quick": quick, "seed": seed, "versions": versions()}


def _study(
    study: Study, bunch: Bunch | None, store: Store, data_home: Any, quick: bool, seed: int, n_jobs: int | None
) -> dict[str, Any]:
    effort: Effort = study.quick if quick else study.full
    run = run_paper(study, effort, bunch, store, seed=seed, n_jobs=n_jobs)
    draws = run_field(study, effort, bunch, store, seed=seed, n_jobs=n_jobs)
    test = run_tests(study, effort, bunch, store, seed=seed)
    checks = run_checks(study, effort, bunch, store, data_home, seed=seed, n_jobs=n_jobs)
    paper = paper_results(study, run)
    return {
        "name": study.name,
        "title": study.title,
        "cluster": study.cluster,
        "unit": study.unit,
        **_made_with(quick, seed),
        "seconds": round(store.seconds, 1),
        "leakage": LEAKAGE,
        "learner": LEARNERS[study.loss],
        "records": None
        if bunch is None
        else {"train": len(bunch.train_rows), "validation": len(bunch.validation_rows)},
        "parameters": {
            "n": study.n,
            "levels": study.levels,
            "trend_penalty": study.trend_penalty,
            "sketch_penalty": study.sketch_penalty,
            "degree": study.degree,
            "groups": study.groups,
            "effort": effort,
            "paper_t": study.full.fits,
        },
        "protocols": {
            "paper": paper
            | {"curves": fitted_curves(study, run), "shape": paper_shape(run), "true_shape": true_shape(run)},
            "field": field_results(study, draws) | {"shape": field_shape(draws)},
        },
        "test": test,
        "checks": checks,
    }

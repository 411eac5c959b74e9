"""The paper's parameter table (appendix D), and how much work a full and a quick run put into each study.

A :class:`Study` holds what the paper fixed by hand, an :class:`Effort` what a run may spend. The full effort has the
paper's own m and t; the quick one has fewer fits and draws, and nothing else differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outofcluster._base.exceptions import InputError

__all__ = ["ALL", "LEAKAGE", "PROTOCOL", "STUDIES", "TIMING", "TRUE_LEVELS", "Effort", "Study", "check_names"]

LEAKAGE = 0.1
"""The paper's leakage rate p0, in every study."""

TRUE_LEVELS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.7, 0.85, 1.0)
"""Levels at which the true curve is measured."""

PROTOCOL = 1
"""Raised whenever what is sampled changes, so that stored parts of an older way are not taken for today's."""

TIMING = "timing"


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
        Random splits behind the estimate that ignores clusters, 300 fits each.
    draws : int
        Draws of which records leak, in the field protocol.
    field_fits : int
        Fits in each such draw for the paper's estimators together, and as many for the default.
    field_truth_fits : int
        Fits for the true loss of the field protocol: in each draw where the data differ between draws, else once.
    tests : int
        Times that the hypothesis test deals its folds anew.
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
    n, levels : int
        Training records of a replicate (n), and levels of leakage (m), equidistant from p0 to 1.
    trend_penalty, sketch_penalty : float
        The penalties of T4+mono and of the sketch.
    degree, groups : int
        Degree s of the basis, and number k of the sketch's groups.
    loss, unit : str
        The loss, and its unit in words.
    full, quick : Effort
        What a run spends.
    field_train : int or None
        Records of the training clusters that a user of the field protocol has, drawn anew each time; None for all.
    """

    name: str
    title: str
    cluster: str
    n: int
    levels: int
    trend_penalty: float
    sketch_penalty: float
    degree: int
    groups: int
    full: Effort
    quick: Effort
    loss: str = "zero_one"
    unit: str = "share of records misclassified"
    field_train: int | None = None


_FULL = Effort(
    trials=10,
    fits=1000,
    default_fits=200_000,
    truth_fits=200_000,
    curve_fits=20_000,
    iid_splits=5,
    draws=100,
    field_fits=10_000,
    field_truth_fits=50_000,
    tests=50,
    check_fits=1500,
)
"""What a full run spends on the heart data, m = 200 levels of t = 1000 fits."""

_QUICK = Effort(
    trials=10,
    fits=100,
    default_fits=20_000,
    truth_fits=40_000,
    curve_fits=4_000,
    iid_splits=1,
    draws=5,
    field_fits=4_000,
    field_truth_fits=10_000,
    tests=5,
    check_fits=0,
)

STUDIES = {
    study.name: study
    for study in (
        Study(
            name="heart",
            title="Heart disease",
            cluster="hospital",
            n=100,
            levels=200,
            trend_penalty=10,
            sketch_penalty=0.1,
            degree=7,
            groups=7,
            full=_FULL,
            quick=_QUICK,
        ),
        Study(
            name="census",
            title="1994 US census",
            cluster="country of birth",
            n=100,
            levels=200,
            trend_penalty=10,
            sketch_penalty=0.1,
            degree=7,
            groups=7,
            # The default has a tenth of the fits that the paper's levels have.
            full=replace(_FULL, fits=10_000, field_truth_fits=5_000),
            quick=replace(_QUICK, field_truth_fits=2_000),
            # The 221 validation records cannot make up a tenth of 30,000.
            field_train=600,
        ),
        Study(
            name="parkinson",
            title="Parkinson's speech",
            cluster="subject",
            n=100,
            levels=20,
            trend_penalty=1000,
            sketch_penalty=0.1,
            degree=2,
            groups=7,
            full=replace(_FULL, fits=10_000),
            quick=replace(_QUICK, fits=1000),
        ),
        Study(
            name="dota2",
            title="Dota 2",
            cluster="type of game",
            n=100,
            levels=20,
            trend_penalty=1000,
            sketch_penalty=0.1,
            degree=2,
            groups=7,
            # A fit takes a hundred times as long as in the other studies: it is scored on 35,000 records.
            full=replace(
                _FULL,
                default_fits=10_000,
                truth_fits=20_000,
                curve_fits=2_000,
                iid_splits=1,
                draws=50,
                field_fits=1_000,
                field_truth_fits=10_000,
                tests=10,
                check_fits=4_000,
            ),
            quick=replace(
                _QUICK,
                trials=5,
                fits=40,
                default_fits=800,
                truth_fits=1_500,
                curve_fits=300,
                field_fits=400,
                field_truth_fits=800,
                tests=3,
            ),
        ),
        Study(
            name="synthetic",
            title="Synthetic study",
            cluster="part",
            n=15,
            levels=30,
            trend_penalty=0.1,
            sketch_penalty=0.01,
            degree=7,
            groups=10,
            # The truth is known, and fits cost next to nothing.
            full=replace(
                _FULL,
                default_fits=30_000,
                truth_fits=0,
                curve_fits=0,
                iid_splits=1,
                field_truth_fits=5_000,
                check_fits=0,
            ),
            quick=replace(_QUICK, fits=1000, default_fits=30_000, truth_fits=0, curve_fits=0, field_truth_fits=2_000),
            loss="squared_error",
            unit="squared error",
            field_train=150,
        ),
    )
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
    given = (names,) if isinstance(names, str) else tuple(names)
    allowed = (*ALL, "all")
    for name in given:
        if name not in allowed:
            raise InputError(f"names must hold {', '.join(allowed[:-1])} or {allowed[-1]}, got {name!r}.")
    if not given:
        raise InputError(f"names must hold {', '.join(allowed[:-1])} or {allowed[-1]}, got none.")
    return ALL if "all" in given else tuple(name for name in ALL if name in given)

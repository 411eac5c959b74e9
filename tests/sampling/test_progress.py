"""The progress bar: there for people, silent otherwise."""

import io
import re
import sys
import time
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from outofcluster.sampling.progress import Progress, TimeLeft


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def last_line(self):
        """The last state of the bar, without colours and movements of the cursor."""
        return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", self.getvalue()).replace("\r", "\n").strip().split("\n")[-1]


@pytest.fixture(autouse=True)
def terminal_of_a_fixed_kind(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")


def test_shows_the_fits_and_the_time_that_is_left():
    terminal, clock = Terminal(), [0.0]
    with Progress(1_000, stream=terminal, clock=lambda: clock[0]) as progress:
        part = progress.part()
        part.skip(200)
        for _ in range(5):
            clock[0] += 8
            part.add(80)
        progress.say("optimism 0.03")
    assert progress.done == 600
    assert re.sub(r"^\S+ +", "", terminal.last_line).rstrip() == "600/1,000 fits about 40 seconds left optimism 0.03"


@pytest.mark.parametrize(("terminal", "show"), [(True, True), (False, True), (True, False)])
def test_writes_on_a_terminal_only(terminal, show):
    stream = Terminal() if terminal else io.StringIO()
    with Progress(10, show=show, stream=stream) as progress:
        progress.part().add(10)
    assert bool(stream.getvalue()) is (terminal and show)


def test_a_notebook_keeps_the_notes_and_the_last_line(monkeypatch):
    class ZMQInteractiveShell:
        pass

    class Cell:
        """What IPython's display gives: an output whose content can be replaced."""

        outputs: ClassVar = []

        def __init__(self, content, *, raw, display_id):
            self.content = content["text/plain"]
            self.outputs.append(self)

        def update(self, content, *, raw):
            self.content = content["text/plain"]

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=Cell))
    cell = io.StringIO()
    with Progress(300, stream=cell) as progress:
        part = progress.part()
        progress.note("Model: a line.")
        for _ in range(300):
            part.add(1)
        progress.say("optimism 0.03")
    assert [output.content for output in Cell.outputs] == ["Model: a line.\n300/300 fits, optimism 0.03"]
    assert cell.getvalue() == ""


def test_sampling_is_silent_when_nobody_looks(capsys):
    X = np.random.default_rng(0).standard_normal((40, 2))
    ooc.sample_losses(GaussianNB(), X, X[:, 0] > 0, train=range(20), validation=range(20, 40), n_fits=8, progress=True)
    assert capsys.readouterr() == ("", "")


# --- the time that is left ------------------------------------------------------------------------------

# Fits of every kind: their number, the weight that is said beforehand, and the seconds that each takes in truth.
KINDS = {
    "own": (5, 1.0, 1.0),
    "random": (5, 1.0, 1.1),
    "effect": (20, 0.6, 0.3),
    "main": (40, 1.0, 0.8),
    "size 8": (20, 0.3, 0.1),
    "unmixed": (75, 1.0, 0.9),
}


def simulated(workers, loading, kinds=KINDS):
    """For every fit the time that was left when it ended, and what was said: a pool of workers and a clock of its own.

    Each worker takes the next fit once it is free, and results come in order. ``loading`` is what the first fit of
    every worker takes beyond the others. Reading the results costs a tenth of the time of the fits.
    """
    clock = [0.0]
    left = TimeLeft(workers, lambda: clock[0])
    for name, (count, weight, _) in kinds.items():
        left.kind(name, weight).to_come += count
    left.begin()
    free, arrived, ends = [0.0] * workers, 0.0, []
    for name, (count, _, seconds) in kinds.items():
        free = [max(free)] * workers  # A kind begins when the one before it has ended.
        for _ in range(count):
            worker = free.index(min(free))
            took = seconds + (loading if len(ends) < workers else 0.0)
            free[worker] += took
            arrived = max(arrived, free[worker]) + 0.1 * seconds / workers
            ends.append((arrived, name, took))
    for clock[0], name, took in ends:
        left.add(name, 1, took)
        yield arrived - clock[0], left.seconds


@pytest.mark.parametrize("loading", [0.0, 30.0])
@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_time_that_is_left_can_be_believed(workers, loading):
    told = [(left, said) for left, said in simulated(workers, loading) if said is not None]
    assert len(told) >= sum(count for count, *_ in KINDS.values()) - 1
    # As long as all workers load what the model needs, nobody can know how long a fit takes.
    for left, said in told[workers:]:
        assert left / 1.5 - 2 < said < 1.5 * left + 2
    said = np.array([seconds for _, seconds in told[workers:]])
    assert (said[1:] < 1.3 * said[:-1] + 1).all()


def test_a_weight_that_is_wrong_is_soon_forgotten():
    """A kind that takes ten times as long as was thought: the time is right once a few of its fits were made."""
    kinds = {"own": (5, 1.0, 1.0), "main": (100, 1.0, 10.0)}
    told = list(simulated(1, 0.0, kinds))
    left, said = told[5 + 5]
    assert said == pytest.approx(left, rel=0.25)


def test_the_time_runs_down_during_a_fit_but_not_below_that_of_the_others():
    clock = [0.0]
    left = TimeLeft(1, lambda: clock[0])
    left.begin()
    left.kind("own").to_come += 12
    for _ in range(2):
        clock[0] += 10
        left.add("own", 1, 10)
    assert left.seconds == pytest.approx(100)
    clock[0] += 4
    assert left.seconds == pytest.approx(96)
    clock[0] += 60
    assert left.seconds == pytest.approx(90)


# --- of an audit ----------------------------------------------------------------------------------------


def audited(estimator, **options):
    X = np.random.default_rng(0).standard_normal((200, 2))
    groups = np.repeat(np.arange(20), 10)
    given = {"error_model": "records", "random_state": 0, "progress": True}
    return ooc.audit(estimator, X, X[:, 0], groups=groups, **given | options)


def as_terminal(monkeypatch):
    """Standard error as a terminal; pytest has its own between a fixture and a test."""
    monkeypatch.setattr("sys.stderr", made := Terminal())
    return made


def test_an_audit_has_one_bar_for_all_fits(monkeypatch, capsys):
    terminal = as_terminal(monkeypatch)
    result = audited(Ridge(), n_fits=500, unmix=False)
    assert f"{result.cost.fits}/{result.cost.fits} fits" in terminal.last_line
    assert f"optimism {result.optimism.value:.3f}" in terminal.last_line
    assert capsys.readouterr().out == ""


class Watched(Ridge):
    """A model that takes a known time, and looks at the screen when it is fitted."""

    terminal, seen = None, []

    def fit(self, X, y):
        type(self).seen.append((time.monotonic(), type(self).terminal.last_line))
        time.sleep(0.02)
        return super().fit(X, y)


def test_the_bar_is_there_before_the_first_fit_and_its_time_can_be_believed(monkeypatch):
    monkeypatch.setattr(Watched, "terminal", as_terminal(monkeypatch))
    monkeypatch.setattr(Watched, "seen", [])
    # In hundredths, so that a short audit has times that are written in numbers.
    monkeypatch.setattr("outofcluster.sampling.progress.time_in_words", lambda seconds: f"{seconds:.2f} seconds")
    result = audited(Watched(), n_fits=80, unmix=False)
    ended = time.monotonic()
    (_, first), *later = Watched.seen
    assert "your own models" in first
    assert len(Watched.seen) == result.cost.fits
    told = [(ended - at, re.search(r"([\d.]+) seconds left", line)) for at, line in later]
    assert sum(said is not None for _, said in told) > 0.9 * len(told)
    for left, said in told:
        assert said is None or left / 2 - 0.2 < float(said[1]) < 2 * left + 0.2


def test_what_is_about_to_be_fitted_is_said_where_nobody_watches_too(capsys):
    result = audited(Ridge(), unmix=False)
    said, took = capsys.readouterr().err.splitlines()
    first_round = audited(Ridge(), unmix=False, time_limit=1e-9, progress=False)
    fits, times = first_round.cost.fits, first_round.cost.cross_validations
    words = f"At least {fits} models will be fitted, as many as in {times:.0f} cross-validations; rounds follow until "
    assert said == f"Model: ridge regression. {words}more of them would hardly help."
    assert took == "They take some seconds."
    assert result.cost.fits >= fits
    fixed = audited(Ridge(), unmix=False, n_fits=120)
    assert f"Model: ridge regression. {fixed.cost.fits} models will be fitted, as many as" in capsys.readouterr().err


def test_nothing_stays_of_a_bar_where_the_input_is_refused(monkeypatch):
    terminal = as_terminal(monkeypatch)
    with pytest.raises(ooc.InputError, match="n_fits must be a whole number at least 40"):
        audited(NeverFitted(), n_fits=10)
    shown = terminal.getvalue()
    # The line is erased, and the cursor is where it was.
    assert shown.endswith("\x1b[?25h") or shown.rstrip().endswith("\x1b[2K")
    assert "fitted" not in shown


class NeverFitted(Ridge):
    def fit(self, X, y):
        raise AssertionError("a model was fitted")


@pytest.mark.slow
def test_a_bar_without_rich_is_refused_before_any_fit(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr("sys.stderr", Terminal())
    with pytest.raises(ooc.MissingExtraError, match=r"progress=True needs rich: pip install 'outofcluster\[cli\]'"):
        audited(NeverFitted())
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with pytest.raises(Exception, match="a model was fitted"):
        audited(NeverFitted())

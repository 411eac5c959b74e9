"""The progress bar: there for people, silent otherwise."""

import io
import re
import sys

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from outofcluster.sampling.progress import Progress


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


def test_shows_rate_and_remaining_time():
    terminal = Terminal()
    with Progress(1_000, stream=terminal) as progress:
        clock = [0.0]
        progress._bar.get_time = lambda: clock[0]
        for task in progress._bar.tasks:
            task._get_time = progress._bar.get_time
        progress.skip(200)
        for _ in range(5):
            clock[0] += 1
            progress.add(80)
    assert progress.done == 600
    assert re.sub(r"^\S+ +", "", terminal.last_line) == "60% 600/1,000 fits 80/s 0:00:05 left"


@pytest.mark.parametrize(("terminal", "show"), [(True, True), (False, True), (True, False)])
def test_writes_on_a_terminal_only(terminal, show):
    stream = Terminal() if terminal else io.StringIO()
    with Progress(10, show=show, stream=stream) as progress:
        progress.add(10)
    assert bool(stream.getvalue()) is (terminal and show)


def test_writes_in_a_notebook(monkeypatch):
    class ZMQInteractiveShell:
        pass

    class IPython:
        get_ipython = ZMQInteractiveShell

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    cell = io.StringIO()
    with Progress(10, stream=cell) as progress:
        progress.add(10)
    assert "10/10 fits" in cell.getvalue()


def test_sampling_is_silent_when_nobody_looks(capsys):
    X = np.random.default_rng(0).standard_normal((40, 2))
    ooc.sample_losses(GaussianNB(), X, X[:, 0] > 0, train=range(20), validation=range(20, 40), n_fits=8, progress=True)
    assert capsys.readouterr() == ("", "")


def audited(estimator):
    X = np.random.default_rng(0).standard_normal((200, 2))
    groups = np.repeat(np.arange(20), 10)
    return ooc.audit(estimator, X, X[:, 0], groups=groups, n_fits=500, error_model="records", progress=True)


def test_an_audit_has_one_bar_for_all_folds(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    audited(Ridge())
    assert terminal.getvalue().count("\n") == 1
    assert "500/500 fits" in terminal.last_line
    assert capsys.readouterr().out == ""


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

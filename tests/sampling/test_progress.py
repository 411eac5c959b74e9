"""The progress bar: there for people, silent otherwise."""

import io

import numpy as np
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from outofcluster.sampling.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_shows_rate_and_remaining_time():
    progress = Progress(1000, stream=Terminal())
    progress.found(200)
    progress.done = 600
    assert progress.line(4.0).split() == ["█" * 18 + "·" * 12, "60%", "600/1,000", "fits", "100/s", "00:04", "left"]
    progress.done = 201
    assert "2:13:10 left" in Progress.line(progress, 10.0)


def test_writes_on_a_terminal_only():
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        progress = Progress(10, stream=stream)
        progress.add(10)
        progress.close()
        assert bool(stream.getvalue()) is shown
    quiet = Terminal()
    Progress(10, show=False, stream=quiet).add(10)
    assert not quiet.getvalue()


def test_sampling_is_silent_when_nobody_looks(capsys):
    X = np.random.default_rng(0).standard_normal((40, 2))
    ooc.sample_losses(GaussianNB(), X, X[:, 0] > 0, train=range(20), validation=range(20, 40), n_fits=8, progress=True)
    assert capsys.readouterr() == ("", "")


def test_an_audit_has_one_bar_for_all_folds(monkeypatch):
    from sklearn.linear_model import Ridge

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    ooc.audit(
        Ridge(), X, X[:, 0], groups=np.repeat(np.arange(20), 10), n_fits=500, error_model="records", progress=True
    )
    assert terminal.getvalue().count("\n") == 1
    assert "500/500 fits" in terminal.getvalue().split("\r")[-1]

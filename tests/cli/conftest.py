"""A table of visits, a command that runs in this process, and one audit that many tests show and write."""

import sys

import numpy as np
import pandas as pd
import pytest

import outofcluster.cli.audit as audit_command
from outofcluster.cli import main

PLAIN = ("--target", "ill", "--groups", "patient")


def visits(n=30, each=3):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(n), each)
    u = rng.standard_normal((n, 2))
    return pd.DataFrame(
        {
            "age": u[patient, 0] + 0.3 * rng.standard_normal(n * each),
            "dose": rng.standard_normal(n * each),
            "patient": patient,
            "ill": np.where(u[patient, 0] + u[patient, 1] > 0, "yes", "no"),
        }
    )


@pytest.fixture
def frame():
    return visits()


@pytest.fixture
def folder(monkeypatch, tmp_path, frame):
    """A folder of its own with records.csv, and a cache inside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    frame.to_csv(tmp_path / "records.csv", index=False)
    return tmp_path


@pytest.fixture
def main_of(monkeypatch, capsys):
    """Run a command; gives exit status, standard output, standard error."""

    def get(*words):
        monkeypatch.setattr(sys, "argv", ["outofcluster", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return get


@pytest.fixture
def run(folder, main_of):
    return main_of


@pytest.fixture(scope="session")
def audited(tmp_path_factory):
    """What the command has fitted for records.csv at a rate of 10 %."""
    kept = []
    real = audit_command._audit
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("audited"))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(audit_command, "_audit", lambda *given: kept.append(real(*given)) or kept[0])
        visits().to_csv("records.csv", index=False)
        words = ("audit", "records.csv", *PLAIN, "--leakage", "0.1", "--leakage-std", "0.02", "--fits", "60")
        patch.setattr(sys, "argv", ["outofcluster", *words, "--folds", "3", "--json", "out.json"])
        with pytest.raises(SystemExit):
            main()
    return kept[0]


@pytest.fixture
def shown(monkeypatch, audited, run):
    """Run the audit with other options, and without a fit."""
    monkeypatch.setattr(audit_command, "_audit", lambda *_: audited)
    return lambda *words: run("audit", "records.csv", *PLAIN, *words)

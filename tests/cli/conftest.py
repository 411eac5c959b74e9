"""A table of visits, a command that runs in this process, and one audit that many tests show and write."""

import contextlib
import io
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import outofcluster as ooc
import outofcluster.auditing.run
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
    """One audit by the command, with a report: its result, the arguments of `audit`, what was said, and its folder."""
    calls = []
    real = ooc.auditing.run.audit

    def audit(*arguments, **options):
        calls.append((arguments, options, real(*arguments, **options)))
        return calls[0][2]

    folder, out, err = tmp_path_factory.mktemp("audited"), io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr("outofcluster.auditing.run.audit", audit)
        visits().to_csv("records.csv", index=False)
        words = ("audit", "records.csv", *PLAIN, "--leakage", "10%", "--leakage-std", "0.02", "--fits", "60")
        words += ("--folds", "3", "--seed", "3", "--json", "out.json", "--report", "out.html")
        patch.setattr(sys, "argv", ["outofcluster", *words])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as left:
            main()
    arguments, options, result = calls[0]
    return SimpleNamespace(
        status=left.value.code,
        out=out.getvalue(),
        err=err.getvalue(),
        folder=folder,
        arguments=arguments,
        options=options,
        result=result.at_leakage(ooc.Leakage(0.1, 0.02, "validation")),
    )


@pytest.fixture
def shown(monkeypatch, audited, run):
    """Run the audit with other options, and without a fit."""
    monkeypatch.setattr(audit_command, "_audit", lambda *_: audited.result)
    return lambda *words: run("audit", "records.csv", *PLAIN, *words)

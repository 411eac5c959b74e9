"""The command line as a whole: help, commands, and how it ends."""

import os
import re
import subprocess
import sys

import pytest

import outofcluster as ooc
import outofcluster.cli.audit as audit_command
import outofcluster.cli.options as options
from outofcluster.cli import COMMANDS

QUICK = ("audit", "records.csv", "--target", "ill", "--groups", "patient")
SHORT = ["", "demo", "test", "audit", "leakage", "leakage audited", "leakage pairs", "leakage precision-recall"]


def shell(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment)


@pytest.mark.parametrize("columns", ["80", "100"])
@pytest.mark.parametrize("command", SHORT)
def test_help_fits_a_screen(main_of, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", columns)
    status, out, err = main_of(*command.split(), "-h")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) <= 40
    assert max(map(len, out.splitlines())) <= 100


def test_help_tells_where_to_start(main_of):
    _, out, _ = main_of("--help")
    for words in ("outofcluster demo", "_OUTOFCLUSTER_COMPLETE=bash_source", "130  stopped, by Ctrl-C"):
        assert words in out
    for name in COMMANDS:
        assert re.search(rf"^  {name}  +[A-Z]", out, re.MULTILINE)
        assert main_of(name, "--help")[0] == 0
    assert main_of("--version")[1] == f"outofcluster, version {ooc.__version__}\n"


def test_help_names_what_an_option_is_without_it(main_of):
    said = " ".join(main_of("audit", "--help")[1].split())
    for words in (
        "Models to fit. [as many as --precision takes]",
        "Exit 1 from note, warning, severe or never. [severe]",
        "Folds of the cross-validation. [default: 5]",
    ):
        assert words in said
    assert "--errors" not in said


@pytest.mark.slow
def test_shell_completion():
    code = "from outofcluster.cli import main; main()"
    assert "_OUTOFCLUSTER_COMPLETE=bash_complete" in shell(code, _OUTOFCLUSTER_COMPLETE="bash_source").stdout
    words = {"COMP_WORDS": "outofcluster au", "COMP_CWORD": "1"}
    assert "audit" in shell(code, _OUTOFCLUSTER_COMPLETE="bash_complete", **words).stdout


@pytest.mark.slow
def test_without_its_extra_the_command_line_says_so():
    done = shell("import sys; sys.modules['click'] = None; from outofcluster.cli import main; main()")
    assert done.returncode == 2
    assert done.stderr == "outofcluster: the command line needs click and rich: pip install 'outofcluster[cli]'.\n"


def test_a_crash_is_one_line_and_exit_3(run, monkeypatch):
    def crash(*_):
        raise ZeroDivisionError("nobody\nthought of this \x1b[31m")

    monkeypatch.setattr(audit_command, "_audit", crash)
    status, out, err = run(*QUICK)
    assert (status, out) == (3, "")
    assert err == (
        "outofcluster: stopped by an error of the program, ZeroDivisionError: nobody thought of this . "
        "Set OUTOFCLUSTER_TRACEBACK=1 to see where.\n"
    )
    monkeypatch.setenv("OUTOFCLUSTER_TRACEBACK", "1")
    assert run(*QUICK)[2].startswith("Traceback (most recent call last):")


def test_stopped_is_130_wherever_it_happens(run, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(options, "read_records", stop)
    status, _, err = run(*QUICK)
    assert status == 130
    assert err.split("\n")[-2] == "outofcluster: Stopped."


def test_words_that_are_no_option_are_bad_input(run):
    for words in (("audit",), (*QUICK, "--nonsense"), (*QUICK, "--folds", "many"), (*QUICK, "--errors", "records")):
        status, out, err = run(*words)
        assert (status, out) == (2, "")
        assert "Traceback" not in err
    for name, meant in {"aduit": "; did you mean 'audit'?", "rate": "; did you mean 'leakage'?"}.items():
        assert f"No such command {name!r}{meant}" in run(name)[2]
    assert "(there are: demo, test, audit, show, sweep, leakage, reproduce)." in " ".join(run("zzzzz")[2].split())

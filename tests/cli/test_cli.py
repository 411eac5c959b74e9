"""The command line as a user meets it: help, the demonstration, a missing extra."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

import outofcluster as ooc
from outofcluster.auditing.summary import Summary
from outofcluster.cli import main
from outofcluster.cli.demonstration import run_demo

COMMANDS = ["demo", "test", "audit", "leakage", "leakage audited", "leakage pairs", "leakage precision-recall"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run in a folder of its own; gives exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def get(*words):
        monkeypatch.setattr(sys, "argv", ["outofcluster", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return get


def shell(*words, **environment):
    command = [sys.executable, "-c", "from outofcluster.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


@pytest.mark.parametrize("columns", ["80", "100"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_screen(run, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", columns)
    status, out, err = run(*command.split(), "--help")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) <= 40
    assert max(map(len, out.splitlines())) <= 100
    assert out == run(*command.split(), "-h")[1]


def test_help_tells_where_to_start(run):
    _, out, _ = run("--help")
    for words in ("outofcluster demo", "_OUTOFCLUSTER_COMPLETE=bash_source", "130  stopped, by Ctrl-C"):
        assert words in out
    for name in ("demo", "test", "audit", "leakage"):
        assert re.search(rf"^  {name}  +[A-Z]", out, re.M)
    assert run("--version")[1] == f"outofcluster, version {ooc.__version__}\n"


def test_every_command_is_in_the_help_and_can_be_found(run):
    from outofcluster.cli import COMMANDS as known

    for name in known:
        assert run(name, "--help")[0] == 0


@pytest.mark.slow
def test_shell_completion():
    done = shell("", _OUTOFCLUSTER_COMPLETE="bash_source")
    assert "_OUTOFCLUSTER_COMPLETE=bash_complete" in done.stdout
    found = shell("", _OUTOFCLUSTER_COMPLETE="bash_complete", COMP_WORDS="outofcluster au", COMP_CWORD="1")
    assert "audit" in found.stdout


def test_without_its_extra_the_command_line_says_so():
    code = "import sys; sys.modules['click'] = None; from outofcluster.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "outofcluster: the command line needs click and rich: pip install 'outofcluster[cli]'.\n"


# --- the demonstration --------------------------------------------------------------------------------


def test_demo_tells_the_whole_story(run, tmp_path):
    status, out, err = run("demo", "--json", "demo.json")
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "demo.json").read_text())
    summary = Summary.from_dict(numbers)
    said = " ".join(out.split())
    for words in (
        "The linkage left",
        "150 patients were looked up by hand",
        "so it counts 1,0",
        f"shows {100 * summary.naive.value:.1f} % wrong predictions",
        summary.headline,
        f"the truth {numbers['truth']:.4f}",
        f"{summary.corrected.interval[0]:.4f} to {summary.corrected.interval[1]:.4f}",
        "A cluster effect was found",
        f"optimism {summary.optimism.value:.4f} {summary.optimism.interval[0]:.4f} to",
        "The interval of the corrected loss contains the truth",
        "The report is in report.html",
    ):
        assert words in said, words
    # The story is honest and clear: the score is inflated beyond its own interval, the correction is not.
    assert summary.naive.interval[1] < numbers["truth"]
    assert numbers["covered"]
    assert summary.corrected.interval[0] <= numbers["truth"] <= summary.corrected.interval[1]
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert summary.headline in report
    assert f"{numbers['truth']:.4f}, of models without leaked records" in report
    assert len(report.encode()) < 200_000
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.slow
def test_demo_explains_what_its_answer_rests_on(run):
    status, out, err = run("demo", "--fits", "60", "--explain")
    assert (status, err) == (0, "")
    assert "see --explain" not in out
    assert "Note " in out


@pytest.mark.slow
def test_demo_on_the_screen_as_json_and_by_seed(run, tmp_path):
    status, out, err = run("demo", "--json", "-", "--fits", "60", "--seed", "1", "--report", "x.html")
    assert status == 0
    demo = run_demo(n_fits=60, seed=1)
    assert json.loads(out) == demo.to_dict()
    assert re.search(rf"the truth +{demo.truth:.4f}", err)
    assert (tmp_path / "x.html").exists()
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("demo", "--seed", "-1"), "outofcluster: seed must be a whole number at least 0, got -1."),
        (("demo", "--fits", "5"), "outofcluster: --fits must be a whole number at least 60, got 5."),
        (("demo", "--fits", "many"), "'many' is not a valid integer"),
        (("demo", "--report", "no/where.html"), "--report must lie in a folder that exists, got 'no/where.html'."),
        (("demo", "--json", "no/where.json"), "--json must lie in a folder that exists, got 'no/where.json'."),
        (("dmeo",), "No such command 'dmeo'; did you mean 'demo'?"),
    ],
)
def test_bad_input_exits_with_2_and_one_sentence(run, monkeypatch, words, message):
    monkeypatch.setattr("outofcluster.cli.demonstration.make_patients", lambda *_, **__: pytest.fail("work was begun"))
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_demo_takes_less_than_twenty_seconds_the_first_time(tmp_path):
    start = time.monotonic()
    command = [sys.executable, "-c", "from outofcluster.cli import main; main()", "demo"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start < 20


@pytest.mark.slow
def test_demo_covers_the_truth_for_most_seeds():
    demos = [run_demo(seed=seed) for seed in range(20)]
    assert sum(demo.covered for demo in demos) >= 17
    assert sum(demo.audit.naive.interval[1] < demo.truth for demo in demos) >= 12
    closer = [abs(d.audit.corrected.value - d.truth) < abs(d.audit.naive.value - d.truth) for d in demos]
    assert sum(closer) >= 17

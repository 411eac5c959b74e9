"""The command line, as a user runs it."""

import json
import subprocess
import sys

import pytest


def run(*words):
    command = [sys.executable, "-c", "from outofcluster.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_demo_shows_the_truth_beside_the_estimates():
    result = run("demo")
    assert result.returncode == 0, result.stderr
    for word in ("cross-validated loss", "completely monotone", "trend filter", "the truth", "0.3200", "Decreasing"):
        assert word in result.stdout


def test_demo_as_json():
    answer = json.loads(run("demo", "--json", "--seed", "3", "--n-train", "1000").stdout)
    assert answer["truth"] == pytest.approx(0.32)
    assert answer["naive"] < 0.3
    errors = {row["method"]: abs(row["error"]) for row in answer["estimates"]}
    assert errors["completely monotone"] < abs(answer["naive_error"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("demo", "--leakage", "0.9"), "outofcluster: leakage must be at most 0.5, got 0.9."),
        (("demo", "--leakage", "-1"), "outofcluster: leakage must be a finite number above 0, got -1."),
        (("demo", "--n-train", "3"), "outofcluster: n_train must be a whole number at least 12, got 3."),
        (("demo", "--fits", "many"), "'many' is not a valid integer"),
        (("dmeo",), "No such command 'dmeo'"),
    ],
)
def test_bad_input_exits_with_2_and_one_sentence(words, message):
    result = run(*words)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_without_its_extra_the_command_line_says_so():
    code = "import sys; sys.modules['click'] = None; from outofcluster.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "outofcluster: the command line needs click and rich: pip install 'outofcluster[cli]'.\n"

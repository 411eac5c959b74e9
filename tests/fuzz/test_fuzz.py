"""A fixed sample of odd calls and commands; ``python benchmarks/fuzz.py --cases 20000`` makes many more."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import outofcluster as ooc
from _fuzz_calls import Case, curve_case, draw_case
from _fuzz_cli import draw_command
from fuzz import Outcome, judge, run, run_case


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_calls(first):
    """A hundred calls at a time, so that processes share them."""
    counts, broken = run(0, 100, draw_case, first=first, show=False)
    assert not broken
    assert counts["fine"] > 5
    assert counts["refused"] > 10


@pytest.mark.slow
def test_commands():
    counts, broken = run(0, 60, draw_command, show=False)
    assert not broken
    assert counts["fine"] == 60


def test_curves_keep_the_rule():
    counts, broken = run(1, 60, curve_case, show=False)
    assert not broken
    assert counts["fine"] > 5


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: 0.5, "fine"),
        (lambda: _raise(ooc.InputError("p must be positive, got -1.")), "refused"),
        (lambda: _raise(ooc.InputError("first\nsecond")), "refused"),
        (lambda: _raise(ValueError("of another package")), "foreign"),
        (lambda: _raise(ooc.InputError("x" * 2000)), "long"),
        (lambda: float("nan"), "not finite"),
        (lambda: np.array([1.0, np.inf]), "not finite"),
        (lambda: ooc.Estimate(0.5, (0.4, np.nan), 0.1, 0.1), "not finite"),
    ],
)
def test_the_judge_tells_them_apart(call, kind):
    assert judge(call).kind == kind


def test_the_judge_sees_changed_arguments_and_files(tmp_path, monkeypatch):
    def changes(rng):
        values = np.zeros(3)
        return Case("changes", lambda: values.__setitem__(0, 1.0), {"values": values})

    def writes(rng):
        return Case("writes", lambda: open("there", "w").close(), files=("elsewhere",))

    def asks(rng):
        table = pd.DataFrame({"matrix": [sparse.csr_matrix(np.eye(3)[::-1])]})
        return Case("asks", lambda: table["matrix"][0].has_canonical_format, {"table": table})

    def sorts(rng):
        matrix = sparse.csr_matrix((np.ones(2), [1, 0], [0, 2]), shape=(1, 2))
        return Case("sorts", matrix.sort_indices, {"matrix": matrix})

    monkeypatch.chdir(tmp_path)
    assert run_case(0, 0, asks)[1] == Outcome("fine")
    assert run_case(0, 0, sorts)[1] == Outcome("changed", "matrix")
    assert run_case(0, 0, changes)[1] == Outcome("changed", "values")
    assert run_case(0, 0, writes)[1] == Outcome("file", "there")
    assert not list(tmp_path.iterdir())

"""The paper's objectives as one would write them for a general solver, to time ours against; cvxpy is optional."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from outofcluster._base.validation import Array

__all__ = ["solve_trend", "solver"]


def solver() -> Any:
    """The module cvxpy, or None where it is not installed."""
    try:
        return importlib.import_module("cvxpy")
    except ImportError:
        return None


def solve_trend(cp: Any, A: Any, b: Array, order: int, penalty: float) -> tuple[str, float | None]:
    """Minimise ‖Ax - b‖ + λ‖D_k x‖ over decreasing x ≥ 0: cvxpy's status, and x_0."""
    x = cp.Variable(A.shape[1])
    objective = cp.norm(A @ x - b, 2) + penalty * cp.norm(cp.diff(x, order), 2)
    problem = cp.Problem(cp.Minimize(objective), [x[:-1] >= x[1:], x[-1] >= 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver="CLARABEL")
        except cp.SolverError:
            return "failed", None
    return str(problem.status), None if x.value is None else float(x.value[0])

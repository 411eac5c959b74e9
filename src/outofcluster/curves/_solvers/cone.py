r"""Sum of two norms under linear constraints, as a second-order cone program.

.. math:: \min_x\ ‖Ax - b‖ + λ‖Ex‖ \quad\text{with } Cx ≥ 0,\ Zx = 0,

written for Clarabel as min t₁ + t₂ with (t₁, Ax - b) and (t₂, λEx) in second-order cones. b is scaled to norm
1, so that the solver's tolerances are relative to it. The first run aims at 1e-10 in gap and feasibility. Where the
solver stalls on the way (typically because a norm is 0 at the minimum), a second run aims at 1e-8, which is cvxpy's
accuracy. If that one does not come below 1e-7 either, an error gives the solver's status.
"""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from outofcluster._base.exceptions import SolverError
from outofcluster._base.validation import Array

__all__ = ["minimise_norms_conic"]

_AIMED, _ACCEPTED = (1e-10, 1e-8), 1e-7


def minimise_norms_conic(
    A: sparse.spmatrix, b: Array, E: sparse.spmatrix, penalty: float, C: sparse.spmatrix, Z: sparse.spmatrix
) -> Array:
    """Minimise ‖Ax - b‖ + penalty ‖Ex‖ with Cx ≥ 0 and Zx = 0; SolverError if Clarabel does not converge."""
    scale = float(np.linalg.norm(b))
    width = A.shape[1]
    if scale == 0:
        return np.zeros(width)
    blocks = [Z, -C, None, -A, None, -penalty * E]
    heights = [1 if block is None else block.shape[0] for block in blocks]
    starts = np.concatenate([[0], np.cumsum(heights)])
    entries = [(start, block.tocoo()) for start, block in zip(starts, blocks, strict=False) if block is not None]
    rows = np.concatenate([block.row + start for start, block in entries] + [starts[[2, 4]]])
    columns = np.concatenate([block.col for _, block in entries] + [[width, width + 1]])
    values = np.concatenate([block.data for _, block in entries] + [[-1.0, -1.0]])
    constraints = sparse.csc_matrix((values, (rows, columns)), shape=(starts[-1], width + 2))
    right = np.zeros(starts[-1])
    right[starts[3] : starts[4]] = -b / scale
    objective = np.zeros(width + 2)
    objective[-2:] = 1
    cones = [
        clarabel.ZeroConeT(heights[0]),
        clarabel.NonnegativeConeT(heights[1]),
        clarabel.SecondOrderConeT(1 + heights[3]),
        clarabel.SecondOrderConeT(1 + heights[5]),
    ]
    quadratic = sparse.csc_matrix((width + 2, width + 2))
    for aim in _AIMED:
        solution = clarabel.DefaultSolver(quadratic, objective, constraints, right, cones, _settings(aim)).solve()
        if solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
            return scale * np.asarray(solution.x[:width])
    raise SolverError(
        f"Clarabel did not converge: status {solution.status} after {solution.iterations} iterations, "
        f"residuals {solution.r_prim:.1e} and {solution.r_dual:.1e}."
    )


def _settings(aim: float) -> clarabel.DefaultSettings:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = aim
    # What Clarabel calls "almost solved".
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = _ACCEPTED
    return settings

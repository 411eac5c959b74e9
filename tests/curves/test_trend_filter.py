"""The trend filter against cvxpy, and its own claims: shape, scale, refinement, convergence."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy.stats import binom

import outofcluster as ooc
from outofcluster._base.exceptions import InputError, SolverError
from outofcluster.curves.paper.solvers import minimise_norms_bounded, minimise_norms_conic, minimise_norms_free
from references import cvxpy_chained, cvxpy_trend


def losses(m, noise=1e-3, seed=3):
    p = np.linspace(0.1, 1, m)
    return p, 0.2 + 0.1 * np.exp(-5 * p) + noise * np.random.default_rng(seed).standard_normal(m)


def objective(x, A, b, order, penalty):
    return np.linalg.norm(A @ x - b) + penalty * np.linalg.norm(np.diff(x, order))


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("penalty", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize(("n", "m"), [(100, 20), (30, 8), (30, 60), pytest.param(100, 200, marks=pytest.mark.slow)])
def test_the_papers_objective_is_no_worse_than_cvxpys(n, m, order, penalty, monotone):
    p, b = losses(m)
    A = binom.pmf(np.arange(n + 1), n, p[:, None])
    curve = ooc.TrendFilterCurve(order=order, penalty=penalty, monotone=monotone, nonnegative=monotone, scale="index")
    e = curve.fit_points(p, b, n).values(np.arange(n + 1))
    if monotone:
        assert np.diff(e).max() <= 1e-9
        assert e[-1] >= -1e-9
    ours = objective(e, A, b, order, penalty)
    assert curve.objective_ == pytest.approx(ours, rel=1e-6)
    assert curve.index_penalty_ == penalty
    theirs = cvxpy_trend(A, b, order, penalty, monotone)
    if theirs is not None:
        feasible = np.maximum(np.minimum.accumulate(theirs), 0) if monotone else theirs
        assert ours <= objective(feasible, A, b, order, penalty) * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("m", [20, 200])
def test_the_papers_objective_at_a_thousand_records(m, order, penalty):
    test_the_papers_objective_is_no_worse_than_cvxpys(1000, m, order, penalty, True)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("noise", [0, 1e-3])
def test_the_spline_stands_for_the_full_problem(order, noise):
    """n = 600 is solved as a spline by default, on the whole grid by cvxpy and with n_pieces = 300."""
    p, b = losses(20, noise)
    curve = ooc.TrendFilterCurve(order=order).fit_points(p, b, 600)
    A = binom.pmf(np.arange(601), 600, p[:, None])
    assert curve.e0_ == pytest.approx(cvxpy_chained(A, b, order, curve.penalty_), abs=1e-4)
    whole = ooc.TrendFilterCurve(order=order, n_pieces=300).fit_points(p, b, 600)
    assert curve.e0_ == pytest.approx(whole.e0_, abs=2e-5)
    np.testing.assert_allclose(curve.values(range(601)), whole.values(range(601)), atol=2e-4)
    assert curve.objective_ >= whole.objective_ * (1 - 1e-6)


@pytest.mark.parametrize("n", [10**5, 10**7, 10**9])
@pytest.mark.parametrize("noise", [0, 1e-3])
def test_refining_the_spline_twofold_changes_nothing_that_matters(n, noise):
    p, b = losses(10, noise)
    once, twice = (ooc.TrendFilterCurve(n_pieces=k).fit_points(p, b, n).e0_ for k in (128, 256))
    assert once == pytest.approx(twice, abs=1e-5)


def test_per_unit_of_p_the_penalty_means_the_same_for_every_n():
    p, b = losses(20)
    estimates = [ooc.TrendFilterCurve().fit_points(p, b, n).e0_ for n in (10**4, 10**6, 10**8)]
    assert np.ptp(estimates) < 2e-4
    per_index = [ooc.TrendFilterCurve(scale="index").fit_points(p, b, n).e0_ for n in (100, 1000)]
    assert np.ptp(per_index) > 1e-2


def test_per_index_and_per_p_are_one_problem():
    p, b = losses(12)
    per_p = ooc.TrendFilterCurve(order=3, penalty=1e-3).fit_points(p, b, 80)
    per_index = ooc.TrendFilterCurve(order=3, penalty=per_p.index_penalty_, scale="index").fit_points(p, b, 80)
    assert per_p.index_penalty_ == pytest.approx(1e-3 * 80**2.5)
    np.testing.assert_allclose(per_p.values(range(81)), per_index.values(range(81)), atol=1e-6)


@pytest.mark.parametrize("n", [40, 10**6])
@pytest.mark.parametrize("order", [2, 3, 4])
@settings(max_examples=20)
@given(data=st.data())
def test_shapes_hold_whatever_the_losses(n, order, data):
    p = np.linspace(0.1, 1, 8)
    b = np.array(data.draw(st.lists(st.floats(0, 1), min_size=8, max_size=8)))
    monotone, nonnegative, convex = (data.draw(st.booleans()) for _ in range(3))
    curve = ooc.TrendFilterCurve(
        order=order, monotone=monotone, nonnegative=nonnegative, convex=convex, n_pieces=32
    ).fit_points(p, b, n)
    e = curve.values(np.unique(np.linspace(0, n, 41).astype(int)))
    slack = 1e-6 * max(1.0, np.abs(e).max())
    assert not monotone or np.diff(e).max() <= slack
    assert not nonnegative or e.min() >= -slack
    assert not convex or np.diff(e, 2).min() >= -slack


@settings(max_examples=10)
@given(st.floats(1e-3, 1e3))
def test_the_fit_scales_with_the_losses(scale):
    p, b = losses(10)
    one = ooc.TrendFilterCurve().fit_points(p, b, 60)
    other = ooc.TrendFilterCurve().fit_points(p, scale * b, 60)
    assert other.e0_ == pytest.approx(scale * one.e0_, rel=1e-6)


@pytest.mark.parametrize("n", [50, 10**6])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_polynomial_below_the_order_costs_nothing(n, order):
    p = np.linspace(0.1, 1, 12)
    q = np.polynomial.Polynomial([0.5, -0.3, 0.05, -0.01][:order])
    for penalty in (1e-6, 1.0, 1e3):
        curve = ooc.TrendFilterCurve(order=order, penalty=penalty).fit_points(p, q(p), n)
        assert curve.e0_ == pytest.approx(0.5, abs=1e-5)
        np.testing.assert_allclose(curve.residual_, 0, atol=1e-6)


@pytest.mark.parametrize("n", [60, 10**5])
def test_weights_are_those_of_the_squared_residuals(n):
    """Twice the weight is the same as seeing a level twice, as cvxpy sees it."""
    p, b = losses(8)
    weights = np.array([1.0, 4, 1, 1, 9, 1, 1, 1])
    curve = ooc.TrendFilterCurve(order=3).fit_points(p, b, n, weights=weights)
    scaled = ooc.TrendFilterCurve(order=3).fit_points(p, b, n, weights=100 * weights)
    same = ooc.TrendFilterCurve(order=3, penalty=curve.penalty_ * 10).fit_points(p, b, n, weights=100 * weights)
    assert same.e0_ == pytest.approx(curve.e0_, abs=1e-6)
    assert scaled.e0_ != pytest.approx(curve.e0_, abs=1e-6)


def test_convexity_is_an_option_and_binds_when_asked_for():
    p = np.linspace(0.1, 1, 10)
    b = 0.5 - 0.3 * p**3
    free = ooc.TrendFilterCurve(penalty=1e-6).fit_points(p, b, 80)
    convex = ooc.TrendFilterCurve(penalty=1e-6, convex=True).fit_points(p, b, 80)
    assert np.diff(free.values(range(81)), 2).min() < -1e-6
    assert np.diff(convex.values(range(81)), 2).min() > -1e-9


def test_constant_and_zero_losses():
    p = np.linspace(0.1, 1, 6)
    for n in (30, 10**6):
        assert ooc.TrendFilterCurve().fit_points(p, np.full(6, 0.25), n).e0_ == pytest.approx(0.25, abs=1e-8)
        assert ooc.TrendFilterCurve().fit_points(p, np.zeros(6), n).e0_ == 0


@pytest.mark.parametrize(
    ("options", "n", "message"),
    [
        ({"order": 5}, 50, "order must be 2 or 3 or 4, got 5"),
        ({"penalty": -1}, 50, "penalty must be a finite number above 0, got -1"),
        ({"penalty": 0}, 50, "penalty must be a finite number above 0, got 0"),
        ({"penalty": np.nan}, 50, "penalty must be a finite number above 0, got nan"),
        ({"scale": "log"}, 50, "scale must be 'p' or 'index', got 'log'"),
        ({"monotone": "yes"}, 50, "monotone must be True or False, got 'yes'"),
        ({"nonnegative": np.zeros(2)}, 50, "nonnegative must be True or False, got array"),
        ({"n_pieces": 1}, 50, "n_pieces must be a whole number between 4 and 2000, got 1"),
        ({"order": 4}, 3, "order must be at most n = 3, got 4"),
        ({"scale": "index"}, 10**7, "n must be at most 200000 under scale='index'.*use scale='p'"),
    ],
)
def test_bad_options(options, n, message):
    p, b = losses(10)
    with pytest.raises(InputError, match=message):
        ooc.TrendFilterCurve(**options).fit_points(p, b, n)


def test_too_few_levels_and_negative_losses():
    with pytest.raises(InputError, match="p must hold at least 4 levels for order 4, got 3"):
        ooc.TrendFilterCurve().fit_points([0.1, 0.5, 1], [3, 2, 1], 50)
    with pytest.raises(InputError, match="b must be non-negative when nonnegative=True; pass nonnegative=False"):
        ooc.TrendFilterCurve(order=2).fit_points([0.1, 0.5, 1], [3, 2, -1], 50)
    assert ooc.TrendFilterCurve(order=2, nonnegative=False).fit_points([0.1, 0.5, 1], [3, 2, -1], 50).e0_ > 3


def test_a_solver_that_does_not_converge_raises_with_its_status(monkeypatch):
    import clarabel

    usual = clarabel.DefaultSettings

    def hurried():
        settings = usual()
        settings.max_iter = 2
        return settings

    monkeypatch.setattr(clarabel, "DefaultSettings", hurried)
    p, b = losses(10)
    with pytest.raises(SolverError, match=r"The trend filter did not converge: Clarabel did not converge: status Max"):
        ooc.TrendFilterCurve().fit_points(p, b, 10**6)
    assert ooc.TrendFilterCurve()._solution is None


# --- the solvers themselves ---------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.3, 3.0, 100.0]))
def test_active_sets_find_the_cone_programs_minimum(seed, penalty):
    from scipy import sparse

    rng = np.random.default_rng(seed)
    m, size = int(rng.integers(3, 12)), int(rng.integers(3, 12))
    B, b, E = rng.standard_normal((m, size)), rng.standard_normal(m), rng.standard_normal((size + 2, size))
    bounded = rng.random(size) < 0.7
    value = lambda z: np.linalg.norm(B @ z - b) + penalty * np.linalg.norm(E @ z)  # noqa: E731
    try:
        z = minimise_norms_bounded(B, b, E, penalty, bounded, np.zeros(size))
    except SolverError:
        reject()  # It says so, and the cone program takes over; what it returns must be right.
    C = sparse.identity(size, format="csr")[np.flatnonzero(bounded)]
    reference = minimise_norms_conic(
        sparse.csr_matrix(B), b, sparse.csr_matrix(E), penalty, C, sparse.csr_matrix((0, size))
    )
    assert z[bounded].min(initial=0) >= -1e-12
    assert value(z) <= value(np.where(bounded, np.maximum(reference, 0), reference)) * (1 + 1e-7)


@given(st.integers(0, 10**6), st.sampled_from([1e-4, 0.01, 0.3, 3.0, 100.0]))
def test_without_constraints_no_step_improves(seed, penalty):
    """The minimum of a convex function: every direction goes up."""
    rng = np.random.default_rng(seed)
    m, size, free = int(rng.integers(4, 12)), int(rng.integers(4, 12)), int(rng.integers(1, 3))
    B, b = rng.standard_normal((m, size)), rng.standard_normal(m)
    value = lambda z: np.linalg.norm(B @ z - b) + penalty * np.linalg.norm(z[:-free])  # noqa: E731
    z = minimise_norms_free(B, b, free, penalty)
    for scale in (1e-2, 1e-4):
        steps = scale * rng.standard_normal((200, size))
        assert min(value(z + step) for step in steps) >= value(z) - 1e-10


def test_signs_that_are_rounding_errors_are_left_to_the_cone_program():
    """So strong a penalty hides the losses behind rounding errors, where pivots would go on to the last."""
    rng = np.random.default_rng(0)
    B, E = rng.standard_normal((5, 60)), np.diff(np.eye(60), 3, axis=0)
    start = np.linspace(1, 0, 60)
    with pytest.raises(SolverError, match="singular up to rounding"):
        minimise_norms_bounded(B, rng.standard_normal(5), E, 1e18, np.ones(60, dtype=bool), start)

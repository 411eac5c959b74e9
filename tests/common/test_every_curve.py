"""What holds for every curve method of the package."""

import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import clone

import outofcluster as ooc
from outofcluster._base.exceptions import InputError, NotFittedError
from outofcluster.curves.base import Curve


def constant(x):
    return np.ones_like(x)


def decay(x):
    return np.exp(-5 * x)


EVERY = {
    "least squares": ooc.LeastSquaresCurve(),
    "trend filter": ooc.TrendFilterCurve(),
    "trend filter per index": ooc.TrendFilterCurve(order=2, scale="index"),
    "polynomial": ooc.PolynomialCurve(2),
    "basis": ooc.BasisCurve([constant, decay]),
    "sketch": ooc.SketchCurve(n_groups=4),
    "linear sketch": ooc.SketchCurve(n_groups=4, penalty=0, monotone=False),
    "completely monotone": ooc.CompletelyMonotoneCurve(),
    "auto": ooc.AutoCurve(),
}
LINEAR = {"least squares", "polynomial", "basis", "linear sketch"}
FOR_ANY_N = {"trend filter", "polynomial", "basis", "sketch", "completely monotone", "auto"}
every_curve = pytest.mark.parametrize("name", EVERY)
p = np.linspace(0.1, 1, 9)
b = 0.2 + 0.1 * np.exp(-4 * p) + 1e-3 * np.random.default_rng(0).standard_normal(9)


def fresh(name):
    return EVERY[name].unfitted()


def test_no_curve_is_missing_here():
    exported = {c for c in vars(ooc).values() if inspect.isclass(c) and issubclass(c, Curve)}
    assert {type(curve) for curve in EVERY.values()} == exported


@every_curve
@settings(max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=9, max_size=9), st.integers(4, 40))
def test_the_fitted_names_agree_with_each_other(name, losses, n):
    curve = fresh(name)
    assert curve.fit_points(p, losses, n) is curve
    e = curve.values(np.arange(n + 1))
    scale = max(1.0, np.abs(e).max())
    assert curve.n_ == n
    assert e.shape == (n + 1,)
    assert curve.e0_ == pytest.approx(e[0], abs=1e-9 * scale)
    A = binom.pmf(np.arange(n + 1), n, p[:, None])
    np.testing.assert_allclose(curve.residual_, losses - A @ e, atol=1e-9 * scale)
    assert curve.condition_ >= 1
    if name in LINEAR:
        assert curve.e0_ == pytest.approx(
            curve.influence_ @ losses, abs=1e-8 * max(scale, np.abs(curve.influence_).sum())
        )
    else:
        assert curve.influence_ is None
    assert curve.optimism_ == pytest.approx(e[0] - (A @ e)[0], abs=1e-9 * scale)
    if name in LINEAR:
        assert curve.optimism_ == pytest.approx(
            curve.optimism_derivative_ @ losses, abs=1e-8 * max(scale, np.abs(curve.influence_).sum())
        )
    elif name == "auto":
        assert curve.choice_variance_ >= 0
    else:
        assert curve.optimism_derivative_ is None


@every_curve
def test_without_leakage_there_is_no_optimism(name):
    levels = np.linspace(0, 1, 9)
    assert fresh(name).fit_points(levels, b, 12).optimism_ == pytest.approx(0, abs=1e-7)


@every_curve
@settings(max_examples=10)
@given(st.permutations(range(9)))
def test_the_order_of_the_levels_does_not_matter(name, order):
    order = list(order)
    one = fresh(name).fit_points(p, b, 12).e0_
    assert fresh(name).fit_points(p[order], b[order], 12).e0_ == pytest.approx(one, abs=1e-6)


@every_curve
@settings(max_examples=10)
@given(st.floats(0.01, 100))
def test_the_size_of_equal_weights_does_not_matter_unless_penalised(name, weight):
    plain, weighted = fresh(name).fit_points(p, b, 12), fresh(name).fit_points(p, b, 12, weights=np.full(9, weight))
    if getattr(plain, "penalty", 0) == 0:
        assert weighted.e0_ == pytest.approx(plain.e0_, abs=1e-6)
    assert np.isfinite(weighted.e0_)


@every_curve
def test_a_weight_makes_its_residual_smaller(name):
    losses = b + 0.02 * np.array([0, 0, 0, 1, 0, 0, 0, -1, 0])
    weights = np.where(np.arange(9) == 3, 1e4, 1.0)
    plain, weighted = fresh(name).fit_points(p, losses, 12), fresh(name).fit_points(p, losses, 12, weights=weights)
    assert abs(weighted.residual_[3]) <= abs(plain.residual_[3]) + 1e-9


@every_curve
def test_values_at_one_position_or_many(name):
    curve = fresh(name).fit_points(p, b, 12)
    assert isinstance(curve.values(3), float)
    grid = np.array([[0, 3], [12, 7]])
    assert curve.values(grid).shape == (2, 2)
    assert curve.values(grid)[0, 1] == pytest.approx(curve.values(3), rel=1e-12)
    assert curve.values(3.0) == curve.values(3)
    for wrong in (-1, 13, 2.5, "3", np.nan):
        with pytest.raises(InputError, match="j must hold whole numbers between 0 and 12"):
            curve.values(wrong)


@every_curve
def test_a_second_fit_leaves_nothing_of_the_first(name):
    curve = fresh(name).fit_points(p, b, 12)
    _ = curve.condition_, curve.influence_, curve.values(2)
    curve.fit_points(p, 2 * b, 20)
    other = fresh(name).fit_points(p, 2 * b, 20)
    assert (curve.e0_, curve.n_, curve.condition_, curve.values(2)) == (
        other.e0_,
        other.n_,
        other.condition_,
        other.values(2),
    )


@every_curve
def test_a_failed_fit_keeps_what_was_fitted(name):
    curve = fresh(name).fit_points(p, b, 12)
    before = curve.e0_
    with pytest.raises(InputError):
        curve.fit_points(p, b, 0)
    assert curve.e0_ == before


@every_curve
def test_input_is_not_written_to(name):
    levels, losses, weights = p.copy(), b.copy(), np.linspace(1, 2, 9)
    fresh(name).fit_points(levels, losses, 12, weights=weights)
    assert (levels == p).all()
    assert (losses == b).all()
    assert (weights == np.linspace(1, 2, 9)).all()


@every_curve
def test_the_same_input_gives_the_same_bits(name):
    assert fresh(name).fit_points(p, b, 12).e0_ == fresh(name).fit_points(list(p), list(b), 12).e0_


@every_curve
def test_survives_pickling(name):
    curve = fresh(name).fit_points(p, b, 12)
    assert pickle.loads(pickle.dumps(curve)).e0_ == curve.e0_


@every_curve
def test_unfitted_says_so(name):
    curve = fresh(name)
    for call in (lambda: curve.e0_, lambda: curve.values(0), lambda: curve.influence_, lambda: curve.to_bezier()):
        with pytest.raises(NotFittedError, match="is not fitted yet; call fit_points first"):
            call()


@every_curve
def test_clones_and_new_parameters(name):
    curve = fresh(name).fit_points(p, b, 12)
    for other in (clone(curve), curve.unfitted()):
        assert type(other) is type(curve)
        assert repr(other) == repr(curve)
        assert other is not curve
        with pytest.raises(NotFittedError):
            _ = other.e0_
    params = curve.get_params()
    assert list(params) == list(inspect.signature(type(curve)).parameters)
    assert all(getattr(curve, parameter) is value for parameter, value in params.items())
    assert type(curve)(**params).fit_points(p, b, 12).e0_ == curve.e0_
    assert curve.set_params(**params) is curve
    before = repr(curve)
    with pytest.raises(
        InputError, match=f"{type(curve).__name__} has no parameter 'wrong'; its parameters are: .*\\.$"
    ):
        curve.set_params(**params, wrong=1)
    assert repr(curve) == before


@every_curve
def test_a_curve_takes_what_it_says_it_needs(name):
    curve = fresh(name)
    needs = curve.needs
    sizes, negative = np.repeat([40, 12], [5, 4]), b - 0.25
    if needs.sizes:
        assert curve.fit_points(p, b, sizes).n_ == 40
    else:
        with pytest.raises(InputError, match="n must be one whole number"):
            curve.fit_points(p, b, sizes)
    if needs.nonnegative:
        with pytest.raises(InputError, match="b must be non-negative"):
            curve.fit_points(p, negative, 12)
    else:
        assert np.isfinite(curve.fit_points(p, negative, 12).e0_)
    assert needs.levels == ("automatic" if name == "auto" else "extrapolation")


def test_needs_follow_the_parameters():
    for curve, parameter in ((ooc.TrendFilterCurve(), "nonnegative"), (ooc.SketchCurve(), "monotone")):
        assert curve.needs.nonnegative
        assert not curve.set_params(**{parameter: False}).needs.nonnegative


@every_curve
def test_knowing_the_range_of_the_loss(name):
    curve = fresh(name)
    inside = curve.within((0.0, 1.0))
    if name == "auto":
        assert (curve.largest, inside.largest) == (np.inf, 1.0)
        assert inside.within((0.0, 0.5)) is inside
    else:
        assert inside is curve


@every_curve
def test_the_name_shows_the_parameters(name):
    assert repr(fresh(name)).startswith(type(EVERY[name]).__name__ + "(")


@pytest.mark.parametrize("name", sorted(FOR_ANY_N))
def test_a_billion_records(name):
    curve = fresh(name).fit_points(p, b, 10**9)
    assert 0.25 < curve.e0_ < 0.4
    assert np.isfinite(curve.values([0, 1, 10**8, 10**9])).all()


BAD = [
    ({"p": [0.1, 0.5, 1.2]}, r"p must lie in \[0, 1\], got p\[2\] = 1.2"),
    ({"p": [-0.1, 0.5, 1]}, r"p must lie in \[0, 1\], got p\[0\] = -0.1"),
    ({"p": [0.1, np.nan, 1]}, r"p must lie in \[0, 1\], got p\[1\] = nan"),
    ({"p": [0.5, 0.5, 1]}, "p must hold distinct levels, got 0.5 more than once"),
    ({"p": [[0.1, 0.5, 1]]}, r"p must be a non-empty array of one dimension, got shape \(1, 3\)"),
    ({"p": "levels"}, "p must be an array of numbers, got 'levels'"),
    ({"p": [], "b": []}, "p must be a non-empty array"),
    ({"b": [3, 2]}, "b must have one loss for each level of p, got 2 losses for 3 levels"),
    ({"b": [3, np.nan, 1]}, r"b must be finite, got b\[1\] = nan"),
    ({"b": [3, np.inf, 1]}, r"b must be finite, got b\[1\] = inf"),
    ({"n": 0}, "n must be a whole number at least 1, got 0"),
    ({"n": -3}, "n must be a whole number at least 1, got -3"),
    ({"n": 2.5}, "n must be a whole number at least 1, got 2.5"),
    ({"n": None}, "n must be a whole number at least 1, got None"),
    ({"n": True}, "n must be a whole number at least 1, got True"),
    ({"weights": [1, 0, 1]}, r"weights must be positive, got weights\[1\] = 0"),
    ({"weights": [1, -2, 1]}, r"weights must be positive, got weights\[1\] = -2"),
    ({"weights": [1, 1]}, "weights must have one weight for each level of p, got 2 for 3 levels"),
    ({"weights": [1, np.nan, 1]}, r"weights must be finite, got weights\[1\] = nan"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_one_sentence(change, message):
    """All curves are fitted by the same method, which checks before anything else is done."""
    arguments = {"p": [0.1, 0.5, 1.0], "b": [3.0, 2.0, 1.0], "n": 10} | change
    with pytest.raises(InputError, match=message) as caught:
        fresh("polynomial").fit_points(**arguments)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")

"""A curve gives numbers or one sentence, whatever the levels, losses and sizes."""

from contextlib import suppress

import numpy as np
import pytest

import outofcluster as ooc
from outofcluster import InputError, SolverError
from outofcluster._base.arguments import check_number, check_vector
from outofcluster._base.exceptions import one_line
from outofcluster.curves.base import LinearSolution
from outofcluster.curves.points import Points

P, B = [0.1, 0.2, 0.4, 0.6, 0.8], [0.5, 0.45, 0.4, 0.36, 0.35]
CURVES = {
    "auto": ooc.AutoCurve,
    "polynomial": ooc.PolynomialCurve,
    "completely monotone": ooc.CompletelyMonotoneCurve,
    "least squares": ooc.LeastSquaresCurve,
    "sketch": lambda: ooc.SketchCurve(n_groups=3),
    "trend filter": ooc.TrendFilterCurve,
    "basis": lambda: ooc.BasisCurve([np.ones_like, np.sqrt]),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("n", [1, 7, 100, 10**5, 10**9, 10**15, 2**62])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e60])
def test_finite_or_refused(name, n, scale):
    # Refused are shapes with more parameters than n, matrices that are too large, and solvers that give up.
    with suppress(InputError, SolverError):
        curve = CURVES[name]().fit_points(P, scale * np.array(B), n)
        assert np.isfinite([curve.e0_, *curve.values([0, n]), *curve.residual_]).all()
        return
    assert n < 4 or n > 10**4 or scale != 1.0


def test_a_size_for_each_loss_needs_two_levels_at_the_largest():
    with pytest.raises(InputError, match="the largest size, 50, at least two levels of p, got one"):
        ooc.AutoCurve().fit_points(P, B, [10, 20, 30, 40, 50])
    # Sizes with a single level say nothing about the shape.
    several = ooc.AutoCurve().fit_points([*P, 0.3, 0.9], [*B, 0.5, 0.4], [50] * 5 + [10, 20])
    assert several.e0_ == pytest.approx(ooc.AutoCurve().fit_points(P, B, 50).e0_)


def test_levels_that_are_too_close_for_the_degree():
    p = 0.1 + np.linspace(0, 1e-6, 5)
    with pytest.raises(InputError, match="whose errors grow 8e\\+10 times on the way to p = 0"):
        ooc.PolynomialCurve(2).fit_points(p, B, 100)
    assert np.isfinite(ooc.PolynomialCurve(0).fit_points(p, B, 100).values(0))
    # The highest degree of the paper, on the levels of the paper.
    assert np.isfinite(ooc.PolynomialCurve(7).fit_points(np.linspace(0.1, 1, 20), np.linspace(0.5, 0.3, 20), 100).e0_)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 2**63}, "n must be at most 4611686018427387904, got 9223372036854775808"),
        ({"n": 10**400}, "n must be at most 4611686018427387904, got 1000"),
        ({"n": [[1, 2], [3]]}, "n must be an array of numbers"),
        ({"b": [1e200] * 5}, "b must hold losses of at most 1e\\+70, got 1e\\+200"),
        ({"b": ["0.5", "0.4", "0.3", "0.2", "0.1"]}, "b must be an array of numbers"),
        ({"b": np.ma.masked_array(B, [0, 1, 0, 0, 0])}, "b must be an array of numbers without a mask"),
        ({"b": np.array(B) + 1j}, "b must be an array of numbers"),
        ({"p": [True, False]}, "p must be an array of numbers"),
        ({"weights": np.ma.masked_array(B, [0, 1, 0, 0, 0])}, "weights must be an array of numbers without a mask"),
    ],
)
def test_what_numpy_would_misread(changes, message):
    with pytest.raises(InputError, match=message):
        ooc.PolynomialCurve(1).fit_points(**({"p": P, "b": B, "n": 100} | changes))


def test_functions_that_fail_or_give_no_numbers():
    operator = ooc.BinomialOperator(P, 10)
    for function, message in (
        (lambda x: x / 0, "a mean of"),
        (lambda x: "x", "but: "),
        (lambda x: x[:1], "but: ValueError"),
        (lambda x: [][0], "but: IndexError: list index out of range"),
    ):
        with (
            np.errstate(all="ignore"),
            pytest.raises(InputError, match=f"function must give one finite value.*{message}"),
        ):
            operator.expect(function)
    with pytest.raises(InputError, match=r"functions\[0\] must give one number per point, but: IndexError"):
        ooc.BasisCurve([lambda x: [][0]]).fit_points(P, B, 10)


def test_samples_of_another_kind():
    with pytest.raises(InputError, match="samples must be LossSamples, or a list of them, got 3"):
        ooc.PolynomialCurve(1).fit(3, 0.1)


@pytest.mark.parametrize("value", [True, "0.1", b"1", [0.1], np.array([0.1]), 1 + 1j, None, np.datetime64("2020")])
def test_what_is_no_number(value):
    with pytest.raises(InputError, match="rate must be a number at least 0"):
        check_number("rate", value, least=0)


class Rude:
    """An object of which nothing can be asked."""

    def __repr__(self):
        raise RuntimeError("no")

    def __array__(self, *args, **options):
        raise RuntimeError("no")


def test_objects_that_answer_with_errors():
    with pytest.raises(InputError, match="p must be an array of numbers, got a Rude"):
        check_vector("p", Rude())


def test_one_line():
    assert one_line("a\n\tb\r\x00 c") == "a b c"
    assert one_line("x" * 50, 10) == "xxxxxxx..."


@pytest.mark.parametrize("unit", [1e-170, 1e-320, 1e170])
def test_the_unit_of_standard_errors_does_not_matter(unit, capfd):
    errors = np.array([0.01, 0.02, 0.02, 0.01, 0.03])
    expected = ooc.PolynomialCurve(1).fit_points(P, B, 100, standard_errors=errors).e0_
    again = ooc.PolynomialCurve(1).fit_points(P, B, 100, standard_errors=unit * errors).e0_
    assert again == pytest.approx(expected, rel=1e-2 if unit < 1e-300 else 1e-12)
    assert capfd.readouterr() == ("", "")


def test_linear_algebra_sees_no_number_that_is_not_finite(capfd):
    """LAPACK would print complaints of its own."""
    points = Points(np.array(P), np.array(B), 100, np.array([1.0, np.inf, 1.0, 1.0, 1.0]))
    with pytest.raises(ArithmeticError, match="beyond the range of floats"):
        LinearSolution.solve(points, np.ones((5, 1)), np.ones(1))
    assert capfd.readouterr() == ("", "")

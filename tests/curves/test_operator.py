"""The operator against rational arithmetic, high precision, and its own matrix."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from outofcluster import BinomialOperator
from outofcluster._base.exceptions import InputError
from outofcluster.curves.operator import binomial_pmf, legendre_image, legendre_sequence
from references import exact_pmf

levels = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=6, unique=True)
sizes = st.integers(1, 60)


def matrix(p, n):
    # Older releases of SciPy overflow for the smallest numbers, which are 0 to any digit that is compared.
    shares = np.where(np.array(p) < 1e-300, 0.0, p)
    return binom.pmf(np.arange(n + 1), n, shares[:, None])


@settings(max_examples=20)
@given(levels, sizes)
def test_matrix_equals_rational_arithmetic(p, n):
    exact = [[float(exact_pmf(j, n, Fraction(x))) for j in range(n + 1)] for x in p]
    # Absolute: a level like 1e-300 leaves entries that no double can hold.
    np.testing.assert_allclose(BinomialOperator(p, n).matrix(), exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9])
@pytest.mark.parametrize("p", [1e-6, 0.1, 0.5, 0.97])
def test_entries_keep_their_digits_when_n_is_large(n, p):
    with mpmath.workdps(60):
        level, deviation = mpmath.mpf(p), max(1.0, (n * p * (1 - p)) ** 0.5)
        for k in (-6, -1, 0, 1, 6):
            j = round(min(max(n * p + k * deviation, 0), n))
            log = mpmath.loggamma(n + 1) - mpmath.loggamma(j + 1) - mpmath.loggamma(n - j + 1)
            exact = mpmath.exp(log + j * mpmath.log(level) + (n - j) * mpmath.log1p(-level))
            assert float(binomial_pmf(j, n, p)) == pytest.approx(float(exact), rel=1e-10)


@given(levels, sizes, st.integers(0, 10**6))
def test_products_are_those_of_the_matrix(p, n, seed):
    A = BinomialOperator(p, n)
    rng = np.random.default_rng(seed)
    e = rng.uniform(-10, 10, n + 1)
    M = matrix(p, n)
    np.testing.assert_allclose(A.apply(e), M @ e, atol=1e-12)
    np.testing.assert_allclose(A.sparse_matrix().toarray(), M, atol=1e-14)
    j = rng.integers(0, n + 1, 5)
    np.testing.assert_allclose(A.columns(j), M[:, j], atol=1e-14)


@given(levels, sizes, st.data())
def test_range_sums_are_sums_of_columns(p, n, data):
    inner = data.draw(st.lists(st.integers(1, n), max_size=5, unique=True))
    edges = [0, *sorted(inner), n + 1]
    explicit = np.add.reduceat(matrix(p, n), edges[:-1], axis=1)
    np.testing.assert_allclose(BinomialOperator(p, n).range_sums(edges), explicit, atol=1e-13)


def test_range_sums_at_a_billion_equal_the_sum_of_their_entries():
    n, p, start = 10**9, 0.3, 3 * 10**8 - 20_000
    edges = np.arange(start, start + 40_001, 10_000)
    explicit = [binomial_pmf(np.arange(a, b), n, p).sum() for a, b in itertools.pairwise(edges)]
    # The incomplete beta function of older releases of SciPy (1.16 and before) has fewer digits at such an n.
    exact = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 17)
    np.testing.assert_allclose(BinomialOperator([p], n).range_sums(edges)[0], explicit, rtol=1e-9 if exact else 1e-6)


def test_range_sums_keep_their_digits_in_the_upper_tail():
    """Far above the mean the distribution function is 1 to rounding; differences of it would be 0."""
    n, p = 1000, 0.1
    with mpmath.workdps(60):
        q = mpmath.mpf(p)
        explicit = float(sum(mpmath.binomial(n, j) * q**j * (1 - q) ** (n - j) for j in range(300, 400)))
    assert BinomialOperator([p], n).range_sums([300, 400])[0, 0] == pytest.approx(explicit, rel=1e-9)


@given(levels, sizes, st.floats(0, 1))
def test_geometric_sequences_have_a_closed_form(p, n, decay):
    e = (1 - decay) ** np.arange(n + 1)
    np.testing.assert_allclose(BinomialOperator(p, n).geometric(decay), matrix(p, n) @ e, atol=1e-12)


def test_geometric_keeps_ratios_near_one_apart():
    assert BinomialOperator([0.5], 10**9).geometric(1e-9)[0] == pytest.approx(np.exp(-0.5), rel=1e-8)


@given(levels, sizes, st.data())
def test_legendre_sequences_map_to_legendre_polynomials(p, n, data):
    degree = data.draw(st.integers(0, min(n, 10)))
    Q = legendre_sequence(np.arange(n + 1), n, degree)
    np.testing.assert_allclose(matrix(p, n) @ Q, legendre_image(p, degree), atol=1e-9)


@pytest.mark.parametrize("n", [5, 300, 10**5, 10**9])
def test_expectations_of_a_smooth_function(n):
    """E exp(-5 J/n) is a geometric sequence, known in closed form."""
    p = np.array([0.0, 1e-7, 0.1, 0.6, 1.0])
    means = BinomialOperator(p, n).expect(lambda x: np.exp(-5 * x))
    np.testing.assert_allclose(means, (1 + p * np.expm1(-5 / n)) ** n, rtol=2e-7 if n > 10**8 else 1e-11)


def test_expectation_of_a_kink():
    """E |J/n - 1/2| at p = 1/2 is 2^-n C(n-1, n/2) for even n, Stirling's √(1/(2πn)) when n is large."""
    n = 10**8
    mean = BinomialOperator([0.5], n).expect(lambda x: np.abs(x - 0.5))[0]
    assert mean == pytest.approx(np.sqrt(1 / (2 * np.pi * n)), rel=1e-3)


def test_rows_sum_to_one_and_the_cost_does_not_grow():
    positions = BinomialOperator(np.linspace(0, 1, 9), 10**9).lattice()
    assert len(positions) < 9 * 600
    for n in (1, 50, 10**9):
        np.testing.assert_allclose(BinomialOperator(np.linspace(0, 1, 9), n).expect(np.ones_like), 1, rtol=1e-12)


def test_what_would_not_fit_is_refused():
    with pytest.raises(InputError, match="n must be at most 4999999 to form the operator for 10 levels"):
        BinomialOperator(np.linspace(0, 1, 10), 10**9).matrix()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BinomialOperator([0.5], 0), "n must be a whole number at least 1, got 0"),
        (lambda: BinomialOperator([0.5, 0.5], 3), "p must hold distinct levels, got 0.5 more than once"),
        (lambda: BinomialOperator([0.5], 3).apply([1, 2]), "e must have length 4, got 2"),
        (lambda: BinomialOperator([0.5], 3).range_sums([0, 2, 2]), "edges must increase"),
        (lambda: BinomialOperator([0.5], 3).columns([4]), "j must hold whole numbers between 0 and 3, got 4"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()

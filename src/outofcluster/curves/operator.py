r"""The binomial operator A: the expected losses when each of n training records leaks with probability p.

For levels :math:`p_1, …, p_m` and size :math:`n`, with J ~ Binomial(n, p),

.. math:: A_{ij} = P(J = j) = \binom{n}{j} p_i^j (1-p_i)^{n-j},  \qquad (A e)_i = E\, e_J .

A has n + 1 columns and is never formed unless asked for. Instead:

products
    The mass of a row outside :math:`np ± t` is below :math:`2 \exp(-t^2/(2σ^2 + 2t/3))` (Bernstein's
    inequality), so rows are summed over the window that holds all of the mass but 1e-18.
expectations :math:`E\,ψ(J/n)`
    A row is a smooth bell of width σ. Taking every h-th lattice point and multiplying by h is the trapezoid rule,
    whose error for a bell is about :math:`\exp(-2π^2σ^2/h^2)`, which is nothing once h < σ/5. So a bounded number of
    points suffices for any n.
column sums over ranges
    Differences of the distribution function, taken in the smaller tail.
polynomial sequences
    :math:`A Q_k = P_k(1-2p)` with :math:`P_k` the Legendre polynomials and :math:`Q_k` their discrete
    counterparts on 0, …, n (the Hahn polynomials with α = β = 0), :math:`Q_0 = 1`,
    :math:`Q_1 = (n-2j)/n`, and

    .. math:: (k+1)(n-k) Q_{k+1} = (2k+1)(n-2j) Q_k - k(n+k+1) Q_{k-1} .

    Both sides stay near [-1, 1], so a polynomial passes through A in either direction without loss of digits.
geometric sequences
    :math:`e_j = (1-d)^j` gives :math:`(A e)(p) = (1-dp)^n`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import betainc, betaincc

from outofcluster._base.arguments import Array, check_numbers, check_vector, short
from outofcluster._base.exceptions import InputError, described
from outofcluster.curves.points import check_indices, check_levels, check_size

# A window leaves out at most 1e-18 of its row's mass, on both sides together.
_LOG_TAIL = math.log(2e18)

# Largest number of lattice points per level in an expectation; a bell of ±9.1 σ then has h < σ/28.
_MAX_POINTS = 512

# Largest number of entries of A that are formed at once (400 MB).
_MAX_ENTRIES = 50_000_000

# Largest number of entries of a sparse A: a second or so.
_MAX_SPARSE = 10_000_000


@dataclass(frozen=True)
class BinomialOperator:
    """The operator A for levels ``p`` and training sets of size ``n``.

    Parameters
    ----------
    p : array of shape (m,)
        Distinct levels in [0, 1]: the probability that a training record belongs to a validation cluster.
    n : int
        Number of training records, from 1 to beyond 10^9.

    Examples
    --------
    The loss 0.5 · 0.9^j at two levels of leakage among four records, and a slower decay among a billion records:

    >>> from outofcluster.curves.operator import BinomialOperator
    >>> A = BinomialOperator([0.1, 1.0], n=4)
    >>> A.apply(0.5 * 0.9 ** np.arange(5))
    array([0.480298, 0.32805 ])
    >>> A.geometric(0.1) / 2
    array([0.480298, 0.32805 ])
    >>> BinomialOperator([0.1, 1.0], n=10**9).geometric(1e-9)
    array([0.904837, 0.367879])
    """

    p: Array
    n: int

    def __init__(self, p: ArrayLike, n: int) -> None:
        object.__setattr__(self, "p", check_levels(p))
        object.__setattr__(self, "n", check_size("n", n))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of levels and number of columns, (m, n + 1)."""
        return len(self.p), self.n + 1

    # --- entries --------------------------------------------------------------------------------

    def matrix(self) -> Array:
        """The matrix A itself, for methods that need it; refused beyond 5·10^7 entries.

        Returns
        -------
        array of shape (m, n + 1)
            All entries of A.
        """
        m, columns = self.shape
        if m * columns > _MAX_ENTRIES:
            raise InputError(
                f"n must be at most {_MAX_ENTRIES // m - 1} to form the operator for {m} levels, got {self.n}."
            )
        return binomial_pmf(np.arange(columns), self.n, self.p[:, None])

    def sparse_matrix(self) -> sparse.csr_matrix:
        """A without the entries outside the windows of its rows, which sum to at most 1e-18 per row.

        Returns
        -------
        sparse matrix of shape (m, n + 1)
            A, with a number of entries of the order of m √n.
        """
        entries = int((self._windows[:, 1] - self._windows[:, 0] + 1).sum())
        if entries > _MAX_SPARSE:
            raise InputError(
                f"n must be small enough for a sparse matrix of at most {_MAX_SPARSE} entries, "
                f"got {self.n}, which needs {entries}."
            )
        indices, weights = zip(*self._rows(), strict=True)
        starts = np.cumsum([0, *map(len, indices)])
        return sparse.csr_matrix((np.concatenate(weights), np.concatenate(indices), starts), shape=self.shape)

    def columns(self, j: ArrayLike) -> Array:
        """Some columns of A.

        Parameters
        ----------
        j : array of int of shape (k,)
            Positions of the columns, from 0 to n.

        Returns
        -------
        array of shape (m, k)
            A[:, j].
        """
        positions = check_indices(j, self.n)
        if positions.ndim > 1:
            raise InputError(f"j must hold positions in one dimension, got shape {positions.shape}.")
        return binomial_pmf(positions, self.n, self.p[:, None])

    # --- products ---------------------------------------------------------------------------------

    def apply(self, e: ArrayLike) -> Array:
        """The product A e.

        Parameters
        ----------
        e : array of shape (n + 1,)
            The curve e_0, …, e_n.

        Returns
        -------
        array of shape (m,)
            The expected loss at each level.
        """
        vector = check_vector("e", e)
        if len(vector) != self.n + 1:
            raise InputError(f"e must have length {self.n + 1}, got {len(vector)}.")
        return np.array([weights @ vector[j] for j, weights in self._rows()])

    def expect(self, function: Callable[[Array], Array], *, points: int = _MAX_POINTS) -> Array:
        """The expectation E f(J/n) at every level, at a cost that does not grow with n.

        Parameters
        ----------
        function : callable
            A continuous function f on [0, 1], which takes an array of points and returns one value per point, or a
            dense or sparse matrix with one row per point.
        points : int, default=512
            Largest number of points per level. For a function without kinks 64 (h < σ/3) leave no error.

        Returns
        -------
        array
            One value, or one row, per level.
        """
        must = "function must give one finite value, or one row of them, for each point of an array"
        try:
            result = np.array([weights @ function(j / self.n) for j, weights in self._rows(points)], dtype=float)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{must}, but: {described(error)}") from error
        if not np.isfinite(result).all():
            raise InputError(f"{must}, got a mean of {result[~np.isfinite(result)][0]}.")
        return result

    def range_sums(self, edges: ArrayLike) -> Array:
        """Sums of adjacent columns.

        Parameters
        ----------
        edges : array of int of shape (k + 1,)
            Where the ranges start and end, increasing from at least 0 to at most n + 1.

        Returns
        -------
        array of shape (m, k)
            Column g is the sum of the columns j of A with ``edges[g] <= j < edges[g + 1]``.
        """
        cuts = check_indices(edges, self.n + 1, "edges")
        if cuts.ndim != 1 or len(cuts) < 2 or (np.diff(cuts) <= 0).any():
            raise InputError(
                f"edges must increase from at least 0 to at most n + 1 = {self.n + 1}, got {short(edges)}."
            )
        # P(J < c) and P(J >= c); the difference is taken where both terms are small.
        inside = (cuts > 0) & (cuts <= self.n)
        below = np.broadcast_to((cuts > 0).astype(float), (len(self.p), len(cuts))).copy()
        above = 1 - below
        a, b = cuts[inside].astype(float), (self.n + 1 - cuts[inside]).astype(float)
        below[:, inside] = betaincc(a, b, self.p[:, None])
        above[:, inside] = betainc(a, b, self.p[:, None])
        left = cuts[:-1] < self.n * self.p[:, None]
        return np.asarray(np.where(left, below[:, 1:] - below[:, :-1], above[:, :-1] - above[:, 1:]))

    # --- closed forms -----------------------------------------------------------------------------

    def geometric(self, decay: ArrayLike) -> Array:
        """A e for e_j = (1 - decay)^j, by its closed form.

        Parameters
        ----------
        decay : float or array of shape (k,)
            Decays in [0, 1]: 1 less the ratio, so that ratios near 1 keep their digits when n is large.

        Returns
        -------
        array of shape (m,) or (m, k)
            One row per level, one column per decay.
        """
        d = check_numbers("decay", decay)
        if d.size and not (d.min() >= 0 and d.max() <= 1):
            raise InputError(f"decay must lie in [0, 1], got {short(decay)}.")
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(self.n * np.log1p(-np.multiply.outer(self.p, d))))

    def lattice(self) -> NDArray[np.int64]:
        """The positions that carry the mass of the rows, a few hundred per row, for a look at A when n is large.

        Returns
        -------
        array of int
            Positions between 0 and n, row after row.
        """
        return np.concatenate([j for j, _ in self._rows(_MAX_POINTS)])

    # --- rows -------------------------------------------------------------------------------------

    @cached_property
    def _windows(self) -> NDArray[np.int64]:
        """The first and the last column that count in each row: hardly any of its mass lies outside."""
        mean, variance = self.n * self.p, self.n * self.p * (1 - self.p)
        reach = _LOG_TAIL / 3 + np.sqrt(_LOG_TAIL**2 / 9 + 2 * _LOG_TAIL * variance)
        low, high = np.floor(mean - reach), np.ceil(mean + reach)
        return np.stack([np.maximum(low, 0), np.minimum(high, self.n)], axis=1).astype(np.int64)

    def _rows(self, most: int | None = None) -> Iterator[tuple[NDArray[np.int64], Array]]:
        """For each level, the columns that carry its mass, or about ``most`` of them, and weights that sum to 1."""
        windows = [np.arange(low, high + 1, 1 + (high - low) // (most or self.n + 1)) for low, high in self._windows]
        # One call for all levels: where each has few points it costs little more than one for the first.
        lengths = [len(j) for j in windows]
        together = binomial_pmf(np.concatenate(windows), self.n, np.repeat(self.p, lengths))
        for j, weights in zip(windows, np.split(together, np.cumsum(lengths)[:-1]), strict=True):
            yield j, weights / weights.sum()


def legendre_image(p: ArrayLike, degree: int) -> Array:
    """P_k(1 - 2p) for k = 0, …, degree, to which A maps the sequences Q_k: one column per k."""
    return np.polynomial.legendre.legvander(1 - 2 * np.asarray(p, dtype=float), degree)


def legendre_sequence(j: ArrayLike, n: int, degree: int) -> Array:
    """Q_k(j) for k = 0, …, degree ≤ n, the sequences that A maps to P_k(1 - 2p): one column per k."""
    position = np.asarray(j, dtype=float)
    sequence = np.ones((*position.shape, degree + 1))
    for k in range(degree):
        # In units of n, so that nothing overflows or cancels when n is large.
        before = k * (1 + (k + 1) / n) * sequence[..., k - 1] if k else 0.0
        ahead = (2 * k + 1) * (1 - 2 * position / n) * sequence[..., k] - before
        sequence[..., k + 1] = ahead / ((k + 1) * (1 - k / n))
    return sequence


def binomial_pmf(j: ArrayLike, n: int, p: ArrayLike) -> Array:
    """P(J = j) for J ~ Binomial(n, p), to nearly full relative precision for any n.

    Loader's saddle-point form: with D(x, m) = x log(x/m) + m - x and S the error of Stirling's formula,
    log P = S(n) - S(j) - S(n-j) - D(j, np) - D(n-j, nq) + log(n / (2π j (n-j))) / 2. For large n it is
    more accurate than ``scipy.stats.binom.pmf``.

    Examples
    --------
    >>> from outofcluster.curves.operator import binomial_pmf
    >>> binomial_pmf([0, 1, 2], 2, 0.5)
    array([0.25, 0.5 , 0.25])
    """
    j, p = np.asarray(j, dtype=float), np.asarray(p, dtype=float)
    q, rest = 1 - p, n - j
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # What depends on j alone is computed first, so that a matrix costs little more than its exponentials.
        of_j = _stirling_error(np.asarray(n, dtype=float)) - _stirling_error(j) - _stirling_error(rest)
        of_j += 0.5 * np.log(n / (2 * np.pi * j * rest))
        pmf = np.exp(of_j - _deviance(j, n * p) - _deviance(rest, n * q))
        # 0 · log 0 = 0: a level of 0 or 1 has all its mass on one column.
        pmf = np.where(j == 0, np.where(p == 1, 0.0, np.exp(n * np.log1p(-p))), pmf)
        pmf = np.where(rest == 0, np.where(p == 0, 0.0, np.exp(n * np.log(p))), pmf)
    return np.where((p == 0) & (j > 0) | (q == 0) & (rest > 0), 0.0, pmf)


def _stirling_error(k: Array) -> Array:
    """Log k! less log(√(2πk) (k/e)^k)."""
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * k**2)) / k**2) / k**2) / k**2) / k
    small = _STIRLING_ERRORS[np.minimum(k, 15).astype(np.int64)]
    return np.where(k <= 15, small, series)


_STIRLING_ERRORS = np.array(
    [0.0, *(math.lgamma(k + 1) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2 * math.pi) for k in range(1, 16))]
)


def _deviance(x: Array, mean: Array) -> Array:
    """Compute x log(x/m) + m - x without cancellation: v (x-m) + 2x (artanh v - v) for v = (x-m)/(x+m)."""
    difference = x - mean
    v = difference / (x + mean)
    square = v * v
    tail = np.full_like(v, 1 / 19)
    for k in range(17, 1, -2):
        tail *= square
        tail += 1 / k
    tail *= square * v
    return difference * v + 2 * x * np.where(square < 0.01, tail, 0.5 * np.log(x / mean) - v)

"""Orders by counting are those of numpy's sort."""

import numpy as np
import pytest

from outofcluster._base.rows import order_of_codes


@pytest.mark.parametrize(("n", "codes"), [(0, 1), (1, 1), (50, 3), (8000, 8000), (9000, 7)])
def test_codes_come_in_the_order_of_a_stable_sort(n, codes):
    numbers = np.random.default_rng(n).integers(0, codes, n)
    order = order_of_codes(numbers)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(order, np.argsort(numbers, kind="stable"))


def test_codes_may_have_gaps():
    numbers = np.tile([900, 3, 900, 3, 0], 2000)
    np.testing.assert_array_equal(order_of_codes(numbers), np.argsort(numbers, kind="stable"))

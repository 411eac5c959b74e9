"""Models are fitted to copies of rows, which a linear model may overwrite."""

import ctypes

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outofcluster._base import threads as memory
from outofcluster._base.rows import bytes_per_row
from outofcluster.problem.problem import Task
from outofcluster.sampling.fitting import fit_clone

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 4)) + 3
Y = X[:, 0] - X[:, 1] + RNG.standard_normal(200)
ROWS = np.flatnonzero(RNG.random(200) < 0.8)
MODELS = [Ridge(), Ridge(fit_intercept=False), LinearRegression(), ElasticNet(0.1), Lasso(0.1), RidgeClassifier()]


class Watched(Ridge):
    """A model of one's own, which is left as it is."""

    def fit(self, X, y, sample_weight=None):
        self.copies_ = self.copy_X
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_models_that_overwrite_their_rows_are_the_same_to_the_bit(model, order, dtype):
    records = np.array(X, dtype=dtype, order=order)
    target = Y > 0 if isinstance(model, RidgeClassifier) else Y
    before, weight = records.copy(), RNG.random(200)
    for params in ({}, {"sample_weight": weight}):
        own = fit_clone(Task.check(model, records, target, params=params), ROWS, np.random.default_rng(0))
        taken = {name: value[ROWS] for name, value in params.items()}
        plain = clone(model).fit(records.take(ROWS, axis=0), target[ROWS], **taken)
        np.testing.assert_array_equal(own.coef_, plain.coef_)
        np.testing.assert_array_equal(own.intercept_, plain.intercept_)
        assert own.copy_X is True
    np.testing.assert_array_equal(records, before)


def test_only_scikit_learns_own_linear_models_overwrite():
    assert fit_clone(Task.check(Watched(), X, Y), ROWS, np.random.default_rng(0)).copies_
    fitted = fit_clone(Task.check(make_pipeline(StandardScaler(), Watched()), X, Y), ROWS, np.random.default_rng(0))
    assert fitted[-1].copies_


def test_linear_models_overwrite_the_copy_that_they_are_given(monkeypatch):
    """If scikit-learn's option changes its meaning, the memory that it saves is gone, and this test says so."""
    seen = []
    fit = Ridge.fit
    monkeypatch.setattr(Ridge, "fit", lambda self, X, *rest, **named: (seen.append(X), fit(self, X, *rest, **named))[1])
    fit_clone(Task.check(Ridge(), X, Y), ROWS, np.random.default_rng(0))
    assert abs(seen[0].mean()) < 1e-9 < abs(X[ROWS].mean())


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_memory_is_given_back_only_where_the_library_can(monkeypatch, error):
    def missing(name):
        raise error("no such function")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    memory.give_back()


def test_memory_of_a_row():
    import pandas as pd
    from scipy import sparse

    assert bytes_per_row(np.zeros((9, 4), dtype=np.float32)) == 16
    assert bytes_per_row(pd.DataFrame(np.zeros((9, 4)))) == 32
    assert bytes_per_row(sparse.eye(9, format="csr")) == 16
    assert bytes_per_row([1, 2, 3]) == 8

"""What is told apart by its role: tables of losses, and how many models are announced before they are fitted."""

from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import outofcluster as ooc
from outofcluster.auditing.price import before_fits
from outofcluster.sampling.audit_samples import MAIN, UNCAUGHT, exchanged

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(30), 6)
effect = rng.standard_normal((30, 3))
X = effect[groups] + 0.3 * rng.standard_normal((180, 3))
y = 2 * rng.standard_normal(30)[groups] + 0.3 * rng.standard_normal(180)


class Counting(KNeighborsRegressor):
    """Neighbours that count how often they are fitted."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        return super().fit(X, y)


@cache
def announced_and_made(**options):
    """What is announced, how many models were fitted, and the result."""
    heard, Counting.fits = [], 0
    with before_fits(heard.append):
        options = {"kernel": False, "random_state": 0} | options
        result = ooc.audit(Counting(2), X, y, groups=groups, leakage=0.1, cv=3, **options)
    (beginning,) = heard
    return beginning, Counting.fits, result


BOTH_WAYS = {"error_model": "records", "n_fits": 120, "unmix": False, "validation_leakage": 0.05}


@pytest.mark.parametrize(
    "options",
    [
        {"error_model": "records", "n_fits": 120, "unmix": False},
        {"error_model": "records", "n_fits": 600},
        BOTH_WAYS,
        {"error_model": "fragments", "n_fits": 120},
        {"error_model": "fragments", "n_fits": 120, "unmix": False},
    ],
    ids=["records", "sizes and below", "both ways", "pieces", "pieces that nothing shows"],
)
def test_as_many_models_are_fitted_as_are_announced(options):
    beginning, fitted, result = announced_and_made(**options)
    assert beginning.compiled_fits == 0
    assert beginning.fits == fitted
    resamples = sum(fold.n_fits for fold in result.samples.folds)
    assert resamples == result.summary.fits == options["n_fits"]


def test_models_without_pieces_are_counted_apart():
    """One without likely pieces and one control for every fold, where there are likely pieces."""
    made = ooc.datasets.make_patients(100, random_state=0)
    records = made.data, made.target.astype(float)
    result = ooc.audit(KNeighborsRegressor(2), *records, groups=made.groups, cv=3, random_state=0)
    assert result.summary.seen.pairs > 0
    assert [fold.fits_without for fold in result.summary.by_fold] == [2, 2, 2]
    assert "12 models fitted with imitated pieces and 6 without some training clusters" in " ".join(str(result).split())


class StopError(Exception):
    """Raised before the first fit."""


@pytest.mark.slow
def test_compiled_fits_are_those_of_all_runs():
    """Those with the sides exchanged are compiled as well."""
    heard = []

    def stop(beginning):
        heard.append(beginning)
        raise StopError

    for kernel in (True, False):
        with pytest.raises(StopError), before_fits(stop):
            ooc.audit(LinearRegression(), X, y, groups=groups, leakage=0.1, cv=3, kernel=kernel, **BOTH_WAYS)
    compiled, fitted = heard
    assert (compiled.compiled_fits, fitted.compiled_fits) == (120, 0)
    assert fitted.fits == compiled.fits + 120


def test_losses_on_training_records_are_told_apart_in_the_table():
    """Were they among the others, a mean over rows would mix losses of training records with those held out."""
    samples = announced_and_made(**BOTH_WAYS)[2].samples
    table = samples.to_frame()
    assert table.columns.tolist() == ["fold", "role", "size", "injected", "replicate", "loss"]
    assert set(table["role"]) == {MAIN, exchanged(MAIN)}
    for fold in samples.folds:
        for role, run in fold.runs.items():
            rows = table[(table["fold"] == fold.index) & (table["role"] == role)]
            assert rows["loss"].tolist() == np.concatenate(run.losses).tolist()
            assert rows["injected"].tolist() == np.repeat(run.injected, run.counts).tolist()
            assert rows["replicate"].tolist() == [replicate for count in run.counts for replicate in range(count)]
            assert (rows["size"] == run.size).all()
    assert len(table) == sum(fold.n_fits for fold in samples.folds)


def test_no_two_losses_of_a_table_have_the_same_name():
    for options in (BOTH_WAYS, {"error_model": "fragments", "n_fits": 120}):
        table = announced_and_made(**options)[2].samples.to_frame()
        assert not table.duplicated(["fold", "role", "size", "injected", "replicate"]).any()
        assert table["role"].nunique() == 2
    assert set(table["role"]) == {MAIN, UNCAUGHT}


# --- rates of pieces, which go further than those of records ---------------------------------------------


def test_a_tipping_point_of_pieces_may_lie_beyond_one_half():
    result = announced_and_made(error_model="fragments", n_fits=120)[2]
    half, most = result.value_at(0.5), result.value_at(0.85)
    assert most > half
    rate = result.tipping_point((half + most) / 2).rate
    assert 0.5 < rate < 0.85
    assert result.value_at(rate) == pytest.approx((half + most) / 2)
    assert result.tipping_point(result.value_at(0.9) + 1).rate is None


def test_so_may_that_of_a_comparison_of_pieces():
    """Neighbours follow the bend that a line cannot, but they also profit from pieces that leaked."""
    options = {"groups": groups, "leakage": 0.1, "cv": 3, "error_model": "fragments", "n_fits": 60, "unmix": False}
    models = {"neighbours": KNeighborsRegressor(2), "line": LinearRegression()}
    both = ooc.compare(models, X, y + 2.5 * np.abs(X[:, 0]), random_state=0, **options)
    rate = both.tipping_point("neighbours", "line").rate
    assert 0.5 < rate < 0.85
    assert both.audits["neighbours"].value_at(rate) == pytest.approx(both.audits["line"].value_at(rate))

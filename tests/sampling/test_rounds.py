"""Rounds of fits: each is a run of its own, and together they hold the replicates of all of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import outofcluster as ooc
from ooc_test_estimators import CountingRidge
from outofcluster._base.exceptions import InputError
from outofcluster.sampling.audit_samples import MAIN, joined_rounds

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(24), 5)
X = rng.standard_normal((24, 4))[groups] + 0.5 * rng.standard_normal((120, 4))
y = X[:, 0] + rng.standard_normal(24)[groups] + 0.5 * rng.standard_normal(120)
SMALLER = "size 8"


def audit(estimator=None, **options):
    given = {"groups": groups, "cv": 3, "leakage": 0.1, "error_model": "records", "unmix": False, "random_state": 0}
    return ooc.audit(Ridge() if estimator is None else estimator, X, y, **given | options)


@cache
def fixed(seed):
    """The samples of an audit of a fixed number of fits."""
    return audit(n_fits=90, random_state=seed).samples


def without_smaller_sizes(samples):
    """The samples of a round in which only the full size was fitted."""
    return replace(samples, folds=tuple(fold.without_sizes([SMALLER]) for fold in samples.folds))


# --- joined ---------------------------------------------------------------------------------------------


def test_two_rounds_hold_the_replicates_of_both():
    one, other = fixed(0), fixed(1)
    both = joined_rounds(one, other)
    assert [fold.index for fold in both.folds] == [0, 1, 2]
    for mine, theirs, joined in zip(one.folds, other.folds, both.folds, strict=True):
        assert joined.runs.keys() == mine.runs.keys() == {MAIN, SMALLER}
        for role, run in joined.runs.items():
            first, second = mine.runs[role], theirs.runs[role]
            assert run.injected.tolist() == first.injected.tolist() == second.injected.tolist()
            for losses, *parts in zip(run.losses, first.losses, second.losses, strict=True):
                assert losses.tolist() == np.concatenate(parts).tolist()
            assert run.seeds == (*first.seeds, *second.seeds)
            for kind in ("clusters", "records"):
                np.testing.assert_array_equal(run.effects[kind].units, first.effects[kind].units)
                expected = (first.counts / run.counts)[:, None] * first.influences(kind)
                expected += (second.counts / run.counts)[:, None] * second.influences(kind)
                np.testing.assert_allclose(run.influences(kind), expected, atol=1e-15)
    assert both.n_fits == one.n_fits + sum(fold.n_fits for fold in other.folds)


def test_roles_that_a_round_does_not_fit_stay_as_they_are():
    both = joined_rounds(fixed(0), without_smaller_sizes(fixed(1)))
    for mine, theirs, joined in zip(fixed(0).folds, fixed(1).folds, both.folds, strict=True):
        assert joined.main.counts.tolist() == (mine.main.counts + theirs.main.counts).tolist()
        assert joined.runs[SMALLER] is mine.runs[SMALLER]
    assert both.n_fits == fixed(0).n_fits + sum(fold.main.n_fits for fold in fixed(1).folds)


def test_what_is_fitted_once_is_that_of_the_first_round():
    """Unlike audits that are merged, rounds share it."""
    one, other = fixed(0), replace(fixed(1), n_baselines=1000)
    both, merged = joined_rounds(one, other), one.merge(other)
    assert both.random_folds is one.random_folds
    assert both.effect is one.effect
    assert both.n_baselines == one.n_baselines
    assert merged.random_folds.losses.tolist() != one.random_folds.losses.tolist()
    changed = replace(other, folds=tuple(replace(fold, own_losses=fold.own_losses + 1) for fold in other.folds))
    for mine, joined in zip(one.folds, joined_rounds(one, changed).folds, strict=True):
        assert joined.own_losses is mine.own_losses
        assert joined.pseudo is mine.pseudo


def test_a_fold_that_a_round_cannot_fit_is_left_out():
    one, other = fixed(0), fixed(1)
    fewer = replace(other, folds=(other.folds[2], other.folds[0]), left_out={1: "no luck"})
    both = joined_rounds(one, fewer)
    assert [fold.index for fold in both.folds] == [0, 2]
    assert both.left_out == {1: "no luck"}
    for place, joined in zip((0, 2), both.folds, strict=True):
        parts = one.folds[place].main.losses[0], other.folds[place].main.losses[0]
        assert joined.main.losses[0].tolist() == np.concatenate(parts).tolist()


def test_the_same_round_twice_is_refused():
    with pytest.raises(InputError, match="Samples with the same seed cannot be merged"):
        joined_rounds(fixed(0), fixed(0))


# --- of an audit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "options"),
    [(Ridge(), {"precision": 0.1}), (KNeighborsRegressor(3), {"error_model": "fragments", "precision": 0.05})],
    ids=["records", "fragments"],
)
def test_further_rounds_of_an_audit_come_after_the_first_one(estimator, options):
    alone, several = audit(estimator, time_limit=1e-9, **options), audit(estimator, **options)
    assert (alone.samples.ended, several.samples.ended) == ("time", "")
    for fold, more in zip(alone.samples.folds, several.samples.folds, strict=True):
        assert more.own_losses.tolist() == fold.own_losses.tolist()
        assert more.main.n_fits > fold.main.n_fits
        assert fold.runs.keys() == more.runs.keys()
        for role, first in fold.runs.items():
            run = more.runs[role]
            # Every round draws random numbers of its own.
            assert len(first.seeds) == 1
            assert run.seeds[0] == first.seeds[0]
            assert len(set(run.seeds)) == len(run.seeds)
            for losses, of_first in zip(run.losses, first.losses, strict=True):
                assert losses[: len(of_first)].tolist() == of_first.tolist()
                assert len(np.unique(losses)) == len(losses)
    assert several.cost.fits > alone.cost.fits
    assert several.optimism.se_monte_carlo <= options["precision"] * several.optimism.se_data


def test_an_audit_that_ended_early_goes_on_with_a_further_round(tmp_path):
    """From its checkpoint: nothing of the first round is fitted again."""
    options = {"precision": 0.1, "checkpoint": tmp_path / "run"}
    CountingRidge.fits = 0
    undisturbed = audit(CountingRidge(), **options | {"checkpoint": None})
    total, CountingRidge.fits = CountingRidge.fits, 0
    audit(CountingRidge(), time_limit=1e-9, **options)
    of_first, CountingRidge.fits = CountingRidge.fits, 0
    whole = audit(CountingRidge(), **options)
    assert 0 < CountingRidge.fits == total - of_first
    assert whole.samples.n_fits == undisturbed.samples.n_fits
    for one, other in zip(whole.samples.folds, undisturbed.samples.folds, strict=True):
        for role, run in one.runs.items():
            assert [level.tolist() for level in run.losses] == [level.tolist() for level in other.runs[role].losses]
    CountingRidge.fits = 0
    assert audit(CountingRidge(), **options).to_json() == undisturbed.to_json()
    assert CountingRidge.fits == 0

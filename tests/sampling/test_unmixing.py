"""Negative injected fractions: weights that remove a mass, and draws and thinned sets that follow them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from outofcluster.curves.unmixing import injected_of_mass
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import UNMIXED
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.resamplers import DrawRecords, RatioWeights, WeighRecords, _strength
from outofcluster.sampling.run import Run, RunSettings, prepare

rng = np.random.default_rng(0)
X = np.concatenate([rng.standard_normal((90, 3)), rng.standard_normal((45, 3)) + 2])
y = X[:, 0] + rng.standard_normal(135)
train, validation = np.arange(100), np.arange(100, 135)  # rows 90 to 99 of T̂ leaked
ratios = np.exp(rng.standard_normal((5, 100))) + 5 * (np.arange(100) >= 90)
weights = RatioWeights(ratios, np.exp(rng.standard_normal(35)) + 5, np.arange(35) % 5)


@pytest.mark.parametrize("mass", [0.01, 0.1, 0.4, 0.7, -0.15])
def test_the_strength_removes_the_mass_exactly(mass):
    """Against bisection of the mean weight."""
    ratio = ratios[0]
    mean = np.maximum(1 - _strength(ratio, mass) * ratio, 0).mean()
    assert mean == pytest.approx(1 - mass, abs=1e-12)
    if mass > 0:
        low, high = 0.0, 1e3
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if np.maximum(1 - middle * ratio, 0).mean() < 1 - mass else (middle, high)
        assert _strength(ratio, mass) == pytest.approx(high)


def test_uniform_draws_from_the_list_are_weighted_draws():
    a = float(injected_of_mass(0.3))
    counts = np.bincount(weights.drawn_from(a, 2), minlength=100)
    share = weights.weights(a, 2) / weights.weights(a, 2).sum()
    np.testing.assert_allclose(counts / counts.sum(), share, atol=1e-4)


def test_what_is_kept_and_effective_by_hand():
    a = float(injected_of_mass(0.3))
    w = np.stack([weights.weights(a, k) for k in range(5)])
    s = [_strength(ratios[k], 0.3) for k in range(5)]
    of_v = [np.maximum(1 - s[k] * weights.validation[weights.part == k], 0).mean() for k in range(5)]
    assert weights.kept(a) == pytest.approx(np.mean(of_v) / 0.7)
    assert weights.effective(a) == pytest.approx(np.mean(w.sum(axis=1) ** 2 / (w**2).sum(axis=1)))
    assert weights.kept(0.0) == pytest.approx(1)


def test_thinning_keeps_records_with_the_probability_of_their_weight():
    injection = WeighRecords(DrawRecords(100, 100, 35), weights, thin=True)
    a = float(injected_of_mass(0.3))
    for part in (1, 4):
        draws = [injection.draw(np.random.default_rng(i), a, 5 * i + part) for i in range(2000)]
        kept = np.array([np.bincount(draw.from_train, minlength=100) for draw in draws])
        assert kept.max() == 1
        np.testing.assert_allclose(kept.mean(axis=0), weights.weights(a, part), atol=0.05)
        assert all((draw.scored % 5 == part).all() and len(draw.from_validation) == 0 for draw in draws)


def kept_by(injection, a, replicate):
    """Which records of T a replicate keeps, drawn anew: those whose moved uniform is below their weight."""
    uniforms = np.random.default_rng([injection.seed, replicate // 5]).random(100)
    moved = (uniforms + replicate % 5 / 5) % 1
    return np.flatnonzero(moved < injection.weights.weights(a, replicate % 5)).tolist()


def test_the_replicates_of_a_turn_share_their_uniforms_and_turns_and_seeds_do_not():
    injection, a = WeighRecords(DrawRecords(100, 100, 35), weights, thin=True, seed=8), float(injected_of_mass(0.3))
    rng, kept = np.random.default_rng(0), []
    for replicate in range(15):
        kept.append(injection.draw(rng, a, replicate).from_train.tolist())
        assert kept[-1] == kept_by(injection, a, replicate)
    assert len({tuple(records) for records in kept}) == 15
    assert replace(injection, seed=9).draw(rng, a, 0).from_train.tolist() != kept[0]
    # The same turn at a level that removes more: no record comes in.
    further = [injection.draw(rng, float(injected_of_mass(0.5)), replicate).from_train for replicate in range(15)]
    assert all(set(less) < set(more) for less, more in zip(further, kept, strict=True))


@pytest.mark.parametrize("mass", [0.1, 0.2, 0.4])
def test_a_turn_keeps_every_record_about_as_often_as_its_weight_says(mass):
    """Not as a record that is drawn anew by each replicate, which is kept a binomial number of times."""
    even = RatioWeights(np.ones((5, 100)), np.ones(35), np.arange(35) % 5)
    injection, a = WeighRecords(DrawRecords(100, 100, 35), even, thin=True), float(injected_of_mass(mass))
    rng, turns = np.random.default_rng(0), []
    for turn in range(50):
        of_turn = [injection.draw(rng, a, 5 * turn + part).from_train for part in range(5)]
        turns.append(np.bincount(np.concatenate(of_turn), minlength=100))
    often = np.array(turns)
    assert often.mean() == pytest.approx(5 * (1 - mass), abs=0.05)
    assert np.abs(often - 5 * (1 - mass)).max() <= 1.01
    assert often.var() < 0.7 * 5 * mass * (1 - mass)


def sampling(estimator, target, *, kernel, thinned, n_fits=600, seed=3):
    task = Task.check(estimator, X, target, groups=np.arange(135) // 9)
    levels = injected_of_mass(np.array([0.4, 0.1, -0.15]))
    resampler = WeighRecords(DrawRecords(100, 100, 35), weights, always=True, thin=thinned, seed=seed)
    run = Run(UNMIXED, Fold(0, train, validation), resampler, n_fits, seed, levels)
    prepared = prepare(task, run, RunSettings(("records",), kernel))
    return prepared.start(Progress(n_fits, show=False).part(), n_jobs=None)[UNMIXED][0]


@pytest.mark.parametrize("thinned", [False, True])
@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression()])
def test_kernels_and_fits_see_the_same_resamples(estimator, thinned):
    target = y if isinstance(estimator, Ridge) else (y > 1).astype(int)
    compiled, fitted = (
        sampling(estimator, target, kernel=kernel, thinned=thinned, n_fits=60) for kernel in (True, False)
    )
    for one, other in zip(compiled.losses, fitted.losses, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=0.02)
    (of_kernel,), (of_fits,) = compiled.effects.values(), fitted.effects.values()
    assert of_kernel.units.tolist() == of_fits.units.tolist() == validation.tolist()
    close = {"rtol": 1e-7, "atol": 1e-9} if isinstance(estimator, Ridge) else {"atol": 0.05}
    np.testing.assert_allclose(of_kernel.sums, of_fits.sums, **close)


def test_every_part_is_scored_by_as_many_replicates_and_turns_stand_for_them():
    samples = sampling(Ridge(), y, kernel=False, thinned=True, n_fits=47)
    assert samples.strata.tolist() == [5, 5, 5]
    assert all(len(level) % 5 == 0 for level in samples.losses)
    for level, error in zip(samples.losses, samples.standard_errors, strict=True):
        turns = [level[first : first + 5].mean() for first in range(0, len(level), 5)]
        assert len(turns) == 3
        assert error == pytest.approx(np.std(turns, ddof=1) / np.sqrt(3))
    assert samples.effective[1] > samples.effective[0]
    assert samples.n_fits == sum(map(len, samples.losses))
    # Of a single turn there is only the spread of its replicates, which is more.
    once = sampling(Ridge(), y, kernel=False, thinned=True, n_fits=15)
    for level, error in zip(once.losses, once.standard_errors, strict=True):
        assert error == pytest.approx(np.std(level, ddof=1) / np.sqrt(5))


def test_the_standard_error_is_that_of_means_drawn_anew():
    """Means of four turns with other seeds: the errors that each of them claims are right on average."""
    runs = [sampling(Ridge(), y, kernel=True, thinned=True, n_fits=60, seed=seed) for seed in range(40)]
    means, errors = (np.array([getattr(run, name) for run in runs]) for name in ("means", "standard_errors"))
    ratio = np.sqrt((errors**2).mean(axis=0)) / means.std(axis=0, ddof=1)
    assert (np.abs(ratio - 1) < 0.35).all()


def world(seed=3, turned=1.0, rate=0.1):
    own = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(8), 100)
    features = own.standard_normal((8, 6))[cluster] + 0.5 * own.standard_normal((800, 6))
    slopes = np.zeros((8, 6))
    slopes[:, 0] = 1.0
    slopes[6:] += turned * own.standard_normal(6)
    target = (features * slopes[cluster]).sum(axis=1) + 0.5 * own.standard_normal(800)
    split = ooc.simulate_leakage(cluster, [6, 7], rate, random_state=seed)
    return features, target, cluster, split


def test_negative_fractions_by_the_public_call(tmp_path):
    features, target, _, split = world()
    options = {"train": split.train, "validation": split.validation, "n_fits": 300, "random_state": 0}
    samples = ooc.sample_losses(Ridge(), features, target, injected=[-0.1, 0.0, 0.2], **options)
    assert samples.injected.tolist() == [-0.1, 0.0, 0.2]
    assert samples.means[0] > samples.means[1] > samples.means[2]
    assert samples.strata.tolist() == [3, 1, 1]
    assert samples.kept[0] < 1 == samples.kept[1]
    samples.save(tmp_path / "samples")
    again = ooc.LossSamples.load(tmp_path / "samples")
    assert again.effective.tolist() == samples.effective.tolist()
    other = ooc.sample_losses(Ridge(), features, target, injected=[-0.1, 0.3], **options | {"random_state": 1})
    both = samples.merge(other)
    assert both.strata.tolist() == [3, 1, 1, 1]
    counts = [len(samples.losses[0]), len(other.losses[0])]
    assert both.kept[0] == pytest.approx(np.average([samples.kept[0], other.kept[0]], weights=counts))
    for wrong, message in [
        ({"injected": [-20.0, 0.0]}, "injected must leave enough of the training records to draw from, got -20"),
        (
            {"injected": [-0.1], "discriminator": Ridge()},
            "discriminator must be 'auto' or a classifier with",
        ),
        (
            {"injected": [-0.1], "error_model": "fragments", "groups": split.groups},
            r"injected must be left out",
        ),
    ]:
        with pytest.raises(ooc.InputError, match=message):
            ooc.sample_losses(Ridge(), features, target, **options | wrong)


def test_a_classifier_of_the_user_s_tells_the_sides_apart():
    features, target, _, split = world()
    options = {"train": split.train, "validation": split.validation, "n_fits": 60, "random_state": 0}
    samples = ooc.sample_losses(Ridge(), features, target, injected=[-0.1, 0.0], discriminator=GaussianNB(), **options)
    assert samples.strata.tolist() == [3, 1]


def test_a_thinned_draw_that_cannot_be_used_is_drawn_again():
    """Two records of the rarer class, each of which is kept with probability 0.6: some draws keep none of them."""
    rare = np.zeros(100, dtype=bool)
    rare[[3, 60]] = True
    even = RatioWeights(np.where(rare, 0.4, 0.0)[None, :] + np.zeros((5, 1)), np.ones(35), np.arange(35) % 5)
    injection, rng = WeighRecords(DrawRecords(100, 100, 35), even, thin=True), np.random.default_rng(0)
    a = float(injected_of_mass(0.008))
    again = [rare[injection.draw(rng, a, 0, attempt).from_train].sum() for attempt in range(1, 60)]
    assert {0, 1, 2} == set(again)

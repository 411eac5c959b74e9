"""Negative injected fractions: weights that remove a mass, and draws and thinned sets that follow them."""

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
    draws = [injection.draw(np.random.default_rng(i), a, 5 * i + 1) for i in range(2000)]
    kept = np.mean([np.bincount(draw.from_train, minlength=100) for draw in draws], axis=0)
    np.testing.assert_allclose(kept, weights.weights(a, 1), atol=0.05)
    assert all((draw.scored % 5 == 1).all() and len(draw.from_validation) == 0 for draw in draws)


def sampling(estimator, target, *, kernel, thinned, n_fits=600):
    task = Task.check(estimator, X, target, groups=np.arange(135) // 9)
    levels = injected_of_mass(np.array([0.4, 0.1, -0.15]))
    resampler = WeighRecords(DrawRecords(100, 100, 35), weights, always=True, thin=thinned)
    run = Run(UNMIXED, Fold(0, train, validation), resampler, n_fits, 3, levels)
    prepared = prepare(task, run, RunSettings(("records",), kernel))
    return prepared.start(Progress(n_fits, show=False), n_jobs=None)[0]


@pytest.mark.parametrize("thinned", [False, True])
@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression()])
def test_kernels_and_fits_see_the_same_resamples(estimator, thinned):
    target = y if isinstance(estimator, Ridge) else (y > 1).astype(int)
    compiled, fitted = (
        sampling(estimator, target, kernel=kernel, thinned=thinned, n_fits=60) for kernel in (True, False)
    )
    for one, other in zip(compiled.losses, fitted.losses, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=0.02)
    np.testing.assert_allclose(
        compiled.sums["records"].validation[:, :, 8], fitted.sums["records"].validation[:, :, 8], atol=0.05
    )


def test_every_part_is_scored_by_as_many_replicates_and_only_spread_within_parts_counts():
    samples = sampling(Ridge(), y, kernel=False, thinned=True, n_fits=47)
    assert samples.strata.tolist() == [5, 5, 5]
    assert all(len(level) % 5 == 0 for level in samples.losses)
    level = samples.losses[0]
    within = np.mean([level[part::5].var(ddof=1) for part in range(5)])
    assert samples.standard_errors[0] == pytest.approx(np.sqrt(within / len(level)))
    assert samples.effective[1] > samples.effective[0]
    assert samples.n_fits == sum(map(len, samples.losses))


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
    assert samples.strata.tolist() == [5, 1, 1]
    assert samples.kept[0] < 1 == samples.kept[1]
    samples.save(tmp_path / "samples")
    again = ooc.LossSamples.load(tmp_path / "samples")
    assert again.effective.tolist() == samples.effective.tolist()
    other = ooc.sample_losses(Ridge(), features, target, injected=[-0.1, 0.3], **options | {"random_state": 1})
    both = samples.merge(other)
    assert both.strata.tolist() == [5, 1, 1, 1]
    counts = [len(samples.losses[0]), len(other.losses[0])]
    assert both.kept[0] == pytest.approx(np.average([samples.kept[0], other.kept[0]], weights=counts))
    for wrong, message in [
        ({"injected": [-20.0, 0.0]}, "injected must leave enough of the training records to draw from, got -20"),
        (
            {"injected": [-0.1], "discriminator": Ridge()},
            "discriminator must be 'auto' or a classifier with",
        ),
        ({"injected": [-0.1], "error_model": "fragments", "groups": split.groups}, "between 0 and 1, got -0.1"),
    ]:
        with pytest.raises(ooc.InputError, match=message):
            ooc.sample_losses(Ridge(), features, target, **options | wrong)


def test_a_classifier_of_the_user_s_tells_the_sides_apart():
    features, target, _, split = world()
    options = {"train": split.train, "validation": split.validation, "n_fits": 60, "random_state": 0}
    samples = ooc.sample_losses(Ridge(), features, target, injected=[-0.1, 0.0], discriminator=GaussianNB(), **options)
    assert samples.strata.tolist() == [5, 1]

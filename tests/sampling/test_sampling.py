"""Sampling: the same bits however it is run, and the right numbers."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.sampling.fitting import Block, Units, Workload
from outofcluster.sampling.resamplers import Draw, DrawRecords

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 4))
y = (X[:, 0] + 0.8 * rng.standard_normal(120) > 0).astype(int)
continuous = X[:, 0] + 0.5 * rng.standard_normal(120)
groups = np.repeat(np.arange(24), 5)
train, validation = np.arange(80), np.arange(80, 120)


def sample(estimator=None, data=X, target=y, **options):
    given = {"train": train, "validation": validation, "n_train": 40, "n_fits": 40, "random_state": 1} | options
    return ooc.sample_losses(LogisticRegression() if estimator is None else estimator, data, target, **given)


def same(one, two):
    assert (one.injected == two.injected).all()
    assert [list(level) for level in one.losses] == [list(level) for level in two.losses]
    assert one.units == two.units
    for mine, theirs in zip(one.sums.values(), two.sums.values(), strict=True):
        assert (mine.train == theirs.train).all()
        assert (mine.validation == theirs.validation).all()
    assert (one.redraws == two.redraws).all()
    return True


# --- the same bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error_model", "n_fits"), [("records", 45), ("records", 500), ("fragments", 45)])
@pytest.mark.slow
def test_workers_and_backends_do_not_change_a_bit(n_fits, error_model):
    options = {"n_fits": n_fits, "error_model": error_model, "groups": groups}
    one = sample(n_jobs=1, **options)
    assert one.n_fits == n_fits
    assert same(one, sample(n_jobs=2, **options))
    with parallel_config("threading"):
        assert same(one, sample(n_jobs=2, **options))


@pytest.mark.slow
def test_batches_do_not_change_a_bit(monkeypatch):
    from outofcluster.sampling import engine

    one = sample(n_jobs=2, n_fits=500)
    monkeypatch.setattr(engine, "_BATCH_SECONDS", 1e-9)
    assert same(one, sample(n_jobs=2, n_fits=500))


@pytest.mark.slow
def test_a_backend_that_cannot_return_generators(monkeypatch):
    from joblib._parallel_backends import LokyBackend

    one = sample(n_fits=60)
    monkeypatch.setattr(LokyBackend, "supports_return_generator", False)
    assert same(one, sample(n_fits=60, n_jobs=2))


def test_seeds_matter_and_open_random_states_are_filled_from_them():
    forest = RandomForestClassifier(2)
    first, again, other = (sample(forest, n_fits=12, random_state=seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert first.losses[0].tolist() != other.losses[0].tolist()
    assert sample().seeds == (1,)
    assert sample(random_state=None).seeds != sample(random_state=None).seeds


def test_the_estimator_is_never_fitted_and_global_state_is_left_alone():
    estimator = LogisticRegression()
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    sample(estimator)
    assert not hasattr(estimator, "coef_")
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


# --- the right numbers --------------------------------------------------------------------------------


def ridge_loss(rows, rest):
    """The loss on some rows of a ridge regression on others, by the normal equations."""
    centre, level = X[rows].mean(axis=0), continuous[rows].mean()
    moved = X[rows] - centre
    slopes = np.linalg.solve(moved.T @ moved + np.eye(4), moved.T @ (continuous[rows] - level))
    return np.mean((level + (X[rest] - centre) @ slopes - continuous[rest]) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("replace", [True, False])
def test_means_agree_with_algorithm_1_written_anew(kernel, replace):
    """Within 4 standard errors at each of three levels."""
    samples = sample(Ridge(), target=continuous, injected=[0, 0.4, 0.8], n_fits=1200, kernel=kernel, replace=replace)
    own = np.random.default_rng(7)
    for level, a in enumerate([0, 0.4, 0.8]):
        losses = []
        while len(losses) < 400:
            m = int((own.random(40) < a).sum())
            if replace:
                rows = np.concatenate([own.choice(validation, m), own.choice(train, 40 - m)])
            else:
                rows = np.concatenate([own.permutation(validation)[:m], own.permutation(train)[: 40 - m]])
            rest = np.setdiff1d(validation, rows)
            if len(rest):
                losses.append(ridge_loss(rows, rest))
        error = np.hypot(np.std(losses) / 20, samples.standard_errors[level])
        assert abs(np.mean(losses) - samples.means[level]) < 4 * error


def test_kernels_and_fits_see_the_same_resamples():
    """Least squares has one answer: with the same draws both paths give the same losses to rounding."""
    options = {"target": continuous, "injected": [0.0, 0.5], "n_fits": 400}
    compiled, fitted = (sample(LinearRegression(), kernel=kernel, **options) for kernel in (True, False))
    for one, two in zip(compiled.losses, fitted.losses, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)
    (of_kernel,), (of_fits,) = compiled.sums.values(), fitted.sums.values()
    np.testing.assert_allclose(of_kernel.train, of_fits.train, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(of_kernel.validation, of_fits.validation, rtol=1e-7, atol=1e-9)


def test_fragments_move_pieces_of_clusters():
    """One nearest neighbour on clusters that are single points: a scored record is right if its cluster leaked."""
    points = np.repeat(np.arange(24.0)[:, None] * 10, 5, axis=0)
    labels = np.repeat(np.arange(24) % 2, 5)
    held_out = np.isin(groups, [3, 8, 11, 14, 19, 22])
    far = points + 1000 * held_out[:, None]
    samples = ooc.sample_losses(
        KNeighborsClassifier(1),
        far,
        labels,
        train=np.flatnonzero(~held_out),
        validation=np.flatnonzero(held_out),
        groups=groups,
        error_model="fragments",
        injected=[0, 1],
        n_fits=20,
        random_state=0,
    )
    assert samples.size == 6
    assert samples.means[1] == 0
    assert samples.means[0] > 0.2


def test_jackknife_moments_against_their_definition():
    """Z from its definition, replicate by replicate, with the draws recorded on the way."""
    from outofcluster.sampling import fitting

    recorded = []
    original = fitting._fit_and_score

    def record(problem, stream, draw, *more):
        scores = original(problem, stream, draw, *more)
        [(t, effects)] = scores
        recorded.append((draw, t, effects[0]))
        return scores

    fitting._fit_and_score = record
    try:
        samples = sample(injected=[0.3, 0.6], n_fits=24, groups=groups)
    finally:
        fitting._fit_and_score = original
    jackknife = samples.jackknife()
    pools = (
        (jackknife.train, groups[train], "from_train"),
        (jackknife.validation, groups[validation], "from_validation"),
    )
    for level in range(2):
        runs = recorded[12 * level : 12 * level + 12]
        mean_loss = np.mean([t for _, t, _ in runs])
        for pool, labels, name in pools:
            clusters = np.unique(labels)
            assert pool.sizes.tolist() == [5] * len(clusters)
            Z = np.zeros((12, len(clusters)))
            for b, (draw, t, effect) in enumerate(runs):
                drawn = getattr(draw, name)
                for c, cluster in enumerate(clusters):
                    N, M = np.sum(labels[drawn] == cluster), len(drawn)
                    Z[b, c] = (N - M * 5 / len(labels)) * (t - mean_loss)
                    if name == "from_validation":
                        Z[b, c] += effect[c]
            np.testing.assert_allclose(pool.mean[level], Z.mean(axis=0), atol=1e-12)
            np.testing.assert_allclose(pool.variance[level], Z.var(axis=0, ddof=1), atol=1e-12)


@pytest.mark.slow
def test_the_curve_is_fitted_to_samples():
    samples = sample(LinearRegression(), target=continuous, n_fits=2000)
    curve = ooc.PolynomialCurve(2).fit(samples, leakage=0.1)
    p = 0.1 + 0.9 * samples.injected
    weights = samples.standard_errors**-2
    by_hand = ooc.PolynomialCurve(2).fit_points(p, samples.means, 40, weights / weights.mean())
    assert curve.e0_ == pytest.approx(by_hand.e0_)
    assert curve.n_ == 40
    for wrong in (-0.1, 1.0, np.nan):
        with pytest.raises(ValueError, match="leakage must"):
            ooc.PolynomialCurve(2).fit(samples, leakage=wrong)


# --- plans --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_budget_is_spent_to_the_last_fit():
    for n_fits in (6, 7, 23, 100, 333):
        assert sample(n_fits=n_fits).n_fits == n_fits
    assert [len(level) for level in sample(injected=[0, 0.5, 1e-3], n_fits=10).losses] == [4, 3, 3]


@pytest.mark.slow
def test_more_fits_go_where_they_pay():
    counts = [len(level) for level in sample(LinearRegression(), target=continuous, n_fits=3000).losses]
    assert counts[0] == max(counts) > 3 * min(counts)


def test_stops_once_the_standard_error_is_reached():
    loose = sample(LinearRegression(), target=continuous, n_fits=20_000, standard_error=0.05)
    tight = sample(LinearRegression(), target=continuous, n_fits=20_000, standard_error=0.01)
    assert loose.n_fits < tight.n_fits < 20_000
    curve = ooc.PolynomialCurve(3).fit(tight, leakage=0.1)
    assert np.sqrt((curve.influence_**2 * tight.standard_errors**2).sum()) < 0.012


def test_enough_of_the_validation_rows_stays_unused():
    samples = sample(n_train=400, n_fits=30)
    assert samples.injected[-1] < 0.2
    assert sample(n_train=20, n_fits=30).injected[-1] == 1


# --- internals that the above rest on -----------------------------------------------------------------


def test_blocks_are_independent_of_each_other():
    from outofcluster.problem.problem import Task
    from outofcluster.sampling.fitting import run_blocks

    units = [(Units(np.arange(len(rows)), np.ones(len(rows), dtype=int)),) for rows in (train, validation)]
    key = np.array([1, 2], dtype=np.uint64)
    task = Task.check(Ridge(), X, continuous)
    problem = Workload(task, train, validation, DrawRecords(40, 80, 40), key, *units, None)
    whole = run_blocks(problem, [Block(1, 0.3, 0, 6)])[0]
    pieces = run_blocks(problem, [Block(1, 0.3, 0, 2), Block(1, 0.3, 2, 4)])
    assert whole.losses[0].tolist() == [*pieces[0].losses[0], *pieces[1].losses[0]]
    assert isinstance(DrawRecords(40, 80, 40).draw(np.random.default_rng(0), 0.5), Draw)

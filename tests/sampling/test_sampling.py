"""Sampling: the same bits however it is run, the right numbers, and little noise."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.metrics.base import Partition
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import MAIN
from outofcluster.sampling.fitting import Block, Workload, run_blocks
from outofcluster.sampling.kernels.kernel import draw_records
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.resamplers import Draw, DrawRecords, RatioWeights, WeighRecords
from outofcluster.sampling.run import PreparedRun, Run, RunSettings, prepare

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
    for mine, theirs in zip(one.effects.values(), two.effects.values(), strict=True):
        assert (mine.units == theirs.units).all()
        assert (mine.sums == theirs.sums).all()
    assert (one.redraws == two.redraws).all()
    return True


# --- the same bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error_model", "n_fits"), [("records", 45), ("records", 500), ("fragments", 44)])
@pytest.mark.slow
def test_workers_and_backends_do_not_change_a_bit(n_fits, error_model):
    options = {"n_fits": n_fits, "error_model": error_model, "groups": groups}
    if error_model == "fragments":
        options["n_train"] = None
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
    with pytest.warns(UserWarning, match="LokyBackend hands back all results of a step together"):
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
    np.testing.assert_allclose(compiled.influences(), fitted.influences(), rtol=1e-7, atol=1e-9)


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
        n_fits=20,
        random_state=0,
    )
    assert samples.size == 6
    assert samples.means[1] == 0
    assert samples.means[0] > 0.2


def replayed(seed, replicate, a, target, *, n=40, replace=True, classifier=False):
    """The rows that train and the positions in V that are scored, drawn anew from the stream of a replicate."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    stream = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, replicate]))
    while True:
        t, v = draw_records(stream, a, n, len(train), len(validation), replace)
        rows, scored = np.concatenate([train[t], validation[v]]), np.setdiff1d(np.arange(len(validation)), v)
        if len(scored) and not (classifier and len(np.unique(target[rows])) == 1):
            return rows, scored


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(("estimator", "kernel"), [(Ridge(), True), (Ridge(), False), (GaussianNB(), False)])
def test_losses_and_influences_against_their_definition(estimator, kernel, replace):
    """Draw by draw: the mean loss t of the scored records, and E of every unit, whose mean is its influence."""
    classifier, levels = isinstance(estimator, GaussianNB), [0.0, 0.3, 0.9]
    target = y if classifier else continuous
    options = {"injected": levels, "n_fits": 37, "groups": groups, "units": "both", "replace": replace}
    samples = sample(estimator, target=target, kernel=kernel, random_state=6, **options)
    assert samples.units == ("clusters", "records")
    assert samples.counts.tolist() == [13, 12, 12]
    clusters = groups[validation]
    assert samples.effects["clusters"].units.tolist() == np.unique(clusters).tolist()
    assert samples.effects["records"].units.tolist() == validation.tolist()
    for level, a in enumerate(levels):
        E = np.zeros((samples.counts[level], len(validation)))
        for b in range(len(E)):
            rows, scored = replayed(6, b, a, target, replace=replace, classifier=classifier)
            prediction = clone(estimator).fit(X[rows], target[rows]).predict(X[validation[scored]])
            wrong = prediction - target[validation[scored]]
            losses = np.abs(wrong) if classifier else wrong**2
            assert samples.losses[level][b] == pytest.approx(losses.mean(), rel=1e-9)
            E[b, scored] = (losses - losses.mean()) / len(scored)
        np.testing.assert_allclose(samples.influences("records")[level], E.mean(axis=0), atol=1e-10)
        of_clusters = [E[:, clusters == cluster].sum(axis=1).mean() for cluster in np.unique(clusters)]
        np.testing.assert_allclose(samples.influences("clusters")[level], of_clusters, atol=1e-10)
        np.testing.assert_allclose(samples.influences(), samples.influences("clusters"))


# --- the same draws at every level ----------------------------------------------------------------------


def recorded(monkeypatch, **options):
    """The first draw of every replicate at every level, as positions in T and V, in the order of the levels."""
    draws, original = {}, DrawRecords.draw

    def record(self, rng, injected, replicate=0, attempt=0):
        drawn = original(self, rng, injected, replicate, attempt)
        draws.setdefault((injected, replicate), drawn)
        return drawn

    monkeypatch.setattr(DrawRecords, "draw", record)
    sample(GaussianNB(), injected=LEVELS, n_fits=10 * len(LEVELS), kernel=False, **options)
    monkeypatch.undo()
    assert len(draws) == 10 * len(LEVELS)
    return [[draws[a, replicate] for a in LEVELS] for replicate in range(10)]


LEVELS = [0.0, 0.05, 0.2, 0.6]


def is_left_of(some, whole):
    """Whether some entries are left, in the same order, once others have been taken out of a list."""
    rest = iter(whole.tolist())
    return all(each in rest for each in some.tolist())


def test_a_replicate_draws_the_same_records_at_every_level(monkeypatch):
    """But for those of V in the place of some of T, which stay in at higher levels."""
    for by_level in recorded(monkeypatch):
        assert len(by_level[0].from_validation) == 0
        assert len(by_level[-1].from_validation) > 10
        for lower, higher in itertools.pairwise(by_level):
            assert is_left_of(higher.from_train, lower.from_train)
            assert is_left_of(lower.from_validation, higher.from_validation)
            assert set(higher.scored) <= set(lower.scored)


def test_without_replacement_a_replicate_draws_the_same_records_at_every_level(monkeypatch):
    for by_level in recorded(monkeypatch, replace=False):
        for drawn in by_level[1:]:
            assert drawn.from_train.tolist() == by_level[0].from_train[: len(drawn.from_train)].tolist()
        for less, more in pairwise(by_level):
            assert less.from_validation.tolist() == more.from_validation[: len(less.from_validation)].tolist()


@pytest.mark.parametrize("kernel", [True, False])
def test_losses_of_a_replicate_move_together_over_levels(kernel):
    """Levels that are close differ by a few records: with and without a kernel their losses hardly differ."""
    samples = sample(Ridge(), target=continuous, injected=[0.1, 0.11], n_fits=200, kernel=kernel)
    low, high = samples.losses
    assert np.mean(low == high) > 0.5
    assert (high - low).std() < 0.4 * low.std()


# --- compared with the user's own model -----------------------------------------------------------------


def prepared(*, levels=(0.0, 0.3, 0.8), n_fits=60, kernel=False, weights=None, **how):
    """A run that has been checked and can start; ``weights`` draw T by weights at every level."""
    task = Task.check(Ridge(), X, continuous, groups=groups, **how)
    resampler = DrawRecords(40, len(train), len(validation))
    if weights is not None:
        resampler = WeighRecords(resampler, weights, always=True)
    run = Run(MAIN, Fold(0, train, validation), resampler, n_fits, 4, np.array(levels))
    return prepare(task, run, RunSettings(("clusters", "records"), kernel))


def started(run):
    return run.start(Progress(run.budget, show=False).part(), n_jobs=1)[MAIN]


def own_losses():
    """The losses of the user's own model on the records of V."""
    return (Ridge().fit(X[train], continuous[train]).predict(X[validation]) - continuous[validation]) ** 2


@pytest.mark.parametrize("kernel", [True, False])
def test_a_loss_is_compared_with_the_users_own_model_on_the_records_that_it_scores(kernel):
    run, own = prepared(kernel=kernel), own_losses()
    assert (run.workload.compiled is not None) == kernel
    (plain,), (compared,) = started(run), started(run.knowing([own]))
    for level, a in enumerate([0.0, 0.3, 0.8]):
        for b in range(20):
            _, scored = replayed(4, b, a, continuous)
            harder = own[scored].mean() - own.mean()
            assert compared.losses[level][b] == pytest.approx(plain.losses[level][b] - harder, rel=1e-9)
    # Without records of V in training all of V is scored, and there is nothing to compare.
    np.testing.assert_allclose(compared.losses[0], plain.losses[0], rtol=1e-12)
    assert np.abs(compared.losses[2] - plain.losses[2]).max() > 0.01
    for kind in ("clusters", "records"):
        np.testing.assert_array_equal(compared.influences(kind), plain.influences(kind))


@pytest.mark.parametrize("kernel", [True, False])
def test_the_comparison_leaves_the_expectation_and_lowers_the_variance(kernel):
    run = prepared(levels=[0.3, 0.8], n_fits=800, kernel=kernel)
    (plain,), (compared,) = started(run), started(run.knowing([own_losses()]))
    for level, at_most in enumerate((0.8, 0.65)):
        moved = compared.losses[level] - plain.losses[level]
        assert abs(moved.mean()) < 4 * moved.std() / np.sqrt(len(moved))
        assert compared.losses[level].var() < at_most * plain.losses[level].var()
        assert compared.standard_errors[level] < plain.standard_errors[level]


def test_losses_that_have_nothing_to_do_with_the_model_leave_the_expectation_as_well():
    """Any number for each record of V will do; it is only the variance that depends on them."""
    run = prepared(levels=[0.6], n_fits=300)
    numbers = np.random.default_rng(1).standard_normal(len(validation)) + 7
    (plain,), (compared,) = started(run), started(run.knowing([numbers]))
    moved = compared.losses[0] - plain.losses[0]
    assert abs(moved.mean()) < 4 * moved.std() / np.sqrt(len(moved))
    assert compared.losses[0].var() > plain.losses[0].var()


def test_every_metric_is_compared_with_its_own_losses():
    run = prepared(scoring=["neg_mean_squared_error", "r2"], n_fits=30)
    squared, pseudo = own_losses(), np.random.default_rng(2).standard_normal(len(validation))
    plain, compared = started(run), started(run.knowing([squared, pseudo]))
    for one, other, own in zip(plain, compared, (squared, pseudo), strict=True):
        for level, a in enumerate([0.0, 0.3, 0.8]):
            scored = [replayed(4, b, a, continuous)[1] for b in range(10)]
            harder = [own[each].mean() - own.mean() for each in scored]
            np.testing.assert_allclose(one.losses[level] - other.losses[level], harder, atol=1e-9)


@pytest.mark.parametrize("kernel", [True, False])
def test_draws_by_weights_are_compared_on_the_part_that_they_score(kernel):
    part = np.arange(len(validation)) % 5
    ratio = np.exp(np.random.default_rng(3).standard_normal((5, len(train))))
    run = prepared(
        levels=[-0.2, 0.1], n_fits=40, kernel=kernel, weights=RatioWeights(ratio, np.ones(len(validation)), part)
    )
    own = own_losses()
    (plain,), (compared,) = started(run), started(run.knowing([own]))
    for one, other in zip(plain.losses, compared.losses, strict=True):
        harder = [own[part == b % 5].mean() - own.mean() for b in range(len(one))]
        np.testing.assert_allclose(one - other, harder, atol=1e-9)
    np.testing.assert_allclose(compared.means, plain.means, rtol=1e-9)


def test_an_audit_compares_and_the_public_call_does_not(monkeypatch):
    """The losses of an audit are those of its runs without the comparison, less what the own model says."""
    options = {"groups": groups, "cv": 3, "leakage": 0.1, "error_model": "records", "n_fits": 180, "random_state": 0}
    compared = ooc.audit(Ridge(), X, continuous, unmix=False, **options).samples
    monkeypatch.setattr(PreparedRun, "knowing", lambda run, own: run)
    plain = ooc.audit(Ridge(), X, continuous, unmix=False, **options).samples
    for one, other in zip(plain.folds, compared.folds, strict=True):
        assert one.own_losses.tolist() == other.own_losses.tolist()
        assert {role: run.counts.tolist() for role, run in one.runs.items()} == {
            role: run.counts.tolist() for role, run in other.runs.items()
        }
        np.testing.assert_allclose(other.main.losses[0], one.main.losses[0], rtol=1e-12)
        moved = other.main.losses[-1] - one.main.losses[-1]
        assert np.abs(moved).max() > 0.01
        assert other.main.losses[-1].var() < 0.9 * one.main.losses[-1].var()
    monkeypatch.undo()
    # A loss of the public call is the mean over what it scores.
    samples = sample(Ridge(), target=continuous, injected=[0.8], n_fits=3, kernel=False)
    for b in range(3):
        rows, scored = replayed(1, b, 0.8, continuous)
        assert samples.losses[0][b] == pytest.approx(ridge_loss(rows, validation[scored]), rel=1e-9)


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
    units = (Partition(np.arange(40), 40), Partition(np.arange(40) // 5, 8))
    key = np.array([1, 2], dtype=np.uint64)
    task = Task.check(Ridge(), X, continuous)
    problem = Workload(task, train, validation, DrawRecords(40, 80, 40), key, units, None)
    whole = run_blocks(problem, [Block(1, 0.3, 0, 6)])[0]
    pieces = run_blocks(problem, [Block(1, 0.3, 0, 2), Block(1, 0.3, 2, 4)])
    assert whole.losses[0].tolist() == [*pieces[0].losses[0], *pieces[1].losses[0]]
    for together, *apart in zip(whole.effects, *(piece.effects for piece in pieces), strict=True):
        np.testing.assert_allclose(together, sum(apart), atol=1e-15)
    np.testing.assert_allclose(whole.effects[1], whole.effects[0].reshape(8, 5).sum(axis=1), atol=1e-15)
    # Which level it is says nothing about the draws; its injected fraction does.
    other_level, other_fraction = run_blocks(problem, [Block(2, 0.3, 0, 6), Block(1, 0.4, 0, 6)])
    assert other_level.losses.tolist() == whole.losses.tolist()
    assert other_fraction.losses.tolist() != whole.losses.tolist()
    assert isinstance(DrawRecords(40, 80, 40).draw(np.random.default_rng(0), 0.5), Draw)

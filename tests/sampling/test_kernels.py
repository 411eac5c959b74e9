"""The compiled loops against numpy's generator, scikit-learn's fits and sums written out."""

import importlib.util
import itertools
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import outofcluster as ooc
from outofcluster.metrics.base import Partition
from outofcluster.sampling.kernels.kernel import Kernel, draw_records, find_kernel, worth_compiling
from outofcluster.sampling.kernels.replicate import Problem, draw, fill_uniforms, make_work

KEY = np.array([0x243F6A8885A308D3, 2**64 - 5], np.uint64)


def generator(replicate, key=KEY):
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, replicate]))


def problem(*, classifier, d=4, n_T=60, n_V=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_T + n_V + 10, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    f = (X - X.mean(0)) @ rng.normal(size=d) + rng.normal(size=len(X)) + 0.3
    rows = rng.permutation(len(X))
    return X, (f > 0).astype(float) if classifier else f, rows[:n_T], rows[n_T : n_T + n_V]


def arguments(*, injected=0.3, n_train=40, replace=True, units=()):
    """Arguments of a block; ``units`` are partitions of V."""
    return {
        "injected": injected,
        "n_train": n_train,
        "replace": replace,
        "key": KEY,
        "units": tuple(Partition(of, of.max() + 1) for of in units),
    }


def replay(data, replicate, *, classifier, injected=0.3, n_train=40, replace=True):
    """The accepted draw of a replicate, and the number of those rejected, by the reference in numpy."""
    _, y, train, validation = data
    rng = generator(replicate)
    for redraws in range(100):
        t, v = draw_records(rng, injected, n_train, len(train), len(validation), replace)
        rows = np.concatenate([train[t], validation[v]])
        if len(np.unique(v)) < len(validation) and (not classifier or len(np.unique(y[rows])) == 2):
            return t, v, rows, redraws
    raise AssertionError


def coefficients(kernel, data, replicate, **options):
    """The coefficients of a replicate, which must be handled."""
    block = kernel.run_block(*data, first_replicate=replicate, count=1, **arguments(**options))
    assert block.handled.all()
    return block.coefficients


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def tight_models():
    for intercept in (True, False):
        yield LinearSVC(fit_intercept=intercept, C=0.7, dual=False, tol=1e-12, max_iter=100_000), True
        yield (
            LogisticRegression(fit_intercept=intercept, C=2.0, solver="newton-cholesky", tol=1e-13, max_iter=1000),
            True,
        )
        yield Ridge(fit_intercept=intercept, alpha=0.5), False
        yield LinearRegression(fit_intercept=intercept), False
    yield LinearSVC(intercept_scaling=7.0, C=10.0, dual=False, tol=1e-12, max_iter=100_000), True


SCALERS = [False, True]
CASES = [
    pytest.param(model, classifier, scaler, id=f"{type(model).__name__}-{model.fit_intercept}-{scaler}-{k}")
    for k, ((model, classifier), scaler) in enumerate(itertools.product(tight_models(), SCALERS))
]
LOSSES = {True: ("zero_one", "log_loss", "brier"), False: ("squared_error", "absolute_error")}


def scaled(model, scaler):
    return make_pipeline(StandardScaler(), model) if scaler else model


def effective(estimator, d):
    """Coefficients on the columns given, and the intercept, read off the decision values."""
    predict = getattr(estimator, "decision_function", estimator.predict)
    constant = predict(np.zeros((1, d)))
    return np.append(predict(np.eye(d)) - constant, constant)


def loss_of(estimator, loss, X, y):
    if loss == "zero_one":
        return (estimator.predict(X) != y).astype(float)
    if loss in ("log_loss", "brier"):
        p = estimator.predict_proba(X)[:, 1]
        if loss == "brier":
            return (p - y) ** 2
        p = np.clip(p, np.finfo(float).eps, 1 - np.finfo(float).eps)
        return -np.where(y == 1, np.log(p), np.log(1 - p))
    error = estimator.predict(X) - y
    return error**2 if loss == "squared_error" else np.abs(error)


@pytest.mark.parametrize("key", [(0, 0), (1, 2), (2**64 - 1, 2**63 + 12345)])
@pytest.mark.parametrize("replicate", [0, 17, 2**33 + 1])
def test_the_uniforms_are_those_of_numpy(key, replicate):
    key = np.array(key, np.uint64)
    expected = generator(replicate, key).random(3001)
    for first, last in [(0, 3001), (1, 2), (2, 2990), (7, 100), (11, 12), (400, 404)]:
        out = np.full(last - first, np.nan)
        fill_uniforms(key, replicate, first, out)
        assert np.array_equal(out, expected[first:last])


def pools_of(n, n_T, n_V, a, replace):
    """What the compiled draw takes: pools of records without columns that matter, and its buffers."""
    none, records = np.zeros((0, n_V), np.int64), np.zeros(max(n_T, n_V))
    offset = np.zeros(n_V)
    pools = Problem(records[:, None], records, offset, np.arange(n_T), np.arange(n_V), none, KEY, a, replace)
    return pools, make_work(pools, n, 0)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("a", [0.0, 1e-3, 0.3, 0.97, 1.0])
@pytest.mark.parametrize(("n", "n_T", "n_V"), [(1, 1, 1), (20, 30, 25), (20, 7, 25), (20, 30, 6), (20, 15, 6)])
def test_the_compiled_draw_is_the_reference(replace, a, n, n_T, n_V):
    pools, work = pools_of(n, n_T, n_V, a, replace)
    for replicate in range(15):
        rng = generator(replicate)
        for attempt in range(3):
            t, v = draw_records(rng, a, n, n_T, n_V, replace)
            m = draw(pools, work, replicate, attempt)
            assert m == len(v)
            assert np.array_equal(work.t_drawn[: n - m], t)
            assert np.array_equal(work.v_drawn[:m], v)
    assert all(np.array_equal(order, np.arange(order.size)) for order in work.orders)


@given(
    a=st.floats(0, 1), n=st.integers(1, 30), n_T=st.integers(1, 40), n_V=st.integers(1, 40), seed=st.integers(0, 2**32)
)
def test_a_draw_without_replacement_has_no_record_twice(a, n, n_T, n_V, seed):
    n = min(n, n_T + n_V)
    t, v = draw_records(np.random.default_rng(seed), a, n, n_T, n_V, False)
    assert len(t) + len(v) == n
    assert len(np.unique(t)) == len(t)
    assert len(np.unique(v)) == len(v)
    assert set(t) <= set(range(n_T))
    assert set(v) <= set(range(n_V))


def test_a_draw_with_replacement_takes_two_uniforms_for_each_record():
    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(3):
        t, v = draw_records(rng, 0.4, 12, 9, 8, True)
        positions, sides = [again.random() for _ in range(12)], [again.random() for _ in range(12)]
        assert t.tolist() == [int(u * 9) for u, w in zip(positions, sides, strict=True) if w >= 0.4]
        assert v.tolist() == [int(u * 8) for u, w in zip(positions, sides, strict=True) if w < 0.4]


def test_the_shuffle_is_that_of_the_algorithm():
    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(3):
        t, v = draw_records(rng, 0.4, 12, 9, 8, False)
        positions, sides = [again.random() for _ in range(12)], [again.random() for _ in range(12)]
        m = min(max(sum(w < 0.4 for w in sides), 3), 8)
        for size, uniforms, drawn in ((9, positions[: 12 - m], t), (8, positions[12 - m :][::-1], v)):
            order = list(range(size))
            for k, u in enumerate(uniforms):
                j = k + min(int(u * (size - k)), size - k - 1)
                order[k], order[j] = order[j], order[k]
            assert drawn.tolist() == order[: len(uniforms)]


# --- the same draws at every level ----------------------------------------------------------------------


def by_numpy(a, replicate, n, n_T, n_V, replace):
    return draw_records(generator(replicate), a, n, n_T, n_V, replace)


def by_kernel(a, replicate, n, n_T, n_V, replace):
    pools, work = pools_of(n, n_T, n_V, a, replace)
    m = draw(pools, work, replicate, 0)
    return work.t_drawn[: n - m], work.v_drawn[:m]


DRAWS = pytest.mark.parametrize("drawn", [by_numpy, by_kernel], ids=["numpy", "kernel"])


def is_left_of(some, whole):
    """Whether some entries are left, in the same order, once others have been taken out of a list."""
    rest = iter(whole)
    return all(each in rest for each in some)


@DRAWS
def test_higher_levels_put_records_of_V_in_the_place_of_some_of_T(drawn):
    """With replacement: what was drawn of V stays, and what is left of T is what was drawn of it before."""
    levels = [0.0, 0.05, 0.2, 0.21, 0.6, 1.0]
    for replicate in range(20):
        by_level = [[drawn_of.tolist() for drawn_of in drawn(a, replicate, 40, 30, 25, True)] for a in levels]
        assert len(by_level[0][0]) == len(by_level[-1][1]) == 40
        for (t, v), (t_higher, v_higher) in itertools.pairwise(by_level):
            assert len(v_higher) >= len(v)
            assert is_left_of(v, v_higher)
            assert is_left_of(t_higher, t)
    other = drawn(0.0, 1, 40, 30, 25, True)[0].tolist()
    assert other != drawn(0.0, 0, 40, 30, 25, True)[0].tolist()


@DRAWS
def test_without_replacement_the_records_of_T_are_the_first_of_those_at_level_0(drawn):
    for replicate in range(20):
        whole = drawn(0.0, replicate, 25, 30, 25, False)[0].tolist()
        for a in (0.05, 0.2, 0.6, 1.0):
            t, v = drawn(a, replicate, 25, 30, 25, False)
            assert t.tolist() == whole[: 25 - len(v)]


@pytest.mark.parametrize(("model", "classifier", "scaler"), CASES)
def test_coefficients_and_losses_are_those_of_scikit_learn(model, classifier, scaler):
    data = problem(classifier=classifier)
    X, y, _, validation = data
    estimator = scaled(model, scaler)
    kernels = {loss: find_kernel(estimator, loss) for loss in LOSSES[classifier]}
    kernels = {loss: kernel for loss, kernel in kernels.items() if kernel is not None}
    assert list(kernels) == (["zero_one"] if classifier and not hasattr(model, "predict_proba") else [*kernels])
    assert kernels
    any_kernel = next(iter(kernels.values()))
    count = 4
    blocks = {
        loss: kernel.run_block(*data, first_replicate=3, count=count, **arguments()) for loss, kernel in kernels.items()
    }
    for k in range(count):
        _, v, rows, redraws = replay(data, 3 + k, classifier=classifier)
        fitted = fit(estimator, X[rows], y[rows])
        expected = effective(fitted, X.shape[1])
        actual = coefficients(any_kernel, data, 3 + k)
        assert np.allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
        left = np.delete(validation, v)
        for loss, block in blocks.items():
            assert block.handled[k]
            assert block.redraws[k] == redraws
            assert block.losses[k] == pytest.approx(loss_of(fitted, loss, X[left], y[left]).mean(), rel=1e-5)


@pytest.mark.parametrize("d", [1, 3, 7, 8, 15, 31, 32, 40])
@pytest.mark.parametrize("kind", ["squared_hinge", "logistic", "least_squares"])
def test_every_width_is_fitted(kind, d):
    """The padding and the blocks of the linear algebra change with the number of columns."""
    classifier = kind != "least_squares"
    data = problem(classifier=classifier, d=d, n_T=90)
    X, y, *_ = data
    model = {
        "squared_hinge": LinearSVC(dual=False, tol=1e-12, max_iter=100_000),
        "logistic": LogisticRegression(solver="newton-cholesky", tol=1e-13, max_iter=1000),
        "least_squares": Ridge(),
    }[kind]
    kernel = find_kernel(model, "zero_one" if classifier else "squared_error")
    for replace in (True, False):
        options = {"n_train": 71, "replace": replace, "injected": 0.2}
        actual = coefficients(kernel, data, 1, **options)
        *_, rows, _ = replay(data, 1, classifier=classifier, **options)
        expected = effective(fit(model, X[rows], y[rows]), d)
        assert np.allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4, 1e6])
@pytest.mark.parametrize("kind", ["squared_hinge", "logistic"])
def test_the_optimum_is_reached_at_any_scale(kind, C):
    """The gradient vanishes, also with columns of very different sizes and classes that can be separated."""
    data = problem(classifier=True, d=5)
    X, y, train, validation = data
    # The squared hinge leaves gaps of about 1/C between a margin and 1, of which rounding takes some digits.
    bound = 1e-5 if (kind, C) == ("squared_hinge", 1e6) else 1e-7
    separable = (X[:, 0] > np.median(X[:, 0])).astype(float)
    for target, replicate in itertools.product((y, separable), range(5)):
        uneven = X * np.array([100.0, 1.0, 0.01, 3.0, 1.0]), target, train, validation
        kernel = Kernel(kind, C, "zero_one")
        *_, rows, _ = replay(uneven, replicate, classifier=True)
        z = np.column_stack([uneven[0][rows], np.ones(len(rows))]) * (2 * target[rows, None] - 1)
        w = coefficients(kernel, uneven, replicate)
        margins = z @ w
        penalty = w * (1 if kind == "squared_hinge" else np.append(np.ones(5), 0))
        pull = 2 * np.maximum(0, 1 - margins) if kind == "squared_hinge" else expit(-margins)
        gradient = penalty - C * (z.T @ pull)
        size = np.abs(penalty) + C * (np.abs(z).T @ np.abs(pull)) + C * 1e-12 * np.abs(z).sum(0)
        assert np.abs(gradient / size).max() < bound


def test_separated_classes_with_a_large_penalty_on_errors_are_handled():
    """On all of T, Newton's steps alone are too many here: the fit takes the stages of C."""
    rng = np.random.default_rng(36)
    shape = rng.normal(size=(384, 45))
    y = (shape @ rng.normal(size=45) > 0).astype(float)
    data = shape * 10 ** rng.uniform(-3, 3, 45), y, np.arange(284), np.arange(284, 384)
    kernel = Kernel("squared_hinge", 1e5, "zero_one")
    assert kernel.run_block(*data, first_replicate=0, count=20, **arguments(n_train=150)).handled.all()
    all_of_train = arguments(n_train=284, injected=0.0, replace=False)
    assert kernel.run_block(*data, first_replicate=0, count=1, **all_of_train).handled.all()


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(
    ("model", "loss", "classifier"),
    [
        (make_pipeline(StandardScaler(), LinearSVC()), "zero_one", True),
        (LogisticRegression(), "log_loss", True),
        (Ridge(), "squared_error", False),
    ],
    ids=["svc", "logistic", "ridge"],
)
def test_blocks_do_not_change_a_bit(model, loss, classifier, replace):
    data = problem(classifier=classifier)
    kernel = pickle.loads(pickle.dumps(find_kernel(model, loss)))
    options = arguments(replace=replace)
    whole = kernel.run_block(*data, first_replicate=0, count=30, **options)
    single = [kernel.run_block(*data, first_replicate=r, count=1, **options).losses[0] for r in range(30)]
    assert np.array_equal(whole.losses, single)
    assert whole.effects == ()
    with_units = arguments(replace=replace, units=[np.arange(25)])
    assert np.array_equal(whole.losses, kernel.run_block(*data, first_replicate=0, count=30, **with_units).losses)


@pytest.mark.parametrize("replace", [True, False])
def test_the_effects_are_those_written_out(replace):
    data = problem(classifier=False)
    X, y, _, validation = data
    # The last two units of the second partition have no record.
    partitions = [Partition(np.arange(25), 25), Partition(np.random.default_rng(1).integers(0, 6, 25), 8)]
    kernel, count = find_kernel(Ridge(), "squared_error"), 9
    options = arguments(replace=replace) | {"first_replicate": 0, "count": count}
    block = kernel.run_block(*data, **options | {"units": tuple(partitions)})
    effects = [np.zeros(25), np.zeros(8)]
    for r in range(count):
        _, drawn_v, rows, _ = replay(data, r, classifier=False, replace=replace)
        model = Ridge().fit(X[rows], y[rows])
        losses = (model.predict(X[validation]) - y[validation]) ** 2
        left = np.setdiff1d(np.arange(25), drawn_v)
        t = losses[left].mean()
        assert block.losses[r] == pytest.approx(t, rel=1e-9)
        for k, units in enumerate(partitions):
            for v in left:
                effects[k][units.of[v]] += (losses[v] - t) / len(left)
    for k, units in enumerate(partitions):
        assert np.allclose(block.effects[k], effects[k], rtol=1e-8, atol=1e-9)
        assert np.abs(block.effects[k]).max() > 0.01
        alone = kernel.run_block(*data, **options | {"units": (units,)})
        assert np.array_equal(alone.effects[0], block.effects[k])


@pytest.mark.parametrize("replace", [True, False])
def test_the_offset_is_taken_off_the_losses_of_scored_records_and_moves_no_effect(replace):
    data = problem(classifier=False)
    offset = np.random.default_rng(2).normal(size=25)
    kernel, count = find_kernel(Ridge(), "squared_error"), 9
    options = arguments(replace=replace, units=[np.arange(25) // 5]) | {"first_replicate": 2, "count": count}
    plain, less = (kernel.run_block(*data, **options, offset=each) for each in (None, offset))
    for k in range(count):
        _, drawn_v, _, _ = replay(data, 2 + k, classifier=False, replace=replace)
        left = np.setdiff1d(np.arange(25), drawn_v)
        assert less.losses[k] == pytest.approx(plain.losses[k] - offset[left].mean(), rel=1e-12)
    assert np.array_equal(less.effects[0], plain.effects[0])


def test_draws_that_cannot_be_used_are_drawn_again():
    X, y, train, validation = problem(classifier=True)
    y = np.zeros_like(y)
    y[train[:2]] = 1
    data = X, y, train, validation[:3]
    kernel = find_kernel(LinearSVC(), "zero_one")
    options = arguments(n_train=10)
    block = kernel.run_block(*data, first_replicate=0, count=40, **options)
    expected = [replay(data, r, classifier=True, n_train=10)[3] for r in range(40)]
    assert block.redraws.tolist() == expected
    assert max(expected) > 0
    assert block.handled.all()


def test_a_replicate_without_a_usable_draw_is_not_handled_and_not_summed():
    X, y, train, validation = problem(classifier=True)
    data = X, np.ones_like(y), train, validation
    kernel = find_kernel(LinearSVC(), "zero_one")
    options = arguments(units=[np.arange(25)])
    block = kernel.run_block(*data, first_replicate=0, count=3, **options)
    assert not block.handled.any()
    assert block.redraws.tolist() == [100] * 3
    assert np.isnan(block.losses).all()
    assert not block.effects[0].any()


def test_a_singular_regression_is_left_to_scikit_learn():
    X, y, train, validation = problem(classifier=False)
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    data = X, y, train, validation
    kernel = find_kernel(LinearRegression(), "squared_error")
    options = arguments()
    assert not kernel.run_block(*data, first_replicate=0, count=5, **options).handled.any()
    ridge = find_kernel(Ridge(), "squared_error")
    assert ridge.run_block(*data, first_replicate=0, count=5, **options).handled.all()


@pytest.mark.parametrize("value", [0.0, 3.3, 1e8])
def test_a_constant_column_has_scale_one(value):
    X, y, train, validation = problem(classifier=False)
    data = np.column_stack([X, np.full(len(X), value)]), y, train, validation
    model = make_pipeline(StandardScaler(), Ridge())
    kernel = find_kernel(model, "squared_error")
    options = arguments()
    block = kernel.run_block(*data, first_replicate=0, count=5, **options)
    for r in range(5):
        _, v, rows, _ = replay(data, r, classifier=False)
        left = np.delete(validation, v)
        expected = loss_of(model.fit(data[0][rows], y[rows]), "squared_error", data[0][left], y[left]).mean()
        assert block.losses[r] == pytest.approx(expected, rel=1e-8)


class Subclass(LinearSVC):
    pass


@pytest.mark.parametrize(
    ("estimator", "loss"),
    [
        (Subclass(), "zero_one"),
        (LinearSVC(), "log_loss"),
        (LinearSVC(loss="hinge"), "zero_one"),
        (LinearSVC(penalty="l1"), "zero_one"),
        (LinearSVC(multi_class="crammer_singer"), "zero_one"),
        (LinearSVC(class_weight="balanced"), "zero_one"),
        (LogisticRegression(solver="liblinear"), "zero_one"),
        (LogisticRegression(C=np.inf), "zero_one"),
        (LogisticRegression(l1_ratio=0.5, solver="saga"), "zero_one"),
        (LogisticRegression(penalty=None), "zero_one"),
        (LogisticRegression(class_weight={0: 1, 1: 2}), "zero_one"),
        (LogisticRegression(), "squared_error"),
        (Ridge(alpha=np.array([1.0, 2.0])), "squared_error"),
        (Ridge(alpha=-1.0), "squared_error"),
        (Ridge(positive=True), "squared_error"),
        (Ridge(), "zero_one"),
        (RidgeClassifier(), "zero_one"),
        (LinearRegression(positive=True), "squared_error"),
        (make_pipeline(StandardScaler(), StandardScaler(), Ridge()), "squared_error"),
        (make_pipeline("passthrough", Ridge()), "squared_error"),
        (make_pipeline(StandardScaler(with_std=False), Ridge()), "squared_error"),
        (Pipeline([("ridge", Ridge())], memory="folder"), "squared_error"),
        (object(), "squared_error"),
    ],
)
def test_there_is_no_kernel_for(estimator, loss):
    assert find_kernel(estimator, loss) is None


def test_solvers_of_the_same_objective_share_a_kernel():
    kernels = {
        find_kernel(LogisticRegression(solver=solver, C=3), "brier")
        for solver in ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga")
    }
    assert kernels == {Kernel("logistic", 3.0, "brier")}
    assert find_kernel(make_pipeline(Ridge()), "squared_error") == find_kernel(Ridge(), "squared_error")


def test_arrays_shared_between_processes_are_read_only():
    data = problem(classifier=False)
    kernel = find_kernel(Ridge(), "squared_error")
    options = arguments() | {"first_replicate": 0, "count": 3}
    expected = kernel.run_block(*data, **options).losses
    for values in data:
        values.flags.writeable = False
    assert np.array_equal(kernel.run_block(np.asfortranarray(data[0]), *data[1:], **options).losses, expected)


@pytest.mark.slow
def test_looking_for_a_kernel_does_not_import_the_compiler():
    code = "import sys, outofcluster.sampling.kernels.kernel as k; k.find_kernel(None, '')"
    code += "; print('numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize("model", ["squared_hinge", "logistic", "least_squares"])
def test_a_kernel_is_worth_compiling_for_long_jobs_only(model):
    """A default audit never compiles, whatever its fits take; more fits, or larger ones, never make a job too short."""
    assert not worth_compiling(model, 4000, 10**6, 100)
    assert worth_compiling(model, 60_000, 100, 12)
    worth = [worth_compiling(model, n_fits, 100, 12) for n_fits in range(0, 60_001, 1000)]
    assert worth == sorted(worth)
    assert worth_compiling(model, 4001, 10**6, 100)


# --- kept code is only a saving of time ----------------------------------------------------------------


SMALL = """
from outofcluster.sampling.kernels.algebra import compiled

@compiled
def twice(x):
    return 2.0 * x
"""


def small_loop(folder):
    """A loop of its own, which takes a moment to compile; loaded anew each time, as in another process."""
    path = folder / "small_loop.py"
    if not path.exists():
        path.write_text(SMALL)
    spec = importlib.util.spec_from_file_location("small_loop", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice


def hits(loop):
    return sum(loop.stats.cache_hits.values())


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_code_that_was_cut_short_is_compiled_anew(tmp_path, kind, share):
    assert small_loop(tmp_path)(1.5) == 3.0
    again = small_loop(tmp_path)
    assert (again(1.5), hits(again)) == (3.0, 1)
    (file,) = tmp_path.rglob(f"*.{kind}")
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    mended = small_loop(tmp_path)
    assert (mended(1.5), hits(mended)) == (3.0, 0)
    last = small_loop(tmp_path)
    assert (last(1.5), hits(last)) == (3.0, 1)


def test_code_that_cannot_be_kept_is_compiled_all_the_same(tmp_path, monkeypatch):
    from numba.core import caching

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_index", full)
    assert small_loop(tmp_path)(1.5) == 3.0
    assert not list(tmp_path.rglob("*.nb*"))
    monkeypatch.undo()

    def nowhere(*_):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(caching.FunctionCache, "__init__", nowhere)
    assert small_loop(tmp_path)(1.5) == 3.0


def test_code_of_other_sources_is_not_found(tmp_path, monkeypatch):
    """Wherever it lies: the time and size of a function's own file say nothing of what was compiled into it."""
    from outofcluster.sampling.kernels import algebra

    assert small_loop(tmp_path)(1.5) == 3.0
    monkeypatch.setattr(algebra, "_DIGEST", "of other sources")
    other = small_loop(tmp_path)
    assert (other(1.5), hits(other)) == (3.0, 0)


@pytest.mark.parametrize("how", ["switched off", "broken"])
def test_without_a_compiler_scikit_learn_fits(monkeypatch, how):
    import numba

    from outofcluster.sampling.kernels import kernel

    X = np.random.default_rng(0).standard_normal((60, 2))
    split = {"train": range(40), "validation": range(40, 60), "n_fits": 24, "random_state": 0}

    def losses(**options):
        return np.concatenate(ooc.sample_losses(Ridge(), X, X[:, 0], **split, **options).losses).tobytes()

    def broken():
        raise ImportError("LLVM is missing")

    kernel._compiles.cache_clear()
    if how == "switched off":
        monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    else:
        monkeypatch.setattr(kernel, "_loops", broken)
    try:
        assert losses(kernel=True) == losses(kernel=False)
    finally:
        kernel._compiles.cache_clear()


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import numpy as np
import outofcluster as ooc
from outofcluster.sampling.engine import package_versions
from sklearn.linear_model import LogisticRegression

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(30), 4)
X = rng.standard_normal((120, 2)) + rng.standard_normal((30, 2))[groups]
y = (X[:, 0] + rng.standard_normal(120) > 0).astype(int)
call = {"groups": groups, "leakage": 0.1, "n_fits": 60, "random_state": 0}
audit = ooc.audit(LogisticRegression(), X, y, **call)
assert np.isfinite(audit.corrected.value), audit
assert "numba" not in package_versions()
# So many fits would be worth a kernel.
split = {"train": range(80), "validation": range(80, 120), "n_fits": 10**6, "standard_error": 0.5}
ooc.sample_losses(LogisticRegression(), X, y, **split, random_state=0)
try:
    ooc.audit(LogisticRegression(), X, y, kernel=True, **call)
except ooc.MissingExtraError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_numba_scikit_learn_fits_and_asking_for_a_kernel_names_the_extra():
    result = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("kernel=True needs numba: pip install 'outofcluster[fast]'.\n", "")

"""The weights of an optimism against differences of it, mean loss by mean loss; formulas and bounds by hand."""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import outofcluster as ooc
from outofcluster.errormodels.choose import error_model_of
from outofcluster.errormodels.pooled import OWN
from outofcluster.errormodels.records import RecordsPooled
from outofcluster.errormodels.two_way import TwoWayPooled
from outofcluster.inference.functional import Columns, Functional, Influences
from outofcluster.sampling.audit_samples import MAIN, UNMIXED, smaller

LINE, PARABOLA = ooc.PolynomialCurve(1), ooc.PolynomialCurve(2)
EQUAL, BY_FOLD = np.full(3, 0.15), np.array([0.05, 0.2, 0.3])
SMALLER = smaller(9)


@cache
def audited(kind):
    """Three folds of unequal sizes, with a model that is fast to fit."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 9)
    X = rng.standard_normal((12, 2))[groups] + rng.standard_normal((108, 2))
    y = 3 + X[:, 0] + 2 * rng.standard_normal(12)[groups] + 0.3 * rng.standard_normal(108)
    fold = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2])[groups]
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    options = {
        "records": {"error_model": "records", "n_fits": 90},
        "both ways": {"error_model": "records", "n_fits": 150, "validation_leakage": 0.2},
        "pieces": {"error_model": "fragments", "n_fits": 108},
    }[kind]
    model = KNeighborsRegressor(2) if kind == "pieces" else LinearRegression()
    if kind == "pieces":
        # Some clusters have a single record, which cannot be cut: more leaks among those that can.
        alone = np.flatnonzero(np.arange(108) % 9 < 3)
        groups[alone] = 12 + alone
    return ooc.audit(
        model, X, y, groups=groups, cv=folds, leakage=0.1, curve=LINE, unmix=False, kernel=False, random_state=0,
        **options,
    ).samples  # fmt: skip


def some_levels(run, injected, rng, **changes):
    """A run of other levels, with losses around those of its first ones."""
    count = len(injected)
    effects = {kind: replace(own, sums=own.sums[:count]) for kind, own in run.effects.items()}
    losses = tuple(level + 0.3 * rng.random() for level in run.losses[:count])
    arrays = {name: getattr(run, name)[:count] for name in ("redraws", "effective", "kept", "strata")}
    return replace(run, injected=np.array(injected), losses=losses, effects=effects, **arrays | changes)


def with_runs(samples, **make):
    """The samples with further runs, made of the main one of every fold."""
    folds = tuple(
        replace(fold, runs=fold.runs | {role: new(fold.main) for role, new in make.items()}) for fold in samples.folds
    )
    return replace(samples, folds=folds)


@cache
def pooled(kind):
    rng = np.random.default_rng(1)
    samples = audited(kind.removesuffix(", sizes and below"))
    if kind.endswith("sizes and below"):
        samples = with_runs(
            samples,
            **{
                SMALLER: lambda run: replace(some_levels(run, run.injected, rng), size=9),
                UNMIXED: lambda run: some_levels(run, [-0.2, -0.1, 0.1], rng, kept=np.array([0.6, 0.8, 1.0])),
            },
        )
    reverse = 0.2 if "both" in kind else 0.0
    return error_model_of(samples).pooled(samples, "clusters", reverse)


def moved(pooled, role, fold, column, by):
    """The same with one mean loss that is another one, and its error as it was."""
    blocks = dict(pooled.columns.blocks)
    means = blocks[role][fold].means.copy()
    means[column] += by
    changed = list(blocks[role])
    changed[fold] = replace(blocks[role][fold], means=means)
    again = replace(pooled)
    again.__dict__["columns"] = Columns({**blocks, role: tuple(changed)}, pooled.columns.n_units)
    return again


def differences(pooled, estimate, roles, step=1e-4):
    """Derivatives of an estimate by every mean loss of some roles."""
    found = {role: np.zeros_like(pooled.columns.means(role)) for role in roles}
    for role, array in found.items():
        for fold, column in np.ndindex(*array.shape):
            up, down = (estimate(moved(pooled, role, fold, column, by)) for by in (step, -step))
            array[fold, column] = (up - down) / (2 * step)
    return found


def agree(weights, expected, atol=1e-6):
    for role, array in expected.items():
        given = weights.get(role, np.zeros_like(array))
        np.testing.assert_allclose(given, array, atol=atol, err_msg=role)
    assert all(role in expected or not weights[role].any() for role in weights)


def curved(kind):
    """A parabola, or a line for pieces, which have two levels."""
    return LINE if kind == "pieces" else PARABOLA


def sampled_roles(pooled):
    return [role for role in pooled.columns.blocks if role != OWN]


# --- weights are derivatives ----------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [EQUAL, BY_FOLD], ids=["equal", "by fold"])
@pytest.mark.parametrize(
    ("kind", "curve"),
    [
        *product(["records", "records, sizes and below", "both ways"], [LINE, PARABOLA]),
        ("pieces", LINE),
    ],
    ids=str,
)
def test_the_weights_of_linear_curves_are_derivatives(kind, curve, rates):
    own = pooled(kind)
    solved = own.solve(curve, rates)
    expected = differences(own, lambda other: other.solve(curve, rates).value, sampled_roles(own))
    agree(solved.estimate.weights, expected)
    assert solved.exact
    assert any(array.any() for array in expected.values())


@pytest.mark.parametrize("rates", [EQUAL, BY_FOLD], ids=["equal", "by fold"])
def test_the_weights_of_a_linear_curve_make_up_the_whole_estimate(rates):
    """The fall of a polynomial is linear in the losses, so that weights times losses give it back."""
    for kind in ("records", "both ways", "pieces"):
        own = pooled(kind)
        solved = own.solve(curved(kind), rates).estimate
        total = sum((weights * own.columns.means(role)).sum() for role, weights in solved.weights.items())
        assert total == pytest.approx(solved.value)


@pytest.mark.parametrize("kind", ["records", "both ways"])
def test_a_curve_without_closed_form_gets_its_weights_by_differences(kind):
    """A curve of least squares under constraints has kinks, so that the pooled loss is moved by the same step."""
    own, curve = pooled(kind), ooc.CompletelyMonotoneCurve()
    solved = own.solve(curve, EQUAL)
    assert not solved.exact
    step = 1e-3 * float(np.ptp(own.shares @ own.columns.means(MAIN)))
    value = lambda other: other.solve(curve, EQUAL, derive=False).value  # noqa: E731
    expected = [differences(own, value, [MAIN], step / share)[MAIN][i] for i, share in enumerate(own.shares)]
    np.testing.assert_allclose(solved.estimate.weights[MAIN], expected, atol=0.02)
    without = own.solve(curve, EQUAL, derive=False)
    assert without.value == solved.value
    assert not any(array.any() for array in without.by_curve.weights.values())


@pytest.mark.parametrize("kind", ["records", "records, sizes and below"])
@pytest.mark.parametrize("curve", [LINE, PARABOLA, ooc.AutoCurve()], ids=str)
def test_a_loss_that_all_levels_share_is_no_optimism(kind, curve):
    own = pooled(kind)
    solved = own.solve(curve, EQUAL)
    assert sum(array.sum() for array in solved.estimate.weights.values()) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("kind", ["records, sizes and below", "both ways", "pieces"])
def test_the_corrected_loss_is_the_naive_one_and_its_optimism(kind):
    own = pooled(kind)
    solved = own.solve(curved(kind), EQUAL)
    corrected = own.corrected(solved)
    assert corrected.value == pytest.approx(own.naive + solved.value)
    assert corrected.weights[OWN].tolist() == [[1.0]]
    for role in own.roles:
        assert corrected.weights.get(role, 0) is solved.estimate.weights.get(role, 0)


def test_losses_in_the_place_of_those_that_were_sampled_are_solved():
    own = pooled("records, sizes and below")
    losses = {role: own.columns.means(role) for role in own.roles}
    assert own.solve(PARABOLA, BY_FOLD, losses=losses).value == own.solve(PARABOLA, BY_FOLD).value
    further = {**losses, MAIN: losses[MAIN] + 0.2 * np.arange(losses[MAIN].shape[1])}
    weights = own.solve(PARABOLA, BY_FOLD).estimate.weights[MAIN]
    change = own.solve(PARABOLA, BY_FOLD, losses=further).value - own.solve(PARABOLA, BY_FOLD).value
    assert change == pytest.approx((weights * (further[MAIN] - losses[MAIN])).sum())


def test_the_line_by_hand():
    """Weighted least squares through the pooled losses; its fall is the slope times the rate."""
    own = pooled("records")
    p = 0.15 + 0.85 * own.injected
    b, precision = own.shares @ own.columns.means(MAIN), 1 / (own.shares**2 @ own.columns.errors(MAIN) ** 2)
    centred = p - np.average(p, weights=precision)
    slope = precision * centred / (precision * centred**2).sum()
    solved = own.solve(LINE, EQUAL)
    assert solved.value == pytest.approx(-0.15 * slope @ b)
    np.testing.assert_allclose(solved.estimate.weights[MAIN], -0.15 * own.shares[:, None] * slope)
    # ê_0 is the weighted mean less the slope times the mean level.
    of_e0 = precision / precision.sum() - np.average(p, weights=precision) * slope
    assert solved.e0 == pytest.approx(of_e0 @ b)
    assert solved.multiplier == pytest.approx(1 + 0.15 * np.abs(slope).sum())


def test_the_multiplier_is_that_of_the_worst_fold():
    own = pooled("records")
    alone = [own.solve(LINE, np.full(3, rate)).multiplier for rate in BY_FOLD]
    by_fold = own.solve(LINE, BY_FOLD).multiplier
    assert by_fold > min(alone)
    # Every fold has a curve of its own, whose levels count by the noise of that fold.
    worst = []
    for fold, rate in enumerate(BY_FOLD):
        p, precision = rate + (1 - rate) * own.injected, own.columns.errors(MAIN)[fold] ** -2.0
        centre = np.average(p, weights=precision)
        slope = precision * (p - centre) / (precision * (p - centre) ** 2).sum()
        worst.append(1 + rate * np.abs(slope).sum())
    assert by_fold == pytest.approx(max(worst))


def test_no_leakage_is_no_optimism():
    for kind in ("records", "records, sizes and below", "pieces"):
        assert pooled(kind).solve(curved(kind), np.zeros(3)).value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", ["records", "both ways"])
def test_an_uncertain_rate_moves_the_optimism_by_its_derivative(kind):
    own, stds = pooled(kind), np.array([0.01, 0.02, 0.03])
    step = 1e-3
    up, down = (own.solve(PARABOLA, BY_FOLD + sign * step * stds).value for sign in (1, -1))
    assert own.rate_effect(PARABOLA, BY_FOLD, stds) == pytest.approx((up - down) / (2 * step), rel=1e-3)
    assert own.rate_effect(PARABOLA, BY_FOLD, np.zeros(3)) == 0
    # At no leakage there is one side only.
    assert own.rate_effect(LINE, np.zeros(3), stds) == pytest.approx(
        own.solve(LINE, 1e-4 * stds).value / 1e-4 - own.solve(LINE, np.zeros(3)).value / 1e-4, rel=1e-2
    )


# --- both ways ------------------------------------------------------------------------------------------


def by_hand(samples):
    """The naive loss of every fold on held-out and on training records, and the shares of the folds."""
    counts = np.array([fold.n_validation for fold in samples.folds])
    own, trained = (
        np.array([losses.mean() for losses in of_folds])
        for of_folds in zip(*((fold.own_losses, fold.train_losses.losses) for fold in samples.folds), strict=True)
    )
    return own, trained, counts / counts.sum()


@pytest.mark.parametrize("reverse", [0.05, 0.2, 0.4])
def test_without_leakage_into_training_the_formula_is_that_of_a_mixture(reverse):
    """[b - r0 b_T]/(1 - r0), fold by fold."""
    own = error_model_of(audited("both ways")).pooled(audited("both ways"), "clusters", reverse)
    assert isinstance(own, TwoWayPooled)
    b, b_train, shares = by_hand(own.samples)
    corrected = own.corrected(own.solve(LINE, np.zeros(3)))
    assert corrected.value == pytest.approx(shares @ ((b - reverse * b_train) / (1 - reverse)))


def test_both_ways_by_hand():
    """corrected = c1 b - c2 b_T + (ê_0 - L(p0)), with the line through c1 S_V - c2 S_T."""
    own, rate, reverse = pooled("both ways"), 0.15, 0.2
    b, b_train, shares = by_hand(own.samples)
    c1, c2 = (1 - rate) / (1 - rate - reverse), reverse / (1 - rate - reverse)
    p = rate + (1 - rate - reverse) * own.injected
    on_training = own.columns.means("on training records")
    losses = shares @ (c1 * own.columns.means(MAIN) - c2 * on_training)
    variance = shares**2 @ (
        c1**2 * own.columns.errors(MAIN) ** 2 + c2**2 * own.columns.errors("on training records") ** 2
    )
    line = np.polynomial.Polynomial.fit(p, losses, 1, w=variance**-0.5)
    expected = shares @ (c1 * b - c2 * b_train) + line(0) - line(rate)
    assert own.corrected(own.solve(LINE, EQUAL)).value == pytest.approx(expected)


@pytest.mark.parametrize(("rate", "reverse"), [(0.0, 0.2), (0.1, 0.3), (0.4, 0.1)])
def test_the_mixture_is_solved_exactly(rate, reverse):
    of_validation, of_training = 2.0, 0.5
    seen = (1 - reverse) * of_validation + reverse * of_training
    seen_on_train = (1 - rate) * of_training + rate * of_validation
    samples = pooled("both ways, sizes and below").samples
    own = TwoWayPooled(samples, "clusters", reverse)
    c1, c2 = own._factors(rate)
    assert c1 * seen - c2 * seen_on_train == pytest.approx(of_validation)
    assert c2 == pytest.approx(c1 - 1)
    # The masses are such that a curve which knows of one way only sees the same levels.
    masses, plain = own.masses(rate), RecordsPooled(samples, "clusters").masses(rate)
    assert masses.tolist() != plain.tolist()
    levels = rate - (1 - rate - reverse) * plain / (1 - plain)
    np.testing.assert_allclose(rate - (1 - rate) * masses / (1 - masses), levels)


def test_losses_on_training_records_are_a_parabola_in_the_injected_fraction():
    """Of losses that are one, every level gives it back; below 0 its tangent is continued."""
    samples = audited("both ways")

    def parabola(run):
        a = 1 - run.injected
        return replace(run, losses=tuple(np.full(4, 2 - a_ + 0.5 * a_**2) for a_ in a))

    folds = tuple(
        replace(fold, runs=fold.runs | {"exchanged": parabola(fold.runs["exchanged"])}) for fold in samples.folds
    )
    exact = replace(samples, folds=folds)
    rng = np.random.default_rng(0)
    exact = with_runs(exact, **{UNMIXED: lambda run: some_levels(run, [-0.2, -0.1, 0.1], rng)})
    own = error_model_of(exact).pooled(exact, "clusters", 0.2)
    seen = own.columns.means("on training records")
    a = own.injected
    below = np.array([0.1, 0.0, -0.1, -0.2])
    tangent = np.where(below > 0, -below + 0.5 * below**2, -below)
    _, b_train, _ = by_hand(exact)
    for fold in range(3):
        np.testing.assert_allclose(seen[fold, : len(a)], 2 - a + 0.5 * a**2)
        np.testing.assert_allclose(seen[fold, len(a) :], b_train[fold] + tangent)
    np.testing.assert_allclose(own.columns.errors("on training records"), 0, atol=1e-12)


# --- bounds -----------------------------------------------------------------------------------------------


def exact_losses(samples, function):
    """The same samples with losses that are a function of the size and the injected fraction, without noise."""

    def along(run):
        losses = tuple(
            np.full(len(level), function(run.size, a)) for level, a in zip(run.losses, run.injected, strict=True)
        )
        return replace(run, losses=losses)

    folds = tuple(
        replace(
            fold,
            runs={role: along(run) for role, run in fold.runs.items() if role != UNMIXED}
            | {role: run for role, run in fold.runs.items() if role == UNMIXED},
        )
        for fold in samples.folds
    )
    return replace(samples, folds=folds)


def of_small_sets(rate):
    """Losses that fall by 2 from no leakage on, of sets of the full size and of 4 records."""
    samples = with_runs(
        audited("records"),
        **{smaller(4): lambda run: replace(some_levels(run, run.injected, np.random.default_rng(0)), size=4)},
    )
    samples = exact_losses(samples, lambda size, a: 5 - 2 * (rate + (1 - rate) * a) + (1 if size == 4 else 0))
    return error_model_of(samples).pooled(samples, "clusters")


def test_the_range_of_exact_losses_by_hand():
    rate = 0.1
    own = of_small_sets(rate)
    low, high = own.bounds(rate, 0.05)
    assert low == pytest.approx(own.naive + 2 * rate - 0.1)
    # (1 - p0)^4 of the sets are clean; the others lose no less than the best level does.
    clean = 0.9**4
    lowest, best = 6 - 2 * rate, 6 - 2 * (rate + 0.9 * own.injected[-1])
    assert high == pytest.approx(own.naive + (lowest - (1 - clean) * best) / clean - (5 - 2 * rate) + 0.1)


def test_a_wider_naive_interval_widens_the_range_by_twice_as_much():
    own = of_small_sets(0.1)
    (low, high), (lower, higher) = own.bounds(0.1, 0.0), own.bounds(0.1, 0.2)
    assert (low - lower, higher - high) == pytest.approx((0.4, 0.4))


def test_where_hardly_any_set_is_clean_the_loss_itself_ends_the_range():
    own = pooled("records")
    assert own.sizes[-1] > 50
    assert own.bounds(0.1, 0.0) is None
    samples = replace(own.samples, metric=replace(own.samples.metric, range=(0.0, 40.0)))
    assert error_model_of(samples).pooled(samples, "clusters").bounds(0.1, 0.0)[1] == 40


def test_the_noise_of_the_losses_widens_the_range_from_below():
    """The steepest line less two standard errors of its slope, or nothing."""
    own = pooled("records")
    samples = replace(own.samples, metric=replace(own.samples.metric, range=(0.0, 40.0)))
    own, rate = error_model_of(samples).pooled(samples, "clusters"), 0.3
    b, errors = own.shares @ own.columns.means(MAIN), np.sqrt(own.shares**2 @ own.columns.errors(MAIN) ** 2)
    p = rate + (1 - rate) * own.injected
    steepest = max(
        (b[0] - b[i] - 2 * math.sqrt(errors[0] ** 2 + errors[i] ** 2)) / (p[i] - p[0]) for i in range(1, len(b))
    )
    assert own.bounds(rate, 0.0)[0] == pytest.approx(own.naive + rate * max(steepest, 0.0))


def test_what_was_seen_below_the_rate_bounds_the_range_where_enough_was_removed():
    """A steep line that leaving records out contradicts; the largest rise that was seen takes its place."""
    own = of_small_sets(0.1)
    rises = [0.02, 0.03, 0.0]

    def below(run):
        made = some_levels(run, [-0.3, -0.1, 0.1], np.random.default_rng(0))
        losses = tuple(np.full(5, own.naive + rise) for rise in rises)
        return replace(made, losses=losses, strata=np.ones(3, dtype=int))

    samples = with_runs(own.samples, **{UNMIXED: below})
    seen = error_model_of(samples).pooled(samples, "clusters")
    # Masses of 0.23 and 0.09: at a rate of 0.05 not even the second counts, and at 0.07 it is more than the rate.
    assert seen.bounds(0.05, 0.0)[0] == pytest.approx(own.bounds(0.05, 0.0)[0])
    assert seen.bounds(0.07, 0.0)[0] == pytest.approx(own.naive + 0.03)
    assert own.bounds(0.07, 0.0)[0] > own.naive + 0.1


def test_there_is_no_range_for_pieces_and_both_ways():
    assert pooled("pieces").bounds(0.1, 0.0) is None
    assert pooled("both ways").bounds(0.1, 0.0) is None


# --- influences -------------------------------------------------------------------------------------------


def test_the_naive_loss_by_hand():
    own = pooled("records")
    losses = np.concatenate([fold.own_losses for fold in own.folds])
    assert own.naive == pytest.approx(losses.mean())
    naive = own.naive_functional()
    clusters = np.concatenate([fold.clusters for fold in own.folds])
    expected = np.array([(losses[clusters == unit] - losses.mean()).sum() / len(losses) for unit in own.units])
    np.testing.assert_allclose(Influences(own.columns).of_units(naive), expected, atol=1e-12)
    assert own.monte_carlo_of(naive) == 0


def test_the_monte_carlo_variance_of_an_optimism_by_hand():
    own = pooled("records")
    solved = own.solve(PARABOLA, EQUAL)
    weights = solved.estimate.weights[MAIN] / own.shares[:, None]
    # Replicate b is the same draw at every level that has so many, so that the losses of two levels move together.
    expected = 0.0
    for share, row, fold in zip(own.shares, weights, own.folds, strict=True):
        for w, one in zip(row, fold.main.losses, strict=True):
            for v, other in zip(row, fold.main.losses, strict=True):
                m = min(len(one), len(other))
                both = np.cov(one[:m], other[:m])[0, 1] * m / (len(one) * len(other))
                expected += share**2 * w * v * both
    assert own.monte_carlo_of(solved.estimate) == pytest.approx(expected)


@pytest.mark.parametrize("noise", [1.0, math.nan])
def test_only_levels_that_count_need_more_fits(monkeypatch, noise):
    """Not those without weight, whatever is known of the noise: no run could be fitted at none of its levels."""
    own = pooled("records, sizes and below")
    weights = {role: np.zeros_like(own.columns.means(role)) for role in own.roles}
    weights[MAIN][:, 0], weights[MAIN][:, 1], weights[MAIN][:, 2] = 1.0, -0.97, -0.03
    monkeypatch.setattr(Influences, "monte_carlo_of_roles", lambda *_: dict.fromkeys(weights, 0.0) | {MAIN: noise})
    assert {role: levels.tolist() for role, levels in own.noisy_levels(Functional(0.0, weights)).items()} == {
        MAIN: own.injected[:2].tolist()
    }

"""The rate from the data: the bound against brute force, the estimate on simple scores, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import hypergeom
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.datasets import make_patients
from outofcluster.leakage.data import DataRate, _tail, estimate_rate, largest_count, over_folds
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import make_folds


@pytest.mark.parametrize("a", [0, 1, 7, 40])
@pytest.mark.parametrize("b", [1, 5, 30, 60])
@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.3])
def test_the_bound_by_brute_force(a, b, alpha):
    n_train, n_validation = 300, 60
    tails = [hypergeom.cdf(a, leaked + n_validation, a + b, leaked) for leaked in range(a, n_train + 1)]
    largest = max(leaked for leaked, tail in zip(range(a, n_train + 1), tails, strict=True) if tail > alpha)
    assert largest_count(a, b, n_train, n_validation, alpha) == largest
    mine = [_tail(a, b, leaked, n_validation) for leaked in range(a, n_train + 1)]
    np.testing.assert_allclose(mine, tails, rtol=1e-9, atol=1e-12)


def test_the_bound_where_nothing_is_known():
    assert largest_count(5, 0, 200, 50, 0.05) == 200
    assert largest_count(200, 50, 200, 50, 0.05) == 200


def scored(train, validation, ceiling=0.1, auc=0.9):
    """Sides with these scores, dealt into five folds in turn."""
    train, validation = np.asarray(train, dtype=float), np.asarray(validation, dtype=float)
    folds = {"fold_train": np.arange(len(train)) % 5, "part": np.arange(len(validation)) % 5}
    return SimpleNamespace(score_train=train, score_validation=validation, ceiling=ceiling, auc=auc, **folds)


def test_sides_that_separate_completely():
    """All of V̂ scores high, and so do the 50 of 500 records that leaked: rate and share are exact."""
    rng = np.random.default_rng(0)
    train = rng.permutation(np.repeat([-1.0, 1.0], [450, 50]))
    found = estimate_rate(scored(train, np.ones(100), ceiling=0.001))
    assert found.rate == pytest.approx(0.1)
    assert 0.1 <= found.upper <= 0.11
    none = estimate_rate(scored(-np.ones(500), np.ones(100), ceiling=1e-4))
    assert none.rate == 0
    assert none.upper < 0.01


def test_sides_that_cannot_be_told_apart():
    rng = np.random.default_rng(0)
    found = estimate_rate(scored(rng.standard_normal(400), rng.standard_normal(100), ceiling=0.95, auc=0.5))
    assert found.upper == 1
    assert found.rate < 1
    constant = estimate_rate(scored(np.zeros(400), np.zeros(100), ceiling=0.95, auc=0.5))
    assert constant.upper == 1
    assert constant.rate < 1


def test_the_estimate_lies_between_ceiling_and_region():
    rng = np.random.default_rng(1)
    sides = scored(rng.standard_normal(600), 2 + rng.standard_normal(200), ceiling=0.02)
    found, free = estimate_rate(sides), estimate_rate(scored(sides.score_train, sides.score_validation, ceiling=0.95))
    # Without a ceiling the rate is the ratio in the region, so the share F of V̂ in the region follows from both.
    weight = (found.rate - 0.02) / (free.rate - 0.02)
    assert 0.02 < found.rate < free.rate < found.upper == free.upper
    assert np.sqrt(weight) * 200 == pytest.approx(round(np.sqrt(weight) * 200), abs=1e-9)
    assert found.upper - found.rate == pytest.approx(1.6448536 * found.std)


def test_the_bound_holds_for_any_score():
    """Leaked records and V̂ have one law, and the score is poor: the bound fails in at most 5 % of the draws."""
    rng = np.random.default_rng(2)
    leaked, failures = 60, 0
    for _ in range(200):
        train = np.concatenate([rng.normal(1.5, 1, leaked), rng.normal(0, 1, 340)])
        failures += estimate_rate(scored(rng.permutation(train), rng.normal(1.5, 1, 120))).upper < leaked / 400
    assert failures / 200 <= 0.05


def test_means_over_folds():
    one, two = DataRate(0.1, 0.2, 0.06), DataRate(0.2, 0.4, 0.12)
    both = over_folds([one, two])
    assert (both.rate, both.upper, both.std) == pytest.approx((0.15, 0.3, 0.09))
    assert over_folds([one]) == one


# --- Leakage.from_data ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(8), 60)
    X = rng.standard_normal((8, 5))[cluster] + 0.4 * rng.standard_normal((480, 5))
    y = (X[:, 0] + 0.5 * rng.standard_normal(480) > 0).astype(int)
    return X, y, ooc.simulate_leakage(cluster, [6, 7], 0.1, unit="records", of="train", random_state=1)


def from_data(world, **options):
    X, y, split = world
    given = {"groups": split.groups, "cv": [(split.train, split.validation)], "random_state": 0} | options
    return Leakage.from_data(options.pop("X", X), given.pop("y", y), **given)


def test_a_rate_with_its_bound(world):
    leakage = from_data(world)
    assert leakage.of == "train"
    assert leakage.rate == pytest.approx(world[2].rate, abs=0.02)
    assert world[2].rate <= leakage.bound == leakage.upper < 0.18
    assert leakage.std == pytest.approx((leakage.bound - leakage.rate) / 1.6448536)
    assert from_data(world) == leakage
    assert from_data(world, random_state=1) != leakage
    assert from_data(world, discriminator=LogisticRegression()).bound >= world[2].rate


def test_means_over_the_folds_of_a_cross_validation(world):
    pair = (world[2].train, world[2].validation)
    twice = from_data(world, cv=[pair, pair])
    assert twice.rate == pytest.approx(world[2].rate, abs=0.02)
    assert world[2].rate <= twice.bound <= 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"error_model": "fragments", "discriminator": LogisticRegression()},
            "discriminator must be left out for error_model='fragments', got LogisticRegression()",
        ),
        ({"identity": np.ones(480)}, "identity must be left out for error_model='records'"),
        ({"identity": np.ones(3)}, "identity must have one row for each of the 480 records of X, got 3"),
        ({"error_model": "both"}, "error_model must be 'auto' or 'records' or 'fragments', got 'both'"),
        ({"discriminator": LinearSVC()}, "discriminator must be a classifier with predict_proba, got LinearSVC"),
        ({"random_state": -1}, "random_state must be a whole number at least 0"),
        ({"groups": None}, "groups must give the cluster of every record"),
        ({"y": csr_matrix(np.ones((480, 1)))}, "y must be an array or a series, got a sparse matrix"),
        ({"y": np.ma.masked_array(np.zeros(480), np.arange(480) == 3)}, "y must be an array without a mask"),
        ({"y": pd.Series([[0, 1], *range(479)])}, "y must hold labels such as numbers or strings"),
        ({"y": [[0, 1], *range(479)]}, "y must hold one target per record, got list of uneven parts"),
        ({"y": np.full(480, 1j)}, "y must hold labels or real numbers, got complex ones"),
    ],
)
def test_what_is_refused(world, options, sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        from_data(world, **options)
    assert str(refusal.value).count(".") == 1 or "\n" not in str(refusal.value)


def test_cells_that_hold_arrays_are_categories(world):
    """A series of arrays is one column, however many numbers each cell holds."""
    X, y, split = world
    cells = pd.Series(list(np.round(X[:, :2])))
    leakage = Leakage.from_data(cells, y, groups=split.groups, cv=[(split.train, split.validation)], random_state=0)
    assert 0 <= leakage.rate < 1


def test_sides_that_are_too_small_or_of_a_single_class(world):
    _, y, split = world
    with pytest.raises(InputError, match=r"at least 10 validation records in every fold .*, got 9 in fold 0"):
        from_data(world, cv=[(split.train, split.validation[:9])])
    single = y.copy()
    single[split.validation] = 1
    sentence = "at least two classes on both sides .*, got only 1 among the validation records of fold 0"
    with pytest.raises(InputError, match=sentence):
        from_data(world, y=single)
    with pytest.raises(InputError, match="got only b among the validation records of fold 0"):
        from_data(world, y=np.where(single, "b", "a"))


def test_linked_entities_may_still_be_called_records(world):
    fine = np.asarray(world[2].groups) * 100 + np.arange(480) % 10
    assert from_data(world, groups=fine, error_model="records").bound <= 1


# --- the bound of a Leakage -------------------------------------------------------------------------------


def test_upper_is_the_bound_or_the_end_of_an_interval():
    assert Leakage(0.1).upper is None
    assert Leakage(0.1, bound=0.17).upper == 0.17
    uncertain = Leakage(0.1, std=0.02)
    assert uncertain.upper == uncertain.interval(0.9)[1]
    assert Leakage(0.1, std=0.02, bound=0.3).upper == 0.3


def test_a_bound_is_said():
    assert str(Leakage(0.1, bound=0.17)) == "10 % of the training records leak, at most 17 % (95 % bound)"
    assert (
        str(Leakage(0.1, 0.04, "train", 1)) == "10.0 % ± 4.0 % of the training records leak, at most 100 % (95 % bound)"
    )


def test_a_bound_is_a_share_and_not_below_the_rate():
    with pytest.raises(InputError, match="bound must lie in"):
        Leakage(0.1, bound=1.2)
    with pytest.raises(InputError, match=r"bound must be at least the rate, 0.1, got 0.05\."):
        Leakage(0.1, bound=0.05)


# --- pieces of entities -----------------------------------------------------------------------------------


def test_the_rate_of_pieces_is_that_which_is_seen():
    """Patients whose features tell them apart: nearly all split ones are seen, and the bound holds."""
    patients = make_patients(150, record_noise=0.1, random_state=1)
    folds = make_folds(patients.data, None, patients.groups, 5)
    truth = sum(np.isin(patients.entities[fold.validation], patients.entities[fold.train]).sum() for fold in folds)
    leakage = Leakage.from_data(patients.data, patients.target, groups=patients.groups, random_state=0)
    assert leakage.of == "validation"
    assert not leakage.at_least
    assert leakage.rate == pytest.approx(truth / len(patients.target), abs=0.03)
    assert leakage.rate < leakage.bound == leakage.upper < 0.3
    assert truth / len(patients.target) <= leakage.bound
    assert Leakage.from_data(patients.data, patients.target, groups=patients.groups, random_state=0) == leakage


def test_where_features_tell_nobody_apart_identity_may():
    patients = make_patients(120, record_noise=0.1, random_state=2)
    noise = np.random.default_rng(0).standard_normal((len(patients.target), 2))
    target = np.random.default_rng(1).integers(0, 2, len(patients.target))
    options = {"groups": patients.groups, "error_model": "fragments", "random_state": 0}
    blind = Leakage.from_data(noise, target, **options)
    assert (blind.rate, blind.bound, blind.at_least) == (0, 1, True)
    assert "at least 0 %" in str(blind)
    seeing = Leakage.from_data(noise, target, identity=patients.data, **options)
    assert seeing.rate > 0.05
    assert seeing.bound < 0.5
    frame = pd.DataFrame(np.column_stack([noise, patients.data]), columns=list("ab") + [f"id{k}" for k in range(6)])
    named = Leakage.from_data(frame, target, identity=[f"id{k}" for k in range(6)], **options)
    assert named.rate == pytest.approx(seeing.rate)

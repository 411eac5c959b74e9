"""Rates from a review: nearer to the truth than the model alone, with intervals that cover, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from outofcluster._base.exceptions import InputError
from outofcluster.leakage.rate import Leakage
from outofcluster.leakage.review import recalibrate


def world(rng, n=600, rate=0.12, apart=2.0, shift=0.0, slope=1.0):
    """Whether records leaked, and probabilities whose log-odds are wrong by a shift and a slope."""
    leaked = rng.random(n) < rate
    score = rng.standard_normal(n) + apart * leaked
    true_log_odds = logit(rate) + apart * score - apart**2 / 2
    return leaked, pd.DataFrame({"record": np.arange(n), "probability": expit(shift + slope * true_log_odds)})


def most_suspicious(suspects, leaked, m):
    return {int(row): bool(leaked[row]) for row in suspects["probability"].nlargest(m).index}


def log_posterior(intercept, slope, log_odds, answers):
    """Of corrected odds exp(intercept) odds^slope, with the priors N(0, 1.5²) and N(1, 0.4²)."""
    yes = 1 / (1 + np.exp(-intercept - slope * np.asarray(log_odds)))
    likelihood = np.prod(np.where(answers, yes, 1 - yes))
    return np.log(likelihood) - intercept**2 / (2 * 1.5**2) - (slope - 1) ** 2 / (2 * 0.4**2)


def correction(log_odds, answers):
    """Intercept and slope by search over grids, and their covariance by second differences."""
    best, width = np.array([0.0, 1.0]), 4.0
    for _ in range(11):
        grid = np.stack(np.meshgrid(*(np.linspace(c - width, c + width, 21) for c in best)), axis=-1).reshape(-1, 2)
        best, width = max(grid, key=lambda point: log_posterior(*point, log_odds, answers)), width / 5
    h = 1e-3
    curvature = np.empty((2, 2))
    for i, j in np.ndindex(2, 2):
        steps = [(a * h * np.eye(2)[i] + b * h * np.eye(2)[j], a * b) for a in (-1, 1) for b in (-1, 1)]
        curvature[i, j] = -sum(s * log_posterior(*best + step, log_odds, answers) for step, s in steps) / (4 * h**2)
    return best, np.linalg.inv(curvature)


def test_the_correction_by_brute_force():
    """Rate and standard error of six clusters, three of them reviewed, by the formulas and a search over grids."""
    q, sizes = np.array([0.9, 0.7, 0.5, 0.3, 0.2, 0.1]), np.array([4, 2, 3, 1, 2, 5])
    suspects = pd.DataFrame({"cluster": list("abcdef"), "probability": q, "records": sizes})
    log_odds = np.log(q / (1 - q))
    (intercept, slope), covariance = correction(log_odds[:3], [True, False, True])
    g = 1 / (1 + np.exp(-intercept - slope * log_odds[3:]))
    n = sizes[3:]
    gradient = np.array([(n * g * (1 - g)).sum(), (n * g * (1 - g) * log_odds[3:]).sum()])
    variance = n.mean() ** 2 / 2 + (n**2 * g * (1 - g)).sum() + gradient @ covariance @ gradient
    leakage = Leakage.from_review(suspects, {"a": True, "b": False, "c": True})
    assert leakage.rate == pytest.approx((4 + 3 + (n * g).sum()) / 17, rel=1e-6)
    assert leakage.std == pytest.approx(np.sqrt(variance) / 17, rel=1e-5)


@pytest.mark.parametrize("m", [1, 8, 80, 2000])
def test_recalibration_has_the_largest_posterior(m):
    """A logistic regression with normal priors, maximised by scipy; with very many answers the priors hardly count."""
    rng = np.random.default_rng(m)
    log_odds = rng.normal(-1, 2, m)
    answers = (rng.random(m) < expit(0.8 + 0.6 * log_odds)).astype(float)

    def minus_log_likelihood(theta):
        eta = theta[0] + theta[1] * log_odds
        return np.logaddexp(0, eta).sum() - answers @ eta

    def minus_log_posterior(theta):
        return minus_log_likelihood(theta) + 0.5 * (theta[0] / 1.5) ** 2 + 0.5 * ((theta[1] - 1) / 0.4) ** 2

    theta, covariance = recalibrate(log_odds, answers)
    found = minimize(minus_log_posterior, [0.0, 1.0], tol=1e-12)
    np.testing.assert_allclose(theta, found.x, atol=1e-5)
    g = expit(found.x[0] + found.x[1] * log_odds)
    columns = np.column_stack([np.ones(m), log_odds])
    information = columns.T @ ((g * (1 - g))[:, None] * columns) + np.diag([1.5**-2, 0.4**-2])
    np.testing.assert_allclose(np.linalg.inv(covariance), information, rtol=1e-4)
    if m == 2000:
        plain = minimize(minus_log_likelihood, [0.0, 1.0], tol=1e-12)
        np.testing.assert_allclose(theta, plain.x, atol=0.02)
        np.testing.assert_allclose(theta, [0.8, 0.6], atol=0.2)


def test_answers_move_the_odds_their_own_way():
    log_odds = np.array([-2.0, -1.0, 0.0, 1.0, 2.0] * 6)
    (more, _), (less, _) = (recalibrate(log_odds, np.full(30, answer))[0] for answer in (1.0, 0.0))
    assert less < -1 < 1 < more
    # Answers as the odds say leave them nearly as they are.
    rng = np.random.default_rng(0)
    many = rng.normal(0, 2, 5000)
    (intercept, slope), _ = recalibrate(many, (rng.random(5000) < expit(many)).astype(float))
    assert intercept == pytest.approx(0, abs=0.1)
    assert slope == pytest.approx(1, abs=0.1)
    # Answers that do not depend on the odds take their slope away.
    assert recalibrate(many, (rng.random(5000) < 0.5).astype(float))[0][1] < 0.1


def test_the_correction_of_reviewed_pairs_by_brute_force():
    """Single records, each with one candidate: of the training records a fifth of the matches leak."""
    m = np.array([0.95, 0.8, 0.6, 0.5, 0.4, 0.2, 0.05, 0.01])
    answers = {0: True, 2: False, 3: True, 5: False}
    known, others = list(answers), [1, 4, 6, 7]
    log_odds = np.log(m / (1 - m))
    (intercept, slope), covariance = correction(log_odds[known], list(answers.values()))
    g = 1 / (1 + np.exp(-intercept - slope * log_odds[others]))
    leakage = Leakage.from_pair_probabilities(
        np.arange(0, 16, 2),
        np.arange(1, 16, 2),
        m,
        groups=np.arange(16),
        reviewed=answers,
        of="train",
        blocking_recall=1,
    )
    assert leakage.rate == pytest.approx(0.2 * (2 + g.sum()) / 8, rel=1e-6)
    gradient = np.array([(g * (1 - g)).sum(), (g * (1 - g) * log_odds[others]).sum()])
    variance = (g * (1 - g)).sum() + gradient @ covariance @ gradient
    assert leakage.std == pytest.approx(0.2 * np.sqrt(variance) / 8, rel=1e-5)


def judge(draws, m, seed, **wrong):
    """Root mean squares of both errors, and the share of the intervals that cover."""
    rng = np.random.default_rng(seed)
    errors, before, covers = [], [], []
    for _ in range(draws):
        leaked, suspects = world(rng, **{name: rng.normal(*law) for name, law in wrong.items()})
        leakage = Leakage.from_review(suspects, most_suspicious(suspects, leaked, m))
        low, high = leakage.interval()
        errors.append(leakage.rate - leaked.mean())
        before.append(suspects["probability"].mean() - leaked.mean())
        covers.append(low <= leaked.mean() <= high)
    return np.sqrt(np.mean(np.square(errors))), np.sqrt(np.mean(np.square(before))), np.mean(covers)


def test_a_review_corrects_probabilities_that_are_twice_too_high():
    after, before, covers = judge(40, 100, seed=10, shift=(1.0, 0.0))
    assert after < 0.5 * before
    assert covers >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "wrong", "ratio"),
    [
        (100, {"shift": (1.0, 0.0)}, 0.4),
        (100, {"shift": (-1.0, 0.0)}, 0.6),
        (150, {"shift": (0.0, 1.0), "slope": (1.0, 0.2)}, 0.3),
        (60, {"shift": (0.0, 1.0), "slope": (1.0, 0.2)}, 0.8),
    ],
)
def test_a_review_brings_the_rate_nearer_to_the_truth_and_its_interval_covers(m, wrong, ratio):
    after, before, covers = judge(400, m, seed=11, **wrong)
    assert after < ratio * before
    assert covers >= 0.9


@pytest.mark.slow
def test_a_random_review_is_unbiased_and_its_interval_covers():
    rng = np.random.default_rng(3)
    rates, covers = [], []
    for _ in range(1000):
        leaked, suspects = world(rng, shift=2.0)
        rows = rng.choice(len(leaked), 150, replace=False)
        leakage = Leakage.from_review(suspects, {int(i): bool(leaked[i]) for i in rows}, drawn="random")
        rates.append(leakage.rate - leaked.mean())
        low, high = leakage.interval()
        covers.append(low <= leaked.mean() <= high)
    assert abs(np.mean(rates)) < 3 * np.std(rates) / np.sqrt(1000)
    assert np.mean(covers) >= 0.92


def test_where_all_were_reviewed_the_rate_is_known():
    leaked, suspects = world(np.random.default_rng(0), n=50)
    for drawn in ("suspicious", "random"):
        leakage = Leakage.from_review(suspects, dict(enumerate(leaked)), drawn=drawn)
        assert leakage.rate == pytest.approx(leaked.mean())
        assert leakage.std == 0
    assert leakage.of == "train"


def test_answers_that_agree_with_the_model_leave_the_rate_near_it_and_contrary_ones_move_it():
    suspects = pd.DataFrame({"record": np.arange(400), "probability": np.repeat([0.5, 0.1], 200)})
    half = Leakage.from_review(suspects, {i: i % 2 == 0 for i in range(100)})
    none = Leakage.from_review(suspects, dict.fromkeys(range(100), False))
    everyone = Leakage.from_review(suspects, dict.fromkeys(range(100), True))
    assert half.rate == pytest.approx(0.3, abs=0.005)
    assert none.rate < 0.05
    assert everyone.rate > 0.5
    assert none.std > 0


def test_more_answers_make_the_rate_more_certain():
    leaked, suspects = world(np.random.default_rng(1))
    stds = [Leakage.from_review(suspects, most_suspicious(suspects, leaked, m)).std for m in (20, 80, 200)]
    assert stds[0] > stds[1] > stds[2]


def test_records_that_are_not_listed_count_as_not_leaked():
    leaked, suspects = world(np.random.default_rng(2))
    reviewed = most_suspicious(suspects, leaked, 50)
    whole, among_more = (Leakage.from_review(suspects, reviewed, n_train=n) for n in (None, 1200))
    assert among_more.rate == pytest.approx(whole.rate / 2)
    assert among_more.std == pytest.approx(whole.std / 2)


def test_frames_mappings_and_folds_say_the_same():
    leaked, suspects = world(np.random.default_rng(4), n=100)
    reviewed = most_suspicious(suspects, leaked, 30)
    expected = Leakage.from_review(suspects, reviewed)
    frame = pd.DataFrame({"record": list(reviewed), "leaked": list(reviewed.values())})
    partly = suspects.assign(leaked=pd.Series(reviewed, dtype="boolean"))
    with_fold = suspects.assign(fold=2)
    by_fold = {(2, record): answer for record, answer in reviewed.items()}
    for of, answers in (
        (suspects, frame),
        (suspects, partly),
        (with_fold, by_fold),
        (with_fold, reviewed),
        (with_fold, frame.assign(fold=2)),
    ):
        assert Leakage.from_review(of, answers) == expected


def test_clusters_count_with_their_records():
    clusters = pd.DataFrame({"cluster": ["a", "b", "c"], "probability": [0.9, 0.5, 0.0], "records": [6, 3, 11]})
    leakage = Leakage.from_review(clusters, {"a": True, "b": False})
    assert leakage.rate == pytest.approx(6 / 20)
    assert leakage.std == 0
    drawn = Leakage.from_review(clusters, {"a": True, "b": False}, drawn="random")
    assert drawn.rate == pytest.approx(6 / 9)
    assert Leakage.from_review(clusters, {"a": False, "c": False}, drawn="random").std == pytest.approx(12**-0.5)
    assert Leakage.from_review(clusters, {"b": False}, drawn="random").std is None


SUSPECTS = pd.DataFrame({"fold": [0, 1, 1], "record": [5, 5, 7], "probability": [0.5, 0.4, 0.1]})


@pytest.mark.parametrize(
    ("suspects", "reviewed", "options", "message"),
    [
        (SUSPECTS, {5: True}, {}, "reviewed must say in which fold, .* got 5, which occurs 2 times"),
        (SUSPECTS, {8: True}, {}, "reviewed must name suspects, got 8"),
        (SUSPECTS, {7: "yes"}, {}, "reviewed must say True or False for each suspect, got 'yes' for 7"),
        (SUSPECTS, {}, {}, "reviewed must hold an answer for at least one suspect"),
        (SUSPECTS, {7: True, (1, 7): False}, {}, "reviewed must have one answer for each suspect, got two for"),
        (SUSPECTS, pd.DataFrame({"record": [7]}), {}, "reviewed must have the column 'leaked', got 'record'"),
        (SUSPECTS, pd.DataFrame({"leaked": [True]}), {}, "reviewed must have the column 'record' or 'cluster'"),
        (SUSPECTS, 7, {}, "must be frames, or reviewed a mapping, got 7"),
        (SUSPECTS, {7: True}, {"drawn": "first"}, "drawn must be 'suspicious' or 'random', got 'first'"),
        (SUSPECTS, {7: True}, {"n_train": 2}, "n_train must be a whole number at least 3, got 2"),
        (
            SUSPECTS.drop(columns="record"),
            {7: True},
            {},
            "suspects must have the column 'record' or 'cluster', got 'fold'",
        ),
        (SUSPECTS.drop(columns="probability"), {7: True}, {}, "suspects must have the column 'probability'"),
        (SUSPECTS.assign(probability=1.5), {7: True}, {}, r"probability must lie in \[0, 1\], got 1.5"),
        ({"cluster": ["a"], "probability": [0.2], "records": [0]}, {"a": True}, {}, "records must be above 0, got 0"),
    ],
)
def test_what_is_refused(suspects, reviewed, options, message):
    with pytest.raises(InputError, match=message):
        Leakage.from_review(suspects, reviewed, **options)

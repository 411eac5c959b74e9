"""Audits whose leakage rate is given as a probability for every record."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import outofcluster as ooc
from outofcluster.errormodels.records import rate_check
from outofcluster.evidence.sides import RateCheck
from outofcluster.leakage.data import DataRate, check_record_rates, informed_rates, rate_of_records
from outofcluster.sampling.audit_samples import UNMIXED
from outofcluster.sampling.resamplers import RecordWeights


def world(seed, rate=0.1, sharpness=2.5, n_train=6, n_held=2, size=120):
    """Held-out clusters follow other slopes; a score that knows nothing of (x, y) tells who leaked."""
    rng = np.random.default_rng(seed)
    count = n_train + n_held
    cluster = np.repeat(np.arange(count), size)
    X = rng.standard_normal((count, 6))[cluster] + 0.5 * rng.standard_normal((len(cluster), 6))
    slopes = np.zeros((count, 6))
    slopes[:, :2] = 1.0, 0.5
    slopes[n_train:] += 0.6 * rng.standard_normal(6)
    y = (X * slopes[cluster]).sum(axis=1) + 0.7 * rng.standard_normal(len(cluster))
    held = cluster >= n_train
    split = ooc.simulate_leakage(cluster, np.arange(n_train, count), rate, random_state=seed)
    clean = split.train[~held[split.train]]
    model = Ridge().fit(X[clean], y[clean])
    truth = float(np.mean((model.predict(X[split.validation]) - y[split.validation]) ** 2))
    score = sharpness * held + rng.standard_normal(len(held))
    log_odds = np.log(split.rate / (1 - split.rate)) + sharpness * score - sharpness**2 / 2
    return X, y, split, 1 / (1 + np.exp(-log_odds)), truth


def audit(data, leakage, **options):
    X, y, split, _, _ = data
    settings = {"error_model": "records", "n_fits": 600, "random_state": 0} | options
    return ooc.audit(
        Ridge(), X, y, groups=split.groups, leakage=leakage, cv=[(split.train, split.validation)], **settings
    )


def odds_times(q, factor):
    return factor * q / (1 - q + factor * q)


@pytest.fixture(scope="module")
def data():
    return world(3)


@pytest.fixture(scope="module")
def result(data):
    return audit(data, data[3])


def test_the_rate_is_the_mean_over_the_training_records(data, result):
    _, _, split, q, _ = data
    of_train = q[split.train]
    assert result.leakage[0].rate == pytest.approx(of_train.mean())
    assert result.leakage[0].std == pytest.approx(np.sqrt((of_train * (1 - of_train)).sum()) / len(of_train))
    assert result.leakage[0].of == "train"
    assert "taken as known" not in str(result)


def test_it_is_near_the_truth(data, result):
    *_, truth = data
    assert abs(result.corrected.value - truth) < 0.1 * abs(result.naive.value - truth)
    low, high = result.corrected.interval
    assert low <= truth <= high
    assert not [finding for finding in result.findings if finding.code == "per-record-rates"]


def test_levels_are_known_by_the_probabilities_themselves(data, result):
    _, _, split, q, _ = data
    weights = RecordWeights.of(q[split.train][None], np.zeros(len(split.validation), dtype=np.int64))
    for fraction in (-0.2, -0.05, 0.1):
        w = weights.weights(fraction, 0)
        assert 1 - w.mean() == pytest.approx(abs(fraction) / (1 - fraction))
        left = w @ q[split.train] / w.sum() / q[split.train].mean()
        assert weights.kept(fraction) == pytest.approx(left if fraction < 0 else 1.0)
    levels = result.curve.unmixing_.levels
    assert levels[0] == pytest.approx(result.leakage[0].rate)
    assert levels[-1] < 0.1 * levels[0]


def test_weights_of_records_that_cannot_have_leaked():
    weights = RecordWeights.of(np.array([[0.0, 0.0, 0.0, 0.5]]), np.zeros(2, dtype=np.int64))
    np.testing.assert_allclose(weights.weights(-0.25, 0), [1, 1, 1, 0.2])
    assert weights.kept(-0.25) == pytest.approx(0.2 / 0.8)
    assert not weights.allows(-0.5)  # A third of the records cannot go if a quarter of them can have leaked.
    nothing = RecordWeights.of(np.zeros((1, 4)), np.zeros(2, dtype=np.int64))
    assert nothing.weights(-0.25, 0).tolist() == [1, 1, 1, 1]
    assert nothing.allows(-0.25)


@pytest.mark.slow
def test_odds_that_are_wrong_by_two_are_noticed_and_do_no_harm(data):
    *_, q, truth = data
    wrong = audit(data, odds_times(q, 2.0))
    findings = [finding for finding in wrong.findings if finding.code == "per-record-rates"]
    assert [finding.severity for finding in findings] == ["warning"]
    assert "too high" in findings[0].message
    assert abs(wrong.corrected.value - truth) < abs(wrong.naive.value - truth)


def test_no_further_fit_for_another_rate_and_for_a_file(result, tmp_path, monkeypatch):
    monkeypatch.setattr(Ridge, "fit", None)
    values = [result.at_leakage(rate).corrected.value for rate in (0.0, 0.05, 0.1)]
    assert values[0] == pytest.approx(result.naive.value, rel=0.05)
    assert values[0] <= values[1] <= values[2]
    result.save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert again.corrected == result.corrected
    assert again.findings == result.findings
    assert rate_check(again.samples) == rate_check(result.samples)


def test_the_derivative_of_the_optimism_is_that_of_the_losses(result):
    """With the shares of the shapes held, as the derivative holds them; against differences of the same formula."""
    solution = result.curve.unmixing_
    derivative = solution.optimism_derivative
    assert derivative.sum() == pytest.approx(0, abs=1e-9)
    shift = derivative[len(solution.points.p) :]
    assert shift[solution.unmixed.masses == 0] < -0.5  # The user's own loss is what the optimism is measured from.


@pytest.mark.slow
def test_rates_that_differ_between_folds_are_pooled():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 10)
    X = rng.standard_normal((12, 3))[groups] + rng.standard_normal((120, 3))
    y = X[:, 0] + rng.standard_normal(12)[groups]
    q = rng.beta(1, 9, 120)
    options = {"groups": groups, "error_model": "records", "cv": 2, "random_state": 0}
    plain = ooc.audit(Ridge(), X, y, leakage=q, n_fits=300, **options)
    assert plain.pooled.has_record_rates
    assert len({leak.rate for leak in plain.leakage}) == 2
    assert plain.solution.correction.estimate.weights[UNMIXED].any()
    options |= {"n_fits": 60, "unmix": False}
    one_row, two_rows = (ooc.audit(Ridge(), X, y, leakage=rates, **options) for rates in (q, [q.tolist()] * 2))
    assert one_row.corrected == two_rows.corrected
    assert one_row.leakage == plain.leakage
    zeros = ooc.audit(Ridge(), X, y, leakage=np.zeros(120), **options)
    assert zeros.corrected.value == pytest.approx(zeros.naive.value)
    assert {leak.rate for leak in zeros.leakage} == {0.0}


def test_bad_probabilities_are_refused_before_any_fit(data, monkeypatch):
    X, _, _, q, _ = data
    monkeypatch.setattr(Ridge, "fit", None)
    cases = {
        "leakage must hold probabilities between 0 and 1 for the records, got 1.5.": np.where(q == q[0], 1.5, q),
        "leakage must hold probabilities between 0 and 1 for the records, got nan.": np.where(q == q[0], np.nan, q),
        f"or a probability for each of the {len(X)} records, got 7 numbers.": q[:7],
        f"got 2 by {len(X)} numbers.": np.stack([q, q]),
        "leakage must hold numbers, one for each record": ["a"] * len(X),
        "leakage must be at most 0.5, beyond which nothing can be told": np.full(len(X), 0.9),
    }
    for message, wrong in cases.items():
        with pytest.raises(ooc.InputError, match=r"^leakage must") as error:
            audit(data, wrong)
        assert message in str(error.value)
    with pytest.raises(ooc.InputError, match="probabilities of single records"):
        audit(data, q, error_model="fragments")


def test_auto_takes_them_as_those_of_records(data):
    result = audit(data, data[3], error_model="auto", n_fits=60, unmix=False)
    assert result.error_model == "records"
    assert "the rates are those of single records" in " ".join(result.explain().split())


class FakeSides:
    """Scores of known laws: normal, those of held-out records shifted; ratios that follow from them."""

    def __init__(self, leaked, n_validation, rng, shift=2.0):
        z, rate = shift * leaked + rng.standard_normal(len(leaked)), leaked.mean()
        evidence = np.exp(shift * z - shift**2 / 2)
        self.score_train, self.score_validation = z, shift + rng.standard_normal(n_validation)
        self.ratio_train = evidence / (1 - rate + rate * evidence)
        self.ratio_by_part = self.ratio_train[None]
        self.evidence, self.rate, self.auc = evidence, rate, 0.9


@pytest.fixture
def known_rate(monkeypatch):
    """The data's own rate is that of the fake."""

    def rate(sides):
        return DataRate(sides.rate, 1.0, 0.1)

    monkeypatch.setattr("outofcluster.leakage.data.estimate_rate", rate)


def test_the_score_test_against_scores_of_known_laws(known_rate):
    rng = np.random.default_rng(1)
    q = rng.beta(0.5, 2.0, 20_000)
    leaked = rng.random(len(q)) < q
    sides = FakeSides(leaked, 5000, rng)
    right = check_record_rates(q, sides)
    assert abs(right.z) < 3
    assert right.factor == pytest.approx(1, abs=0.1)
    assert right.known == 0
    high, low = (check_record_rates(odds_times(q, factor), sides) for factor in (2.0, 0.5))
    assert (high.z < -10, low.z > 10) == (True, True)
    assert high.factor == pytest.approx(0.5, abs=0.1)
    assert low.factor == pytest.approx(2.0, abs=0.6)
    # Where the sides can hardly be told apart, a regression takes the place of the likelihood ratio.
    sides.auc = 0.6
    assert abs(check_record_rates(q, sides).z) < 3
    assert check_record_rates(odds_times(q, 2.0), sides).z < -5
    assert check_record_rates(odds_times(q, 0.5), sides).z > 5
    assert check_record_rates(np.full(len(q), 0.2), sides).z == 0


def test_the_records_own_evidence_is_added_by_bayes_rule(known_rate):
    rng = np.random.default_rng(3)
    q = rng.beta(0.5, 2.0, 50_000)
    leaked = rng.random(len(q)) < q
    sides = FakeSides(leaked, 5000, rng)
    both = informed_rates(q, sides, 0.0)[0]
    odds = q / (1 - q) * sides.evidence
    bounded = sides.rate * sides.ratio_train < 0.9
    np.testing.assert_allclose(both[bounded], (odds / (1 + odds))[bounded], rtol=1e-8)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9)):
        some = (both >= low) & (both < high)
        assert leaked[some].mean() == pytest.approx(both[some].mean(), abs=0.02)
    np.testing.assert_array_equal(informed_rates(q, sides, 1.0)[0], q / (q + (1 - q)))


def test_probabilities_that_know_the_features_are_recognised(known_rate):
    rng = np.random.default_rng(2)
    leaked = rng.random(20_000) < 0.2
    sides = FakeSides(leaked, 5000, rng)
    odds = 0.25 * sides.evidence
    informed = check_record_rates(odds / (1 + odds), sides)
    assert informed.known > 0.9
    assert (informed.z, informed.factor) == (0.0, 1.0)


def test_checks_of_folds_add_up():
    both = RateCheck.pooled([RateCheck(4.0, 9.0, 0.0), RateCheck(-1.0, 7.0, 1.0)])
    assert (both.z, both.known) == (0.75, 0.5)
    assert RateCheck(0.0, 0.0, 0.0).z == 0
    assert RateCheck.pooled([]) is None


def test_a_rate_of_certain_records_is_exact():
    assert rate_of_records(np.array([0.0, 1.0])) == (0.5, None)

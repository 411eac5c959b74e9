"""Several models on the same resamples: paired intervals, the ranking, and what is refused."""

import json

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import outofcluster as ooc
from outofcluster._base.exceptions import FitError, InputError
from outofcluster.auditing.comparison import chance_of_change
from outofcluster.inference.estimates import chance_in_words

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(60), 4)
level = rng.standard_normal((60, 3))
X = level[groups] + 0.2 * rng.standard_normal((240, 3))
label = (level[:, 0] + rng.standard_normal(60) > 0)[groups]
target = (level @ [1.0, 0.5, 0.0] + rng.standard_normal(60))[groups] + 0.3 * rng.standard_normal(240)


def compare(models, y=target, **options):
    given = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 120, "unmix": False} | options
    return ooc.compare(models, X, y, **{"random_state": 0} | given)


@pytest.fixture(scope="module")
def ridges():
    return compare({"light": Ridge(0.1), "heavy": Ridge(30.0)})


def test_every_model_gets_the_audit_it_would_get_alone(ridges):
    options = {"leakage": 0.1, "error_model": "records", "n_fits": 120, "unmix": False, "random_state": 0}
    alone = ooc.audit(Ridge(30.0), X, target, groups=groups, **options)
    assert ridges.audits["heavy"].corrected == alone.corrected
    assert ridges.audits["heavy"].naive == alone.naive


def test_the_difference_is_that_of_the_values(ridges):
    difference = ridges.difference("light", "heavy")
    light, heavy = ridges.audits["light"], ridges.audits["heavy"]
    assert difference.naive.value == pytest.approx(light.naive.value - heavy.naive.value)
    assert difference.corrected.value == pytest.approx(light.corrected.value - heavy.corrected.value)
    back = ridges.difference("heavy", "light")
    assert back.corrected.value == pytest.approx(-difference.corrected.value)
    assert back.corrected.se_data == pytest.approx(difference.corrected.se_data)


def test_pairing_narrows_the_interval(ridges):
    """Two ridges see the same hard clusters: the difference is far surer than either loss."""
    difference = ridges.difference("light", "heavy").corrected
    apart = np.hypot(ridges.audits["light"].corrected.se_data, ridges.audits["heavy"].corrected.se_data)
    assert 0 < difference.se_data < 0.5 * apart
    noise = [ridges.audits[name].corrected.se_monte_carlo for name in ("light", "heavy")]
    assert difference.se_monte_carlo < np.hypot(*noise)


def test_a_model_does_not_differ_from_itself():
    twins = compare({"a": LinearRegression(), "b": LinearRegression()}, n_fits=60)
    difference = twins.difference("a", "b")
    for estimate in (difference.naive, difference.corrected):
        assert estimate.value == pytest.approx(0, abs=1e-12)
        assert estimate.se_data == pytest.approx(0, abs=1e-12)
        assert estimate.se_monte_carlo == pytest.approx(0, abs=1e-8)
    tipping = twins.tipping_point("a", "b")
    assert (tipping.rate, tipping.interval) == (None, (None, None))
    assert str(tipping) == "a and b are equally good by cross-validation, so that no order can change."


@pytest.mark.slow
def test_the_interval_of_the_difference_is_the_spread_over_data_sets():
    """The difference over 100 draws of clusters, against what they claim."""
    models = {"light": Ridge(0.1), "heavy": Ridge(100.0)}
    values, claimed = [], []
    for seed in range(100):
        own = np.random.default_rng(seed)
        u = own.standard_normal((60, 3))
        Z = u[groups] + 0.2 * own.standard_normal((240, 3))
        y = (u @ [1.0, 0.5, 0.0] + own.standard_normal(60))[groups]
        found = ooc.compare(
            models,
            Z,
            y,
            groups=groups,
            cv=[(np.arange(120), np.arange(120, 240))],
            leakage=0.05,
            error_model="records",
            n_fits=900,
            unmix=False,
            kernel=True,
            random_state=seed,
        ).difference("light", "heavy")
        values.append(found.corrected.value)
        claimed.append(found.corrected.se_data**2 + found.corrected.se_monte_carlo**2)
    assert 0.8 < np.sqrt(np.mean(claimed)) / np.std(values) < 1.4


@pytest.mark.slow
def test_correcting_may_change_the_ranking():
    """A neighbour profits from leaked records, a linear model hardly: with enough leakage they change places."""
    own = np.random.default_rng(2)
    coin = (0.5 * level[:, 0] + own.standard_normal(60) > 0)[groups]
    leaky = groups.copy()
    cut = own.random(60) < 0.6
    leaky[cut[groups] & (np.arange(240) % 4 < 2)] += 60
    models = {"neighbour": KNeighborsClassifier(1), "linear": LogisticRegression()}
    found = ooc.compare(
        models,
        X,
        coin,
        groups=leaky,
        leakage=0.48,
        error_model="fragments",
        cv=GroupKFold(5, shuffle=True, random_state=0),
        n_fits=60,
        unmix=False,
        random_state=0,
    )
    rate = found.tipping_point("neighbour", "linear").rate
    assert found.naive_ranking == ("neighbour", "linear")
    assert found.ranking == ("linear", "neighbour")
    assert found.ranking_changes
    assert found.differences[0].naive.value * found.differences[0].corrected.value < 0
    assert 0 < rate < 0.48
    at_rate = [found.audits[name].at_leakage(rate).corrected.value for name in models]
    assert at_rate[0] == pytest.approx(at_rate[1], abs=1e-4)
    assert "Correcting changes the ranking." in str(found)


@pytest.mark.parametrize(("error_model", "most"), [("records", 0.5), ("fragments", 0.9)])
def test_the_tipping_point_is_looked_for_up_to_the_largest_rate_of_the_error_model(error_model, most, monkeypatch):
    """The values of the two models are made to cross at a rate that is known."""
    found = compare({"light": Ridge(0.1), "heavy": Ridge(30.0)}, error_model=error_model, n_fits=60)

    def tipping(crossing):
        values = {id(found.audits["light"]): lambda rate: rate - crossing, id(found.audits["heavy"]): lambda rate: 0.0}
        monkeypatch.setattr(ooc.Audit, "value_at", lambda self, rate: values[id(self)](rate))
        return found.tipping_point("light", "heavy")

    assert tipping(most - 0.05).rate == pytest.approx(most - 0.05)
    assert f"is worse from a leakage rate of {100 * most - 5:.0f} % on" in str(tipping(most - 0.05))
    assert tipping(most + 0.05).rate is None
    still = f"light is better than heavy up to a leakage rate of {100 * most:.0f} %"
    assert str(tipping(most + 0.05)).startswith(still)


# --- the chance that the order changes ------------------------------------------------------------------


def pair_variances(covariance):
    own = np.diag(covariance)
    return own[:, None] + own - 2 * covariance


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_chance_of_another_order_is_that_of_a_simulation(count):
    """Corrected losses drawn from a normal distribution with a common part, and ordered."""
    own = np.random.default_rng(count)
    factor = own.standard_normal((count, count + 2))
    covariance = 0.02 * factor @ factor.T + 3.0
    values = np.sort(0.3 * own.standard_normal(count))
    drawn = values + own.standard_normal((200_000, count)) @ np.linalg.cholesky(covariance).T
    expected = (np.diff(drawn) < 0).any(axis=1).mean()
    assert 0.05 < expected < 0.99
    assert chance_of_change(np.diff(values), pair_variances(covariance)) == pytest.approx(expected, abs=0.006)


def test_the_chance_where_nothing_is_open():
    nothing = np.zeros((3, 3))
    assert chance_of_change(np.array([0.1, 0.2]), nothing) == 0.0
    assert chance_of_change(np.array([0.1, -0.2]), nothing) == 1.0
    assert chance_of_change(np.array([0.0]), np.ones((2, 2))) == 0.5
    assert np.isnan(chance_of_change(np.array([0.1]), np.full((2, 2), np.nan)))
    # Variances that no joint distribution has, because each is corrected for noise on its own.
    odd = np.array([[0, 1, 9.0], [1, 0, 1], [9.0, 1, 0]])
    assert 0 < chance_of_change(np.array([0.5, 0.5]), odd) < 1
    words = {0.0: "0 %", 0.001: "below 0.5 %", 0.123: "12 %", 0.9999: "above 99.5 %", 1.0: "100 %", np.nan: "not known"}
    assert [chance_in_words(chance) for chance in words] == list(words.values())


@pytest.mark.slow
def test_the_chance_is_right_over_data_sets():
    """True values with a known distribution, seen with noise: the chances come true as often as they say."""
    own = np.random.default_rng(0)
    truth = own.standard_normal((4000, 3))
    spread = np.array([[0.5, 0.2, 0.2], [0.2, 0.5, 0.2], [0.2, 0.2, 0.5]])
    seen = truth + own.standard_normal((4000, 3)) @ np.linalg.cholesky(spread).T
    after = np.linalg.inv(np.linalg.inv(spread) + np.eye(3))
    means = seen @ (after @ np.linalg.inv(spread)).T
    chances, changed = [], []
    for mean, true, places in zip(means, truth, np.argsort(means + 0.3 * own.standard_normal((4000, 3))), strict=True):
        variances = pair_variances(after)[np.ix_(places, places)]
        chances.append(chance_of_change(np.diff(mean[places]), variances))
        changed.append((np.diff(true[places]) < 0).any())
    assert np.mean(chances) == pytest.approx(np.mean(changed), abs=0.03)


def test_the_chance_of_two_models_is_that_of_their_difference(ridges):
    first, second = ridges.naive_ranking
    difference = ridges.difference(first, second)
    gap = -difference.corrected.value / np.hypot(difference.corrected.se_data, difference.corrected.se_monte_carlo)
    assert ridges.chance_of_change == difference.chance_of_change == pytest.approx(ndtr(-gap))
    assert ridges.difference(second, first).chance_of_change == pytest.approx(ridges.chance_of_change)
    assert f"cross-validation shows is {chance_in_words(ridges.chance_of_change)}." in str(ridges)


# --- any metric -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scored():
    models = {"linear": LogisticRegression(), "neighbours": KNeighborsClassifier(5), "twin": LogisticRegression()}
    options = {"scoring": ["roc_auc", "neg_brier_score"], "n_fits": 60, "unmix": False}
    return compare(models, label, **options)


def test_models_are_compared_by_any_metric_in_its_own_sign(scored):
    assert scored.metric.label == "AUC"
    values = [scored.audits[name].corrected.value for name in scored.ranking]
    assert values == sorted(values, reverse=True)
    assert all(0.4 < value < 1 for value in values)
    naive = [scored.audits[name].naive.value for name in scored.naive_ranking]
    assert naive == sorted(naive, reverse=True)
    difference = scored.difference("linear", "neighbours")
    for name in ("naive", "corrected"):
        found = getattr(difference, name)
        one, other = (getattr(scored.audits[model], name).value for model in ("linear", "neighbours"))
        assert found.value == pytest.approx(one - other)
        assert found.interval[0] < found.value < found.interval[1]
    twins = scored.difference("linear", "twin")
    assert (twins.corrected.value, twins.corrected.se_data) == pytest.approx((0, 0), abs=1e-9)
    assert str(scored).startswith("AUC, greater is better")
    assert 0 <= scored.chance_of_change <= 1


@pytest.mark.slow
def test_several_metrics_are_several_comparisons(scored):
    assert list(scored.metrics) == ["roc_auc", "neg_brier_score"]
    brier = scored.metrics["neg_brier_score"]
    values = [brier.audits[name].corrected.value for name in brier.ranking]
    assert values == sorted(values)
    assert "By Brier score, cross-validation puts " in str(scored)
    assert json.loads(scored.to_json())["metrics"]["neg_brier_score"]["ranking"] == list(brier.ranking)


def test_loss_and_scoring_together_are_refused():
    with pytest.raises(InputError, match="scoring must be left out where loss is given"):
        compare({"a": LogisticRegression(), "b": KNeighborsClassifier()}, label, loss="brier", scoring="roc_auc")
    with pytest.raises(InputError, match="roc_auc"):
        compare({"a": LogisticRegression(), "b": KNeighborsClassifier()}, label, scoring="roc_acu")


def test_what_is_written(ridges):
    data = json.loads(ridges.to_json())
    assert data["ranking"] == list(ridges.ranking)
    assert data["chance_of_change"] == ridges.chance_of_change
    assert set(data["models"]) == {"light", "heavy"}
    frame = ridges.to_frame()
    differences = ["difference", "difference_low", "difference_high"]
    assert frame.columns.tolist() == ["model", "naive", "corrected", "low", "high", *differences, "optimism"]
    assert frame["model"].tolist() == list(ridges.ranking)
    np.testing.assert_allclose(frame["optimism"], frame["corrected"] - frame["naive"])
    np.testing.assert_allclose(frame["difference"], frame["corrected"] - frame["corrected"][0])
    paired = ridges.difference(*reversed(ridges.ranking)).corrected.interval
    assert (frame["difference_low"][1], frame["difference_high"][1]) == paired


# --- the options of an audit -------------------------------------------------------------------------------


def test_options_are_those_of_an_audit():
    with pytest.raises(InputError) as caught:
        compare({"a": Ridge(), "b": Ridge(30.0)}, n_fit=60)
    assert str(caught.value) == "compare() got an unexpected option 'n_fit'; did you mean 'n_fits'?"
    with pytest.raises(InputError) as caught:
        ooc.sweep(Ridge(), X, target, {0.5: groups}, zebra=1)
    assert str(caught.value) == "sweep() got an unexpected option 'zebra'; its options are those of audit()."


def test_both_directions_of_errors():
    options = {"n_fits": 72, "validation_leakage": 0.05}
    found = compare({"a": Ridge(), "b": Ridge(30.0)}, **options)
    assert found.audits["a"].validation_leakage == 0.05
    difference, (a, b) = found.difference("a", "b").corrected, found.audits.values()
    assert difference.value == pytest.approx(a.corrected.value - b.corrected.value)
    assert 0 < difference.se_data < np.hypot(a.corrected.se_data, b.corrected.se_data)
    given = {"leakage": 0.1, "error_model": "records", "unmix": False, "random_state": 0} | options
    swept = ooc.sweep(Ridge(), X, target, {0.5: groups}, **given)
    assert swept.corrected[0.5] == a.corrected


def test_in_a_notebook_names_are_text():
    html = compare({"<script>": Ridge(), "b & c": Ridge(30.0)}, n_fits=60)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "b &amp; c" in html


@pytest.mark.slow
def test_uncertainty_of_the_rate_counts_only_where_models_differ():
    sure = compare({"a": Ridge(0.1), "b": Ridge(30.0)}).difference("a", "b").corrected
    unsure = compare({"a": Ridge(0.1), "b": Ridge(30.0)}, leakage=ooc.Leakage(0.1, std=0.05)).difference("a", "b")
    assert unsure.corrected.se_data > sure.se_data
    twins = compare({"a": Ridge(), "b": Ridge()}, leakage=ooc.Leakage(0.1, std=0.05)).difference("a", "b")
    assert twins.corrected.se_data == pytest.approx(0, abs=1e-9)


def test_without_a_rate_only_the_losses_as_they_are():
    found = compare({"a": Ridge(), "b": Ridge(30.0)}, leakage=None, n_fits=60)
    assert found.differences[0].corrected is None
    assert not found.ranking_changes
    assert "not corrected" in str(found)


class Failing(Ridge):
    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("out of order")


def test_a_model_that_fails_does_not_cost_the_others():
    found = compare({"good": Ridge(), "bad": Failing(), "near": KNeighborsRegressor(3)}, n_fits=60)
    assert set(found.audits) == {"good", "near"}
    assert "out of order" in found.left_out["bad"]
    assert "bad was left out" in str(found)
    with pytest.raises(FitError, match="No model could be audited"):
        compare({"bad": Failing(), "worse": Failing()}, n_fits=60)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"one": Ridge()}, "at least two estimators"),
        ([Ridge(), Ridge()], "dict of at least two"),
        ({"a": Ridge(), "b": 3}, r"estimators\['b'\] must be one that scikit-learn can clone"),
        ({"a": Ridge(), 2: Ridge()}, "strings as names"),
        ({"a": Ridge(), "b": LogisticRegression()}, "share one loss"),
    ],
)
def test_refused_before_any_fit(models, words, monkeypatch):
    monkeypatch.setattr(Ridge, "fit", lambda *_: pytest.fail("a model was fitted"))
    with pytest.raises(InputError, match=words):
        compare(models, y=label.astype(int))


def test_a_model_that_is_not_there(ridges):
    with pytest.raises(InputError, match="'medium' is not one of the models"):
        ridges.difference("light", "medium")

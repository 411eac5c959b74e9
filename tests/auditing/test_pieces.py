"""Audits of pieces: what is seen and looked up is left out of training, and what is known about a rate is imitated."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_results import with_samples
from outofcluster._base.exceptions import InputError
from outofcluster._base.text import percentage
from outofcluster.leakage.blocking import LinkageFacts
from outofcluster.problem.folds import make_folds


def chipped(seed, *, n_entities=100, n_features=12, informative=True):
    """Entities of ten records with labels of their own; single records of a third of them are chipped off."""
    rng = np.random.default_rng(seed)
    entities = np.repeat(np.arange(n_entities), 10)
    profile = 2 * rng.standard_normal((n_entities, n_features))
    X = profile[entities] * informative + rng.standard_normal((len(entities), n_features))
    y = (rng.standard_normal(n_entities)[entities] + 0.2 * rng.standard_normal(len(entities)) > 0).astype(int)
    groups = entities.copy()
    for new, entity in enumerate(rng.choice(n_entities, n_entities // 3, replace=False)):
        groups[10 * entity + rng.integers(10)] = n_entities + new
    return X, y, groups, entities


@cache
def world():
    return chipped(0)


def audited(*, X=None, **changes):
    records, y, groups, _ = world()
    options = {"error_model": "fragments", "loss": "brier", "random_state": 0} | changes
    return ooc.audit(KNeighborsClassifier(3), records if X is None else X, y, groups=groups, **options)


def filled_in(result, n, random_state=0):
    """A review list with the true answers."""
    _, _, groups, entities = world()
    entity = dict(zip(groups.tolist(), entities.tolist(), strict=True))
    listed = result.review_list(n, random_state=random_state)
    mates = [[o for o in entity if entity[o] == entity[c] and o != c] for c in map(int, listed["cluster"])]
    return listed.assign(same_as=["; ".join(map(str, each)) or "none" for each in mates])


@pytest.fixture(scope="module")
def result():
    return audited()


@pytest.fixture(scope="module")
def at_rate():
    return audited(leakage=0.25)


@pytest.fixture(scope="module")
def reviewed(result):
    return audited(reviewed=filled_in(result, 40))


@pytest.fixture(scope="module")
def blind():
    """Features that do not tell entities apart."""
    noise = np.random.default_rng(1).standard_normal((1000, 3))
    return audited(X=noise)


def codes(result):
    return {finding.code: finding for finding in result.findings}


# --- numbers ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_optimism_of_this_cross_validation_is_found_without_a_rate(result, reviewed):
    """The truth is known here: the loss of models without any record of the held-out entities."""
    X, y, groups, entities = world()
    naive, clean = [], []
    for fold in make_folds(X, None, groups):
        kept = fold.train[~np.isin(entities[fold.train], entities[fold.validation])]
        for rows, losses in ((fold.train, naive), (kept, clean)):
            model = KNeighborsClassifier(3).fit(X[rows], y[rows])
            losses.extend((model.predict_proba(X[fold.validation])[:, 1] - y[fold.validation]) ** 2)
    truth = np.mean(clean) - np.mean(naive)
    assert result.naive.value == pytest.approx(np.mean(naive))
    for one in (result, reviewed):
        assert abs(one.optimism.value - truth) < 0.5 * truth
        assert one.optimism.interval[0] < truth < one.optimism.interval[1]


def test_the_sources_and_their_weights_are_told(result, at_rate, reviewed):
    assert result.parts()["source"].tolist() == ["seen"]
    assert reviewed.parts()["source"].tolist() == ["seen", "looked up"]
    assert at_rate.parts()["source"].tolist() == ["seen", "imitated"]
    for one in (result, at_rate, reviewed):
        parts = one.parts()
        assert parts["weight"].sum() == pytest.approx(1)
        assert parts["weight"] @ parts["value"] == pytest.approx(one.optimism.value)
        assert (parts["standard_error"] > 0).all()
        assert [(s.source, s.weight) for s in one.summary.sources] == list(
            zip(parts["source"], parts["weight"], strict=True)
        )


def test_pairs_that_are_only_a_lower_bound_are_left_out_and_not_imitated(result):
    """Records of chipped entities that a linkage tool compared and did not link, with a few others."""
    _, _, groups, entities = world()
    chips = np.flatnonzero(groups >= 100)
    mates = np.array([np.flatnonzero((entities == entities[chip]) & (groups < 100))[0] for chip in chips])
    pairs = chips, mates, np.full(len(chips), 0.8)
    rate = ooc.Leakage.from_pair_probabilities(*pairs, groups=groups, of="validation")
    assert rate.at_least
    by_pairs = audited(leakage=rate)
    assert by_pairs.parts()["source"].tolist() == ["seen"]
    # All pieces are named, so that more is seen than by the features alone.
    assert by_pairs.samples.seen.rate > result.samples.seen.rate
    assert "linkage-facts" not in codes(by_pairs)
    # The recall that was estimated, and scores that are no probabilities, are named in the audit.
    recall = ooc.capture_recapture(np.array([[True, True], [True, False], [False, True]] * 40))
    for facts, severity, words in (
        (LinkageFacts(recall), "info", "Blocking compared at most 75.5 % ±"),
        (LinkageFacts(replace(recall, source="reviewed")), "info", "that were reviewed"),
        (LinkageFacts(calibrated=False), "warning", "scores are not calibrated"),
        (LinkageFacts(replace(recall, source="given"), by_tool=True), "info", "No pair was reviewed"),
    ):
        told = replace(by_pairs, leakage=tuple(replace(each, facts=facts) for each in by_pairs.leakage))
        assert codes(told)["linkage-facts"].severity == severity
        assert words in codes(told)["linkage-facts"].message
    assert by_pairs.leakage[0].facts == rate.facts
    known = audited(
        leakage=ooc.Leakage.from_pair_probabilities(*pairs, groups=groups, blocking_recall=1, of="validation")
    )
    assert known.parts()["source"].tolist() == ["seen", "imitated"]


def test_a_correction_that_was_not_asked_for_is_not_made():
    none = audited(leakage=None)
    assert (none.corrected, none.sources, len(none.parts())) == (None, (), 0)
    off = audited(unmix=False)
    assert off.corrected is None
    assert "no-rate" in codes(off)
    assert "unmix=False" in codes(off)["no-rate"].message
    assert "what leaked cannot be seen" in off.summary.verdict.lower()


def test_no_leakage_is_no_correction_whatever_the_pieces_say(at_rate):
    assert at_rate.at_leakage(0.0).corrected.value == at_rate.naive.value


def test_a_saved_audit_says_the_same(reviewed, tmp_path):
    reviewed.save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert str(again) == str(reviewed)
    assert again.summary == reviewed.summary
    assert ooc.Summary.from_json(reviewed.to_json()) == reviewed.summary


def test_the_corrected_values_of_folds_are_by_what_is_left_out_of_them(result):
    shares = np.array([fold.n_validation for fold in result.samples.folds]) / 1000
    by_fold = np.array([fold.corrected for fold in result.summary.by_fold])
    naive = np.array([fold.naive for fold in result.summary.by_fold])
    assert (by_fold != naive).any()
    assert shares @ by_fold == pytest.approx(result.corrected.value, abs=0.01)


def test_pieces_may_leak_from_more_than_half_of_the_records(at_rate):
    """Large entities lose a record easily, so that most held-out records can have a mate in training."""
    much, little = at_rate.at_leakage(ooc.Leakage(0.7, of="validation")), at_rate
    assert much.corrected.value > little.corrected.value > at_rate.naive.value
    assert np.ptp(much.corrected.interval) > np.ptp(little.corrected.interval)
    assert at_rate.sensitivity([0.9]).rates.tolist() == [0.9]
    with pytest.raises(InputError, match=r"leakage must be at most 0\.9, beyond which nothing can be told, got 0\.95"):
        at_rate.at_leakage(0.95)
    with pytest.raises(InputError, match=r"rates must lie between 0 and 0\.9, got 0\.95"):
        at_rate.sensitivity([0.95])


def test_another_curve_than_the_line_is_refused_before_any_fit(at_rate):
    for refuse in (lambda: audited(curve=ooc.PolynomialCurve(2)), lambda: at_rate.with_curve(ooc.SketchCurve())):
        with pytest.raises(InputError, match=r"curve must be left out for error_model='fragments', got "):
            refuse()
    assert at_rate.with_curve(ooc.PolynomialCurve(1)).corrected == at_rate.corrected


# --- in words -----------------------------------------------------------------------------------------


def said(result):
    return " ".join(str(result).split())


def test_no_rate_is_said_to_be_assumed(result):
    text, seen = said(result), result.summary.seen
    assert "corrected for what the records show" in text
    assert f"{100 * seen.rate:.2g} % of the held-out records have a piece of their cluster in training (at most" in text
    assert f"Of such pieces {100 * seen.caught:.2g} % would be seen." in text
    assert "No leakage rate is assumed. Models were fitted again without the training clusters" in text
    assert f"({seen.pairs} likely pairs)" in text
    assert "The answer rests on what can be seen alone." in text
    assert "taken as known" not in text
    assert "leakage rate of" not in text
    assert not {"exact-rate", "leaked-like-the-rest", "rate-is-a-lower-bound"} & set(codes(result))
    assert "by at least" not in text
    assert result.summary.headline.startswith(f"Brier score {result.naive.value:.3f} → {result.corrected.value:.3f} on")


def test_what_was_looked_up_is_said(reviewed):
    text = said(reviewed)
    weights = [percentage(source.weight, 2) for source in reviewed.summary.sources]
    assert "corrected for what is seen and looked up" in text
    assert f"on what can be seen ({weights[0]}) and on what somebody looked up ({weights[1]})." in text
    looked_up = reviewed.summary.looked_up
    assert looked_up.clusters == 40
    assert f"40 clusters were looked up; {looked_up.with_mates} of them share their entity" in text


def test_a_rate_says_what_it_is_a_share_of_and_how_much_it_counts(at_rate):
    text = said(at_rate)
    assert "It is assumed that 25 % of the held-out records have a piece of their cluster in training" in text
    assert "and on imitated pieces at this leakage rate (" in text
    assert "corrected for 25 % leakage" in text


def with_caught(result, caught, optimism, upper):
    """The same summary where so many pieces would be caught, with an optimism that is a lower bound."""
    summary = result.summary
    estimate = replace(summary.optimism, value=optimism, interval=(optimism - 0.01, upper))
    return replace(summary, at_least=True, seen=replace(summary.seen, caught=caught), optimism=estimate)


def test_a_lower_bound_says_at_least_and_how_much_would_be_missed(result):
    bound = with_caught(result, 0.31, 0.0234, 0.1789)
    assert bound.verdict == (
        "Cross-validation is too optimistic by at least 0.0234 (0.0134 to 0.1789). Much of the leakage would not be "
        "seen (only 31 % of imitated pieces would be), so that it may be up to 0.1789."
    )
    assert f"→ at least {bound.corrected.value:.3f} on new clusters. Cross-validation is too" in bound.headline
    assert "The interval goes up to what imitated pieces allow." in " ".join(str(bound).split())
    unsure = with_caught(result, 0.31, 0.004, 0.1789)
    assert unsure.verdict.startswith("Cross-validation may be too optimistic by at least 0.0040 (−0.0060 to 0.1789).")
    none = with_caught(result, 0.31, 0.0, 0.1789)
    assert none.verdict.startswith("No optimism of cross-validation is seen: it is 0.0000 (−0.0100 to 0.1789). Much")
    greater = replace(bound, metric=replace(bound.metric, greater_is_better=True))
    assert "→ at most " in greater.headline


def test_where_nothing_can_be_seen_that_is_said_and_the_interval_is_open(blind):
    text, summary = said(blind), blind.summary
    assert summary.nothing_seen
    assert summary.headline.startswith(f"Brier score {blind.naive.value:.3f} by cross-validation. Nothing of the")
    assert (
        "Nothing of the leakage can be seen in these records, since their features hardly tell entities apart" in text
    )
    assert "The answer rests" not in text
    upper = blind.solution.correction.facts["upper"]
    assert blind.optimism.interval[1] > upper - 1e-12
    assert blind.corrected.interval[1] > blind.naive.value + upper - 1e-12
    assert {"little-would-be-seen", "sides-alike"} <= set(codes(blind))
    assert codes(blind)["little-would-be-seen"].message.startswith("No imitated piece would be seen in these records")


# --- findings -----------------------------------------------------------------------------------------


def test_little_would_be_seen(result):
    assert "little-would-be-seen" not in codes(result)
    less = with_samples(result, replace(result.samples, seen=replace(result.samples.seen, caught=0.3)))
    found = codes(less)["little-would-be-seen"]
    assert found.severity == "warning"
    assert "Only 30 % of imitated pieces would be seen" in found.message
    assert "review_list()" in found.remedy
    assert less.summary.at_least
    given = codes(less.at_leakage(0.2))["little-would-be-seen"]
    assert given.severity == "info"
    assert "rate-is-a-lower-bound" not in codes(less)
    assert "little-would-be-seen" not in codes(replace(less, leakage=None, from_data=False))


def halved(seed, signal):
    """Entities of four records of which one in ten is cut in halves; ``signal`` is how far they are apart."""
    rng = np.random.default_rng(seed)
    entities = np.repeat(np.arange(400), 4)
    X = signal * rng.standard_normal((400, 8))[entities] + rng.standard_normal((1600, 8))
    cut = (rng.random(400) < 0.1)[entities] & (np.arange(1600) % 4 < 2)
    return X, (X[:, 0] + rng.standard_normal(1600) > 0).astype(int), entities + 400 * cut, entities


@pytest.mark.slow
def test_a_rate_that_is_half_the_truth_is_noticed_and_the_truth_is_not():
    """The true rate is counted from the entities: records of held-out entities that also train."""
    half, true, unseen = [], [], []
    for seed in range(5):
        for signal in (2.5, 0.5):
            X, y, groups, entities = halved(seed, signal)
            cv = list(GroupKFold(5, shuffle=True, random_state=seed).split(X, y, groups))
            rate = sum(int(np.isin(entities[test], entities[train]).sum()) for train, test in cv) / 1600
            options = {"error_model": "fragments", "n_fits": 20, "cv": cv, "random_state": seed}
            found = ooc.audit(LogisticRegression(), X, y, groups=groups, **options)
            assert "rate-below-seen" not in codes(found)
            if signal < 1:
                unseen.append("rate-below-seen" in codes(found.at_leakage(rate / 2)))
                continue
            half.append("rate-below-seen" in codes(found.at_leakage(rate / 2)))
            true.append("rate-below-seen" in codes(found.at_leakage(rate)))
            unsure = found.at_leakage(ooc.Leakage(rate / 2, std=rate / 2, of="validation"))
            assert "rate-below-seen" not in codes(unsure)
    assert sum(half) >= 4
    assert not any(true)
    assert not any(unseen)


def test_a_rate_below_what_is_seen_names_both(result):
    finding = codes(result.at_leakage(0.02))["rate-below-seen"]
    seen = percentage(result.samples.seen.rate, 2)
    assert finding.severity == "warning"
    assert finding.message.startswith(f"The likely pieces alone are {seen} of the held-out records (standard error ")
    assert finding.message.endswith(", and a leakage rate of 2 % was given.")
    assert "rate-below-seen" not in codes(replace(result, leakage=None, from_data=False))


def test_few_look_ups_and_look_ups_that_change_nothing(result, reviewed):
    assert "reviewed-few" not in codes(result)
    few = codes(audited(reviewed=filled_in(result, 40)[:12]))
    assert few["reviewed-few"].severity == "info"
    assert "Only 12 clusters were looked up" in few["reviewed-few"].message
    samples = reviewed.samples
    as_seen = []
    for cluster in samples.look_ups.clusters:
        likely = [f.likely.train_clusters[f.likely.held_out_clusters == cluster] for f in samples.folds]
        as_seen.append(np.unique(np.concatenate(likely)))
    nothing_new = replace(samples, look_ups=replace(samples.look_ups, mates=tuple(as_seen)))
    found = codes(with_samples(reviewed, nothing_new))["reviewed-few"]
    assert "None of the answers about 40 clusters changed" in found.message
    assert ("reviewed-few" in codes(reviewed)) == (reviewed.summary.looked_up.changed == 0)


def test_real_pieces_that_help_otherwise_than_imitated_ones(result, at_rate):
    assert "pieces-unlike-the-rest" not in codes(result)

    def gain(one, factor):
        """The same audit where leaving real pieces out changes the losses so many times as much."""
        folds = []
        for fold in one.samples.folds:
            moved = {name: dict(losses) for name, losses in fold.measured.items()}
            moved["seen"]["own"] = fold.own_losses + factor * (moved["seen"]["own"] - fold.own_losses)
            folds.append(replace(fold, measured=moved))
        return with_samples(one, replace(one.samples, folds=tuple(folds)))

    more = codes(gain(result, 12.0))["pieces-unlike-the-rest"]
    assert "Likely pieces are unlike the rest of their clusters" in more.message
    assert more.message.endswith("Real pieces help the model more.")
    less = codes(gain(at_rate, -3.0))["pieces-unlike-the-rest"]
    assert less.message.endswith("Real pieces help the model less.")


def test_looked_up_pieces_that_are_seen_less_often_than_imitated_ones(reviewed):
    samples = reviewed.samples
    folds = [replace(fold, likely=None) for fold in samples.folds]
    found = codes(with_samples(reviewed, replace(samples, folds=tuple(folds))))["pieces-unlike-the-rest"]
    assert "Looked-up pieces are unlike the rest of their clusters: 0 % of them are seen" in found.message
    assert "Real pieces look less like their clusters." in found.message


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("zero_one", 0.25),
        ("accuracy", 0.75),
        ("roc_auc", 0.5),
        ("r2", 0.0),
        ("brier", 0.1875),
        ("neg_log_loss", -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))),
        ("squared_error", 1.25),
        ("neg_root_mean_squared_error", math.sqrt(1.25)),
        ("neg_mean_absolute_error", 1.0),
        ("balanced_accuracy", 0.5),
    ],
)
def test_worse_than_guessing(result, name, guess):
    """Three quarters of the records have the first of two classes; numbers are 1, 2, 3 and 4."""
    from outofcluster.auditing.checks.estimate import worse_than_guessing
    from outofcluster.auditing.findings import Context
    from outofcluster.metrics.facts import known_facts
    from outofcluster.problem.account import TableAccount

    facts, groups, X = known_facts(name), np.repeat(np.arange(10), 4), np.zeros((40, 1))
    numbers = "squared" in name or "absolute" in name
    y = np.arange(40) % 4 + 1.0 if numbers else np.arange(40) % 4 == 0
    table = TableAccount.of(X, y, groups, classes=not numbers)

    class Said(Context):
        metric = facts
        corrected = None

    def found(naive, corrected):
        solution = type("Solution", (), {"naive": replace(result.naive, value=facts.shown(naive))})
        said = Said(solution, result.leakage, None, table, "", "auto", True)
        object.__setattr__(said, "corrected", replace(result.corrected, value=corrected))
        return list(worse_than_guessing.look(said))

    better, worse = (guess + 0.01, guess - 0.01) if facts.greater_is_better else (guess - 0.01, guess + 0.01)
    assert found(better, better) == []
    (remark,) = found(better, worse)
    assert remark.severity == "warning"
    assert f"is worse than that of a constant prediction, {guess:.4g}." in remark.message
    (remark,) = found(worse, worse)
    assert remark.severity == "info"
    assert remark.message.endswith("and so is the cross-validated one.")


def test_a_metric_whose_guess_is_not_known_says_nothing(result):
    odd = replace(result.metric, name="my own")
    assert "worse-than-guessing" not in codes(with_samples(result, replace(result.samples, metric=odd)))


# --- several audits -----------------------------------------------------------------------------------


def test_a_review_list_of_a_sweep_is_refused_and_that_of_a_comparison_used(result):
    X, y, groups, _ = world()
    listed = filled_in(result, 25)
    with pytest.raises(InputError, match=r"reviewed must be left out of sweep\(\), got a list"):
        ooc.sweep(KNeighborsClassifier(3), X, y, {0.5: groups}, reviewed=listed)
    models = {"three": KNeighborsClassifier(3), "nine": KNeighborsClassifier(9)}
    options = {"error_model": "fragments", "loss": "brier", "random_state": 0, "reviewed": listed}
    compared = ooc.compare(models, X, y, groups=groups, **options)
    assert all(audit.summary.looked_up.clusters == 25 for audit in compared.audits.values())
    assert compared.difference("three", "nine").corrected is not None


def test_a_sweep_needs_no_rate_either():
    X, y, groups, entities = world()
    swept = ooc.sweep(KNeighborsClassifier(3), X, y, {0.5: entities, 0.9: groups}, loss="brier", random_state=0)
    assert set(swept.optimism) == {0.5, 0.9}
    assert swept.optimism[0.9].value > swept.optimism[0.5].value
    assert "% seen" in str(swept)


def test_identity_columns_are_no_features_of_a_comparison():
    X, y, groups, _ = world()
    frame = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(who=X[:, 5])
    models = {"three": KNeighborsClassifier(3), "nine": KNeighborsClassifier(9)}
    compared = ooc.compare(models, frame, y, groups=groups, identity=["who"], error_model="fragments", random_state=0)
    assert {audit.table.n_features for audit in compared.audits.values()} == {4}

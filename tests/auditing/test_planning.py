"""Plans: how many look-ups and how many clusters an interval needs, against independent computations."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm, t
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster._base.exceptions import InputError


@cache
def patients(**options):
    made = ooc.datasets.make_patients(150, split_share=0.3, record_noise=0.4, random_state=0)
    return made, ooc.audit(
        KNeighborsClassifier(3), made.data, made.target, groups=made.groups, random_state=0, **options
    )


def answered(n):
    """An audit with so many look-ups, answered by the truth."""
    made, result = patients()
    entity = dict(zip(made.groups.astype(str), made.entities, strict=True))
    listed = result.review_list(n, random_state=0)
    mates = [[o for o in entity if entity[o] == entity[c] and o != c] for c in listed["cluster"]]
    reviewed = listed.assign(same_as=["; ".join(each) or "none" for each in mates])
    options = {"groups": made.groups, "random_state": 0, "reviewed": reviewed}
    return ooc.audit(KNeighborsClassifier(3), made.data, made.target, **options)


def width(estimate):
    return estimate.interval[1] - estimate.interval[0]


@cache
def hospitals(**options):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 10)
    level = rng.standard_normal((30, 3))
    X = level[groups] + 0.5 * rng.standard_normal((300, 3))
    y = X[:, 0] + level[groups, 1] + 0.5 * rng.standard_normal(300)
    options = {"error_model": "records", "n_fits": 60, "random_state": 0, "loss": "absolute_error"} | options
    return ooc.audit(Ridge(), X, y, groups=groups, **options)


# --- look-ups ---------------------------------------------------------------------------------------------


def test_narrower_intervals_need_more_look_ups():
    _, result = patients()
    plans = [ooc.plan_review(result, share * width(result.optimism)) for share in (1.5, 1, 0.7, 0.5)]
    numbers = [plan.look_ups for plan in plans]
    assert numbers[:2] == [0, 0]
    assert 0 < numbers[2] < numbers[3]
    for plan in plans:
        assert (plan.now, plan.width_now) == (0, pytest.approx(width(result.optimism)))
        assert (np.diff(plan.widths) <= 1e-12).all()
        assert plan.counts[-1] == len(np.unique(patients()[0].groups))
    # The plan lies between the points of its curve where the wanted width does.
    last = plans[-1]
    after = np.flatnonzero(last.widths <= last.width)[0]
    assert last.counts[after - 1] < last.look_ups <= last.counts[after]
    assert str(plans[0]).endswith("needs no further look-ups.")
    assert str(last).startswith(f"About {last.look_ups} look-ups bring the interval of the optimism to a width of")


def test_the_same_audit_gives_the_same_plan():
    _, result = patients()
    first, second = (ooc.plan_review(result, 0.6 * width(result.optimism)) for _ in range(2))
    assert first.look_ups == second.look_ups
    np.testing.assert_array_equal(first.widths, second.widths)


def test_look_ups_that_have_been_made_count():
    result = answered(20)
    plan = ooc.plan_review(result, 0.7 * width(result.optimism))
    assert plan.now == 20 < plan.look_ups
    assert plan.counts[0] == 20
    assert ", 20 of which have been made," in str(plan)
    assert ooc.plan_review(result, 2 * width(result.optimism)).look_ups == 20


def test_wrong_answers_need_more_look_ups():
    _, result = patients()
    sure, unsure = (ooc.plan_review(result, 0.8 * width(result.optimism), reviewer_error=e) for e in (0, 0.002))
    assert (unsure.widths[-1], unsure.look_ups) > (sure.widths[-1], sure.look_ups)


def test_a_width_that_no_look_ups_reach_is_refused_with_the_bound():
    _, result = patients()
    with pytest.raises(InputError, match=r"at least 0\.\d+, got 1e-05: it is that wide with all") as error:
        ooc.plan_review(result, 1e-5)
    bound = float(str(error.value).split("at least ")[1].split(",")[0])
    assert ooc.plan_review(result, bound).look_ups <= ooc.plan_review(result, bound).counts[-1]
    with pytest.raises(InputError, match="width must be at least"):
        ooc.plan_review(result, 0.98 * bound)


def test_imagined_answers_are_as_likely_as_the_pairs_say():
    """Over many truths a pair is confirmed as often as its probability says, and others are mates by chance alone."""
    pooled = patients()[1].pooled
    seen, clusters = pooled.samples.seen, len(pooled.samples.seen.sizes)
    confirmed = np.zeros(len(seen.left))
    for seed in range(200):
        (one,) = pooled.imagined([clusters], np.random.default_rng(seed))
        look_ups = one.samples.look_ups
        assert len(look_ups.clusters) == clusters
        assert (look_ups.probability == 1).all()
        mates = dict(zip(look_ups.clusters.tolist(), look_ups.mates, strict=True))
        confirmed += [right in mates[left] for left, right in zip(seen.left, seen.right, strict=True)]
    error = np.sqrt(200 * seen.probability * (1 - seen.probability))
    # A mate that no pair names is some cluster of another fold, and may be the other one of a pair.
    assert abs(((confirmed - 200 * seen.probability) / np.maximum(error, 1)).mean()) < 0.25
    assert np.corrcoef(confirmed, seen.probability)[0, 1] > 0.99


def test_imagined_losses_are_those_that_the_answers_say():
    """A cluster whose likely pieces are none has its own loss again; one that has them keeps the loss without them."""
    pooled = patients()[1].pooled
    (one,) = pooled.imagined([len(pooled.samples.seen.sizes)], np.random.default_rng(1))
    mates = dict(zip(one.samples.look_ups.clusters.tolist(), one.samples.look_ups.mates, strict=True))
    seen = {"confirmed": 0, "none": 0}
    for fold in one.folds:
        looked_up = fold.measured["looked up"]["own"]
        for cluster in np.unique(fold.likely.held_out_clusters):
            here = fold.clusters == cluster
            pieces = fold.likely.train_clusters[fold.likely.held_out_clusters == cluster]
            trains = np.setdiff1d(mates[cluster], fold.clusters)
            if not np.isin(trains, fold.likely.train_clusters).all():
                continue
            known = np.isin(pieces, trains).any()
            seen["confirmed" if known else "none"] += 1
            expected = fold.measured["seen"]["own"] if known else fold.own_losses
            np.testing.assert_array_equal(looked_up[here], expected[here])
    assert min(seen.values()) > 0


# --- clusters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_clusters_for_a_loss_that_is_not_corrected(share):
    """Student's interval, the variance of which falls as one over the number of clusters."""
    result = hospitals(leakage=None, loss="squared_error").with_confidence(0.9)
    result = replace(result, pooled=result.pooled)
    wanted = share * width(result.naive)
    plan = ooc.plan_clusters(result, wanted)
    value, error = result.naive.value, math.hypot(result.naive.se_data, result.naive.se_monte_carlo)

    def expected(k):
        reach = t.ppf(0.95, k - 1) * error * math.sqrt(30 / k)
        return value * (math.exp(reach / value) - math.exp(-reach / value))

    assert plan.now == 30
    assert expected(plan.clusters) <= wanted < expected(plan.clusters - 1)
    assert plan.interval_of == "cross-validated loss"


def test_what_more_clusters_do_not_tell_is_the_bound():
    """An uncertain rate moves the corrected loss, however many clusters there are."""
    result = hospitals(leakage=ooc.Leakage(0.1, std=0.04), curve=ooc.PolynomialCurve(1), unmix=False)
    moved = (result.at_leakage(0.104).corrected.value - result.at_leakage(0.096).corrected.value) / 0.008 * 0.04
    bound = 2 * norm.ppf(0.975) * abs(moved)
    with pytest.raises(InputError, match="no number of clusters makes the interval of the corrected loss") as error:
        ooc.plan_clusters(result, 0.5 * bound)
    named = float(str(error.value).split("at least ")[1].split(",")[0])
    assert bound == pytest.approx(named, rel=0.02)
    plan = ooc.plan_clusters(result, 1.5 * bound)
    assert plan.widths[-1] < 1.5 * bound
    assert plan.clusters > plan.now


def test_the_present_number_of_clusters_has_the_present_width():
    for result in (hospitals(leakage=0.1), patients()[1], answered(20)):
        plan = ooc.plan_clusters(result, width(result.corrected))
        assert plan.clusters == plan.now == result.pooled.n_scored
        assert plan.width_now == pytest.approx(width(result.corrected))


# --- shown and refused ------------------------------------------------------------------------------------


def test_plans_are_drawn_and_tabulated():
    pytest.importorskip("matplotlib").use("agg")
    _, result = patients()
    plans = ooc.plan_review(result, 0.6 * width(result.optimism)), ooc.plan_clusters(result, 1.5 * width(result.naive))
    for plan, counted in zip(plans, ("look-ups", "clusters"), strict=True):
        display = plan.plot()
        assert display.ax_.get_xlabel().startswith(counted)
        assert display.to_frame().equals(plan.to_frame())
        drawn = [line.get_xydata()[0].tolist() for line in display.ax_.lines if len(line.get_xdata()) == 1]
        assert [[plan.needed, plan.width], [plan.now, plan.width_now]] == drawn


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ooc.plan_review(3), "result must be an Audit, got 3."),
        (lambda: ooc.plan_clusters("x"), "result must be an Audit, got 'x'."),
        (lambda: ooc.plan_review(patients()[1], 0), "width must be a finite number above 0, got 0."),
        (lambda: ooc.plan_clusters(patients()[1], "a"), "width must be a number above 0, got 'a'."),
        (
            lambda: ooc.plan_review(patients()[1], reviewer_error=0.5),
            "reviewer_error must lie in [0, 0.5), got 0.5.",
        ),
        (
            lambda: ooc.plan_review(hospitals(leakage=0.1)),
            "plan_review() is for error_model='fragments', where people look clusters up; this audit has "
            "error_model='records'.",
        ),
        (
            lambda: ooc.plan_review(patients(leakage=None)[1]),
            "plan_review() needs an audit with a correction, got one without a leakage rate.",
        ),
        (
            lambda: ooc.plan_review(patients(leakage=0.1, unmix=False)[1]),
            "plan_review() needs an audit with unmix='auto'; this one did not compare its clusters.",
        ),
        (
            lambda: ooc.plan_clusters(hospitals(leakage=0.1).with_units("records")),
            "plan_clusters() needs intervals over clusters, got those over records; with_units('clusters') makes them.",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, sentence):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == sentence

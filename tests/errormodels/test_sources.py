"""What is seen, looked up and imitated: each source by hand, and how they are combined."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.neighbors import KNeighborsRegressor

import outofcluster as ooc
from outofcluster.errormodels.choose import error_model_of
from outofcluster.errormodels.pieces import as_looked_up
from outofcluster.errormodels.sources import Source, combined
from outofcluster.evidence.likely import LikelyPieces, SeenPieces
from outofcluster.evidence.looked_up import LookUps
from outofcluster.sampling.audit_samples import MAIN, UNCAUGHT

LINE = ooc.PolynomialCurve(1)
SIZES = np.array([3, 2, 4, 5, 2, 3, 1, 4, 2, 3, 2, 4])
CLUSTERS = np.repeat(np.arange(12), SIZES)
FOLD_OF = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2])
# Likely pairs (training cluster, held-out cluster, probability) of every fold, and those of the control.
LIKELY = {
    0: ([(4, 0, 0.9), (7, 0, 0.6), (9, 2, 0.7)], [(5, 1, 0.3)]),
    1: ([(0, 4, 0.9)], [(1, 3, 0.2)]),
    2: ([(2, 9, 0.7)], [(3, 7, 0.1), (4, 10, 0.25)]),
}
# Clusters 0, 3 and 9 were looked up: 0 belongs with 4 alone, 3 with 8 and 1, and 9 with nobody.
ANSWERS = LookUps(
    np.array([3, 0, 9]), (np.array([1, 8]), np.array([4]), np.zeros(0, dtype=int)), np.array([0.25, 0.5, 0.8])
)


@cache
def audited(scoring=None):
    """Twelve clusters in three folds of unequal sizes, without any search for pieces."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2))[CLUSTERS] + 0.3 * rng.standard_normal((len(CLUSTERS), 2))
    y = X[:, 0] + rng.standard_normal(12)[CLUSTERS]
    fold = FOLD_OF[CLUSTERS]
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    options = {"groups": CLUSTERS, "cv": folds, "error_model": "fragments", "leakage": None, "unmix": False}
    return ooc.audit(KNeighborsRegressor(2), X, y, n_fits=24, random_state=0, scoring=scoring, **options).samples


@cache
def measured(look_ups=False, caught=0.8, seen=True, upper=0.4, scoring=None):
    """The same samples as if models without some clusters had been fitted, whose losses are drawn at random."""
    samples, rng = audited(scoring), np.random.default_rng(5)
    folds = []
    for fold in samples.folds:
        likely = likely_in(fold.index)
        names = ("seen", "control", *(("looked up",) if look_ups else ()))
        losses = {name: {"own": fold.own_losses + rng.normal(0.2, 0.3, fold.n_validation)} for name in names}
        folds.append(replace(fold, likely=likely, measured=losses))
    shown = SeenPieces(*(np.zeros(0, dtype=int),) * 2, np.zeros(0), SIZES, 0.9, caught, 0.15, upper) if seen else None
    return replace(samples, folds=tuple(folds), seen=shown, look_ups=ANSWERS if look_ups else None)


def likely_in(fold):
    return LikelyPieces(*(np.array(column) for rows in LIKELY[fold] for column in zip(*rows, strict=True)))


def pooled(**options):
    samples = measured(**options)
    return error_model_of(samples).pooled(samples, "clusters")


def source(pooled, name, rate=None, std=0.0):
    solved = pooled.measured if rate is None else pooled.solve(LINE, np.full(3, rate), stds=np.full(3, std))
    return next((part for part in solved.facts["parts"] if part.name == name), None)


def each_record(samples):
    """(fold, cluster, losses by name) of every held-out record, and its weight in the naive loss."""
    total = sum(fold.n_validation for fold in samples.folds)
    for fold in samples.folds:
        weight = 1 / (3 * fold.n_validation) if samples.metric.pool == "folds" else 1 / total
        for position, cluster in enumerate(fold.clusters.tolist()):
            losses = {name: of["own"][position] for name, of in fold.measured.items()}
            yield fold.index, cluster, weight, losses | {"own": fold.own_losses[position]}


def pair_probability(fold, cluster, control=False):
    return max((p for _, held_out, p in LIKELY[fold][int(control)] if held_out == cluster), default=0.0)


def nobodys_mate(samples):
    """What a record loses with a cluster that is nobody's mate: c of M = q g + (1-q) c and M' = q' g + (1-q') c."""
    rows = {False: [], True: []}
    for fold, cluster, weight, losses in each_record(samples):
        for control, name in ((False, "seen"), (True, "control")):
            if q := pair_probability(fold, cluster, control):
                rows[control].append((weight, q, losses[name] - losses["own"]))
    (q, M), (p, N) = (
        (np.average(q, weights=w), np.average(change, weights=w))
        for w, q, change in (zip(*rows[control], strict=True) for control in (False, True))
    )
    _, c = np.linalg.solve([[q, 1 - q], [p, 1 - p]], [M, N])
    return max(c, 0.0)


def gain(samples):
    """What an imitated piece gains, over all folds."""
    counts = np.array([fold.n_validation for fold in samples.folds])
    shares = np.full(3, 1 / 3) if samples.metric.pool == "folds" else counts / counts.sum()
    return float(shares @ [fold.main.means[0] - fold.main.means[1] for fold in samples.folds])


def precision():
    """The share of true pieces among the records that are left out as likely ones."""
    rows = [(SIZES[train], p) for pairs, _ in LIKELY.values() for train, _, p in pairs]
    return sum(n * p for n, p in rows) / sum(n for n, _ in rows)


# --- what can be seen -----------------------------------------------------------------------------------


def seen_by_hand(samples, caught=0.8):
    """What leaving out likely pieces changes counts as often as pieces would be caught, else what they gain does.

    What a look-alike is worth counts as often as a pair may be none; without a likely pair κ of the change does.
    """
    lost, total = nobodys_mate(samples), 0.0
    for fold, cluster, weight, losses in each_record(samples):
        q = pair_probability(fold, cluster)
        without = losses["seen"] - losses["own"]
        total += caught * weight * (without - (1 - q) * lost if q else precision() * without)
        total += (1 - caught) * weight * q * max(gain(samples), 0.0)
    return total


@pytest.mark.parametrize("scoring", [None, "r2"])
def test_what_is_seen_by_hand(scoring):
    samples = measured(scoring=scoring)
    assert nobodys_mate(samples) > 0.1
    # What would not be caught: 0.15/0.8 - 0.15 of the records.
    expected = seen_by_hand(samples) + (0.15 / 0.8 - 0.15) * max(gain(samples), 0.0)
    assert source(pooled(scoring=scoring), "seen").value == pytest.approx(expected)


def test_the_gain_of_pieces_that_would_be_caught_is_what_the_others_leave_of_the_whole():
    """Of all pieces a share of 0.8 would be caught: g = 0.8 g_s + 0.2 g_u."""
    samples = measured()
    # As if pieces that would not be caught gained half of what all pieces gain.
    halved = tuple(replace(fold, runs=fold.runs | {UNCAUGHT: _with_half_the_gain(fold.main)}) for fold in samples.folds)
    own = error_model_of(samples).pooled(replace(samples, folds=halved), "clusters")
    g = gain(samples)
    caught_gain = (g - 0.2 * g / 2) / 0.8
    likely = sum(w * pair_probability(fold, cluster) for fold, cluster, w, _ in each_record(samples))
    expected = seen_by_hand(samples) + 0.2 * likely * (caught_gain - g) + (0.15 / 0.8 - 0.15) * g / 2
    assert source(own, "seen").value == pytest.approx(expected)


def _with_half_the_gain(run):
    without, with_piece = run.losses
    return replace(run, losses=(without, (without + with_piece) / 2))


def test_a_look_alike_never_helps_by_being_left_out():
    """Where the control says that losses fall without near clusters, nothing is taken off."""
    samples = measured()
    folds = tuple(
        replace(fold, measured=fold.measured | {"control": {"own": fold.own_losses - 0.5}}) for fold in samples.folds
    )
    samples = replace(samples, folds=folds)
    assert nobodys_mate(samples) == 0
    own = error_model_of(samples).pooled(samples, "clusters")
    expected = seen_by_hand(samples) + (0.15 / 0.8 - 0.15) * gain(samples)
    assert source(own, "seen").value == pytest.approx(expected)


def test_what_is_missed_by_hand():
    """At the rate that is known, or what is seen over the share that would be caught: a fifth at least, and no more
    than the bound of the rate."""
    samples = measured()
    g, seen = gain(samples), seen_by_hand(samples)
    assert g > 0
    half, little = (seen_by_hand(samples, caught) for caught in (0.5, 0.25))
    assert source(pooled(caught=0.25), "seen").value == pytest.approx(little + (0.4 - 0.15) * g)
    assert source(pooled(caught=0.25, upper=1.0), "seen").value == pytest.approx(little + (0.15 / 0.25 - 0.15) * g)
    assert source(pooled(caught=0.5), "seen").value == pytest.approx(half + (0.3 - 0.15) * g)
    assert source(pooled(), "seen", rate=0.35).value == pytest.approx(seen + 0.2 * g)
    assert source(pooled(), "seen", rate=0.1).value == pytest.approx(seen)


def test_the_supposed_rate_is_at_most_five_times_what_is_seen():
    """Less than a fifth that would be caught counts as a fifth."""
    values = [
        source(pooled(caught=caught, upper=1.0), "seen", rate).value for caught, rate in ((0.1, None), (0.1, 0.75))
    ]
    assert values[0] == pytest.approx(values[1])


@pytest.mark.parametrize("caught", [0.3, 0.8, 1.0])
def test_the_variance_of_what_is_seen_by_hand(caught):
    """Pairs that may be none, their common error, that of the control, and imitated gains that are left to chance."""
    samples, own = measured(), pooled(caught=caught)
    g, lost = max(gain(samples), 0.0), nobodys_mate(samples)
    by_cluster, doubtful, expected_pieces, weights = np.zeros(12), 0.0, 0.0, np.zeros(12)
    chance_of = np.zeros(12)
    for fold, cluster, w, losses in each_record(samples):
        weights[cluster] += w
        if q := pair_probability(fold, cluster):
            change = losses["seen"] - losses["own"] - (1 - q) * lost
            by_cluster[cluster] += w * (caught * change + (1 - caught) * q * g)
            doubtful, expected_pieces, chance_of[cluster] = doubtful + w * (1 - q), expected_pieces + w * q, q
    # Each cluster is held out once, so that all of its records have the same likeliest pair; there are five pairs.
    expected = ((1 - chance_of) * by_cluster**2).sum() + by_cluster.sum() ** 2 / (1 + 5 / 3)
    expected += (caught * doubtful) ** 2 * own._nobodys_mate[1]
    expected += (1 - caught) ** 2 * expected_pieces * (weights**2).sum() * own._missed_gain.square
    assert own._seen_variance == pytest.approx(expected)


def with_changes(seen, control):
    """The samples with these changes of the losses of all held-out records, without and with the control's clusters."""
    folds, start = [], 0
    samples = measured()
    for fold in samples.folds:
        some = slice(start, start := start + fold.n_validation)
        changes = {"seen": seen[some], "control": control[some]}
        losses = {name: {"own": fold.own_losses + change} for name, change in changes.items()}
        folds.append(replace(fold, measured=losses))
    changed = replace(samples, folds=tuple(folds))
    return error_model_of(changed).pooled(changed, "clusters")


def test_the_noise_of_fits_is_what_both_changes_have_in_common():
    """By hand over the clusters without a pair, for changes that share the noise of the user's own model."""
    rng = np.random.default_rng(2)
    count = sum(fold.n_validation for fold in measured().folds)
    seen, control = (
        rng.normal(0.3, 1, count) - (noise := rng.standard_normal(count)),
        rng.standard_normal(count) - noise,
    )
    own = with_changes(seen, control)
    rows = []
    for position, (fold, cluster, w, _) in enumerate(each_record(own.samples)):
        if not (pair_probability(fold, cluster) or pair_probability(fold, cluster, control=True)):
            rows.append((cluster, w, seen[position], control[position]))
    clusters, w, a, b = np.array(rows).T
    a, b = a - np.average(a, weights=w), b - np.average(b, weights=w)
    sums = [(w[some] @ a[some], w[some] @ b[some], w[some].sum()) for some in (clusters == c for c in set(clusters))]
    expected = sum(x * y for x, y, _ in sums) / sum(z**2 for *_, z in sums)
    assert expected > 0
    assert own._noise == pytest.approx(expected)
    # The records of a cluster move together, and those with a likely pair count by the trust in it.
    by_cluster = np.zeros(12)
    for fold, cluster, w, _ in each_record(own.samples):
        by_cluster[cluster] += w * (own._trust if pair_probability(fold, cluster) else precision())
    assert own._noise_of_seen() == pytest.approx(2 * expected * (by_cluster**2).sum())
    # Changes that have nothing in common leave nothing to fear.
    assert with_changes(seen, -seen)._noise == 0


def test_less_certain_rates_and_pieces_that_would_be_missed_widen():
    variances = [source(pooled(caught=caught), "seen").variance for caught in (0.95, 0.7, 0.4)]
    assert np.all(np.diff(variances) > 0)
    known = [source(pooled(), "seen", rate=0.3, std=std).variance for std in (0.0, 0.05, 0.1)]
    assert np.all(np.diff(known) > 0)


def test_nothing_is_seen_where_nothing_was_compared():
    own = pooled(seen=False)
    assert own.measured is None
    assert [part.name for part in own.solve(LINE, np.full(3, 0.2)).facts["parts"]] == ["imitated"]


# --- what somebody looked up ----------------------------------------------------------------------------


def test_the_difference_estimate_by_hand():
    samples = measured(look_ups=True)
    chance = dict(zip(ANSWERS.clusters.tolist(), ANSWERS.probability, strict=True))
    expected = 0.0
    for _, cluster, weight, losses in each_record(samples):
        expected += weight * (losses["seen"] - losses["own"])
        if cluster in chance:
            expected += weight * (losses["looked up"] - losses["seen"]) / chance[cluster]
    assert source(pooled(look_ups=True), "looked up").value == pytest.approx(expected)


def test_looked_up_clusters_count_as_they_were_found_in_what_is_seen():
    """Answers also correct the probabilities of pairs, and say how many records have a piece that is not seen."""
    samples = measured(look_ups=True)
    # Of the likely pairs (4, 0), (7, 0) and (2, 9) of looked-up clusters one is confirmed.
    weight = np.array([2.0, 2.0, 1.25])
    weight /= weight.mean()
    confirmed = (weight @ [1, 0, 0] + 10) / (weight @ [0.9, 0.6, 0.7] + 10)
    # Three pairs were checked, so that what leaving out changes counts more than where nobody looked.
    trust = (3 * 0.8 + 3) / (3 + 3)
    g, expected = max(gain(samples), 0.0), 0.0
    for fold, cluster, w, losses in each_record(samples):
        q = min(confirmed * pair_probability(fold, cluster), 1.0)
        without = losses["seen"] - losses["own"]
        if cluster in (0, 3, 9):
            expected += w * (losses["looked up"] - losses["own"])
        elif q:
            expected += trust * min(confirmed, 1.0) * w * (without - (1 - q) * nobodys_mate(samples))
            expected += (1 - trust) * w * q * g
        else:
            expected += trust * confirmed * precision() * w * without
    # Cluster 3 has a mate that nobody took for likely; clusters count by their records and by 1/π.
    counts = SIZES[[3, 0, 9]] / ANSWERS.probability
    looked_up = counts[0] / counts.sum()
    scale = np.sqrt(1 - ANSWERS.probability) * counts
    error = (np.sum((scale * ([1, 0, 0] - looked_up)) ** 2) + 0.5 * np.mean(scale**2)) / counts.sum() ** 2
    # Averaged with what was supposed before, of which 0.4 is the bound, and of which 0.8 would be caught.
    supposed = 0.15 / 0.8
    doubt = max((0.4 - supposed) / 3, (supposed - 0.15) / 2) ** 2 / 0.8**2
    missed = (looked_up / error + (supposed - 0.15) / doubt) / (1 / error + 1 / doubt)
    others = 1 - SIZES[[3, 0, 9]].sum() / SIZES.sum()
    expected += others * missed * g
    assert source(pooled(look_ups=True), "seen").value == pytest.approx(expected)


def test_answers_that_may_be_wrong_widen():
    samples = measured(look_ups=True)
    parts = []
    for error in (0.0, 0.05, 0.2):
        doubted = replace(samples, look_ups=replace(ANSWERS, reviewer_error=error))
        parts.append(error_model_of(doubted).pooled(doubted, "clusters"))
    for name in ("seen", "looked up"):
        values = [source(own, name) for own in parts]
        assert len({part.value for part in values}) == 1
        assert np.all(np.diff([part.variance for part in values]) > 0)


def test_clusters_that_were_looked_up_for_certain_leave_no_doubt_about_them():
    """If all clusters are drawn, the estimate is the change itself, with the noise of refitting alone."""
    samples = measured(look_ups=True)
    everyone = LookUps(np.arange(12), (np.zeros(0, dtype=int),) * 12, np.ones(12))
    known = replace(samples, look_ups=everyone)
    own = error_model_of(known).pooled(known, "clusters")
    expected = sum(w * (losses["looked up"] - losses["own"]) for _, _, w, losses in each_record(samples))
    assert source(own, "looked up").value == pytest.approx(expected)
    assert source(own, "seen").value == pytest.approx(expected)
    assert source(own, "looked up").variance < 0.2 * source(pooled(look_ups=True), "looked up").variance


@pytest.mark.parametrize(
    ("answers", "left_out"),
    [
        ({}, [4, 7, 9]),
        ({0: [4]}, [4, 9]),  # 7 was likely because of 0 alone, and comes back.
        ({0: []}, [9]),
        ({0: [5, 11]}, [5, 9, 11]),
        ({0: [7], 2: []}, [7]),
        ({1: [8]}, [4, 7, 8, 9]),
        ({5: [0]}, [4, 7, 9]),  # Held out in another fold.
    ],
    ids=str,
)
def test_what_trains_once_answers_are_known(answers, left_out):
    mates = tuple(np.array(each, dtype=int) for each in answers.values())
    look_ups = LookUps(np.array(list(answers), dtype=int), mates, np.ones(len(answers)))
    assert as_looked_up(likely_in(0), look_ups, np.array([0, 1, 2])).tolist() == left_out


# --- imitation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.6])
def test_imitation_by_hand(rate):
    """A second piece gains half as much as a first one: of what is scored the unseen part has gained already."""
    for own, seen in ((pooled(seen=False), 0.0), (pooled(), 0.15)):
        unseen = max((rate - seen) / 2, 1e-3 * rate)
        expected = rate * gain(own.samples) / (1 - unseen)
        assert source(own, "imitated", rate=rate).value == pytest.approx(expected)


def test_who_leaked_is_chance():
    """The variance between clusters counts by the rate, not by its square; 40 % of the value are in doubt anyway."""
    own = pooled(seen=False)
    for rate in (0.05, 0.4):
        part = source(own, "imitated", rate=rate)
        weights = np.outer(own.shares, [1.0, -1.0]) * part.value / gain(own.samples)
        influence, fits = np.zeros(12), 0.0
        for fold, row in zip(own.folds, weights, strict=True):
            influence[fold.main.effects["clusters"].units] += row @ fold.main.influences("clusters")
            replicates = row @ np.stack(fold.main.losses)
            fits += replicates.var(ddof=1) / len(replicates)
        between = 12 / 11 * (influence**2).sum()
        assert part.variance == pytest.approx(between / rate + fits + (0.4 * part.value) ** 2)
        uncertain = source(own, "imitated", rate=rate, std=0.02)
        assert uncertain.variance - part.variance == pytest.approx((0.02 * part.value / rate) ** 2)


# --- together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("errors", [(1.0,), (1.0, 1.0), (1.0, 1.5), (1.0, 3.0), (1.0, 1.2, 0.9), (2.0, 1.0, 5.0)])
def test_the_weights_have_the_least_variance_with_errors_that_go_together(errors):
    sources = [Source(str(k), float(k), error**2) for k, error in enumerate(errors)]
    parts, variance = combined(sources)
    covariance = np.outer(errors, errors) * (2 + np.eye(len(errors))) / 3
    best = minimize(
        lambda w: w @ covariance @ w, np.full(len(errors), 1 / len(errors)), bounds=[(0, 1)] * len(errors),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1}, method="SLSQP", tol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose([part.weight for part in parts], best.x, atol=1e-4)
    assert variance == pytest.approx(best.fun, rel=1e-6)
    assert variance <= min(errors) ** 2 + 1e-12


def test_a_source_that_is_half_as_uncertain_again_does_not_count():
    parts, variance = combined([Source("seen", 0.1, 0.01), Source("imitated", 0.3, 0.0226)])
    assert [part.weight for part in parts] == [1.0, 0.0]
    assert variance == pytest.approx(0.01)


def test_the_answer_is_the_weighted_mean_and_a_loss_that_is_known_counts_for_certain():
    own = pooled(look_ups=True)
    solved = own.solve(LINE, np.full(3, 0.3), stds=np.full(3, 0.05))
    parts = solved.facts["parts"]
    assert [part.name for part in parts] == ["seen", "looked up", "imitated"]
    assert sum(part.weight for part in parts) == pytest.approx(1)
    assert solved.value == pytest.approx(sum(part.weight * part.value for part in parts))
    assert own.corrected(solved).value == pytest.approx(own.naive + solved.value)
    without = own.measured
    assert [part.name for part in without.facts["parts"]] == ["seen", "looked up"]
    assert without.value == pytest.approx(sum(part.weight * part.value for part in without.facts["parts"]))
    nothing = own.solve(LINE, np.zeros(3))
    assert nothing.value == pytest.approx(0, abs=1e-12)


def test_the_error_of_the_optimism_is_that_of_its_sources():
    """No other clusters could have been drawn: the optimism is that of this cross-validation."""
    own = pooled()
    solved = own.measured
    found = own.optimism_uncertainty(solved, 0.0)
    assert found.choice == solved.facts["variance"]
    assert found.choice == pytest.approx(solved.facts["parts"][0].variance, rel=1e-12)
    assert found.of_units == 0


def test_a_lower_bound_has_an_open_interval():
    """Where less than half would be caught and nobody looked anything up; not where a rate is known."""
    little = pooled(caught=0.45)
    assert little.measured.facts["upper"] > little.measured.value
    assert pooled(caught=0.55).measured.facts["upper"] is None
    assert pooled(caught=0.45, look_ups=True).measured.facts["upper"] is None
    assert little.solve(LINE, np.full(3, 0.2)).facts["upper"] is None


def test_every_fold_counts_by_its_records():
    own = pooled()
    counts = np.array([fold.n_validation for fold in own.folds])
    np.testing.assert_allclose(own.shares, counts / counts.sum())
    assert own.columns.means(MAIN).shape == (3, 2)

"""Rates from pairs against simulated linkages with known truth: calibrated pairs, blocking, review, refusals."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from outofcluster._base.exceptions import InputError
from outofcluster.evidence.likely import NamedPairs
from outofcluster.leakage.blocking import capture_recapture
from outofcluster.leakage.rate import Leakage
from worlds import FieldLinkage

SIDES = {"train": 0.2, "validation": 0.8}


def judge(linkages, leakages):
    """Mean rate over mean truth, and the share of the intervals that cover, for each side."""
    ratio, covers = {}, {}
    for of, share in SIDES.items():
        sides = [getattr(leakage, of) for leakage in leakages]
        truths = [linkage.truth(share) for linkage in linkages]
        ratio[of] = np.mean([side.rate for side in sides]) / np.mean(truths)
        ends = [side.interval() for side in sides]
        covers[of] = np.mean([low <= truth <= high for (low, high), truth in zip(ends, truths, strict=True)])
    return ratio, covers


def belongs(odds):
    """P(record belongs to one of these clusters), by the definition."""
    odds = list(odds)
    return 1.0 if np.inf in odds else sum(odds) / (1 + sum(odds))


def brute_pairs(left, right, m, groups, own, other):
    """Mean of q over the rows ``own`` for clusters among the rows ``other``, written as loops."""
    total = 0.0
    there = {groups[v] for v in other}
    for j in own:
        best = {}
        for one, two, p in zip(left, right, m, strict=True):
            for a, v in ((one, two), (two, one)):
                if groups[a] == groups[j] and groups[v] in there and groups[v] != groups[j]:
                    best[groups[v]] = max(best.get(groups[v], 0), p)
        total += belongs(np.inf if p == 1 else p / (1 - p) for p in best.values())
    return total / len(own)


def random_pairs(seed, n_pairs=14):
    rng = np.random.default_rng(seed)
    groups = np.array([0, 0, 1, 1, 2, 3, 3, 4])
    every = np.array([(i, j) for i in range(8) for j in range(i)])
    left, right = rng.permuted(every[rng.choice(len(every), n_pairs, replace=False)], axis=1).T
    m = rng.beta(0.5, 1, n_pairs)
    m[:2] = 1, 0
    return left, right, m, groups


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize("seed", range(5))
def test_pairs_over_fixed_splits(seed, of):
    left, right, m, groups = random_pairs(seed, 9)
    # Rows may be left out of a split, here 7.
    pairs = [([0, 1, 4], [2, 3, 5, 6]), ([2, 3, 5], [0, 1, 4])]
    wanted = [brute_pairs(left, right, m, groups, *(p if of == "train" else p[::-1])) for p in pairs]
    estimate = Leakage.from_pair_probabilities(left, right, m, groups=groups, cv=pairs, of=of)
    assert estimate.rate == pytest.approx(np.mean(wanted))
    assert estimate.of == of


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_pairs_over_folds_are_the_average_over_all_assignments(seed, k, of):
    left, right, m, groups = random_pairs(seed)
    leaked = size = 0
    rows = np.arange(8)
    for assignment in product(range(k), repeat=5):
        fold = np.array(assignment)[groups]
        for f in range(k):
            own, other = (fold != f, fold == f) if of == "train" else (fold == f, fold != f)
            if own.any():
                leaked += brute_pairs(left, right, m, groups, rows[own], set(rows[other])) * own.sum()
            size += own.sum()
    estimate = Leakage.from_pair_probabilities(left, right, m, groups=groups, cv=k)
    assert getattr(estimate, of).rate == pytest.approx(leaked / size, rel=1e-9)


@given(
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300, 1 - 1e-15]), min_size=1, max_size=7),
    st.integers(2, 30),
    st.sampled_from(sorted(SIDES)),
)
def test_a_record_with_many_candidates_stays_within_its_bounds(m, k, of):
    """The integral against the sum over all subsets; max m and min(1, Σ m) bound every subset."""
    d = len(m)
    share = 1 / k if of == "train" else 1 - 1 / k
    wanted = low = high = 0.0
    for there in product([False, True], repeat=d):
        chance = np.prod([share if t else 1 - share for t in there])
        present = [p for p, t in zip(m, there, strict=True) if t]
        wanted += chance * belongs(np.inf if p == 1 else p / (1 - p) for p in present)
        low += chance * max(present, default=0)
        high += chance * min(1, sum(present))
    others = sum(share * p for p in m)
    estimate = Leakage.from_pair_probabilities(
        [0] * d, range(1, d + 1), m, groups=range(d + 1), ids=range(d + 1), cv=k, of=of
    )
    assert estimate.rate * (d + 1) - others == pytest.approx(wanted, abs=1e-10)
    assert low - 1e-10 <= estimate.rate * (d + 1) - others <= high + 1e-10


def test_pairs_that_do_not_count():
    groups = ["a", "a", "b", "c"]
    wanted = Leakage.from_pair_probabilities([0], [2], [0.4], groups=groups, of="train")
    assert wanted.rate == pytest.approx(3 * 0.4 / 5 / 4)
    # Inside a cluster, the same pair turned round, a record with itself, a less probable pair of the same clusters.
    more = Leakage.from_pair_probabilities(
        [0, 0, 2, 3, 1], [2, 1, 0, 3, 2], [0.4, 0.9, 0.4, 0.7, 0.3], groups=groups, of="train"
    )
    assert more == wanted
    inside = Leakage.from_pair_probabilities([0, 2], [1, 3], [0.9, 0.9], groups=groups, cv=[([2, 3], [0, 1])])
    assert (inside.rate, inside.std) == (0, 0)


def test_the_standard_error_of_pairs_by_hand():
    # Between "a" and "b": three records, which match together, and with them "a" and "c".
    options = {"groups": ["a", "a", "b", "c"], "of": "train", "blocking_recall": 1}
    estimate = Leakage.from_pair_probabilities([0, 1, 0], [2, 2, 3], [0.4, 0.2, 0.1], **options)
    together = np.array([3 * np.sqrt(0.24), 3 * np.sqrt(0.09)]) / 5 / 4
    # The two candidates of "a" may exclude each other or not.
    low, high = np.array([2 * 0.4 + 0.4 + 0.1, 2 * 0.5 + 0.4 + 0.1]) / 5 / 4
    luck = np.hypot(np.sqrt((together**2).sum()), (high - low) / 4)

    def moved(intercept, slope):
        m = expit(intercept + (1 + slope) * logit([0.4, 0.2, 0.1]))
        return Leakage.from_pair_probabilities([0, 1, 0], [2, 2, 3], m, **options).rate

    # Nobody reviewed a pair, so that odds may be wrong as the priors of a review say.
    priors = [1.5 * (moved(1e-4, 0) - moved(-1e-4, 0)) / 2e-4, 0.4 * (moved(0, 1e-4) - moved(0, -1e-4)) / 2e-4]
    assert estimate.std == pytest.approx(np.sqrt(luck**2 + np.square(priors).sum()), rel=1e-4)
    certain = Leakage.from_pair_probabilities([0], [2], [1.0], **options)
    assert (certain.rate, certain.std) == (pytest.approx(3 / 5 / 4), pytest.approx(0, abs=1e-6))


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [{"right": 0.85, "threshold": 0.9}, {"threshold": 0.99}, {"right": 0.92, "sizes": (3, 4, 5)}, {"sizes": (1, 2)}],
    ids=["many mistakes", "high threshold", "larger entities", "small entities"],
)
def test_all_pairs_calibrated(world):
    linkages = [FieldLinkage(seed, **world) for seed in range(100, 112)]
    ratio, covers = judge(linkages, [linkage.leakage(blocking_recall=1) for linkage in linkages])
    for of in SIDES:
        assert ratio[of] == pytest.approx(1, abs=0.15)
        assert covers[of] >= 0.9


@pytest.mark.parametrize("certain", [1e-6, 1e-10, 0.0])
def test_pairs_that_only_others_join_do_no_harm(certain):
    """Of each entity of three records blocking compared two pairs, of nearly certain matches: none leaks."""
    first = 3 * np.arange(100)
    left, right = np.r_[first, first + 1, [0]], np.r_[first + 1, first + 2, [3]]
    m = np.r_[np.full(200, 1 - certain), [0.001]]
    groups = np.repeat(np.arange(100), 3)
    leakage = Leakage.from_pair_probabilities(
        left, right, m, groups=groups, ids=np.arange(300), blocking_recall=200 / 300
    )
    assert leakage.rate < 0.01


@pytest.mark.parametrize("world", [{}, {"right": 0.92, "sizes": (3, 4, 5)}, {"sizes": (1, 2)}, {"rules": 2}])
def test_a_lower_bound_is_at_most_the_rate_at_any_recall(world):
    linkage = FieldLinkage(100, **world, count=100)
    bound = linkage.leakage()
    assert bound.at_least
    for of in SIDES:
        rates = [getattr(linkage.leakage(blocking_recall=recall), of).rate for recall in (1, 0.95, 0.8)]
        assert 0 < getattr(bound, of).rate <= rates[0] < rates[1] < rates[2]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 2, 3, 4), (2,), (4,)], ids=["mixed", "pairs", "fours"])
def test_blocked_pairs_with_the_recall_of_blocking(sizes):
    linkages = [FieldLinkage(seed, sizes, rules=2) for seed in range(100, 112)]
    ratio, covers = judge(linkages, [linkage.leakage(blocking_recall=linkage.recall) for linkage in linkages])
    for of in SIDES:
        assert ratio[of] == pytest.approx(1, abs=0.3)
        assert covers[of] >= 0.9


def exact_pairs(rng, count, compared, links=1000):
    """Pairs of records, most of them linked, of which blocking never compared some: those leak, and nothing else."""
    entity = np.repeat(np.arange(links), 2)
    seen = np.arange(links) >= count
    groups = np.where((np.arange(2 * links) % 2 == 1) & ~seen[entity], entity + links, entity)
    left, right = 2 * np.flatnonzero(seen), 2 * np.flatnonzero(seen) + 1
    # Each record is compared with a stranger as well, at a small probability.
    strangers = rng.permutation(links)
    left, right = np.r_[left, 2 * np.arange(links)], np.r_[right, 2 * strangers + 1]
    m = np.r_[np.full(links - count, 0.999), np.full(links, 0.0002)]
    different = strangers != np.arange(links)
    keep = np.r_[np.ones(links - count, dtype=bool), different]
    assert compared == pytest.approx(1 - count / links)
    return left[keep], right[keep], m[keep], groups


@pytest.mark.parametrize("count", [50, 200])
def test_what_blocking_hides_is_found_by_its_recall(count):
    left, right, m, groups = exact_pairs(np.random.default_rng(0), count, 1 - count / 1000)
    truth = 0.8 * count / 1000
    options = {"groups": groups, "ids": np.arange(2000)}
    seen = Leakage.from_pair_probabilities(left, right, m, **options)
    assert seen.rate < 0.01 * truth + 0.001
    assert seen.at_least
    assert seen.interval()[1] == 1
    assert seen.train.at_least
    whole = Leakage.from_pair_probabilities(left, right, m, **options, blocking_recall=1 - count / 1000)
    assert not whole.at_least
    assert whole.rate == pytest.approx(truth, rel=0.1)
    unsure = Leakage.from_pair_probabilities(left, right, m, **options, blocking_recall=(1 - count / 1000, 0.02))
    assert unsure.std > whole.std + 0.005
    assert unsure.rate == whole.rate
    assert Leakage.from_pair_probabilities(left, right, m, **options, blocking_recall=1).rate < 0.1 * truth


def brute_bound(caught, weight):
    """Chao's bound for rules that differ, pair by pair of records and rule by rule."""
    alone, twice = [0.0] * caught.shape[1], 0.0
    for by, w in zip(caught.tolist(), weight, strict=True):
        alone = [total + w * (by[r] and sum(by) == 1) for r, total in enumerate(alone)]
        twice += w * (sum(by) == 2)
    return sum(alone[r] * alone[s] for r in range(len(alone)) for s in range(r)) / (twice + 1)


@pytest.mark.parametrize("chances", [(0.7, 0.6), (0.6, 0.5, 0.4), (0.9, 0.3, 0.5, 0.2)])
def test_capture_and_recapture_of_independent_rules(chances):
    """Exact where rules are independent, with the error that 400 draws show, and what is added for other rules."""
    rng = np.random.default_rng(1)
    truth, missed, stds = 800 * np.prod(1 - np.array(chances)), [], []
    for draw in range(400):
        caught = rng.random((800, len(chances))) < chances
        caught = caught[caught.any(axis=1)]
        bound = capture_recapture(caught)
        if draw < 3:
            weight = rng.random(len(caught))
            assert bound.missed == pytest.approx(brute_bound(caught, np.ones(len(caught))))
            assert capture_recapture(caught, weight).missed == pytest.approx(brute_bound(caught, weight))
        assert bound.at_most
        assert bound.recall == pytest.approx(len(caught) / (len(caught) + bound.missed))
        missed.append(bound.missed)
        # The standard error of the logarithm of what was missed, without that of its own number and of other rules.
        variance = (bound.std / (bound.recall * (1 - bound.recall))) ** 2
        stds.append(np.sqrt(variance - 0.4**2 - 1 / bound.missed))
    assert np.mean(missed) == pytest.approx(truth, rel=0.03)
    assert np.std(np.log(missed)) == pytest.approx(np.mean(stds), rel=0.15)


@pytest.mark.parametrize("spread", [0.5, 1.5])
def test_capture_and_recapture_is_a_bound_where_rules_err_together(spread):
    """Matches that differ in how many mistakes they have: the more, the further below the truth."""
    rng = np.random.default_rng(2)
    log_odds = np.array([0.8, 0.2, -0.4]) + spread * rng.standard_normal((40_000, 1))
    caught = rng.random(log_odds.shape) < expit(log_odds)
    truth = int((~caught.any(axis=1)).sum())
    bound = capture_recapture(caught[caught.any(axis=1)])
    assert bound.missed < (0.95 if spread < 1 else 0.7) * truth
    assert bound.missed > 0.2 * truth


def test_capture_and_recapture_of_a_linkage():
    linkages = [FieldLinkage(seed, right=0.85, rules=3) for seed in range(8)]
    errors = [capture_recapture(linkage.caught, linkage.m).recall - linkage.recall for linkage in linkages]
    assert np.abs(errors).max() < 0.07
    # Its result is taken as a bound; the same numbers alone would be an estimate.
    first = linkages[0]
    recall = capture_recapture(first.caught, first.m)
    bound, taken = first.leakage(blocking_recall=recall), first.leakage(blocking_recall=(recall.recall, recall.std))
    assert (bound.rate, bound.std) == (taken.rate, taken.std)
    assert bound.at_least
    assert not taken.at_least
    assert bound.interval()[1] == 1
    assert first.leakage().rate < bound.rate
    assert bound.facts.blocking == recall
    assert taken.facts.blocking.source == "given"
    assert "Blocking compared at most 9" in str(bound)
    assert "locking" not in str(taken)
    again = Leakage.from_dict(json.loads(json.dumps(bound.to_dict())))
    assert again.facts == again.train.facts == bound.facts
    # One rule that catches all, and the same in matches that are not certain.
    whole = capture_recapture(np.array([[True, True], [True, False]] * 50), np.full(100, 0.9))
    assert (whole.recall, whole.std, whole.caught) == (1, 0, pytest.approx(90))


def test_reviewed_pairs_that_nobody_compared_show_what_blocking_missed():
    """Matches drawn without regard to blocking, by the names of their records."""
    linkage = FieldLinkage(3, rules=2, count=400)
    one, two = np.triu_indices(len(linkage.entity), 1)
    same = np.flatnonzero(linkage.entity[one] == linkage.entity[two])
    chosen = np.random.default_rng(0).choice(same, 200, replace=False)
    reviewed = {(int(one[i]), int(two[i])): True for i in chosen} | {(0, len(linkage.entity) - 1): False}
    leakage = linkage.leakage(blocking_recall="reviewed", reviewed=reviewed)
    compared = set(zip(linkage.left.tolist(), linkage.right.tolist(), strict=True))
    caught = sum(pair in compared for pair, matches in reviewed.items() if matches)
    blocking = leakage.facts.blocking
    assert (blocking.source, blocking.caught, blocking.missed) == ("reviewed", caught, 200 - caught)
    assert blocking.recall == pytest.approx((caught + 0.5) / 201)
    left_over = 1 - 200 * blocking.recall / linkage.m.sum()
    assert blocking.std == pytest.approx(np.sqrt(blocking.recall * (1 - blocking.recall) / 202 * left_over))
    assert f"{caught} of 200 that were reviewed" in str(leakage)
    assert not leakage.at_least
    low, high = leakage.validation.interval()
    assert low < linkage.truth(0.8) < high < 0.9
    # The rate goes by which of the matches are linked, and not by what the tool thought of the others.
    doubted = linkage.leakage(
        np.where(linkage.m < 0.95, linkage.m / 100, linkage.m), blocking_recall="reviewed", reviewed=reviewed
    )
    assert doubted.rate == pytest.approx(leakage.rate, rel=0.05)
    # Matches that the tool did not compare are certain pairs.
    pairs = zip(leakage.likely_pairs.left, leakage.likely_pairs.right, strict=True)
    found = dict(zip(pairs, leakage.likely_pairs.probability, strict=True))
    missed = [pair for pair, matches in reviewed.items() if matches and pair not in compared]
    names = [tuple(str(linkage.groups[row]) for row in pair) for pair in missed]
    assert sum(one != two for one, two in names) > 3
    assert all(one == two or max(found.get((one, two), 0), found.get((two, one), 0)) == 1 for one, two in names)


@pytest.mark.slow
def test_reviewed_pairs_recalibrate():
    """Odds that are wrong by a factor of four, and somebody who looked at pairs across clusters."""
    rng = np.random.default_rng(2)
    before, after, covers = [], [], []
    for seed in range(12):
        linkage = FieldLinkage(seed, right=0.85, threshold=0.9)
        wrong = expit(logit(np.clip(linkage.m, 1e-9, 1 - 1e-9)) - 1.4)
        middle = np.flatnonzero((linkage.groups[linkage.left] != linkage.groups[linkage.right]) & (wrong > 0.005))
        reviewed = {int(i): bool(linkage.same[i]) for i in rng.choice(middle, min(120, len(middle)), replace=False)}
        truth = linkage.truth(0.8)
        before.append(linkage.leakage(wrong).rate - truth)
        corrected = linkage.leakage(wrong, reviewed=reviewed)
        after.append(corrected.rate - truth)
        covers.append(corrected.interval()[0] <= truth)
        assert corrected.at_least
    assert np.sqrt(np.mean(np.square(after))) < 0.6 * np.sqrt(np.mean(np.square(before)))
    assert np.mean(covers) >= 0.9
    values = pd.Series([None] * len(linkage.m), dtype="boolean")
    for place, answer in reviewed.items():
        values[place] = answer
    assert linkage.leakage(wrong, reviewed=values) == corrected


# --- pairs of clusters that a tool did not link ---------------------------------------------------------

GROUPS = ["a", "a", "b", "c", "c", "d", "e"]
COMPARED = [
    (0, 1, 0.99),  # Inside cluster a.
    (1, 2, 0.2),
    (2, 0, 0.4),  # The other record of a is more like that of b.
    (2, 3, 0.009),  # Hardly any evidence at all.
    (3, 5, 0.03),
    (5, 4, 0.6),
    (0, 5, 0.01),
    (6, 5, 0.0),
]


def likely_pairs(**options):
    left, right, probability = zip(*COMPARED, strict=True)
    leakage = Leakage.from_pair_probabilities(left, right, probability, groups=GROUPS, **options)
    found = leakage.likely_pairs
    return leakage, dict(zip(zip(found.left, found.right, strict=True), found.probability, strict=True))


def test_likely_pairs_by_hand():
    """The largest probability of the records of two clusters, where it is worth a look."""
    leakage, found = likely_pairs()
    assert found == {("a", "b"): 0.4, ("c", "d"): 0.6, ("a", "d"): 0.01}
    # They belong to the linkage, not to one of its two rates.
    assert leakage.train.likely_pairs is None
    assert "likely_pairs" not in repr(leakage)
    for options in ({"of": "train"}, {"blocking_recall": 0.9}, {"cv": [([0, 1, 5], [2, 3, 4])]}):
        assert likely_pairs(**options)[1] == found


def test_reviewed_pairs_are_likely_as_they_were_found_and_teach_all_others():
    """With the priors of the review, maximised by scipy."""
    answers = {2: False, 4: True, 1: False}
    given = np.array([probability for _, _, probability in COMPARED])
    log_odds = logit(given[list(answers)])
    yes = np.array(list(answers.values()))

    def minus_log_posterior(theta):
        eta = theta[0] + theta[1] * log_odds
        return -(np.where(yes, -np.logaddexp(0, -eta), -np.logaddexp(0, eta))).sum() + (
            theta[0] ** 2 / (2 * 1.5**2) + (theta[1] - 1) ** 2 / (2 * 0.4**2)
        )

    intercept, slope = minimize(minus_log_posterior, [0.0, 1.0], tol=1e-12).x
    _, found = likely_pairs(reviewed=answers)
    corrected = {place: float(expit(intercept + slope * logit(given[place]))) for place in (3, 5, 6)}
    # Both pairs of a and b were denied, c and d are one entity, and the pair of e stays impossible.
    expected = {("c", "d"): 1.0, ("b", "c"): corrected[3], ("a", "d"): corrected[6]}
    assert found == pytest.approx({pair: m for pair, m in expected.items() if m >= 0.01}, abs=1e-6)
    assert ("a", "b") not in found


@pytest.mark.parametrize("form", ["mapping", "frame", "series"])
def test_reviews_name_pairs_by_their_records(form):
    by_place = {2: False, 4: True, 1: False}
    names = {COMPARED[place][1::-1]: answer for place, answer in by_place.items()}
    left, right = map(list, zip(*names, strict=True))
    frame = pd.DataFrame({"left": left, "right": right, "match": list(names.values())})
    reviewed = {"mapping": names, "frame": frame, "series": frame.set_index(["left", "right"])["match"]}[form]
    leakage, found = likely_pairs(reviewed=reviewed)
    expected, pairs = likely_pairs(reviewed=by_place)
    assert (leakage, found) == (expected, pairs)
    assert leakage.facts.reviewed == 3


def test_files_keep_likely_pairs():
    leakage, found = likely_pairs()
    again = Leakage.from_dict(json.loads(json.dumps(leakage.to_dict())))
    assert again.likely_pairs == leakage.likely_pairs
    assert again == leakage
    assert len(found) == len(again.likely_pairs.left) == 3
    with pytest.raises(InputError, match="likely_pairs must be of type NamedPairs, got 3"):
        Leakage(0.1, likely_pairs=3)


def test_names_of_clusters_are_those_that_an_audit_knows():
    leakage = Leakage.from_pair_probabilities([0, 1], [2, 3], [0.3, 0.5], groups=[7, 7, 12, 12])
    assert leakage.likely_pairs == NamedPairs(("7",), ("12",), (0.5,))


LISTED = {"groups": ["a", "a", "b", "c", "c"], "ids": ["v", "w", "x", "y", "z"]}


def pairs(left=("v", "w"), right=("w", "x"), probability=(0.99, 0.2), **options):
    return Leakage.from_pair_probabilities(left, right, probability, **{**LISTED, **options})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: pairs(["v", "y"], ["w", "z"]),
            "probability must list pairs across clusters, got 2 pairs that are all",
        ),
        (lambda: pairs(["u", "u"]), "ids must name linked records, got 'v' and others, of which no pair names two"),
        (lambda: pairs(["v"]), "left must name one record for each of 2 pairs, got 1"),
        (
            lambda: pairs(ids=["v", "w", "x", "y"]),
            r"ids must hold one label for each of the 5 records, got shape \(4,\)",
        ),
        (lambda: pairs(ids=["v", "w", "x", "x", "z"]), "ids must name every record once, got 'x' several times"),
        (lambda: pairs(ids=[("s", 1), ("s", 2)]), "ids must hold one label for each of the 5 records, got 2"),
        (
            lambda: pairs(["v", "x", "w"], ["x", "v", "x"], [0.2, 0.3, 0.1]),
            "probability must be the same wherever a pair is listed, got 0.2 in row 0 and 0.3 in row 1",
        ),
        (lambda: pairs(probability=[0.99, 1.2]), r"probability must lie in \[0, 1\], got probability\[1\] = 1.2"),
        (lambda: pairs(blocking_recall=0), r"blocking_recall must lie in \(0, 1\], got 0"),
        (
            lambda: pairs(blocking_recall=(0.9, 0.1, 3)),
            r"blocking_recall must be a number or a pair \(recall, standard",
        ),
        (lambda: pairs(blocking_recall=(0.9, -1)), "blocking_recall's std must be a finite number at least 0, got -1"),
        (
            lambda: pairs(["v"], ["x"], [0.2], blocking_recall=0.9),
            "probability must list the pairs inside clusters too",
        ),
        (lambda: pairs(reviewed={7: True}), "reviewed must name pairs by their two records, or .* 0 to 1, got 7"),
        (lambda: pairs(reviewed={("v", "u"): True}), "reviewed must name linked records, got 'u', which is not one"),
        (lambda: pairs(reviewed={("v", "v"): True}), r"reviewed must name two records for each pair, got \('v', 'v'\)"),
        (
            lambda: pairs(reviewed={("v", "w"): True, ("w", "v"): False}),
            r"reviewed must have one answer for each pair, got two for \('w', 'v'\)",
        ),
        (
            lambda: pairs(reviewed=pd.DataFrame({"left": ["v"], "right": ["w"]})),
            "reviewed must have the columns 'left', 'right' and 'match', .* got 'left', 'right'",
        ),
        (
            lambda: pairs(blocking_recall="rules"),
            "blocking_recall must be a number, a pair .* or 'reviewed', got 'rules'",
        ),
        (lambda: pairs(blocking_recall="reviewed"), "reviewed must be given for blocking_recall='reviewed', got None"),
        (
            lambda: pairs(blocking_recall="reviewed", reviewed=[True, None]),
            "reviewed must name pairs by their two records for blocking_recall='reviewed'",
        ),
        (
            lambda: Leakage.from_pair_probabilities(
                [0],
                [1],
                [0.1],
                groups=range(30),
                ids=range(30),
                blocking_recall="reviewed",
                reviewed={(i, i + 1): True for i in range(12)},
            ),
            "groups must link some listed pairs for blocking_recall='reviewed', got none that are linked",
        ),
        (
            lambda: pairs(blocking_recall="reviewed", reviewed={("v", "x"): True}),
            "reviewed must hold 10 or more pairs that match for blocking_recall='reviewed', got 1",
        ),
        (lambda: pairs(reviewed={0: "yes"}), "reviewed must say True or False for each pair, got 'yes' for pair 0"),
        (
            lambda: pairs(reviewed=[True]),
            "reviewed must map pairs to answers, or have one value for each of the 2 pairs",
        ),
        (lambda: pairs(reviewed=[None, None]), "reviewed must hold an answer for at least one pair, got none"),
        (
            lambda: pairs(pd.Series(["v", "w"]), pd.Series(["w", "x"], index=[1, 0])),
            "right must have the same index as left, got 1 for 0 in row 0",
        ),
        (
            lambda: pairs(pd.Series([0, 1], name="unique_id_l"), [1, 2], ids=None),
            "ids must be given, .* since the pairs are named by the column 'unique_id_l'",
        ),
        (
            lambda: pairs([0, 7], [1, 2], ids=None),
            "left must hold rows between 0 and 4, got 7; for other names .* ids=",
        ),
        (
            lambda: capture_recapture([[1, 0]]),
            "rules must say True or False for each pair and each of two or more rules",
        ),
        (lambda: capture_recapture(np.array([[True, False], [False, False]])), "rules must catch every pair .* pair 1"),
        (lambda: capture_recapture(np.eye(2, dtype=bool)), "rules must catch some matches twice, got none"),
        (
            lambda: capture_recapture(np.ones((3, 2), bool), [0.5]),
            r"probability must hold one number in \[0, 1\] for each",
        ),
        (
            lambda: Leakage.from_precision_recall(0.9, 0.9, validation_share=0.2, n_records=5),
            "n_links must be a number, or groups given",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InputError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_pairs_with_records_that_are_not_in_the_data_are_left_out():
    whole = pairs(("v", "w", "u"), ("w", "x", "v"), (0.99, 0.2, 0.7))
    assert whole == pairs()
    assert (whole.facts.outside, pairs().facts.outside) == (1, 0)
    assert "Pairs with records that are not in the data, which are left out: 1." in str(whole)


def test_ids_that_are_taken_for_row_numbers_are_noticed():
    """Unique ids from 0 on, in another order than the rows: likely pairs then lie across clusters."""
    linkage = FieldLinkage(0)
    names = np.random.default_rng(4).permutation(len(linkage.groups))
    left, right = names[linkage.left], names[linkage.right]
    options = {"groups": linkage.groups}
    with pytest.raises(
        InputError, match=r"left and right must hold row numbers where ids is None, but .* lie across clusters"
    ):
        Leakage.from_pair_probabilities(left, right, linkage.m, **options)
    by_name = Leakage.from_pair_probabilities(left, right, linkage.m, **options, ids=names)
    assert by_name.rate == pytest.approx(linkage.leakage().rate)

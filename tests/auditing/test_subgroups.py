"""By subgroup: against computations with scikit-learn and numpy, and in words."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.auditing.subgroups import joint_level, read_partition

MODEL = KNeighborsClassifier(3)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    count = 160
    entity = np.repeat(np.arange(count), rng.integers(2, 7, count))
    profile = rng.standard_normal((count, 4))
    frame = pd.DataFrame(profile[entity] + 0.3 * rng.standard_normal((len(entity), 4)), columns=list("abcd"))
    y = (profile[entity, 0] + rng.standard_normal(count)[entity] > 0).astype(int)
    groups = entity.copy()
    for e in range(0, count, 4):
        groups[np.flatnonzero(entity == e)[0]] = count + e
    folds = list(GroupKFold(4, shuffle=True, random_state=0).split(frame, y, groups))
    return frame, y, entity, groups, folds


@pytest.fixture(scope="module")
def result(people):
    frame, y, _, groups, folds = people
    return ooc.audit(MODEL, frame, y, groups=groups, cv=folds, n_fits=32, random_state=0)


@pytest.fixture(scope="module")
def sex(people):
    return np.where(people[2] % 2, "f", "m")


def losses_of(people):
    frame, y, _, _, folds = people
    losses = np.empty(len(y))
    for train, test in folds:
        losses[test] = MODEL.fit(frame.iloc[train], y[train]).predict(frame.iloc[test]) != y[test]
    return losses


def test_naive_is_the_mean_of_the_subgroup(people, result, sex):
    losses, frame = losses_of(people), result.by(sex).to_frame()
    assert frame["subgroup"].tolist() == ["f", "m"]
    for _, row in frame.iterrows():
        mine = sex == row["subgroup"]
        assert row["naive"] == pytest.approx(losses[mine].mean())
        assert (row["records"], row["clusters"]) == (mine.sum(), len(np.unique(people[3][mine])))
        assert row["naive_low"] < row["naive"] < row["naive_high"]
        assert row["corrected"] == pytest.approx(row["naive"] + row["optimism"])


def test_naive_intervals_are_cluster_robust_and_simultaneous(people, result, sex):
    """Šidák's level for two subgroups of different clusters, and the variance of a ratio of sums over clusters."""
    losses, groups = losses_of(people), people[3]
    level = 0.95**0.5
    for group in result.by(sex).groups:
        mine = sex == group.name
        sums = np.bincount(groups[mine], losses[mine] - losses[mine].mean())
        count = len(np.unique(groups[mine]))
        variance = 1.7 * count / (count - 1) * (sums**2).sum() / mine.sum() ** 2
        reach = stats.t.ppf(0.5 + level / 2, count - 1) * np.sqrt(variance)
        assert group.naive.interval[1] - group.naive.value == pytest.approx(reach, rel=1e-6)


def test_difference_of_naive_losses_is_welch_s(people, result, sex):
    losses, groups = losses_of(people), people[3]
    (pair,) = result.by(sex).differences
    variances, freedom, total = [], [], len(np.unique(groups))
    for name in "fm":
        mine = sex == name
        sums = np.bincount(groups[mine], losses[mine] - losses[mine].mean())
        variances.append(1.7 * total / (total - 1) * (sums**2).sum() / mine.sum() ** 2)
        freedom.append(len(np.unique(groups[mine])) - 1)
    welch = sum(variances) ** 2 / sum(v**2 / f for v, f in zip(variances, freedom, strict=True))
    reach = stats.t.ppf(0.975, welch) * np.sqrt(sum(variances))
    assert pair.naive.value == pytest.approx(losses[sex == "f"].mean() - losses[sex == "m"].mean())
    assert pair.naive.interval[1] - pair.naive.value == pytest.approx(reach, rel=1e-6)


def test_subgroups_of_the_same_clusters_are_correlated(people, result):
    """Records of the same clusters: the difference is paired, and narrower than that of other clusters."""
    order = np.arange(len(people[0]))
    early = np.where(order - np.searchsorted(people[2], people[2]) < 2, "early", "late")
    (pair,) = result.by(early).differences
    losses, groups = losses_of(people), people[3]
    influence = sum(
        sign
        * np.bincount(groups[early == name], losses[early == name] - losses[early == name].mean(), groups.max() + 1)
        / (early == name).sum()
        for name, sign in (("early", 1), ("late", -1))
    )
    count = len(np.unique(groups))
    assert pair.naive.se_data**2 == pytest.approx(1.7 * count / (count - 1) * (influence**2).sum(), rel=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_joint_level(correlation):
    matrix = np.full((3, 3), correlation) + (1 - correlation) * np.eye(3)

    def outside(z):
        box = stats.multivariate_normal(np.zeros(3), matrix).cdf(np.full(3, z), lower_limit=np.full(3, -z))
        return box - 0.95

    wanted = 2 * stats.norm.cdf(brentq(outside, 1.5, 3.5, xtol=1e-4)) - 1
    assert joint_level(0.95, 4.0 * matrix) == pytest.approx(wanted, abs=0.002)


def test_the_half_that_leaks_has_the_optimism():
    differences = []
    for seed in range(6):
        patients = ooc.datasets.make_patients(200, split_share=0.4, random_state=seed)
        sex = np.where(patients.entities % 2, "f", "m")
        groups = np.where(sex == "f", patients.entities, 10_000 + patients.groups)
        result = ooc.audit(MODEL, patients.data, patients.target, groups=groups, n_fits=20, random_state=seed)
        of = {group.name: group for group in result.by(sex).groups}
        differences.append(of["m"].optimism.value - of["f"].optimism.value)
        assert of["m"].leakage > of["f"].leakage
    assert np.mean(differences) > 2 * np.std(differences) / np.sqrt(len(differences))


def test_a_column_an_array_and_a_function_are_the_same(people, result, sex):
    by_array = result.by(np.where(people[0]["a"] > 0, "above", "below"))
    by_function = result.by(lambda frame: np.where(frame["a"] > 0, "above", "below"))
    assert by_array.to_frame().equals(by_function.to_frame())
    assert next(group.name for group in result.by("a").groups).startswith("below ")


def test_numbers_are_cut_at_quantiles_that_are_stated(people, result):
    age = np.round(np.linspace(20, 80, len(people[0])))
    by_age = result.by(pd.Series(age, name="age"), quantiles=[0.5])
    assert [group.name for group in by_age.groups] == ["below 50", "50 or more"]
    assert by_age.cuts == "age is cut at its quantiles 0.5: 50."
    assert by_age.groups[0].records == (age < 50).sum()
    assert "age is cut" in str(by_age)


def test_few_numbers_dates_and_gaps_are_subgroups():
    few = read_partition([3, 1, 1, 3, None, 1], None, 6, [0.5])
    assert few.names == ("1", "3", "missing")
    assert few.codes.tolist() == [1, 0, 0, 1, 2, 0]
    days = np.arange("2020-01-01", "2020-01-13", dtype="datetime64[D]")
    assert read_partition(days, None, 12, [0.5]).names == ("below 2020-01-07", "2020-01-07 or more")
    assert read_partition(np.array(["b", "a"]), None, 2, [0.5]).names == ("a", "b")


def test_small_subgroups_are_named_and_not_judged(people, result, sex):
    region = np.where(people[2] < 5, "island", sex)
    by_region = result.by(region)
    assert by_region.small == ("island",)
    frame = by_region.to_frame().set_index("subgroup")
    assert frame.loc["island", "records"] == (region == "island").sum()
    assert frame.loc["island"].drop(["records", "clusters"]).isna().all()
    assert "Too small to be judged, with fewer than 10 clusters: island (" in str(by_region)
    assert len(by_region.differences) == 1


def test_known_rates_of_subgroups_count(people):
    frame, y, entity, _, _ = people
    sex = np.where(entity % 2, "f", "m")
    options = {"groups": entity, "error_model": "records", "leakage": 0.1, "n_fits": 200, "random_state": 0}
    result = ooc.audit(MODEL, frame, y, **options, unmix=False)
    alike, known = result.by(sex), result.by(sex, leakage={"f": 0.0, "m": 0.2})
    of = {group.name: group for group in known.groups}
    assert of["f"].optimism.value == pytest.approx(0, abs=1e-9)
    assert (of["f"].leakage, of["m"].leakage) == (0.0, 0.2)
    # An unknown split makes wide what a known one does not.
    assert alike.differences[0].optimism.se_data > known.differences[0].optimism.se_data


def test_without_a_rate_there_are_naive_values(people, sex):
    frame, y, entity, _, _ = people
    by_sex = ooc.audit(MODEL, frame, y, groups=entity, leakage=None, n_fits=40, random_state=0).by(sex)
    assert by_sex.to_frame()[["corrected", "optimism", "leakage"]].isna().all(axis=None)
    assert by_sex.differences[0].optimism is None
    assert "naive of f less that of m" in str(by_sex)


def test_greater_is_better_turns_the_sign(people, result, sex):
    frame, y, _, groups, folds = people
    options = {"groups": groups, "cv": folds, "n_fits": 32, "random_state": 0}
    accuracy = ooc.audit(MODEL, frame, y, scoring="accuracy", **options).by(sex).to_frame()
    error = result.by(sex).to_frame()
    np.testing.assert_allclose(accuracy["naive"], 1 - error["naive"])
    np.testing.assert_allclose(accuracy["corrected_low"], 1 - error["corrected_high"])
    np.testing.assert_allclose(accuracy["optimism"], error["optimism"])


def test_it_is_kept_as_plain_data_and_from_a_file(result, sex, tmp_path):
    by_sex = result.by(sex)
    assert ooc.Subgroups.from_dict(by_sex.to_dict()) == by_sex
    result.save(tmp_path / "audit.ooc")
    assert ooc.Audit.load(tmp_path / "audit.ooc").by(sex) == by_sex


@pytest.mark.parametrize(
    ("by", "options", "message"),
    [
        (lambda n: np.zeros(n), {}, "by must have at least two different values, got '0' for all records"),
        (lambda n: np.zeros(5), {}, "by must have one value for each of the"),
        (lambda n: "height", {}, "by must name a column of the data ('a', 'b', 'c', 'd'), got 'height'"),
        (lambda n: np.arange(n).astype(str), {}, "by must give two or more subgroups with at least 10 clusters, got 0"),
        (lambda n: (np.arange(n) % 21).astype(str), {}, "by must give at most 20 subgroups"),
        (lambda n: np.zeros((n, 2)), {}, "by must be a single column"),
        (lambda n: np.arange(n), {"quantiles": [0, 0.5]}, "quantiles must lie between 0 and 1, got 0"),
        (lambda n: np.arange(n) % 2, {"leakage": {"2": 0.1}}, "leakage must name subgroups that are judged ('0', '1')"),
        (lambda n: np.arange(n) % 2, {"leakage": 0.1}, "leakage must be a mapping from subgroups to their rates"),
    ],
)
def test_bad_input(people, by, options, message):
    frame, y, _, _, _ = people
    groups = np.arange(len(y)) // 2
    audited = ooc.audit(LogisticRegression(), frame, y, groups=groups, leakage=None, n_fits=40, random_state=0)
    with pytest.raises(ooc.InputError) as error:
        audited.by(by(len(y)), **options)
    assert message in str(error.value)
    assert str(error.value).count(".") == 1 or "0." in str(error.value)


def test_names_need_a_frame(people, result, tmp_path):
    result.save(tmp_path / "audit.ooc")
    loaded = ooc.Audit.load(tmp_path / "audit.ooc")
    with pytest.raises(ooc.InputError, match="by must be an array with one value per record"):
        loaded.by("a")
    with pytest.raises(ooc.InputError, match="by must be an array where the audit has no data frame"):
        loaded.by(lambda frame: frame["a"] > 0)


def test_the_report_has_a_table_of_subgroups(result, sex):
    from outofcluster.present.report import render_html

    by_sex, spread = result.by(np.where(np.arange(len(sex)) < 9, "<b>", sex)), result.spread()
    html = render_html(result, answers={"by sex": by_sex, "spread": spread})
    for group in by_sex.judged:
        assert f"{group.records} records of {group.clusters} clusters" in html
        assert f"{group.corrected.value:.3f}" in html
    assert "Too small to be judged" in html
    assert "&lt;b&gt;" in html
    assert spread.lines[0] in html


def test_pictures_show_every_subgroup_and_cluster(result, sex):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = result.by(sex).plot()
    assert [label.get_text().split("\n")[0] for label in drawn.ax_.get_yticklabels()] == ["f", "m"]
    assert drawn.to_frame().equals(result.by(sex).to_frame())
    caterpillar = result.spread().plot()
    points = caterpillar.ax_.get_lines()
    assert max(len(line.get_xdata()) for line in points) == len(result.spread().clusters)
    pyplot.close("all")

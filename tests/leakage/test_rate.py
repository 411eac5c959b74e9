"""A leakage rate: its interval, its words and tables, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import LeavePGroupsOut

from outofcluster._base.exceptions import InputError
from outofcluster.leakage.rate import Leakage

# True cluster 0 is whole, 1 in two pieces, 2 in three; approximate cluster "c" mixes 1 and 2.
true = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
approximate = np.array(list("aaabccddef"))


@given(st.floats(0, 0.999), st.floats(0, 2), st.floats(0.01, 0.99))
def test_intervals(rate, std, level):
    low, high = Leakage(rate, std).interval(level)
    assert 0 <= low <= rate <= high <= 1
    wider = Leakage(rate, std).interval(level + (1 - level) / 2)
    assert wider[0] <= low
    assert wider[1] >= high
    if std == 0:
        assert (low, high) == pytest.approx((rate, rate), abs=1e-12)


def test_an_interval_far_from_the_edges_is_the_normal_one():
    low, high = Leakage(0.4, 0.001).interval(0.9)
    assert (low, high) == pytest.approx((0.4 - 1.6449 * 0.001, 0.4 + 1.6449 * 0.001), abs=1e-5)


def test_words():
    assert str(Leakage(0.1)) == "10 % of the training records leak (uncertainty unknown)"
    words = str(Leakage(0.1, 0.02, of="validation"))
    assert words == "10.0 % ± 2.0 % of the validation records leak (95 % interval 6.7 % to 14.7 %)"
    assert str(Leakage(0, 0.01)) == "0.0 % ± 1.0 % of the training records leak (95 % interval 0.0 % to 3.7 %)"
    assert repr(Leakage(np.float64(0.1))) == "Leakage(rate=0.1, std=None, of='train', bound=None)"
    assert Leakage(0.1) == Leakage(0.1)


def pairs(left=(0, 1), right=(3, 4), probability=(0.5, 0.5), **options):
    return Leakage.from_pair_probabilities(left, right, probability, **{"groups": approximate, **options})


def rates(precision=0.9, recall=0.9, **options):
    counts = {"n_links": 100, "n_records": 100, "validation_share": 0.2}
    return Leakage.from_precision_recall(precision, recall, **{**counts, **options})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Leakage(1.5), r"rate must lie in \[0, 1\), got 1.5"),
        (lambda: Leakage(-0.1), "rate must be a finite number at least 0, got -0.1"),
        (lambda: Leakage(0.1, -1), "std must be a finite number at least 0, got -1"),
        (lambda: Leakage(0.1, of="test"), "of must be 'train' or 'validation', got 'test'"),
        (lambda: Leakage(0.1).interval(), "std must be known for an interval, got None"),
        (lambda: Leakage(0.1, 0.1).interval(1), r"confidence_level must lie in \(0, 1\), got 1"),
        (
            lambda: Leakage.from_true_groups(true[:4], approximate),
            r"true_groups must hold one label for each of the 10 records, got shape \(4,\)",
        ),
        (
            lambda: Leakage.from_true_groups(pd.Series(true), pd.Series(approximate, index=range(1, 11))),
            "groups must have the same index as true_groups, got 1 for 0 in row 0; align them first",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="people"),
            "drawn must be 'entities' or 'records' or 'clusters', got 'people'",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, sampled=true == 1),
            "sampled must be None for drawn='entities'",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="records", sampled=[0, 1]),
            r"sampled must say True or False for each of the 10 records, got int64 of shape \(2,\)",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="records", sampled=true > 9),
            "sampled must be True for at least one record",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, drawn="clusters", sampled=true == 1),
            "sampled must be True for all records of a drawn cluster",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=[([3, 9], [0])], drawn="records", sampled=true == 3),
            "sampled must mark records on the validation side of every split",
        ),
        (lambda: Leakage(0.1, other=Leakage(0.2)), "other must be the rate of the other side alone, got Leakage"),
        (lambda: Leakage(0.1, at_least=2), "at_least must be True or False, got 2"),
        (lambda: Leakage.from_dict([1]), "data of a Leakage must be as to_dict gives it"),
        (lambda: Leakage.from_dict({"rate": 0.1, "size": 3}), "data of a Leakage must be as to_dict gives it"),
        (
            lambda: Leakage.from_true_groups(true, approximate, of="all"),
            "of must be 'train' or 'validation', got 'all'",
        ),
        (lambda: Leakage.from_true_groups(true, approximate, cv=1), "cv must be a whole number at least 2, got 1"),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=LeavePGroupsOut(9)),
            "cv must be able to split these clus",
        ),
        (
            lambda: Leakage.from_true_groups(true, approximate, cv=[([3], [4])]),
            "true_groups must leave records that do not leak, got a leakage of 1",
        ),
        (lambda: pairs(left=[0]), r"left must hold one row number for each of 2 pairs, got int64 \(1,\)"),
        (lambda: pairs(right=[0.5, 1]), r"right must hold one row number for each of 2 pairs, got float64"),
        (lambda: pairs(right=[3, 10]), "right must hold rows between 0 and 9, got 10"),
        (lambda: pairs(left=[-1, 3]), "left must hold rows between 0 and 9, got -1"),
        (lambda: pairs(probability=[0.5, 1.1]), r"probability must lie in \[0, 1\], got probability\[1\] = 1.1"),
        (lambda: pairs([3], [4], [1], cv=[([3], [4])]), "probability must leave records that do not leak"),
        (lambda: rates(precision=1.2), r"precision must lie in \[0, 1\], got 1.2"),
        (lambda: rates(recall=0), r"recall must lie in \(0, 1\], got 0"),
        (lambda: rates(validation_share=1), r"validation_share must lie in \(0, 1\), got 1"),
        (lambda: rates(n_links=-1), "n_links must be a finite number at least 0, got -1"),
        (lambda: rates(n_records=0), "n_records must be a whole number between 1 and 1000000000000000, got 0"),
        (lambda: rates(n_records=10**400), "n_records must be a whole number between 1 and 1000000000000000, got"),
        (lambda: rates(mates=0.5), "mates must be a finite number at least 1, got 0.5"),
        (lambda: rates(recall_std=-1), "recall_std must be a finite number at least 0, got -1"),
        (lambda: rates(recall=0.1), "recall must leave fewer missed pairs than the 100 records .* implies 810 of them"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InputError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_in_a_notebook():
    assert "<p>8.0 % ± 1.0 % of the training records leak" in Leakage(0.08, std=0.01)._repr_html_()
    both = Leakage.from_true_groups([1, 1, 1, 2, 2, 3, 3], ["a", "a", "b", "c", "c", "d", "d"], cv=5)
    assert str(both).splitlines() == [str(both.validation), str(both.train)]
    shown = both._repr_html_()
    assert '<th scope="row">of the validation records</th><td>34 % ± 29 %</td><td>95 % interval 4 %' in shown
    assert '<th scope="row">of the training records</th><td>8.6 % ± 7.3 %</td>' in shown
    assert "Audited entities: 3. Cut by the linkage: 1." in shown


def test_as_a_frame():
    leakage = Leakage(0.08, std=0.01, of="validation")
    frame = leakage.to_frame(confidence_level=0.9)
    assert frame.columns.tolist() == ["rate", "std", "of", "low", "high", "bound"]
    assert frame.to_numpy()[:, :5].tolist() == [[0.08, 0.01, "validation", *leakage.interval(0.9)]]
    assert Leakage(0.08, bound=0.12).to_frame()["bound"].tolist() == [0.12]
    unknown = Leakage(0.08).to_frame()
    assert unknown[["std", "low", "high", "bound"]].isna().all(axis=None)
    assert unknown["rate"].tolist() == [0.08]


def test_a_file_keeps_everything_but_the_groups(tmp_path):
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(60), 3)
    groups = np.where(rng.random(180) < 0.2, 100 + np.arange(180), entity)
    audited = Leakage.from_true_groups(entity, groups)
    likely = Leakage.from_pair_probabilities([0, 2], [1, 3], [0.6, 0.2], groups=["a", "b", "c", "d"])
    for number, leakage in enumerate((audited, likely, Leakage(0.1, 0.02, "train", 0.2), Leakage(1 / 3))):
        leakage.save(tmp_path / f"{number}.json")
        again = Leakage.load(tmp_path / f"{number}.json")
        for name in Leakage.__dataclass_fields__:
            assert getattr(again, name) == getattr(leakage, name)
        assert again.groups is None


def test_a_file_that_cannot_be_written_or_read(tmp_path):
    with pytest.raises(InputError, match="path must lie in a folder that exists"):
        Leakage(0.1).save(tmp_path / "no" / "rate.json")
    with pytest.raises(InputError, match=r"path must be the file of a leakage rate, got .* which cannot be read"):
        Leakage.load(tmp_path)
    with pytest.raises(InputError, match="path must be the path of a file, got None"):
        Leakage.load(None)

"""What crosses from fitting to solving: saved, read, merged, and asked again with other choices, without a fit."""

import re
import zipfile

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_estimators import CountingRidge
from ooc_test_results import noise_of_levels
from outofcluster.sampling.audit_samples import AuditSamples

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(40), 10)
effect = rng.standard_normal((40, 4))[groups]
X = effect + 0.5 * rng.standard_normal((400, 4))
target = X[:, 0] + effect[:, 1] + 0.5 * rng.standard_normal(400)
label = (effect[:, 0] + rng.standard_normal(40)[groups] > 0).astype(int)
small = np.repeat(np.arange(100), 4)


def audit(estimator=None, y=target, **options):
    options = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 500, "random_state": 0} | options
    return ooc.audit(Ridge() if estimator is None else estimator, X, y, **options)


@pytest.fixture(scope="module")
def result():
    return audit()


@pytest.fixture(scope="module")
def fragments():
    return audit(KNeighborsClassifier(3), label, groups=small, error_model="fragments", n_fits=80, leakage=0.2)


def no_fits(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a model was fitted")

    for model in (Ridge, KNeighborsClassifier):
        monkeypatch.setattr(model, "fit", fail)


# --- saved and read -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["result", "fragments"])
def test_a_saved_audit_gives_the_same_answers(kind, request, tmp_path, monkeypatch):
    one = request.getfixturevalue(kind)
    no_fits(monkeypatch)
    one.save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert again.corrected == one.corrected
    assert again.to_json() == one.to_json()
    assert again.at_leakage(0.05).corrected == one.at_leakage(0.05).corrected
    assert again.with_units("records").corrected == one.with_units("records").corrected
    assert str(again) == str(one)
    assert [path.name for path in tmp_path.iterdir()] == ["audit"]


@pytest.mark.slow
def test_everything_that_was_chosen_is_saved(tmp_path):
    unsure = ooc.Leakage(0.1, std=0.02)
    one = audit(leakage=unsure, confidence_level=0.8, mute=("exact-rate", "small-validation"), units="records")
    one.with_curve(ooc.SketchCurve(n_groups=4)).save(tmp_path / "audit")
    again = ooc.Audit.load(tmp_path / "audit")
    assert again.leakage == (unsure,) * 5
    assert (again.confidence_level, again.units, again.units_asked) == (0.8, "records", "records")
    assert repr(again.curve_method) == repr(ooc.SketchCurve(n_groups=4))
    assert again.findings == one.with_curve(ooc.SketchCurve(n_groups=4)).findings
    audit(leakage=None, n_fits=100).save(tmp_path / "without a rate")
    assert ooc.Audit.load(tmp_path / "without a rate").corrected is None


def test_a_curve_that_holds_functions_cannot_be_saved(result, tmp_path):
    odd = result.with_curve(ooc.BasisCurve([np.ones_like, lambda x: x]))
    with pytest.raises(ooc.InputError, match="curve must have numbers as parameters for the audit to be saved"):
        odd.save(tmp_path / "audit")
    assert list(tmp_path.iterdir()) == []


def test_the_samples_alone_can_be_saved(fragments, tmp_path):
    fragments.samples.save(tmp_path / "samples")
    again = AuditSamples.load(tmp_path / "samples")
    assert again.to_frame().equals(fragments.samples.to_frame())
    one, other = again.folds[0], fragments.samples.folds[0]
    assert one.measured.keys() == other.measured.keys()
    assert [run.means.tolist() for run in one.runs.values()] == [run.means.tolist() for run in other.runs.values()]
    assert again.seen.rate == fragments.samples.seen.rate
    with pytest.raises(ooc.InputError, match=r"a file of an audit, got .* which is a file of audit samples"):
        ooc.Audit.load(tmp_path / "samples")


def test_a_file_that_was_cut_changed_or_made_by_another_version_is_refused_by_name(result, tmp_path):
    path = tmp_path / "audit"
    result.save(path)
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ooc.InputError, match=re.escape(repr(str(path)))):
            ooc.Audit.load(path)
    for place in range(200, len(whole), len(whole) // 23):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(ooc.InputError, match=re.escape(repr(str(path)))):
            ooc.Audit.load(path)
    with pytest.raises(ooc.InputError, match="which does not exist"):
        ooc.Audit.load(tmp_path / "nothing")

    def edited(change):
        path.write_bytes(whole)
        with zipfile.ZipFile(path) as file:
            entries = {name: file.read(name) for name in file.namelist()}
        change(entries)
        with zipfile.ZipFile(path, "w") as file:
            for name, content in entries.items():
                file.writestr(name, content)

    def other_rate(entries):
        assert b'"rate": 0.1' in entries["about.json"]
        entries["about.json"] = entries["about.json"].replace(b'"rate": 0.1', b'"rate": 0.2')

    edited(other_rate)
    with pytest.raises(ooc.InputError, match="which was altered"):
        ooc.Audit.load(path)


# --- other choices ------------------------------------------------------------------------------------


def test_another_curve_uses_the_losses_that_are_there(result, monkeypatch):
    no_fits(monkeypatch)
    line = result.with_curve(ooc.PolynomialCurve(1))
    b = sum(fold.n_validation / 400 * fold.main.means for fold in result.samples.folds)
    p = 0.1 + 0.9 * result.samples.folds[0].main.injected
    q = np.polynomial.Polynomial.fit(p, b, 1, w=1 / noise_of_levels(result.samples.folds))
    assert line.corrected.value == pytest.approx(result.naive.value + q(0) - q(0.1), abs=1e-12)
    assert line.with_curve("auto").corrected == result.corrected
    assert line.naive == result.naive
    with pytest.raises(ooc.InputError, match="curve must be 'auto' or a curve such as PolynomialCurve"):
        result.with_curve("cubic")


def test_other_units_give_the_interval_that_they_would_have_had(result, monkeypatch):
    by_records = audit(units="records").corrected
    no_fits(monkeypatch)
    assert result.with_units("records").corrected == by_records
    assert result.with_units("records").with_units("clusters").corrected == result.corrected
    assert result.with_units("records").estimand == "these held-out clusters"
    with pytest.raises(ooc.InputError, match="units must be 'auto' or 'clusters' or 'records', got 'people'"):
        result.with_units("people")


def test_units_that_were_not_kept_are_refused(monkeypatch):
    monkeypatch.setattr("outofcluster.auditing.fits._BOTH_KINDS", 0)
    one = audit(n_fits=100)
    assert one.samples.units == ("clusters",)
    with pytest.raises(ooc.InputError, match="the sums for records were not kept; audit again with units='records'"):
        one.with_units("records")


@pytest.mark.slow
def test_records_in_any_order_are_the_same_units():
    """Folds whose rows are shuffled: every record keeps its own influence."""
    order = np.random.default_rng(1)
    pairs = [(np.flatnonzero(groups % 4 != k), np.flatnonzero(groups % 4 == k)) for k in range(4)]
    shuffled = [(order.permutation(train), order.permutation(test)) for train, test in pairs]
    options = {"units": "records", "curve": ooc.PolynomialCurve(1), "n_fits": 2000}
    one, other = audit(cv=pairs, **options), audit(cv=shuffled, **options)
    assert other.corrected.se_data == pytest.approx(one.corrected.se_data, rel=0.2)
    assert other.naive.se_data == pytest.approx(one.naive.se_data, rel=0.1)


def test_confidence_levels(result):
    widths = [np.ptp(result.with_confidence(level).corrected.interval) for level in (0.5, 0.9, 0.95, 0.99)]
    assert widths == sorted(widths)
    assert result.with_confidence(0.9).corrected.confidence_level == 0.9
    assert "90 % interval" in str(result.with_confidence(0.9))
    assert "Intervals are 90 %" in result.with_confidence(0.9).explain()
    assert audit(confidence_level=0.9).corrected == result.with_confidence(0.9).corrected
    assert result.with_confidence(0.9).sensitivity([0.1]).low[0] == result.with_confidence(0.9).corrected.interval[0]
    for wrong in (0, 1, 95, "high"):
        with pytest.raises(ooc.InputError, match="confidence_level must"):
            result.with_confidence(wrong)


# --- merged -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_seeds_make_one_larger_audit(result):
    other = audit(random_state=1)
    both = result.merge(other)
    assert both.summary.fits == 1000
    assert both.naive.value == pytest.approx(result.naive.value)
    spreads = [one.with_curve(ooc.PolynomialCurve(1)).corrected.se_monte_carlo for one in (both, result, other)]
    assert spreads[0] < min(spreads[1:])
    values = sorted(one.iid.value for one in (result, other))
    assert values[0] <= both.iid.value <= values[1]
    three = both.merge(audit(random_state=2))
    mean = np.mean([one.iid.value for one in (result, other, audit(random_state=2))])
    assert three.iid.value == pytest.approx(mean)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Samples with the same seed cannot be merged"),
        ({"loss": "absolute_error", "random_state": 1}, "their loss is the same, got 'squared_error' and 'absolute"),
        ({"cv": 4, "random_state": 1}, "they have the same folds"),
        ({"y": target + 1, "random_state": 1}, "fold 0 differs in y"),
        ({"groups": groups[::-1].copy(), "random_state": 1}, "fold 0 differs in groups"),
        ({"estimator": Ridge(2.0), "random_state": 1}, "fold 0 differs in estimator, parameters"),
    ],
)
def test_what_does_not_belong_together_is_not_merged(result, options, message):
    with pytest.raises(ooc.InputError, match=message):
        result.merge(audit(**options))


# --- defects that were mended -------------------------------------------------------------------------


def test_a_finished_run_fits_nothing_again_and_says_so(tmp_path, capsys):
    options = {"checkpoint": tmp_path / "run", "n_fits": 200, "progress": True}
    first = audit(CountingRidge(), **options)
    assert "models will be fitted, as many as in" in capsys.readouterr().err
    CountingRidge.fits = 0
    assert audit(CountingRidge(), **options).to_json() == first.to_json()
    assert CountingRidge.fits == 0
    assert capsys.readouterr().err.endswith("All models are in the checkpoint, so that nothing will be fitted.\n")
    with pytest.raises(ooc.InputError, match=r"belongs to a different problem: .*y differ"):
        audit(CountingRidge(), target + 1, **options)


def test_without_a_seed_the_stored_one_goes_on(tmp_path):
    options = {"checkpoint": tmp_path / "run", "n_fits": 200, "random_state": None}
    first = audit(CountingRidge(), **options)
    CountingRidge.fits = 0
    assert audit(CountingRidge(), **options).corrected == first.corrected
    assert CountingRidge.fits == 0


def test_parameters_of_fit_reach_the_effect_test():
    """Weights that ignore every second record: the test sees other models than without them."""
    weights = np.where(np.arange(400) % 2, 1.0, 1e-9)
    plain, weighted = audit(n_fits=100), audit(n_fits=100, params={"sample_weight": weights})
    assert weighted.test != plain.test
    alone = ooc.leakage_test(Ridge(), X, target, groups=groups, params={"sample_weight": weights}, random_state=0)
    assert alone != ooc.leakage_test(Ridge(), X, target, groups=groups, random_state=0)


def shifted_error(y, prediction):
    return (y != prediction).astype(float) - 3.0


@pytest.mark.slow
def test_losses_below_zero_keep_their_interval():
    """A loss and the same loss less 3 have the same curve, moved, and the same spread."""
    curve = ooc.TrendFilterCurve(nonnegative=False)
    options = {"curve": curve, "n_fits": 300, "y": label, "estimator": KNeighborsClassifier(9)}
    plain, moved = (audit(loss=loss, **options).corrected for loss in ("zero_one", shifted_error))
    assert moved.value == pytest.approx(plain.value - 3.0, abs=1e-4)
    assert moved.se_data == pytest.approx(plain.se_data, rel=0.1)


def test_a_generator_or_random_state_serves_as_seed():
    one, other = (audit(n_fits=100, random_state=np.random.default_rng(3)).corrected for _ in range(2))
    assert one == other
    assert audit(n_fits=100, random_state=np.random.RandomState(3)).corrected != one
    with pytest.raises(ooc.InputError, match="random_state must be"):
        audit(random_state="seed")

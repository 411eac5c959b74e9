"""What a model, a loss or a table must not do: become a verdict, a rank or a mean without a word."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_estimators import FailsOnSome, Misbehaving, MisbehavingClassifier
from outofcluster import FitError, InputError

rng = np.random.default_rng(0)
groups = np.arange(120) % 12
X = rng.standard_normal((120, 3)) + rng.standard_normal((12, 3))[groups]
number = X[:, 0] + 0.5 * rng.standard_normal(120)
label = (number > 0).astype(int)
QUICK = {"groups": groups, "n_fits": 60, "random_state": 0}


def one_line(error):
    message = str(error.value)
    return len(message.splitlines()) == 1 and message.isprintable() and message.endswith(".")


# --- models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["nan", "inf", "one nan", "none", "short", "masked", "raises", "huge"])
def test_a_model_that_predicts_no_numbers_gets_no_verdict(how):
    for call in (ooc.audit, ooc.leakage_test):
        options = QUICK if call is ooc.audit else {"groups": groups, "random_state": 0}
        with pytest.raises(FitError) as error:
            call(Misbehaving(how), X, number, **options)
        assert one_line(error)
        assert ("in fold 0" if call is ooc.audit else "in drawing 0") in str(error.value)
        assert error.value.__cause__ is not None


def test_a_model_that_predicts_nan_is_not_ranked():
    comparison = ooc.compare({"nan": Misbehaving("nan"), "ridge": Ridge()}, X, number, leakage=0.1, **QUICK)
    assert comparison.ranking == comparison.naive_ranking == ("ridge",)
    assert "got nan" in comparison.left_out["nan"]
    assert "nan was left out" in str(comparison)


@pytest.mark.slow
def test_a_model_that_fails_in_one_fold_is_not_compared_fold_by_fold():
    comparison = ooc.compare({"picky": FailsOnSome(), "linear": LogisticRegression()}, X, label, **QUICK)
    assert "linear" in comparison.ranking
    assert set(comparison.audits).isdisjoint(comparison.left_out)
    assert "linear" in str(comparison)


@pytest.mark.parametrize(
    ("how", "loss", "message"),
    [
        ("strings", "zero_one", "must predict labels of the type of y, such as [01], got"),
        ("half", "zero_one", "must predict class labels for loss 'zero_one', got numbers such as 0.5"),
        ("negative", "log_loss", "must give probabilities between 0 and 1, got -0.5"),
        ("nan", "brier", "one finite value per record by predict_proba"),
        ("unknown", "f1", "must predict classes that y holds, got 99"),
    ],
)
def test_labels_and_probabilities_that_cannot_be_right(how, loss, message):
    chosen = {"scoring": loss} if loss == "f1" else {"loss": loss}
    with pytest.raises(FitError, match=message) as error:
        ooc.audit(MisbehavingClassifier(how), X, label, **chosen, **QUICK)
    assert one_line(error)


def test_numbers_for_classes_are_refused():
    with pytest.raises(FitError, match="must predict class labels for loss 'zero_one', got numbers such as"):
        ooc.audit(Ridge(), X, label, loss="zero_one", **QUICK)


def test_errors_of_several_lines_become_one_that_names_the_replicate():
    with pytest.raises(FitError, match=r"failed at level 0 .*, replicate 0: RuntimeError: several lines") as error:
        ooc.sample_losses(
            Misbehaving("fit raises"), X, number, train=range(80), validation=range(80, 120), n_fits=24, random_state=0
        )
    assert one_line(error)
    assert isinstance(error.value.__cause__, RuntimeError)


def test_an_error_that_no_other_process_can_read():
    with pytest.raises(FitError, match="in fold 0: Unreadable: one and two") as error:
        ooc.audit(Misbehaving("unreadable"), X, number, **QUICK)
    assert one_line(error)
    assert "one and two" in str(pickle.loads(pickle.dumps(error.value.__cause__)))


@pytest.mark.slow
def test_a_killed_worker_is_named():
    with pytest.raises(FitError, match="A worker process was lost") as error:
        ooc.leakage_test(Misbehaving("dies"), X, number, groups=groups, random_state=0, n_jobs=2)
    assert one_line(error)
    assert error.value.__cause__ is not None


def test_more_neighbours_than_records():
    with pytest.raises(FitError, match="in fold 0: ValueError: Expected n_neighbors <= n_samples_fit") as error:
        ooc.audit(KNeighborsClassifier(1000), X, label, **QUICK)
    assert one_line(error)


def test_losses_that_are_no_numbers():
    def sometimes(y, predicted):
        return np.where(np.arange(len(y)) == 7, np.nan, 1.0)

    with pytest.raises(FitError, match=r"loss must give one finite value per record, .* got nan from sometimes"):
        ooc.audit(Ridge(), X, number, loss=sometimes, **QUICK)
    with pytest.raises(FitError, match="got inf from squared_error"):
        ooc.audit(Ridge(), X, number * 1e200, **QUICK)


# --- tables --------------------------------------------------------------------------------------------

frame = pd.DataFrame(X, columns=list("abc"))
shuffled = np.random.default_rng(1).permutation(120)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.ma.masked_less(X, -1)}, "X must be an array without a mask, got a masked array"),
        ({"y": np.ma.masked_equal(label, 1)}, "y must be an array without a mask"),
        ({"groups": np.ma.masked_equal(groups, 1)}, "groups must be an array without a mask"),
        ({"params": {"sample_weight": np.ma.ones(120)}}, "params\\['sample_weight'\\] must be an array without a mask"),
        ({"X": pd.DataFrame(X, columns=list("aab"))}, "columns of different names, got 'a' more than once"),
        ({"X": X[:, :0]}, "X must have at least one column, got shape \\(120, 0\\)"),
        ({"X": X + 1j}, "X must hold real numbers, got complex ones"),
        ({"X": {"a": X[:, 0]}}, "X must be an array or a data frame with one row per record"),
        ({"X": "records"}, "X must be an array or a data frame with one row per record, got 'records'"),
        ({"X": np.array(3.0)}, "X must be an array or a data frame"),
        ({"y": sparse.csr_matrix(label[:, None])}, "y must be an array or a series, got a sparse matrix"),
        ({"y": [1, "a"] * 60}, "y must hold values of one type, got number and str"),
        ({"y": np.array([1, "a"] * 60, dtype=object)}, "y must hold values of one type, got number and str"),
        ({"y": label + 1j}, "y must hold labels or real numbers, got complex ones"),
        ({"X": frame, "y": pd.Series(label[shuffled], shuffled)}, "y must have its rows in the order of X"),
        ({"X": frame, "groups": pd.Series(groups, shuffled)}, "groups must have its rows in the order of X"),
        (
            {"X": frame, "params": {"sample_weight": pd.Series(np.ones(120), shuffled)}},
            "params\\['sample_weight'\\] must have its rows in the order of X",
        ),
        (
            {"X": frame, "leakage": pd.Series(np.full(120, 0.1), shuffled), "error_model": "records"},
            "leakage must have its rows in the order of X",
        ),
        (
            {"y": pd.Series(label), "leakage": pd.Series(np.full(120, 0.1), shuffled)},
            "leakage must have its rows in the order of y",
        ),
        (
            {"X": frame, "leakage": pd.DataFrame(np.full((5, 120), 0.1), columns=shuffled)},
            "leakage.T must have its rows in the order of X",
        ),
        ({"groups": [[1, 2]] * 60 + [[1]] * 60}, "groups must hold one label per record"),
        ({"mute": 3}, "mute must hold codes of findings .*, got 3"),
        ({"leakage": True}, "leakage must be a number at least 0, got True"),
        ({"leakage": "0.1"}, "leakage must be a rate, a Leakage, one of them for each fold, or 'data', got '0.1'"),
        ({"estimator": LogisticRegression}, "estimator must be an instance such as LogisticRegression\\(\\)"),
    ],
)
def test_refused_before_any_model_is_fitted(changes, message):
    Misbehaving.fits = 0
    call = {"estimator": MisbehavingClassifier("fine"), "X": X, "y": label, **QUICK} | changes
    with pytest.raises(InputError, match=message) as error:
        ooc.audit(**call)
    assert one_line(error)
    assert Misbehaving.fits == 0


@pytest.mark.parametrize("form", ["coo", "bsr", "dia", "lil", "dok", "csc"])
def test_every_sparse_format_gives_the_same_numbers(form):
    records = sparse.coo_matrix(X[:90])
    options = {"train": range(60), "validation": range(60, 90), "n_fits": 12, "injected": [0, 0.5], "random_state": 0}
    expected, result = (
        ooc.sample_losses(Ridge(), table, number[:90], **options) for table in (records.tocsr(), records.asformat(form))
    )
    np.testing.assert_allclose(result.means, expected.means, rtol=1e-9)


@pytest.mark.slow
def test_rows_are_matched_by_position():
    """As in scikit-learn: an index of other labels than those of X says nothing about the order."""
    expected = ooc.audit(Ridge(), frame, number, **QUICK)
    result = ooc.audit(Ridge(), frame, pd.Series(number, index=range(500, 620)), **QUICK)
    assert result.naive == expected.naive


def test_an_odd_splitter_is_refused_in_one_sentence():
    class Odd:
        def split(self, X, y=None, groups=None):
            raise RuntimeError("several\nlines")

    with pytest.raises(InputError, match="says: RuntimeError: several lines") as error:
        ooc.audit(Ridge(), X, number, cv=Odd(), **QUICK)
    assert one_line(error)


def test_the_classifier_of_the_sides_may_fail():
    with pytest.raises(FitError, match="tells the sides of a split apart failed: RuntimeError: several lines") as error:
        ooc.Leakage.from_data(
            X, label, groups=groups, error_model="records", discriminator=MisbehavingClassifier("fit raises")
        )
    assert one_line(error)

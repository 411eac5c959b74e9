"""Generated data: the synthetic study's curve against simulation and closed forms, and patients that are split."""

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.datasets import make_partition, make_patients, partition_losses, simulated


def simulate(n, j, slopes, widths, noise, draws, seed):
    """The loss of fitted models, one by one: its mean and standard error."""
    rng = np.random.default_rng(seed)
    from_v = np.arange(n) < j
    x = rng.uniform(-1, 1, (draws, n)) * np.where(from_v, widths[1], widths[0])
    y = x * np.where(from_v, slopes[1], slopes[0]) + rng.normal(0, noise, x.shape)
    slope = np.einsum("ij,ij->i", x, y) / np.einsum("ij,ij->i", x, x)
    new_x = rng.uniform(-widths[1], widths[1], (draws, 20))
    new_y = slopes[1] * new_x + rng.normal(0, noise, new_x.shape)
    loss = ((new_y - slope[:, None] * new_x) ** 2).mean(axis=1)
    return loss.mean(), loss.std() / np.sqrt(draws)


@pytest.mark.parametrize("j", [0, 1, 2, 5, 14, 15])
def test_the_papers_curve_against_simulation(j):
    mean, error = simulate(15, j, (1, 2), (1, 10), 0.5, 100_000, seed=j)
    assert abs(partition_losses()[j] - mean) < 4 * error


@pytest.mark.parametrize(
    ("n", "j", "slopes", "widths", "noise"),
    [
        (6, 2, (0, -1), (3, 1), 2.0),
        (40, 7, (1, 2), (2, 2), 0.1),
        (8, 3, (1, 1), (1, 10), 1.0),
        (9, 4, (5, 2), (1, 4), 0),
    ],
)
def test_other_parts_against_simulation(n, j, slopes, widths, noise):
    mean, error = simulate(n, j, slopes, widths, noise, 100_000, seed=n)
    losses = partition_losses(n, slopes=slopes, half_widths=widths, noise=noise)
    assert abs(losses[j] - mean) < 4 * error


def test_the_fall_is_steep_and_monotone():
    losses = partition_losses(15)
    assert losses.shape == (16,)
    np.testing.assert_allclose(losses[:3], [35.4, 6.4, 1.6], rtol=0.03)
    assert (np.diff(losses) < 0).all()
    assert losses[-1] > 0.25


@pytest.mark.parametrize("n", [3, 4, 15, 200])
def test_the_ends_of_the_curve_in_many_digits(n):
    with mpmath.workdps(25):

        def integrand(t):
            root = mpmath.sqrt(t)
            return (mpmath.sqrt(mpmath.pi) * mpmath.erf(root) / (2 * root)) ** n

        inverse = mpmath.quad(integrand, [0, 1 / mpmath.mpf(n), 0.1, 1, 10, 100, mpmath.inf])
        first = float(0.25 + mpmath.mpf(100) / 3 * (1 + 0.25 * inverse))
        last = float(0.25 + 0.25 * inverse / 3)
    losses = partition_losses(n)
    np.testing.assert_allclose([losses[0], losses[-1]], [first, last], rtol=1e-11)


@pytest.mark.parametrize("n", [3, 7, 50])
def test_records_of_one_width_are_exchangeable(n):
    """With equal widths E A²/S² is k q + k (k-1) r for k records of T, where n q + n (n-1) r = 1."""
    share = 3 * partition_losses(n, slopes=(0, 1), half_widths=(1, 1), noise=0)[::-1]
    k, q = np.arange(n + 1), share[1]
    np.testing.assert_allclose(share, k * q + k * (k - 1) * (1 - n * q) / (n * (n - 1)), rtol=1e-11, atol=1e-13)


def test_units_do_not_matter():
    losses = partition_losses(9)
    np.testing.assert_allclose(partition_losses(9, slopes=(7, 6)), losses, rtol=1e-12)
    np.testing.assert_allclose(partition_losses(9, slopes=(4, 8), noise=2), 16 * losses, rtol=1e-12)
    longer = partition_losses(9, slopes=(0.01, 0.02), half_widths=(100, 1000))
    np.testing.assert_allclose(longer, losses, rtol=1e-12)


def test_many_records(monkeypatch):
    n = 5000
    losses = partition_losses(n)
    assert np.isfinite(losses).all()
    assert (np.diff(losses) < 0).all()
    # With many records A and B are what they are on average.
    j = np.array([0, 1000, 2500, 4999])
    a, b = (n - j) / 3, 100 * j / 3
    expected = 0.25 + 100 / 3 * ((a / (a + b)) ** 2 + 0.25 / (a + b))
    np.testing.assert_allclose(losses[j], expected, rtol=2e-3)
    monkeypatch.setattr(simulated, "_BLOCK", 1700)
    np.testing.assert_allclose(partition_losses(n), losses, rtol=1e-14)


@pytest.mark.parametrize("size", [2**63, 10**400, 10**12])
def test_sizes_that_no_memory_holds_are_refused(size):
    with pytest.raises(InputError, match="n_train must be at most 10000000, got"):
        make_partition(size)
    with pytest.raises(InputError, match="n_validation must be at most 10000000, got"):
        make_partition(15, size)
    with pytest.raises(InputError, match="n must be at most 1000000, got"):
        partition_losses(size)
    for options in ({"n_patients": size}, {"n_records": size}, {"n_features": size}):
        with pytest.raises(InputError, match="n_patients times n_records times n_features must be at most 100000000"):
            make_patients(**options)


def test_a_partition_has_the_parts_it_says():
    bunch = make_partition(4000, 5000, random_state=3)
    assert bunch.data.shape == (9000, 1)
    assert bunch.train_rows.tolist() == list(range(4000))
    assert bunch.validation_rows.tolist() == list(range(4000, 9000))
    assert (bunch.feature_names, bunch.target_names) == (("x",), ())
    for rows, slope, width in ((bunch.train_rows, 1, 1), (bunch.validation_rows, 2, 10)):
        x, y = bunch.data[rows, 0], bunch.target[rows]
        assert 0.99 * width < np.abs(x).max() < width
        assert np.var(x) == pytest.approx(width**2 / 3, rel=0.05)
        assert np.std(y - slope * x) == pytest.approx(0.5, rel=0.05)
    assert "4000 fresh records" in bunch.DESCR


def test_a_partition_is_its_seed():
    one, same, other = (make_partition(20, 30, random_state=seed) for seed in (1, 1, 2))
    assert one.target.tobytes() == same.target.tobytes()
    assert one.data.tobytes() == same.data.tobytes()
    assert one.target.tobytes() != other.target.tobytes()
    assert make_partition(20, 30).target.tobytes() != make_partition(20, 30).target.tobytes()


def test_the_known_e0_is_the_beginning_of_the_curve():
    parts = {"slopes": (1, 3), "half_widths": (2, 4), "noise": 1.5}
    assert make_partition(10, 20, **parts).e0 == pytest.approx(partition_losses(10, **parts)[0], rel=1e-12)


@pytest.mark.slow
def test_sampled_losses_are_the_binomial_means_of_the_curve():
    """The package's own sampling, on pools so large that they are as good as endless."""
    bunch = make_partition(20_000, 2000, random_state=0)
    samples = ooc.sample_losses(
        LinearRegression(fit_intercept=False),
        bunch.data,
        bunch.target,
        train=bunch.train_rows,
        validation=bunch.validation_rows,
        injected=[0, 0.1, 0.3, 1],
        n_train=15,
        n_fits=4000,
        kernel=True,
        random_state=0,
    )
    expected = ooc.BinomialOperator(samples.injected, 15).matrix() @ partition_losses(15)
    # 2000 validation records leave some error of their own.
    np.testing.assert_array_less(np.abs(samples.means - expected), 4 * samples.standard_errors + 0.03 * expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 2}, "n must be a whole number at least 3, got 2"),
        ({"slopes": (1,)}, "slopes must be a pair"),
        ({"slopes": (1, np.nan)}, "slopes must be finite"),
        ({"half_widths": (0, 1)}, "half_widths must be positive"),
        ({"half_widths": "ab"}, "half_widths must be an array of numbers"),
        ({"noise": -0.1}, "noise must be a finite number at least 0"),
    ],
)
def test_bad_parts(options, message):
    with pytest.raises(InputError, match=message):
        partition_losses(**options)
    renamed = {"n_train" if name == "n" else name: value for name, value in options.items()}
    with pytest.raises(InputError, match=message.replace("n must", "n_train must") if "n" in options else message):
        make_partition(**renamed)


def test_bad_partitions():
    with pytest.raises(InputError, match="n_validation must be a whole number at least 1"):
        make_partition(15, 0)
    with pytest.raises(InputError, match="random_state"):
        make_partition(15, 10, random_state=-1)


# --- patients ----------------------------------------------------------------------------------------------------


def test_patients_and_their_groups():
    patients = make_patients(2000, n_records=(1, 5), split_share=0.3, random_state=0)
    n = len(patients.target)
    assert patients.data.shape == (n, 6)
    assert patients.groups.shape == patients.entities.shape == (n,)
    names, sizes = np.unique(patients.entities, return_counts=True)
    assert names.tolist() == list(range(2000))
    assert np.unique(sizes).tolist() == [1, 2, 3, 4, 5]
    assert n / 2000 == pytest.approx(3, abs=0.1)
    # A group never holds two patients, and a patient is in at most two.
    pairs = np.unique(np.stack([patients.groups, patients.entities]), axis=1)
    assert pairs.shape[1] == len(np.unique(patients.groups))
    pieces = np.bincount(pairs[1])
    assert set(pieces.tolist()) == {1, 2}
    assert (pieces[sizes == 1] == 1).all()
    assert (pieces[sizes >= 2] == 2).mean() == pytest.approx(0.3, abs=0.04)
    # Of five records any number but all and none can leave, each as likely, and any record can.
    of_five = [rows for rows in np.split(np.arange(n), np.cumsum(sizes)[:-1]) if len(rows) == 5]
    left = np.array([patients.groups[rows] != patients.entities[rows] for rows in of_five])
    left = left[left.any(axis=1)]
    shares = np.bincount(left.sum(axis=1), minlength=6) / len(left)
    assert shares[[0, 5]].tolist() == [0, 0]
    np.testing.assert_allclose(shares[1:5], 0.25, atol=0.15)
    np.testing.assert_allclose(left.mean(axis=0), 0.5, atol=0.15)


def test_targets_belong_to_patients():
    for target in ("classification", "regression"):
        patients = make_patients(300, target=target, random_state=1)
        each = patients.target.reshape(300, 4)
        assert (each == each[:, :1]).all()
    assert len(np.unique(patients.target)) == 300
    assert patients.target_names == ()
    classes = make_patients(300, random_state=1)
    np.testing.assert_array_equal(classes.target, patients.target > 0)
    assert classes.target_names == ("healthy", "ill")
    assert classes.target.mean() == pytest.approx(0.5, abs=0.1)


def test_extremes_of_the_split():
    whole = make_patients(50, split_share=0, random_state=0)
    np.testing.assert_array_equal(whole.groups, whole.entities)
    every = make_patients(50, split_share=1, random_state=0)
    assert len(np.unique(every.groups)) == 100
    singles = make_patients(50, n_records=1, split_share=1, random_state=0)
    np.testing.assert_array_equal(singles.groups, singles.entities)
    assert "50 patients in 100 groups" in repr(every)


def test_patients_are_their_seed():
    one, same, other = (make_patients(30, random_state=seed) for seed in (1, 1, 2))
    assert one.data.tobytes() == same.data.tobytes()
    assert one.groups.tobytes() == same.groups.tobytes()
    assert one.data.tobytes() != other.data.tobytes()


def test_a_split_patient_makes_the_score_optimistic():
    patients = make_patients(400, split_share=0.5, random_state=0)
    X, y = patients.data, patients.target
    model, cv = KNeighborsClassifier(3), GroupKFold(5)
    observed, truth = (
        cross_val_score(model, X, y, groups=groups, cv=cv).mean() for groups in (patients.groups, patients.entities)
    )
    assert observed > truth + 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_patients": 1}, "n_patients must be a whole number at least 2"),
        ({"n_records": 0}, "n_records must be a whole number at least 1"),
        ({"n_records": (3, 2)}, r"n_records\[1\] must be a whole number at least 3"),
        ({"n_records": "four"}, "n_records must be a whole number"),
        ({"n_features": 0}, "n_features"),
        ({"split_share": 1.5}, r"split_share must lie in \[0, 1\], got 1.5"),
        ({"split_share": np.nan}, "split_share"),
        ({"target": "survival"}, "target must be 'classification' or 'regression'"),
        ({"signal": -1}, "signal"),
        ({"record_noise": -1}, "record_noise"),
        ({"random_state": 0.5}, "random_state"),
    ],
)
def test_bad_patients(options, message):
    with pytest.raises(InputError, match=message):
        make_patients(**options)

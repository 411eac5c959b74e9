"""LossSamples on disk: saved, loaded, merged; and checkpoints from which a killed run goes on with the same bits."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from ooc_test_estimators import Interrupted
from outofcluster._base.exceptions import FitError, InputError

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 3))
y = (X[:, 0] + 0.8 * rng.standard_normal(90) > 0).astype(int)


def sample(estimator=None, data=X, **options):
    given = {"train": range(60), "validation": range(60, 90), "n_train": 30, "n_fits": 40, "random_state": 1} | options
    return ooc.sample_losses(GaussianNB() if estimator is None else estimator, data, y, **given)


def bits(samples):
    return [level.tobytes() for level in samples.losses] + [
        array.tobytes() for effects in samples.effects.values() for array in vars(effects).values()
    ]


def test_a_file_gives_back_everything(tmp_path):
    samples = sample()
    samples.save(tmp_path / "samples")
    loaded = ooc.LossSamples.load(tmp_path / "samples")
    assert bits(loaded) == bits(samples)
    assert loaded.to_frame().equals(samples.to_frame())
    assert (loaded.problem, loaded.seeds, loaded.versions, loaded.size, loaded.units) == (
        samples.problem,
        samples.seeds,
        samples.versions,
        samples.size,
        samples.units,
    )
    assert [file.name for file in tmp_path.iterdir()] == ["samples"]
    assert "GaussianNB()" in loaded.problem["estimator"]


def test_what_is_no_file_of_samples_is_refused_and_never_unpickled(tmp_path):
    with pytest.raises(InputError, match="which does not exist"):
        ooc.LossSamples.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="which is not one"):
        ooc.LossSamples.load(tmp_path / "text")
    with open(tmp_path / "evil", "wb") as file:
        np.savez(file, about=np.array([object()], dtype=object))
    with pytest.raises(InputError, match="which is not one"):
        ooc.LossSamples.load(tmp_path / "evil")


def test_frame_has_a_row_for_each_replicate():
    frame = sample(injected=[0, 0.5], n_fits=7).to_frame()
    assert frame.columns.tolist() == ["injected", "replicate", "loss"]
    assert frame["injected"].tolist() == [0] * 4 + [0.5] * 3
    assert frame["replicate"].tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_merging_makes_one_larger_run():
    one, two = sample(injected=[0, 0.5], n_fits=10), sample(injected=[0.5, 1e-2], n_fits=12, random_state=2)
    both = one.merge(two)
    assert both.injected.tolist() == [0, 0.01, 0.5]
    assert [len(level) for level in both.losses] == [5, 6, 11]
    assert both.seeds == (1, 2)
    joined, first, second = (run.effects["records"] for run in (both, one, two))
    assert joined.units.tolist() == list(range(60, 90))
    np.testing.assert_array_equal(joined.sums, [first.sums[0], second.sums[0], first.sums[1] + second.sums[1]])
    # Every replicate counts alike.
    mean = (5 * one.influences()[1] + 6 * two.influences()[1]) / 11
    np.testing.assert_allclose(both.influences()[2], mean, atol=1e-15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Samples with the same seed cannot be merged"),
        ({"n_train": 20, "random_state": 2}, "differ in n_train"),
        ({"estimator": LogisticRegression(), "random_state": 2}, "differ in estimator, parameters"),
        ({"data": X + 1, "random_state": 2}, "differ in X"),
    ],
)
def test_runs_that_do_not_belong_together_are_not_merged(options, message):
    with pytest.raises(InputError, match=message):
        sample().merge(sample(**options))


# --- checkpoints --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_the_same_bits(tmp_path, n_jobs, monkeypatch):
    from outofcluster.sampling import engine

    monkeypatch.setattr(engine, "_FLUSH_SECONDS", 0.0)
    whole = sample(Interrupted(), n_fits=120)
    for at in (3, 11, 30, 50):
        Interrupted.fits, Interrupted.at = 0, at
        with pytest.raises(KeyboardInterrupt):
            sample(Interrupted(), n_fits=120, checkpoint=tmp_path / "run")
    Interrupted.at = None
    Interrupted.fits = 0
    assert bits(sample(Interrupted(), n_fits=120, checkpoint=tmp_path / "run", n_jobs=n_jobs)) == bits(whole)
    if n_jobs == 1:
        assert 0 < Interrupted.fits < 60
    Interrupted.fits = 0
    assert bits(sample(Interrupted(), n_fits=120, checkpoint=tmp_path / "run")) == bits(whole)
    assert Interrupted.fits == 0


def test_a_compiled_run_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    from outofcluster.sampling import engine

    monkeypatch.setattr(engine, "_FLUSH_SECONDS", 0.0)
    whole = sample(LogisticRegression(), n_fits=3000, kernel=True)
    path = tmp_path / "run"
    assert bits(sample(LogisticRegression(), n_fits=3000, kernel=True, checkpoint=path)) == bits(whole)
    data = path.read_bytes()
    for share in (0.1, 0.5, 0.99):
        path.write_bytes(data[: int(share * len(data))])
        assert bits(sample(LogisticRegression(), n_fits=3000, kernel=True, checkpoint=path)) == bits(whole)


def test_a_file_cut_anywhere_is_no_obstacle(tmp_path):
    path = tmp_path / "run"
    whole = bits(sample(checkpoint=path))
    data = path.read_bytes()
    for length in {0, 1, 11, 12, 13, 500, len(data) // 2, len(data) - 1}:
        path.write_bytes(data[:length])
        assert bits(sample(checkpoint=path)) == whole
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 255
    path.write_bytes(bytes(damaged))
    assert bits(sample(checkpoint=path)) == whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_train": 20}, "belongs to a different problem: n_train differs"),
        ({"random_state": 5}, "belongs to a different problem: random_state differs"),
        ({"n_fits": 50}, "belongs to a different problem: n_fits differs"),
        ({"data": X + 1}, "belongs to a different problem: X differs"),
        ({"estimator": GaussianNB(var_smoothing=1e-3)}, "different problem: estimator, parameters differ"),
    ],
)
def test_a_checkpoint_of_a_different_problem_is_refused_by_name(tmp_path, options, message):
    sample(checkpoint=tmp_path / "run")
    with pytest.raises(InputError, match=message):
        sample(checkpoint=tmp_path / "run", **options)


def test_without_a_seed_the_stored_one_goes_on(tmp_path):
    first = sample(random_state=None, checkpoint=tmp_path / "run")
    assert bits(sample(random_state=None, checkpoint=tmp_path / "run")) == bits(first)


def test_other_files_are_not_overwritten(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work, and more than a few characters of it")
    with pytest.raises(InputError, match="checkpoint must be a file that a run has written"):
        sample(checkpoint=tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text().startswith("years of work")
    with pytest.raises(InputError, match="checkpoint must be a file, got the folder"):
        sample(checkpoint=tmp_path)


def test_a_failed_fit_leaves_its_predecessors_in_the_checkpoint(tmp_path):
    class Failing(Ridge):
        fits = 0

        def fit(self, X, y):
            Failing.fits += 1
            if Failing.fits == 30:
                raise ArithmeticError("once")
            return super().fit(X, y)

    options = {"n_fits": 60, "checkpoint": tmp_path / "run", "kernel": False, "loss": "squared_error"}
    with pytest.raises(FitError):
        sample(Failing(), **options)
    assert sample(Failing(), **options).n_fits == 60
    assert Failing.fits < 75


@pytest.mark.slow
def test_killed_outright_and_resumed(tmp_path):
    """SIGKILL to the whole process group, workers included, at moments of no one's choosing."""
    program = textwrap.dedent("""
        import hashlib, sys
        import numpy as np, outofcluster as ooc
        from sklearn.ensemble import ExtraTreesClassifier
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 8)); y = (X[:, 0] + rng.standard_normal(300) > 0).astype(int)
        samples = ooc.sample_losses(ExtraTreesClassifier(20), X, y, train=range(200), validation=range(200, 300),
            n_train=150, n_fits=200, n_jobs=2, random_state=5, checkpoint=None if sys.argv[1] == "-" else sys.argv[1])
        sums = samples.effects["records"].sums
        print(hashlib.sha256(np.concatenate(samples.losses).tobytes() + sums.tobytes()).hexdigest())
    """)

    def run(path):
        return subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True).stdout

    start = time.monotonic()
    whole = run("-")
    seconds = time.monotonic() - start
    path = str(tmp_path / "run")
    for share in (0.4, 0.6, 0.8):
        victim = subprocess.Popen(
            [sys.executable, "-c", program, path], stdout=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(share * seconds)
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
    assert run(path) == whole

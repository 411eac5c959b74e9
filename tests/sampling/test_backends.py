"""The same bits from this process, from other processes and from clusters, also when a worker dies."""

import os

import joblib
import numpy as np
import pytest
from joblib.parallel import ThreadingBackend
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from ooc_test_estimators import Deadly
from outofcluster._base.exceptions import FitError
from outofcluster.sampling import backends
from outofcluster.sampling.backends import count_workers, in_order

RNG = np.random.default_rng(0)
GROUPS = RNG.integers(0, 60, 3000)
X = RNG.standard_normal((60, 50))[GROUPS] + RNG.standard_normal((3000, 50))
Y = (X[:, 0] + RNG.standard_normal(3000) > 0).astype(int)


def sample(estimator, n_jobs=-1, **options):
    split = {"train": np.arange(2400), "validation": np.arange(2400, 3000)}
    return ooc.sample_losses(
        estimator, X, Y, **split, groups=GROUPS, n_fits=60, random_state=0, n_jobs=n_jobs, kernel=False, **options
    )


def same(one, other):
    effects, others = one.effects["clusters"], other.effects["clusters"]
    return (
        all(np.array_equal(a, b) for a, b in zip(one.losses, other.losses, strict=True))
        and np.array_equal(effects.units, others.units)
        and np.array_equal(effects.sums, others.sums)
    )


@pytest.fixture(scope="module")
def alone():
    return sample(GaussianNB(), n_jobs=1)


@pytest.fixture(scope="module")
def dask_cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


@pytest.fixture(scope="module")
def ray_cluster():
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    paths = os.pathsep.join([os.path.dirname(__import__("ooc_test_estimators").__file__), *ooc.__path__[:1]])
    paths = paths.replace(ooc.__path__[0], os.path.dirname(ooc.__path__[0]))
    environment = {"env_vars": {"PYTHONPATH": paths}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    register_ray()
    yield
    ray.shutdown()


def check_cluster(alone, tmp_path, monkeypatch):
    """Everything that must hold on each kind of cluster."""
    assert count_workers(-1) == 2
    sent = []
    put = backends._reference
    monkeypatch.setattr(backends, "_reference", lambda *a, **k: sent.append(a[1]) or put(*a, **k))
    assert same(alone, sample(GaussianNB()))
    assert any(array is X for array in sent)
    known = {key: value[1] for key, value in backends._references.items()}
    # The records are on the workers already, so the second run sends them no more.
    assert same(alone, sample(GaussianNB(), checkpoint=tmp_path / "kept"))
    assert all(backends._references[key][1] is reference for key, reference in known.items() if key[0] == id(X))
    # From the checkpoint: nothing is fitted again.
    assert same(alone, sample(GaussianNB(), checkpoint=tmp_path / "kept", n_jobs=1))
    assert same(alone, sample(Deadly(os.getpid(), str(tmp_path / "died"))))
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_a_killed_worker_of_this_machine_costs_its_batch(alone, tmp_path):
    assert same(alone, sample(Deadly(os.getpid(), str(tmp_path / "died")), n_jobs=2))
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_workers_that_always_die_end_the_run_in_one_sentence(monkeypatch):
    monkeypatch.setattr(backends, "_TRIES", 1)
    with pytest.raises(FitError, match=r"^A worker process was lost while models were fitted to resamples"):
        sample(Deadly(os.getpid()), n_jobs=2)


@pytest.mark.slow
def test_dask_gives_the_same_bits_and_outlives_a_killed_worker(alone, dask_cluster, tmp_path, monkeypatch):
    with joblib.parallel_config("dask"):
        check_cluster(alone, tmp_path, monkeypatch)


@pytest.mark.slow
def test_an_audit_on_dask_is_the_same_to_the_bit(dask_cluster):
    options = {"groups": GROUPS, "leakage": 0.1, "n_fits": 60, "random_state": 0}
    model = RandomForestClassifier(3, max_depth=3)
    here = ooc.audit(model, X, Y, **options)
    with joblib.parallel_config("dask"):
        there = ooc.audit(model, X, Y, **options, n_jobs=-1)
    assert there.corrected == here.corrected
    assert there.test.pvalue == here.test.pvalue


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray warns of its own future.
def test_ray_gives_the_same_bits_and_outlives_a_killed_worker(alone, ray_cluster, tmp_path, monkeypatch):
    with joblib.parallel_config("ray", n_jobs=-1):
        check_cluster(alone, tmp_path, monkeypatch)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_keep_their_order(n_jobs):
    asked = []

    def items():
        for i in range(200):
            asked.append(i)
            yield i

    with joblib.parallel_config("threading"):
        results = in_order(_times, 3, items(), n_jobs=n_jobs)
        assert next(results) == 0
        assert n_jobs > 1 or asked == [0]
        assert list(results) == [3 * i for i in range(1, 200)]


def _times(shared, item):
    return shared * item


class AllAtOnce(ThreadingBackend):
    """A backend that cannot hand back results one by one, as that of Spark."""

    supports_return_generator = False


def test_a_backend_that_gives_all_results_together_is_named():
    joblib.register_parallel_backend("all at once", AllAtOnce)
    with (
        joblib.parallel_config("all at once", n_jobs=2),
        pytest.warns(UserWarning, match="AllAtOnce hands back all results of a step together.*only at its end"),
    ):
        assert list(in_order(_times, 3, range(5), n_jobs=None)) == [0, 3, 6, 9, 12]


def test_large_arrays_travel_by_themselves_and_once():
    import pickle

    class Sender:
        pickler = pickle.Pickler
        values: list = []  # noqa: RUF012

        def put(self, value):
            self.values.append(value)
            return value

    large, small = np.arange(300_000.0), np.arange(3.0)
    sender = Sender()
    for expected in (2, 3):
        packed = backends._Packed(sender, {"one": large, "again": large, "small": small})
        assert len(packed.arrays) == 1
        assert packed.arrays[0] is large
        assert len(sender.values) == expected
    assert sum(isinstance(value, np.ndarray) for value in sender.values) == 1
    assert backends._run(lambda shared, item: shared[item], packed.token, packed.payload, "again", large) is large
    back = backends._run(lambda shared, item: shared[item], packed.token, packed.payload, "small", large)
    np.testing.assert_array_equal(back, small)

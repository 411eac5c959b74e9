"""One thread per fit, and afterwards as many as before."""

import os
import threading

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import ThreadpoolController, threadpool_limits

import outofcluster as ooc
from ooc_test_estimators import threads_now
from outofcluster._base.threads import one_thread


@pytest.fixture(autouse=True)
def three_threads():
    """More than one thread to begin with, whatever the machine has."""
    with threadpool_limits(3):
        if max(threads_now().values()) < 2:
            pytest.skip("no library here has threads")
        yield


def test_nested_and_as_a_decorator():
    before = threads_now()
    with one_thread():
        assert set(threads_now().values()) == {1}
        with one_thread():
            assert set(threads_now().values()) == {1}
        assert set(threads_now().values()) == {1}
    assert threads_now() == before

    @one_thread()
    def inside():
        return threads_now()

    assert set(inside().values()) == {1}
    with pytest.raises(ArithmeticError), one_thread():
        raise ArithmeticError
    assert threads_now() == before


def test_threads_side_by_side_restore_what_was_there():
    """They enter and leave in an order in which each would restore what another one had set."""
    before, n = threads_now(), 6
    together, seen = threading.Barrier(n), []

    def work(place):
        with one_thread():
            together.wait()
            seen.append(set(threads_now().values()))
            # The first ones leave first.
            for turn in range(n):
                together.wait()
                if turn == place:
                    break
        for _ in range(place + 1, n):
            together.wait()

    workers = [threading.Thread(target=work, args=(place,)) for place in range(n)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [{1}] * n
    assert threads_now() == before


@pytest.mark.slow
def test_audits_in_six_threads_leave_the_threads_as_they_were():
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((120, 2)), np.repeat(np.arange(12), 10)
    before = threads_now()
    model = HistGradientBoostingRegressor(max_iter=2)
    options = {"groups": groups, "leakage": 0.1, "error_model": "fragments", "n_fits": 60, "random_state": 0}
    with Parallel(6, backend="threading") as parallel:
        results = parallel(delayed(ooc.audit)(model, X, X[:, 0], **options) for _ in range(6))
    assert threads_now() == before
    assert len({result.to_json() for result in results}) == 1


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.slow
def test_models_are_fitted_and_scored_on_one_thread(n_jobs):
    """Here, and in worker processes."""
    from ooc_test_estimators import Threads

    X = np.random.default_rng(0).standard_normal((60, 2))
    split = {"train": range(40), "validation": range(40, 60), "n_fits": 24, "random_state": 0}
    samples = ooc.sample_losses(Threads(), X, X[:, 0], n_jobs=n_jobs, loss="absolute_error", **split)
    # It predicts the largest number of threads that it saw, and 1 is what it shall be.
    assert set(np.concatenate(samples.losses)) == {0.0}


def test_a_forked_process_is_not_held_up():
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    from outofcluster._base import threads

    with threads._lock:
        child = os.fork()
        if child == 0:
            done = []
            thread = threading.Thread(target=lambda: done.append(one_thread().__enter__()), daemon=True)
            thread.start()
            thread.join(5)
            os._exit(0 if done else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_libraries_that_are_loaded_later_are_found(monkeypatch):
    from outofcluster._base import threads

    controllers = []

    class Counting(ThreadpoolController):
        def __init__(self):
            controllers.append(self)
            super().__init__()

    monkeypatch.setattr("threadpoolctl.ThreadpoolController", Counting)
    threads._controllers.cache_clear()
    for _ in range(3):
        with one_thread():
            pass
    assert len(controllers) == 1
    monkeypatch.setitem(__import__("sys").modules, "ooc_a_new_module", os)
    with one_thread():
        pass
    assert len(controllers) == 2

"""Who does the work: this process, processes or threads of this machine, or a cluster, as joblib's configuration says.

`in_order` is the one place where work is handed out. It gives results in the order of the items, whoever computed them.

*One machine.* joblib does it. Arrays of a megabyte or more are memory-mapped, so that processes share them.

*Dask and Ray*, where joblib's configuration names them. Tasks are sent to the cluster itself, without a pool of
joblib's: joblib starts a pool for Ray anew in every call, which took most of the time, and would send the data along
with every task. Here every large array is sent once and stays on the workers as long as it exists in this process
(``Client.scatter``, ``ray.put``); what is left of the shared object is sent once for every call.

*Workers that die* cost what they were working on. The cluster or this module gives that to another worker, a few times,
and since every item has random numbers of its own, results are the same to the bit.
"""

from __future__ import annotations

import io
import pickle
import uuid
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from outofcluster._base.rows import is_plain_array

# Bytes from which on an array is sent by itself.
_LARGE = 1_000_000
# How often workers may die, without any result in between, until the run is given up.
_TRIES = 2
# Items per worker that are on their way, so that no worker waits for this process.
_AHEAD = 3

T = TypeVar("T")
Work = Callable[[Any, Any], T]


class WorkersLost(BrokenExecutor):
    """Workers died again and again on the same work."""


def count_workers(n_jobs: int | None, *, threads: bool = False) -> int:
    """How many items are worked on at once; 1 also where this process does everything."""
    return _backend(n_jobs, threads)[2]


def in_order(
    work: Work[T], shared: Any, items: Iterable[Any], *, n_jobs: int | None, threads: bool = False
) -> Generator[T]:
    """``work(shared, item)`` for every item, in their order."""
    backend, cluster, workers = _backend(n_jobs, threads)
    if cluster is None and workers == 1:
        for item in items:
            yield work(shared, item)
    elif cluster is None:
        yield from _by_joblib(work, shared, iter(items), n_jobs, "threads" if threads else None)
    else:
        sender: _Sender = _ToDask(backend.client) if cluster == "dask" else _ToRay()
        yield from _by_cluster(sender, work, shared, iter(items), _AHEAD * workers)


def _backend(n_jobs: int | None, threads: bool) -> tuple[Any, str | None, int]:
    """The backend that joblib's configuration names, which cluster it is, and how many workers it has for a call."""
    from joblib import Parallel

    parallel = Parallel(n_jobs=n_jobs, prefer="threads" if threads else None)
    backend: Any = parallel._backend
    cluster = {"DaskDistributedBackend": "dask", "RayBackend": "ray"}.get(type(backend).__name__)
    workers = _ray_workers(parallel.n_jobs) if cluster == "ray" else backend.effective_n_jobs(parallel.n_jobs)
    return backend, cluster, int(workers)


# --- one machine -------------------------------------------------------------------------------------------


def _by_joblib(work: Work[T], shared: Any, items: Iterator[Any], n_jobs: int | None, prefer: Any) -> Generator[T]:
    from joblib import Parallel, delayed

    sent: deque[Any] = deque()
    todo: list[Any] = []
    tries = 0

    def calls() -> Iterator[Any]:
        for item in chain(todo, items):
            sent.append(item)
            yield delayed(work)(shared, item)

    while True:
        parallel = Parallel(n_jobs=n_jobs, prefer=prefer)
        if not getattr(parallel._backend, "supports_return_generator", False):
            warnings.warn(
                f"The joblib backend {type(parallel._backend).__name__} hands back all results of a step together, so "
                "that there is no progress within a step, and a checkpoint is written only at its end.",
                stacklevel=2,
            )
            with parallel:
                yield from parallel(calls())
            return
        results = Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator")(calls())
        try:
            for result in results:
                sent.popleft()
                tries = 0
                yield result
            return
        except BrokenExecutor as error:
            tries += 1
            if tries > _TRIES:
                raise _given_up(error) from error
            todo, sent = list(sent), deque()
        finally:
            # After a failure nothing waits for what is still running, and nobody needs joblib's warning of that.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.close()


def _given_up(error: BaseException) -> WorkersLost:
    return WorkersLost(f"Workers died {_TRIES + 1} times on the same work, the last time with {type(error).__name__}.")


# --- clusters ----------------------------------------------------------------------------------------------


class _Sender(Protocol):
    """How things get to a cluster and back."""

    # Errors that mean that a worker, or what it held, is gone.
    lost: tuple[type[BaseException], ...]
    # The class by which the cluster pickles functions and classes that workers cannot import.
    pickler: Any

    def put(self, value: Any) -> Any:
        """Send a value to the workers, and get a reference to it."""

    def send(self, work: Work[Any], packed: _Packed, item: Any) -> Any:
        """Hand an item out, and get a ticket for its result."""

    def receive(self, ticket: Any) -> Any:
        """Wait for a result."""

    def forget(self, tickets: list[Any]) -> None:
        """Give up results that nobody needs any more."""


class _Packed:
    """A shared object on its way: its bytes without large arrays, and references to these, which are sent once."""

    def __init__(self, sender: _Sender, shared: Any, *, again: bool = False) -> None:
        self.token = uuid.uuid4().hex
        large: list[Any] = []
        stream = io.BytesIO()
        try:
            _pickler(sender.pickler, stream, large).dump(shared)
        except Exception as error:
            raise pickle.PicklingError(str(error)) from error
        self.arrays = [_reference(sender, array, again=again) for array in large]
        self.payload = sender.put(stream.getvalue())


# For every large array that was sent, by its identity and the kind of cluster: a weak reference to it, and the
# reference to its copy on the workers, which frees the copy when it goes.
_references: dict[tuple[int, str], tuple[Any, Any]] = {}


def _reference(sender: _Sender, array: Any, *, again: bool) -> Any:
    key = (id(array), f"{type(sender).__name__} {getattr(getattr(sender, 'client', None), 'id', '')}")
    known = _references.get(key)
    if known is not None and known[0]() is array and not again:
        return known[1]
    reference = sender.put(array)
    _references[key] = (weakref.ref(array, lambda _: _references.pop(key, None)), reference)
    return reference


def _pickler(by_value: Any, stream: io.BytesIO, large: list[Any]) -> Any:
    """A pickler that leaves large arrays out and lists them; it pickles classes of notebooks by their code."""
    indices: dict[int, int] = {}

    class Pickler(by_value):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> int | None:
            if not is_plain_array(value) or value.dtype.hasobject or value.nbytes < _LARGE:
                return None
            if id(value) not in indices:
                indices[id(value)] = len(large)
                large.append(value)
            return indices[id(value)]

    return Pickler(stream, protocol=5)


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, arrays: tuple[Any, ...]) -> None:
        super().__init__(stream)
        self._arrays = arrays

    def persistent_load(self, index: Any) -> Any:
        return self._arrays[index]


# On a worker: the last few shared objects, so that they are put together once and not for every item.
_unpacked: OrderedDict[str, Any] = OrderedDict()
_MOST_UNPACKED = 3


def _run(work: Work[T], token: str, payload: bytes, item: Any, *arrays: Any) -> T:
    """What a worker of a cluster does."""
    shared = _unpacked.get(token)
    if shared is None:
        shared = _Unpickler(io.BytesIO(payload), arrays).load()
        _unpacked[token] = shared
        while len(_unpacked) > _MOST_UNPACKED:
            _unpacked.popitem(last=False)
    return work(shared, item)


def _by_cluster(sender: _Sender, work: Work[T], shared: Any, items: Iterator[Any], ahead: int) -> Generator[T]:
    packed = _Packed(sender, shared)
    waiting: deque[tuple[Any, Any]] = deque()
    tries = 0
    try:
        while True:
            for item in islice(items, ahead - len(waiting)):
                waiting.append((item, sender.send(work, packed, item)))
            if not waiting:
                return
            try:
                result = sender.receive(waiting[0][1])
            except sender.lost as error:
                tries += 1
                if tries > _TRIES:
                    raise _given_up(error) from error
                sender.forget([ticket for _, ticket in waiting])
                # What the dead worker held may be gone with it.
                packed = _Packed(sender, shared, again=True)
                waiting = deque((item, sender.send(work, packed, item)) for item, _ in waiting)
                continue
            waiting.popleft()
            tries = 0
            yield result
    finally:
        sender.forget([ticket for _, ticket in waiting])


class _ToDask(_Sender):
    """A Dask cluster, by its client."""

    def __init__(self, client: Any) -> None:
        from cloudpickle import CloudPickler
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        self.client, self.pickler = client, CloudPickler
        self.lost = (KilledWorker, CancelledError, FutureCancelledError)

    def put(self, value: Any) -> Any:
        # To all workers: the data outlive a worker that dies.
        return self.client.scatter([value], broadcast=True, hash=False)[0]

    def send(self, work: Work[Any], packed: _Packed, item: Any) -> Any:
        return self.client.submit(_run, work, packed.token, packed.payload, item, *packed.arrays, pure=False)

    def receive(self, ticket: Any) -> Any:
        return ticket.result()

    def forget(self, tickets: list[Any]) -> None:
        if tickets:
            self.client.cancel(tickets)


class _ToRay(_Sender):
    """A Ray cluster: the one that this process is connected to, or is told of by RAY_ADDRESS, else one of its own."""

    def __init__(self) -> None:
        from ray.cloudpickle import CloudPickler
        from ray.exceptions import ObjectLostError, OutOfMemoryError, RaySystemError, WorkerCrashedError

        self._ray, self.pickler = _connect_ray(), CloudPickler
        self._run = self._ray.remote(_run)
        self.lost = (WorkerCrashedError, ObjectLostError, OutOfMemoryError, RaySystemError)

    def put(self, value: Any) -> Any:
        return self._ray.put(value)

    def send(self, work: Work[Any], packed: _Packed, item: Any) -> Any:
        return self._run.remote(work, packed.token, packed.payload, item, *packed.arrays)

    def receive(self, ticket: Any) -> Any:
        try:
            return self._ray.get(ticket)
        except self._ray.exceptions.RayTaskError as error:
            raise getattr(error, "cause", None) or error from None

    def forget(self, tickets: list[Any]) -> None:
        for ticket in tickets:
            self._ray.cancel(ticket)


def _connect_ray() -> Any:
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return ray


def _ray_workers(n_jobs: int) -> int:
    """As many as were asked for; all processors of the cluster where joblib's default, or -1, is in force."""
    cpus = int(_connect_ray().cluster_resources().get("CPU", 1))
    return min(n_jobs, cpus) if n_jobs > 1 else max(cpus + 1 + n_jobs, 1) if n_jobs < -1 else cpus

"""What goes wrong outside: kills, two processes, damaged files, a full disk, a busy machine.

    python benchmarks/faults.py [--json FILE] [--quick]

Whole processes, workers included, are killed at random moments of a run, with one or two of them on the same
checkpoint, and started again; a run counts if its result has the bits of an undisturbed one. Files are damaged at
random places. A disk is full from some size of files on. And boosting is fitted while other processes use the machine,
with the threads that OpenMP takes by default and with one. Data are simulated. Exit status 1 if a figure falls short of
its bound.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from _figures import Figures, run

PROGRAM = """
import hashlib, sys, warnings
import numpy as np, outofcluster as ooc
from outofcluster.sampling import engine
from sklearn.ensemble import ExtraTreesClassifier
warnings.simplefilter("ignore", ooc.CheckpointWarning)
engine._FLUSH_SECONDS = 0.1
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 8)); y = (X[:, 0] + rng.standard_normal(300) > 0).astype(int)
samples = ooc.sample_losses(ExtraTreesClassifier(10), X, y, train=range(200), validation=range(200, 300), n_train=150,
    n_fits=160, n_jobs=2, random_state=5, checkpoint=None if sys.argv[1] == "-" else sys.argv[1])
bits = np.concatenate(samples.losses).tobytes() + samples.effects["records"].sums.tobytes()
print(samples.n_fits, hashlib.sha256(bits).hexdigest())
"""

BOOSTING = """
import sys, time
import numpy as np, outofcluster as ooc
from sklearn.ensemble import HistGradientBoostingClassifier
rng = np.random.default_rng(0)
X = rng.standard_normal((400, 10)); y = (X[:, 0] + rng.standard_normal(400) > 0).astype(int)
def fit(n):
    ooc.sample_losses(HistGradientBoostingClassifier(max_iter=20), X, y, train=range(300), validation=range(300, 400),
        n_train=200, n_fits=n, units="none", random_state=0)
fit(6)
start = time.perf_counter()
fit(60)
print(time.perf_counter() - start)
"""


def start(checkpoint: str, **options: Any) -> subprocess.Popen[str]:
    """A run in a session of its own, so that it can be killed together with its workers."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, checkpoint],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


@cache
def undisturbed() -> tuple[str, float]:
    """What a run prints that nothing happens to, and its seconds."""
    began = time.monotonic()
    process = start("-")
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(err)
    return out, time.monotonic() - began


def killed_and_resumed(checkpoint: Path, *, seed: int, processes: int) -> bool:
    """Whether a run that was killed up to three times goes on to the bits of an undisturbed one."""
    whole, seconds = undisturbed()
    rng = np.random.default_rng([seed, processes])
    good = True
    for _ in range(rng.integers(1, 4)):
        running = [start(str(checkpoint)) for _ in range(processes)]
        time.sleep(seconds * rng.uniform(0.3, 1.0))
        # Of two processes one or both are killed; one that is left goes on to its end.
        for process in running[: int(rng.integers(1, processes + 1))]:
            os.killpg(process.pid, signal.SIGKILL)
        for process in running:
            out, _ = process.communicate()
            good &= process.returncode in (0, -signal.SIGKILL) and (process.returncode != 0 or out == whole)
    last = start(str(checkpoint))
    out, _ = last.communicate()
    return good and (last.returncode, out) == (0, whole)


def two_processes(folder: Path) -> bool:
    """Whether two processes that share a checkpoint, and a third that goes on from it, all have the same bits."""
    whole, seconds = undisturbed()
    path = str(folder / "shared")
    one = start(path)
    time.sleep(seconds / 2)
    two = start(path)
    results = [process.communicate()[0] for process in (one, two)]
    third = start(path).communicate()[0]
    return [*results, third] == [whole] * 3


def sampled(checkpoint: Path | None) -> list[bytes]:
    """The bits of a quick run in this process."""
    from sklearn.naive_bayes import GaussianNB

    import outofcluster as ooc

    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    y = (X[:, 0] + rng.standard_normal(90) > 0).astype(int)
    split = {"train": range(60), "validation": range(60, 90), "n_train": 30, "n_fits": 80, "random_state": 1}
    samples = ooc.sample_losses(GaussianNB(), X, y, checkpoint=checkpoint, **split)
    return [*(level.tobytes() for level in samples.losses), samples.effects["records"].sums.tobytes()]


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """The same file with something wrong: cut, altered, repeated, taken out, moved or overwritten."""
    left, right = np.sort(rng.integers(0, len(data), 2))
    way = rng.integers(6)
    if way == 0:
        return data[:left]
    if way == 1:
        flipped = bytearray(data)
        flipped[left] ^= 1 << int(rng.integers(8))
        return bytes(flipped)
    if way == 2:
        return data[:right] + data[left:]
    if way == 3:
        return data[:left] + data[right:]
    if way == 4:
        return data[right:] + data[left:right] + data[:left]
    return data[:left] + rng.bytes(int(right - left)) + data[right:]


def damages(folder: Path, count: int) -> int:
    """How many of so many damaged files lead to the same bits, or are refused."""
    import outofcluster as ooc
    from outofcluster.sampling import engine

    engine._FLUSH_SECONDS = 0.0
    path = folder / "damaged"
    whole = sampled(None)
    sampled(path)
    data, rng, good = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(count):
        path.write_bytes(damaged(data, rng))
        try:
            good += sampled(path) == whole
        except ooc.InputError:
            good += 1
    return good


def limited(size: int) -> Any:
    """What a child process calls to have no room for larger files."""

    def limit() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def full_disk(folder: Path, size: int) -> bool:
    """Whether a run whose files cannot grow beyond a size has the same bits, and the one after it too."""
    path = str(folder / f"full{size}")
    process = start(path, preexec_fn=limited(size))
    out, _ = process.communicate()
    again, _ = start(path).communicate()
    return [out, again] == [undisturbed()[0]] * 2


def _work(parent: int) -> None:
    """Use a core as long as the parent lives."""
    while os.getppid() == parent:
        sum(range(10_000))


def busy_ratio(rounds: int) -> float:
    """Seconds of 60 boosting fits with default threads over those with one, with four busy processes beside."""
    busy = [multiprocessing.Process(target=_work, args=(os.getpid(),), daemon=True) for _ in range(4)]
    for process in busy:
        process.start()
    seconds: dict[str | None, list[float]] = {None: [], "1": []}
    try:
        for place in range(2 * rounds):
            threads = (None, "1", "1", None)[place % 4]
            environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
            if threads is not None:
                environment["OMP_NUM_THREADS"] = threads
            done = subprocess.run(
                [sys.executable, "-c", BOOSTING], env=environment, capture_output=True, text=True, check=True
            )
            seconds[threads].append(float(done.stdout))
    finally:
        for process in busy:
            process.terminate()
    return statistics.median(seconds[None]) / statistics.median(seconds["1"])


def measure(figures: Figures, quick: bool) -> None:
    runs = 3 if quick else 20
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        for processes, words in ((1, "one process"), (2, "two processes")):
            same = sum(
                killed_and_resumed(folder / f"killed{processes}.{k}", seed=k, processes=processes) for k in range(runs)
            )
            figures.at_least(f"killed with {words} on the checkpoint: same bits, of {runs}", same, runs)
        figures.at_least("two processes on one checkpoint, and a third after them: same bits", two_processes(folder), 1)
        count = 60 if quick else 600
        figures.at_least(f"damaged files: same bits or refused, of {count}", damages(folder, count), count)
        for size in (0, 5_000, 200_000):
            figures.at_least(f"no file may grow beyond {size} bytes: same bits", full_disk(folder, size), 1)
        figures.at_most(
            "60 boosting fits, 4 busy processes beside: default threads over one", busy_ratio(2 if quick else 6), 1.3
        )


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", measure, ("outofcluster", "numpy", "scikit-learn", "joblib")))

"""Checkpoints that cannot be poisoned: records that are wrong, two processes, disks that are full, kills."""

import errno
import hashlib
import io
import os
import struct
import warnings

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import outofcluster as ooc
from faults import killed_and_resumed, two_processes
from ooc_test_estimators import Counting
from outofcluster._base.files import release_lock, take_lock
from outofcluster.sampling import engine
from outofcluster.sampling import store as module
from outofcluster.sampling.store import Batch, Checkpoint

HEAD = struct.Struct("<Q32s")

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 3))
y = (X[:, 0] + 0.8 * rng.standard_normal(90) > 0).astype(int)


def sample(**options):
    default = {"train": range(60), "validation": range(60, 90), "n_train": 30, "n_fits": 40, "random_state": 1}
    return ooc.sample_losses(GaussianNB(), X, y, **default | options)


def bits(samples):
    return [level.tobytes() for level in samples.losses] + [
        array.tobytes() for effects in samples.effects.values() for array in vars(effects).values()
    ]


@pytest.fixture
def many_records(monkeypatch):
    """A record for every block, so that there is something to damage."""
    monkeypatch.setattr(engine, "_FLUSH_SECONDS", 0.0)


def records_of(path):
    """The magic line of a file, and the arrays of its records."""
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    records, place = [], start
    while place < len(data):
        length, _ = HEAD.unpack(data[place : place + HEAD.size])
        place += HEAD.size
        with np.load(io.BytesIO(data[place : place + length])) as stored:
            records.append({name: stored[name] for name in stored.files})
        place += length
    return data[:start], records


def write_records(path, magic, records):
    """A file of records with the right digests, as somebody who knows the format would forge it."""
    content, chain = magic, b""
    for record in records:
        buffer = io.BytesIO()
        np.savez(buffer, **record)
        chain = hashlib.sha256(chain + buffer.getvalue()).digest()
        content += HEAD.pack(len(buffer.getvalue()), chain) + buffer.getvalue()
    path.write_bytes(content)


def changed(name, value):
    def forge(records):
        return [*records[:3], records[3] | {name: value(records[3][name])}, *records[4:]]

    return forge


FORGED = {
    "a record twice": lambda records: [*records, *records[1:]],
    "one record twice": lambda records: [*records[:3], records[2], *records[3:]],
    "a gap": lambda records: [*records[:2], *records[3:]],
    "another order": lambda records: [records[0], records[2], records[1], *records[3:]],
    "half a block": changed("losses", lambda losses: losses[:, :1]),
    "another name": lambda records: [*records[:3], {"loss": np.zeros(3)}, *records[3:]],
    "the problem again": lambda records: [*records[:3], records[0], *records[3:]],
}


@pytest.mark.usefixtures("many_records")
@pytest.mark.parametrize("name", FORGED)
def test_records_that_are_well_formed_but_wrong_are_computed_anew(tmp_path, name):
    path = tmp_path / "run"
    whole = bits(sample(checkpoint=path))
    magic, records = records_of(path)
    assert len(records) > 6
    write_records(path, magic, records)
    assert bits(sample(checkpoint=path)) == whole
    write_records(path, magic, FORGED[name](records))
    assert bits(sample(checkpoint=path)) == whole
    # What was written in their place is right.
    assert bits(sample(checkpoint=path)) == whole


@pytest.mark.usefixtures("many_records")
def test_records_of_another_run_do_not_match(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    whole = bits(sample(checkpoint=one))
    sample(checkpoint=other, random_state=2)
    mine, theirs = one.read_bytes(), other.read_bytes()
    # The records have the same lengths, so those of the other run can take the place of the last ones byte by byte.
    assert len(mine) == len(theirs)
    one.write_bytes(mine[: len(mine) // 2] + theirs[len(mine) // 2 :])
    assert bits(sample(checkpoint=one)) == whole
    one.write_bytes(mine + theirs[theirs.index(b"\n") + 1 :])
    assert bits(sample(checkpoint=one)) == whole


def test_a_record_that_was_cut_off_is_written_over(tmp_path):
    path = tmp_path / "file"
    checkpoint = Checkpoint(path)
    checkpoint.begin({"a": 1})
    checkpoint.open()
    assert checkpoint.following() is None
    batch = Batch(2, 5, np.array([[0.1, 0.2]]), 3, (np.array([0.5, -0.5]), np.zeros(3)))
    checkpoint.add(batch)
    checkpoint.close()
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"the beginning of something")
    again = Checkpoint(path)
    again.begin({"a": 1})
    again.open()
    stored = again.following()
    assert (stored.level, stored.first, stored.losses.tolist(), stored.redraws) == (2, 5, [[0.1, 0.2]], 3)
    assert [effects.tolist() for effects in stored.effects] == [[0.5, -0.5], [0.0, 0.0, 0.0]]
    again.take()
    assert again.following() is None
    again.add(batch)
    again.close()
    assert path.stat().st_size > size
    assert b"something" not in path.read_bytes()


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "run"
    whole = bits(sample(checkpoint=path))
    magic, records = records_of(path)
    write_records(path, magic, [*records[:2], {"losses": np.array([Evil()], dtype=object)}])
    assert bits(sample(checkpoint=path)) == whole
    assert not Evil.met


class Evil:
    """Says so if it is ever unpickled."""

    met = False

    def __reduce__(self):
        return (setattr, (Evil, "met", True))


# --- somebody else has it -----------------------------------------------------------------------------


def test_a_file_that_is_in_use_is_left_alone_and_the_run_goes_on(tmp_path):
    path = tmp_path / "run"
    whole = bits(sample())
    holder = Checkpoint(path)
    holder.begin({"a": 1})
    holder.open()
    # Its problem is another one, which is told before any fit.
    with pytest.raises(ooc.InputError, match="belongs to a different problem"):
        sample(checkpoint=path)
    holder.close()
    path.unlink()
    sample(checkpoint=path)
    content = path.read_bytes()
    lock = take_lock(tmp_path / "run.lock")
    with pytest.warns(ooc.CheckpointWarning, match="run' is in use by another process, so this run goes on"):
        assert bits(sample(checkpoint=path)) == whole
    assert path.read_bytes() == content
    release_lock(lock)
    assert bits(sample(checkpoint=path)) == whole


def test_an_audit_whose_files_are_in_use_goes_on(tmp_path):
    groups = np.repeat(np.arange(18), 5)
    options = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 120, "random_state": 0}
    undisturbed = ooc.audit(GaussianNB(), X, y, **options)
    lock = take_lock(tmp_path / "run.lock")
    with pytest.warns(ooc.CheckpointWarning, match="is in use by another process") as caught:
        assert ooc.audit(GaussianNB(), X, y, checkpoint=tmp_path / "run", **options).to_json() == undisturbed.to_json()
    assert len(caught) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["run.lock"]
    release_lock(lock)
    assert ooc.audit(GaussianNB(), X, y, checkpoint=tmp_path / "run", **options).to_json() == undisturbed.to_json()
    assert (tmp_path / "run.fold0.main").exists()
    assert not (tmp_path / "run.lock").exists()


def test_a_lock_is_free_again_and_waits_for_nobody(tmp_path):
    path = tmp_path / "lock"
    lock = take_lock(path)
    assert take_lock(path) is None
    release_lock(lock)
    release_lock(take_lock(path))
    assert not path.exists()
    # The file of a process that was killed is no lock.
    path.write_text("")
    release_lock(take_lock(path))


# --- disks that are full ------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.usefixtures("many_records")
def test_a_full_disk_costs_nothing_but_the_checkpoint(tmp_path, monkeypatch, at):
    path = tmp_path / "run"
    whole = bits(sample())
    write, written = os.write, []

    def full(descriptor, data):
        written.append(len(data))
        if len(written) > at:
            # Half of it still fits.
            write(descriptor, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(module.os, "write", full)
    with pytest.warns(ooc.CheckpointWarning, match=r"cannot be written \(No space left on device\)") as caught:
        assert bits(sample(checkpoint=path)) == whole
    assert len(caught) == 1
    monkeypatch.undo()
    assert bits(sample(checkpoint=path)) == whole


def test_an_audit_on_a_full_disk_goes_on_with_one_warning(tmp_path, monkeypatch):
    groups = np.repeat(np.arange(18), 5)
    options = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 120, "random_state": 0}
    undisturbed = ooc.audit(GaussianNB(), X, y, **options).to_json()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.warns(ooc.CheckpointWarning) as caught:
        assert ooc.audit(GaussianNB(), X, y, checkpoint=tmp_path / "run", **options).to_json() == undisturbed
    assert len(caught) == 1


def test_damaged_baselines_are_computed_anew(tmp_path):
    groups = np.repeat(np.arange(18), 5)
    options = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 120, "random_state": 0}
    options["checkpoint"] = tmp_path / "run"
    path = tmp_path / "run.baselines"
    whole = ooc.audit(Counting(), X, y, **options).to_json()
    Counting.fits = 0
    assert ooc.audit(Counting(), X, y, **options).to_json() == whole
    assert Counting.fits == 0
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert ooc.audit(Counting(), X, y, **options).to_json() == whole
    assert Counting.fits > 0


def test_a_fold_whose_checkpoint_is_no_checkpoint_is_refused_not_left_out(tmp_path):
    groups = np.repeat(np.arange(18), 5)
    options = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 120, "random_state": 0}
    (tmp_path / "run.fold3.main").write_text("years of work, and more than a few characters of it")
    Counting.fits = 0
    with pytest.raises(ooc.InputError, match="checkpoint must be a file that a run has written"):
        ooc.audit(Counting(), X, y, checkpoint=tmp_path / "run", **options)
    assert Counting.fits == 0


def test_a_place_without_locks_is_no_obstacle(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits(sample(checkpoint=tmp_path / "run")) == bits(sample())


# --- kills --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_kills_at_random_moments_leave_the_same_bits(tmp_path, processes):
    same = [killed_and_resumed(tmp_path / f"{k}", seed=k, processes=processes) for k in range(3)]
    assert same == [True] * 3


@pytest.mark.slow
def test_two_processes_on_one_checkpoint_have_the_same_result(tmp_path):
    assert two_processes(tmp_path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (3, "checkpoint must be the path of a file, got 3"),
        (b"run", "checkpoint must be the path of a file, got b'run'"),
        ("a\0b", "checkpoint must be the path of a file"),
        ("x" * 300, "checkpoint must be the path of a file"),
        (os.devnull, "checkpoint must be an ordinary file"),
    ],
)
def test_what_is_no_name_of_a_checkpoint(path, message):
    with pytest.raises(ooc.InputError, match=message):
        sample(checkpoint=path)

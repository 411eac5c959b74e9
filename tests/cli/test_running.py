"""How a command runs: files that it writes, work that it keeps, and what is left where it is stopped."""

import io
import json
import os
import sys
import threading

import pytest

import outofcluster.cli.audit as audit_command
import outofcluster.cli.printing as printing
from outofcluster._base.exceptions import InputError
from outofcluster.auditing.summary import Summary
from outofcluster.cli.running import check_files

PLAIN = ("--target", "ill", "--groups", "patient")
QUICK = ("audit", "records.csv", *PLAIN, "--fits", "60", "--folds", "3", "--leakage", "0.1", "--fail-on", "never")


# --- outputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--report", "records.csv"), "--report must be another file than FILE, got 'records.csv' for both."),
        (("--json", "hard.csv"), "--json must be another file than FILE, got 'hard.csv' for both."),
        (("--suspects", "link.csv"), "--suspects must be another file than FILE, got 'link.csv' for both."),
        (("--report", "a", "--json", "./a"), "--json must be another file than --report, got './a' for both."),
        (("--report", "cache"), "--report must be a file, got the folder 'cache'."),
        (("--report", "no/where"), "--report must lie in a folder that exists, got 'no/where'."),
        (("--json", "/proc/x.json"), "--json must be a file that can be written, got '/proc/x.json'"),
        (("--checkpoint", "kept", "--json", "kept.fold0"), "--json must be another file than those of --checkpoint"),
    ],
)
def test_outputs_that_would_harm_are_refused_before_the_work(run, folder, words, message):
    os.link("records.csv", "hard.csv")
    (folder / "link.csv").symlink_to("records.csv")
    (folder / "cache").mkdir()
    before = (folder / "records.csv").read_bytes()
    status, out, err = run(*QUICK, *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"outofcluster: {message}")
    assert (folder / "records.csv").read_bytes() == before


def test_other_commands_do_not_harm_their_input_either(run):
    for words in (
        ("test", "records.csv", *PLAIN),
        ("sweep", "records.csv", "--target", "ill", "--groups", "1=patient"),
        ("leakage", "audited", "records.csv", "--true", "ill", "--groups", "patient"),
        ("leakage", "pairs", "records.csv", "other.csv", "--groups", "patient"),
    ):
        status, _, err = run(*words, "--json", "records.csv")
        assert status == 2
        assert "--json must be another file than" in err


def test_links_stay_links_and_devices_are_written_through(shown, folder):
    (folder / "real.html").write_text("old")
    (folder / "link.html").symlink_to("real.html")
    pipe, received = folder / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    status, out, _ = shown("--report", "link.html", "--json", "pipe")
    reader.join()
    assert status == 0
    assert (folder / "link.html").is_symlink()
    assert (folder / "real.html").read_text().startswith("<!")
    assert "naive" in json.loads(received[0])
    assert "The report is in link.html." in out


def test_json_on_the_screen_is_all_there_is_on_standard_output(shown):
    status, out, err = shown("--json", "-")
    assert status == 0
    assert Summary.from_dict(json.loads(out)).rate == 0.1
    assert "corrected for 10 % leakage" in err


def test_a_disk_that_is_full_at_the_end_loses_nothing(shown, folder, monkeypatch):
    real = printing.write_whole

    def full(name, *rest):
        if name == "--report":
            raise OSError(28, "No space left on device")
        return real(name, *rest)

    monkeypatch.setattr(printing, "write_whole", full)
    status, out, err = shown("--report", "a.html", "--json", "a.json")
    assert status == 3
    assert err == "outofcluster: --report could not be written to 'a.html': No space left on device.\n"
    assert "Error rate" in out
    assert "The report is in" not in out
    assert (folder / "a.json").exists()


def test_a_closed_pipe_changes_nothing(shown, folder, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    status, *_ = shown("--json", "out.json")
    assert status == 0
    assert (folder / "out.json").exists()


# --- finished work ------------------------------------------------------------------------------------

STOPPING = """
from pathlib import Path
from sklearn.naive_bayes import GaussianNB

class Stopping(GaussianNB):
    def fit(self, X, y):
        fits = Path("fits")
        count = int(fits.read_text()) + 1 if fits.exists() else 1
        fits.write_text(str(count))
        if Path("stop").exists() and count > int(Path("stop").read_text()):
            raise KeyboardInterrupt
        return super().fit(X, y)
"""


@pytest.mark.slow
def test_ctrl_c_keeps_the_work_and_the_same_command_goes_on(run, folder, monkeypatch):
    (folder / "stopping.py").write_text(STOPPING)
    monkeypatch.delitem(sys.modules, "stopping", raising=False)
    words = (*QUICK, "--model", "stopping:Stopping", "--jobs", "1", "--json", "out.json")
    fits = folder / "fits"

    assert run(*words)[0] == 0
    whole, n_fits = json.loads((folder / "out.json").read_text()), int(fits.read_text())
    (folder / "out.json").unlink()

    fits.unlink()
    (folder / "stop").write_text(str(n_fits - 20))
    status, out, err = run(*words)
    assert status == 130
    assert " ".join(out.split()).endswith("They take some seconds.")
    assert err.split("\n")[-2] == "Stopped. What was fitted is kept, and the same command goes on from there."
    assert not (folder / "out.json").exists()

    (folder / "stop").unlink()
    fits.unlink()
    # Another level of confidence needs no other fits.
    assert run(*words, "--confidence", "0.95")[0] == 0
    again = json.loads((folder / "out.json").read_text())
    assert {**again, "about": 0} == {**whole, "about": 0}
    assert int(fits.read_text()) < n_fits - 40
    assert not list((folder / "cache").rglob("*fold*"))


def test_stopped_before_anything_was_fitted(run, folder, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_command, "_audit", stop)
    status, _, err = run(*QUICK)
    assert status == 130
    assert err == "\nStopped before anything was fitted. The same command starts again.\n"
    assert not [path for path in (folder / "cache").rglob("*") if path.is_file()]


@pytest.mark.slow
def test_a_checkpoint_of_ones_own_stays(run, folder):
    for model, file in (("records", "one.fold0.main"), ("fragments", "kept.baselines")):
        words = (*QUICK, "--error-model", model, "--checkpoint", file.partition(".")[0])
        assert run(*words)[0] == 0
        assert (folder / file).exists()
    assert run(*words)[0] == 0
    status, _, err = run(*words, "--seed", "1")
    assert status == 2
    assert err.startswith("outofcluster: --checkpoint")


def test_two_of_the_same_command_do_not_share_their_work(shown, monkeypatch):
    monkeypatch.setattr("outofcluster.cli.running.take_lock", lambda _: None)
    status, _, err = shown()
    assert status == 0
    assert err == "outofcluster: The same command is running already, so this one keeps no finished work.\n"


def test_a_cache_that_cannot_be_used_is_no_obstacle(shown, folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    status, _, err = shown()
    assert status == 0
    assert err.startswith("outofcluster: Finished work cannot be kept in ")
    assert err.count("\n") == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    status, _, err = shown()
    assert (status, err.count("there is no home")) == (0, 1)
    assert not (folder / "~").exists()


@pytest.mark.slow
def test_a_damaged_cache_is_emptied(run, folder, monkeypatch):
    monkeypatch.setattr("outofcluster.cli.running.shutil.rmtree", lambda *_, **__: None)
    words = (*QUICK, "--error-model", "records")
    assert run(*words)[0] == 0
    (kept,) = (folder / "cache").rglob("fits.fold0.main")
    kept.write_text("something else altogether")
    assert run(*words)[0] == 0
    assert kept.read_bytes().startswith(b"outofcluster checkpoint")


def test_a_cluster_of_machines_without_its_package(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    status, _, err = run(*QUICK, "--backend", "dask://127.0.0.1:1")
    assert status == 2
    assert "--backend dask:// needs dask: pip install 'outofcluster[dask]'" in " ".join(err.split())


def test_outputs_harm_neither_inputs_nor_each_other(tmp_path):
    records, link, hard = tmp_path / "records.csv", tmp_path / "link", tmp_path / "hard"
    records.write_text("x\n1\n")
    link.symlink_to(records)
    os.link(records, hard)
    for path in (records, link, hard, tmp_path / "." / "records.csv"):
        with pytest.raises(InputError, match="--report must be another file than FILE"):
            check_files({"--json": None, "--report": str(path)}, {"FILE": str(records)})
    new = str(tmp_path / "new")
    with pytest.raises(InputError, match="--report must be another file than --json"):
        check_files({"--json": new, "--report": str(tmp_path / "." / "new")}, {"FILE": str(records)})
    check_files({"--json": new, "--report": str(tmp_path / "other")}, {"FILE": str(records)})
    check_files({"--json": os.devnull, "--report": os.devnull}, {"FILE": "-"})
    assert not (tmp_path / "new").exists()

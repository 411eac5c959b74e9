"""Files of the command line: what it reads, what it writes, and how it ends."""

import gzip
import io
import json
import os
import sys
import threading
import zipfile

import numpy as np
import pandas as pd
import pytest

import outofcluster.cli.audit as audit_command
from outofcluster._base.exceptions import InputError
from outofcluster._base.files import release_lock, take_lock
from outofcluster.cli import _finished, main
from outofcluster.cli._table import read_records, read_table

PLAIN = ("--target", "ill", "--groups", "patient")
QUICK = ("audit", "records.csv", *PLAIN, "--fits", "60", "--fail-on", "never")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    table().to_csv(tmp_path / "records.csv", index=False)

    def get(*words):
        monkeypatch.setattr(sys, "argv", ["outofcluster", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return get


def table(n=30, each=3):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(n), each)
    u = rng.standard_normal(n)
    return pd.DataFrame(
        {
            "age": u[patient] + rng.standard_normal(n * each),
            "dose": rng.standard_normal(n * each),
            "patient": patient,
            "ill": np.where(u[patient] > 0, "yes", "no"),
        }
    )


@pytest.fixture
def no_audit(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(audit_command, "_audit", fail)


# --- outputs ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_audit")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--report", "records.csv"), "--report must be another file than FILE, got 'records.csv' for both."),
        (("--json", "hard.csv"), "--json must be another file than FILE, got 'hard.csv' for both."),
        (("--suspects", "link.csv"), "--suspects must be another file than FILE, got 'link.csv' for both."),
        (("--report", "a", "--json", "./a"), "--json must be another file than --report, got './a' for both."),
        (("--report", "cache"), "--report must be a file, got the folder 'cache'."),
        (("--report", "no/where"), "--report must lie in a folder that exists, got 'no/where'."),
        (("--checkpoint", "kept", "--json", "kept.fold0"), "--json must be another file than those of --checkpoint"),
    ],
)
def test_outputs_that_would_harm_are_refused_before_the_work(run, tmp_path, words, message):
    os.link(tmp_path / "records.csv", tmp_path / "hard.csv")
    (tmp_path / "link.csv").symlink_to("records.csv")
    (tmp_path / "cache").mkdir()
    before = (tmp_path / "records.csv").read_bytes()
    status, out, err = run(*QUICK, *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"outofcluster: {message}")
    assert (tmp_path / "records.csv").read_bytes() == before


def test_other_commands_do_not_harm_their_input_either(run, tmp_path):
    for words in (
        ("test", "records.csv", *PLAIN),
        ("leakage", "audited", "records.csv", "--true", "ill", "--groups", "patient"),
        ("leakage", "pairs", "records.csv", "other.csv", "--groups", "patient"),
    ):
        status, _, err = run(*words, "--json", "records.csv")
        assert status == 2
        assert "--json must be another file than" in err


def test_links_stay_links_and_devices_are_written_through(run, tmp_path):
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    status, out, _ = run(*QUICK, "--report", "link.html", "--json", "pipe")
    reader.join()
    assert status == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text().startswith("<!")
    assert "naive" in json.loads(received[0])
    assert "The report is in link.html." in out


@pytest.mark.slow
def test_a_disk_that_is_full_at_the_end_loses_nothing(run, tmp_path, monkeypatch):
    real = audit_command.write_whole

    def full(name, path, content):
        if name == "--report":
            raise OSError(28, "No space left on device")
        return real(name, path, content)

    monkeypatch.setattr(audit_command, "write_whole", full)
    status, out, err = run(*QUICK, "--report", "a.html", "--json", "a.json")
    assert status == 3
    assert err == "outofcluster: --report could not be written to 'a.html': No space left on device.\n"
    assert "Error rate" in out
    assert (tmp_path / "a.json").exists()
    # The work is still there, so that nothing has to be fitted again.
    assert list((tmp_path / "cache").rglob("fits.fold0"))


@pytest.mark.slow
def test_two_of_the_same_command_do_not_share_their_work(run, tmp_path, monkeypatch):
    places = []

    def watch(path):
        places.append(path)
        return take_lock(path)

    monkeypatch.setattr(_finished, "take_lock", watch)
    assert run(*QUICK, "--json", "one.json")[0] == 0
    lock = take_lock(places[0])
    status, _, err = run(*QUICK, "--json", "one.json")
    release_lock(lock)
    assert status == 0
    assert err == "outofcluster: The same command is running already, so this one keeps no finished work.\n"


@pytest.mark.slow
def test_a_cache_that_cannot_be_used_is_no_obstacle(run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    status, _, err = run(*QUICK)
    assert status == 0
    assert err.startswith("outofcluster: Finished work cannot be kept in ")
    assert err.count("\n") == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    status, _, err = run(*QUICK)
    assert (status, err.count("there is no home")) == (0, 1)
    assert not (tmp_path / "~").exists()


@pytest.mark.slow
def test_a_damaged_cache_is_emptied(run, tmp_path, monkeypatch):
    monkeypatch.setattr("outofcluster.cli._finished.shutil.rmtree", lambda *_, **__: None)
    assert run(*QUICK)[0] == 0
    (kept,) = (tmp_path / "cache").rglob("fits.fold0")
    kept.write_text("something else altogether")
    assert run(*QUICK)[0] == 0
    assert kept.read_bytes().startswith(b"outofcluster checkpoint")


# --- how it ends --------------------------------------------------------------------------------------


def test_a_crash_is_one_line_and_exit_3(run, monkeypatch):
    def crash(*_, **__):
        raise ZeroDivisionError("nobody\nthought of this \x1b[31m")

    monkeypatch.setattr(audit_command, "_audit", crash)
    status, out, err = run(*QUICK)
    assert (status, out) == (3, "")
    assert err == (
        "outofcluster: stopped by an error of the program, ZeroDivisionError: nobody thought of this . "
        "Set OUTOFCLUSTER_TRACEBACK=1 to see where.\n"
    )
    monkeypatch.setenv("OUTOFCLUSTER_TRACEBACK", "1")
    status, _, err = run(*QUICK)
    assert status == 3
    assert err.startswith("Traceback (most recent call last):")


def test_stopped_is_130_wherever_it_happens(run, monkeypatch):
    import outofcluster.cli._options as options

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(options, "read_records", stop)
    status, _, err = run(*QUICK)
    assert status == 130
    assert err.split("\n")[-2] == "outofcluster: Stopped."


def test_words_that_are_no_option_are_bad_input(run):
    for words in (("audit",), (*QUICK, "--nonsense"), (*QUICK, "--folds", "many"), ("nonsense",)):
        status, out, err = run(*words)
        assert (status, out) == (2, "")
        assert "Traceback" not in err


def test_a_closed_pipe_changes_nothing(run, tmp_path, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    status, *_ = run(*QUICK, "--json", "out.json")
    assert status == 0
    assert (tmp_path / "out.json").exists()


# --- what names may hold ------------------------------------------------------------------------------


@pytest.mark.slow
def test_control_characters_are_shown_nowhere(run, tmp_path):
    evil = "a\x1b[31m\x07ge\u202e"
    frame = table().rename(columns={"age": evil, "ill": f"ill{evil}"})
    frame[f"ill{evil}"] += evil
    frame["patient"] = [f"p{evil}{number}" for number in frame["patient"]]
    frame.to_csv(tmp_path / f"x{evil}.csv", index=False)
    words = ("audit", f"x{evil}.csv", "--target", f"ill{evil}", "--groups", "patient", "--error-model", "records")
    words += ("--leakage", "data", "--fits", "60", "--fail-on", "never")
    status, out, err = run(*words, "--report", "out.html", "--suspects", "out.csv", "--json", "out.json")
    assert status == 0, err
    for text in (out, err, *((tmp_path / f"out.{kind}").read_text() for kind in ("html", "csv", "json"))):
        assert not set(text) & set("\x1b\x07\u202e")
    assert "\\u001b" not in (tmp_path / "out.html").read_text()
    status, out, err = run("audit", f"x{evil}.csv", "--target", f"il{evil}", "--groups", "patient")
    assert status == 2
    assert not set(out + err) & set("\x1b\x07\u202e")


# --- inputs -------------------------------------------------------------------------------------------


def packed(kind, data):
    if kind == "gz":
        return gzip.compress(data)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("inner/records.csv", data)
        file.writestr("__MACOSX/inner/._records.csv", b"junk")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["gz", "zip"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_compressed_files(tmp_path, kind, suffix):
    plain = tmp_path / f"records.{suffix}"
    table().to_csv(plain, index=False) if suffix == "csv" else table().to_parquet(plain)
    path = tmp_path / f"records.{suffix}.{kind}"
    path.write_bytes(packed(kind, plain.read_bytes()))
    pd.testing.assert_frame_equal(read_table(str(path)), read_table(str(plain)))


@pytest.mark.parametrize("how", ["-", "pipe", "/dev/stdin"])
def test_pipes_are_read_once(tmp_path, monkeypatch, how):
    data = table().to_csv(index=False).encode()
    (tmp_path / "records.csv").write_bytes(data)
    options = {"target": "ill", "groups": "patient", "drop": (), "encoding": "utf-8", "classes": None}
    expected = read_records(str(tmp_path / "records.csv"), **options, numbers=False)
    name = how
    if how == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    else:
        name = str(tmp_path / "pipe")
        os.mkfifo(name)
        threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(data)).start()
    if how == "/dev/stdin":
        before = os.dup(0)
        opened = os.open(name, os.O_RDONLY)
        os.dup2(opened, 0)
        name = how
    records = read_records(name, **options, numbers=False)
    if how == "/dev/stdin":
        os.dup2(before, 0)
        os.close(before)
        os.close(opened)
    pd.testing.assert_frame_equal(records.frame, expected.frame)
    assert records.about["sha256"] == expected.about["sha256"]
    assert records.name == {"-": "standard input", "pipe": "pipe", "/dev/stdin": "stdin"}[how]


BAD_TABLES = {
    "two columns of one name": (b"a,b,a\n1,2,3\n", "FILE must have columns of different names, got .* with 'a' more"),
    "more values than names": (b"a,b\n1,2,3\n4,5,6\n", "FILE must have one value per column in every line"),
    "gzip cut short": (gzip.compress(b"a,b\n1,2\n" * 99)[:20], "FILE must be a compressed file that can be read"),
    "a broken zip": (b"PK\x03\x04 and nothing else", "FILE must be a compressed file that can be read"),
    "no zip of one file": (None, "FILE must be a table, or a zip that holds one and nothing else, got .* with 2"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_are_refused(tmp_path, name):
    content, message = BAD_TABLES[name]
    if content is None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr("a.csv", "a\n1\n")
            file.writestr("b.csv", "a\n1\n")
        content = buffer.getvalue()
    path = tmp_path / "table"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(str(path))


def test_nested_columns_are_refused_by_name_unless_they_are_dropped(tmp_path):
    path = str(tmp_path / "nested.parquet")
    table().assign(visits=[[1, 2]] * 90, place=[{"town": "x"}] * 90).to_parquet(path)
    options = {"target": "ill", "groups": "patient", "encoding": "utf-8", "classes": None, "numbers": False}
    for drop, name in (((), "visits"), (("visits",), "place")):
        with pytest.raises(InputError, match=f"FILE must have columns of single values, got '{name}'"):
            read_records(path, drop=drop, **options)
    assert list(read_records(path, drop=("visits", "place"), **options).frame) == ["age", "dose"]
    with pytest.raises(InputError, match="columns of single values, got 'visits'"):
        read_records(path, drop=(), **options | {"target": "visits"})


def test_one_pipe_cannot_be_two_tables(run):
    status, _, err = run("leakage", "pairs", "-", "-", "--groups", "patient")
    assert status == 2
    assert err == ("outofcluster: PAIRS and FILE must be different files, got '-' for both, which can be read once.\n")


# --- decimal commas -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["ill", "score"])
@pytest.mark.slow
def test_decimal_commas_of_a_file_with_semicolons_are_numbers(run, tmp_path, target):
    frame = table().assign(score=lambda t: t["age"] + t["dose"] ** 3)
    frame.loc[[3, 7], "dose"] = None
    frame.loc[5, "age"] = 1.5e-7
    for name, options in {"points.csv": {}, "commas.csv": {"sep": ";", "decimal": ","}}.items():
        frame.to_csv(tmp_path / name, index=False, **options)
    numbers = {}
    for name in ("points.csv", "commas.csv"):
        words = (name, "--target", target, "--groups", "patient", "--fits", "60", "--fail-on", "never")
        status, out, err = run("audit", *words, "--drop", "ill" if target == "score" else "score", "--json", "o.json")
        assert (status, err) == (0, "")
        numbers[name] = json.loads((tmp_path / "o.json").read_text())
        listed = "age, dose, score" if target == "score" else "age, dose"
        assert (f"Read as numbers with decimal commas: {listed}." in out) == (name == "commas.csv")
    assert numbers["points.csv"]["naive"] == numbers["commas.csv"]["naive"]
    assert numbers["points.csv"]["corrected"] == numbers["commas.csv"]["corrected"]


def test_only_columns_of_numbers_have_decimal_commas(run, tmp_path):
    n = 90
    frame = table().assign(
        lists=["1,2,3", "1,2", "2,4"] * 30,
        words=["unknown" if i == 4 else f"{i},5" for i in range(n)],
        points=["1.234,5", "2,5", "3,5"] * 30,
        whole=[str(i % 7) for i in range(n)],
        patient=[f"{i // 3},{i // 3 % 2}" for i in range(n)],
    )
    frame.to_csv(tmp_path / "records.csv", index=False, sep=";", decimal=",")
    options = {"target": "ill", "groups": "patient", "drop": (), "encoding": "utf-8", "classes": None, "numbers": False}
    read = read_records("records.csv", **options)
    assert read.about["decimal commas"] == "age, dose"
    assert read.about["nearly numbers"] == "words ('unknown')"
    assert read.encoded == ["lists", "words", "points"]
    assert read.groups[3] == "1,1"
    _, out, _ = run(*QUICK, "--drop", "lists", "--drop", "points")
    assert "because of others: words ('unknown')." in " ".join(out.split())
    frame.to_csv(tmp_path / "records.csv", index=False, decimal=",")
    assert "decimal commas" not in read_records("records.csv", **options).about

"""Files that are written whole or not at all."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from outofcluster._base import files
from outofcluster._base.exceptions import InputError
from outofcluster._base.files import check_destination, write_whole


@pytest.mark.parametrize(("content", "held"), [("é\n", b"\xc3\xa9\n"), (b"\x00\r\n", b"\x00\r\n"), ("", b"")])
def test_text_and_bytes_are_written_as_they_are(tmp_path, content, held):
    path = tmp_path / "file"
    assert write_whole("path", str(path), content) == path
    assert path.read_bytes() == held
    assert [left.name for left in tmp_path.iterdir()] == ["file"]


def test_permissions_are_those_of_an_ordinary_file_or_as_they_were(tmp_path):
    mask = os.umask(0)
    os.umask(mask)
    path = write_whole("path", tmp_path / "file", b"1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    assert stat.S_IMODE(write_whole("path", path, "2").stat().st_mode) == 0o640


@pytest.mark.parametrize("content", ["new", b"new"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_was_there_stays_if_the_disk_fails(tmp_path, monkeypatch, step, content):
    def fail(*_):
        raise OSError(28, "No space left on device")

    path = write_whole("path", tmp_path / "file", "old")
    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole("path", path, content)
    assert path.read_text() == "old"
    assert [left.name for left in tmp_path.iterdir()] == ["file"]


# --- what is no ordinary file -------------------------------------------------------------------------


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    assert write_whole("path", link, "new") == link
    assert link.is_symlink()
    assert real.read_text() == "new"
    real.unlink()
    write_whole("path", link, "again")
    assert link.is_symlink()
    assert real.read_text() == "again"
    assert [left.name for left in real.parent.iterdir()] == ["real"]


def test_pipes_and_devices_are_written_through(tmp_path):
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_whole("path", pipe, "through")
    reader.join()
    assert received == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_whole("path", os.devnull, "nothing")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_standard_output_goes_on_where_it_is(tmp_path):
    """Redirected to a file, /dev/stdout must neither be replaced nor started anew."""
    code = "from outofcluster._base.files import write_whole; print('before'); "
    code += "write_whole('path', '/dev/stdout', 'content\\n'); print('after')"
    with open(tmp_path / "out", "w") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == "before\ncontent\nafter\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "path must be a file, got the folder"),
        ("", "path must be the path of a file, got an empty text"),
        ("nowhere/file", "path must lie in a folder that exists"),
        ("file/below", "path must lie in a folder that exists"),
        ("x" * 300, "path must be a file that can be written, got '.*File name too long"),
        ("a\0b", "path must be a file that can be written, got .*null"),
        ("loop", "path must be a file that can be written, got .*symbolic links"),
    ],
)
def test_names_that_cannot_be_written(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match=message):
        check_destination("path", name)


def test_a_path_in_a_message_is_no_longer_than_a_sentence():
    with pytest.raises(InputError, match=r"got 'xxx.*\.\.\.: File name too long") as refusal:
        check_destination("path", "x" * 5000)
    assert len(str(refusal.value)) < 500


def test_long_names_that_can_be_written(tmp_path):
    name = "x" * 250
    assert write_whole("path", tmp_path / name, "1").read_text() == "1"


@pytest.mark.parametrize("number", [3, 2**63, b"report.html", None])
def test_what_is_no_path_is_refused_and_no_open_file(number):
    with pytest.raises(InputError, match="path must be the path of a file, got"):
        check_destination("path", number)

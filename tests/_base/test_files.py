"""Files that are written whole or not at all."""

import os
import stat

import pytest

from outofcluster._base import files
from outofcluster._base.files import write_whole


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

"""Downloads from a local server that stands for the archive: what is kept, and that nothing else ever is."""

import gzip
import hashlib
import io
import os
import socket
import sys
import tempfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from outofcluster import datasets
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.datasets import _files, loaders

HOME = os.environ.get("OUTOFCLUSTER_DATA")
HEART = [f"processed.{name}.data" for name in ("cleveland", "hungarian", "switzerland", "va")]
ADDRESS = "/45/heart+disease.zip"
SPEECH = "/301/parkinson+speech+dataset+with+multiple+types+of+sound+recordings.zip"


def content(name):
    return f"63,1,1,145,{len(name)},1,2,150,0,2.3,3,0,6,0\n63,0,4,145,250,1,2,150,1,2.3,3,?,7,1\n".encode()


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def refusal(call):
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert ". " not in message
    return message


class Archive:
    """The server: what it answers by address, and what it was asked."""

    def __init__(self):
        self.files, self.asked, self.cut, self.wait = {}, [], 0, threading.Event()
        self.wait.set()
        archive = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                archive.asked.append(self.path)
                archive.wait.wait(10)
                body = archive.files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write((body or b"")[: len(body or b"") - archive.cut])

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        self.wait.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """No folder is named; the cache is a folder that is not there yet, and the archive is out of reach."""
    pytest.importorskip("pooch", reason="downloads need the extra 'data'")
    monkeypatch.delenv("OUTOFCLUSTER_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    folder = tmp_path / "cache"
    monkeypatch.setattr(_files, "cache_folder", lambda: folder)
    monkeypatch.setattr(_files, "BASE_URL", "http://127.0.0.1:9/")
    yield folder
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture
def archive(cache, monkeypatch):
    """A server with the heart data, small, whose sums are taken for the right ones."""
    for name in HEART:
        monkeypatch.setitem(loaders.HEART.sha256, name, hashlib.sha256(content(name)).hexdigest())
    server = Archive()
    monkeypatch.setattr(_files, "BASE_URL", server.url)
    server.files[ADDRESS] = zipped({name: content(name) for name in HEART} | {"heart-disease.names": b"notes"})
    yield server
    server.close()


def files_in(cache):
    return sorted(str(file.relative_to(cache)) for file in cache.rglob("*") if file.is_file())


def test_a_download_is_made_once_and_kept(archive, cache):
    first = datasets.load_heart()
    assert archive.asked == [ADDRESS]
    assert files_in(cache) == [f"heart/{name}" for name in HEART]
    second = datasets.load_heart()
    assert archive.asked == [ADDRESS]
    # The cache can be used as a data_home.
    third = datasets.load_heart(data_home=cache)
    for heart in (first, second, third):
        assert heart.groups.tolist() == [h for h in ("Cleveland", "Hungary", "Switzerland", "VA") for _ in range(2)]
        chol = heart.data[::2, heart.feature_names.index("chol")]
        assert chol.tolist() == [len(name) for name in HEART]


def test_what_was_altered_or_lost_in_the_cache_is_fetched_again(archive, cache):
    datasets.load_heart()
    (cache / "heart" / HEART[0]).write_bytes(b"altered")
    (cache / "heart" / HEART[1]).unlink()
    datasets.load_heart()
    assert archive.asked == [ADDRESS] * 2
    assert [(cache / "heart" / name).read_bytes() for name in HEART] == [content(name) for name in HEART]


@pytest.mark.parametrize("form", ["folder", "nested", "windows"])
def test_members_are_found_wherever_they_are(archive, cache, form):
    if form == "folder":
        packed = zipped({f"UCI/heart disease/{name}": content(name) for name in HEART})
    elif form == "nested":
        packed = zipped({HEART[0]: content(HEART[0]), "a/rest.ZIP": zipped({f"b/{n}": content(n) for n in HEART[1:]})})
    else:
        packed = zipped({name: content(name).replace(b"\n", b"\r\n") for name in HEART})
    archive.files[ADDRESS] = packed
    assert len(datasets.load_heart().data) == 8
    assert [(cache / "heart" / name).read_bytes() for name in HEART] == [content(name) for name in HEART]


def test_an_altered_member(archive, cache):
    altered = content(HEART[2]).replace(b"145", b"146")
    archive.files[ADDRESS] = zipped({name: content(name) for name in HEART} | {HEART[2]: altered})
    message = refusal(datasets.load_heart)
    for part in (f"heart/{HEART[2]}", loaders.HEART.sha256[HEART[2]], hashlib.sha256(altered).hexdigest()):
        assert part in message
    assert "https://archive.ics.uci.edu/dataset/45" in message
    assert not cache.exists()


def test_no_network(cache, monkeypatch):
    with socket.socket() as taken:
        # A port that is bound but does not listen refuses every connection.
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(_files, "BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/")
        message = refusal(datasets.load_census)
    for part in ("adult/adult.data", "ConnectionError", "https://archive.ics.uci.edu/dataset/2", "OUTOFCLUSTER_DATA"):
        assert part in message
    assert not cache.exists()


def test_a_server_that_does_not_answer(archive, cache, monkeypatch):
    monkeypatch.setattr(_files, "TIMEOUT", 0.2)
    archive.wait.clear()
    assert "ReadTimeout" in refusal(datasets.load_heart)
    assert not cache.exists()


def test_an_address_that_is_gone(archive, cache):
    assert "HTTP status 404" in refusal(datasets.load_census)
    assert archive.asked == ["/2/adult.zip"]
    assert not cache.exists()


def test_a_download_that_is_cut_short(archive, cache):
    archive.cut = 100
    assert "could not be downloaded" in refusal(datasets.load_heart)
    assert not cache.exists()


@pytest.mark.parametrize(
    "spoil", [lambda _: b"<html>moved</html>", lambda b: b[:300], lambda b: b[:60] + b"x" + b[61:]]
)
def test_what_is_no_whole_zip_archive(archive, cache, spoil):
    archive.files[ADDRESS] = spoil(archive.files[ADDRESS])
    assert "must be a whole zip archive" in refusal(datasets.load_heart)
    assert not cache.exists()


def test_a_member_that_is_missing(archive, cache):
    archive.files[ADDRESS] = zipped({name: content(name) for name in HEART[:3]})
    assert f"must hold {HEART[3]}" in refusal(datasets.load_heart)
    assert not cache.exists()


def test_an_archive_that_has_to_be_unpacked_by_hand(archive, cache):
    archive.files[SPEECH] = zipped({"Recordings.rar": b"Rar!", "readme.txt": b"notes"})
    message = refusal(datasets.load_parkinson)
    for part in ("Recordings.rar", "by hand", "parkinson_speech/train_data.txt", "dataset/301", "data_home"):
        assert part in message
    assert not cache.exists()


def test_a_cache_that_cannot_be_written(archive, cache):
    cache.write_text("a file where the folder should be")
    message = refusal(datasets.load_heart)
    assert "must be one that can be written" in message
    assert str(cache) in message


def test_a_disk_that_fills_up_leaves_no_half_file(archive, cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert "must be one that can be written" in refusal(datasets.load_heart)
    assert files_in(cache) == []


def test_pooch_is_asked_for_by_the_name_of_its_extra(monkeypatch):
    monkeypatch.delenv("OUTOFCLUSTER_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'outofcluster\[data\]'"):
        datasets.load_heart()


def test_the_cache_is_pooches():
    pooch = pytest.importorskip("pooch", reason="downloads need the extra 'data'")
    assert _files.cache_folder() == Path(pooch.os_cache("outofcluster"))


@pytest.mark.slow
@pytest.mark.skipif(not HOME, reason="OUTOFCLUSTER_DATA does not name the folder of the UCI files")
def test_the_real_files_by_way_of_the_server(cache, monkeypatch):
    server = Archive()
    try:
        monkeypatch.setattr(_files, "BASE_URL", server.url)
        for source in (loaders.HEART, loaders.ADULT, loaders.PARKINSON, loaders.DOTA2):
            members = {}
            for file in (Path(HOME) / source.folder).iterdir():
                data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
                members[f"data/{file.name.removesuffix('.gz')}"] = data
            server.files[f"/{source.number}/{source.archive}.zip"] = zipped(members)
        for load in (datasets.load_heart, datasets.load_census, datasets.load_parkinson, datasets.load_dota2):
            fetched, there = load(), load(data_home=HOME)
            np.testing.assert_array_equal(fetched.data, there.data)
            np.testing.assert_array_equal(fetched.groups, there.groups)
    finally:
        server.close()

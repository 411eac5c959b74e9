"""The files of the UCI archive that are used, the sha256 by which each is known, and how one is read.

The sums are taken over the files' content, so a compressed file has the same one. They are for line ends of one
character; some copies are published with the line ends of Windows, which hold the same values and are accepted.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from outofcluster._base.exceptions import InputError

VARIABLE = "OUTOFCLUSTER_DATA"
"""Environment variable that names the folder of the data."""


@dataclass(frozen=True)
class Source:
    """One data set of the archive: the folder of its files, its number in the archive, its packed form, its authors."""

    folder: str
    number: int
    archive: str
    creators: str

    @property
    def licence(self) -> str:
        """Terms of use, and whom to name."""
        return f"CC BY 4.0 (attribution: the UCI Machine Learning Repository and {self.creators})"

    @property
    def page(self) -> str:
        """Where a reader can get the files by hand."""
        return f"https://archive.ics.uci.edu/dataset/{self.number}"

    @property
    def address(self) -> str:
        """Address of the packed form, relative to the archive's folder of downloads."""
        return f"{self.number}/{self.archive}.zip"


HEART = Source("heart", 45, "heart+disease", "A. Janosi, W. Steinbrunn, M. Pfisterer and R. Detrano")
ADULT = Source("adult", 2, "adult", "B. Becker and R. Kohavi")
_PARKINSON_ARCHIVE = "parkinson+speech+dataset+with+multiple+types+of+sound+recordings"
PARKINSON = Source("parkinson_speech", 301, _PARKINSON_ARCHIVE, "B. E. Sakar and others")
DOTA2 = Source("dota2", 367, "dota2+games+results", "S. Tridgell")

SHA256 = {
    "heart/processed.cleveland.data": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
    "heart/processed.hungarian.data": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
    "heart/processed.switzerland.data": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
    "heart/processed.va.data": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
    "adult/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "parkinson_speech/train_data.txt": "2aade96f0355f61c6cd057bda9a1bcb3f3968960c22ad6e29d7a1e8f1a05ad35",
    "dota2/dota2Test.csv": "bcc9ce564421db7340b1464dedd2691bb18af06613726ff72d142ffc2ee2aff9",
    "dota2/dota2Train.csv": "16823bf0ad99b4931e94809268807ef398edb7b1288b12b384aeddbee3d9ebda",
}


def verified(source: Source, name: str, content: bytes, place: str) -> bytes:
    """The content, with line ends of one character, if its sum is the right one; ``place`` says where it comes from."""
    expected = SHA256[f"{source.folder}/{name}"]
    actual = hashlib.sha256(content).hexdigest()
    if actual == expected:
        return content
    unix = content.replace(b"\r\n", b"\n")
    if hashlib.sha256(unix).hexdigest() == expected:
        return unix
    raise InputError(
        f"{source.folder}/{name} must have the sha256 {expected}, got {actual} in {place}: the file is not the one "
        f"that the paper used, which is available at {source.page}."
    )


def read_plain_or_gzipped(path: Path) -> bytes | None:
    """The content of a file, plain or gzipped under its name with ``.gz``; None if there is neither."""
    if path.is_file():
        return path.read_bytes()
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.is_file() else None

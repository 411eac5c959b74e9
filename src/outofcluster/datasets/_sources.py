"""The files of the UCI archive that are used, and the sha256 by which each is known.

The sums are of the files' content, so a compressed file has the same. They count with line ends of one character;
a file with those of Windows, in which some copies are published, has the same values and is accepted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from outofcluster._base.exceptions import InputError

__all__ = ["ADULT", "DOTA2", "HEART", "LICENCE", "PARKINSON", "SHA256", "Source", "verified"]

LICENCE = "CC BY 4.0 (attribution: the UCI Machine Learning Repository and {creators})"


@dataclass(frozen=True)
class Source:
    """One data set of the archive: the folder its files are kept in, its number there, and its packed form."""

    folder: str
    number: int
    archive: str

    @property
    def page(self) -> str:
        """Where a reader can get the files by hand."""
        return f"https://archive.ics.uci.edu/dataset/{self.number}"

    @property
    def address(self) -> str:
        """Address of the packed form, relative to the archive's folder of downloads."""
        return f"{self.number}/{self.archive}.zip"


HEART = Source("heart", 45, "heart+disease")
ADULT = Source("adult", 2, "adult")
PARKINSON = Source("parkinson_speech", 301, "parkinson+speech+dataset+with+multiple+types+of+sound+recordings")
DOTA2 = Source("dota2", 367, "dota2+games+results")

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
    """The content, with line ends of one character, if it is what it should be; ``place`` says where it was found."""
    expected = SHA256[f"{source.folder}/{name}"]
    found = hashlib.sha256(content).hexdigest()
    if found == expected:
        return content
    unix = content.replace(b"\r\n", b"\n")
    if hashlib.sha256(unix).hexdigest() == expected:
        return unix
    raise InputError(
        f"{source.folder}/{name} must have the sha256 {expected}, got {found} in {place}: the file is not the one that "
        f"the paper used, which can be had at {source.page}."
    )

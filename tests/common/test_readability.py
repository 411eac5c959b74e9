"""Pages for users and messages are in plain English: Flesch reading ease of 50 or more, no sentence over 35 words."""

import ast
import re
from pathlib import Path

import pytest

import outofcluster
from ooc_test_prose import LONGEST, long_sentences, prose, reading_ease, sentences

ROOT = Path(__file__).parents[2]
EASY = 50.0
FOR_MATHEMATICIANS = {"mathematics", "auto_curve", "below_the_rate"}
"""Pages on the method, for readers who know statistics: their formulas need longer sentences."""

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")]
PAGES += [page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in FOR_MATHEMATICIANS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_for_users_are_easy_to_read(page):
    text = prose(page.read_text(encoding="utf-8"))
    assert not long_sentences(text), f"Sentences over {LONGEST} words."
    assert reading_ease(text) >= EASY


def told(path):
    """The words of messages in a module: of remarks of checks and of errors, with a number for every value in them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Remark", "InputError", "FitError"):
            for argument in node.args:
                words = re.sub(r"\s+", " ", _literal(argument))
                if words.count(" ") > 3:
                    yield words


def _literal(node):
    match node:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=parts):
            return "".join(_literal(part) if isinstance(part, ast.Constant) else "7" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _literal(left) + _literal(right)
    return ""


def test_messages_are_easy_to_read():
    modules = Path(outofcluster.__file__).parent.rglob("*.py")
    messages = [(path.name, words) for path in modules for words in told(path)]
    assert len(messages) > 200
    assert reading_ease(" ".join(words if words[-1] in ".!?" else f"{words}." for _, words in messages)) >= EASY
    long = [(name, sentence) for name, words in messages for sentence in long_sentences(words)]
    assert not long


# --- the ruler itself ----------------------------------------------------------------------------------


def test_code_tables_formulas_and_targets_of_links_are_no_prose():
    page = (
        "# Title\n\nSee [the page](a_b.md) for `code`. It is $x_1$ here.\n\n```sh\nnot this\n```\n\n"
        "| a | b |\n|---|---|\n\n$$ y = 2 $$\n\n- An item.\n- Another\n  one.\n\n<!-- hidden words -->\n"
    )
    found = sentences(prose(page))
    assert found == ["See the page for Code.", "It is x here.", "An item.", "Another one."]


def test_long_sentences_and_hard_words_are_found():
    long = "A" + " word" * 35 + "."
    assert long_sentences(f"Short one. {long} At 0.5 it is short.") == [long]
    assert not long_sentences(" ".join(["word"] * 35) + ".")
    hard = "Heteroscedasticity necessitates methodological considerations regarding multidimensional generalisability."
    assert reading_ease(hard) < 0 < EASY < reading_ease("The cat sat on the mat. It was warm there.")

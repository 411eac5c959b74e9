"""Text without what a terminal or a page would act on."""

import pytest

from outofcluster._base.text import element, printable, printable_data


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain, with ümlauts, 日本 and −1", "plain, with ümlauts, 日本 and −1"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("bell\x07, back\x08, return\r, zero\x00", "bell, back, return, zero"),
        ("\x1bno sequence", "no sequence"),
        ("gpj\u202egnp", "gpjgnp"),
        ("half \ud83d", "half "),
    ],
)
def test_what_is_taken_out(text, left):
    assert printable(text) == left


def test_data_and_markup():
    assert printable_data({"a\x07": ["b\x1b[1m", 1.5, None]}) == {"a": ["b", 1.5, None]}
    assert element("p", "a\x1b[31m<b>\x00") == "<p>a&lt;b&gt;</p>"

"""Text without what a terminal or a page would act on."""

import pytest

from outofcluster._base.text import element, percentage, printable, printable_data


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


@pytest.mark.parametrize(
    ("share", "error", "written"),
    [
        (0.25, None, "25 %"),
        (1.0, None, "100 %"),
        (0.99996, None, "99.996 %"),
        (2.31e-15, None, "0 %"),
        (-0.012, None, "−1.2 %"),
        # As many decimals as two digits of the error need.
        (0.0417, 0.0123, "4.2 %"),
        (0.0417, 0.00041, "4.170 %"),
        (2.31e-15, 0.02, "0.0 %"),
        (0.25, 0.0, "25 %"),
    ],
)
def test_shares_have_the_digits_that_their_error_allows(share, error, written):
    assert percentage(share, error=error) == written

"""The report: plain data, an autoescaped template, one self-contained HTML file to send around.

`Summary` holds the numbers, :mod:`outofcluster.present.report.view` turns them into words and
:mod:`outofcluster.present.report.chart` into places in a picture; only the template makes markup, and it escapes all
that it is given. The file needs no network and no other file, and its own security policy lets it run nothing but the
script it was written with.
"""

from outofcluster._base.files import check_destination, write_whole
from outofcluster.present.report.html import render_html, write_html
from outofcluster.present.report.view import headline

__all__ = ["check_destination", "headline", "render_html", "write_html", "write_whole"]

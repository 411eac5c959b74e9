"""The report: plain data goes through an autoescaped template and becomes one self-contained HTML file.

`Summary` holds the numbers, :mod:`outofcluster.present.report.view` turns them into words, and
:mod:`outofcluster.present.report.chart` turns them into places in a picture. Only the template makes markup, and it
escapes everything that it gets. The file needs no network and no other file, and its own security policy lets it run
nothing but the script that it was written with.
"""

from outofcluster.present.report.html import render_html, write_html

__all__ = ["render_html", "write_html"]

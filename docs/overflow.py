"""Look at every built page in chromium, at 1280 and 390 pixels: ``python docs/overflow.py docs/_build/html``.

A page fails if it can be scrolled sideways, if its column reaches beyond the window, or if an element hides a part of
its text and cannot be scrolled to show it. Code and outputs must show all of their width, and at 1280 pixels tables and
formulas as well; on a phone these may scroll inside themselves. Without playwright or chromium it says so, and ends
with 0.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

WIDTHS = (1280, 390)

_CUT = """(wholeWidth) => {
  const found = [], wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 1) {
    const right = [...document.querySelectorAll('body *')]
      .map(e => [e, e.getBoundingClientRect()])
      .filter(([e, box]) => box.width && box.right > document.documentElement.clientWidth + 1)
      .filter(([e]) => { for (let p = e.parentElement; p; p = p.parentElement)
        if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(p).overflowX)) return false; return true; });
    const last = right.length ? name(right[right.length - 1][0]) : '?';
    found.push('the page scrolls sideways by ' + wide + ' px: ' + last);
  }
  const column = document.querySelector('article').getBoundingClientRect().right;
  if (column > document.documentElement.clientWidth) found.push('the column ends at ' + column + ' px');
  for (const e of document.querySelectorAll('article *, .sidebar-tree *')) {
    if (!e.clientWidth || e.closest('math, svg, .headerlink')) continue;
    const style = getComputedStyle(e);
    if (style.visibility === 'hidden' || style.display === 'inline') continue;
    const hides = ['hidden', 'clip'];
    const scrolls = ['auto', 'scroll'].includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1;
    if (scrolls && (wholeWidth || e.tagName === 'PRE'))
      found.push('scrolls by ' + (e.scrollWidth - e.clientWidth) + ' px: ' + name(e));
    if (hides.includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1 && e.textContent.trim())
      found.push('cut on the right by ' + (e.scrollWidth - e.clientWidth) + ' px: ' + name(e));
    if (hides.includes(style.overflowY) && e.scrollHeight > e.clientHeight + 3 && e.textContent.trim())
      found.push('cut at the bottom by ' + (e.scrollHeight - e.clientHeight) + ' px: ' + name(e));
  }
  function name(e) {
    const own = typeof e.className === 'string' && e.className ? '.' + e.className.trim().split(/\\s+/).join('.') : '';
    return e.tagName.toLowerCase() + own + ' "' + e.textContent.trim().slice(0, 40).replace(/\\s+/g, ' ') + '"';
  }
  return [...new Set(found)];
}"""


def cut_off(folder: Path) -> tuple[int, list[str]]:
    """The number of pages, and what is cut off on them."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    pages = sorted(page for page in folder.rglob("*.html") if "_static" not in page.parts)
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for width in WIDTHS:
            view = browser.new_page(viewport={"width": width, "height": 900})
            for page in pages:
                view.goto(page.as_uri())
                view.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
                cut = view.evaluate(_CUT, width > 1000)
                found += [f"{page.relative_to(folder)} at {width} px: {what}" for what in cut]
            view.close()
        browser.close()
    return len(pages), found


def main() -> int:
    """Print what is cut off; 1 if anything is."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        print("playwright is not installed, so no page was looked at: pip install 'outofcluster[browser]'")
        return 0
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        print("There is no chromium, so no page was looked at.")
        return 0
    count, found = cut_off(Path(sys.argv[1]).resolve())
    widths = " and ".join(map(str, WIDTHS))
    print("\n".join([*found, f"{count} pages at {widths} px: {len(found)} places are cut off."]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

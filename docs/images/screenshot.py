"""Take the picture of the report that the README shows: ``python docs/images/screenshot.py``.

It runs ``outofcluster demo`` and photographs the top of its report with chromium, which must be installed.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).with_name("report.png")
WIDTH, HEIGHT = 1000, 1330
LARGEST = 300_000
"""Bytes that the picture may have."""


def main():
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = [sys.executable, "-c", "from outofcluster.cli import main; main()", "demo"]
        subprocess.run(run, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (report,) = Path(folder).glob("*.html")
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.as_uri())
        page.screenshot(path=TARGET)
        browser.close()
    size = TARGET.stat().st_size
    assert size < LARGEST, f"{TARGET} has {size:,} bytes."


if __name__ == "__main__":
    main()

"""A real browser: Debian's chromium, driven by playwright. Without one the tests skip, saying why."""

import shutil

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "browser: needs playwright and chromium, skips without")


@pytest.fixture(scope="session")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the extra 'browser' has it")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, tmp_path):
    """Open a document from a file; every request, message and error is kept."""
    contexts = []

    def get(html, *, script=True, **options):
        file = tmp_path / f"report{len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        context = chromium.new_context(java_script_enabled=script, **options)
        contexts.append(context)
        page = context.new_page()
        page.requests, page.messages = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("console", lambda message: page.messages.append(message.text))
        page.on("pageerror", lambda error: page.messages.append(str(error)))
        page.on("dialog", lambda dialog: (page.messages.append(dialog.message), dialog.dismiss()))
        page.goto(file.as_uri())
        return page

    yield get
    for context in contexts:
        context.close()

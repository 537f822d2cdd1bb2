"""A Chromium without a window, to look at pages as a person would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windrow.embedded.process import find_program

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARGUMENTS: Final = (
    "--no-sandbox",  # Chromium refuses to run as root with one
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # A page that names another machine gets an error at once, whatever network there is.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def find_chromium() -> Path:
    """The browser of the machine; Playwright's own download is not used.

    Raises:
        NotInstalled: There is none.
    """
    return find_program("chromium", "chromium")


@contextmanager
def launch() -> Iterator[Browser]:
    """A browser with an empty profile, closed and forgotten at the end.

    Playwright keeps an event loop running in this thread meanwhile: ``asyncio.run`` has to wait for
    the end. The browser and its profile go with this process too, however it ends.

    Raises:
        NotInstalled: There is no Chromium.
        ModuleNotFoundError: There is no Playwright; only tests need it, so no extra brings it.
    """
    from playwright.sync_api import sync_playwright

    executable = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()

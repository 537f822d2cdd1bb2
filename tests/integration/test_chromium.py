"""A page in a real browser, which talks to this machine alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.processes import eventually, is_gone
from tests.fixtures.sockets import sockets_of
from windrow.embedded.chromium import find_chromium
from windrow.embedded.groups import living_family
from windrow.embedded.ports import LOOPBACK
from windrow.errors import NotInstalled

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = """<!doctype html>
<title>Counter</title>
<button onclick="count.textContent = Number(count.textContent) + 1">Count</button>
<output id="count">0</output>
<img src="http://elsewhere.example/picture.png" onerror="this.replaceWith('no picture')">
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def page_url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "index.html").write_text(PAGE)
    with ThreadingHTTPServer((LOOPBACK, 0), partial(Quiet, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{LOOPBACK}:{server.server_port}/"
        server.shutdown()
        thread.join(10)


@pytest.mark.proves("real-services")
def test_button_of_a_page_is_clicked_and_its_effect_read(chromium: Browser, page_url: str) -> None:
    page = chromium.new_page()
    page.goto(page_url)
    assert page.title() == "Counter"
    page.get_by_role("button", name="Count").click(click_count=2)
    assert page.locator("#count").inner_text() == "2"


def test_no_request_leaves_this_machine(chromium: Browser, page_url: str) -> None:
    page = chromium.new_page()
    failed: list[tuple[str, str | None]] = []
    page.on("requestfailed", lambda request: failed.append((request.url, request.failure)))
    page.goto(page_url)
    page.get_by_text("no picture").wait_for()
    assert failed == [("http://elsewhere.example/picture.png", "net::ERR_NAME_NOT_RESOLVED")]
    sockets = sockets_of(process.pid for process in living_family(os.getpid()))
    peers = {each.peer for each in sockets if not each.peer.is_unspecified}
    assert peers, "the browser has fetched the page"
    assert all(peer.is_loopback for peer in peers), peers


@pytest.mark.proves("real-services")
def test_closed_browser_is_gone(chromium: Browser) -> None:
    family = [p for p in living_family(os.getpid()) if "chromium" in command_name(p.pid)]
    assert family
    chromium.close()
    assert eventually(lambda: all(is_gone(process) for process in family))


def command_name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


def test_missing_chromium_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="apt-get install chromium"):
        find_chromium()

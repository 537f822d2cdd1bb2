"""The numbers on the pages are those of the JSON behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fixtures.processes import eventually
from tests.integration.playpen.conftest import plain, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from windrow.playpen.services import PlaypenProducer, PlaypenReceiver


def says(page: Page, selector: str, text: object) -> bool:
    """Whether it does, by now or after one of the next looks of the page at its service."""
    return eventually(lambda: page.locator(selector).first.inner_text() == str(text), 30.0)


def shown(page: Page, *ids: str) -> dict[str, str]:
    return {id: page.locator(f"#{id}").inner_text() for id in ids}


def texts(values: dict[str, Any], *names: str) -> dict[str, str]:
    return {name: str(values[name]) for name in names}


def watch_console(page: Page) -> list[str]:
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    return troubles


def test_page_of_the_producer_shows_its_counts_and_what_waits(
    chromium: Browser, producer: PlaypenProducer
) -> None:
    page = chromium.new_page()
    troubles = watch_console(page)
    page.goto(producer.url)
    for name in ("Batman", "<b>Robin</b>"):
        assert post(producer, "/hero/create", {"name": name}).status == 201
    stats = producer.get("/stats")
    assert says(page, "#heroes", stats["heroes"])
    counts = ("heroes", "outbox", "sync", "waiting", "dead")
    assert shown(page, *counts) == texts(stats, *counts)
    assert says(page, "#hero-rows tr:first-child td:nth-child(2)", "<b>Robin</b>"), "not as HTML"
    waiting = producer.get("/outbox?limit=10")["messages"]
    last = f"#waiting-rows tr:nth-child({len(waiting)}) td:first-child"
    assert says(page, last, waiting[-1]["id"])
    assert troubles == []
    page.get_by_role("link", name="What it can do").click()  # ends requests under way
    page.get_by_role("heading", name="POST /hero/create-sync").wait_for()


def test_page_of_the_receiver_follows_what_arrives(
    chromium: Browser, receiver: PlaypenReceiver
) -> None:
    page = chromium.new_page()
    troubles = watch_console(page)
    page.goto(receiver.url)
    assert says(page, "#state", "live")
    for id in ("page-1", "page-2", "page-1"):
        assert post(receiver, "/receive", plain(id)).status == 200
    stats = receiver.get("/stats")
    assert says(page, "#received", stats["received"])
    counts = ("received", "messages", "duplicates", "fault")
    assert shown(page, *counts) == texts(stats, *counts)
    assert says(page, "#duplicate-rows tr:first-child td:nth-child(1)", "page-1")
    assert says(page, "#duplicate-rows tr:first-child td:nth-child(3)", 2)
    newest = receiver.get("/messages?order=newest&limit=1")["messages"][0]
    assert says(page, "#message-rows tr:first-child td:first-child", newest["seq"])
    assert troubles == []
    receiver.kill()
    assert says(page, "#state", "no answer: what is shown is the last that was heard")
    receiver.restart()
    assert says(page, "#state", "live")

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from windrow.playpen.arrivals import Arrivals, Kept, Page
from windrow.playpen.messages import Message


def message(id: str, correlation: str | None = None) -> Message:
    return Message(id, "HERO_CREATED", {"name": id}, correlation)


@pytest.fixture
def arrivals(tmp_path: Path) -> Iterator[Arrivals]:
    with closing(Arrivals(tmp_path / "receiver.db").open()) as arrivals:
        yield arrivals


def keep(arrivals: Arrivals, *ids: str) -> list[Kept]:
    waiting = [arrivals.keep(message(id)) for id in ids]
    return [done.result(30.0) for done in waiting]


def test_arrivals_are_shown_in_the_order_in_which_they_came(arrivals: Arrivals) -> None:
    ids = [f"m-{number}" for number in range(1_200)]
    kept = keep(arrivals, *ids)
    assert [each.seq for each in kept] == list(range(1, 1_201))
    assert [each["id"] for each in arrivals.page(Page(limit=2_000))] == ids


def test_message_that_comes_again_is_kept_and_told_apart(arrivals: Arrivals) -> None:
    kept = keep(arrivals, "a", "b", "a", "a")
    assert [each.copy for each in kept] == [1, 1, 2, 3]
    stats = arrivals.stats()
    assert (stats["received"], stats["messages"], stats["duplicates"]) == (4, 2, 2)
    (doubled,) = arrivals.duplicates()
    assert (doubled["id"], doubled["times"]) == ("a", 3)
    assert doubled["firstReceivedAt"] <= doubled["lastReceivedAt"]


def test_what_was_kept_is_there_for_the_next_receiver(tmp_path: Path) -> None:
    for expected in (1, 2):
        with closing(Arrivals(tmp_path / "receiver.db").open()) as arrivals:
            assert [each.copy for each in keep(arrivals, "a")] == [expected]


def test_pages_go_on_behind_a_number_and_filters_leave_others_out(arrivals: Arrivals) -> None:
    keep(arrivals, "a", "b", "c")
    arrivals.keep(message("d", "request-7")).result(30.0)
    assert [each["id"] for each in arrivals.page(Page(after=1, limit=2))] == ["b", "c"]
    assert [each["id"] for each in arrivals.page(Page(correlation="request-7"))] == ["d"]
    assert [each["id"] for each in arrivals.page(Page(limit=2, newest_first=True))] == ["d", "c"]
    assert arrivals.page(Page(id="a", msg="OTHER")) == []


def test_ids_that_never_came_are_named(arrivals: Arrivals) -> None:
    keep(arrivals, "a", "c")
    assert list(arrivals.missing(["a", "b", "c", "d"])) == ["b", "d"]


def test_close_writes_what_waits(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "receiver.db").open()
    waiting = [arrivals.keep(message(f"m-{number}")) for number in range(700)]
    arrivals.close()
    assert [done.result(0).seq for done in waiting] == list(range(1, 701))


def test_inbox_keeps_a_message_once_even_within_one_commit(tmp_path: Path) -> None:
    with closing(Arrivals(tmp_path / "receiver.db", once=True).open()) as arrivals:
        kept = keep(arrivals, "a", "b", "a", "a")
        assert [each.seq for each in kept] == [1, 2, 1, 1]
        assert arrivals.stats()["received"] == 2

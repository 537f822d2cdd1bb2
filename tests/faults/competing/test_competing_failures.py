"""The failures that an outbox is for, one by one: what becomes of the hero, and of its message."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.claim_places import Place, new_place
from tests.faults.competing.bench import ROOT, competing_bench
from tests.faults.competing.writer import record_of
from tests.fixtures.relaying import wait_for

CREATE_AND_HANG = """
import os, sys, time
from tests.contract.claim_places import Place
from tests.faults.competing.writer import record_of
from windrow.outbox import Outbox

with Place(os.environ["WRITER_DSN"]).connect(autocommit=False) as connection:
    connection.cursor().execute("INSERT INTO heroes VALUES (1)")
    Outbox().stash(connection, record_of(1))
    open(sys.argv[1], "w").close()
    time.sleep(600)
"""


pytestmark = pytest.mark.proves("relay-competing")


@pytest.fixture(params=["postgresql", "mysql"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with new_place(request.param, request) as found:
        yield found


def test_crash_before_the_commit_leaves_neither_hero_nor_message(
    place: Place, tmp_path: Path
) -> None:
    place.sql("CREATE TABLE heroes (id INT)")
    environment = {**os.environ, "WRITER_DSN": place.dsn}
    service = subprocess.Popen(
        [sys.executable, "-c", CREATE_AND_HANG, str(tmp_path / "created")],
        env=environment,
        cwd=ROOT,
    )
    try:
        wait_for((tmp_path / "created").exists, "hero and message are written", 60)
    finally:
        service.kill()
        service.wait(30)
    with competing_bench(place, tmp_path) as bench:
        bench.start_receiver()
        place.stash(record_of(2))
        bench.start_relay()
        bench.wait_until_empty()
        assert [noted.number for noted in bench.arrivals()] == [2]
    assert place.sql("SELECT id FROM heroes") == []


@pytest.mark.parametrize("place", ["postgresql", "mysql", "sqlite"], indirect=True)
def test_message_is_sent_again_until_the_receiver_is_there(place: Place, tmp_path: Path) -> None:
    with competing_bench(place, tmp_path, relay__competing__max_attempts="1") as bench:
        place.stash(*map(record_of, range(20)))
        relay = bench.start_relay()
        relay.wait_for_word("circuit opened")
        bench.start_receiver()
        bench.wait_until_empty()
        assert sorted(noted.number for noted in bench.arrivals()) == list(range(20))


def test_message_that_fails_is_sent_again_and_counted(place: Place, tmp_path: Path) -> None:
    with competing_bench(place, tmp_path) as bench:
        (tmp_path / "status").write_text("500")
        bench.start_receiver()
        place.stash(record_of(1))
        bench.start_relay()
        wait_for(lambda: place.count("attempts >= 2") == 1, "attempts are counted", 60)
        (tmp_path / "status").unlink()
        bench.wait_until_empty()
        assert len(bench.arrivals()) == 1


def test_relay_that_dies_while_it_sends_leaves_the_message_to_the_next(
    place: Place, tmp_path: Path
) -> None:
    with competing_bench(place, tmp_path) as bench:
        (tmp_path / "delay").write_text("30")
        first = bench.start_relay()
        bench.start_receiver()
        first.wait_for_start()
        place.stash(record_of(1))
        bench.wait_for_arrivals(1)  # and is not answered
        first.kill()
        bench.remember(first)
        (tmp_path / "delay").unlink()
        bench.start_relay()
        bench.wait_until_empty()
        assert len(bench.arrivals()) == 2
        bench.check_ids()


def test_relay_that_dies_with_a_lock_leaves_the_message_to_the_next(
    place: Place, tmp_path: Path
) -> None:
    with competing_bench(place, tmp_path) as bench:
        first = bench.start_relay()
        bench.start_receiver()
        first.wait_for_start()
        place.stash(record_of(1))
        first.points.reach("competing.claimed")
        first.kill()
        assert bench.held_by(first) == [("key-1", 1)]
        bench.remember(first)
        bench.start_relay()
        bench.wait_until_empty()
        assert len(bench.arrivals()) == 1


def test_relay_that_dies_between_send_and_delete_doubles_one_message_and_an_inbox_none(
    place: Place, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    import psycopg

    from windrow.inbox import migrate
    from windrow.outbox.table import Table

    with (
        new_place("postgresql", request) as consumer,
        competing_bench(place, tmp_path) as bench,
    ):
        with psycopg.connect(consumer.dsn, autocommit=True) as connection:
            migrate(connection, Table.parse("inbox"))
            connection.execute("CREATE TABLE effects (number int)")
        first = bench.start_relay()
        bench.start_receiver(INBOX_DSN=consumer.dsn)
        first.wait_for_start()
        place.stash(record_of(1))
        first.points.reach("competing.sent")
        first.kill()
        bench.remember(first)
        bench.start_relay()
        bench.wait_until_empty()
        one, two = bench.arrivals()
        assert one.message_id == two.message_id
        assert consumer.sql("SELECT number FROM effects") == [(1,)]

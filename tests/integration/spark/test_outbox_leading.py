"""Who may change an outbox that is read as a queue: the one that took over last, nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.fixtures.relaying import OutboxDatabase, wait_for
from tests.integration.spark.outboxes import (
    offsets,
    only,
    opened,
    read_values,
    whole,
    write,
)
from windrow.errors import WindrowError
from windrow.outbox.errors import Fenced
from windrow.outbox.stores.postgres import PostgresStore
from windrow.outbox.stores.postgres_batches import PostgresBatches
from windrow.relay.election.postgres_lease import PostgresLease, lease_session
from windrow.spark.outbox import RowsGone, ledger
from windrow.spark.outbox.ledger import Ledger


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No relay of these tests has anything on its way."""
    monkeypatch.setattr(ledger, "RELAY_RIGHT", 0.0)


def snapshot(outbox: OutboxDatabase) -> list[object]:
    """All that a source can change."""
    with outbox.connect() as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
            for table in ("outbox", "outbox_batch", "outbox_source", "outbox_epoch")
        ]


def test_fenced_source_changes_nothing(outbox: OutboxDatabase) -> None:
    write(outbox, "a")
    with opened(outbox) as zombie:
        available = only(zombie.available())
        write(outbox, "b")
        with opened(outbox):
            before = snapshot(outbox)
            acts: list[Callable[[], object]] = [
                zombie.available,
                zombie.reach_all,
                zombie.indices,
                lambda: zombie.settled(offsets(available, 1)),
                lambda: zombie._ledger.mark(5),
                lambda: zombie._ledger.purge(1),
            ]
            for act in acts:
                with pytest.raises(Fenced):
                    act()
            assert snapshot(outbox) == before


@pytest.mark.parametrize("act", ["mark", "purge"])
def test_statement_that_waits_for_a_take_over_does_nothing_after_it(
    outbox: OutboxDatabase, act: str
) -> None:
    """It was sent by the leader, and waits while another becomes one."""
    write(outbox, "a")
    failures: list[WindrowError] = []

    def run() -> None:
        try:
            zombie._ledger.mark(5) if act == "mark" else zombie._ledger.purge(1)
        except WindrowError as error:
            failures.append(error)

    with opened(outbox) as zombie, outbox.connect() as connection:
        zombie.available()
        write(outbox, "b")
        with connection.transaction():
            connection.execute("UPDATE outbox_epoch SET epoch = epoch + 1")
            thread = threading.Thread(target=run)
            thread.start()
            wait_for(lambda: waits_for_a_lock(outbox), "the statement waits")
        before = snapshot(outbox)
        thread.join(10.0)
        assert [type(failure) for failure in failures] == [Fenced]
        assert snapshot(outbox) == before
        assert outbox.count() == 2


def waits_for_a_lock(outbox: OutboxDatabase) -> bool:
    with outbox.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
        return row == (1,)


def test_source_takes_over_from_a_relay_which_then_takes_nothing(
    outbox: OutboxDatabase, impatient: None
) -> None:
    write(outbox, "a", "b")
    with PostgresStore(outbox.dsn, outbox.table) as relay:
        relay.raise_epoch("relay")
        leader = uuid4()
        assert len(relay.read(leader, 1)) == 1
        with opened(outbox) as queue:
            values = read_values(queue, whole(only(queue.available())))
            assert values == [(0, "a"), (1, "b")]
            assert relay.read(leader, 10) == []
            assert relay.read(uuid4(), 10) == []
            with pytest.raises(Fenced):
                relay.check_fence()
            assert read_values(queue, whole(only(queue.available()))) == values


def test_relay_takes_over_from_a_source_and_what_it_leaves_keeps_its_index(
    outbox: OutboxDatabase, impatient: None
) -> None:
    write(outbox, "a", "b", "c")
    with opened(outbox) as queue:
        span = whole(only(queue.available()))
        with PostgresStore(outbox.dsn, outbox.table) as relay:
            relay.raise_epoch("relay")
            rows = relay.read(uuid4(), 10)
            assert [row.value for row in rows] == [b"a", b"b", b"c"]
            with pytest.raises(Fenced):
                queue.available()
            relay.purge([rows[0].id])
    write(outbox, "d")
    with opened(outbox, fail_on_data_loss=False) as queue, opened(outbox, leads=False) as strict:
        again = whole(only(queue.available()))
        assert again == span.part(0, 4)
        assert read_values(queue, again) == [(1, "b"), (2, "c"), (3, "d")]
        with pytest.raises(RowsGone, match="from 0 to 0 are gone"):
            read_values(strict, again)
        assert read_values(strict, again.part(1, 4)) == [(1, "b"), (2, "c"), (3, "d")]
        queue.settled(offsets(only(queue.available()), 4))
    assert outbox.count() == 0


def test_rows_in_hand_of_a_source_are_named_so_that_a_transactional_relay_sees_them(
    outbox: OutboxDatabase,
) -> None:
    """It refuses to begin where rows carry the name of a batch that its target does not know."""
    write(outbox, "a", "b")
    with opened(outbox) as queue:
        queue.available()
    with PostgresBatches(outbox.dsn, outbox.table) as relay:
        assert relay.named_rows() == (2, 1)


def test_relay_stands_by_while_a_source_is_heard_of(
    outbox: OutboxDatabase, impatient: None
) -> None:
    relay = PostgresLease(lease_session(outbox.dsn), outbox.table, "relay", lease_ttl=0.3)
    assert relay.pulse() is not None
    with opened(outbox, lease_ttl=30.0) as queue:
        assert relay.pulse() is None
        queue.available()
    leading = relay.pulse()
    assert leading is not None, "the source has resigned"
    relay.resign()
    with opened(outbox, lease_ttl=0.2) as queue:
        wait_for(lambda: relay.pulse() is not None, "the lease has run out")
        with pytest.raises(Fenced):
            queue.available()
    relay.close()


def test_lease_is_renewed_while_the_source_is_asked(outbox: OutboxDatabase) -> None:
    def expiry() -> object:
        with outbox.connect() as connection:
            return connection.execute("SELECT expires_at FROM outbox_lease").fetchone()

    with opened(outbox, lease_ttl=0.5) as queue:
        first = expiry()

        def asked() -> bool:
            queue.available()
            return expiry() != first

        wait_for(asked, "it is renewed")


def test_source_waits_for_what_a_relay_may_have_on_its_way(outbox: OutboxDatabase) -> None:
    """Its acknowledgements purge rows by their ids, whoever leads by then."""
    relay = PostgresLease(lease_session(outbox.dsn), outbox.table, "relay", lease_ttl=20.0)
    source = Ledger(outbox.dsn, outbox.table)
    assert source.take_over("first") == 0.0
    assert source.take_over("second") == 0.0, "a source has nothing on its way"
    source.resign()
    assert relay.pulse() is not None
    assert 15.0 < source.take_over("third") <= 20.0
    source.resign()
    assert relay.pulse() is not None
    relay.resign()
    assert source.take_over("fourth") == ledger.RELAY_RIGHT
    source.close()
    relay.close()

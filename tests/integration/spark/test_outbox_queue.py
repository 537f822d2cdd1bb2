"""An outbox as a queue, on a real PostgreSQL: indices that stay, and a purge of what is settled."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.spark.outboxes import (
    offsets,
    only,
    opened,
    read_values,
    whole,
    write,
)
from windrow import Outbox, Record
from windrow.graph.delivery_errors import IncarnationChanged, SourceBehind, SourceTrimmed
from windrow.graph.positions import SourceOffsets, SourcePartition
from windrow.outbox.errors import WrongSchema
from windrow.spark.columns import message_schema
from windrow.spark.outbox import DividedOutbox, OutboxQueue, RowsGone
from windrow.spark.outbox.queue import READ_ROWS


def test_message_has_everything_that_was_stashed_and_its_position(outbox: OutboxDatabase) -> None:
    at = datetime(2024, 5, 6, 7, 8, 9, 123000, UTC)
    record = Record("orders", "k", b"\x00\xff", {"a": "1", "b": None}, timestamp=at)
    with outbox.connect() as connection, connection.transaction():
        Outbox().stash(connection, record)
        Outbox().stash(connection, Record("payments"))
    with opened(outbox) as queue:
        available = only(queue.available())
        assert (available.source, available.partition) == ("orders", 0)
        assert (available.first, available.end) == (0, 2)
        (batch,) = queue.read(whole(available))
    assert batch.schema == message_schema()
    first, second = batch.to_pylist()
    assert first == {
        "_source": "orders",
        "_incarnation": available.incarnation,
        "_partition": 0,
        "_index": 0,
        "key": b"k",
        "value": b"\x00\xff",
        "headers": [{"name": "a", "value": b"1"}, {"name": "b", "value": None}],
        "topic": "orders",
        "time": at,
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])
    assert second["topic"] == "payments"
    assert second["time"] is not None


def test_transaction_that_commits_late_gets_the_next_index(outbox: OutboxDatabase) -> None:
    """Its ids are below those that were read: by ids it would be passed over, or read twice."""
    with outbox.connect() as late, late.transaction():
        Outbox().stash(late, Record("orders", "late", "late"))
        write(outbox, "early")
        with opened(outbox) as queue:
            before = only(queue.available())
            assert read_values(queue, whole(before)) == [(0, "early")]
            queue.settled(offsets(before, before.end))
    with opened(outbox) as queue:
        after = only(queue.available())
        assert (after.first, after.end) == (1, 2)
        assert read_values(queue, whole(after)) == [(1, "late")]


def test_reader_by_ids_would_pass_a_late_transaction_over(outbox: OutboxDatabase) -> None:
    """The control of the test above: the same story, read as if the id were the index."""
    seen: list[str] = []

    def read_on(after: int) -> int:
        with outbox.connect() as connection:
            rows = connection.execute(
                "SELECT id, kafka_value FROM outbox WHERE id > %s ORDER BY id", (after,)
            ).fetchall()
        seen.extend(value for _, value in rows)
        return max((identifier for identifier, _ in rows), default=after)

    with outbox.connect() as late, late.transaction():
        Outbox().stash(late, Record("orders", "late", "late"))
        write(outbox, "early")
        offset = read_on(0)
    read_on(offset)
    assert seen == ["early"], "the late one is lost"


def test_only_what_is_settled_is_purged(outbox: OutboxDatabase) -> None:
    with opened(outbox) as queue:
        for value in "abc":
            write(outbox, value)
            queue.available()
        available = only(queue.available())
        assert outbox.count() == 3
        queue.settled(offsets(available, 2))
        assert outbox.count() == 1
        left = only(queue.available())
        assert (left.first, left.end) == (2, 3)
        assert read_values(queue, whole(left)) == [(2, "c")]
        queue.settled(offsets(available, 1))  # settled before: nothing more
        with pytest.raises(SourceBehind):  # not of these rows
            queue.settled(offsets(available, 99))
        assert outbox.count() == 1
        queue.settled(offsets(available, 3))
        assert outbox.count() == 0
        write(outbox, "d")
        assert read_values(queue, whole(only(queue.available()))) == [(3, "d")]


def test_batch_that_is_settled_in_part_stays_whole(outbox: OutboxDatabase) -> None:
    write(outbox, "a", "b", "c")
    with opened(outbox) as queue:
        available = only(queue.available())
        queue.settled(offsets(available, 2))
        assert outbox.count() == 3
        assert read_values(queue, whole(available)) == [(0, "a"), (1, "b"), (2, "c")]


def test_what_was_marked_is_found_again_under_its_index_without_a_checkpoint(
    outbox: OutboxDatabase,
) -> None:
    write(outbox, "a", "b")
    with opened(outbox) as queue:
        queue.available()
    write(outbox, "c")
    with opened(outbox) as queue:
        available = only(queue.available())
        assert read_values(queue, whole(available)) == [(0, "a"), (1, "b"), (2, "c")]


def test_whoever_only_looks_changes_nothing(outbox: OutboxDatabase) -> None:
    write(outbox, "a")
    with opened(outbox) as leader, opened(outbox, leads=False) as reader:
        assert only(reader.available()).end == 0
        assert reader.waiting() == 1
        available = only(leader.available())
        assert only(reader.available()) == available
        assert reader.waiting() == 0
        reader.settled(offsets(available, 1))
        assert read_values(reader, whole(available)) == [(0, "a")]
        assert only(leader.available()) == available


def test_no_more_rows_are_marked_ahead_than_asked_for(outbox: OutboxDatabase) -> None:
    write(outbox, *"abcdefgh")
    with opened(outbox, rows_ahead=3) as queue:
        assert [only(queue.available()).end for _ in range(2)] == [3, 3]
        available = only(queue.available())
        queue.settled(offsets(available, 1))
        assert only(queue.available()).end == 4
        assert queue.waiting() == 4
        assert queue.reach_all().end == 8
    with opened(outbox, rows_ahead=3) as queue:
        write(outbox, *"ijkl")
        # What was found may have been delivered already, so it is not in the way.
        assert only(queue.available()).end == 11


def test_keys_topics_and_outboxes_on_hold_are_not_taken(outbox: OutboxDatabase) -> None:
    write(outbox, "a", key="held")
    write(outbox, "b")
    hold = "INSERT INTO outbox_hold (what, name, reason) VALUES (%s, %s, 'paused')"
    with opened(outbox) as queue, outbox.connect() as connection:
        connection.execute(hold, ("relay", ""))
        assert only(queue.available()).end == 0
        connection.execute("DELETE FROM outbox_hold")
        connection.execute(hold, ("key", "held"))
        assert read_values(queue, whole(only(queue.available()))) == [(0, "b")]
        connection.execute("DELETE FROM outbox_hold")
        assert read_values(queue, whole(only(queue.available()))) == [(0, "b"), (1, "a")]


def test_parts_of_a_span_keep_each_key_whole_and_in_order(outbox: OutboxDatabase) -> None:
    written = [(f"key-{n % 7}", f"{n % 7}:{n}") for n in range(100)]
    outbox.write("orders", written)
    with opened(outbox) as queue:
        span = whole(only(queue.available()))
        parts = [read_values(queue, span, part, 3) for part in range(3)]
    assert sorted(row for part in parts for row in part) == [
        (index, value) for index, (_, value) in enumerate(written)
    ]
    assert all(part == sorted(part) for part in parts)
    keys = [{value.split(":")[0] for _, value in part} for part in parts]
    assert sum(map(len, keys)) == 7
    assert sum(map(bool, keys)) > 1


def test_long_span_comes_in_batches_of_bounded_size(outbox: OutboxDatabase) -> None:
    count = READ_ROWS + 500
    outbox.write("orders", [("k", str(n)) for n in range(count)])
    with opened(outbox) as queue:
        queue.reach(700)  # so that pieces meet the bounds of batches in many ways
        queue.reach(2_100)
        span = whole(only(queue.available()))
        assert [len(batch) for batch in queue.read(span)] == [READ_ROWS, 500]
        assert read_values(queue, span) == [(n, str(n)) for n in range(count)]
        assert read_values(queue, span.part(650, 750))[0] == (650, "650")


def test_what_is_purged_cannot_be_read(outbox: OutboxDatabase) -> None:
    with opened(outbox) as queue:
        for value in "ab":
            write(outbox, value)
            available = only(queue.available())
        queue.settled(offsets(available, 1))
        with pytest.raises(SourceTrimmed, match='source "orders" partition 0 begins at 1'):
            read_values(queue, whole(available))
        for part in range(2):
            with pytest.raises(SourceTrimmed):
                read_values(queue, whole(available), part, 2)


def test_what_never_had_an_index_cannot_be_read(outbox: OutboxDatabase) -> None:
    with opened(outbox) as queue:
        span = whole(only(queue.available())).part(0, 5)
        with pytest.raises(SourceBehind, match="ends at 0, but messages up to 5"):
            read_values(queue, span)


def test_offsets_of_another_incarnation_are_refused(outbox: OutboxDatabase) -> None:
    write(outbox, "a")
    with opened(outbox) as queue:
        available = only(queue.available())
        with outbox.connect() as connection:
            connection.execute("UPDATE outbox_source SET incarnation = gen_random_uuid()")
        with pytest.raises(IncarnationChanged):
            read_values(queue, whole(available))
        with pytest.raises(IncarnationChanged):
            queue.settled(offsets(available, 1))
        queue.settled(SourceOffsets.of({SourcePartition("other", "x", 0): 5}))
    assert outbox.count() == 1


def test_row_that_somebody_has_deleted_is_not_passed_over_in_silence(
    outbox: OutboxDatabase,
) -> None:
    write(outbox, "a", "b", "c")
    with opened(outbox) as queue, opened(outbox, leads=False, fail_on_data_loss=False) as lax:
        span = whole(only(queue.available()))
        with outbox.connect() as connection:
            connection.execute("DELETE FROM outbox WHERE kafka_value = 'b'")
        with pytest.raises(RowsGone, match=r"1 rows with indices from 1 to 1 are gone"):
            read_values(queue, span)
        for part in range(2):
            with pytest.raises(RowsGone):
                read_values(queue, span, part, 2)
        assert read_values(lax, span) == [(0, "a"), (2, "c")]
        queue.settled(SourceOffsets.ends([span]))
    assert outbox.count() == 0


def test_outbox_without_a_place_for_indices_says_what_to_run(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection:
        connection.execute("DROP TABLE outbox_batch")
    with pytest.raises(WrongSchema, match="run: windrow migrate"), opened(outbox):
        pass
    with outbox.connect() as connection:
        connection.execute("DROP TABLE outbox")
    with pytest.raises(WrongSchema, match="run: windrow init"), opened(outbox):
        pass


def test_divided_outbox_is_refused_and_its_relays_lead_on(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection:
        connection.execute("UPDATE outbox_epoch SET shards = 3, epoch = 7")
        with pytest.raises(DividedOutbox, match="relays of 3 shards"), opened(outbox):
            pass
        row = connection.execute("SELECT epoch FROM outbox_epoch").fetchone()
        assert row == (7,)


def test_table_of_goharvest_is_read_as_it_is(database: str) -> None:
    from windrow.outbox.schema import migrate, migrations
    from windrow.outbox.table import Table

    goharvest = OutboxDatabase(database, Table("out", "my schema"))
    with goharvest.connect() as connection:
        connection.execute('CREATE SCHEMA "my schema"')
        connection.execute(migrations()[0].statement(goharvest.table))
        migrate(connection, goharvest.table, companions_only=True)
    write(goharvest, "a")
    with opened(goharvest) as queue:
        available = only(queue.available())
        assert read_values(queue, whole(available)) == [(0, "a")]
        queue.settled(offsets(available, 1))
    assert goharvest.count() == 0


def test_queue_is_opened_from_the_place_that_a_graph_declares(outbox: OutboxDatabase) -> None:
    from windrow.config import Dsn
    from windrow.spark.outbox import open_outbox
    from windrow.spark.places import Connections, Place

    write(outbox, "a", "b")
    connections = Connections(postgres_dsn=Dsn(outbox.dsn))
    queue = open_outbox(Place("q", "outbox", "outbox", None, {"rows_ahead": 1}, connections))
    assert isinstance(queue, OutboxQueue)
    queue.lead("graph/processor")
    assert only(queue.available()).end == 1
    queue.close()
    queue.close()

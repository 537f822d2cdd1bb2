"""What a source plans, without Spark around it: offsets, limits, ends and parts."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from tests.integration.spark.filling import STORED, JournalKit, small
from windrow.embedded.broker import Broker
from windrow.graph.delivery_errors import IncarnationChanged, SourceTrimmed
from windrow.graph.positions import SourceOffsets, Span
from windrow.journal.message.record import Record
from windrow.spark.formats.errors import InputRemoved
from windrow.spark.formats.journal import source_settings
from windrow.spark.formats.source import QueueBatchReader, QueueStreamReader, merged_cuts

ALL = ReadAllAvailable()


@pytest.fixture
def orders(queue_broker: Broker) -> JournalKit:
    kit = JournalKit(queue_broker, 2)
    kit.create()
    return kit


@pytest.fixture
def prices(queue_broker: Broker) -> JournalKit:
    kit = JournalKit(queue_broker, None)
    kit.create()
    return kit


def options_of(kits: dict[str, JournalKit], **options: Any) -> dict[str, str]:
    (address,) = {kit.place.connections.journal.address for kit in kits.values()}
    places = {name: kit.place.address for name, kit in kits.items()}
    given = {name: str(value) for name, value in options.items()}
    return {"address": address, "inputs": json.dumps(places), **given}


def stream(kits: dict[str, JournalKit], **options: Any) -> QueueStreamReader:
    return QueueStreamReader(source_settings(options_of(kits, **options)))


def counts(offsets: dict[str, Any]) -> dict[tuple[str, int], int]:
    entries = SourceOffsets.from_json(offsets).entries
    return {(origin.source, origin.partition): index for origin, index in entries}


def rows_between(reader: QueueStreamReader, start: Any, end: Any) -> list[tuple[str, int, int]]:
    """As tasks read them: each from a copy of the reader."""
    copy = pickle.loads(pickle.dumps(reader))
    return sorted(
        (row["_source"], row["_partition"], row["_index"])
        for partition in reader.partitions(start, end)
        for batch in copy.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    )


def test_new_query_begins_where_it_is_told_to(prices: JournalKit) -> None:
    prices.fill(small(5))
    kits = {"prices": prices}
    assert counts(stream(kits).initialOffset()) == {("prices", 0): 0}
    latest = stream(kits, startingOffsets="latest").initialOffset()
    assert counts(latest) == {("prices", 0): 5}
    latest["prices"]["0"]["index"] = 3
    given = stream(kits, startingOffsets=json.dumps(latest))
    assert counts(given.initialOffset()) == {("prices", 0): 3}
    latest["prices"]["0"]["incarnation"] = "another"
    with pytest.raises(IncarnationChanged):
        stream(kits, startingOffsets=json.dumps(latest)).initialOffset()


def test_batch_takes_no_more_than_its_limit_and_a_share_of_every_input(
    orders: JournalKit, prices: JournalKit
) -> None:
    orders.fill(small(10), 0)
    orders.fill(small(2), 1)
    prices.fill(small(10))
    reader = stream({"orders": orders, "prices": prices}, maxRowsPerBatch=9)
    assert reader.getDefaultReadLimit() == ReadMaxRows(9)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(9))
    taken = counts(end)
    assert sum(taken.values()) == 9
    assert all(taken.values()), "nobody waits for the others"
    assert len(rows_between(reader, start, end)) == 9
    everything = counts(reader.latestOffset(start, ALL))
    assert sum(everything.values()) == 22, "whoever asks for all gets all, whatever the options say"
    assert reader.reportLatestOffset() == reader.latestOffset(start, ALL)


def test_limit_of_bytes_counts_what_messages_take(prices: JournalKit) -> None:
    prices.fill([Record(value=bytes(1000)) for _ in range(100)])
    reader = stream({"prices": prices}, maxBytesPerBatch=10_000)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(10_000)
    end = counts(reader.latestOffset(reader.initialOffset(), ReadMaxBytes(10_000)))
    assert 8 <= end["prices", 0] <= 10
    assert stream({"prices": prices}).getDefaultReadLimit() == ALL


def test_run_over_what_is_available_now_ends_there(prices: JournalKit) -> None:
    prices.fill(small(5))
    reader = stream({"prices": prices}, maxRowsPerBatch=3)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    prices.fill(small(5, 5))
    first = reader.latestOffset(start, ReadMaxRows(3))
    second = reader.latestOffset(first, ReadMaxRows(3))
    assert [counts(one)["prices", 0] for one in (first, second)] == [3, 5]
    assert reader.latestOffset(second, ReadMaxRows(3)) == second
    assert counts(reader.reportLatestOffset() or {}) == {("prices", 0): 10}


def test_nothing_new_is_no_batch(prices: JournalKit) -> None:
    prices.fill(small(1))
    reader = stream({"prices": prices})
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []


def test_input_that_is_added_is_shown_before_it_is_read(
    queue_broker: Broker, prices: JournalKit
) -> None:
    """A replay knows the offsets alone, and must not read what was gone when it was added."""
    added = JournalKit(queue_broker, None, **STORED)
    added.create()
    for begin in range(0, 40, 10):
        added.fill([Record(value=bytes(600)) for n in range(begin, begin + 10)])
    added.trim()
    prices.fill(small(2))
    start = stream({"prices": prices}).initialOffset()
    reader = stream({"added": added, "prices": prices})
    first = reader.latestOffset(start, ALL)
    began = counts(first)["added", 0]
    assert 0 < began < 40
    assert rows_between(reader, start, first) == [("prices", 0, 0), ("prices", 0, 1)]
    second = reader.latestOffset(first, ALL)
    assert rows_between(reader, first, second) == [("added", 0, n) for n in range(began, 40)]


def test_input_that_is_removed_keeps_its_place(orders: JournalKit, prices: JournalKit) -> None:
    prices.fill(small(4))
    both = {"orders": orders, "prices": prices}
    whole = stream(both)
    start = whole.initialOffset()
    end = whole.latestOffset(start, ALL)
    without = stream({"orders": orders})
    orders.fill(small(3), 1)
    later = without.latestOffset(end, ALL)
    assert counts(later)["prices", 0] == 4
    assert rows_between(without, end, later) == [("orders", 1, n) for n in range(3)]
    prices.fill(small(1, 4))
    again = stream(both)
    assert rows_between(again, later, again.latestOffset(later, ALL)) == [("prices", 0, 4)]
    with pytest.raises(InputRemoved, match='reads "prices", which the query no longer has'):
        without.partitions(start, end)


def test_what_is_gone_or_another_one_is_refused(queue_broker: Broker) -> None:
    kit = JournalKit(queue_broker, None, **STORED)
    kit.create()
    for begin in range(0, 40, 10):
        kit.fill([Record(value=bytes(600)) for n in range(begin, begin + 10)])
    reader = stream({"prices": kit})
    start = reader.initialOffset()
    kit.trim()
    with pytest.raises(SourceTrimmed):
        reader.latestOffset(start, ALL)
    start["prices"]["0"] = {"incarnation": "of before", "index": 0}
    with pytest.raises(IncarnationChanged):
        reader.latestOffset(start, ALL)


def test_batch_reads_up_to_its_end(prices: JournalKit) -> None:
    prices.fill(small(10))
    kits = {"prices": prices}
    end = stream(kits, startingOffsets="latest").initialOffset()
    end["prices"]["0"]["index"] = 7
    options = options_of(kits, endingOffsets=json.dumps(end), rowsPerPartition=3)
    reader = QueueBatchReader(source_settings(options))
    prices.fill(small(5, 10))
    spans = [partition.span for partition in reader.partitions()]  # type: ignore[attr-defined]
    assert [(span.start, span.end) for span in spans] == [(0, 3), (3, 6), (6, 7)]


@pytest.mark.parametrize(
    ("fragments", "most", "edges"),
    [
        ((), 100, [0, 90]),
        ((), 40, [0, 40, 80, 90]),
        ((30, 60), 40, [0, 30, 60, 90]),
        ((3, 6, 9, 12), 40, [0, 40, 80, 90]),
        ((35, 36), 40, [0, 35, 75, 90]),
    ],
)
def test_parts_begin_at_fragments_and_are_neither_too_long_nor_too_many(
    fragments: tuple[int, ...], most: int, edges: list[int]
) -> None:
    assert merged_cuts(Span("s", "i", 0, 0, 90), fragments, most) == edges

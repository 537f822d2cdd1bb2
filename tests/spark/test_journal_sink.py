"""The format windrow-journal as a sink: each row once, numbered without a gap."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.sink_streams import Numbered
from windrow.config.journal import Journal
from windrow.embedded.broker import Broker
from windrow.journal.client.sync import connect
from windrow.journal.message.record import Record, decode_records
from windrow.spark.places import Connections, Place
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.create import ensure_journals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker.start() as broker:
        yield broker
        close_clients()


def records(broker: Broker, journal: str) -> list[Record]:
    with connect(broker.address) as client:
        return decode_records(client.read(journal))


def test_stream_is_written_once_over_a_replay(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    """To two partitions, each by the one task that has all of its rows."""
    connections = Connections(journal=Journal(address=broker.address))
    ensure_journals([Place("prices", "journal", "prices", 2, {}, connections)])
    numbered = Numbered(spark, tmp_path)
    options = {"journal": "prices", "partitions": "2", "uid": "u", "address": broker.address}
    frame = numbered.frame.selectExpr("*", "CAST(_index % 2 AS int) AS _target")
    frame = frame.repartition(2, "_target")
    numbered.add(range(5))
    numbered.add(range(5, 8))
    numbered.run(frame, "windrow-journal", options)
    numbered.forget_last_commit()
    numbered.add(range(8, 10))
    numbered.run(frame, "windrow-journal", options)
    for target in range(2):
        found = records(broker, f"prices/part-00{target}")
        ids = [json.loads(record.value or b"")["id"] for record in found]
        assert ids == list(range(target, 10, 2))
        assert [record.seq for record in found] == list(range(5))
        assert [record.key for record in found] == [b"k%d" % index for index in ids]
        assert len({record.uuid for record in found}) == 5
        assert {record.time for record in found} == {1767323045 * 1_000_000}

"""The format windrow-kafka as a sink: each row once for readers of committed records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.relaying import consume
from tests.spark.sink_streams import Numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def markers(kafka: str) -> Iterator[str]:
    from confluent_kafka.admin import AdminClient

    name = f"markers-{token_hex(6)}"
    yield name
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([name])[name].result(10.0)


def test_stream_is_written_once_over_a_replay(
    spark: SparkSession, tmp_path: Path, kafka: str, topic: str, markers: str
) -> None:
    numbered = Numbered(spark, tmp_path)
    options = {
        "kafka.bootstrap.servers": kafka,
        "topic": topic,
        "markerTopic": markers,
        "uid": "pricing",
    }
    frame = numbered.frame.repartition(1)
    numbered.add(range(5))
    numbered.add(range(5, 8))
    numbered.run(frame, "windrow-kafka", options)
    numbered.forget_last_commit()
    numbered.add([8])
    numbered.run(frame, "windrow-kafka", options)
    seen = consume(kafka, topic)
    assert [json.loads(one.value or "")["id"] for one in seen] == list(range(9))
    assert [dict(one.headers)["windrow-seq"] for one in seen] == [b"%d" % n for n in range(9)]
    assert {one.timestamp for one in seen} == {1767323045 * 1_000}

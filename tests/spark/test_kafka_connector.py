"""Spark reads and writes Kafka through its own connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest

from windrow.embedded.kafka import create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def output_topic(kafka: str) -> Iterator[str]:
    name = f"test-{token_hex(6)}"
    create_topic(kafka, name, partitions=2)
    yield name
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([name])[name].result(10)


def read_options(kafka: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


def write(frame: DataFrame, kafka: str, topic: str) -> None:
    options = {"kafka.bootstrap.servers": kafka, "topic": topic}
    frame.write.format("kafka").options(**options).save()


def read_values(spark: SparkSession, kafka: str, topic: str) -> list[str]:
    frame = spark.read.format("kafka").options(**read_options(kafka, topic)).load()
    return sorted(row.value for row in frame.selectExpr("CAST(value AS string)").collect())


@pytest.mark.proves("real-services")
def test_batch_written_by_spark_is_read_by_spark(
    spark: SparkSession, kafka: str, topic: str
) -> None:
    write(spark.range(5).selectExpr("CAST(id AS string) AS value"), kafka, topic)
    assert read_values(spark, kafka, topic) == ["0", "1", "2", "3", "4"]


def test_spark_does_not_see_what_a_transaction_took_back(
    spark: SparkSession, kafka: str, topic: str
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    producer.flush(20)
    producer.abort_transaction(20)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(20)
    assert read_values(spark, kafka, topic) == ["committed"]


def test_stream_carries_on_where_its_checkpoint_is(
    spark: SparkSession, kafka: str, topic: str, output_topic: str, tmp_path: Path
) -> None:
    def run_to_the_end() -> None:
        source = spark.readStream.format("kafka").options(**read_options(kafka, topic)).load()
        options = {"kafka.bootstrap.servers": kafka, "topic": output_topic}
        query = (
            source.selectExpr("upper(CAST(value AS string)) AS value")
            .writeStream.format("kafka")
            .options(**options, checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    write(spark.sql("SELECT 'one' AS value"), kafka, topic)
    run_to_the_end()
    assert read_values(spark, kafka, output_topic) == ["ONE"]
    write(spark.sql("SELECT 'two' AS value"), kafka, topic)
    run_to_the_end()
    assert read_values(spark, kafka, output_topic) == ["ONE", "TWO"]

"""From what a source is called to the source; nothing is connected before it is read."""

from __future__ import annotations

from pathlib import Path

from windrow.config import Config, Dsn
from windrow.extras import require
from windrow.relay.assembly import kafka_properties
from windrow.verify.compare import Source
from windrow.verify.grammar import (
    FileSpec,
    JournalSpec,
    KafkaSpec,
    ReceiverSpec,
    SourceSpec,
    SqlSpec,
    TableSpec,
)


def open_source(spec: SourceSpec, config: Config, dsn: Dsn | None = None) -> Source:
    """The source that a text names.

    Args:
        spec: The text, parsed.
        config: Where databases, Kafka and brokers are.
        dsn: Another database than the configured one.

    Raises:
        MissingExtra: What it takes to read it is not installed.
        UsageError: It is not possible.
    """
    require("pyarrow")
    match spec:
        case SqlSpec() | TableSpec():
            return _database(spec, config, dsn or config.database.dsn)
        case FileSpec():
            return _file(spec)
        case KafkaSpec():
            require("confluent_kafka")
            from windrow.verify.sources.kafka import KafkaTopic

            return KafkaTopic(kafka_properties(config), spec.topic, spec.key, spec.id, spec.text)
        case JournalSpec():
            require("grpc")
            require("google.protobuf")
            from windrow.verify.sources.journal import JournalRecords

            return JournalRecords(config.journal, spec)
        case ReceiverSpec():
            from windrow.verify.sources.receiver import Receiver

            return Receiver(spec.url, spec.key, spec.id, spec.text)


def _database(spec: SqlSpec | TableSpec, config: Config, dsn: Dsn) -> Source:
    from windrow.verify.sources.queries import query_of

    query, timeout = query_of(spec, dsn.system), config.database.connect_timeout
    match dsn.system:
        case "postgresql":
            require("psycopg")
            from windrow.verify.sources.postgres import PostgresQuery

            return PostgresQuery(dsn, query, spec.text, timeout)
        case "mysql":
            require("pymysql")
            from windrow.verify.sources.cursors import MysqlQuery

            return MysqlQuery(dsn, query, spec.text, timeout)
        case "sqlite":
            from windrow.verify.sources.cursors import SqliteQuery

            return SqliteQuery(dsn, query, spec.text)


def _file(spec: FileSpec) -> Source:
    if spec.key is None or spec.id is None:
        from windrow.verify.sources.records import LedgerSource

        return LedgerSource(Path(spec.path), spec.text)
    from windrow.verify.sources.jsonl import JsonLines

    return JsonLines(spec.path, spec.key, spec.id, spec.text)

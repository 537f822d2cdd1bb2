"""Which INSERT stashes these records in MySQL or SQLite? Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from windrow.outbox.dialects.names import SQLITE, Dialect
from windrow.outbox.record import Record
from windrow.outbox.statement import Statement
from windrow.outbox.table import Table

_COLUMNS = (
    "kafka_topic, kafka_key, kafka_value, kafka_value_bytes, kafka_header_keys,"
    " kafka_header_values, kafka_partition, kafka_timestamp"
)
MAX_RECORDS = 500
MAX_BYTES = 1024 * 1024
"""How much one statement carries: bytes are twice as long when PyMySQL has escaped them, and a
server takes four megabytes at a time if nobody has told it otherwise."""


def insert_statement(dialect: Dialect, table: Table, records: Sequence[Record]) -> Statement:
    """One INSERT of all these records, whose ids follow each other in the order of the records."""
    row = f"({dialect.now}, {', '.join([dialect.mark] * 8)})"
    rows = ", ".join([row] * len(records))
    sql = f"INSERT INTO {dialect.parametrised(table)} (create_time, {_COLUMNS}) VALUES {rows}"
    return Statement(sql, tuple(value for record in records for value in _values(dialect, record)))


def _values(dialect: Dialect, record: Record) -> tuple[Any, ...]:
    value = record.value
    return (
        record.topic,
        record.key,
        value if isinstance(value, str) else None,
        value if isinstance(value, bytes) else None,
        json.dumps([name for name, _ in record.headers]),
        json.dumps([text for _, text in record.headers]),
        record.partition,
        None if record.timestamp is None else _moment(dialect, record.timestamp),
    )


def _moment(dialect: Dialect, moment: datetime) -> str:
    """As the column keeps it: UTC, in SQLite to the millisecond as its own clock has it."""
    precision = "milliseconds" if dialect is SQLITE else "microseconds"
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", precision)

"""Which SQL fits this outbox? Pure: names and columns in, statements out."""

from __future__ import annotations

from collections.abc import Mapping

from windrow.outbox.queries import load_queries
from windrow.outbox.table import Columns, Table, in_format, quote, quote_text

QUERIES = load_queries("windrow.outbox.stores", "postgres.sql")

DEAD_FIELDS = {
    "id": "id",
    "created": "create_time",
    "topic": "kafka_topic",
    "key": "kafka_key",
    "value": "kafka_value",
    "value_bytes": "kafka_value_bytes",
    "header_keys": "kafka_header_keys",
    "header_values": "kafka_header_values",
    "partition": "kafka_partition",
    "timestamp": "kafka_timestamp",
}
"""Where a dead letter keeps what, whatever the outbox calls it."""


CLAIM_INDEXES = ("untried", "topics", "again")
"""What competing relays find their rows by; see ``windrow.outbox.claims.postgres``."""

UNSHARDED = {"mine": "", "plan": ""}
PLAN_IN_FENCE = " AND generation = %(generation)s AND shards = %(shards)s"


def build_statements(
    table: Table,
    columns: Columns,
    *,
    is_sharded: bool = False,
    queries: Mapping[str, str] = QUERIES,
) -> dict[str, str]:
    """Every statement for that table, ready but for its parameters.

    Where one leader has the whole table, no statement says a word about shards.

    Args:
        table: The outbox.
        columns: Which of its columns holds what.
        is_sharded: Whether there are several leaders.
        queries: The relay's, or those of another reader of outboxes.
    """
    names = _expressions(columns)
    kept = {name: field for name, field in DEAD_FIELDS.items() if name in names}
    names |= {
        "outbox": table.sql,
        "epoch": table.companion("_epoch"),
        "hold": table.companion("_hold"),
        "dead": table.companion("_dead"),
        "lease": table.companion("_lease"),
        "source": table.companion("_source"),
        "batch": table.companion("_batch"),
        "dead_fields": ", ".join(kept.values()),
        "dead_values": ", ".join(names[name] for name in kept),
        "fields": _fields(columns, names),
        "micros": _micros(names, columns),
        "filters": "{filters}",
        "known": "{known}",
        "attempts": names.get("attempts", "attempts"),
        "last_error": names.get("last_error", "last_error"),
    }
    names = {name: in_format(text) for name, text in names.items()}
    names["free"] = QUERIES["free"].format(**names)
    mine = QUERIES["mine"].format(**names)
    names |= {"mine": f"{mine} AND ", "plan": PLAN_IN_FENCE} if is_sharded else UNSHARDED
    names["part"] = mine
    return {name: query.format(**names) for name, query in queries.items()}


def unshare_statement(table: Table) -> str:
    """What a person runs to take an outbox from competing relays, with what only they need."""
    indexes = ", ".join(table.companion(f"_{name}") for name in CLAIM_INDEXES)
    return (
        f"DELETE FROM {table.companion('_hold')} WHERE what = 'relay' AND name = 'competing';"
        f" DROP INDEX IF EXISTS {indexes}"
    )


def exclusion(columns: Columns) -> str:
    """A filter that leaves out the keys in ``%(excluded)s``; a row without a key stays in."""
    key = in_format(quote(columns.key))
    return f"AND ({key} IS NULL OR {key} <> ALL (%(excluded)s::text[]))"


def _expressions(columns: Columns) -> dict[str, str]:
    """What stands for each column in a statement: its quoted name, or what is made of several."""
    names = {name: quote(column) for name, column in columns.named.items()}
    names.setdefault("created", "now()")
    if columns.topic_prefix:
        names["topic"] = f"({quote_text(columns.topic_prefix)} || {names['topic']})"
    if columns.constant_headers:
        keys = ", ".join(map(quote_text, columns.constant_headers))
        values = ", ".join(f"{quote(column)}::text" for column in columns.constant_headers.values())
        for name, elements in (("header_keys", keys), ("header_values", values)):
            array = f"ARRAY[{elements}]::text[]"
            names[name] = f"({names[name]} || {array})" if name in names else array
    return names


def _fields(columns: Columns, names: dict[str, str]) -> str:
    """What a read returns: all of ``Marked``, in its order."""
    match columns.value, columns.value_bytes:
        case None, _:
            value = names["value_bytes"]
        case _, None:
            value = f"{names['value']}::varchar"
        case _:
            # The text as it would be sent, in our own encoding: converting it takes a look at
            # every byte.
            value = f"COALESCE({names['value_bytes']}, textsend({names['value']}))"
    millis = "NULL::int8"
    if columns.timestamp:
        millis = f"(extract(epoch FROM {names['timestamp']}) * 1000)::int8"
    fields = [
        names["id"],
        f"{names['topic']}::text",
        f"{names['key']}::text",
        value,
        names.get("header_keys", "NULL::text[]"),
        names.get("header_values", "NULL::text[]"),
        names.get("partition", "NULL::int4"),
        millis,
        names.get("attempts", "0"),
    ]
    return ", ".join(fields)


def _micros(names: dict[str, str], columns: Columns) -> str:
    """When a record came to be, in microseconds since 1970: the same on every read."""
    times = [names[name] for name in ("timestamp", "created") if getattr(columns, name)]
    if not times:
        return "NULL::int8"
    return f"(extract(epoch FROM COALESCE({', '.join(times)})) * 1000000)::int8"

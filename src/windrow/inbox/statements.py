"""The SQL of claims and of their end, for each database. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from windrow.inbox.errors import InvalidMessageId
from windrow.outbox.dialects.names import MYSQL, SQLITE, Dialect
from windrow.outbox.statement import ParamStyle, mark_of
from windrow.outbox.table import Table, in_format

System = Literal["postgresql", "mysql", "sqlite"]

LONGEST_ID = 512
LONGEST_CONSUMER = 120
"""In bytes: more would not fit into every database's index."""


def checked_id(message_id: str) -> str:
    """The id, if every database can hold it.

    Raises:
        InvalidMessageId: It is empty, too long, or holds what text cannot.
    """
    return _checked(message_id, LONGEST_ID)


def checked_consumer(consumer: str) -> str:
    """The consumer's name, likewise; it may be empty.

    Raises:
        InvalidMessageId: It is too long, or holds what text cannot.
    """
    return _checked(consumer, LONGEST_CONSUMER) if consumer else consumer


def _checked(text: str, longest: int) -> str:
    if not isinstance(text, str) or not text:
        raise InvalidMessageId(str(text), "is not a text of at least one character")
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidMessageId(repr(text), "holds a lone surrogate") from None
    if length > longest:
        raise InvalidMessageId(text, f"is longer than {longest} bytes")
    if "\x00" in text:
        raise InvalidMessageId(text, "holds the character NUL")
    return text


@lru_cache(maxsize=64)
def claim_sql(table: Table, style: ParamStyle) -> str:
    """PostgreSQL: gives a row if the claim is ours. Waits for whoever is about to claim the same.

    Parameters: consumer, message id.
    """
    inbox = in_format(table.sql) if "format" in style else table.sql
    marks = f"{mark_of(1, style)}, {mark_of(2, style)}"
    return (
        f"INSERT INTO {inbox} (consumer, message_id) VALUES ({marks})"
        " ON CONFLICT DO NOTHING RETURNING 1"
    )


def plain_claim_sql(dialect: Dialect, table: Table) -> str:
    """MySQL and SQLite: an error, or no row, if the claim is not ours."""
    after = " ON CONFLICT DO NOTHING" if dialect is SQLITE else ""
    return (
        f"INSERT INTO {dialect.parametrised(table)} (consumer, message_id, claimed_at)"
        f" VALUES ({dialect.mark}, {dialect.mark}, {dialect.now}){after}"
    )


def purge_sql(table: Table, style: ParamStyle, suffix: str = "") -> str:
    """PostgreSQL: delete the oldest beyond an age, and count them. Parameters: seconds, limit.

    Whatever another janitor is deleting is stepped over.
    """
    name = table.companion(suffix)
    inbox = in_format(name) if "format" in style else name
    return (
        f"WITH gone AS (DELETE FROM {inbox} WHERE ctid = ANY(ARRAY("
        f"SELECT ctid FROM {inbox} WHERE claimed_at <"
        f" clock_timestamp() - make_interval(secs => CAST({mark_of(1, style)} AS float8))"
        f" ORDER BY claimed_at LIMIT CAST({mark_of(2, style)} AS int8)"
        " FOR UPDATE SKIP LOCKED)) RETURNING 1) SELECT count(*) FROM gone"
    )


def plain_purge_sql(dialect: Dialect, table: Table) -> str:
    """MySQL and SQLite: delete the oldest beyond an age. Parameters: ``dialect.delay``, limit."""
    inbox = dialect.parametrised(table)
    if dialect is MYSQL:
        return f"DELETE FROM {inbox} WHERE claimed_at < {MYSQL.later} ORDER BY claimed_at LIMIT %s"
    return (
        f"DELETE FROM {inbox} WHERE rowid IN (SELECT rowid FROM {inbox}"
        f" WHERE claimed_at < {SQLITE.later} ORDER BY claimed_at LIMIT ?)"
    )

"""What a service stashes: one event, on its way to one topic.

A record is checked when it is made, so that what Kafka could never take is refused inside the
caller's transaction, where it can still be mended, and not at night in the relay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from windrow.outbox.errors import InvalidRecord

Header = tuple[str, str | None]
HeadersLike = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MAX_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True, init=False)
class Record:
    """An event for a topic.

    Records of one key keep the order in which they were stashed; records without a key keep none.
    A value of ``None`` is a tombstone.

    Raises:
        InvalidRecord: Kafka or the outbox table could never take it; the message says why.
    """

    topic: str
    key: str | None = None
    # Left out of the text form, which ends up in logs: they are the customers' data.
    value: bytes | str | None = field(default=None, repr=False)
    headers: tuple[Header, ...] = field(default=(), repr=False)
    partition: int | None = None
    timestamp: datetime | None = None

    def __init__(
        self,
        topic: str,
        key: str | None = None,
        value: bytes | str | None = None,
        headers: HeadersLike = (),
        partition: int | None = None,
        timestamp: datetime | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "topic", _checked_topic(topic))
        put(self, "key", None if key is None else _checked_text("key", key))
        put(self, "value", _checked_value(value))
        put(self, "headers", _checked_headers(headers))
        put(self, "partition", _checked_partition(partition))
        put(self, "timestamp", _checked_timestamp(timestamp))


def _checked_topic(topic: str) -> str:
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise InvalidRecord(
            "topic", repr(topic), "use 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', not '.' or '..'"
        )
    return topic


def _checked_text(what: str, text: str) -> str:
    if not isinstance(text, str):
        raise InvalidRecord(what, type(text).__name__, "must be str")
    if "\x00" in text:
        raise InvalidRecord(what, repr(text), "PostgreSQL's text cannot hold the character NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRecord(what, repr(text), "holds a lone surrogate: no UTF-8") from None
    return text


def _checked_value(value: bytes | str | None) -> bytes | str | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        # Bytes can hold what text cannot: a NUL costs nothing there.
        return value.encode() if "\x00" in value else _checked_text("value", value)
    raise InvalidRecord("value", type(value).__name__, "must be bytes, str or None")


def _checked_headers(headers: HeadersLike) -> tuple[Header, ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple([_checked_header(pair) for pair in pairs])


def _checked_header(pair: tuple[str, str | bytes | None]) -> Header:
    try:
        name, value = pair
    except (TypeError, ValueError):
        raise InvalidRecord("header", repr(pair), "must be a (name, value) pair") from None
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InvalidRecord(
                f"header {name!r}", f"{len(value)} bytes", "is not UTF-8; encode it, e.g. as base64"
            ) from None
    return _checked_text("header name", name), (
        None if value is None else _checked_text(f"header {name!r}", value)
    )


def _checked_partition(partition: int | None) -> int | None:
    if partition is None:
        return None
    if type(partition) is not int or not 0 <= partition <= MAX_PARTITION:
        raise InvalidRecord("partition", repr(partition), f"must be 0 to {MAX_PARTITION}")
    return partition


def _checked_timestamp(timestamp: datetime | None) -> datetime | None:
    if timestamp is not None and timestamp.tzinfo is None:
        raise InvalidRecord("timestamp", timestamp.isoformat(), "has no time zone")
    return timestamp

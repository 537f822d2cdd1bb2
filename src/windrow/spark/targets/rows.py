"""By which names is a row known at its target? Pure.

Both are made of the delivery hash of the input, which is the same on every attempt, and of the
ordinal, which tells the rows made from one input apart.
"""

from __future__ import annotations

from hashlib import blake2b

from windrow.graph.sink_rows import SinkRow
from windrow.spark.stores import Content


def content_of(row: SinkRow) -> Content:
    """What a row says.

    Raises:
        TypeError: Its value is of another kind.
    """
    if not isinstance(row.value, Content):
        raise TypeError(f"the value of a row is a Content, not {type(row.value).__name__}")
    return row.value


def row_uuid(delivery_hash: str, ordinal: int) -> bytes:
    """The 16 bytes that a journal's record is known by."""
    if ordinal == 0 and len(delivery_hash) >= 32:
        return bytes.fromhex(delivery_hash[:32])
    return blake2b(f"{delivery_hash}-{ordinal}".encode(), digest_size=16).digest()


def idempotency_key(row: SinkRow) -> str:
    """What a receiver knows an effect again by."""
    delivery_hash = content_of(row).delivery_hash
    ordinal = row.positions[0].ordinal
    return f"{delivery_hash}-{ordinal}" if ordinal else delivery_hash


def position_text(row: SinkRow) -> str:
    """Where a row comes from, for people."""
    at = row.positions[0]
    ordinal = f" (output {at.ordinal})" if at.ordinal else ""
    return f'"{at.source}" partition {at.partition} index {at.index}{ordinal}'

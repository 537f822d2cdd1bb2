"""By which id do receivers know a message? Pure.

It is the same on each try, in each process and after a restart: made of the outbox's incarnation,
a UUID that it was given when it was made and that a restored or moved database keeps, and of the
row's id. A record that brings an id of its own, in a header ``message-id``, ``ce-id`` or ``ce_id``
(CloudEvents over HTTP and over Kafka), in any case, keeps it: the first of those with a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID, uuid5

ID_HEADERS = frozenset({"message-id", "ce-id", "ce_id"})


def message_id(incarnation: UUID, row: int, headers: Iterable[tuple[str, str]] = ()) -> str:
    """The id of the message in that row of that outbox."""
    for name, value in headers:
        if value and name.lower() in ID_HEADERS:
            return value
    return str(uuid5(incarnation, str(row)))

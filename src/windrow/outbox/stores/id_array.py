"""Many ids as one parameter: PostgreSQL's ``int8[]`` in its binary form.

The driver looks at every element of a list to find out its type, which costs a relay a tenth of
all that it does for a record. Here the type is known.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from windrow.extras import require

if TYPE_CHECKING:
    import psycopg

INT8, INT8_ARRAY = 20, 1016
"""What PostgreSQL calls these types; fixed since there are arrays."""


class Ids(list[int]):
    """Ids that go to the database as they are, on a connection that was told how."""


def encode(ids: Sequence[int]) -> bytes:
    """Dimensions, no NULLs, type, length and first index; then each id behind its size. Pure."""
    if not ids:
        return struct.pack("!iiI", 0, 0, INT8)
    head = struct.pack("!iiIii", 1, 0, INT8, len(ids), 1)
    return head + struct.pack("!" + "iq" * len(ids), *chain.from_iterable(zip(repeat(8), ids)))


def teach(connection: psycopg.Connection[Any]) -> None:
    """Let ``Ids`` be parameters on this connection."""
    binary = require("psycopg.pq").Format.BINARY

    class IdsDumper(require("psycopg.adapt").Dumper):  # type: ignore[misc]  # loaded when needed
        format, oid = binary, INT8_ARRAY

        def dump(self, obj: Ids) -> bytes:
            return encode(obj)

    connection.adapters.register_dumper(Ids, IdsDumper)

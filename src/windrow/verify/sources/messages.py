"""Key and id of messages: out of their keys, values and headers, whole columns at a time."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.verify.columns.batches import make_batch
from windrow.verify.errors import UnreadableSource
from windrow.verify.picking import Pick
from windrow.verify.sources.jsonl import parse_lines, picked


class Picker:
    """Makes batches of messages.

    Args:
        source: What to call the source in errors.
        key: Where the key is.
        id: Where the id is.
    """

    def __init__(self, source: str, key: Pick, id: Pick) -> None:
        self._source = source
        self._picks = {"key": key, "id": id}
        self.read = 0
        """How many messages there were so far."""

    def needs(self, where: str) -> bool:
        """Whether anything is looked for there: ``key``, ``value`` or ``json``."""
        return any(pick.where == where for pick in self._picks.values())

    def batch(
        self, keys: pa.Array | None, values: pa.Array | None, header: Callable[[str], pa.Array]
    ) -> pa.RecordBatch:
        """The next messages.

        Args:
            keys: Of the messages, if they are needed.
            values: Likewise.
            header: Gives the column of the header of a name, null where there is none.

        Raises:
            NoId: One has no id.
            UnreadableSource: A value is no JSON, and should be.
        """
        whole = {"key": keys, "value": values}
        found: dict[str, pa.Array | None] = {}
        members = {name: pick for name, pick in self._picks.items() if pick.where == "json"}
        if members:
            assert values is not None
            found |= self._members(values, members)
        for name, pick in self._picks.items():
            if pick.where == "header":
                found[name] = header(pick.name)
            elif pick.where in whole:
                found[name] = whole[pick.where]
        batch = make_batch(self._source, self.read, found.get("key"), found["id"])
        self.read += len(batch)
        return batch

    def _members(self, values: pa.Array, picks: dict[str, Pick]) -> dict[str, pa.Array | None]:
        nothing = Pick("none")
        both = {"key": picks.get("key", nothing), "id": picks.get("id", nothing)}
        texts: list[bytes | None] = values.to_pylist()
        columns = _parse_together(texts, both)
        if columns is None:
            columns = picked([self._document(text) for text in texts], both)
        keys, ids = columns
        return {name: column for name, column in (("key", keys), ("id", ids)) if name in picks}

    def _document(self, text: bytes | None) -> dict[str, object]:
        try:
            document = json.loads(text or b"{}")
        except ValueError as error:
            reason = f"the value of a message is not JSON ({error}); say where the id is by id=…"
            raise UnreadableSource(self._source, reason) from error
        return document if isinstance(document, dict) else {}


def _parse_together(
    texts: list[bytes | None], picks: dict[str, Pick]
) -> tuple[pa.Array | None, pa.Array | None] | None:
    """As lines of one block, if each of them is a line."""
    if not all(texts):
        return None  # tombstones
    block = b"\n".join(texts) + b"\n"  # type: ignore[arg-type]  # no tombstones
    if block.count(b"\n") != len(texts):
        return None
    columns = parse_lines(block, picks)
    if columns is None or any(len(c) != len(texts) for c in columns if c is not None):
        return None
    return columns


def header_column(headers: pa.Array, name: str) -> pa.Array:
    """The first header of that name of each message, from lists of ``{name, value}``."""
    owners = pc.list_parent_indices(headers).to_numpy()
    pairs = headers.flatten()
    names, values = pairs.field(0), pairs.field(1)
    rows = np.flatnonzero(pc.equal(names, name).to_numpy(zero_copy_only=False))
    owning, first = np.unique(owners[rows], return_index=True)
    wanted = np.full(len(headers), -1, np.int64)
    wanted[owning] = rows[first]
    return values.take(pa.array(wanted, mask=wanted < 0))

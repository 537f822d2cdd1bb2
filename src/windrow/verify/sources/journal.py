"""The records of journals, up to where they ended when the reading began."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from windrow.config.journal import Journal
from windrow.journal.client.configured import connect_to
from windrow.journal.client.errors import OffsetJump
from windrow.journal.client.requests import ListedJournal, ReadRequest
from windrow.journal.errors import JournalNotFound, Suspended
from windrow.journal.labels import Label, LabelSelector, LabelSet
from windrow.journal.message.framing import NDJSON
from windrow.spark.queues.frames import CONTENT_COLUMNS, decode_block
from windrow.verify.errors import BadSource, UnreadableSource
from windrow.verify.grammar import JournalSpec
from windrow.verify.picking import Pick, parse_pick
from windrow.verify.sources.jsonl import LineParser
from windrow.verify.sources.messages import Picker, header_column

if TYPE_CHECKING:
    from windrow.journal.client.sync import SyncJournalClient

PIECE: Final = 4 * 1024 * 1024
_PART: Final = re.compile(r"/part-\d{3,}")


class JournalRecords:
    """Reads one journal after the other: a key keeps to one journal."""

    def __init__(self, config: Journal, spec: JournalSpec) -> None:
        self._config, self._spec = config, spec

    def __str__(self) -> str:
        return self._spec.text

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records of each journal in their order.

        Raises:
            JournalNotFound: There is none of that name.
            UnreadableSource: Content is gone, or is no record.
            Unreachable: No broker answered.
        """
        with closing(connect_to(self._config)) as client:
            for journal in self._journals(client):
                yield from self._read(client, journal)

    def _journals(self, client: SyncJournalClient) -> list[ListedJournal]:
        """The journal of that name, or those that are its partitions, or all below it."""
        name, spec = self._spec.name, self._spec
        selector = LabelSelector(LabelSet((Label("name", name, prefix=True),)))
        listed = client.list(selector).journals
        exact = [each for each in listed if each.spec.name == name]
        parts = [each for each in listed if _PART.fullmatch(each.spec.name[len(name) :])]
        found = list(listed) if spec.is_prefix else exact or parts
        if not found:
            raise JournalNotFound(name)
        return found

    def _read(self, client: SyncJournalClient, journal: ListedJournal) -> Iterator[pa.RecordBatch]:
        name = journal.spec.name
        is_lines = journal.spec.labels.value("content-type") == NDJSON.content_type
        decode = self._lines() if is_lines else self._frames()
        rest, offset = b"", 0
        try:
            for content in _pieces(client, name):
                batch, used = decode(rest + content, offset)
                rest, offset = (rest + content)[used:], offset + used
                if len(batch):
                    yield batch
        except OffsetJump as jump:
            reason = f"of journal {name!r} the content from {jump.offset} to {jump.to} is gone"
            raise UnreadableSource(str(self), reason) from jump
        if rest:
            raise UnreadableSource(str(self), f"journal {name!r} ends within a record")

    def _frames(self) -> Decode:
        """Envelopes; the key is theirs, and the id a member of their value."""
        key, id = self._spec.key or Pick("key"), self._spec.id or parse_pick("/id")
        picker = Picker(str(self), key, id)

        def decode(content: bytes, offset: int) -> tuple[pa.RecordBatch, int]:
            block = decode_block(content, offset)
            columns = dict(zip(CONTENT_COLUMNS, block.columns(), strict=True))
            header = partial(header_column, columns["headers"])
            batch = picker.batch(columns["key"], columns["value"], header)
            return batch, block.end - offset

        return decode

    def _lines(self) -> Decode:
        """Lines of JSON; key and id are members of them."""
        key, id = self._spec.key or parse_pick("/key"), self._spec.id or parse_pick("/id")
        for pick in (key, id):
            if pick.where not in ("json", "none"):
                raise BadSource(str(self), "its records are lines, which have members only")
        parser = LineParser(str(self), key, id)

        def decode(content: bytes, offset: int) -> tuple[pa.RecordBatch, int]:
            end = content.rfind(b"\n") + 1
            return parser.batch(content[:end]), end

        return decode


Decode = Callable[[bytes, int], tuple[pa.RecordBatch, int]]
"""Takes content and its offset; gives records, and how many bytes they took."""


def _pieces(client: SyncJournalClient, journal: str) -> Iterator[bytes]:
    try:
        head = client.write_head(journal)
    except Suspended:
        return  # without a replica, since it has no content
    if not head:
        return
    held: list[bytes] = []
    size = 0
    for chunk in client.chunks(ReadRequest(journal, end_offset=head)):
        held.append(chunk.content)
        size += len(chunk.content)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)

"""What of a journal's content is printed, and how far that goes."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any, Protocol

from windrow.journal.client.requests import Chunk
from windrow.journal.message.errors import UnknownContentType
from windrow.journal.message.framing import FixedUnframer, Unframer, framing_of
from windrow.journal.message.record import Record, unframe_records
from windrow.journal.spec import JournalSpec
from windrow.telemetry import get_logger

_log = get_logger("windrow.journal.read")


class Printer(Protocol):
    """Turns the content of one journal into what is printed."""

    def feed(self, chunk: Chunk) -> tuple[bytes, int]:
        """What to print, and the offset up to which everything is printed."""

    def jump(self, offset: int) -> None:
        """The content goes on at another offset."""


class Raw:
    """The content as it is."""

    def feed(self, chunk: Chunk) -> tuple[bytes, int]:
        """All of it."""
        return chunk.content, chunk.offset + len(chunk.content)

    def jump(self, offset: int) -> None:
        """Nothing is kept back."""


class Framed:
    """Whole messages as they are: so those of several journals do not run into each other."""

    def __init__(self, unframer: Unframer) -> None:
        self._unframer = unframer
        self._content = b""

    def feed(self, chunk: Chunk) -> tuple[bytes, int]:
        """Up to the end of the last whole message."""
        self._unframer.feed(chunk.content)
        content = self._content + chunk.content
        whole = self._unframer.offset - (chunk.offset - len(self._content))
        self._content = content[whole:]
        return content[:whole], self._unframer.offset

    def jump(self, offset: int) -> None:
        """What was begun is given up."""
        self._unframer.jump(offset)
        self._content = b""


class Records:
    """Records as lines of JSON."""

    def __init__(self, journal: str, offset: int) -> None:
        self._journal = journal
        self._unframer = FixedUnframer(offset)

    def feed(self, chunk: Chunk) -> tuple[bytes, int]:
        """A line for each whole record; what steers writers is left out."""
        lines = [
            json.dumps(record_object(self._journal, frame.begin, record), ensure_ascii=False)
            for frame, record in unframe_records(self._unframer, chunk.content)
        ]
        for skipped in self._unframer.skipped:
            _log.warning(
                "no records here", journal=self._journal, begin=skipped.begin, end=skipped.end
            )
        self._unframer.skipped.clear()
        return "".join(f"{line}\n" for line in lines).encode(), self._unframer.offset

    def jump(self, offset: int) -> None:
        """What was begun is given up."""
        self._unframer.jump(offset)


def record_object(journal: str, offset: int, record: Record) -> dict[str, Any]:
    """A record as JSON has it; bytes that are no text are base64, under a name that says so."""
    return {
        "journal": journal,
        "offset": offset,
        "seq": record.seq,
        "uuid": str(uuid.UUID(bytes=record.uuid)) if len(record.uuid) == 16 else record.uuid.hex(),
        "topic": record.topic,
        "time": record.time,
        **_field("key", record.key),
        "headers": [{"name": name, **_field("value", value)} for name, value in record.headers],
        **_field("value", record.value),
    }


def _field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def printer_of(spec: JournalSpec, offset: int, *, is_alone: bool, as_records: bool) -> Printer:
    """How a journal is printed from an offset on; alone, or together with others."""
    if as_records:
        return Records(spec.name, offset)
    if is_alone:
        return Raw()
    try:
        framing = framing_of(spec.labels.value("content-type") or "")
    except UnknownContentType:
        return Raw()
    return Framed(framing.unframer(offset))

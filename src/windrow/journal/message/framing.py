"""Where one message ends and the next begins. Pure.

Three framings, chosen by a journal's label ``content-type``:

- ``application/x-protobuf-fixed``: a magic word of four bytes, the length as a little-endian
  32-bit number, the message. A reader that lands between frames, or meets bytes that are no frame,
  scans to the next magic word and says what it skipped.
- ``application/x-ndjson``: one line each.
- ``text/csv``: one row each; a quoted field may hold line breaks.

An *unframer* takes content in whatever pieces it arrives and gives whole frames with the offsets
they have in the journal.
"""

from __future__ import annotations

import csv
import io
import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from windrow.journal.message.errors import InvalidMessage, TornFrame, UnknownContentType

MAGIC = bytes((0x66, 0x33, 0x93, 0x36))
HEADER_LENGTH = 8
MAX_LENGTH = 64 * 1024 * 1024
"""A longer message is taken for a damaged length: waiting for its end would never end."""

_HEADER = struct.Struct("<4sI")


class Frame(NamedTuple):
    """A message and where it lies in the journal."""

    payload: bytes
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes that belong to no frame."""

    begin: int
    end: int


class Unframer(ABC):
    """Turns content into frames; ``skipped`` tells what was no frame."""

    def __init__(self, offset: int = 0) -> None:
        self.skipped: list[Skipped] = []
        self._buffer = bytearray()
        self._begin = offset
        self._wanted = 0

    @property
    def offset(self) -> int:
        """Where the first byte lies that has not been given out in a frame."""
        return self._begin

    def feed(self, content: bytes) -> list[Frame]:
        """The frames that are complete with this content."""
        if self._buffer:
            self._buffer += content
            if len(self._buffer) < self._wanted:
                return []  # a large frame in small pieces is not scanned with each of them
            content = bytes(self._buffer)
        frames, consumed, self._wanted = self._split(content, self._begin)
        self._buffer = bytearray(content[consumed:])
        self._begin += consumed
        return frames

    def jump(self, offset: int) -> None:
        """The content goes on at another offset; what was begun is given up."""
        if self._buffer:
            self._skip(self._begin, self._begin + len(self._buffer))
        self._buffer.clear()
        self._begin, self._wanted = offset, 0

    def finish(self) -> None:
        """No more content follows.

        Raises:
            TornFrame: It ended inside a frame.
        """
        if self._buffer:
            raise TornFrame(self._begin, self._begin + len(self._buffer))

    def _skip(self, begin: int, end: int) -> None:
        if self.skipped and self.skipped[-1].end == begin:
            begin = self.skipped.pop().begin
        self.skipped.append(Skipped(begin, end))

    @abstractmethod
    def _split(self, content: bytes, offset: int) -> tuple[list[Frame], int, int]:
        """Frames, how many bytes are used up, and how many are needed before the next try."""


class FixedUnframer(Unframer):
    """Frames with a magic word and a length."""

    def _split(self, content: bytes, offset: int) -> tuple[list[Frame], int, int]:
        frames: list[Frame] = []
        unpack, length_of_all = _HEADER.unpack_from, len(content)
        at = 0
        while length_of_all - at >= HEADER_LENGTH:
            magic, length = unpack(content, at)
            if magic != MAGIC or length > MAX_LENGTH:
                at = self._resync(content, at, offset)
                continue
            end = at + HEADER_LENGTH + length
            if end > length_of_all:
                return frames, at, end - at
            frames.append(Frame(content[at + HEADER_LENGTH : end], offset + at, offset + end))
            at = end
        return frames, at, HEADER_LENGTH

    def _resync(self, content: bytes, at: int, offset: int) -> int:
        """Go to the next magic word, or to where one may have begun."""
        found = content.find(MAGIC, at + 1)
        if found < 0:
            found = max(at + 1, len(content) - len(MAGIC) + 1)
        self._skip(offset + at, offset + found)
        return found


class LineUnframer(Unframer):
    """Lines; the line break belongs to the frame and not to the message."""

    def _split(self, content: bytes, offset: int) -> tuple[list[Frame], int, int]:
        frames: list[Frame] = []
        at = 0
        while (end := content.find(b"\n", at) + 1) > 0:
            frames.append(Frame(content[at : end - 1], offset + at, offset + end))
            at = end
        return frames, at, 0


class CsvUnframer(Unframer):
    """Rows; a line break inside quotes belongs to its field."""

    def _split(self, content: bytes, offset: int) -> tuple[list[Frame], int, int]:
        frames: list[Frame] = []
        at = scanned = 0
        while (end := content.find(b"\n", scanned) + 1) > 0:
            scanned = end
            # Quotes inside quotes are doubled, so a field is open while their number is odd.
            if content.count(b'"', at, end) % 2 == 0:
                frames.append(
                    Frame(content[at : end - 1].removesuffix(b"\r"), offset + at, offset + end)
                )
                at = end
        return frames, at, 0


@dataclass(frozen=True, slots=True)
class Framing:
    """How the messages of one content type are put into a journal and taken out again."""

    content_type: str
    unframer: type[Unframer]

    def frame(self, message: bytes) -> bytes:
        """The message with what tells it from its neighbours.

        Raises:
            InvalidMessage: This framing cannot carry it.
        """
        match self.content_type:
            case "application/x-protobuf-fixed":
                return fixed_frame(message)
            case "application/x-ndjson":
                return _line(message)
            case _:
                return _row(message)

    def unframe(self, content: bytes, offset: int = 0) -> list[Frame]:
        """All frames of content that ends with a frame."""
        unframer = self.unframer(offset)
        frames = unframer.feed(content)
        unframer.finish()
        return frames


def fixed_frame(message: bytes) -> bytes:
    """A message behind the magic word and its length."""
    if len(message) > MAX_LENGTH:
        raise InvalidMessage("x-protobuf-fixed", f"{len(message)} bytes, at most {MAX_LENGTH}")
    return _HEADER.pack(MAGIC, len(message)) + message


def _line(message: bytes) -> bytes:
    if b"\n" in message:
        raise InvalidMessage("x-ndjson", "it holds a line break; write the JSON compactly")
    return message + b"\n"


def _row(message: bytes) -> bytes:
    if message.count(b'"') % 2:
        raise InvalidMessage("csv", "a quote is left open")
    bare = b"".join(message.split(b'"')[::2])
    if b"\n" in bare:
        raise InvalidMessage("csv", "a line break outside quotes")
    return message + b"\n"


def json_message(value: Any) -> bytes:
    """A JSON value as one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def csv_message(fields: Iterable[str]) -> bytes:
    """A row of fields, quoted where they need it."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(fields)  # which quotes both of them
    return out.getvalue().removesuffix("\r\n").encode()


def csv_fields(message: bytes) -> Sequence[str]:
    """The fields of a row."""
    return next(csv.reader(io.StringIO(message.decode(), newline="")), [])


FIXED = Framing("application/x-protobuf-fixed", FixedUnframer)
NDJSON = Framing("application/x-ndjson", LineUnframer)
CSV = Framing("text/csv", CsvUnframer)

_FRAMINGS = {framing.content_type: framing for framing in (FIXED, NDJSON, CSV)}


def framing_of(content_type: str) -> Framing:
    """The framing of a content type; its parameters (``; charset=…``) do not matter.

    Raises:
        UnknownContentType: There is none.
    """
    framing = _FRAMINGS.get(content_type.partition(";")[0].strip().lower())
    if framing is None:
        raise UnknownContentType(content_type, tuple(sorted(_FRAMINGS)))
    return framing

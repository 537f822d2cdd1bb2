"""Records in a stream, each behind its key if there are keys. Pure.

Keys and records are framed alike: a line each, or a fixed frame each. What frames a record belongs
to it and goes into the journal; what frames a key does not.
"""

from __future__ import annotations

import base64
import binascii
from typing import Literal, NamedTuple

from windrow.errors import UsageError
from windrow.journal.message.framing import FIXED, NDJSON, Frame, fixed_frame


class InvalidInput(UsageError):
    """A stream that does not hold what it should."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset, self.reason = offset, reason

    def __str__(self) -> str:
        return f"the input is not as expected at byte {self.offset}: {self.reason}"


class KeyedRecord(NamedTuple):
    """A record with its frame, and the key that came before it."""

    key: bytes
    record: bytes


class KeyedInput:
    """Takes a stream in whatever pieces it arrives and gives whole records."""

    def __init__(
        self, framing: Literal["lines", "fixed"], *, has_keys: bool, is_base64: bool = False
    ) -> None:
        self._is_lines = framing == "lines"
        self._unframer = (NDJSON if self._is_lines else FIXED).unframer()
        self._has_keys, self._is_base64 = has_keys, is_base64
        self._key: bytes | None = None
        self._end = 0

    def feed(self, content: bytes) -> list[KeyedRecord]:
        """The records that are complete with this content.

        Raises:
            InvalidInput: It is not framed as it should be, or a key is no base64.
        """
        self._end += len(content)
        frames = self._unframer.feed(content)
        if self._unframer.skipped:
            begin = self._unframer.skipped[0].begin
            raise InvalidInput(begin, "no frame begins here; is it framed in another way?")
        return [record for frame in frames if (record := self._next(frame)) is not None]

    def finish(self) -> list[KeyedRecord]:
        """What is complete now that no more content follows: a last line needs no line break.

        Raises:
            InvalidInput: It ended inside a frame, or behind a key.
        """
        left = self._end - self._unframer.offset
        if left and not self._is_lines:
            raise InvalidInput(self._unframer.offset, f"a frame is cut off after {left} bytes")
        records = self.feed(b"\n") if left else []
        if self._key is not None:
            raise InvalidInput(self._end, "it ends with a key that no record follows")
        return records

    def _next(self, frame: Frame) -> KeyedRecord | None:
        if self._has_keys and self._key is None:
            self._key = self._key_of(frame)
            return None
        key, self._key = self._key or b"", None
        framed = frame.payload + b"\n" if self._is_lines else fixed_frame(frame.payload)
        return KeyedRecord(key, framed)

    def _key_of(self, frame: Frame) -> bytes:
        if not self._is_lines:
            return frame.payload
        line = frame.payload.rstrip(b"\r")
        if not self._is_base64:
            return line
        try:
            return base64.b64decode(line, validate=True)
        except binascii.Error as error:
            raise InvalidInput(frame.begin, f"the key is not base64: {error}") from error

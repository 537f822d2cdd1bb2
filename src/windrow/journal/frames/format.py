"""What the bytes of a connection look like. Pure.

A caller greets, and is greeted back with the same bytes. Then calls follow one another. Each frame
is the length of its payload, its kind, and the payload.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from windrow.errors import Failed

HELLO = b"WINDROW CALLS 2\r\n\r\n"
"""Neither HTTP/1 nor HTTP/2, so that whoever speaks those refuses it at once.

The number grows with what may be asked in frames: an end of another number is called by gRPC, which
they have in common. 1 could not read.
"""

GATHERED = 64 * 1024
"""Messages of a call that come in one breath are sent together, up to about so many bytes."""

HIGH_WATER = 1 << 20
"""Bytes that one end may lag behind the other, before that one is read no more."""

Metadata = tuple[tuple[str, str], ...]

_HEAD = struct.Struct(">IB")


class Kind(IntEnum):
    """What a frame says."""

    OPEN = 1
    """The caller begins a call: its method and metadata."""
    MESSAGE = 2
    """A message, of either side."""
    DONE = 3
    """The caller sends no more messages."""
    END = 4
    """The broker's last word on a call: how it ended."""


class BrokenFrames(Failed):
    """What came is not what a connection may carry."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Opening:
    """The beginning of a call."""

    method: str
    metadata: Metadata = ()

    @lru_cache(maxsize=64)  # noqa: B019 - small values, and the same ones with every call
    def encode(self) -> bytes:
        """Its payload."""
        return json.dumps([self.method, self.metadata]).encode()

    @classmethod
    @lru_cache(maxsize=64)
    def decode(cls, payload: bytes) -> Opening:
        """Read it back.

        Raises:
            BrokenFrames: It is none.
        """
        try:
            method, metadata = json.loads(payload)
            return cls(str(method), _pairs(metadata))
        except (ValueError, TypeError) as error:
            raise BrokenFrames("not the opening of a call") from error


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended: the name of a gRPC status, and what goes with it."""

    code: str = "OK"
    details: str = ""
    trailing: Metadata = ()

    @property
    def is_ok(self) -> bool:
        """Whether it ended well."""
        return self.code == "OK"

    def encode(self) -> bytes:
        """Its payload; that of a good end is empty."""
        if self.is_ok:
            return b""
        return json.dumps([self.code, self.details, self.trailing]).encode()

    @classmethod
    def decode(cls, payload: bytes) -> Ending:
        """Read it back.

        Raises:
            BrokenFrames: It is none.
        """
        if not payload:
            return GOOD_END
        try:
            code, details, trailing = json.loads(payload)
            return cls(str(code), str(details), _pairs(trailing))
        except (ValueError, TypeError) as error:
            raise BrokenFrames("not the end of a call") from error


GOOD_END = Ending()


def _pairs(pairs: list[list[str]]) -> Metadata:
    return tuple((str(name), str(value)) for name, value in pairs)


def frame(kind: Kind, payload: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return _HEAD.pack(len(payload), kind) + payload


class FrameReader:
    """Cuts what comes in pieces of any size into frames."""

    def __init__(self, limit: int) -> None:
        """Take payloads of so many bytes at most."""
        self._limit = limit
        self._held = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Kind and payload of each frame that is whole now.

        Raises:
            BrokenFrames: A frame is larger than it may be.
        """
        held, frames, at = self._held, list[tuple[int, bytes]](), 0
        held += data
        with memoryview(held) as view:
            while len(held) - at >= _HEAD.size:
                length, kind = _HEAD.unpack_from(held, at)
                if length > self._limit:
                    raise BrokenFrames(f"a frame of {length} bytes; at most {self._limit} may be")
                end = at + _HEAD.size + length
                if end > len(held):
                    break
                frames.append((kind, bytes(view[at + _HEAD.size : end])))
                at = end
        del held[:at]
        return frames

"""Protobuf's wire format, written out by hand: the golden bytes owe nothing to generated code."""

from __future__ import annotations

import struct

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5


def varint(number: int) -> bytes:
    """Seven bits to a byte, lowest first; a negative number as its 64-bit complement."""
    rest = number & (1 << 64) - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def num(number: int, value: int) -> bytes:
    """An integer, boolean or enumeration."""
    return tag(number, VARINT) + varint(value)


def fixed64(number: int, value: int) -> bytes:
    return tag(number, FIXED64) + struct.pack("<Q", value)


def fixed32(number: int, value: int) -> bytes:
    return tag(number, FIXED32) + struct.pack("<I", value)


def sub(number: int, *parts: bytes) -> bytes:
    """A nested message (or bytes): a tag, a length, and what it holds."""
    held = b"".join(parts)
    return tag(number, LENGTH_DELIMITED) + varint(len(held)) + held


def text(number: int, value: str) -> bytes:
    return sub(number, value.encode())

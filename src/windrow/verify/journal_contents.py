"""Appends that tell what they are, and their finding in the content of a journal. Pure.

A content begins with a line that names its writer, its number, and the length and SHA-1 of what
follows, so that a reader who knows nothing else can say whether it lies there whole::

    @writer-3 17 2048 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12
    5be0cd19137e2179…
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha1, shake_128
from typing import NamedTuple

_MARK = re.compile(rb"@([^ \n]+) ([0-9]+) ([0-9]+) ([0-9a-f]{40})\n")


class Found(NamedTuple):
    """A content that lies in the journal as a whole."""

    begin: int
    end: int
    writer: str
    number: int


class Torn(NamedTuple):
    """Bytes that are no whole content: cut off, interleaved, or of nobody we know."""

    begin: int
    end: int


def make_content(writer: str, number: int, size: int) -> bytes:
    """The content of one append, with ``size`` bytes behind its first line.

    What follows is a digest of writer and number, in letters that begin no other content.
    """
    seed = f"{writer} {number}".encode()
    body = shake_128(seed, usedforsecurity=False).hexdigest((size + 1) // 2)[:size].encode()
    digest = sha1(body, usedforsecurity=False).hexdigest()
    return f"@{writer} {number} {size} {digest}\n".encode() + body


def find_contents(content: bytes, begin: int = 0) -> Iterator[Found | Torn]:
    """Everything in a stretch of a journal that begins at that offset; leaves no byte out."""
    at = 0
    while at < len(content):
        found = _content_at(content, at)
        if found is None:
            following = _MARK.search(content, at + 1)
            end = following.start() if following else len(content)
            yield Torn(begin + at, begin + end)
        else:
            end = found.end
            yield Found(begin + at, begin + end, found.writer, found.number)
        at = end


def _content_at(content: bytes, at: int) -> Found | None:
    mark = _MARK.match(content, at)
    if mark is None:
        return None
    end = mark.end() + int(mark[3])
    body = content[mark.end() : end]
    if (
        len(body) < int(mark[3])
        or sha1(body, usedforsecurity=False).hexdigest().encode() != mark[4]
    ):
        return None
    return Found(at, end, mark[1].decode(), int(mark[2]))

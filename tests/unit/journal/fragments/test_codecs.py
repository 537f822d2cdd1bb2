"""Codecs that need no extra: plain and gzip. The others are tested with the stores."""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.codec import Codec
from windrow.journal.fragments.codecs import BATCH, compress, decompress, decompress_async
from windrow.journal.fragments.errors import CorruptFragment

GZIPS = [Codec.GZIP, Codec.GZIP_OFFLOAD_DECOMPRESSION]


def pieces(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def members_of(content: bytes) -> int:
    count = 0
    while content:
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        member.decompress(content)
        content = member.unused_data
        count += 1
    return count


@pytest.mark.parametrize("codec", [Codec.NONE, *GZIPS])
@given(
    content=st.binary(max_size=2_000),
    size=st.integers(1, 300),
    skip=st.integers(0, 2_000),
)
def test_content_returns_whole_or_from_an_offset(
    codec: Codec, content: bytes, size: int, skip: int
) -> None:
    stored = b"".join(compress(codec, pieces(content, size)))
    skip = min(skip, len(content))
    assert b"".join(decompress(codec, pieces(stored, size), skip)) == content[skip:]


def test_gzip_has_a_member_for_every_batch() -> None:
    content = os.urandom(BATCH // 2) * 5
    stored = b"".join(compress(Codec.GZIP, pieces(content, 64 * 1024)))
    assert members_of(stored) == 3
    assert gzip.decompress(stored) == content
    assert b"".join(decompress(Codec.GZIP, pieces(stored, 10_000))) == content


def test_small_file_that_grows_large_comes_in_bounded_pieces() -> None:
    stored = gzip.compress(bytes(20 * BATCH))
    sizes = [len(piece) for piece in decompress(Codec.GZIP, [stored])]
    assert sum(sizes) == 20 * BATCH
    assert max(sizes) <= BATCH


@pytest.mark.parametrize(
    ("stored", "skip", "reason"),
    [
        (gzip.compress(b"content", mtime=0)[:-3], 0, "ends in the middle"),
        (b"this is not gzip at all", 0, "cannot be decompressed"),
        (gzip.compress(b"content", mtime=0) + b"garbage", 0, "cannot be decompressed"),
        (gzip.compress(b"content", mtime=0), 8, "1 bytes short"),
    ],
)
def test_broken_content_is_a_diagnosis(stored: bytes, skip: int, reason: str) -> None:
    with pytest.raises(CorruptFragment, match=f"fragment some/path: .*{reason}"):
        list(decompress(Codec.GZIP, [stored], skip, "some/path"))


def test_nothing_stored_is_nothing_read() -> None:
    assert list(compress(Codec.GZIP, [])) == []
    assert list(decompress(Codec.GZIP, [])) == []


def test_chunks_that_arrive_over_time_are_decompressed_alike() -> None:
    async def arriving() -> AsyncIterator[bytes]:
        for piece in pieces(gzip.compress(b"some content", mtime=0), 5):
            yield piece

    async def scenario() -> bytes:
        return b"".join([p async for p in decompress_async(Codec.GZIP, arriving(), 5)])

    assert asyncio.run(scenario()) == b"content"

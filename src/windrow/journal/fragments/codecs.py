"""Codecs of stored fragments: compressed in independent batches, decompressed as a stream.

Each batch of a megabyte or more becomes a gzip member, a zstd frame or a snappy stream of its own;
their concatenation is a valid file of its kind. Reading takes such files and also those of other
writers. What is held in memory is a batch, except that a zstd frame is decompressed whole: of a
file somebody wrote as one frame, that is all of it.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Protocol

from windrow.extras import require
from windrow.journal.codec import Codec
from windrow.journal.fragments.errors import CorruptFragment

BATCH = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


def compress(codec: Codec, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """What a store keeps of the content."""
    if codec is Codec.NONE:
        yield from chunks
    else:
        member = _MEMBERS[codec]
        for batch in _batches(chunks):
            yield member(batch)


def decompress(
    codec: Codec, chunks: Iterable[bytes], skip: int = 0, what: str = "content"
) -> Iterator[bytes]:
    """The content of what a store keeps, without its first ``skip`` bytes.

    Raises:
        CorruptFragment: It is not of that codec, or ends too early; ``what`` names it.
    """
    stream = Decompression(codec, skip, what)
    for chunk in chunks:
        yield from stream.feed(chunk)
    stream.finish()


async def decompress_async(
    codec: Codec, chunks: AsyncIterator[bytes], skip: int = 0, what: str = "content"
) -> AsyncIterator[bytes]:
    """The same for chunks that arrive over time."""
    stream = Decompression(codec, skip, what)
    async for chunk in chunks:
        for piece in stream.feed(chunk):
            yield piece
    stream.finish()


class Decompression:
    """Takes what a store keeps, piece by piece, and gives content from an offset on."""

    def __init__(self, codec: Codec, skip: int = 0, what: str = "content") -> None:
        self._decoder = _DECODERS[codec]()
        self._skip, self._what = skip, what

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The content that has become readable with this piece."""
        try:
            for piece in self._decoder.feed(chunk):
                kept = piece[self._skip :]
                self._skip -= len(piece) - len(kept)
                if kept:
                    yield kept
        except (zlib.error, OSError, ValueError) as error:
            raise CorruptFragment(self._what, f"cannot be decompressed ({error})") from error

    def finish(self) -> None:
        """That was the last piece."""
        if self._decoder.is_inside:
            raise CorruptFragment(self._what, "ends in the middle of its compressed content")
        if self._skip:
            raise CorruptFragment(self._what, f"is {self._skip} bytes short of the wanted offset")


class _Decoder(Protocol):
    @property
    def is_inside(self) -> bool:
        """Whether more has to come before this could be the end."""

    def feed(self, chunk: bytes) -> Iterator[bytes]: ...


class _Plain:
    is_inside = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk


class _Gzip:
    """Any number of members, one behind the other."""

    def __init__(self) -> None:
        self.is_inside = False
        self._member = zlib.decompressobj(_GZIP)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP)
            # Bounded, because a small chunk can be the whole of a very large member.
            yield self._member.decompress(chunk, BATCH)
            chunk = self._member.unconsumed_tail or self._member.unused_data
        while not self._member.eof and (rest := self._member.decompress(b"", BATCH)):
            yield rest
        self.is_inside = not self._member.eof


class _Framed:
    """Formats whose frames say how long they are: each is decompressed as soon as it is whole."""

    def __init__(
        self,
        length_of: Callable[[bytearray], int | None],
        decompress_frame: Callable[[bytes], bytes],
    ) -> None:
        self._length_of, self._decompress = length_of, decompress_frame
        self._held = bytearray()

    @property
    def is_inside(self) -> bool:
        return bool(self._held)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        self._held += chunk
        while self._held:
            length = self._length_of(self._held)
            if length is None or length > len(self._held):
                return
            yield self._decompress(bytes(self._held[:length]))
            del self._held[:length]


_SNAPPY_START = b"\xff\x06\x00\x00sNaPpY"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_RLE_BLOCK = 1


def _snappy_length(held: bytearray) -> int | None:
    """A chunk of the framing format: type, three bytes of length, body."""
    return 4 + int.from_bytes(held[1:4], "little") if len(held) >= 4 else None


def _decompress_snappy(chunk: bytes) -> bytes:
    if chunk.startswith(_SNAPPY_START):
        return b""
    return bytes(require("cramjam").snappy.decompress(_SNAPPY_START + chunk))


def _zstd_length(held: bytearray) -> int | None:
    """A frame: header, blocks that each say their length, maybe a checksum; or one to skip."""
    if len(held) < 8:
        return None
    if held[1:4] == b"\x2a\x4d\x18" and held[0] >> 4 == 5:
        return 8 + int.from_bytes(held[4:8], "little")
    if held[:4] != _ZSTD_MAGIC:
        raise ValueError(f"zstd frame begins with {held[:4].hex()}")
    descriptor = held[4]
    at = 5 + _zstd_header_rest(descriptor)
    is_last = False
    while not is_last:
        if len(held) < at + 3:
            return None
        block = int.from_bytes(held[at : at + 3], "little")
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        at += 3 + (1 if kind == _RLE_BLOCK else size)
    return at + (4 if descriptor & 4 else 0)


def _zstd_header_rest(descriptor: int) -> int:
    is_single_segment = bool(descriptor & 0x20)
    window = 0 if is_single_segment else 1
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    content_size = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    return window + dictionary + content_size


def _decompress_zstd(frame: bytes) -> bytes:
    return bytes(require("cramjam").zstd.decompress(frame))


def _gzip_member(batch: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=_GZIP)
    return compressor.compress(batch) + compressor.flush()


def _zstd_frame(batch: bytes) -> bytes:
    return bytes(require("cramjam").zstd.compress(batch))


def _snappy_stream(batch: bytes) -> bytes:
    return bytes(require("cramjam").snappy.compress(batch))


def _batches(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= BATCH:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


_MEMBERS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.GZIP: _gzip_member,
    Codec.GZIP_OFFLOAD_DECOMPRESSION: _gzip_member,
    Codec.ZSTANDARD: _zstd_frame,
    Codec.SNAPPY: _snappy_stream,
}
_DECODERS: dict[Codec, Callable[[], _Decoder]] = {
    Codec.NONE: _Plain,
    Codec.GZIP: _Gzip,
    Codec.GZIP_OFFLOAD_DECOMPRESSION: _Gzip,
    Codec.ZSTANDARD: lambda: _Framed(_zstd_length, _decompress_zstd),
    Codec.SNAPPY: lambda: _Framed(_snappy_length, _decompress_snappy),
}

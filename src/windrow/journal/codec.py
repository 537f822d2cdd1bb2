"""The compression codecs of fragments, and the file name extension of each."""

from __future__ import annotations

from enum import IntEnum


class Codec(IntEnum):
    """How a fragment's bytes are compressed in a store, numbered as on the wire."""

    INVALID = 0
    NONE = 1
    GZIP = 2
    ZSTANDARD = 3
    SNAPPY = 4
    GZIP_OFFLOAD_DECOMPRESSION = 5
    """Gzip which the store itself undoes for a reader that does not accept it."""


EXTENSION = {
    Codec.NONE: ".raw",
    Codec.GZIP: ".gz",
    Codec.ZSTANDARD: ".zst",
    Codec.SNAPPY: ".sz",
    Codec.GZIP_OFFLOAD_DECOMPRESSION: "",
}
"""What content names end in."""

CODEC_OF_EXTENSION = {extension: codec for codec, extension in EXTENSION.items()} | {
    ".gzip": Codec.GZIP,
    ".zstandard": Codec.ZSTANDARD,
    ".snappy": Codec.SNAPPY,
    ".gzod": Codec.GZIP_OFFLOAD_DECOMPRESSION,
}
"""What content names may end in; the long forms are read and never written."""

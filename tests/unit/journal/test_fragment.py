"""Fragments: their span, and their names both ways."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.codec import Codec
from windrow.journal.errors import InvalidField
from windrow.journal.fragment import MAX_OFFSET, ZERO_SUM, Fragment

DIGEST = hashlib.sha1(b"content").digest()
GOOD = Fragment("a/journal", 0x10, 0x1F, DIGEST, Codec.SNAPPY)


def test_a_span_holds_its_begin_and_not_its_end() -> None:
    assert GOOD.length == 0xF
    assert [GOOD.contains(offset) for offset in (0xF, 0x10, 0x1E, 0x1F)] == [
        False,
        True,
        True,
        False,
    ]
    assert not GOOD.is_empty
    assert Fragment("a/journal", 7, 7).is_empty
    assert not Fragment("a/journal", 7, 7).contains(7)


@pytest.mark.parametrize(
    ("codec", "extension"),
    [
        (Codec.NONE, ".raw"),
        (Codec.GZIP, ".gz"),
        (Codec.ZSTANDARD, ".zst"),
        (Codec.SNAPPY, ".sz"),
        (Codec.GZIP_OFFLOAD_DECOMPRESSION, ""),
    ],
)
def test_a_content_name_tells_span_sum_and_codec(codec: Codec, extension: str) -> None:
    fragment = replace(GOOD, codec=codec)
    name = f"0000000000000010-000000000000001f-{DIGEST.hex()}{extension}"
    assert fragment.content_name() == name
    assert Fragment.parse_name("a/journal", name) == fragment


@pytest.mark.parametrize(
    ("extension", "codec"),
    [
        (".gzip", Codec.GZIP),
        (".zstandard", Codec.ZSTANDARD),
        (".snappy", Codec.SNAPPY),
        (".gzod", Codec.GZIP_OFFLOAD_DECOMPRESSION),
    ],
)
def test_long_extensions_are_read_too(extension: str, codec: Codec) -> None:
    name = f"0000000000000010-000000000000001f-{DIGEST.hex()}{extension}"
    assert Fragment.parse_name("a/journal", name).codec is codec


def test_a_content_path_goes_through_journal_and_postfix() -> None:
    name = GOOD.content_name()
    assert GOOD.content_path() == f"a/journal/{name}"
    dated = replace(GOOD, path_postfix="utc=2026/hour=04")
    assert dated.content_path() == f"a/journal/utc=2026/hour=04/{name}"
    assert Fragment.parse_name("a/journal", f"utc=2026/hour=04/{name}") == dated


@pytest.mark.parametrize(
    "name",
    [
        "",
        "readme.txt",
        f"10-1f-{DIGEST.hex()}.raw",
        f"0000000000000010-000000000000001f-{DIGEST.hex()[:-1]}.raw",
        f"0000000000000010-000000000000001F-{DIGEST.hex()}.raw",
        f"0000000000000010-000000000000001f-{DIGEST.hex()}.bz",
        f"0000000000000010-000000000000001f-{DIGEST.hex()}.raw.partial",
        f".partial-0000000000000010-000000000000001f-{DIGEST.hex()}.raw",
        f"000000000000001f-0000000000000010-{DIGEST.hex()}.raw",
        f"0000000000000010-ffffffffffffffff-{DIGEST.hex()}.raw",
        f"../0000000000000010-000000000000001f-{DIGEST.hex()}.raw",
        f"/0000000000000010-000000000000001f-{DIGEST.hex()}.raw",
        f"a//b/0000000000000010-000000000000001f-{DIGEST.hex()}.raw",
        f"0000000000000010-000000000000001f-{DIGEST.hex()}.raw\n",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidField, match="ContentName"):
        Fragment.parse_name("a/journal", name)


offsets = st.integers(0, MAX_OFFSET)
codecs = st.sampled_from([codec for codec in Codec if codec is not Codec.INVALID])


@given(
    offsets, offsets, st.binary(min_size=20, max_size=20), codecs, st.sampled_from(["", "a/b=c"])
)
def test_every_fragment_is_found_again_by_its_name(
    left: int, right: int, digest: bytes, codec: Codec, postfix: str
) -> None:
    begin, end = sorted((left, right))
    fragment = Fragment("a/journal", begin, end, digest, codec, path_postfix=postfix)
    relative = fragment.content_path().removeprefix("a/journal/")
    assert Fragment.parse_name("a/journal", relative) == fragment


@pytest.mark.parametrize(
    ("changes", "context"),
    [
        ({"journal": "a"}, "Journal: invalid length"),
        ({"journal": "a/journal;meta"}, "Journal: not a valid token"),
        ({"begin": -1}, "End: expected 0 <= Begin <= End (have -1 and 31)"),
        ({"begin": 0x20}, "End: expected 0 <= Begin <= End (have 32 and 31)"),
        ({"sum": b"short"}, "Sum: expected 20 bytes (have 5)"),
        ({"codec": Codec.INVALID}, "CompressionCodec: is not set"),
        ({"backing_store": "nope"}, "BackingStore: not an absolute URL"),
        ({"path_postfix": "a/../b"}, "PathPostfix: must be a clean path"),
        ({"path_postfix": "/a"}, "PathPostfix: cannot begin with '/'"),
        ({"path_postfix": "a b"}, "PathPostfix: not a valid token"),
    ],
)
def test_a_bad_fragment_is_refused(changes: dict[str, Any], context: str) -> None:
    GOOD.validate()
    with pytest.raises(InvalidField) as refused:
        replace(GOOD, **changes).validate()
    assert str(refused.value).startswith(context)


def test_an_empty_fragment_has_the_sum_of_zeros() -> None:
    assert Fragment("a/journal", 7, 7).sum == ZERO_SUM != hashlib.sha1(b"").digest()
    Fragment("a/journal", 7, 7).validate()

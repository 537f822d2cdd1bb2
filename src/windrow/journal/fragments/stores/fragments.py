"""Fragments in stores: listed, kept, and read from an offset on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace

from windrow.journal.codec import Codec
from windrow.journal.errors import InvalidField
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.codecs import compress, decompress
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.errors import CorruptFragment
from windrow.journal.fragments.stores.open import Stores
from windrow.journal.fragments.stores.store import Store

_CHUNK = 1024 * 1024

log = logging.getLogger(__name__)


def list_fragments(store: Store, journal: str) -> list[Fragment]:
    """Every fragment of a journal that a store has. What is not one is skipped with a warning."""
    found = []
    for stored in store.list(f"{journal}/"):
        try:
            fragment = Fragment.parse_name(journal, stored.path)
        except InvalidField as error:
            log.warning(
                "store %s, journal %s: skipping %r: %s", store.url, journal, stored.path, error
            )
            continue
        found.append(replace(fragment, backing_store=store.url, mod_time=stored.mod_time))
    return found


async def list_all(stores: Stores, urls: Iterable[str], journal: str) -> list[Fragment]:
    """The fragments of a journal in all of its stores, for ``Index.replace_remote``."""
    found: list[Fragment] = []
    for url in urls:
        found += await asyncio.to_thread(list_fragments, stores.open(url), journal)
    return found


def persist(store: Store, spool: CompletedSpool, path_postfix: str = "") -> Fragment:
    """Upload a completed spool, unless the store has it already; returns it as persisted."""
    fragment = replace(spool.fragment, backing_store=store.url, path_postfix=path_postfix)
    path = fragment.content_path()
    if not store.exists(path):
        is_offloaded = fragment.codec is Codec.GZIP_OFFLOAD_DECOMPRESSION
        content = compress(fragment.codec, _chunks_of(spool))
        store.put(path, content, encoding="gzip" if is_offloaded else "")
    return fragment


def read_stored(store: Store, fragment: Fragment, offset: int) -> Iterator[bytes]:
    """The content of a persisted fragment from a journal offset on; blocks.

    Raises:
        CorruptFragment: It is not whole, which shows at the end.
    """
    what = f"{store.url}{fragment.content_path()}"
    left = fragment.end - offset
    pieces = decompress(
        fragment.codec, store.get(fragment.content_path()), offset - fragment.begin, what
    )
    for piece in pieces:
        left -= len(piece)
        yield piece
    if left:
        raise CorruptFragment(what, f"holds {fragment.length - left} bytes of {fragment.length}")


async def read_stored_async(store: Store, fragment: Fragment, offset: int) -> AsyncIterator[bytes]:
    """The same on an event loop: each piece is fetched in a thread."""
    pieces = read_stored(store, fragment, offset)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _chunks_of(spool: CompletedSpool) -> Iterator[bytes]:
    offset, end = spool.fragment.begin, spool.fragment.end
    while offset < end:
        chunk = spool.read_at(offset, _CHUNK)
        if not chunk:
            raise CorruptFragment(repr(spool), f"its file ends at offset {offset}")
        yield chunk
        offset += len(chunk)

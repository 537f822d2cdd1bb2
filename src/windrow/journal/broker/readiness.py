"""Is it known what the stores of a journal hold, and are they well? An append waits until it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windrow.journal.broker.ports import StoreHealth
    from windrow.journal.fragments.index import Index
    from windrow.journal.spec import FragmentSpec

UNFLUSHED_DAY = 24 * 3600.0
"""How long a journal without a flush interval must have been idle to count as flushed."""
LISTING_PATIENCE = 10.0
"""How long an append waits for the first listing before it asks whether the store is healthy."""


def is_ready(index: Index, spec: FragmentSpec, health: StoreHealth | None) -> bool:
    """Whether both are so by all that is known, without asking anybody."""
    is_healthy = not spec.stores or health is None or health.is_healthy(spec.stores[0])
    return index.is_listed and is_healthy


async def until_ready(index: Index, spec: FragmentSpec, health: StoreHealth | None) -> str:
    """Wait for the listing and ask after the store; empty, or what is wrong with it."""
    try:
        await asyncio.wait_for(index.wait_listed(), LISTING_PATIENCE)
    except TimeoutError:
        # A store that is sick may never be listed, and whoever appends has to know.
        if error := await _store_error(spec, health):
            return error
        await index.wait_listed()
    return await _store_error(spec, health)


async def _store_error(spec: FragmentSpec, health: StoreHealth | None) -> str:
    return (await health.check(spec.stores[0]) if health and spec.stores else None) or ""


def is_flushed(index: Index, spec: FragmentSpec, now: float) -> bool:
    """Whether all of the journal is in its stores, and has been for its flush interval."""
    if not index.entries:
        return True
    last = index.entries[-1].fragment
    return last.is_persisted and now - last.mod_time > (spec.flush_interval or UNFLUSHED_DAY)

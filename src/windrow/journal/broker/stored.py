"""The fragment stores of a broker: read, signed for, listed, and watched over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from windrow.errors import WindrowError
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.stores import StoreHealth, Stores, list_all, read_stored_async
from windrow.telemetry import get_logger

_log = get_logger(__name__)

SWEEP_INTERVAL = 3600.0


@dataclass(frozen=True, slots=True)
class _Watched:
    """A store whose health is asked about: the first check, and those after it."""

    store: StoreHealth
    first: asyncio.Future[None]
    task: asyncio.Task[None]

    @classmethod
    def begin(cls, store: StoreHealth, url: str) -> _Watched:
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def check() -> None:
            await store.check()
            first.set_result(None)
            await store.run()

        return cls(store, first, asyncio.create_task(check(), name=f"health of {url}"))


class BrokerStores:
    """Reads and lists fragments, and answers whether a store can be written."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._health: dict[str, _Watched] = {}
        self._used: set[str] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for stores that nobody uses any more."""
        self._sweeper = asyncio.create_task(self._sweep(), name="sweep of stores")

    async def stop(self) -> None:
        """End all checks."""
        tasks: list[asyncio.Task[Any]] = [watched.task for watched in self._health.values()]
        tasks += [self._sweeper] if self._sweeper is not None else []
        self._health.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def list(self, urls: Iterable[str], journal: str) -> list[Fragment]:
        """All fragments that the stores have of a journal.

        Raises:
            StoreError: One of them cannot be listed.
        """
        return await list_all(self.stores, urls, journal)

    async def signed_url(self, fragment: Fragment, ttl: float) -> str:
        """Where a client may fetch it for so many seconds; empty if it cannot."""
        try:
            store = self.stores.open(fragment.backing_store)
            return await asyncio.to_thread(store.signed_url, fragment.content_path(), ttl)
        except WindrowError as error:
            _log.warning("cannot sign a URL", store=fragment.backing_store, error=str(error))
            return ""

    async def read(self, fragment: Fragment, offset: int) -> AsyncGenerator[bytes, None]:
        """Its uncompressed content from a journal offset on.

        Raises:
            StoreError: The store does not give it out.
            CorruptFragment: It is not what its name says.
        """
        store = self.stores.open(fragment.backing_store)
        pieces = read_stored_async(store, fragment, offset)
        async with aclosing(pieces):  # type: ignore[type-var]  # a generator, typed as its interface
            async for piece in pieces:
                yield piece

    def is_healthy(self, store: str) -> bool:
        """Whether it is known to be healthy, so that there is nothing to wait for."""
        self._used.add(store)
        health = self._health.get(store)
        return health is not None and health.first.done() and health.store.error is None

    async def check(self, store: str) -> str | None:
        """None if it is healthy, else why not, once enough checks have failed."""
        self._used.add(store)
        try:
            health = self._watched(store)
        except WindrowError as error:
            return str(error)
        await asyncio.shield(health.first)
        if health.store.error is None:
            return None
        found = await health.store.wait_healthy()
        return None if found is None else str(found)

    def _watched(self, url: str) -> _Watched:
        if url not in self._health:
            self._health[url] = _Watched.begin(StoreHealth(self.stores.open(url)), url)
        return self._health[url]

    async def _sweep(self) -> None:
        while True:
            self._used.clear()
            await asyncio.sleep(SWEEP_INTERVAL)
            for url in [known for known in self._health if known not in self._used]:
                self._health.pop(url).task.cancel()
                self.stores.drop(url)

"""The client of a cluster of brokers: one object for everything that can be asked of them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from windrow.clock import Clock, SystemClock
from windrow.journal.client import listing
from windrow.journal.client.appender import Appender
from windrow.journal.client.calls import Calls
from windrow.journal.client.dial import Channels, Tls, Token, as_endpoint
from windrow.journal.client.meter import Meter
from windrow.journal.client.reader import Reader
from windrow.journal.client.requests import (
    AppendRequest,
    Change,
    Committed,
    ListedFragment,
    Listing,
    ReadRequest,
    Registers,
    as_labels,
)
from windrow.journal.client.retry_reader import RetryReader
from windrow.journal.client.retrying import is_append_retried
from windrow.journal.client.routes import Dispatcher, RouteCache
from windrow.journal.labels import LabelSelector
from windrow.journal.spec import SuspendControl
from windrow.telemetry import Metrics

Content = bytes | Iterable[bytes] | AsyncIterable[bytes]


class JournalClient:
    """Appends to journals, reads and lists them, and changes which there are.

    Made anywhere, but used in one event loop. ``follow_routes`` off sends every call to the given
    addresses, and leaves it to brokers to pass it on. ``patience`` is for how many seconds a
    listing, an append or a read that does not block is tried again; by default without end.
    ``metrics`` take what it counts; by default nothing is counted.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        tls: Tls | None = None,
        token: Token | None = None,
        zone: str = "",
        follow_routes: bool = True,
        file_root: Path | None = None,
        routes: RouteCache | None = None,
        patience: float = math.inf,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        given = [addresses] if isinstance(addresses, str) else addresses
        endpoints = [as_endpoint(address, secure=tls is not None) for address in given]
        self.file_root = file_root
        self.clock: Clock = clock or SystemClock()
        self.dispatcher = Dispatcher(
            endpoints, zone=zone, routes=routes, follow_routes=follow_routes
        )
        self.calls = Calls(self.dispatcher, Channels(tls, token), self.clock, Meter(metrics))
        self.calls.patience = patience

    async def __aenter__(self) -> JournalClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.calls.close()

    # -- appends ---------------------------------------------------------------------------------

    async def append(
        self,
        journal: str,
        content: Content = b"",
        *,
        offset: int = 0,
        check: LabelSelector | str | None = None,
        union: Registers = None,
        subtract: Registers = None,
        suspend: SuspendControl = SuspendControl.RESUME,
        attempt_timeout: float | None = None,
    ) -> Committed:
        """Append content as a whole, and return when every replica has it.

        Tries again, for as long as its patience lasts, while brokers cannot be reached or are
        between two routes; content that can be iterated only once is tried once. Without content
        it is a barrier: it returns the write head and the registers as they are after every append
        that was answered before.

        Args:
            journal: Where to.
            content: What: bytes, or pieces of them.
            offset: The write head it insists on; 0 for wherever that is.
            check: What the registers must match.
            union: Registers to set.
            subtract: Registers to remove.
            suspend: What to do about a suspended journal.
            attempt_timeout: Seconds that one try may take; after it the outcome is unknown.

        Raises:
            JournalStatusError: The broker refused; nothing was written.
            AppendUnknown: The answer was lost: read back before trying again.
        """
        request = append_request(journal, offset, check, union, subtract, suspend)
        can_repeat = isinstance(content, bytes | bytearray | list | tuple)
        began, attempt = self.clock.monotonic(), 0
        while True:
            try:
                return await self.append_once(request, content, attempt_timeout)
            except Exception as error:
                is_retried = can_repeat and is_append_retried(error)
                if not is_retried or self.calls.is_patience_over(began):
                    raise
            await self.calls.pause("Append", attempt)
            attempt += 1

    async def append_once(
        self, request: AppendRequest, content: Content = b"", attempt_timeout: float | None = None
    ) -> Committed:
        """One try of an append, whatever comes of it."""
        try:
            done = await self._append_once(request, content, attempt_timeout)
        except Exception as error:
            self.calls.meter.on_append_failed(error)
            raise
        self.calls.meter.on_appended(done.end - done.begin)
        return done

    async def _append_once(
        self, request: AppendRequest, content: Content, attempt_timeout: float | None
    ) -> Committed:
        async with Appender(self.calls, request, attempt_timeout) as appender:
            if isinstance(content, bytes | bytearray):
                await appender.write(bytes(content))
            elif isinstance(content, AsyncIterable):
                async for piece in content:
                    await appender.write(piece)
            else:
                for piece in content:
                    await appender.write(piece)
        assert appender.committed is not None  # or the block would have raised
        return appender.committed

    def appender(
        self,
        journal: str,
        *,
        offset: int = 0,
        check: LabelSelector | str | None = None,
        union: Registers = None,
        subtract: Registers = None,
        suspend: SuspendControl = SuspendControl.RESUME,
        attempt_timeout: float | None = None,
    ) -> Appender:
        """An append to be written piece by piece."""
        request = append_request(journal, offset, check, union, subtract, suspend)
        return Appender(self.calls, request, attempt_timeout)

    # -- reads -----------------------------------------------------------------------------------

    def reader(self, request: ReadRequest) -> Reader:
        """One call that reads, and ends when the broker ends it."""
        return Reader(self.calls, request, self.file_root)

    def retry_reader(self, request: ReadRequest) -> RetryReader:
        """A reader that goes on where the last call ended, whatever ended it."""
        return RetryReader(self.calls, request, self.file_root)

    async def read(
        self, journal: str, offset: int = 0, end_offset: int = 0, *, direct: bool = False
    ) -> bytes:
        """All content from an offset to another, or to the write head.

        Raises:
            OffsetJump: Some of it is not there any more.
        """
        request = ReadRequest(journal, offset, end_offset=end_offset, direct=direct)
        async with self.retry_reader(request) as reader:
            return b"".join([chunk.content async for chunk in reader])

    async def write_head(self, journal: str) -> int:
        """The offset at which the next append will begin."""
        return await listing.write_head(self.calls, journal)

    # -- which journals there are ----------------------------------------------------------------

    async def list(self, selector: LabelSelector | str = "") -> Listing:
        """The journals that match, sorted by name."""
        return await listing.list_all(self.calls, _selector(selector))

    def watch(self, selector: LabelSelector | str = "") -> AsyncIterator[Listing]:
        """The journals that match, now and again after each change."""
        return listing.watch(self.calls, _selector(selector))

    async def apply(self, changes: Iterable[Change], *, batch: int = 0) -> int:
        """Make changes of journals, and return the revision that has them.

        All together or none; or, with ``batch``, so many at a time.

        Raises:
            EtcdTransactionFailed: A journal is not at the expected revision.
        """
        return await listing.apply(self.calls, list(changes), batch)

    async def fragments(self, journal: str, **options: Any) -> Sequence[ListedFragment]:
        """The fragments of a journal, by their begin; options as ``listing.list_fragments``."""
        return await listing.list_fragments(self.calls, journal, **options)

    async def store_health(self, store: str, **options: Any) -> str:
        """What is wrong with a store, or nothing; options as ``listing.store_health``."""
        return await listing.store_health(self.calls, store, **options)


def append_request(
    journal: str,
    offset: int = 0,
    check: LabelSelector | str | None = None,
    union: Registers = None,
    subtract: Registers = None,
    suspend: SuspendControl = SuspendControl.RESUME,
) -> AppendRequest:
    """A request from what a caller wrote."""
    wanted = None if check is None else _selector(check)
    return AppendRequest(journal, offset, wanted, as_labels(union), as_labels(subtract), suspend)


def _selector(selector: LabelSelector | str) -> LabelSelector:
    return LabelSelector.parse(selector) if isinstance(selector, str) else selector

"""The client for programs without an event loop: the same names, blocking.

A thread runs the loop; every method hands its work to it and waits. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from windrow.journal.client.append_service import AppendService, PendingAppend
from windrow.journal.client.client import Content, JournalClient
from windrow.journal.client.loop_thread import LoopThread
from windrow.journal.client.requests import (
    AppendRequest,
    Change,
    Chunk,
    Committed,
    ListedFragment,
    Listing,
    ReadRequest,
)
from windrow.journal.client.sequence import Batch, WriterState
from windrow.journal.client.sequenced import OwnedWriter, SequencedCommit, SequencedWriter
from windrow.journal.labels import LabelSelector
from windrow.journal.message.record import Record


def connect(addresses: str | Sequence[str], **options: Any) -> SyncJournalClient:
    """A blocking client of the brokers at these addresses; options as of ``JournalClient``."""
    return SyncJournalClient(addresses, **options)


class SyncJournalClient:
    """``JournalClient``, blocking."""

    def __init__(self, addresses: str | Sequence[str], **options: Any) -> None:
        self.client = JournalClient(addresses, **options)
        self.thread = LoopThread()

    def append(self, journal: str, content: Content = b"", **options: Any) -> Committed:
        """Append content as a whole; see ``JournalClient.append``."""
        return self.thread.run(self.client.append(journal, content, **options))

    def read(
        self, journal: str, offset: int = 0, end_offset: int = 0, *, direct: bool = False
    ) -> bytes:
        """All content between two offsets; see ``JournalClient.read``."""
        return self.thread.run(self.client.read(journal, offset, end_offset, direct=direct))

    def chunks(self, request: ReadRequest) -> Iterator[Chunk]:
        """The content of a journal as it comes; see ``RetryReader``."""
        reader = self.client.retry_reader(request)
        try:
            yield from self.thread.iterate(reader)
        finally:
            self.thread.loop.call_soon_threadsafe(reader.close)

    def write_head(self, journal: str) -> int:
        """The offset at which the next append will begin."""
        return self.thread.run(self.client.write_head(journal))

    def list(self, selector: LabelSelector | str = "") -> Listing:
        """The journals that match, sorted by name."""
        return self.thread.run(self.client.list(selector))

    def watch(self, selector: LabelSelector | str = "") -> Iterator[Listing]:
        """The journals that match, now and again after each change."""
        return self.thread.iterate(self.client.watch(selector))

    def apply(self, changes: Iterable[Change], *, batch: int = 0) -> int:
        """Make changes of journals; see ``JournalClient.apply``."""
        return self.thread.run(self.client.apply(changes, batch=batch))

    def fragments(self, journal: str, **options: Any) -> Sequence[ListedFragment]:
        """The fragments of a journal; see ``listing.list_fragments``."""
        return self.thread.run(self.client.fragments(journal, **options))

    def store_health(self, store: str, **options: Any) -> str:
        """What is wrong with a store, or nothing; see ``listing.store_health``."""
        return self.thread.run(self.client.store_health(store, **options))

    def sequenced(self, journal: str, writer: str) -> SyncSequencedWriter:
        """A writer of numbered batches."""
        return SyncSequencedWriter(self.thread, SequencedWriter(self.client, journal, writer))

    def owned(self, journal: str, shard: str) -> SyncOwnedWriter:
        """A writer of numbered batches under a name that has to be owned."""
        return SyncOwnedWriter(self.thread, OwnedWriter(self.client, journal, shard))

    def service(self) -> SyncAppendService:
        """An append service on this client."""
        return SyncAppendService(self.thread, AppendService(self.client))

    def close(self) -> None:
        """Close every connection and give the thread back."""
        if not self.thread.is_stopped:
            self.thread.run(self.client.close())
            self.thread.stop()

    def __enter__(self) -> SyncJournalClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SyncSequencedWriter:
    """``SequencedWriter``, blocking."""

    def __init__(self, thread: LoopThread, writer: SequencedWriter) -> None:
        self._thread = thread
        self._writer = writer

    @property
    def last(self) -> Batch | None:
        """The last batch of this writer that is known to be in the journal."""
        return self._writer.last

    def open(self) -> WriterState:
        """Read where the journal and this writer stand."""
        return self._thread.run(self._writer.open())

    def append(self, records: Sequence[Record], batch_id: str | None = None) -> SequencedCommit:
        """Append records as one batch; see ``SequencedWriter.append``."""
        return self._thread.run(self._writer.append(records, batch_id))


class SyncOwnedWriter(SyncSequencedWriter):
    """``OwnedWriter``, blocking."""

    def __init__(self, thread: LoopThread, writer: OwnedWriter) -> None:
        super().__init__(thread, writer)
        self._owned = writer

    def take_ownership(self, owner: str, epoch: int = 0) -> Batch | None:
        """Become the owner; see ``OwnedWriter.take_ownership``."""
        return self._thread.run(self._owned.take_ownership(owner, epoch))

    def append_batch(self, batch_id: str, records: Sequence[Record]) -> SequencedCommit:
        """Append a batch while this process is the owner."""
        return self._thread.run(self._owned.append_batch(batch_id, records))


class SyncAppendService:
    """``AppendService``, blocking."""

    def __init__(self, thread: LoopThread, service: AppendService) -> None:
        self._thread = thread
        self._service = service

    def enqueue(
        self,
        request: AppendRequest | str,
        content: bytes,
        dependencies: Iterable[PendingAppend] = (),
    ) -> PendingAppend:
        """Buffer an append; see ``AppendService.enqueue``."""
        return self._thread.run(self._service.enqueue(request, content, dependencies))

    def wait(self, pending: PendingAppend) -> Committed:
        """Wait for a commit."""

        async def waiting() -> Committed:
            return await pending

        return self._thread.run(waiting())

    def flush(self) -> None:
        """Wait until everything enqueued so far is done, however it ended."""
        self._thread.run(self._service.flush())

    def close(self) -> None:
        """Send nothing more."""
        self._thread.run(self._service.close())

"""Many small appends as few large ones.

Every journal has a chain of links. Callers write into its last one; one task sends them in order,
one call each. While a call is under way, whatever is written meanwhile gathers in the next link,
so that the number of calls adapts to how fast they are answered.

A link is closed to a caller whose request differs, who waits for something it does not wait for, or
who comes when it is full. Appends are retried until they succeed, cannot, or patience is over. A
call whose answer was lost is sent again, so content may be there twice (``sequenced`` and
``message`` tell repetitions).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from windrow.journal.client.buffer import MEMORY, SpillBuffer
from windrow.journal.client.errors import DependencyFailed, RegistersNeedContent, ServiceClosed
from windrow.journal.client.requests import AppendRequest, Committed
from windrow.journal.client.retrying import is_service_append_retried

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient

MAX_LENGTH = 64 * 1024 * 1024
"""A link of this many bytes takes no more."""


class PendingAppend:
    """A link of a journal's chain: what several callers wrote, and how it will end.

    Await it for the ``Committed`` of the whole, or for the error.
    """

    def __init__(
        self, request: AppendRequest, dependencies: frozenset[PendingAppend], memory: int
    ) -> None:
        self.request = request
        self.dependencies = dependencies
        self.buffer = SpillBuffer(memory)
        self.appends = 0
        """How many callers' content it holds."""
        self.is_sealed = False
        self._ended: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        # Whoever does not await it has chosen not to know.
        self._ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def __await__(self) -> Generator[None, None, Committed]:
        # Shielded: a caller that is cancelled does not take the others' append with it.
        return asyncio.shield(self._ended).__await__()

    @property
    def is_done(self) -> bool:
        """Whether it has committed or failed."""
        return self._ended.done()

    @property
    def error(self) -> BaseException | None:
        """Why it failed, if it has."""
        return self._ended.exception() if self._ended.done() else None

    def takes(self, request: AppendRequest, dependencies: frozenset[PendingAppend]) -> bool:
        """Whether another append may travel with it."""
        return (
            not self.is_sealed
            and self.buffer.length <= MAX_LENGTH
            and (self.request is request or self.request == request)
            and dependencies <= self.dependencies
        )

    def end(self, outcome: Committed | BaseException) -> None:
        """It has committed or failed."""
        self.buffer.close()
        if isinstance(outcome, Committed):
            self._ended.set_result(outcome)
        else:
            self._ended.set_exception(outcome)

    async def wait(self) -> None:
        """Return when it is done, however it ended."""
        await asyncio.wait([self._ended])


_NOTHING: frozenset[PendingAppend] = frozenset()


class _Chain:
    """The links of one journal, and the task that sends them."""

    def __init__(self, journal: str) -> None:
        self.plain = AppendRequest(journal)
        self.links: deque[PendingAppend] = deque()
        self.writing = asyncio.Lock()
        self.sender: asyncio.Task[None] | None = None
        self.failure: DependencyFailed | None = None


class Writing:
    """The turn of one caller to write into a link."""

    def __init__(self, link: PendingAppend) -> None:
        self.pending = link
        """What to await once the turn is over."""
        self._link = link

    def write(self, content: bytes) -> None:
        """Add content to the append."""
        self._link.buffer.write(content)


class AppendService:
    """Batches the appends of one process.

    ``enqueue`` returns as soon as the content is buffered; what it returns is awaited for the
    commit. Appends to one journal are committed in the order in which they were enqueued.
    """

    def __init__(self, client: JournalClient, *, memory: int = MEMORY) -> None:
        self._client = client
        self._memory = memory
        self._chains: dict[str, _Chain] = {}
        self._is_closed = False

    async def append(
        self,
        request: AppendRequest | str,
        content: bytes,
        dependencies: Iterable[PendingAppend] = (),
    ) -> Committed:
        """Append and wait for the commit."""
        return await (await self.enqueue(request, content, dependencies))

    async def enqueue(
        self,
        request: AppendRequest | str,
        content: bytes,
        dependencies: Iterable[PendingAppend] = (),
    ) -> PendingAppend:
        """Buffer an append to a journal, to be sent when all of ``dependencies`` have committed."""
        chain, request = self._chain(request)
        if not chain.writing.locked():
            # The common case, without the cost of a turn: nothing else runs in between.
            with self._turn(chain, request, dependencies) as link:
                link.buffer.write(content)
            return link
        async with self.writing(request, dependencies) as writing:
            writing.write(content)
        return writing.pending

    @asynccontextmanager
    async def writing(
        self, request: AppendRequest | str, dependencies: Iterable[PendingAppend] = ()
    ) -> AsyncIterator[Writing]:
        """A turn to write: what its block writes is appended as a whole, or not if it fails.

        Turns of one journal follow each other.

        Raises:
            ServiceClosed: The service takes nothing more.
            DependencyFailed: An earlier append to the journal could not be made in order.
        """
        chain, request = self._chain(request)
        async with chain.writing:
            with self._turn(chain, request, dependencies) as link:
                yield Writing(link)

    def pending(self, journal: str) -> frozenset[PendingAppend]:
        """The last append of a journal, if it is not done: it is done after all before it."""
        chain = self._chains.get(journal)
        return frozenset(list(chain.links)[-1:]) if chain else frozenset()

    def pending_except(self, journal: str = "") -> frozenset[PendingAppend]:
        """The last appends of all journals but one: what must be there before that one's next."""
        others = (name for name in self._chains if name != journal)
        return frozenset().union(*(self.pending(name) for name in others))

    async def flush(self) -> None:
        """Wait until everything enqueued so far is done, however it ended."""
        for link in self.pending_except():
            await link.wait()

    async def close(self) -> None:
        """Send nothing more; what has not committed fails with ``ServiceClosed``."""
        self._is_closed = True
        senders = [chain.sender for chain in self._chains.values() if chain.sender is not None]
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        for journal, chain in self._chains.items():
            self._fail_all(chain, ServiceClosed(journal))

    async def __aenter__(self) -> AppendService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.flush()
        await self.close()

    # -- the chain -------------------------------------------------------------------------------

    def _chain(self, request: AppendRequest | str) -> tuple[_Chain, AppendRequest]:
        journal = request if isinstance(request, str) else request.journal
        chain = self._chains.get(journal)
        if chain is None:
            chain = self._chains[journal] = _Chain(journal)
        return chain, chain.plain if isinstance(request, str) else request

    @contextmanager
    def _turn(
        self, chain: _Chain, request: AppendRequest, dependencies: Iterable[PendingAppend]
    ) -> Iterator[PendingAppend]:
        """Add what the block writes to a link, or roll it back."""
        link = self._link(chain, request, dependencies)
        checkpoint = link.buffer.length
        try:
            yield link
            if request.changes_registers and link.buffer.length == 0:
                raise RegistersNeedContent(request.journal)
            link.appends += 1
        except BaseException:
            link.buffer.roll_back(checkpoint)
            raise
        finally:
            self._release(chain)

    def _link(
        self, chain: _Chain, request: AppendRequest, dependencies: Iterable[PendingAppend]
    ) -> PendingAppend:
        """The link to write into: the last one, or a new one behind it."""
        if self._is_closed:
            raise ServiceClosed(request.journal)
        if chain.failure is not None:
            raise chain.failure
        awaited = _NOTHING
        if dependencies:
            # What has committed need not be waited for; what has failed must not be forgotten. The
            # chain keeps its own order.
            open_ones = frozenset(d for d in dependencies if not d.is_done or d.error is not None)
            awaited = open_ones - frozenset(chain.links)
        if not chain.links or not chain.links[-1].takes(request, awaited):
            chain.links.append(PendingAppend(request, awaited, self._memory))
        return chain.links[-1]

    def _release(self, chain: _Chain) -> None:
        if chain.sender is None or chain.sender.done():
            chain.sender = asyncio.create_task(self._send_all(chain))

    async def _send_all(self, chain: _Chain) -> None:
        while chain.links:
            link = chain.links[0]
            try:
                await self._await_dependencies(link)
            except DependencyFailed as error:
                chain.failure = error
                self._fail_all(chain, error)
                return
            if link is chain.links[-1]:  # somebody may be writing into it, and is to finish first
                async with chain.writing:
                    link.is_sealed = True
            outcome = await self._outcome(link)
            chain.links.popleft()
            link.end(outcome)

    async def _outcome(self, link: PendingAppend) -> Committed | BaseException:
        if not link.appends:
            return ServiceClosed(link.request.journal)  # all was rolled back: nobody awaits it
        try:
            return await self._send(link)
        except Exception as error:
            return error

    async def _send(self, link: PendingAppend) -> Committed:
        began, attempt = self._client.clock.monotonic(), 0
        while True:
            try:
                return await self._client.append_once(link.request, link.buffer.chunks())
            except Exception as error:
                is_over = self._client.calls.is_patience_over(began)
                if is_over or not is_service_append_retried(error):
                    raise
            await self._client.calls.pause("Append", attempt)
            attempt += 1

    async def _await_dependencies(self, link: PendingAppend) -> None:
        for dependency in link.dependencies:
            await dependency.wait()
            if dependency.error is not None:
                raise DependencyFailed(
                    link.request.journal, dependency.request.journal, str(dependency.error)
                ) from dependency.error

    def _fail_all(self, chain: _Chain, error: Exception) -> None:
        while chain.links:
            chain.links.popleft().end(error)

"""A competing relay as a whole: an event loop that sends, and a thread that asks the outbox.

::

    CREATED ──start──▶ RUNNING ──stop, or an error it cannot mend──▶ STOPPING ──▶ STOPPED

One statement is under way at a time, in a thread of its own; messages are sent beside it. What to
do is decided by the machine. When the database goes away, what is being sent is still waited for,
and its outcome kept until the database is back or the relay is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from windrow.config.competing import Competing
from windrow.errors import Unreachable
from windrow.outbox.errors import DatabaseFailed
from windrow.points import pass_by
from windrow.relay.competing.backoff import Backoff
from windrow.relay.competing.contract import Claim, ClaimStore, Later, Target
from windrow.relay.competing.machine import CompetingMachine, Counts
from windrow.relay.competing.steps import (
    Abandon,
    ClaimRows,
    End,
    FinishRows,
    ReleaseRows,
    RenewRows,
    Rest,
    StoreStep,
)
from windrow.relay.events import DatabaseLost
from windrow.relay.service import RelayState
from windrow.telemetry.events import EventBus

AWAY = (DatabaseFailed, Unreachable)
RECONNECTING = Backoff(0.1, 5.0)
SENDING_AFTER = 0.003
"""How long after a claim its first messages are certainly written, and hardly answered."""


class CompetingRelay:
    """Moves messages from an outbox that it shares with others to a target.

    It runs on threads of its own, from ``start`` until ``stop`` or an error that it cannot mend; as
    a context manager it starts and stops by itself.

    Args:
        store: The outbox.
        target: Where messages go.
        settings: How much at a time, how long, how often.
        events: Where to tell what happens; by default a bus of its own.
        drain_timeout: How long a stop waits for what is on its way.
    """

    def __init__(
        self,
        store: ClaimStore,
        target: Target,
        settings: Competing,
        *,
        events: EventBus | None = None,
        drain_timeout: float = 10.0,
    ) -> None:
        self._store, self._target, self._settings = store, target, settings
        self.events = events or EventBus()
        self.state = RelayState.CREATED
        self.token: UUID = uuid4()
        """What its claims are known by in the outbox."""
        self.has_database = True
        self._drain_timeout = drain_timeout
        self._machine = CompetingMachine(settings, target.destination, random.random)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._asking = ThreadPoolExecutor(1, "windrow-outbox")
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._asked_to_stop = threading.Event()
        self._asked_to_drain: float | None = None
        self._error: BaseException | None = None

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Connect both ends and begin.

        Raises:
            WindrowError: An end cannot be reached or used.
        """
        if self.state is not RelayState.CREATED:
            raise RuntimeError(f"a relay starts once; this one is {self.state.value}")
        self.state = RelayState.RUNNING
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._guarded, args=(opened,), name="windrow-competing", daemon=True
        )
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            self._thread.join()
            raise
        return self

    def stop(self, drain: float | None = None) -> None:
        """Ask it to end; returns at once, any number of times.

        Args:
            drain: How long to wait for what is on its way, in seconds; by default as configured.
                What has not been answered by then goes back to the outbox, and may come twice.
        """
        if drain is not None:
            self._asked_to_drain = drain
        self._asked_to_stop.set()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._on_stop)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; false if it has not come in time.

        Raises:
            BaseException: What ended the relay, if it was not asked to stop.
        """
        if self._thread is None:
            return True
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        self.wait()

    # -- introspection ---------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """What has happened since the start."""
        return self._machine.counts

    @property
    def delivered(self) -> int:
        """How many messages were delivered and removed since the start."""
        return self._machine.counts.delivered

    @property
    def in_flight(self) -> int:
        """How many rows it holds."""
        return self._machine.held

    @property
    def sending(self) -> int:
        """How many messages are on their way."""
        return self._machine.sending

    @property
    def open_circuits(self) -> int:
        """How many destinations are left alone because nobody answers there."""
        return self._machine.open_circuits

    # -- the loop --------------------------------------------------------------------------------

    def _guarded(self, opened: Future[None]) -> None:
        try:
            asyncio.run(self._run(opened))
        except BaseException as error:
            self._error = error
            if not opened.done():
                opened.set_exception(error)
        finally:
            self._asking.shutdown()
            self.state = RelayState.STOPPED

    async def _run(self, opened: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self._ask(self._store.open)
            await self._target.open()
            opened.set_result(None)
            if self._asked_to_stop.is_set():
                self._on_stop()
            await self._pump()
        finally:
            self.state = RelayState.STOPPING
            await self._cancel(list(self._tasks))
            await self._target.close()
            await self._ask(self._store.close)

    async def _pump(self) -> None:
        while True:
            self._wake.clear()
            now = time.monotonic()
            step = self._machine.next_step(now)
            match step:
                case End():
                    return
                case Rest():
                    await self._rest(step.until - now)
                case Abandon():
                    await self._cancel(step.ids)
                    self._machine.on_abandoned(step)
                case _:
                    await self._perform(step)
            self._send_more()
            self._tell()

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _on_stop(self) -> None:
        if self._asked_to_drain is not None or not self._stopping.is_set():
            drain = self._asked_to_drain
            patience = self._drain_timeout if drain is None else drain
            self.state = RelayState.STOPPING
            self._machine.stop(time.monotonic(), patience)
        self._stopping.set()
        self._wake.set()

    def _tell(self) -> None:
        for event in self._machine.take_events():
            self.events.emit(event)

    # -- the outbox ------------------------------------------------------------------------------

    async def _perform(self, step: StoreStep) -> None:
        if isinstance(step, ClaimRows):
            pass_by("competing.before-claim")
        elif isinstance(step, FinishRows) and step.delivered:
            pass_by("competing.sent")
        began = time.monotonic()
        try:
            await self._perform_at(step, began)
        except AWAY as error:
            self._machine.on_failed(step)
            await self._reconnect(error)

    async def _perform_at(self, step: StoreStep, began: float) -> None:
        store, token, lease = self._store, self.token, self._settings.lock_expiry
        match step:
            case ClaimRows():
                asked = token, step.limit, lease, step.topics, step.suspects
                claims = await self._ask(store.claim, *asked)
                if claims:
                    pass_by("competing.claimed")
                self._machine.on_claimed(step, claims, began, time.monotonic())
                if claims:
                    asyncio.get_running_loop().call_later(SENDING_AFTER, self._pass_sending)
            case FinishRows():
                rows = step.delivered, step.retries, step.burials
                lost = await self._ask(store.finish, token, *rows)
                self._machine.on_finished(step, lost)
            case RenewRows():
                lost = await self._ask(store.renew, token, step.ids, lease)
                self._machine.on_renewed(step, lost, began)
            case ReleaseRows():
                await self._ask(store.release, token, step.ids)
                self._machine.on_released(step)

    async def _ask(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._asking, call, *arguments)

    async def _reconnect(self, error: BaseException) -> None:
        """Come back when the database does; sends go on meanwhile, and are answered."""
        self.has_database = False
        failures = 0
        while not self._machine.is_overdue(time.monotonic()):
            failures += 1
            pause = RECONNECTING.delay(failures, random.random())
            self.events.emit(DatabaseLost(str(error), pause))
            await self._rest_from_database(pause)
            try:
                await self._ask(self._store.close)
                await self._ask(self._store.open)
            except AWAY as again:
                error = again
            else:
                self.has_database = True
                return
        self._machine.give_up()

    async def _rest_from_database(self, seconds: float) -> None:
        """Wait so long; when asked to stop meanwhile, only as long as a stop may take."""
        if self._stopping.is_set():
            await asyncio.sleep(min(seconds, 0.1))
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    # -- messages --------------------------------------------------------------------------------

    def _send_more(self) -> None:
        loop = asyncio.get_running_loop()
        for claim in self._machine.to_send(time.monotonic()):
            self._tasks[claim.id] = loop.create_task(self._send(claim))

    async def _send(self, claim: Claim) -> None:
        try:
            outcome = await self._target.send(claim)
        except Exception as error:
            # A mistake of ours in a single message must not end all the others.
            outcome = Later(f"the target failed: {type(error).__name__}: {error}")
        self._tasks.pop(claim.id, None)
        if self._machine.on_outcome(claim.id, outcome, time.monotonic()):
            self._wake.set()
        self._send_more()

    def _pass_sending(self) -> None:
        if self._machine.sending:
            pass_by("competing.sending")

    async def _cancel(self, rows: Any) -> None:
        tasks = [self._tasks.pop(row) for row in rows if row in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

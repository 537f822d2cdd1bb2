"""Performs what the machine of one append asks for.

A run is a task of its own and is never cancelled: a client that goes away is an event to the
machine, which then rolls back and leaves the pipeline in order for those behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.errors import OutcomeUnknown, WindrowError
from windrow.journal.broker import append_events as on
from windrow.journal.broker.append_group import Outcome, PendingAppend, take_group
from windrow.journal.broker.append_machine import AppendMachine
from windrow.journal.broker.back_fill import back_fill
from windrow.journal.broker.flow_control import QUANTUM
from windrow.journal.broker.group import Member, Verdict
from windrow.journal.broker.head import Head
from windrow.journal.broker.keyspace_changes import KeyspaceChanges, is_assigned
from windrow.journal.broker.ownership import GivenUp
from windrow.journal.broker.pipeline import PeerFailed, Pipeline
from windrow.journal.broker.readiness import is_flushed, is_ready, until_ready
from windrow.journal.broker.signals import Signal, done_before
from windrow.journal.fragments.errors import SpoolBroken, SpoolError
from windrow.journal.labels import EMPTY
from windrow.journal.not_written import FailureKind
from windrow.journal.spec import Suspend
from windrow.journal.status import Status
from windrow.points import pass_by
from windrow.telemetry import get_logger

if TYPE_CHECKING:
    from windrow.coordination.store import TxnResult
    from windrow.journal.broker.ports import Peers, Resolution, Resolver, StoreHealth
    from windrow.journal.broker.replica import Replica
    from windrow.journal.spec import Header, JournalSpec

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AppendServices:
    """What appends need of the broker around them."""

    resolver: Resolver
    peers: Peers
    changes: KeyspaceChanges
    member: str
    """This broker, as members of heads are written."""
    is_durable: bool
    store_health: StoreHealth | None = None
    max_append_rate: int = 0
    """The most that any journal takes, whatever its specification says; 0 is no limit."""


class AppendRun:
    """One append, from its first message to its answer."""

    def __init__(
        self, pending: PendingAppend, header: Header | None, services: AppendServices
    ) -> None:
        self._pending, self._header, self._services = pending, header, services
        self._conditions, self._inbox = pending.conditions, pending.inbox
        self._journal = self._conditions.journal
        self._resolution: Resolution | None = None
        self._owned: Replica | None = None
        """The replica whose pipeline is ours."""
        self._pipeline: Pipeline | None = None
        self._group: list[tuple[PendingAppend, Member]] = []
        self._delayed_chunks = 0

    async def run(self) -> None:
        """Go through the steps, and answer the append and whoever was taken along.

        If it is itself taken along by another, that one answers it.
        """
        try:
            await self._run()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the whole process ends
            # Something that we waited for was cancelled. A run that ends of it with the pipeline in
            # its hands would be the journal's last.
            await self._on_failed(error)
        except Exception as error:
            await self._on_failed(error)

    async def _on_failed(self, error: BaseException) -> None:
        _log.error("append failed", journal=self._journal, exc_info=error)
        await self._give_back(shuts_down=True)
        reason = f"{type(error).__name__}: {error}"
        failed = Outcome(self._resolution, Verdict(Status.OK, EMPTY), reason)
        for pending in (self._pending, *(pending for pending, _ in self._group)):
            pending.answer(failed)

    async def _run(self) -> None:
        services = self._services
        machine = AppendMachine(
            self._conditions, member=services.member, is_durable=services.is_durable
        )
        command = machine.start()
        while not machine.is_over:
            event = await _PERFORM[type(command)](self, command)
            if event is None:
                return
            command = machine.handle(event)
            if machine.is_synced:
                self._on_synced()
        await self._end(command)

    def _on_synced(self) -> None:
        """All members agreed, and nothing was sent since: what they hold is acknowledged."""
        pipeline = self._pipeline
        if pipeline is not None and not pipeline.is_synced:
            pipeline.is_synced = True
            pipeline.replica.acknowledge(pipeline.spool.fragment.end)

    async def _end(self, command: on.Command) -> None:
        if isinstance(command, on.Proxy):
            await self._give_back()
            self._pending.answer(Outcome(self._resolution, None))
            return
        assert isinstance(command, on.Finish)
        await self._give_back(shuts_down=command.shuts_down)
        outcomes = [self._outcome(command, verdict) for verdict in command.verdicts]
        self._pending.answer(outcomes[0])
        for (pending, _), outcome in zip(self._group, outcomes, strict=False):
            pending.answer(outcome)

    def _outcome(self, command: on.Finish, verdict: Verdict) -> Outcome:
        failure = FailureKind.PASSING if command.is_unwritten else FailureKind.UNKNOWN
        return Outcome(
            self._resolution,
            verdict,
            verdict.error or (command.error if verdict.commits else ""),
            command.store_error,
            self._delayed_chunks,
            FailureKind.REFUSED if verdict.error else failure,
        )

    # -- Resolve ---------------------------------------------------------------------------------

    async def _resolve(self, command: on.Resolve) -> on.Event:
        if command.gives_back:
            await self._give_back()
        if command.shuts_down and self._pipeline is not None:
            self._pipeline.close_soon()
            self._pipeline = None
        decided = self._owned.head_revision if self._owned else 0
        resolving = self._services.resolver.resolve(
            self._journal,
            require_primary=True,
            may_proxy=self._conditions.may_proxy,
            header=self._header,
            min_revision=max(command.min_revision, decided),
        )
        try:
            if self._owned is None and not command.min_revision and self._header is None:
                return self._on_resolution(await resolving)  # there is no revision to wait for
            task = asyncio.ensure_future(resolving)
            if await done_before(task, self._inbox.gone):
                return self._on_resolution(task.result())
            return on.ClientGone()
        except WindrowError as error:
            return on.ResolveFailed(str(error))

    def _on_resolution(self, resolution: Resolution) -> on.Event:
        self._resolution = resolution
        spec, item = resolution.journal_spec, resolution.item
        head = self._head()
        if resolution.is_local_primary and resolution.replica is None:
            return on.ResolveFailed(f"journal {self._journal!r}: this broker is letting go of it")
        return on.Resolved(
            status=resolution.status,
            revision=resolution.header.etcd.revision,
            route=resolution.route,
            is_local_primary=resolution.is_local_primary,
            desired_replicas=resolution.desired_replicas,
            spec=spec,
            create_revision=item.create_revision if item else 0,
            is_assigned=is_assigned(resolution),
            head=head,
            is_same_replica=self._owned is None or self._owned is resolution.replica,
        )

    def _head(self) -> Head | None:
        kv = self._now.head
        return Head.decode(self._journal, kv.value, kv.mod_revision) if kv else None

    def _valid_head(self) -> Head | None:
        head, item = self._head(), self._now.item
        if head is None or item is None or head.create_revision != item.create_revision:
            return None
        return head

    # -- AcquirePipeline, StartPipeline ----------------------------------------------------------

    async def _acquire_pipeline(self, command: on.AcquirePipeline) -> on.Event | None:
        """Wait for the pipeline, or to be taken along by its owner: then there is no event."""
        if command.gives_back:
            await self._give_back()
        replica, pending = self._replica, self._pending
        await self._inbox.settle(QUANTUM)
        if pending.may_join and not replica.pipeline.is_here:
            replica.waiting.append(pending)
        try:
            held = await replica.pipeline.take(unless=(*self._interruptions(), pending.taken))
        except GivenUp:
            if pending.taken.is_set():
                return None
            return on.ClientGone() if self._inbox.gone.is_set() else on.Invalidated()
        finally:
            if pending in replica.waiting:
                replica.waiting.remove(pending)
        if pending.taken.is_set():
            replica.pipeline.give(held)
            return None
        self._owned, self._pipeline = replica, held
        if self._inbox.gone.is_set():
            return on.ClientGone()
        is_invalidated = self._now.invalidated.is_set() or replica.ended.is_set()
        return on.PipelineAcquired(held.state() if held else None, is_invalidated)

    async def _build_pipeline(self, _: on.BuildPipeline) -> on.Event:
        replica, resolution = self._replica, self._now
        if self._pipeline is not None:
            self._pipeline.close_soon()
            self._pipeline = None
        if resolution.header.etcd.revision < replica.head_revision:
            # The head has moved since, by an append before us, and our spool with it.
            return on.Invalidated()
        try:
            spool = await replica.spool.take(unless=self._interruptions())
        except GivenUp:
            return on.ClientGone() if self._inbox.gone.is_set() else on.Invalidated()
        head = self._valid_head()
        kv = resolution.head
        try:
            replica.admit(spool, head)
        except SpoolError as error:
            replica.spool.give(spool)
            return on.PeersFailed(str(error))
        self._pipeline = Pipeline(
            replica,
            spool,
            resolution.route,
            term=replica.choose_term(head) if replica.is_durable else 0,
            head_revision=kv.mod_revision if kv else 0,
        )
        self._pipeline.open(self._services.peers, resolution.local_id)
        return on.PipelineBuilt(self._pipeline.state())

    def _interruptions(self) -> tuple[Signal, ...]:
        return self._inbox.gone, self._now.invalidated, self._replica.ended

    # -- SendPipelineSync, RecvPipelineSync ------------------------------------------------------

    async def _send_sync(self, command: on.SendSync) -> on.Event:
        pipeline = self._held
        try:
            await pipeline.send_sync(
                command.proposal,
                command.registers,
                header=self._now.header if command.with_header else None,
                rewind=command.rewind,
                acknowledged_end=command.acknowledged_end,
            )
        except SpoolError as error:
            pipeline.on_spool_failed()
            return on.PeersFailed(str(error))
        return on.SyncSent(pipeline.spool_state())

    async def _recv_sync(self, _: on.RecvSync) -> on.Event:
        try:
            return on.SyncReceived(await self._held.gather_sync())
        except PeerFailed as error:
            return on.PeersFailed(str(error))

    async def _back_fill(self, command: on.BackFill) -> on.Event:
        pipeline = self._held
        try:
            await back_fill(pipeline, command.copy, command.empty)
        except PeerFailed as error:
            return on.PeersFailed(str(error))
        except SpoolError as error:
            pipeline.on_spool_failed()
            return on.PeersFailed(str(error))
        return on.BackFilled(pipeline.spool_state())

    # -- DecideHead, UpdateAssignments, UpdateSuspend --------------------------------------------

    async def _put_head(self, command: on.PutHead) -> on.Event:
        pass_by("journal.promised")
        change = self._services.changes.put_head(self._now, self._journal, command.head)
        event = await self._transact(change, command.head)
        pass_by("journal.decided")
        return event

    async def _put_assignments(self, command: on.PutAssignments) -> on.Event:
        change = self._services.changes.put_assignments(self._now, self._journal, command.head)
        return await self._transact(change, command.head)

    async def _put_suspend(self, command: on.PutSuspend) -> on.Event:
        suspend = Suspend(command.level, command.offset)
        change = self._services.changes.put_suspend(self._now, self._journal, suspend, command.head)
        return await self._transact(change)

    async def _transact(self, change: Awaitable[TxnResult], head: Head | None = None) -> on.Event:
        try:
            result = await change
        except OutcomeUnknown as error:
            if head is not None:
                kv = self._now.head
                self._replica.on_head_undecided(kv.mod_revision if kv else 0, head.term)
            return on.TransactionUnknown(str(error))
        except WindrowError as error:
            return on.TransactionUnknown(str(error))
        if head is not None and result.succeeded:
            self._replica.on_head_decided(result.revision)
        return on.Transacted(result.succeeded, result.revision)

    # -- ValidatePreconditions -------------------------------------------------------------------

    async def _await_index(self, _: on.AwaitIndex) -> on.Event:
        replica, index = self._replica, self._replica.index
        journal = index, self._spec.fragment
        store_error = ""
        if not is_ready(*journal, self._services.store_health):
            ready = asyncio.ensure_future(until_ready(*journal, self._services.store_health))
            if not await done_before(ready, *self._interruptions()):
                gone = self._inbox.gone.is_set()
                return on.ClientGone() if gone else on.Invalidated()
            store_error = ready.result()
        return on.IndexReady(
            index.begin_offset,
            index.end_offset,
            is_flushed(*journal, replica.now()),
            store_error,
            replica.now(),
        )

    # -- StreamContent ---------------------------------------------------------------------------

    async def _roll(self, command: on.Roll) -> on.Event:
        pipeline = self._held
        await pipeline.quiesce()
        if self._replica.acknowledged_end < pipeline.spool.fragment.end:
            return on.SendFailed("an earlier append of the pipeline was not acknowledged")
        registers = pipeline.spool.registers
        sent = await self._sent(pipeline.propose(command.proposal, registers, acknowledge=False))
        return on.Rolled(pipeline.spool_state()) if isinstance(sent, on.Sent) else sent

    async def _take_content(self, _: on.TakeContent) -> on.Event:
        if self._inbox.is_whole:
            # One that races with another goes out behind it at once. If there are more, they
            # gather while one group is on its way, and go together: a message to each peer, and a
            # sync of each disk, cost the same for one append as for a hundred.
            pipeline = self._held
            is_crowded = self._replica.waiting or pipeline.unanswered > 1
            await pipeline.wait_room(1 if is_crowded else 2)
            self._group = take_group(self._replica, self._pending)
            pipeline.unanswered += len(self._group)
            return on.GroupTaken(tuple(member for _, member in self._group))
        rates = [self._spec.max_append_rate, self._services.max_append_rate]
        lowest = min((rate for rate in rates if rate), default=0)
        self._replica.flow.begin(time.monotonic(), lowest)
        return await self._receive_chunk(on.ReceiveChunk())

    async def _receive_chunk(self, _: on.ReceiveChunk) -> on.Event:
        flow = self._replica.flow
        received = await self._inbox.receive_in_time(flow, self._now.invalidated)
        self._delayed_chunks = flow.delayed_chunks
        return received

    async def _send_content(self, command: on.SendContent) -> on.Event:
        # What is here as a whole goes out together with its proposal.
        sending = self._held.send_content(command.content, command.delta, joins=bool(self._group))
        return await self._sent(sending)

    async def _propose_commit(self, command: on.ProposeCommit) -> on.Event:
        proposal = self._held.spool.next()
        return await self._sent(self._held.propose(proposal, command.registers, acknowledge=True))

    async def _propose_rollback(self, _: on.ProposeRollback) -> on.Event:
        spool = self._held.spool
        return await self._sent(
            self._held.propose(spool.fragment, spool.registers, acknowledge=True)
        )

    async def _sent(self, sending: Awaitable[None]) -> on.Event:
        try:
            await sending
        except SpoolBroken as error:
            self._held.on_spool_failed()
            return on.SendFailed(str(error))
        except SpoolError as error:
            return on.SendFailed(str(error), is_local=True)
        failed = self._held.send_error()
        return on.SendFailed(str(failed)) if failed else on.Sent()

    # -- ReadAcknowledgements --------------------------------------------------------------------

    async def _read_acks(self, command: on.ReadAcks) -> on.Event:
        """Release the sending side, then read what is ours to read, in turn."""
        pipeline, replica, end = self._held, self._replica, self._held.spool.fragment.end
        before, gate = pipeline.barrier()
        if command.closes:
            pipeline.close_soon()
        self._hand_on(None if command.closes else pipeline)
        try:
            await _flush_and_gather(pipeline, before)
        except PeerFailed as error:
            return on.PeersFailed(str(error))
        except SpoolError as error:
            pipeline.on_spool_failed()
            return on.PeersFailed(str(error))
        else:
            replica.acknowledge(end)
        finally:
            pipeline.unanswered -= len(self._group)
            pipeline.pass_barrier(gate)
        await self._announce(replica, pipeline)
        return on.Acknowledged()

    async def _announce(self, replica: Replica, pipeline: Pipeline) -> None:
        """If nobody sends after us, tell the replicas that our bytes may be seen.

        Before we answer: whoever has the answer finds his bytes at whichever replica he asks.
        """
        if not pipeline.peers or pipeline.has_readers or replica.pipeline.peek() is not pipeline:
            return
        replica.pipeline.take_now()
        try:
            await pipeline.announce()
        finally:
            replica.pipeline.give(pipeline)

    # -- what is held ----------------------------------------------------------------------------

    async def _give_back(self, *, shuts_down: bool = False) -> None:
        """Give back the pipeline, if it is held: whole, or as none at all."""
        if self._owned is None:
            return
        pipeline = self._pipeline
        if pipeline is not None and (shuts_down or not pipeline.is_synced):
            pipeline.close_soon()
            pipeline = None
        if pipeline is not None and not pipeline.has_readers:
            await pipeline.announce()
        self._hand_on(pipeline)

    def _hand_on(self, pipeline: Pipeline | None) -> None:
        assert self._owned is not None
        self._owned.pipeline.give(pipeline)
        self._owned, self._pipeline = None, None

    @property
    def _now(self) -> Resolution:
        assert self._resolution is not None
        return self._resolution

    @property
    def _replica(self) -> Replica:
        assert self._now.replica is not None
        return self._now.replica

    @property
    def _held(self) -> Pipeline:
        assert self._pipeline is not None
        return self._pipeline

    @property
    def _spec(self) -> JournalSpec:
        assert self._now.journal_spec is not None
        return self._now.journal_spec


async def _flush_and_gather(pipeline: Pipeline, before: asyncio.Event) -> None:
    """Our own flush runs while the peers do theirs."""
    begun = pipeline.spool.begin_flush()
    await before.wait()
    if pipeline.peers:
        pass_by("journal.acks-unread")
        await pipeline.gather_ok()
    await pipeline.spool.flush(begun)
    pass_by("journal.acknowledged")


_PERFORM: dict[type, Callable[[AppendRun, Any], Awaitable[on.Event | None]]] = {
    on.Resolve: AppendRun._resolve,
    on.AcquirePipeline: AppendRun._acquire_pipeline,
    on.BuildPipeline: AppendRun._build_pipeline,
    on.SendSync: AppendRun._send_sync,
    on.RecvSync: AppendRun._recv_sync,
    on.BackFill: AppendRun._back_fill,
    on.PutHead: AppendRun._put_head,
    on.PutAssignments: AppendRun._put_assignments,
    on.PutSuspend: AppendRun._put_suspend,
    on.AwaitIndex: AppendRun._await_index,
    on.Roll: AppendRun._roll,
    on.TakeContent: AppendRun._take_content,
    on.ReceiveChunk: AppendRun._receive_chunk,
    on.SendContent: AppendRun._send_content,
    on.ProposeCommit: AppendRun._propose_commit,
    on.ProposeRollback: AppendRun._propose_rollback,
    on.ReadAcks: AppendRun._read_acks,
}

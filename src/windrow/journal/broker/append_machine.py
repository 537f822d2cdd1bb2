"""The steps of one append, or of a group of small ones. No I/O.

::

    RESOLVE ──▶ ACQUIRE_PIPELINE ──▶ START_PIPELINE ─────────────────┐ route and term unchanged
       ▲                                   │ builds                  ▼
       │                     SEND_PIPELINE_SYNC ⇄ RECV_PIPELINE_SYNC ──▶ UPDATE_ASSIGNMENTS
       │                           ▲               │ members differ          │
       │                           └─ DECIDE_HEAD ◀┤ (durable spools)        ▼
       │          if a member is away: BACK_FILL ◀─┘              AWAIT_DESIRED_REPLICAS ──▶ PROXY
       └─ whenever the route may have changed                                ▼
          FINISHED ◀── READ_ACKNOWLEDGEMENTS ◀── STREAM_CONTENT ◀── VALIDATE_PRECONDITIONS

The machine takes what happened and returns what to do next. States that decide without waiting are
passed through in one call; ``trail`` has them all. A terminal command gives back whatever is held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windrow.errors import WindrowError
from windrow.journal.broker import append_events as on
from windrow.journal.broker.append_events import AppendState, Command, Event
from windrow.journal.broker.content_phase import ContentEvent, ContentPhase
from windrow.journal.broker.group import Conditions, Verdict, WriteHead
from windrow.journal.broker.head import Head
from windrow.journal.broker.preconditions import (
    Accepted,
    MoveHead,
    Refused,
    SetSuspend,
    check_preconditions,
)
from windrow.journal.broker.rolling import empty_at, rolled
from windrow.journal.broker.sync import (
    Agreed,
    Disagreed,
    MoveTo,
    NoMemberOfHead,
    ReadThrough,
    Standing,
    decide_furthest,
    decide_lowest,
)
from windrow.journal.fragment import Fragment
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.spec import JournalSpec, SuspendControl, SuspendLevel
from windrow.journal.status import Status


class ImpossibleEvent(WindrowError):
    """An event arrived in a state that cannot have caused it: a bug."""

    def __init__(self, state: AppendState, event: Event) -> None:
        super().__init__(state, event)
        self.state, self.event = state, event

    def __str__(self) -> str:
        return f"{type(self.event).__name__} cannot happen in {self.state.name}: {self.event}"


class AppendMachine:
    """One append from its resolution to its acknowledgement."""

    def __init__(self, conditions: Conditions, *, member: str, is_durable: bool) -> None:
        self.conditions = conditions
        self.state = AppendState.RESOLVE
        self.trail: list[AppendState] = []
        self._member = member
        self._is_durable = is_durable
        self._resolved: on.Resolved | None = None
        self._pipeline: on.PipelineState | None = None
        self._owns_pipeline = False
        self._sends_header = False
        self.is_synced = False
        """Whether the members of the pipeline that is held have agreed on what they hold."""
        self._has_moved = False
        """Whether the members were told to begin anew by this pipeline's synchronisation."""
        self._head: Head | None = None
        """As resolved, or as decided since by this pipeline."""
        self._decided: Head | None = None
        self._target: MoveTo | None = None
        """Where the members shall go once what they lack is copied to them."""
        self._roll_to = 0
        self._move_to = 0
        """An offset that the journal's head shall be moved to, whatever the spools hold."""
        self._index_end = 0
        self._is_reset = False
        """Whether an operator's offset stands in for the members of the head."""
        self._content: ContentPhase | None = None

    # -- the one place where state and event meet ------------------------------------------------

    def start(self) -> Command:
        """The first command."""
        return self._enter(AppendState.RESOLVE, on.Resolve(self.conditions.min_revision))

    def handle(self, event: Event) -> Command:
        """Take what happened, and return what to do next.

        Raises:
            ImpossibleEvent: Nothing that was asked for can have led to it.
        """
        handler = _HANDLERS.get((self.state, type(event)))
        if handler is None:
            raise ImpossibleEvent(self.state, event)
        return handler(self, event)

    def _enter(self, state: AppendState, command: Command) -> Command:
        self._pass(state)
        return command

    def _pass(self, state: AppendState) -> None:
        self.state = state
        self.trail.append(state)

    # -- Resolve, AcquirePipeline ----------------------------------------------------------------

    def _on_resolved(self, event: on.Resolved) -> Command:
        self._resolved, self._head = event, event.head
        if event.status is Status.SUSPENDED and self._resumes() and event.spec is not None:
            return self._set_suspend(SuspendLevel.NONE, event.spec.suspend.offset)
        if event.status is not Status.OK:
            return self._refuse(event.status)
        if not event.is_local_primary:
            return self._await_desired_replicas(event)
        if self._is_durable and len(event.route.members) < event.desired_replicas:
            # A head decided by too few would leave out members that are only late, with bytes.
            return self._refuse(Status.INSUFFICIENT_JOURNAL_BROKERS)
        if not self._owns_pipeline:
            return self._enter(AppendState.ACQUIRE_PIPELINE, on.AcquirePipeline())
        if not event.is_same_replica:
            self._owns_pipeline, self._pipeline = False, None
            return self._enter(AppendState.ACQUIRE_PIPELINE, on.AcquirePipeline(gives_back=True))
        return self._start_pipeline()

    def _on_resolve_failed(self, event: on.ResolveFailed) -> Command:
        return self._fail(event.error)

    def _on_client_gone(self, _: on.ClientGone) -> Command:
        return self._fail(f"{_WAITING_FOR[self.state]}: client is gone")

    def _on_pipeline_acquired(self, event: on.PipelineAcquired) -> Command:
        self._owns_pipeline, self._pipeline = True, event.pipeline
        if event.is_invalidated:
            return self._resolve()
        return self._start_pipeline()

    def _on_invalidated(self, _: on.Invalidated) -> Command:
        return self._resolve()

    # -- StartPipeline ---------------------------------------------------------------------------

    def _start_pipeline(self) -> Command:
        """Use the pipeline if it fits the resolution, else build one."""
        self._pass(AppendState.START_PIPELINE)
        if self._pipeline is not None and self._fits(self._pipeline) and not self._move_to:
            return self._update_assignments()
        # The old one is shut down even if the new one does not come about.
        self._pipeline = None
        self.is_synced = self._has_moved = False
        return on.BuildPipeline()

    def _fits(self, pipeline: on.PipelineState) -> bool:
        """Whether a pipeline has our route, and no other has taken the head since."""
        if pipeline.is_broken or not pipeline.route.equivalent(self._now_resolved.route):
            return False
        head_revision = self._head.mod_revision if self._head else 0
        return not self._is_durable or (
            self._head_is_ours(pipeline) or pipeline.head_revision == head_revision
        )

    def _head_is_ours(self, pipeline: on.PipelineState) -> bool:
        return self._valid_head is not None and self._valid_head.term == pipeline.term

    def _on_pipeline_built(self, event: on.PipelineBuilt) -> Command:
        self._pipeline = event.pipeline
        self._sends_header = True
        return self._send_sync()

    # -- SendPipelineSync, RecvPipelineSync ------------------------------------------------------

    def _send_sync(self, moved: on.SendSync | None = None) -> Command:
        pipeline = self._held
        if moved is None:
            fragment = pipeline.spool.fragment
            # A durable spool must not roll before all agree: it could not go back any more.
            if not self._is_durable:
                fragment = self._maybe_rolled(fragment)
            moved = on.SendSync(
                fragment, pipeline.spool.registers, self._sends_header, term=pipeline.term
            )
        self._sends_header = False
        return self._enter(AppendState.SEND_PIPELINE_SYNC, moved)

    def _on_sync_sent(self, event: on.SyncSent) -> Command:
        self._set_spool(event.spool)
        return self._enter(AppendState.RECV_PIPELINE_SYNC, on.RecvSync())

    def _on_sync_received(self, event: on.SyncReceived) -> Command:
        resolved, spool = self._now_resolved, self._held.spool
        own = Standing(
            self._member, spool.fragment, spool.registers, spool.terms, spool.acknowledged_end
        )
        if self._has_moved:
            return self._on_moved(event)
        if self._is_durable:
            decision = decide_lowest(
                resolved.route,
                resolved.revision,
                self._valid_head,
                own,
                event.answers,
                at_least=self._move_to,
            )
        else:
            decision = decide_furthest(resolved.route, resolved.revision, own, event.answers)
        match decision:
            case Agreed():
                return self._update_assignments()
            case MoveTo():
                return self._move(decision)
            case ReadThrough():
                return self._resolve(decision.revision, shuts_down=True)
            case NoMemberOfHead():
                return self._on_no_member_of_head()
            case Disagreed():
                return self._fail(f"synchronising: {decision.reason}", shuts_down=True)

    def _on_moved(self, event: on.SyncReceived) -> Command:
        """The head is decided, so a member that cannot follow it has failed."""
        for answer in event.answers:
            if answer.status is not Status.OK:
                reason = f"{answer.member} answered {answer.status.name}"
                return self._fail(f"moving to the head: {reason}", shuts_down=True)
        return self._update_assignments()

    def _move(self, target: MoveTo) -> Command:
        if not self._is_durable:
            self._roll_to = target.end
            registers = target.registers or self._held.spool.registers
            fragment = self._maybe_rolled(self._held.spool.fragment)
            return self._send_sync(on.SendSync(fragment, registers, False, term=self._held.term))
        if target.copy is not None:
            self._target = replace(target, copy=None)
            empty = empty_at(self.conditions.journal, target.copy.begin, self._spec.fragment)
            return self._enter(AppendState.BACK_FILL, on.BackFill(target.copy, empty))
        self._decided = self._next_head(target.end, target.registers or EMPTY)
        return self._enter(AppendState.DECIDE_HEAD, on.PutHead(self._decided))

    def _on_back_filled(self, event: on.BackFilled) -> Command:
        self._set_spool(event.spool)
        assert self._target is not None
        return self._move(self._target)

    def _next_head(self, end: int, registers: LabelSet) -> Head:
        resolved = self._now_resolved
        members = tuple(str(member) for member in resolved.route.members)
        before = self._valid_head
        return Head(
            resolved.create_revision,
            self._held.term,
            members,
            end,
            registers,
            before.ended_terms(end) if before else (),
        )

    def _on_no_member_of_head(self) -> Command:
        if self.conditions.offset == 0:
            return self._refuse(Status.INDEX_HAS_GREATER_OFFSET, shuts_down=True)
        self._is_reset = True
        return self._enter(AppendState.VALIDATE_PRECONDITIONS, on.AwaitIndex())

    def _on_peers_failed(self, event: on.PeersFailed) -> Command:
        return self._fail(event.error, shuts_down=True)

    # -- DecideHead, UpdateAssignments -----------------------------------------------------------

    def _on_head_decided(self, event: on.Transacted) -> Command:
        if not event.succeeded:
            return self._resolve(event.revision, shuts_down=True)
        assert self._decided is not None
        head = self._decided.written_at(event.revision)
        self._head, self._has_moved, self._move_to = head, True, 0
        empty = empty_at(self.conditions.journal, head.end, self._spec.fragment)
        return self._send_sync(
            on.SendSync(
                empty,
                head.registers,
                False,
                term=head.term,
                rewind=True,
                acknowledged_end=head.end,
            )
        )

    def _update_assignments(self) -> Command:
        self._pass(AppendState.UPDATE_ASSIGNMENTS)
        pipeline = self._held
        needs_head = self._is_durable and not self._head_is_ours(pipeline)
        if self._now_resolved.is_assigned and not needs_head:
            self.is_synced = True
            return self._await_desired_replicas(self._now_resolved)
        spool = pipeline.spool
        head = self._next_head(spool.fragment.end, spool.registers) if needs_head else None
        return on.PutAssignments(head)

    def _on_transacted(self, event: on.Transacted) -> Command:
        return self._resolve(event.revision)

    def _on_transaction_unknown(self, event: on.TransactionUnknown) -> Command:
        return self._fail(event.error, shuts_down=self._owns_pipeline)

    # -- AwaitDesiredReplicas --------------------------------------------------------------------

    def _await_desired_replicas(self, resolved: on.Resolved) -> Command:
        self._pass(AppendState.AWAIT_DESIRED_REPLICAS)
        gives_back = self._owns_pipeline and not resolved.is_local_primary
        if len(resolved.route.members) > resolved.desired_replicas:
            # The allocator is about to remove some of them, so wait for what it does.
            return self._resolve(resolved.revision + 1, gives_back=gives_back)
        if len(resolved.route.members) < resolved.desired_replicas:
            return self._refuse(Status.INSUFFICIENT_JOURNAL_BROKERS)
        if not resolved.is_local_primary:
            return self._enter(AppendState.PROXY, on.Proxy())
        return self._enter(AppendState.VALIDATE_PRECONDITIONS, on.AwaitIndex())

    # -- ValidatePreconditions, UpdateSuspend ----------------------------------------------------

    def _on_index_ready(self, event: on.IndexReady) -> Command:
        self._index_end = event.end
        if self._is_reset:
            return self._reset_head(event)
        finding = check_preconditions(self.conditions, self._spec, self._held.spool, event)
        match finding:
            case Refused():
                return self._refuse(finding.status, store_error=finding.store_error)
            case MoveHead():
                return self._move_head(finding.offset)
            case SetSuspend():
                return self._set_suspend(finding.level, finding.offset)
            case Accepted():
                self._roll_to = finding.roll_to
                return self._begin_stream(event.now)

    def _move_head(self, offset: int) -> Command:
        if self._is_durable:
            # A term begins at one offset only, so a new one begins at this.
            self._move_to = offset
            return self._resolve(shuts_down=True)
        self._roll_to = offset
        return self._send_sync()

    def _reset_head(self, index: on.IndexReady) -> Command:
        """An operator confirms, by its offset, that no member of the head can come back."""
        spool, head = self._held.spool, self._head
        furthest = max(spool.fragment.end, index.end)
        self._is_reset = False
        if self.conditions.offset != furthest:
            return self._refuse(Status.WRONG_APPEND_OFFSET, shuts_down=True)
        # Where the lost term began is known, and never written twice. The head may come to lie
        # beyond the offset that was given, which has served its purpose.
        self.conditions = replace(self.conditions, offset=0)
        return self._move(MoveTo(max(furthest, head.end if head else 0), EMPTY))

    def _set_suspend(self, level: SuspendLevel, offset: int) -> Command:
        head = None
        if self._is_durable and level is SuspendLevel.FULL:
            # The replicas go, and with them whoever could say where the journal stood.
            spool = self._held.spool
            head = self._next_head(spool.fragment.end, spool.registers).closed()
        return self._enter(AppendState.UPDATE_SUSPEND, on.PutSuspend(level, offset, head))

    def _resumes(self) -> bool:
        return self.conditions.suspend is SuspendControl.RESUME

    # -- StreamContent, ReadAcknowledgements -----------------------------------------------------

    def _begin_stream(self, now: float) -> Command:
        self._pass(AppendState.STREAM_CONTENT)
        spool = self._held.spool
        self._content = ContentPhase(self.conditions, self._write_head())
        fragment = self._maybe_rolled(spool.fragment, now, spool.first_append_time)
        return on.TakeContent() if fragment == spool.fragment else on.Roll(fragment)

    def _on_rolled(self, event: on.Rolled) -> Command:
        self._set_spool(event.spool)
        self._content = ContentPhase(self.conditions, self._write_head())
        return on.TakeContent()

    def _on_content(self, event: ContentEvent) -> Command:
        assert self._content is not None
        command = self._content.handle(event)
        if isinstance(command, on.ReadAcks):
            self._owns_pipeline = False
            return self._enter(AppendState.READ_ACKNOWLEDGEMENTS, command)
        return command

    def _write_head(self) -> WriteHead:
        spool, spec = self._held.spool, self._spec
        return WriteHead(
            journal=self.conditions.journal,
            offset=spool.fragment.end,
            registers=spool.registers,
            codec=spool.fragment.codec,
            is_writable=spec.writable,
            is_sequenced=spec.is_sequenced,
            indexed_end=self._index_end,
        )

    def _on_acknowledged(self, _: on.Acknowledged) -> Command:
        assert self._content is not None
        return self._finish(self._content, self._content.send_error)

    def _on_acks_failed(self, event: on.PeersFailed) -> Command:
        assert self._content is not None
        return self._finish(self._content, event.error)

    def _finish(self, content: ContentPhase, error: str) -> Command:
        is_done = content.verdicts[0].commits and not error
        state = AppendState.FINISHED if is_done else AppendState.ERROR
        is_unwritten = content.is_unwritten
        return self._enter(state, on.Finish(content.verdicts, error, is_unwritten=is_unwritten))

    # -- ends, and turns back --------------------------------------------------------------------

    def _resolve(
        self, min_revision: int = 0, *, gives_back: bool = False, shuts_down: bool = False
    ) -> Command:
        if shuts_down:
            self._pipeline = None
        if gives_back:
            self._owns_pipeline, self._pipeline = False, None
        return self._enter(AppendState.RESOLVE, on.Resolve(min_revision, gives_back, shuts_down))

    def _fail(self, error: str, *, shuts_down: bool = False) -> Command:
        finish = on.Finish((self._verdict(Status.OK),), error, shuts_down, is_unwritten=True)
        return self._enter(AppendState.ERROR, finish)

    def _refuse(
        self, status: Status, *, shuts_down: bool = False, store_error: str = ""
    ) -> Command:
        finish = on.Finish((self._verdict(status),), "", shuts_down, store_error)
        return self._enter(AppendState.ERROR, finish)

    def _verdict(self, status: Status) -> Verdict:
        registers = self._pipeline.spool.registers if self._pipeline else EMPTY
        return Verdict(status, registers)

    def _maybe_rolled(
        self, fragment: Fragment, now: float = 0.0, first_append_time: float = 0.0
    ) -> Fragment:
        return rolled(
            fragment,
            self._spec.fragment,
            roll_to=self._roll_to,
            now=now,
            first_append_time=first_append_time,
        )

    def _set_spool(self, spool: on.SpoolState) -> None:
        self._pipeline = replace(self._held, spool=spool)

    # -- what is known ---------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the last command was terminal."""
        return self.state in on.TERMINAL

    @property
    def _now_resolved(self) -> on.Resolved:
        assert self._resolved is not None
        return self._resolved

    @property
    def _held(self) -> on.PipelineState:
        assert self._pipeline is not None
        return self._pipeline

    @property
    def _spec(self) -> JournalSpec:
        assert self._now_resolved.spec is not None
        return self._now_resolved.spec

    @property
    def _valid_head(self) -> Head | None:
        """The head, if it is of this journal and not of a deleted one of its name."""
        head = self._head
        if head is None or head.create_revision != self._now_resolved.create_revision:
            return None
        return head


_WAITING_FOR = {
    AppendState.RESOLVE: "waiting for resolution",
    AppendState.ACQUIRE_PIPELINE: "waiting for pipeline",
    AppendState.START_PIPELINE: "waiting for spool",
    AppendState.VALIDATE_PRECONDITIONS: "waiting for index",
}

_S, _M = AppendState, AppendMachine
_HANDLERS: dict[tuple[AppendState, type], Callable[[AppendMachine, Any], Command]] = {
    (_S.RESOLVE, on.Resolved): _M._on_resolved,
    (_S.RESOLVE, on.ResolveFailed): _M._on_resolve_failed,
    (_S.RESOLVE, on.ClientGone): _M._on_client_gone,
    (_S.ACQUIRE_PIPELINE, on.PipelineAcquired): _M._on_pipeline_acquired,
    (_S.ACQUIRE_PIPELINE, on.Invalidated): _M._on_invalidated,
    (_S.ACQUIRE_PIPELINE, on.ClientGone): _M._on_client_gone,
    (_S.START_PIPELINE, on.PipelineBuilt): _M._on_pipeline_built,
    (_S.START_PIPELINE, on.Invalidated): _M._on_invalidated,
    (_S.START_PIPELINE, on.PeersFailed): _M._on_peers_failed,
    (_S.START_PIPELINE, on.ClientGone): _M._on_client_gone,
    (_S.SEND_PIPELINE_SYNC, on.SyncSent): _M._on_sync_sent,
    (_S.SEND_PIPELINE_SYNC, on.PeersFailed): _M._on_peers_failed,
    (_S.RECV_PIPELINE_SYNC, on.SyncReceived): _M._on_sync_received,
    (_S.RECV_PIPELINE_SYNC, on.PeersFailed): _M._on_peers_failed,
    (_S.BACK_FILL, on.BackFilled): _M._on_back_filled,
    (_S.BACK_FILL, on.PeersFailed): _M._on_peers_failed,
    (_S.DECIDE_HEAD, on.Transacted): _M._on_head_decided,
    (_S.DECIDE_HEAD, on.TransactionUnknown): _M._on_transaction_unknown,
    (_S.UPDATE_ASSIGNMENTS, on.Transacted): _M._on_transacted,
    (_S.UPDATE_ASSIGNMENTS, on.TransactionUnknown): _M._on_transaction_unknown,
    (_S.UPDATE_SUSPEND, on.Transacted): _M._on_transacted,
    (_S.UPDATE_SUSPEND, on.TransactionUnknown): _M._on_transaction_unknown,
    (_S.VALIDATE_PRECONDITIONS, on.IndexReady): _M._on_index_ready,
    (_S.VALIDATE_PRECONDITIONS, on.Invalidated): _M._on_invalidated,
    (_S.VALIDATE_PRECONDITIONS, on.ClientGone): _M._on_client_gone,
    (_S.STREAM_CONTENT, on.Rolled): _M._on_rolled,
    (_S.STREAM_CONTENT, on.GroupTaken): _M._on_content,
    (_S.STREAM_CONTENT, on.ChunkReceived): _M._on_content,
    (_S.STREAM_CONTENT, on.ClientEnded): _M._on_content,
    (_S.STREAM_CONTENT, on.ClientFailed): _M._on_content,
    (_S.STREAM_CONTENT, on.ClientGone): _M._on_content,
    (_S.STREAM_CONTENT, on.Sent): _M._on_content,
    (_S.STREAM_CONTENT, on.SendFailed): _M._on_content,
    (_S.READ_ACKNOWLEDGEMENTS, on.Acknowledged): _M._on_acknowledged,
    (_S.READ_ACKNOWLEDGEMENTS, on.PeersFailed): _M._on_acks_failed,
}

"""What does an append send to its peers, from the first chunk to the proposal? Pure.

Content goes out as it comes, or as one piece for a group that is received as a whole. It ends with
one proposal to be acknowledged: the commit, or the current fragment again, which drops the content.
Whatever fails on the way, those that can still be told are told to drop it.
"""

from __future__ import annotations

from dataclasses import replace

from windrow.journal.broker import append_events as on
from windrow.journal.broker.client_stream import ClientStream
from windrow.journal.broker.group import Conditions, GroupPlan, Verdict, WriteHead, evaluate
from windrow.journal.status import Status

ContentEvent = (
    on.GroupTaken
    | on.ChunkReceived
    | on.ClientEnded
    | on.ClientFailed
    | on.ClientGone
    | on.Sent
    | on.SendFailed
)


class ContentPhase:
    """The steps of an append while it sends; the last of them is to read acknowledgements."""

    def __init__(self, conditions: Conditions, head: WriteHead) -> None:
        self.send_error = ""
        """Why it could not be sent to all, or not be applied at this broker."""
        self._conditions, self._head = conditions, head
        self._stream = ClientStream(conditions)
        self._plan: GroupPlan | None = None
        self._proposed: on.ProposeCommit | on.ProposeRollback | None = None
        self._closes = False

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What each append of the group is answered, if all goes well from here."""
        return self._plan.verdicts if self._plan else (Verdict(Status.OK, self._head.registers),)

    @property
    def is_unwritten(self) -> bool:
        """Whether no replica can have committed anything of it, nor ever will."""
        return not isinstance(self._proposed, on.ProposeCommit)

    def handle(self, event: ContentEvent) -> on.Command:
        """Take what happened, and return what to do next."""
        match event:
            case on.GroupTaken():
                return self._on_group_taken(event)
            case on.ChunkReceived():
                return self._on_chunk(event)
            case on.ClientEnded():
                return self._on_client_ended()
            case on.ClientFailed():
                return self._on_client_failed(event.error)
            case on.ClientGone():
                return self._on_client_failed("append stream: client is gone")
            case on.Sent():
                return self._on_sent()
            case on.SendFailed():
                return self._on_send_failed(event)

    def _on_group_taken(self, event: on.GroupTaken) -> on.Command:
        own = replace(event.members[0], conditions=self._conditions)
        self._plan = evaluate((own, *event.members[1:]), self._head)
        if self._plan.content:
            return on.SendContent(self._plan.content, 0)
        return self._propose_rollback()

    def _on_chunk(self, event: on.ChunkReceived) -> on.Command:
        delta = self._stream.length
        refusal = self._stream.on_chunk(event.content, self._head)
        if refusal is not None:
            return self._roll_back(refusal)
        return on.SendContent(event.content, delta) if event.content else on.ReceiveChunk()

    def _on_client_ended(self) -> on.Command:
        verdict = self._stream.on_end(self._head)
        if not verdict.commits or not self._stream.length:
            return self._roll_back(verdict)
        self._plan = GroupPlan(b"", verdict.registers, (verdict,))
        return self._propose_commit()

    def _on_client_failed(self, error: str) -> on.Command:
        return self._roll_back(Verdict(Status.OK, self._head.registers, error=error))

    def _on_sent(self) -> on.Command:
        if self._proposed is not None:
            return on.ReadAcks(self._closes)
        return on.ReceiveChunk() if self._plan is None else self._propose_commit()

    def _on_send_failed(self, event: on.SendFailed) -> on.Command:
        """Tell those that can still be told to drop what they got."""
        self.send_error = self.send_error or event.error
        # If only our own spool refused, the peers are in order and the pipeline can be kept.
        self._closes = self._closes or not event.is_local
        is_commit_unsent = event.is_local and isinstance(self._proposed, on.ProposeCommit)
        if self._proposed is None or is_commit_unsent:
            return self._propose_rollback()
        self._closes = True
        return on.ReadAcks(self._closes)

    def _roll_back(self, verdict: Verdict) -> on.Command:
        """Drop the content everywhere; an append without any is a barrier, and ends so too."""
        self._plan = GroupPlan(b"", self._head.registers, (verdict,))
        return self._propose_rollback()

    def _propose_commit(self) -> on.Command:
        assert self._plan is not None
        self._proposed = on.ProposeCommit(self._plan.registers)
        return self._proposed

    def _propose_rollback(self) -> on.Command:
        self._proposed = on.ProposeRollback()
        return self._proposed

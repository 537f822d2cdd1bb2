"""This broker's replica of one journal: who owns its spool and pipeline, what may be seen of it.

Two tokens guard it, always taken in the order pipeline, spool. The spool's owner is either this
broker's own pipeline, if it is the primary, or the Replicate stream of another primary.

Nothing that a spool commits or completes is shown before it is acknowledged by all replicas: only
then does the index learn of it, and only then may it be uploaded.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from windrow.journal.broker.flow_control import FlowControl
from windrow.journal.broker.head import Head, Terms, counts, is_settled, next_term
from windrow.journal.broker.ownership import GivenUp, Token
from windrow.journal.broker.signals import Signal
from windrow.journal.broker.timeouts import Timeouts
from windrow.journal.fragment import Fragment
from windrow.journal.status import Status

if TYPE_CHECKING:
    from windrow.journal.broker.append_group import PendingAppend
    from windrow.journal.broker.pipeline import Pipeline
    from windrow.journal.broker.ports import SpoolSource
    from windrow.journal.fragments.content import CompletedSpool, SpoolContent
    from windrow.journal.fragments.errors import SpoolBroken
    from windrow.journal.fragments.index import Index
    from windrow.journal.fragments.spool import Spool
    from windrow.journal.labels import LabelSet
    from windrow.journal.spec import ProcessId


class Replica:
    """One journal at one broker, from its assignment to its removal."""

    def __init__(
        self,
        journal: str,
        *,
        member: ProcessId,
        source: SpoolSource,
        index: Index,
        complete: Callable[[CompletedSpool], None],
        is_durable: bool,
        broken: Callable[[SpoolBroken], None] = lambda _: None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        min_append_rate: int = 65_536,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.journal, self.member = journal, str(member)
        self.index = index
        self.is_durable = is_durable
        self.timeouts = timeouts
        self.now = now
        self.acknowledged_end = 0
        """Everything below it may be seen; zero until the first synchronisation."""
        self.ended = Signal()
        """Set once this broker lets go of the journal."""
        self.pipeline: Token[Pipeline | None] = Token(None)
        self.waiting: deque[PendingAppend] = deque()
        """Appends that are received as a whole, and wait for whoever owns the pipeline next."""
        self.flow = FlowControl(min_append_rate, time.monotonic())
        self._complete, self._broken = complete, broken
        self._unshown: deque[tuple[Fragment, SpoolContent]] = deque()
        self._completed: deque[CompletedSpool] = deque()
        self.head_revision = 0
        """The latest head that we wrote; what was resolved before it must not judge our spool."""
        self._undecided: tuple[int, int] | None = None
        self._spool = source.open(self)
        self.spool: Token[Spool] = Token(self._spool)
        if not self._spool.fragment.is_empty:
            # Recovered, and not known to be acknowledged before the next synchronisation.
            self._unshown.append((self._spool.fragment, self._spool.content))

    # -- what the spool adopted ------------------------------------------------------------------

    def on_commit(self, fragment: Fragment) -> None:
        """Content was committed here; others may not have it yet."""
        self._unshown.append((fragment, self._spool.content))

    def on_complete(self, spool: CompletedSpool) -> None:
        """A fragment was rolled here."""
        self._completed.append(spool)
        self._hand_out_completed()

    def on_broken(self, error: SpoolBroken) -> None:
        """A sync failed, so nobody knows what the disk has: whoever runs this broker is told."""
        self._broken(error)

    def acknowledge(self, end: int) -> None:
        """Everything before ``end`` is on all replicas: show it, and let it be uploaded."""
        self.acknowledged_end = max(self.acknowledged_end, end)
        self._spool.acknowledged_end = max(self._spool.acknowledged_end, end)
        latest: tuple[Fragment, SpoolContent] | None = None
        while self._unshown and self._unshown[0][0].end <= self.acknowledged_end:
            shown = self._unshown.popleft()
            if latest is not None and latest[0].begin != shown[0].begin:
                self.index.add_local(*latest)
            latest = shown
        if latest is not None:
            self.index.add_local(*latest)
        self._hand_out_completed()
        self.index.know_end(self.acknowledged_end)

    def _hand_out_completed(self) -> None:
        while self._completed and self._completed[0].fragment.end <= self.acknowledged_end:
            completed = self._completed.popleft()
            self.index.add_local(completed.fragment, completed.content)
            self._complete(completed)

    # -- terms -----------------------------------------------------------------------------------

    def admit(self, spool: Spool, head: Head | None) -> None:
        """Bring a spool onto the branch that the head names, before it says what it holds.

        Of a spool of another term, what is still the journal's is completed, and the rest set aside
        for good. One that promised the head's term and did not hear of the decision begins it now.
        """
        if not self.is_durable or head is None:
            return
        terms = Terms(spool.term, spool.agreed_term)
        if not counts(head, self.member, terms):
            end = min(head.end_of(spool.term), spool.fragment.end)
            if spool.fragment.begin < end:
                self._begin_anew(spool, end, spool.registers)
            self._unshown.clear()
            spool.quarantine()
        elif not is_settled(head, terms):
            if (spool.fragment.end, spool.registers) != (head.end, head.registers):
                self._begin_anew(spool, head.end, head.registers, head.term)
            spool.confirm_term(head.term)

    def _begin_anew(self, spool: Spool, end: int, registers: LabelSet, term: int = 0) -> None:
        empty = Fragment(self.journal, end, end, codec=spool.fragment.codec)
        self.adopt(spool, empty, registers, term=term, rewind=True)

    def adopt(
        self,
        spool: Spool,
        proposal: Fragment,
        registers: LabelSet,
        *,
        term: int = 0,
        rewind: bool = False,
        primary: bool = False,
    ) -> Status:
        """Adopt a synchronising proposal, and promise its term whatever the answer is.

        A rewind follows the decision of the head, so it begins the term at once, and what it keeps
        is acknowledged. Nothing of it is durable before the spool's next flush.
        """
        if rewind:
            self._unshown = deque(one for one in self._unshown if one[0].end <= proposal.end)
        status = spool.propose(
            proposal, registers, primary=primary, term=term, rewind=rewind, now=self.now()
        )
        if rewind and status is Status.OK:
            spool.confirm_term(term)
            self.acknowledge(proposal.end)
        elif term and status is not Status.OK:
            spool.propose(spool.fragment, spool.registers, primary=primary, term=term)
        return status

    def choose_term(self, head: Head | None) -> int:
        """A term for a new pipeline.

        While it is unknown whether an earlier one of ours became the head's, it is taken again:
        members remember one promise only, and must not forget the one that may have been decided.
        """
        revision = head.mod_revision if head else 0
        if self._undecided is not None and self._undecided[0] == revision:
            return self._undecided[1]
        self._undecided = None
        return next_term((head.term,) if head else ())

    def on_head_decided(self, revision: int) -> None:
        """A term of ours became the head's."""
        self.head_revision = max(self.head_revision, revision)

    def on_head_undecided(self, revision: int, term: int) -> None:
        """Nobody knows whether ``term`` took the place of the head of that revision."""
        self._undecided = (revision, term)

    # -- its end ---------------------------------------------------------------------------------

    async def shut_pipeline(self) -> None:
        """End the streams of a primary that is one no more, once appends under way are done."""
        try:
            pipeline = await self.pipeline.take(unless=(self.ended,))
        except GivenUp:
            return
        if pipeline is not None:
            pipeline.close_soon()
        self.pipeline.give(None)

    async def stop(self, *, hands_over: bool) -> None:
        """Shut the pipeline, take the spool, and never give them back.

        Args:
            hands_over: The journal goes to other brokers, so what is acknowledged is completed and
                uploaded. A durable spool otherwise stays as it is, for the next start.
        """
        self.ended.set()
        pipeline = await self.pipeline.take()
        if pipeline is not None:
            await pipeline.close()
        spool = await self.spool.take()
        spool.rollback()
        is_acknowledged = spool.fragment.end <= self.acknowledged_end
        if not self.is_durable or (hands_over and is_acknowledged):
            self._complete_rest(spool)
        await spool.flush()
        if hands_over and is_acknowledged:
            # The members that stay hold the same; what was completed lives on until it is stored.
            spool.remove()

    def _complete_rest(self, spool: Spool) -> None:
        if not spool.fragment.is_empty:
            end = spool.fragment.end
            empty = Fragment(self.journal, end, end, codec=spool.fragment.codec)
            spool.propose(empty, spool.registers, primary=True)
            self.acknowledge(end)

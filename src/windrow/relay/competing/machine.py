"""What a competing relay does next. Pure: no thread, no socket, no clock.

Rows are claimed in batches, sent up to ``concurrency`` at a time, and their claims ended in batches
by what the receivers said. One statement is under way at a time; sends go on beside it. The shell
performs what ``next_step`` returns and tells how it went, sends what ``to_send`` returns and tells
the outcomes.

A relay that dies leaves its rows as orphans, and one of them may be what it died of. So a try that
nobody ended counts; an orphan with many of them is a *suspect*, of which a relay holds one at a
time: those that are innocent are delivered, and the guilty one is alone when it strikes again.

A relay has one token for all its claims. So a row that comes back to it, because a lease of its own
had ended, is not sent beside itself: what is under way goes on under the new lease. Whether a row
is still ours is said by the database alone; here a lease only ends early.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from windrow.config.competing import Competing
from windrow.relay.competing.backoff import Backoff
from windrow.relay.competing.circuits import Circuits
from windrow.relay.competing.contract import (
    Burial,
    Claim,
    Delivered,
    Later,
    Outcome,
    Refused,
    Retry,
)
from windrow.relay.competing.events import (
    CircuitClosed,
    CircuitOpened,
    LeasesLost,
    MessageBuried,
    MessageFailed,
)
from windrow.relay.competing.gathering import Gathering
from windrow.relay.competing.held import HeldRow, HeldRows, RowState
from windrow.relay.competing.orphans import OrphanRules
from windrow.relay.competing.steps import (
    Abandon,
    ClaimRows,
    End,
    FinishRows,
    ReleaseRows,
    RenewRows,
    Rest,
    Step,
    StoreStep,
)
from windrow.relay.pace import Pace
from windrow.telemetry.events import Event

LINGER = 0.01
"""How long an outcome waits for others: a statement per message would be the end of all speed."""
RENEWAL = 0.5
"""Leases are renewed when so much of them is left."""
REASON_LENGTH = 1_000
FOREVER = 3600.0


@dataclass(slots=True)
class Counts:
    """What has happened so far."""

    claimed: int = 0
    delivered: int = 0
    retried: int = 0
    outages: int = 0
    buried: int = 0
    lost: int = 0
    renewed: int = 0
    released: int = 0


class CompetingMachine:
    """The decisions of one relay.

    Args:
        settings: How much at a time, how long, how often.
        destination_of: What fails together: the destination of a topic.
        jitter: A new number in [0, 1) each time.
    """

    def __init__(
        self,
        settings: Competing,
        destination_of: Callable[[str], str],
        jitter: Callable[[], float],
    ) -> None:
        self._settings, self._jitter = settings, jitter
        self._orphans = OrphanRules(settings.max_attempts)
        self._backoff = Backoff(settings.retry_delay, settings.max_retry_delay)
        circuit = settings.circuit
        self._circuits = Circuits(destination_of, circuit.failures, circuit.open_for)
        polling = settings.poll_interval, settings.idle_interval, settings.patience
        self._pace, self._probe_pace = Pace(*polling), Pace(*polling)
        self._next_look = self._next_probe = 0.0
        self._held = HeldRows()
        self._queue: deque[HeldRow] = deque()
        self._sending = 0
        self._gathered = Gathering()
        self._to_release: list[int] = []
        self._failed_finish: FinishRows | None = None
        self._drain_until: float | None = None
        self._told: list[Event] = []
        self.counts = Counts()

    # -- how things stand ------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Rows that are claimed and not yet ended."""
        return len(self._held)

    @property
    def sending(self) -> int:
        """Messages on their way."""
        return self._sending

    @property
    def open_circuits(self) -> int:
        """Destinations that are left alone."""
        return self._circuits.open_count

    def take_events(self) -> list[Event]:
        """What happened since this was last asked."""
        told, self._told = self._told, []
        return told

    # -- the outbox ------------------------------------------------------------------------------

    def next_step(self, now: float) -> Step:
        """What to do with the outbox now. Each step is answered before the next is asked for."""
        if self._failed_finish is not None:
            # Before any claim: a row that it gave back may come to us again.
            return self._failed_finish
        if self._drain_until is not None and now >= self._drain_until and self._sending:
            return Abandon(tuple(self._held.in_state(RowState.SENDING)))
        if rows := self._held.to_renew(now + self._settings.lock_expiry * RENEWAL):
            return RenewRows(rows)
        if self._finish_is_due(now):
            return self._gathered.take()
        if self._to_release:
            rows, self._to_release = tuple(self._to_release), []
            return ReleaseRows(rows)
        if self._drain_until is not None:
            return Rest(self._rest_until(now)) if self._held else End()
        return self._claim(now) or Rest(self._rest_until(now))

    def on_claimed(
        self, step: ClaimRows, claims: Sequence[Claim], began: float, now: float
    ) -> None:
        """These rows are ours, since some time after ``began``."""
        self._set_pace(step, len(claims), now)
        lease = self._held.lease(began + self._settings.lock_expiry)
        for claim in claims:
            row = self._held.add(claim, lease)
            if row is None:
                continue
            self.counts.claimed += 1
            if self._orphans.is_hopeless(claim):
                self._bury_orphan(row, now)
            elif self._drain_until is None and self._circuits.admit(claim.topic, claim.id, now):
                self._queue.append(row)
            else:
                self._give_back(row)

    def on_finished(self, step: FinishRows, lost: AbstractSet[int]) -> None:
        """These claims have ended, but for those that were ``lost`` before."""
        self._failed_finish = None
        for row in step.ids:
            self._drop(row)
        if step.is_repeat:
            # Done the first time, or lost since: nobody can tell, and it makes no difference.
            lost = frozenset()
        counts = self.counts
        counts.delivered += _count(step.delivered, lost)
        counts.retried += _count([retry.id for retry in step.retries if retry.counts], lost)
        counts.outages += _count([retry.id for retry in step.retries if not retry.counts], lost)
        counts.buried += _count([burial.id for burial in step.burials], lost)
        self._tell_lost(sorted(lost))

    def on_renewed(self, step: RenewRows, lost: AbstractSet[int], began: float) -> None:
        """These leases have been lengthened, but for those that were ``lost`` before.

        Of a message that is on its way the answer is waited for, and then reported.
        """
        self.counts.renewed += len(step.ids) - len(lost)
        for row in lost:
            held = self._held.get(row)
            if held is not None:
                held.is_lost = True
        kept = [row for row in step.ids if row not in lost]
        self._held.renew(kept, began + self._settings.lock_expiry)

    def on_released(self, step: ReleaseRows) -> None:
        """These rows are nobody's."""
        self.counts.released += len(step.ids)
        for row in step.ids:
            self._drop(row)

    def on_failed(self, step: StoreStep) -> None:
        """The outbox gave no answer; the step may have been performed."""
        if isinstance(step, FinishRows):
            self._failed_finish = step.again()
        elif isinstance(step, ReleaseRows):
            self._to_release[:0] = step.ids

    # -- messages --------------------------------------------------------------------------------

    def to_send(self, now: float) -> list[Claim]:
        """The messages to send now; they count as on their way."""
        found: list[Claim] = []
        lapsed: list[int] = []
        while self._queue and self._sending < self._settings.concurrency:
            row = self._queue.popleft()
            claim = row.claim
            if row.is_lost or row.lease.until <= now:
                lapsed.append(claim.id)
                self._forget(row)
            elif not self._circuits.admit(claim.topic, claim.id, now):
                self._give_back(row)
            else:
                row.state = RowState.SENDING
                self._sending += 1
                found.append(claim)
        self._tell_lost(lapsed)
        return found

    def on_outcome(self, row: int, outcome: Outcome, now: float) -> bool:
        """What became of a message; returns whether the next step should be asked for."""
        held = self._held.get(row)
        if held is None or held.state is not RowState.SENDING:
            return False  # it was abandoned
        self._sending -= 1
        self._judge_destination(held.claim, outcome, now)
        if held.is_lost:
            self._tell_lost([row])
            self._drop(row)
            return True
        held.state = RowState.ANSWERED
        if isinstance(outcome, Delivered):
            self._gathered.add_delivered(row, now)
        else:
            self._gathered.add(self._judge(held.claim, outcome), now)
        waiting = len(self._gathered)
        return waiting == 1 or waiting >= self._settings.batch or not self._sending

    # -- the end ---------------------------------------------------------------------------------

    def stop(self, now: float, drain_timeout: float) -> None:
        """Claim nothing more, give back what was not sent, wait so long for what was."""
        self._drain_until = now + drain_timeout
        while self._queue:
            self._give_back(self._queue.popleft())

    def is_overdue(self, now: float) -> bool:
        """Whether it was told to stop, and has taken all the time it was given for that."""
        return self._drain_until is not None and now >= self._drain_until

    def give_up(self) -> None:
        """The outbox is away and the time is over: rows return when their leases end."""
        self._tell_lost(self._held.in_state(RowState.ANSWERED))
        self._held.clear()
        self._queue.clear()
        self._sending = 0
        self._gathered = Gathering()
        self._to_release.clear()
        self._failed_finish = None

    def on_abandoned(self, step: Abandon) -> None:
        """Nobody waits for these any more: whether they arrived is unknown, and they go back."""
        for row in step.ids:
            held = self._held.get(row)
            if held is not None and held.state is RowState.SENDING:
                self._sending -= 1
                self._give_back(held)

    # -- decisions -------------------------------------------------------------------------------

    def _claim(self, now: float) -> ClaimRows | None:
        settings = self._settings
        suspects = self._orphans.suspects(may_claim=not self._has_suspect())
        probes, topics = self._circuits.to_probe(now)
        if probes and now >= self._next_probe:
            return ClaimRows(probes, topics, suspects, is_probe=True)
        # A queue of one batch keeps the sends going while the next is fetched, and not more:
        # another relay may be idle.
        if len(self._queue) > settings.batch // 2 or now < self._next_look:
            return None
        room = settings.concurrency + settings.batch - len(self._queue) - self._sending
        return ClaimRows(min(settings.batch, room), self._circuits.claimable(), suspects)

    def _has_suspect(self) -> bool:
        return any(map(self._orphans.is_suspect, self._held.claims()))

    def _set_pace(self, step: ClaimRows, count: int, now: float) -> None:
        pace = self._probe_pace if step.is_probe else self._pace
        if count:
            pace.on_rows()
            look = now if count == step.limit else now + pace.quick
        else:
            look = now + pace.on_empty(now)
        if step.is_probe:
            self._next_probe = look
        else:
            self._next_look = look

    def _finish_is_due(self, now: float) -> bool:
        since = self._gathered.since
        return since is not None and (
            now >= since + LINGER
            or len(self._gathered) >= self._settings.batch
            or not (self._sending or self._queue)
        )

    def _rest_until(self, now: float) -> float:
        times = [now + FOREVER]
        if self._gathered.since is not None:
            times.append(self._gathered.since + LINGER)
        if (end := self._held.next_end()) is not None:
            times.append(end - self._settings.lock_expiry * RENEWAL)
        if self._drain_until is not None:
            if self._sending:
                times.append(self._drain_until)
            return min(times)
        if len(self._queue) <= self._settings.batch // 2:
            times.append(self._next_look)
        if (probe := self._circuits.next_probe()) is not None:
            times.append(max(probe, self._next_probe))
        if self._circuits.to_probe(now)[0]:
            times.append(self._next_probe)
        return min(times)

    def _judge(self, claim: Claim, outcome: Later | Refused) -> Retry | Burial:
        """Whether a message that was not delivered is tried again, and when."""
        reason = outcome.reason[:REASON_LENGTH]
        attempts = claim.attempts + 1
        if isinstance(outcome, Refused) or (
            attempts >= self._settings.max_attempts and not outcome.is_outage
        ):
            self._told.append(MessageBuried(claim.id, claim.topic, attempts, reason))
            return Burial(claim.id, reason)
        delay = self._backoff.delay(attempts, self._jitter(), outcome.retry_after)
        counted = claim.attempts if outcome.is_outage else attempts
        self._told.append(
            MessageFailed(claim.id, claim.topic, counted, delay, reason, outcome.is_outage)
        )
        return Retry(claim.id, delay, reason, counts=not outcome.is_outage)

    def _bury_orphan(self, row: HeldRow, now: float) -> None:
        """Do not send what ended so many relays."""
        claim = row.claim
        reason = f"{claim.attempts} tries, of which the last ended with the relay that made it"
        self._told.append(MessageBuried(claim.id, claim.topic, claim.attempts, reason))
        row.state = RowState.ANSWERED
        self._gathered.add(Burial(claim.id, reason, counts=False), now)

    def _judge_destination(self, claim: Claim, outcome: Outcome, now: float) -> None:
        if isinstance(outcome, Later) and outcome.is_outage:
            silent = self._circuits.on_outage(claim.topic, claim.id, now)
            if silent is not None:
                open_for = self._settings.circuit.open_for
                self._told.append(CircuitOpened(silent, outcome.reason, open_for))
        else:
            answering = self._circuits.on_answer(claim.topic)
            if answering is not None:
                self._told.append(CircuitClosed(answering))

    def _give_back(self, row: HeldRow) -> None:
        row.state = RowState.QUEUED  # nobody sends it
        self._circuits.on_forgotten(row.claim.topic, row.claim.id)
        if not row.is_lost:
            self._to_release.append(row.claim.id)
        else:
            self._drop(row.claim.id)

    def _forget(self, row: HeldRow) -> None:
        self._circuits.on_forgotten(row.claim.topic, row.claim.id)
        self._drop(row.claim.id)

    def _drop(self, row: int) -> None:
        held = self._held.get(row)
        if held is not None and self._orphans.is_suspect(held.claim):
            self._next_look = self._next_probe = 0.0  # others wait for this one to end
        self._held.drop(row)

    def _tell_lost(self, rows: Sequence[int]) -> None:
        if rows:
            self.counts.lost += len(rows)
            self._told.append(LeasesLost(tuple(rows)))


def _count(rows: Sequence[int], lost: AbstractSet[int]) -> int:
    return len(rows) - (sum(row in lost for row in rows) if lost else 0)

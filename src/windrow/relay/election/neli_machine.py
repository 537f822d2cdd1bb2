"""Who leads by Kafka's word: goneli's Fast NELI for one partition, without any I/O.

A group of consumers shares the leader topic, and Kafka gives each partition to one of them. That
is not yet a right to lead: a process that was paused longer than the session lasts still believes
in its assignment, and still reads and writes the partition, since Kafka fences neither. So the
right needs two things, both counted from when a heartbeat was *sent*, which is kept here in memory:

* It came back: known by its content, so that another's counts for nothing. That is goneli's
  heartbeat, and good for ``heartbeat_timeout``, a third of the session: who does not hear himself
  any more fences himself.
* Its offset was then committed by the group, which refuses whomever it has expelled, and begins
  the session of whom it accepts anew. That is the *proof*: nobody else is given the partition
  before a whole session has passed since the heartbeat was sent.

To become leader the proof must be as fresh as the heartbeat; to stay leader it need not, because
the group answers no commit while it waits for a member that died, which may take a session.
An old heartbeat or answer, however late it comes out of a buffer, speaks of an old moment only.

::

    STANDBY ──assigned──▶ CANDIDATE ──proof, then an epoch──▶ LEADING ──right ran out──▶ FENCED
       ▲                      │                                 │        ◀─proof, epoch──  │
       └──────revoked─────────┴─────────────────────────────────┴──────────────────────────┘

A loss is reported by one pulse at least before the same process leads again, so that whoever works
under the old right has ended before a new epoch is raised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from windrow.relay.election.leading import Leading
from windrow.relay.errors import ImpossibleEvent

TO_SUCCEED = 0.75
"""How long it takes to hear that a partition is free, with the next heartbeat to the group, to be
given it and to prove it."""


class Standing(Enum):
    """How a process stands towards one partition."""

    STANDBY = "standby"  # initial: the partition is another's, or nobody's
    CANDIDATE = "candidate"  # it is ours, and nothing is proven yet
    LEADING = "leading"
    FENCED = "fenced"  # it is ours, but the right to lead ran out


@dataclass(frozen=True, slots=True)
class NeliTiming:
    """How often, and how long. The defaults are goneli's."""

    min_poll_interval: float = 0.1
    """Between two heartbeats."""
    heartbeat_timeout: float = 5.0
    """How long a heartbeat that came back is good for, counted from when it was sent."""

    @property
    def session_timeout(self) -> float:
        """Within which a silent leader is succeeded."""
        return 3 * self.heartbeat_timeout

    @property
    def group_session(self) -> float:
        """How long Kafka waits for a silent member before it gives its partitions away.

        Less than the above by what a successor needs.
        """
        return self.session_timeout - min(TO_SUCCEED, self.session_timeout / 4)

    @property
    def proof_interval(self) -> float:
        """Between two proofs; heartbeats are more frequent, because goneli's are."""
        return self.heartbeat_timeout / 5


@dataclass(frozen=True, slots=True)
class Returned:
    """A heartbeat of our own that came back, and what to commit to say that it was read."""

    sent_at: float
    next_offset: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The commit that is under way, and since when."""

    heartbeat: Returned
    asked_at: float


class NeliMachine:
    """One process and one partition. Takes what happened and when; says what to do next."""

    def __init__(self, name: str, timing: NeliTiming) -> None:
        self._name, self._timing = name.encode(), timing
        self.standing = Standing.STANDBY
        self._epoch = 0
        self._is_loss_untold = False
        self._last_stamp = 0
        self._forget()

    def _forget(self) -> None:
        """What was sent, seen and proven under an assignment says nothing about another."""
        self._sent: dict[bytes, float] = {}
        self._last_sent_at = -math.inf
        self._returned: Returned | None = None
        self._asked: Asked | None = None
        self._proven_at = -math.inf

    # -- what is known ---------------------------------------------------------------------------

    @property
    def is_assigned(self) -> bool:
        """Whether the partition is ours, as far as Kafka has told us."""
        return self.standing is not Standing.STANDBY

    @property
    def valid_until(self) -> float:
        """Until when what is known adds up to a right to lead."""
        heard_at = -math.inf if self._returned is None else self._returned.sent_at
        return min(heard_at + self._timing.heartbeat_timeout, self.exclusive_until)

    @property
    def exclusive_until(self) -> float:
        """Until when nobody else is given the partition, unless we let it go."""
        return self._proven_at + self._timing.group_session

    @property
    def is_loss_untold(self) -> bool:
        """Whether leadership was lost since this pulse began."""
        return self._is_loss_untold

    def leading(self) -> Leading | None:
        """The right to lead, if there is one."""
        if self.standing is Standing.LEADING:
            return Leading(self._epoch, self.valid_until, self.exclusive_until)
        return None

    # -- what happened ---------------------------------------------------------------------------

    def on_pulse_began(self, now: float) -> None:
        """See first of all whether the right has run out meanwhile: we may have slept."""
        self._is_loss_untold = False
        if self.standing is Standing.LEADING and now >= self.valid_until:
            self._lose(Standing.FENCED)

    def on_assigned(self) -> None:
        """Kafka gave us the partition: begin to prove it."""
        if self.is_assigned:
            raise ImpossibleEvent("assigned", self.standing)
        self._forget()
        self.standing = Standing.CANDIDATE

    def on_revoked(self) -> None:
        """Kafka takes the partition back, or has taken it, or we gave it up."""
        self._lose(Standing.STANDBY)
        self._forget()

    def on_forsaken(self) -> None:
        """What is led is given up, though the partition stays ours."""
        if self.standing is Standing.LEADING:
            self._lose(Standing.FENCED)

    def _lose(self, standing: Standing) -> None:
        self._is_loss_untold = self._is_loss_untold or self.standing is Standing.LEADING
        self.standing = standing

    def on_heartbeat(self, value: bytes, offset: int) -> None:
        """Something was read from the partition; only what we sent ourselves means anything."""
        sent_at = self._sent.pop(value, None)
        if sent_at is None:
            return
        if self._returned is None or sent_at > self._returned.sent_at:
            self._returned = Returned(sent_at, offset + 1)

    def on_committed(self, offset: int, was_accepted: bool) -> None:
        """The group has answered; an answer to a commit that was given up is nobody's."""
        if self._asked is None or self._asked.heartbeat.next_offset != offset:
            return
        heartbeat, self._asked = self._asked.heartbeat, None
        if was_accepted:
            self._proven_at = max(self._proven_at, heartbeat.sent_at)

    def on_epoch_raised(self, epoch: int, now: float) -> None:
        """The outbox is fenced for us: lead, unless raising the epoch took too long."""
        if not self.wants_epoch(now):
            return
        self._epoch = epoch
        self.standing = Standing.LEADING

    # -- what to do ------------------------------------------------------------------------------

    def heartbeat_due(self, now: float, unix_nanos: int) -> bytes | None:
        """The heartbeat to publish now, if one is due: goneli's ``<unix nanos>%<name>``."""
        if not self.is_assigned or now < self._last_sent_at + self._timing.min_poll_interval:
            return None
        # A calendar set back must not give two heartbeats one content.
        self._last_stamp = max(unix_nanos, self._last_stamp + 1)
        value = b"%d%%%s" % (self._last_stamp, self._name)
        oldest = now - self._timing.heartbeat_timeout
        self._sent = {sent: at for sent, at in self._sent.items() if at > oldest}
        self._sent[value] = self._last_sent_at = now
        return value

    def wants_proof(self, now: float) -> bool:
        """Whether the last proof is old enough to look for another."""
        return self.is_assigned and now >= self._proven_at + self._timing.proof_interval

    def offset_to_commit(self, now: float) -> int | None:
        """The offset to have the group commit now, as proof that we are still of it."""
        heartbeat = self._returned
        if not self.wants_proof(now) or heartbeat is None:
            return None
        if heartbeat.sent_at <= self._proven_at or self._is_answer_due(now):
            return None
        self._asked = Asked(heartbeat, now)
        return heartbeat.next_offset

    def _is_answer_due(self, now: float) -> bool:
        return (
            self._asked is not None and now < self._asked.asked_at + self._timing.heartbeat_timeout
        )

    def wants_epoch(self, now: float) -> bool:
        """Whether to fence the outbox and lead: it is proven, and the last loss was reported."""
        return (
            self.standing in (Standing.CANDIDATE, Standing.FENCED)
            and now < self.valid_until
            and now < self._proven_at + self._timing.heartbeat_timeout
            and not self._is_loss_untold
        )

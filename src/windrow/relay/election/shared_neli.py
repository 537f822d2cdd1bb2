"""NELI for the shards of an outbox: Kafka says who leads which, the outbox into how many it is cut.

Kafka knows nothing of the plan, so whoever leads has to have seen it not too long ago: a right is
good for a session at the most since the last look. Whoever changes the plan and waits that long
knows that no leader of the old shards is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windrow.clock import Clock, SystemClock
from windrow.errors import WindrowError
from windrow.relay.election.leading import Leading
from windrow.relay.election.neli import NeliElection
from windrow.relay.election.plan import Plan, proposal_due
from windrow.relay.election.plan_table import PlanTable

RaiseEpoch = Callable[[int], int]
LOOKS = 5
"""So many looks at the plan fit into the time that one is good for."""


class SharedNeli:
    """Stands for all shards of the plan that holds, and joins anew when another does.

    Args:
        plan_table: The plan, on a connection of its own.
        build: Makes an election for the shards of a plan, with what raises an epoch in it.
        right: How long a look at the plan is good for: the session.
        clock: For tests.
    """

    def __init__(
        self,
        plan_table: PlanTable,
        build: Callable[[Plan, RaiseEpoch], NeliElection],
        right: float,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._table, self._build, self._right = plan_table, build, right
        self._clock = clock or SystemClock()
        self._on_revoked: Callable[[int], None] = lambda shard: None
        self._plan = Plan()
        self._next: Plan | None = None
        self._seen_at: float | None = None
        self._look_at = -1.0
        self._neli = self._joined(self._plan)
        self.trouble: WindrowError | None = None

    @property
    def pulse_interval(self) -> float:
        """As Kafka's part of it wants."""
        return self._neli.pulse_interval

    def bind(self, on_revoked: Callable[[int], None]) -> None:
        """Call this before a shard that is led is given away, which waits until it returns."""
        self._on_revoked = on_revoked
        self._neli.bind(on_revoked)

    def _joined(self, plan: Plan) -> NeliElection:
        neli = self._build(plan, lambda shard: self._table.raise_epoch(shard, plan))
        neli.bind(self._on_revoked)
        return neli

    def open(self) -> None:
        """See the plan, see to the leader topic and join the group."""
        self._look(self._clock.monotonic())
        self._move_on({})
        self._neli.open()

    # -- pulses ----------------------------------------------------------------------------------

    def pulse_shards(self) -> dict[int, Leading]:
        """Stand, or stay, for all shards; returns those that are led."""
        self.trouble = None
        now = self._clock.monotonic()
        if now >= self._look_at:
            try:
                self._look(now)
            except WindrowError as error:
                self.trouble = error  # what was seen before is good until it is too old
        rights = self._neli.pulse_shards()
        self.trouble = self.trouble or self._neli.trouble
        if self._seen_at is None or self._clock.monotonic() >= self._seen_at + self._right:
            self._forsake(rights)
            return {}
        if self._next is not None:
            rights = {shard: replace(right, is_asked_back=True) for shard, right in rights.items()}
            self._move_on(rights)
        return {shard: self._bounded(right) for shard, right in rights.items()}

    def _look(self, now: float) -> None:
        """See how the outbox is divided, and divide it if that is asked for and agreed on."""
        self._look_at = now + self._right / LOOKS / 2  # soon again, should this fail
        is_shared = self._table.wanted is not None
        census = self._table.announce() if is_shared else self._table.look()
        shards = proposal_due(census, self._table.wanted)
        if shards is not None:
            self._table.divide(census.plan, shards)
            census = self._table.look()
        self._seen_at, self._look_at = now, now + self._right / LOOKS
        if census.plan.generation == self._plan.generation:
            self._plan = census.plan
        else:
            self._next = census.plan

    def _move_on(self, rights: dict[int, Leading]) -> None:
        """Once nothing of the old plan is led, join again for the shards of the new one."""
        if self._next is None or rights:
            return
        self._plan, self._next = self._next, None
        self._neli.resign()
        self._neli = self._joined(self._plan)

    def _forsake(self, rights: dict[int, Leading]) -> None:
        for shard in rights:
            self._neli.resign_shard(shard)

    def _bounded(self, right: Leading) -> Leading:
        assert self._seen_at is not None, "looked at above"
        until = self._seen_at + self._right
        exclusive = right.valid_until if right.exclusive_until is None else right.exclusive_until
        return replace(
            right,
            plan=self._plan,
            valid_until=min(right.valid_until, until),
            exclusive_until=min(exclusive, until),
        )

    # -- the end ---------------------------------------------------------------------------------

    def resign_shard(self, shard: int) -> None:
        """Give up what is led of a shard; the partition stays as Kafka gave it."""
        self._neli.resign_shard(shard)

    def resign(self) -> None:
        """Leave the group: others lead at once."""
        self._neli.resign()
        self._table.depart()

    def close(self) -> None:
        """Let go of all connections without leaving: the session has to expire."""
        self._neli.close()
        self._table.close()

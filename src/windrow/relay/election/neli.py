"""Leadership by Kafka alone: one lock per partition of the leader topic, as goneli has it.

The decisions are in :mod:`~windrow.relay.election.neli_machine`; here they are carried out. One
pulse publishes the heartbeats that are due, waits a moment for them to come back and to be
committed, and raises the epoch of a shard that is newly ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from windrow.clock import Clock, SystemClock
from windrow.errors import InvalidValue, WindrowError
from windrow.extras import require
from windrow.relay.election.errors import ElectionBroken
from windrow.relay.election.leader_topic import ensure_leader_topic
from windrow.relay.election.leading import Leading
from windrow.relay.election.neli_machine import NeliMachine
from windrow.relay.election.neli_member import NeliMember
from windrow.relay.election.neli_settings import NeliSettings
from windrow.relay.election.plan import WHOLE, Plan

POLL_DURATION = 0.001
"""How long a pulse listens when it expects nothing."""
PROOF_WAIT = 0.01
"""How long it listens at a time while a heartbeat or an answer is on its way."""
LEAVE_TIMEOUT = 2.0


class NeliElection:
    """Stands for every shard of one outbox; Kafka decides who gets which.

    Shard *i* is partition *i* of the leader topic; shard 0 is goneli's lock.

    Args:
        base: Properties of librdkafka for both clients, ``bootstrap.servers`` among them.
        settings: Names, shards and timing.
        raise_epoch: Fences a shard in the outbox database and returns the new epoch. While it
            fails the shard is not led.
        plan: How the outbox is divided, to tell those who lead.
        clock: For tests.

    Raises:
        ForcedProperty: ``base`` sets what only the election may.
    """

    def __init__(
        self,
        base: Mapping[str, Any],
        settings: NeliSettings,
        raise_epoch: Callable[[int], int],
        *,
        plan: Plan = WHOLE,
        clock: Clock | None = None,
    ) -> None:
        settings.consumer_properties(base)
        settings.producer_properties(base)
        self._base, self._settings = dict(base), settings
        self._raise_epoch, self._plan = raise_epoch, plan
        self._clock = clock or SystemClock()
        self._hand_over: Callable[[int], None] = lambda shard: None
        self._machines = {
            shard: NeliMachine(settings.name, settings.timing) for shard in range(settings.shards)
        }
        self._member: NeliMember | None = None
        self.trouble: WindrowError | None = None
        """Why a shard is not led, if anything is known to be wrong."""
        self.pulse_interval = settings.timing.min_poll_interval

    def bind(self, on_revoked: Callable[[int], None]) -> None:
        """Call this before a shard that is led is given away, which waits until it returns."""
        self._hand_over = on_revoked

    def open(self) -> None:
        """See to the leader topic and join the group; the first pulse does it otherwise.

        Raises:
            Unreachable: No broker answers.
            LeaderTopicUnusable: The leader topic cannot be made or does not do.
            InvalidValue: librdkafka does not take the properties.
        """
        if self._member is not None:
            return
        settings = self._settings
        try:
            ensure_leader_topic(
                self._base, settings.leader_topic, settings.shards, settings.connect_timeout
            )
            self._member = NeliMember(self._base, settings, self)
        except require("confluent_kafka").KafkaException as error:
            # By their names only: some of the values are secrets.
            names, reason = ", ".join(sorted(self._base)), error.args[0].str()
            raise InvalidValue("properties", names, "the election", reason) from error

    # -- pulses ----------------------------------------------------------------------------------

    def pulse(self) -> Leading | None:
        """Stand, or stay, for shard 0.

        Raises:
            WindrowError: Why it is not led, if anything is known to be wrong.
        """
        leading = self.pulse_shards().get(0)
        if leading is None and self.trouble is not None and not self._machines[0].is_loss_untold:
            raise self.trouble
        return leading

    def pulse_shards(self) -> dict[int, Leading]:
        """Stand, or stay, for all shards; returns those that are led."""
        now = self._clock.monotonic()
        for machine in self._machines.values():
            machine.on_pulse_began(now)
        self.trouble = None
        self.open()
        try:
            self._prove(until=now + self.pulse_interval)
        except ElectionBroken as error:
            self._on_broken(error)
        self._raise_epochs()
        found = {shard: machine.leading() for shard, machine in self._machines.items()}
        return {
            shard: replace(leading, shard=shard, plan=self._plan)
            for shard, leading in found.items()
            if leading is not None
        }

    def _prove(self, until: float) -> None:
        """Send heartbeats and follow them until each shard of ours is proven, or time is up."""
        assert self._member is not None, "opened above"
        machines = self._machines.items()
        while True:
            now = self._clock.monotonic()
            is_waiting = any(machine.wants_proof(now) for _, machine in machines)
            for shard, machine in machines:
                value = machine.heartbeat_due(now, int(self._clock.time() * 1e9))
                if value is not None:
                    self._member.publish(shard, value)
            self._member.read(PROOF_WAIT if is_waiting else POLL_DURATION)
            now = self._clock.monotonic()
            for shard, machine in machines:
                offset = machine.offset_to_commit(now)
                if offset is not None:
                    self._member.commit(shard, offset)
            if now >= until or not any(machine.wants_proof(now) for _, machine in machines):
                return

    def _raise_epochs(self) -> None:
        for shard, machine in self._machines.items():
            if machine.wants_epoch(self._clock.monotonic()):
                try:
                    epoch = self._raise_epoch(shard)
                except WindrowError as error:
                    self.trouble = error
                else:
                    machine.on_epoch_raised(epoch, self._clock.monotonic())

    def _on_broken(self, error: ElectionBroken) -> None:
        self.trouble = error
        self._let_go()

    # -- what the group tells --------------------------------------------------------------------

    def on_assigned(self, shard: int) -> None:
        """A partition is ours; one beyond the shards is nobody's lock."""
        if shard in self._machines:
            self._machines[shard].on_assigned()

    def on_revoked(self, shard: int) -> None:
        """A partition is asked back: end what goes on under it, then let it go."""
        machine = self._machines.get(shard)
        if machine is not None and machine.is_assigned:
            was_led = machine.leading() is not None
            machine.on_revoked()
            if was_led:
                self._hand_over(shard)

    def on_lost(self, shard: int) -> None:
        """A partition may be another's already: nobody waits for us."""
        if shard in self._machines:
            self._machines[shard].on_revoked()

    def on_heartbeat(self, shard: int, value: bytes, offset: int) -> None:
        """A heartbeat was read, ours or not."""
        if shard in self._machines:
            self._machines[shard].on_heartbeat(value, offset)

    def on_committed(self, shard: int, offset: int, was_accepted: bool) -> None:
        """The group has answered."""
        if shard in self._machines:
            self._machines[shard].on_committed(offset, was_accepted)

    def on_trouble(self, trouble: WindrowError) -> None:
        """Remember why we may not be leading."""
        self.trouble = trouble

    # -- the end ---------------------------------------------------------------------------------

    def resign_shard(self, shard: int) -> None:
        """Give up what is led now, and stay in the group: the shard may be led under a new epoch.

        Kafka alone decides whose partition it is.
        """
        self._machines[shard].on_forsaken()

    def resign(self) -> None:
        """Leave the group: another leads at once. The next pulse would join again."""
        member = self._forget_member()
        if member is not None:
            member.leave(LEAVE_TIMEOUT)

    def close(self) -> None:
        """Let go of both clients without leaving: another leads when the session has expired."""
        self._let_go()

    def _let_go(self) -> None:
        member = self._forget_member()
        if member is not None:
            member.drop()

    def _forget_member(self) -> NeliMember | None:
        for machine in self._machines.values():
            machine.on_revoked()
        member, self._member = self._member, None
        return member

"""A model of everything around the NELI machine: a group, its partition, processes that stall.

As unkind as the real parts: reading and writing the partition asks nobody whether one is still of
the group; a process may be stopped between any two steps, with answers and heartbeats waiting in
its buffers; what it sends may be under way for any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from windrow.relay.election.leading import Leading
from windrow.relay.election.neli_machine import NeliMachine, NeliTiming

TIMING = NeliTiming(min_poll_interval=0.1, heartbeat_timeout=1.0)
Pauses = Callable[[], float]


@dataclass(eq=False)
class Process:
    """One process: its machine, and what its client holds between it and the broker."""

    name: str
    machine: NeliMachine
    claim: Leading | None = None
    exclusive_until: float = -math.inf
    has_assignment: bool = False
    is_alive: bool = True
    callbacks: list[str] = field(default_factory=list)
    outgoing: list[bytes] = field(default_factory=list)
    position: int = 0
    fetched: list[tuple[bytes, int]] = field(default_factory=list)
    asking: list[int] = field(default_factory=list)
    answers: list[tuple[int, bool]] = field(default_factory=list)
    sent_at: dict[bytes, float] = field(default_factory=dict)
    heard_at: float = -math.inf
    """When the latest of its own heartbeats that came back was sent."""


class World:
    make_machine: type[NeliMachine] = NeliMachine

    def __init__(self, size: int = 3) -> None:
        self.now = 100.0
        self.log: list[bytes] = []
        self.sessions: dict[Process, float] = {}
        self.owner: Process | None = None
        self.asked_back: Process | None = None
        self.epochs = 0
        self.ever: list[Process] = []
        self.processes = [self._process(n) for n in range(size)]

    def _process(self, number: int) -> Process:
        machine = self.make_machine(f"process-{number}", TIMING)
        process = Process(f"process-{number}", machine)
        self.ever.append(process)
        return process

    # -- time ------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Time passes for everybody; the group expels whoever was silent for a session."""
        self.now += seconds
        expired = [
            process
            for process, since in self.sessions.items()
            if self.now >= since + TIMING.group_session
        ]
        for process in expired:
            del self.sessions[process]
        self._reassign()
        self.check()

    def _reassign(self) -> None:
        if self.owner is not None and self.owner in self.sessions:
            return
        self.owner = next(iter(self.sessions), None)
        if self.owner is not None:
            self.owner.callbacks.append("assigned")

    # -- the client's own threads, which run while the process does -------------------------------

    def beat(self, process: Process) -> None:
        """A heartbeat to the group: it joins, stays, or learns that it was expelled."""
        if not process.is_alive:
            return
        if process in self.sessions:
            self.sessions[process] = self.now
        elif process.has_assignment:
            process.callbacks = ["lost"]
        elif not process.callbacks:
            self.sessions[process] = self.now
            self._reassign()

    def deliver(self, process: Process) -> None:
        """What it sent lands, what has landed is fetched; neither asks about the group."""
        if not process.is_alive:
            return
        self.log += process.outgoing
        process.outgoing = []
        if process.has_assignment:
            for offset in range(process.position, len(self.log)):
                process.fetched.append((self.log[offset], offset))
            process.position = len(self.log)

    def answer(self, process: Process) -> None:
        """The group decides on a commit, whenever that reaches it."""
        if process.asking:
            offset = process.asking.pop(0)
            is_member = process in self.sessions
            if is_member:
                self.sessions[process] = self.now
            process.answers.append((offset, is_member))

    # -- the process itself ----------------------------------------------------------------------

    def pulse(self, process: Process, pauses: Pauses) -> None:
        if not process.is_alive:
            return
        machine = process.machine
        machine.on_pulse_began(self.now)
        self.wait(pauses())
        value = machine.heartbeat_due(self.now, int(self.now * 1e9))
        if value is not None:
            process.sent_at[value] = self.now
            self.wait(pauses())
            process.outgoing.append(value)
        self._read(process, pauses)
        offset = machine.offset_to_commit(self.now)
        if offset is not None:
            process.asking.append(offset)
        self.wait(pauses())
        if machine.wants_epoch(self.now):
            self.wait(pauses())
            self.epochs += 1
            machine.on_epoch_raised(self.epochs, self.now)
        self._report(process, machine.leading())
        self.check()

    def _read(self, process: Process, pauses: Pauses) -> None:
        machine = process.machine
        while process.callbacks:
            self._call_back(process, process.callbacks.pop(0))
            self.wait(pauses())
        fetched, process.fetched = process.fetched, []
        for value, offset in fetched:
            process.heard_at = max(process.heard_at, process.sent_at.get(value, -math.inf))
            self._hear(process, value, offset)
        answers, process.answers = process.answers, []
        for offset, was_accepted in answers:
            machine.on_committed(offset, was_accepted)

    def _hear(self, process: Process, value: bytes, offset: int) -> None:
        process.machine.on_heartbeat(value, offset)

    def _call_back(self, process: Process, callback: str) -> None:
        if callback == "assigned":
            process.has_assignment = True
            process.position = len(self.log)
            process.machine.on_assigned()
            return
        process.has_assignment = False
        process.fetched.clear()
        process.machine.on_revoked()
        process.claim = None
        if callback == "revoked" and self.asked_back is process:
            self.asked_back = None
            if self.owner is process:
                # Whoever works under the right has ended, in good order.
                process.exclusive_until = -math.inf
                self._pass_on(process)

    def _pass_on(self, process: Process) -> None:
        """An eager rebalance gives the partition to whoever is next."""
        others = [p for p in self.sessions if p is not process]
        self.owner = others[0] if others else process
        self.owner.callbacks.append("assigned")

    def _report(self, process: Process, leading: Leading | None) -> None:
        if leading and process.claim and leading.epoch != process.claim.epoch:
            raise AssertionError("a new epoch before the loss of the old one was reported")
        process.claim = leading
        if leading and leading.valid_until > self.now and leading.exclusive_until:
            process.exclusive_until = leading.exclusive_until

    # -- what people and machines do to it -------------------------------------------------------

    def ask_back(self) -> None:
        """A member joins or leaves a group that rebalances eagerly."""
        owner = self.owner
        if owner is None or owner.callbacks or not owner.has_assignment or self.asked_back:
            return
        self.asked_back = owner
        owner.callbacks.append("revoked")

    def resign(self, process: Process) -> None:
        if not process.is_alive:
            return
        process.machine.on_revoked()
        process.claim, process.exclusive_until = None, -math.inf
        self._vanish(process)
        self.sessions.pop(process, None)
        self._reassign()
        self.check()

    def kill(self, process: Process) -> None:
        """Without a word; its claim holds until it has run out: work of its may be on the way."""
        process.is_alive = False

    def restart(self, process: Process) -> None:
        if process.is_alive:
            return
        self.processes[self.processes.index(process)] = self._process(len(self.ever))

    def _vanish(self, process: Process) -> None:
        process.has_assignment = False
        process.callbacks.clear()
        process.fetched.clear()
        process.outgoing.clear()
        process.asking.clear()
        process.answers.clear()
        if self.asked_back is process:
            self.asked_back = None

    # -- judgement -------------------------------------------------------------------------------

    def check(self) -> None:
        valid = [p for p in self.ever if p.claim and p.claim.valid_until > self.now]
        assert len(valid) <= 1, f"two lead at {self.now}: {[p.name for p in valid]}"
        for process in valid:
            assert process.claim is not None
            others = [p.exclusive_until for p in self.ever if p is not process]
            assert max(others) <= self.now, "what another sent may still be on its way"
            longest = process.heard_at + TIMING.heartbeat_timeout
            assert process.claim.valid_until <= longest, "the right outlives the heartbeat's"

    def settle(self) -> None:
        """With everybody at work again, exactly one leads within a session and a bit."""
        for process in list(self.processes):
            self.restart(process)
        for _ in range(round(1.5 * TIMING.session_timeout / 0.1)):
            for process in self.processes:
                self.beat(process)
                self.deliver(process)
                self.answer(process)
                self.pulse(process, lambda: 0.0)
            self.wait(0.1)
        assert sum(p.claim is not None for p in self.processes) == 1

"""A model of everything around the barrier machine: table, producer, broker, leaders.

Small enough to be obviously right, and as unkind as the real parts: transactions commit late,
deliveries fail though they were written, purges commit without telling, leaders die between any
two steps. What the consumer saw is kept in ``log``; what services committed, in ``written``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from windrow.outbox.marked import Marked
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.machine import BarrierMachine, Lane, LaneState, Limits

LOST = Failure(FailureKind.UNKNOWN, "timed-out", "it may have been written")
DOWN = Failure(FailureKind.TARGET_DOWN, "no-broker", "nobody answers")
REFUSED = Failure(FailureKind.RETRIABLE, "refused", "not this time")


@dataclass
class Row:
    id: int
    key: str
    leader: int | None = None


@dataclass
class Leader:
    """One process that leads: the machine, its producer's buffer, its acks and purges."""

    epoch: int
    machine: BarrierMachine
    wire: list[tuple[Lane, Marked]] = field(default_factory=list)
    acked: list[Lane] = field(default_factory=list)
    purging: list[tuple[Lane, int]] = field(default_factory=list)


class World:
    make_machine: type[BarrierMachine] = BarrierMachine

    def __init__(self) -> None:
        self.now = 0.0
        self.next_id = 1
        self.pending: list[list[Row]] = []
        self.table: dict[int, Row] = {}
        self.written: dict[str, list[int]] = {}
        self.log: list[tuple[str, int]] = []
        self.epoch = 0
        self.leader = self._lead()

    # -- the services ----------------------------------------------------------------------------

    def begin(self, keys: list[str]) -> None:
        """A transaction stashes: it holds its keys' locks, and draws ids under them."""
        locked = {row.key for rows in self.pending for row in rows}
        rows = []
        for key in keys:
            if key not in locked:
                rows.append(Row(self.next_id, key))
                self.next_id += 1
        if rows:
            self.pending.append(rows)

    def commit(self, which: int) -> None:
        for row in self.pending.pop(which):
            self.table[row.id] = row
            self.written.setdefault(row.key, []).append(row.id)

    def roll_back(self, which: int) -> None:
        self.pending.pop(which)

    # -- the relay -------------------------------------------------------------------------------

    def mark(self) -> None:
        leader = self.leader
        excluded = set(leader.machine.excluded_keys())
        rows = [
            row
            for _, row in sorted(self.table.items())
            if row.leader != leader.epoch and row.key not in excluded
        ][: leader.machine.room()]
        for row in rows:
            row.leader = leader.epoch
        marked = [Marked(r.id, "topic", r.key, b"", None, None) for r in rows]
        self._send(leader.machine.on_marked(marked))

    def _send(self, lanes: list[Lane]) -> None:
        self.leader.wire += [(lane, lane.head) for lane in lanes]

    def land(self, which: int) -> None:
        """The broker writes a record and its acknowledgement arrives."""
        lane, row = self.leader.wire.pop(which)
        self.log.append((row.key or "", row.id))
        self.leader.acked.append(lane)

    def fail(self, which: int, failure: Failure, was_written: bool) -> None:
        lane, row = self.leader.wire.pop(which)
        if was_written:
            self.log.append((row.key or "", row.id))
        self.leader.machine.on_failed(lane, failure, self.now)

    def purge(self) -> None:
        """The DELETE of all that is acknowledged is sent."""
        leader = self.leader
        ids = leader.machine.on_acknowledged(leader.acked)
        leader.purging += zip(leader.acked, ids, strict=True)
        leader.acked = []

    def purge_commits(self) -> None:
        lanes = self._take_purged()
        self._send(self.leader.machine.on_purged(lanes))

    def _take_purged(self) -> list[Lane]:
        purged, self.leader.purging = self.leader.purging, []
        for _, record in purged:
            self.table.pop(record, None)
        return [lane for lane, _ in purged]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._send(self.leader.machine.due(self.now))

    # -- the faults ------------------------------------------------------------------------------

    def crash(self, landed: Callable[[], bool], purge_took: bool) -> None:
        """The leader dies: of what was on the wire some lands, of a sent DELETE all or nothing."""
        for _, row in self.leader.wire:
            if landed():
                self.log.append((row.key or "", row.id))
        if purge_took:
            self._take_purged()
        self.leader = self._lead()

    def lose_connection(self) -> None:
        """The database went away: marks may be lost, so all settles and a new id is taken."""
        leader = self.leader
        leader.machine.drop_waiting()
        while leader.wire:
            self.land(0)
        self.purge()
        self.purge_commits()
        assert leader.machine.is_idle, leader.machine.lanes
        self.leader = self._lead()

    def _lead(self) -> Leader:
        self.epoch += 1
        limits = Limits(batch=4, records=8, lane=3)
        return Leader(self.epoch, self.make_machine(limits))

    # -- the verdict -----------------------------------------------------------------------------

    def settle(self) -> None:
        """No more faults: run until nothing is left."""
        while self.pending:
            self.commit(0)
        for _ in range(10_000):
            if not self.table:
                return
            self.wait(60.0)
            self.mark()
            while self.leader.wire:
                self.land(0)
            self.purge()
            self.purge_commits()
        raise AssertionError(f"never settles: {self.table}, {self.leader.machine.lanes}")

    def verdict(self) -> None:
        """Nothing lost, nothing overtaken, and only a key's latest repeated."""
        seen: dict[str, list[int]] = {}
        for key, record in self.log:
            arrived = seen.setdefault(key, [])
            if arrived and record == arrived[-1]:
                continue
            assert record not in arrived, f"{key}: {record} repeated after {arrived}"
            arrived.append(record)
        assert seen == self.written

    def check_books(self) -> None:
        machine = self.leader.machine
        lanes = machine.lanes.values()
        held = sum(1 + len(lane.waiting or ()) for lane in lanes)
        assert machine.held_records == held <= machine.limits.records
        on_wire = [lane.key for lane, _ in self.leader.wire]
        assert len(on_wire) == len(set(on_wire)), "two records of a key in flight"
        assert all(lane.state is not LaneState.DROPPED for lane in lanes)

"""A cluster in memory: a store that compares, brokers that synchronise, a leader that allocates.

Every transaction of the leader is checked for what it must never do: spare a synchronised replica
that is needed, fill a broker beyond its limit, or leave a journal with replicas but no primary.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from windrow.coordination.store import Compare, CompareTarget, KeyValue, Op, Put, check_txn
from windrow.journal.allocation.converge import converge
from windrow.journal.allocation.solve import Solution, solve_state
from windrow.journal.allocation.state import (
    Decoders,
    Fingerprint,
    State,
    StateReader,
    implied_route,
)
from windrow.journal.allocation.transactions import Transaction
from windrow.journal.errors import InvalidField
from windrow.journal.keys import Keys
from windrow.journal.process import BrokerSpec, ProcessId, Route
from windrow.journal.spec import JournalSpec

KEYS = Keys("/test")


def broker(name: str) -> ProcessId:
    """``a1`` is a broker of zone ``a``."""
    return ProcessId(name[0], f"broker-{name[1:]}")


def encode_route(route: Route) -> bytes:
    return json.dumps([[str(m) for m in route.members], route.primary]).encode()


def decode_route(value: bytes) -> Route:
    members, primary = _json(value)
    return Route(tuple(ProcessId.parse(m) for m in members), primary)


def _decode_item(value: bytes) -> JournalSpec:
    return JournalSpec(*_json(value))


def _decode_member(value: bytes) -> BrokerSpec:
    member, limit, exiting = _json(value)
    return BrokerSpec(ProcessId.parse(member), "http://127.0.0.1:1", limit, exiting)


def _json(value: bytes) -> list:  # type: ignore[type-arg]
    try:
        return list(json.loads(value))
    except ValueError as error:
        raise InvalidField("Value", "not readable") from error


DECODERS = Decoders(_decode_item, _decode_member, decode_route)


class Cluster:
    def __init__(self) -> None:
        self.kvs: dict[str, KeyValue] = {}
        self.revision = 1
        self.synced: dict[str, set[ProcessId]] = {}
        """The brokers that hold all of a journal's bytes."""
        self.solved: tuple[Fingerprint, Solution] | None = None
        self.solutions = 0
        self.reader = StateReader(KEYS, DECODERS, max_replication=9)

    # -- what people and brokers do ----------------------------------------------------------------

    def journal(self, name: str, replication: int) -> None:
        self._write([Put(KEYS.item(name), json.dumps([name, replication]).encode())])

    def journals(self, names: Iterable[str], replication: int) -> None:
        for name in names:
            self.journal(name, replication)

    def delete(self, name: str) -> None:
        self.revision += 1
        del self.kvs[KEYS.item(name)]

    def join(self, *names: str, limit: int = 100) -> None:
        """Announce brokers; those that are there change their limit."""
        for name in names:
            self._announce(broker(name), limit, exiting=False)

    def exit(self, name: str) -> None:
        limit = self.state().members[broker(name)].limit
        self._announce(broker(name), limit, exiting=True)

    def _announce(self, member: ProcessId, limit: int, exiting: bool) -> None:
        key = KEYS.member(member)
        lease = self.kvs[key].lease if key in self.kvs else self.revision + 1000
        value = json.dumps([str(member), limit, exiting]).encode()
        self._write([Put(key, value, lease=lease)])

    def lose(self, name: str) -> None:
        """A broker's lease ends, and with it all that hangs on it."""
        lease = self.kvs[KEYS.member(broker(name))].lease
        self.revision += 1
        self.kvs = {key: kv for key, kv in self.kvs.items() if kv.lease != lease}
        for holders in self.synced.values():
            holders.discard(broker(name))

    def pulse(self, *journals: str) -> None:
        """Primaries synchronise their replicas, and write down the route they agreed on."""
        state = self.state()
        for journal, current in state.assignments.items():
            is_asked = journal in state.items and (not journals or journal in journals)
            if not is_asked or all(a.slot for a in current):
                continue
            route = implied_route(current)
            self._write(
                [Put(a.kv.key, encode_route(route), a.kv.lease) for a in current]
                if not state.is_consistent(journal)
                else []
            )
            self.synced[journal] = set(route.members)

    # -- what the leader does ----------------------------------------------------------------------

    def state(self) -> State:
        kvs = self.kvs.values()
        return self.reader.read(
            [kv for kv in kvs if kv.key.startswith(KEYS.items)],
            [kv for kv in kvs if kv.key.startswith(KEYS.members)],
            [kv for kv in kvs if kv.key.startswith(KEYS.assignments)],
        )

    def plan(self) -> list[Transaction]:
        state = self.state()
        if self.solved is None or self.solved[0] != state.fingerprint:
            self.solved = state.fingerprint, solve_state(state)
            self.solutions += 1
        return converge(state, self.solved[1])

    def round(self) -> int:
        """Plan and perform once; returns how many changes were made."""
        transactions = self.plan()
        for transaction in transactions:
            assert self.txn(transaction), "nothing changed since it was planned"
        return sum(len(transaction.ops) for transaction in transactions)

    def settle(self, *, pulses: bool = True, rounds: int = 200) -> None:
        """Go on until there is nothing to do."""
        for _ in range(rounds):
            if pulses:
                self.pulse()
            if not self.round():
                return
        raise AssertionError(f"still changing after {rounds} rounds")

    def txn(self, transaction: Transaction) -> bool:
        compares, ops = transaction.compares, transaction.ops
        check_txn(compares, ops)
        if not all(self._holds(compare) for compare in compares):
            return False
        before = self.state()
        loads = before.loads()
        self._write(ops)
        self._check(before, loads)
        return True

    # -- what is there -----------------------------------------------------------------------------

    def route(self, journal: str) -> list[str]:
        """The brokers of a journal, by slot."""
        current = sorted(self.state().current(journal), key=lambda a: a.slot)
        return [a.member.zone + a.member.suffix.removeprefix("broker-") for a in current]

    def slots(self, journal: str) -> list[int]:
        return sorted(a.slot for a in self.state().current(journal))

    def load(self, name: str) -> int:
        return self.state().loads()[broker(name)]

    def assign(self, journal: str, name: str, slot: int) -> None:
        """Make an assignment by hand, not synchronised."""
        lease = self.kvs[KEYS.member(broker(name))].lease
        self._write([Put(KEYS.assignment(journal, broker(name), slot), b"", lease=lease)])

    # -- the store ---------------------------------------------------------------------------------

    def _holds(self, compare: Compare) -> bool:
        kv = self.kvs.get(compare.key)
        numbers = {
            CompareTarget.MOD_REVISION: kv.mod_revision if kv else 0,
            CompareTarget.CREATE_REVISION: kv.create_revision if kv else 0,
            CompareTarget.VERSION: kv.version if kv else 0,
            CompareTarget.LEASE: kv.lease if kv else 0,
        }
        return numbers[compare.target] == compare.expected

    def _write(self, ops: Iterable[Op]) -> None:
        self.revision += 1
        for op in ops:
            known = self.kvs.get(op.key)
            if isinstance(op, Put):
                created, version = (
                    (known.create_revision, known.version) if known else (self.revision, 0)
                )
                self.kvs[op.key] = KeyValue(
                    op.key, op.value, created, self.revision, version + 1, op.lease
                )
            else:
                assert known is not None, f"{op.key} is not there to be deleted"
                del self.kvs[op.key]

    def _check(self, before: State, loads: Counter[ProcessId]) -> None:
        after = self.state()
        for journal, item in after.items.items():
            current = after.current(journal)
            held = {a.member for a in current}
            assert len(held) == len(current), f"{journal} sits twice on a broker"
            assert not current or [a.slot for a in current].count(0) == 1, f"{journal}: primaries"
            assert all(a.kv.lease == after.members[a.member].lease for a in current)
            safe = self.synced.get(journal, set())
            spared = len(safe & held)
            assert spared >= min(item.replication, len(safe)), f"{journal} lost a replica"
            self.synced[journal] = safe & held
        for member, load in after.loads().items():
            limit = after.members[member].limit
            assert load <= max(limit, loads[member]), f"{member} was filled beyond {limit}"

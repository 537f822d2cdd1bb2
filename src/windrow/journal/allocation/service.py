"""The shell of the allocator: watch, decide while leading, write, look again.

Deciding for a large cluster takes part of a second, so it happens in a thread: the event loop has
a lease to keep alive.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from windrow.coordination.errors import LeaseNotFound
from windrow.coordination.mirror import Mirror
from windrow.coordination.store import KeyValue, Store, TxnResult
from windrow.errors import Failed, OutcomeUnknown
from windrow.journal.allocation.converge import converge
from windrow.journal.allocation.solve import Solution, solve_state
from windrow.journal.allocation.state import Decoders, Fingerprint, State, StateReader
from windrow.journal.allocation.transactions import Transaction
from windrow.journal.keys import Keys
from windrow.telemetry.logs import get_logger

MAX_REPLICATION: Final = 9
RETRY_INTERVAL: Final = 1.0

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """What a leader did in one round, for those who count."""

    journals: int
    members: int
    replicas: int
    """Desired, over all journals."""
    added: int
    removed: int
    moved: int
    refused: int
    """Transactions that did not happen since something they compared had changed."""
    solve_time: float | None
    """Seconds; None where the previous solution still holds."""


class Allocator:
    """Assigns journals to brokers for as long as this broker is the one to do it.

    Every broker runs one. The mirror has to show the whole prefix of ``keys``, and to run.
    """

    def __init__(
        self,
        mirror: Mirror,
        store: Store,
        member_key: str,
        *,
        keys: Keys | None = None,
        decoders: Decoders | None = None,
        max_replication: int = MAX_REPLICATION,
        on_round: Callable[[Round], None] | None = None,
        retry_interval: float = RETRY_INTERVAL,
    ) -> None:
        """Prepare to allocate; ``run`` does it.

        Args:
            mirror: The cluster as this broker sees it.
            store: Where assignments are written.
            member_key: The key under which this broker is announced.
            keys: The cluster's keys; by default those under the mirror's prefix.
            decoders: How values are read; by default from protobuf.
            max_replication: Replicas of a journal beyond these are not asked for.
            on_round: Told of every round in which this broker led.
            retry_interval: Seconds to wait after the store gave no answer.
        """
        self._mirror = mirror
        self._store = store
        self._keys = keys or Keys(mirror.prefix.rstrip("/"))
        self._member_key = member_key
        self._member = self._keys.parse_member(member_key)
        self._reader = StateReader(self._keys, decoders or wire_decoders(), max_replication)
        self._on_round = on_round
        self._retry_interval = retry_interval
        self._solved: tuple[Fingerprint, Solution] | None = None
        self._swapped = asyncio.Event()
        mirror.observers.append(self._on_swap)

    @property
    def is_leader(self) -> bool:
        """Whether this broker is the one that assigns, as far as the mirror shows."""
        members = self._mirror.prefixed(self._keys.members)
        leader = min(members, key=lambda kv: kv.create_revision, default=None)
        return leader is not None and leader.key == self._member_key

    def local_items(self) -> list[str]:
        """The journals assigned to this broker."""
        beginning, ours = self._keys.assignments, f"#{self._member}#"
        assigned = (kv.key.removeprefix(beginning) for kv in self._mirror.prefixed(beginning))
        return [key.partition("#")[0] for key in assigned if ours in key]

    async def local_items_drained(self) -> None:
        """Return when no journal is assigned to this broker; it should be exiting."""
        while True:
            swapped = self._swapped
            if not self.local_items():
                return
            await swapped.wait()

    async def run(self) -> None:
        """Allocate until cancelled.

        Raises:
            NotFollowing: The mirror was stopped, or failed.
        """
        while True:
            swapped = self._swapped
            if not await self._step():
                await swapped.wait()

    # -- one round ---------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Do a round, if this broker leads; returns whether to look again at once."""
        if not self.is_leader:
            self._solved = None
            return False
        revision = self._mirror.revision
        try:
            changed_at = await self._lead()
        except (Failed, OutcomeUnknown) as error:
            # Whatever happened is seen in the mirror; conditions keep it from happening twice.
            _log.warning("round broken off", error=str(error), next_try=self._retry_interval)
            await asyncio.sleep(self._retry_interval)
            return True
        await self._mirror.wait_revision(changed_at)
        return self._mirror.revision != revision

    async def _lead(self) -> int:
        """Do a round; returns the revision that shows what came of it, or 0."""
        keys, mirror = self._keys, self._mirror
        state, transactions, solve_time = await asyncio.to_thread(
            self._plan,
            mirror.prefixed(keys.items),
            mirror.prefixed(keys.members),
            mirror.prefixed(keys.assignments),
            mirror.prefixed(keys.heads),
        )
        done, refused, changed_at = await self._send(transactions)
        self._tell(state, done, refused, solve_time)
        return changed_at

    def _plan(
        self,
        items: list[KeyValue],
        members: list[KeyValue],
        assignments: list[KeyValue],
        heads: list[KeyValue],
    ) -> tuple[State, list[Transaction], float | None]:
        state, solve_time = self._reader.read(items, members, assignments), None
        if self._solved is None or self._solved[0] != state.fingerprint:
            began = time.perf_counter()
            self._solved = state.fingerprint, solve_state(state)
            solve_time = time.perf_counter() - began
        return state, converge(state, self._solved[1], heads), solve_time

    async def _send(self, transactions: list[Transaction]) -> tuple[list[Transaction], int, int]:
        """Send them all, one after the other; those that fail are tried again in parts."""
        waiting = transactions[::-1]
        done: list[Transaction] = []
        refused, changed_at = 0, 0
        while waiting and self.is_leader:
            transaction = waiting.pop()
            result = await self._try(transaction)
            if result is not None:
                changed_at = max(changed_at, result.revision)
            if result is not None and result.succeeded:
                done.append(transaction)
            else:
                refused += 1
                waiting += transaction.halves()[::-1]
        return done, refused, changed_at

    async def _try(self, transaction: Transaction) -> TxnResult | None:
        try:
            return await self._store.txn(transaction.compares, transaction.ops)
        except LeaseNotFound:
            return None  # a member is gone, and the mirror is about to show it

    def _tell(
        self, state: State, done: list[Transaction], refused: int, solve_time: float | None
    ) -> None:
        groups = [group for transaction in done for group in transaction.groups]
        told = Round(
            journals=len(state.items),
            members=len(state.members),
            replicas=sum(item.replication for item in state.items.values()),
            added=sum(group.added for group in groups),
            removed=sum(group.removed for group in groups),
            moved=sum(group.moved for group in groups),
            refused=refused,
            solve_time=solve_time,
        )
        if groups or refused:
            _log.info(
                "assignments changed",
                added=told.added,
                removed=told.removed,
                moved=told.moved,
                refused=refused,
            )
        if self._on_round is not None:
            self._on_round(told)

    # -- watching ----------------------------------------------------------------------------------

    def _on_swap(self, mirror: Mirror) -> None:
        # A new event each time: whoever took hold of the old one before looking misses nothing.
        self._swapped.set()
        self._swapped = asyncio.Event()


def wire_decoders() -> Decoders:
    """Read values as they are on the wire."""
    from windrow.journal.messages import decode_broker_spec, decode_route, decode_spec

    return Decoders(item=decode_spec, member=decode_broker_spec, route=decode_route)

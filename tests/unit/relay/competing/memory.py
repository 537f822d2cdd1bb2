"""Both ends of a competing relay in memory: an outbox whose time can be moved, and a receiver."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from windrow.outbox.claims.contract import NOBODY
from windrow.relay.competing.contract import (
    Burial,
    Claim,
    Delivered,
    Outcome,
    Retry,
    Suspects,
    Topics,
)

CREATED = datetime(2024, 1, 1, tzinfo=UTC)


def claim_of(
    row: int, topic: str = "heroes", attempts: int = 0, *, is_orphan: bool = False
) -> Claim:
    return Claim(row, f"message-{row}", topic, None, b"{}", (), CREATED, attempts, is_orphan)


@dataclass
class Row:
    id: int
    topic: str
    attempts: int = 0
    token: UUID | None = None
    not_before: float = float("-inf")

    def is_orphan_for(self, token: UUID) -> bool:
        return self.token is not None and self.token != token

    def lease_to(self, token: UUID, until: float) -> Claim:
        is_orphan = self.is_orphan_for(token)
        self.attempts += is_orphan
        self.token, self.not_before = token, until
        return claim_of(self.id, self.topic, self.attempts, is_orphan=is_orphan)


@dataclass
class MemoryClaims:
    """An outbox that several relays share, in memory."""

    clock: Callable[[], float]
    rows: dict[int, Row] = field(default_factory=dict)
    dead: dict[int, str] = field(default_factory=dict)
    error: Exception | None = None
    calls: list[str] = field(default_factory=list)
    opened: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, *ids: int, topic: str = "heroes") -> None:
        with self._lock:
            for row in ids:
                self.rows[row] = Row(row, topic)

    def open(self) -> None:
        self._called("open")
        self.opened += 1

    def claim(
        self, token: UUID, limit: int, lease: float, topics: Topics, suspects: Suspects = NOBODY
    ) -> list[Claim]:
        with self._lock:
            self._called("claim")
            now = self.clock()
            due = [
                row
                for row in self.rows.values()
                if row.not_before <= now and (row.topic in topics.names) == topics.are_wanted
            ]
            suspected = [
                row
                for row in due
                if row.is_orphan_for(token) and row.attempts + 1 >= suspects.attempts
            ]
            left_out = {row.id for row in suspected[suspects.limit :]}
            taken = [row for row in due if row.id not in left_out][:limit]
            return [row.lease_to(token, now + lease) for row in taken]

    def finish(
        self,
        token: UUID,
        delivered: Sequence[int],
        retries: Sequence[Retry] = (),
        burials: Sequence[Burial] = (),
    ) -> set[int]:
        with self._lock:
            self._called("finish")
            asked = [*delivered, *(r.id for r in retries), *(b.id for b in burials)]
            ours = {row for row in asked if self._is_ours(row, token)}
            for row in ours.intersection(delivered):
                del self.rows[row]
            for retry in retries:
                if retry.id in ours:
                    row_ = self.rows[retry.id]
                    row_.token, row_.not_before = None, self.clock() + retry.delay
                    row_.attempts += retry.counts
            for burial in burials:
                if burial.id in ours:
                    del self.rows[burial.id]
                    self.dead[burial.id] = burial.reason
            return set(asked) - ours

    def renew(self, token: UUID, ids: Sequence[int], lease: float) -> set[int]:
        with self._lock:
            self._called("renew")
            ours = {row for row in ids if self._is_ours(row, token)}
            for row in ours:
                self.rows[row].not_before = self.clock() + lease
            return set(ids) - ours

    def release(self, token: UUID, ids: Sequence[int]) -> None:
        with self._lock:
            self._called("release")
            for row in ids:
                if self._is_ours(row, token):
                    self.rows[row].token, self.rows[row].not_before = None, float("-inf")

    def close(self) -> None:
        self.calls.append("close")

    def _is_ours(self, row: int, token: UUID) -> bool:
        return row in self.rows and self.rows[row].token == token

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.error is not None:
            raise self.error


@dataclass
class MemoryTarget:
    """A receiver that answers as it is told to, and notes what came."""

    answer: Callable[[Claim], Outcome] = lambda claim: Delivered()
    arrived: list[str] = field(default_factory=list)
    is_held: bool = False
    """Whether nobody gets an answer for now."""
    most_at_once: int = 0
    is_open: bool = False
    _at_once: int = 0

    async def open(self) -> None:
        self.is_open = True

    def destination(self, topic: str) -> str:
        return topic.partition("/")[0]

    async def send(self, claim: Claim) -> Outcome:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self.arrived.append(claim.message_id)
            await asyncio.sleep(0)
            while self.is_held:  # noqa: ASYNC110 - it is set by another thread
                await asyncio.sleep(0.001)
            return self.answer(claim)
        finally:
            self._at_once -= 1

    async def close(self) -> None:
        self.is_open = False

"""What is a coordination store? Its values, its transactions, its promise. Pure.

A store is a sorted map of keys with revisions, as etcd has it. Every transaction that changes
something gets the next revision, and all its changes carry that one. A key remembers at which
revision it was made and last changed, and how many times; deleted and made again it starts anew.
A key may hang on a lease: when the lease ends, the key is deleted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from windrow.coordination.errors import InvalidTransaction

if TYPE_CHECKING:
    import asyncio

MAX_TXN_OPS: Final = 128
"""Compares, and changes, that one transaction may have: etcd's own default."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as it stood at one revision."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    """Changes since it was made, the first included."""
    lease: int = 0
    """The lease it hangs on; 0 is none."""


class CompareTarget(Enum):
    """Which number of a key is compared."""

    MOD_REVISION = "mod_revision"
    CREATE_REVISION = "create_revision"
    VERSION = "version"
    LEASE = "lease"


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition of a transaction: one number of one key is what we believe it to be.

    Of a key that does not exist every number is 0.
    """

    key: str
    target: CompareTarget
    expected: int

    @classmethod
    def mod_revision(cls, key: str, expected: int) -> Self:
        """The key has not changed since that revision; 0 says it does not exist."""
        return cls(key, CompareTarget.MOD_REVISION, expected)

    @classmethod
    def create_revision(cls, key: str, expected: int) -> Self:
        """The key is still the one that was made at that revision; 0 says it does not exist."""
        return cls(key, CompareTarget.CREATE_REVISION, expected)

    @classmethod
    def version(cls, key: str, expected: int) -> Self:
        """The key was written so many times; 0 says it does not exist."""
        return cls(key, CompareTarget.VERSION, expected)

    @classmethod
    def lease(cls, key: str, expected: int) -> Self:
        """The key hangs on that lease; 0 says it hangs on none."""
        return cls(key, CompareTarget.LEASE, expected)


@dataclass(frozen=True, slots=True)
class Put:
    """Write a key."""

    key: str
    value: bytes
    lease: int = 0
    """What it shall hang on from now on; 0 takes it off any lease."""
    ignore_lease: bool = False
    """Leave it on the lease it hangs on; the key must exist."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key; one that does not exist is no mistake."""

    key: str


Op = Put | Delete


@dataclass(frozen=True, slots=True)
class TxnResult:
    """What became of a transaction."""

    succeeded: bool
    revision: int
    """A revision that a mirror of these keys can wait for.

    Of a transaction that changed something, its own. Of one that did not, the latest change of the
    keys it compared, as they stand: never a revision made by strangers elsewhere in the store,
    which a mirror would learn of late or not at all.
    """


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every key under a prefix, sorted, as they stood together at one revision of the store."""

    revision: int
    kvs: tuple[KeyValue, ...]
    cluster_id: int = 0


class EventKind(Enum):
    """How a key changed."""

    PUT = "put"
    DELETE = "delete"


PUT, DELETE = EventKind.PUT, EventKind.DELETE


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one key, at ``kv.mod_revision``; a deleted key has no value and version 0."""

    kind: EventKind
    kv: KeyValue


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """Changes as a watch tells them: in order, and never a part of a revision.

    Without events it says only how far the store has come with nothing to tell.
    """

    revision: int
    events: tuple[Event, ...]
    cluster_id: int = 0


class StoreHeader(NamedTuple):
    """Who answered; none of the numbers is 0."""

    cluster_id: int
    member_id: int
    raft_term: int


class Lease(Protocol):
    """A lease that keeps itself alive until it is revoked or lost."""

    @property
    def id(self) -> int:
        """Never 0."""

    @property
    def ttl(self) -> float:
        """Seconds for which it outlives whoever holds it."""

    @property
    def lost(self) -> asyncio.Event:
        """Set once its keys may be gone though nobody revoked it here."""

    async def revoke(self) -> None:
        """End it now, which deletes its keys. Does nothing the second time.

        Raises:
            Unreachable: The store gave no answer; the lease ends by itself after ``ttl``.
        """


class Store(Protocol):
    """What windrow needs of etcd, and a directory can give too. Bound to one event loop."""

    async def load(self, prefix: str) -> Snapshot:
        """Read every key under a prefix at one revision, however many there are.

        Raises:
            Unreachable: No answer.
        """

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op]) -> TxnResult:
        """Perform all changes if all conditions hold, and otherwise none.

        Raises:
            InvalidTransaction: It could never be performed: too large, or a key changed twice.
            LeaseNotFound: A put names a lease that has ended; nothing was changed.
            KeyNotFound: A put that ignores leases names a key that is gone; nothing was changed.
            Unreachable: Nobody has seen it; nothing was changed.
            TxnUnknown: It was sent and no answer came.
        """

    def watch(self, prefix: str, after_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Tell every change under a prefix after that revision once, in order, without end.

        Raises:
            Compacted: The store has forgotten changes after that revision; load again.
            RevisionWentBack: The store has not come that far: it was restored from a backup.
            WatchBroken: The connection broke; watch again after the last revision seen.
        """

    async def grant_lease(self, ttl: float, *, keep_alive: bool = True) -> Lease:
        """Begin a lease.

        Args:
            ttl: Seconds it shall outlive us; stores may round up to whole seconds.
            keep_alive: Renew it until it is revoked. Otherwise it ends after ``ttl``.

        Raises:
            Unreachable: No answer.
        """

    async def revoke_lease(self, id: int) -> None:
        """End a lease, be it of an earlier process; does nothing if it has ended.

        Raises:
            Unreachable: No answer.
        """

    def header(self) -> StoreHeader:
        """Who answered last. There has to have been an answer."""

    async def close(self) -> None:
        """Let go of everything. Leases that were not revoked end by themselves."""


def check_txn(compares: Sequence[Compare], ops: Sequence[Op]) -> None:
    """Refuse what no store would perform, before it is sent.

    Raises:
        InvalidTransaction: Too many compares or changes, or a key is changed twice.
    """
    for what, count in (("compares", len(compares)), ("changes", len(ops))):
        if count > MAX_TXN_OPS:
            raise InvalidTransaction(f"has {count} {what}, and {MAX_TXN_OPS} are the limit")
    seen: set[str] = set()
    for op in ops:
        if not op.key:
            raise InvalidTransaction("names an empty key")
        if op.key in seen:
            raise InvalidTransaction(f"changes {op.key!r} twice")
        if isinstance(op, Put) and op.ignore_lease and op.lease:
            raise InvalidTransaction(f"puts {op.key!r} under a lease and ignores it")
        seen.add(op.key)


def range_end(prefix: bytes) -> bytes:
    """The first key behind all that begin with ``prefix``; a single zero byte is behind all."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\0"


def largest_mod_revision(kvs: Iterable[KeyValue]) -> int:
    """The latest change among these keys; 0 if there are none."""
    return max((kv.mod_revision for kv in kvs), default=0)


def revision_of_conditions(compares: Iterable[Compare]) -> int:
    """The latest change that conditions which hold speak of; 0 if they speak of none."""
    revisions = (CompareTarget.MOD_REVISION, CompareTarget.CREATE_REVISION)
    return max((c.expected for c in compares if c.target in revisions), default=0)

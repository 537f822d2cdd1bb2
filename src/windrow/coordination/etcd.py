"""The store on etcd: seven calls of its v3 API, from version 3.4 on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from windrow.clock import SystemClock
from windrow.coordination.endpoints import REQUIRE_LEADER, Endpoints, Member, TlsFiles
from windrow.coordination.errors import (
    ClusterChanged,
    Compacted,
    KeyNotFound,
    LeaseNotFound,
    Refused,
    RevisionWentBack,
    WatchBroken,
)
from windrow.coordination.lease import KeptLease, LeaseTerm
from windrow.coordination.store import (
    DELETE,
    PUT,
    Compare,
    CompareTarget,
    Event,
    KeyValue,
    Op,
    Put,
    Snapshot,
    StoreHeader,
    TxnResult,
    WatchBatch,
    check_txn,
    range_end,
    revision_of_conditions,
)
from windrow.errors import Unreachable
from windrow.extras import require

if TYPE_CHECKING:
    from windrow.coordination.wire import etcd_pb2

CALL_TIMEOUT: Final = 5.0
PAGE_SIZE: Final = 1_000


class EtcdStore:
    """A coordination store on an etcd cluster."""

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        call_timeout: float = CALL_TIMEOUT,
        page_size: int = PAGE_SIZE,
        tls: TlsFiles | None = None,
    ) -> None:
        """Prepare a store; the first call connects.

        Args:
            address: URLs or ``host:port`` of the members, as a list or with commas between them.
            call_timeout: Seconds after which a call without an answer is given up.
            page_size: Keys that are read with one call.
            tls: Certificates, if the members ask for them.

        Raises:
            InvalidAddress: One of the addresses cannot be one.
            MissingExtra: grpc or protobuf is not installed.
        """
        require("google.protobuf")
        require("grpc")
        from windrow.coordination.wire import etcd_pb2

        self._pb = etcd_pb2
        self._endpoints = Endpoints(address, call_timeout, tls)
        self._call_timeout = call_timeout
        self._page_size = page_size
        self._clock = SystemClock()
        self._leases: set[KeptLease] = set()
        self._header: StoreHeader | None = None

    def header(self) -> StoreHeader:
        """Who answered last. There has to have been an answer."""
        assert self._header is not None, "header() comes after the first call"
        return self._header

    async def close(self) -> None:
        """Renew no lease any more and close the connections."""
        for lease in self._leases:
            await lease.let_go()
        await self._endpoints.close()

    # -- reading and writing ---------------------------------------------------------------------

    async def load(self, prefix: str) -> Snapshot:
        """Read every key under a prefix at one revision, however many there are."""
        while True:
            try:
                return await self._load(encode(prefix))
            except Refused as refusal:
                if "compacted" not in refusal.reason:
                    raise
                # The revision of the first page went while later ones were read: begin anew.

    async def _load(self, prefix: bytes) -> Snapshot:
        request = self._pb.RangeRequest(
            key=prefix or b"\0", range_end=range_end(prefix), limit=self._page_size
        )
        kvs: list[KeyValue] = []
        while True:
            answer = await self._call("Range", lambda m: m.kv.Range, request)
            kvs += map(key_value, answer.kvs)
            request.revision = request.revision or answer.header.revision
            if not answer.more:
                return Snapshot(request.revision, tuple(kvs), answer.header.cluster_id)
            request.key = answer.kvs[-1].key + b"\0"

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op]) -> TxnResult:
        """Perform all changes if all conditions hold, and otherwise none."""
        check_txn(compares, ops)
        request = self._pb.TxnRequest(
            compare=map(self._compare, compares),
            success=map(self._op, ops),
            # What the conditions met, so that a caller can wait until its mirror shows it.
            failure=(
                self._pb.RequestOp(request_range=self._pb.RangeRequest(key=encode(key)))
                for key in dict.fromkeys(compare.key for compare in compares)
            ),
        )
        try:
            answer = await self._call("Txn", lambda m: m.kv.Txn, request, may_repeat=False)
        except Refused as refusal:
            raise _translated(refusal, ops) from refusal
        return TxnResult(answer.succeeded, _awaitable_revision(answer, compares))

    def _compare(self, compare: Compare) -> etcd_pb2.Compare:
        result = self._pb.Compare(key=encode(compare.key))  # EQUAL is the default
        match compare.target:
            case CompareTarget.MOD_REVISION:
                result.target = self._pb.Compare.MOD
                result.mod_revision = compare.expected
            case CompareTarget.CREATE_REVISION:
                result.target = self._pb.Compare.CREATE
                result.create_revision = compare.expected
            case CompareTarget.VERSION:
                result.target = self._pb.Compare.VERSION
                result.version = compare.expected
            case CompareTarget.LEASE:
                result.target = self._pb.Compare.LEASE
                result.lease = compare.expected
        return result

    def _op(self, op: Op) -> etcd_pb2.RequestOp:
        if isinstance(op, Put):
            put = self._pb.PutRequest(
                key=encode(op.key), value=op.value, lease=op.lease, ignore_lease=op.ignore_lease
            )
            return self._pb.RequestOp(request_put=put)
        delete = self._pb.DeleteRangeRequest(key=encode(op.key))
        return self._pb.RequestOp(request_delete_range=delete)

    async def _call(self, name: str, pick: Any, request: Any, may_repeat: bool = True) -> Any:
        answer = await self._endpoints.call(name, pick, request, may_repeat)
        self._note(answer.header)
        return answer

    def _note(self, header: etcd_pb2.ResponseHeader) -> None:
        """Remember who answered, and that it was a member of the cluster we began with.

        Raises:
            ClusterChanged: It was not.
        """
        if self._header is not None and header.cluster_id != self._header.cluster_id:
            raise ClusterChanged(self._header.cluster_id, header.cluster_id)
        self._header = StoreHeader(header.cluster_id, header.member_id, header.raft_term)

    # -- watching --------------------------------------------------------------------------------

    async def watch(self, prefix: str, after_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Tell every change under a prefix after that revision once, in order, without end."""
        await self._check_reached(after_revision)
        async with self._stream(lambda m: m.watch.Watch) as (call, address):
            create = self._pb.WatchCreateRequest(
                key=encode(prefix) or b"\0",
                range_end=range_end(encode(prefix)),
                start_revision=after_revision + 1,
                progress_notify=True,
            )
            await call.write(self._pb.WatchRequest(create_request=create))
            answer = await self._read(call, address, self._call_timeout)
            while True:
                if answer.canceled:
                    raise _end_of_watch(answer, after_revision, address)
                self._note(answer.header)
                if not answer.created:
                    yield _batch(answer)
                answer = await self._read(call, address)

    async def _check_reached(self, revision: int) -> None:
        """Make sure that the cluster, not only some member, has come that far.

        A watch for the future of a store that has lost its past would wait in silence.

        Raises:
            RevisionWentBack: It has not.
        """
        request = self._pb.RangeRequest(key=b"\0", count_only=True)
        answer = await self._call("Range", lambda m: m.kv.Range, request)
        if answer.header.revision < revision:
            raise RevisionWentBack(revision, answer.header.revision)

    @asynccontextmanager
    async def _stream(self, pick: Any) -> AsyncGenerator[tuple[Any, str], None]:
        """A stream of some member, which ends with the block.

        Raises:
            WatchBroken: It broke.
        """
        member = await self._endpoints.ready()
        call = pick(member)(metadata=REQUIRE_LEADER)
        try:
            yield call, member.address
        except require("grpc").aio.AioRpcError as error:
            self._endpoints.turn_away_from(member)
            reason = f"{error.code().name}: {error.details()}"
            raise WatchBroken(member.address, reason) from error
        finally:
            call.cancel()

    async def _read(self, call: Any, address: str, patience: float | None = None) -> Any:
        try:
            answer = await asyncio.wait_for(call.read(), patience)
        except TimeoutError:
            raise WatchBroken(address, f"no answer within {patience:g} s") from None
        if answer is require("grpc").aio.EOF:
            raise WatchBroken(address, "the member ended it")
        return answer

    # -- leases ----------------------------------------------------------------------------------

    async def grant_lease(self, ttl: float, *, keep_alive: bool = True) -> KeptLease:
        """Begin a lease; etcd counts in whole seconds, and gives at least as many as asked for."""
        sent_at = self._clock.monotonic()
        request = self._pb.LeaseGrantRequest(TTL=math.ceil(ttl))
        answer = await self._call("LeaseGrant", lambda m: m.lease.LeaseGrant, request)
        lease = KeptLease.begin(
            answer.ID,
            LeaseTerm(float(answer.TTL), sent_at),
            self.revoke_lease,
            self._renew if keep_alive else None,
        )
        self._leases.add(lease)
        return lease

    async def _renew(self, lease: int, patience: float) -> float:
        """Renew a lease once; return the seconds it has from now, 0 if it is gone."""
        patience = min(patience, self._call_timeout)
        try:
            async with asyncio.timeout(patience), self._stream(_keep_alive) as (call, address):
                await call.write(self._pb.LeaseKeepAliveRequest(ID=lease))
                answer = await self._read(call, address)
                self._note(answer.header)
                return float(answer.TTL)
        except TimeoutError as error:
            reason = f"no answer within {patience:.1f} s"
            raise Unreachable("etcd", self._endpoints.address, reason) from error

    async def revoke_lease(self, id: int) -> None:
        """End a lease, be it of an earlier process."""
        self._leases = {kept for kept in self._leases if kept.id != id}
        request = self._pb.LeaseRevokeRequest(ID=id)
        try:
            await self._call("LeaseRevoke", lambda m: m.lease.LeaseRevoke, request)
        except Refused as refusal:
            if "lease not found" not in refusal.reason:
                raise  # otherwise it has ended already, which is what was wanted


def encode(key: str) -> bytes:
    """A key as etcd holds it; other clients may have written any bytes."""
    return key.encode("utf-8", "surrogateescape")


def key_value(kv: etcd_pb2.KeyValue) -> KeyValue:
    """The key as a value of ours."""
    return KeyValue(
        kv.key.decode("utf-8", "surrogateescape"),
        kv.value,
        kv.create_revision,
        kv.mod_revision,
        kv.version,
        kv.lease,
    )


def _keep_alive(member: Member) -> Any:
    return member.lease.LeaseKeepAlive


def _batch(answer: etcd_pb2.WatchResponse) -> WatchBatch:
    """What was told, at the revision of its last event.

    The header's revision is the store's, which can be ahead of the events while a watch catches up.
    """
    events = tuple(
        Event(DELETE if event.type else PUT, key_value(event.kv)) for event in answer.events
    )
    revision = events[-1].kv.mod_revision if events else answer.header.revision
    return WatchBatch(revision, events, answer.header.cluster_id)


def _end_of_watch(
    answer: etcd_pb2.WatchResponse, after_revision: int, address: str
) -> Compacted | WatchBroken:
    if answer.compact_revision:
        return Compacted(after_revision, answer.compact_revision)
    return WatchBroken(address, answer.cancel_reason or "the member cancelled it")


def _awaitable_revision(answer: etcd_pb2.TxnResponse, compares: Iterable[Compare]) -> int:
    """See ``TxnResult.revision``."""
    if not answer.succeeded:
        found = (kv for part in answer.responses for kv in part.response_range.kvs)
        return max((kv.mod_revision for kv in found), default=0)
    changed = any(
        part.HasField("response_put") or part.response_delete_range.deleted
        for part in answer.responses
    )
    return answer.header.revision if changed else revision_of_conditions(compares)


def _translated(refusal: Refused, ops: Sequence[Op]) -> Exception:
    puts = [op for op in ops if isinstance(op, Put)]
    if "lease not found" in refusal.reason:
        return LeaseNotFound(next((put.lease for put in puts if put.lease), 0))
    if "key not found" in refusal.reason:
        return KeyNotFound(", ".join(put.key for put in puts if put.ignore_lease))
    return refusal

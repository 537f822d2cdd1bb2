"""Answers Append: at this broker if it is the journal's primary, else through the primary."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import grpc

from windrow.errors import Failed
from windrow.journal.broker.append_events import ChunkReceived, ClientEnded
from windrow.journal.broker.append_group import Outcome, PendingAppend
from windrow.journal.broker.append_run import AppendRun, AppendServices
from windrow.journal.broker.group import Conditions
from windrow.journal.broker.inbox import Inbox
from windrow.journal.messages import (
    check_append_request,
    fragment_to_pb,
    header_from_pb,
    header_to_pb,
    labels_from_pb,
    labels_to_pb,
    selector_from_pb,
    status_to_pb,
    suspend_control_from_pb,
)
from windrow.journal.names import split_meta
from windrow.journal.not_written import FailureKind
from windrow.journal.spec import Header, SuspendControl
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

if TYPE_CHECKING:
    from windrow.journal.broker.ports import Metadata, RequestStream


NEVER_LEFT = "failed to connect to all addresses"
"""How gRPC tells of a call for which there was no connection: nothing of it was sent."""


class AppendFailed(Failed):
    """An append ended for a reason that has no status."""

    def __init__(self, journal: str, reason: str, kind: FailureKind = FailureKind.UNKNOWN) -> None:
        super().__init__(journal, reason, kind)
        self.journal, self.reason, self.kind = journal, reason, kind

    def __str__(self) -> str:
        return self.reason


class AppendApi:
    """Performs appends of clients, and the barriers of this broker's own pulse."""

    def __init__(self, services: AppendServices) -> None:
        self._services = services
        self._runs: set[asyncio.Task[None]] = set()

    async def append(self, requests: RequestStream, metadata: Metadata) -> pb.AppendResponse:
        """Perform one append.

        Raises:
            InvalidField: The first message is malformed.
            AppendFailed: It failed, or its outcome is unknown, for a reason without a status.
        """
        first = await anext(aiter(requests), None)
        if first is None:
            raise AppendFailed("", "append stream: unexpected EOF", FailureKind.REFUSED)
        check_append_request(first, first=True)
        header = header_from_pb(first.header) if first.HasField("header") else None
        inbox = Inbox(requests)
        try:
            conditions = _conditions(first)
            outcome = await self._run(conditions, inbox, header)
            if outcome.verdict is None:
                return await self._proxy(first, inbox, outcome, metadata)
        finally:
            await inbox.close()
        return _response(conditions.journal, outcome)

    async def barrier(self, journal: str, suspend: SuspendControl) -> Outcome:
        """Append nothing, as this broker: it synchronises the pipeline if need be."""
        conditions = Conditions(journal=journal, suspend=suspend, may_proxy=False)
        return await self._run(conditions, Inbox.barrier(), None)

    async def drain(self) -> None:
        """Return once no append is under way."""
        while self._runs:
            await asyncio.wait(self._runs)

    async def _run(self, conditions: Conditions, inbox: Inbox, header: Header | None) -> Outcome:
        """Run an append to its end, whatever becomes of its caller."""
        pending = PendingAppend(conditions, inbox)
        run = asyncio.create_task(AppendRun(pending, header, self._services).run())
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        try:
            return await pending.outcome
        except asyncio.CancelledError:
            inbox.on_gone()
            raise

    # -- through the primary ---------------------------------------------------------------------

    async def _proxy(
        self, first: pb.AppendRequest, inbox: Inbox, outcome: Outcome, metadata: Metadata
    ) -> pb.AppendResponse:
        resolution = outcome.resolution
        assert resolution is not None
        primary = resolution.route.primary_id
        assert primary is not None
        endpoint = resolution.route.endpoint_of(primary)
        if endpoint is None:
            reason = f"the primary {primary} is not announced; try again"
            raise AppendFailed(first.journal, reason, FailureKind.PASSING)
        call = self._services.peers.append(endpoint, first.journal, metadata)
        opening = pb.AppendRequest()
        opening.CopyFrom(first)
        opening.header.CopyFrom(header_to_pb(resolution.header))
        forwarding = asyncio.create_task(_forward(call, opening, inbox))
        try:
            return cast("pb.AppendResponse", await call)
        except grpc.aio.AioRpcError as error:
            if not (error.details() or "").startswith(NEVER_LEFT):
                raise
            # Certain to have failed, which the client has to know before it tries again.
            return pb.AppendResponse(
                status=status_to_pb(Status.NO_JOURNAL_PRIMARY_BROKER),
                header=header_to_pb(resolution.header),
            )
        finally:
            if not forwarding.done():
                forwarding.cancel()
            await asyncio.wait([forwarding])
            if not call.done():
                call.cancel()
            if not forwarding.cancelled():
                forwarding.exception()  # the call itself tells what went wrong


async def _forward(call: Any, opening: pb.AppendRequest, inbox: Inbox) -> None:
    """Copy the client's messages; one that ends without an end takes the call down with it."""
    await call.write(opening)
    while True:
        received = await inbox.receive()
        match received:
            case ChunkReceived():
                await call.write(pb.AppendRequest(content=received.content))
            case ClientEnded():
                await call.done_writing()
                return
            case _:
                call.cancel()
                return


def _conditions(first: pb.AppendRequest) -> Conditions:
    journal, _ = split_meta(first.journal)
    check = first.check_registers if first.HasField("check_registers") else None
    return Conditions(
        journal=journal,
        offset=first.offset,
        check_registers=None if check is None else selector_from_pb(check),
        union_registers=labels_from_pb(first.union_registers),
        subtract_registers=labels_from_pb(first.subtract_registers),
        suspend=suspend_control_from_pb(first.suspend),
        min_revision=first.min_etcd_revision,
        may_proxy=not first.do_not_proxy,
    )


def _response(journal: str, outcome: Outcome) -> pb.AppendResponse:
    verdict, resolution = outcome.verdict, outcome.resolution
    if outcome.error or resolution is None:
        raise AppendFailed(journal, outcome.error, outcome.failure)
    assert verdict is not None
    response = pb.AppendResponse(
        status=status_to_pb(verdict.status),
        header=_header(resolution.header),
        total_chunks=verdict.total_chunks,
        delayed_chunks=outcome.delayed_chunks,
        store_health_error=outcome.store_error,
    )
    if verdict.status in (Status.OK, Status.REGISTER_MISMATCH):
        response.registers.CopyFrom(labels_to_pb(verdict.registers))
    if verdict.commit is not None:
        response.commit.CopyFrom(fragment_to_pb(verdict.commit))
    return response


@lru_cache(maxsize=1024)  # the same for all appends of a journal; a message takes a copy of it
def _header(header: Header) -> pb.Header:
    return header_to_pb(header)

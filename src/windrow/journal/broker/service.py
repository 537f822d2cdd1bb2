"""The gRPC service ``protocol.Journal``: admits each call, and hands it to what answers it.

A failure that is no status of the protocol ends the call with an error whose text is the diagnosis.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import grpc

from windrow.errors import Failed, WindrowError
from windrow.journal.broker.append_api import AppendFailed
from windrow.journal.broker.apply_api import ApplyApi
from windrow.journal.broker.fragments_api import FragmentsApi
from windrow.journal.broker.health_api import HealthApi
from windrow.journal.broker.list_api import ListApi
from windrow.journal.broker.metrics import BrokerMetrics
from windrow.journal.broker.ports import Metadata, RequestStream
from windrow.journal.broker.read_api import ReadApi
from windrow.journal.broker.tokens import (
    Authority,
    Capability,
    Claims,
    Forbidden,
    NotYours,
    Unauthenticated,
    current_claims,
)
from windrow.journal.errors import InvalidField
from windrow.journal.not_written import FailureKind
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb
from windrow.telemetry import get_logger

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]

_log = get_logger(__name__)


class Stopping(Failed):
    """A call came to a broker that is about to end."""

    kind = FailureKind.PASSING

    def __str__(self) -> str:
        return "the broker is shutting down, and has not begun this call; try another one"


_CODES: dict[type[BaseException], grpc.StatusCode] = {
    InvalidField: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    NotYours: grpc.StatusCode.PERMISSION_DENIED,
    Stopping: grpc.StatusCode.UNAVAILABLE,
}


class AppendHandler(Protocol):
    """Answers Append."""

    async def append(self, requests: RequestStream, metadata: Metadata) -> pb.AppendResponse:
        """Perform one append."""


class ReplicateHandler(Protocol):
    """Answers Replicate."""

    def replicate(self, requests: RequestStream) -> AsyncGenerator[pb.ReplicateResponse, None]:
        """Serve a primary for as long as its stream lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """What answers each call."""

    append: AppendHandler
    replicate: ReplicateHandler
    read: ReadApi
    list: ListApi
    apply: ApplyApi
    fragments: FragmentsApi
    health: HealthApi


class JournalService:
    """All calls of the service; registered by ``add_JournalServicer_to_server``."""

    def __init__(
        self,
        handlers: Handlers,
        authority: Authority,
        metrics: BrokerMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._handlers, self._authority, self._metrics = handlers, authority, metrics
        self._now = now
        self.is_ready = asyncio.Event()
        """Set once this broker knows its journals; calls that come before wait for it."""
        self._appends = 0
        self._refuses_appends = False
        self._appends_ended = asyncio.Event()
        self._appends_ended.set()

    def refuse_appends(self) -> None:
        """From now on tell whoever wants to append to go elsewhere; nothing of it is begun."""
        self._refuses_appends = True

    async def wait_appends_ended(self, patience: float) -> None:
        """Return when no append is under way, or after so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._appends_ended.wait(), patience)

    # The names of the methods are those of the protocol.

    async def List(self, request: pb.ListRequest, context: Context) -> AsyncIterator[Any]:
        """See ``ListApi``."""
        async with (
            self._admitted(context, "List", Capability.LIST) as call,
            aclosing(self._handlers.list.journals(request)) as answers,
        ):
            async for answer in answers:
                call.status = answer.status
                yield answer

    async def Apply(self, request: pb.ApplyRequest, context: Context) -> pb.ApplyResponse:
        """See ``ApplyApi``."""
        async with self._admitted(context, "Apply", Capability.APPLY) as call:
            answer = await self._handlers.apply.apply(request)
            call.status = answer.status
        return answer

    async def Read(self, request: pb.ReadRequest, context: Context) -> AsyncIterator[Any]:
        """See ``ReadApi``."""
        async with (
            self._admitted(context, "Read", Capability.READ) as call,
            aclosing(self._handlers.read.read(request, _metadata(context))) as answers,
        ):
            async for answer in answers:
                call.status = answer.status or call.status
                self._metrics.on_bytes_read(len(answer.content))
                yield answer

    async def Append(self, requests: RequestStream, context: Context) -> pb.AppendResponse:
        """See ``append_api``."""
        async with self._admitted(context, "Append", Capability.APPEND) as call:
            if self._refuses_appends:
                raise Stopping
            with self._counted():
                answer = await self._handlers.append.append(requests, _metadata(context))
            call.status = answer.status
            self._metrics.on_bytes_appended(max(0, answer.commit.end - answer.commit.begin))
        return answer

    async def Replicate(self, requests: RequestStream, context: Context) -> AsyncIterator[Any]:
        """See ``replicate_api``. A pipeline outlives the token that began it."""
        async with (
            self._admitted(context, "Replicate", Capability.REPLICATE, is_bounded=False) as call,
            aclosing(self._handlers.replicate.replicate(requests)) as answers,
        ):
            async for answer in answers:
                call.status = answer.status
                yield answer

    async def ListFragments(
        self, request: pb.FragmentsRequest, context: Context
    ) -> pb.FragmentsResponse:
        """See ``FragmentsApi``."""
        async with self._admitted(context, "ListFragments", Capability.READ) as call:
            answer = await self._handlers.fragments.list(request, _metadata(context))
            call.status = answer.status
        return answer

    async def FragmentStoreHealth(
        self, request: pb.FragmentStoreHealthRequest, context: Context
    ) -> pb.FragmentStoreHealthResponse:
        """See ``HealthApi``."""
        async with self._admitted(context, "FragmentStoreHealth", Capability.APPLY) as call:
            answer = await self._handlers.health.check(request)
            call.status = answer.status
        return answer

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._appends += 1
        self._appends_ended.clear()
        try:
            yield
        finally:
            self._appends -= 1
            if not self._appends:
                self._appends_ended.set()

    @asynccontextmanager
    async def _admitted(
        self, context: Context, operation: str, wanted: Capability, *, is_bounded: bool = True
    ) -> AsyncIterator[_Call]:
        """Count the call, hold it to its token, and end it with an error if it fails."""
        call, outcome = _Call(), "CANCELLED"
        self._metrics.on_call_started(operation)
        try:
            claims = self._authority.verify(dict(_text_metadata(context)), wanted)
            current_claims.set(claims)
            await self.is_ready.wait()
            left = self._seconds_left(claims) if is_bounded else None
            async with nullcontext() if left is None else asyncio.timeout(left):
                yield call
            outcome = Status(call.status).name
        except TimeoutError:
            outcome = "DEADLINE_EXCEEDED"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the token has expired")
        except grpc.aio.AioRpcError as error:
            # Of a broker that the call was proxied to: its answer is ours.
            outcome = "ERROR"
            kind = FailureKind.of(error.trailing_metadata())
            await context.abort(error.code(), error.details() or "", kind.as_metadata())
        except grpc.aio.AbortError:
            outcome = "ERROR"
            raise
        except asyncio.CancelledError:
            if context.cancelled():
                raise
            # A call of ours to another broker was cancelled under our hands. To pass that on would
            # end the handler and tell the client nothing, for ever.
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the broker is shutting down; retry")
        except Exception as error:
            outcome = "ERROR"
            if not isinstance(error, WindrowError):
                _log.exception("call failed", operation=operation)
            code = _CODES.get(type(error), grpc.StatusCode.UNKNOWN)
            kind = error.kind if isinstance(error, AppendFailed | Stopping) else FailureKind.UNKNOWN
            await context.abort(code, str(error) or type(error).__name__, kind.as_metadata())
        finally:
            self._metrics.on_call_ended(operation, outcome)

    def _seconds_left(self, claims: Claims) -> float | None:
        return None if claims.expires is None else max(0.0, claims.expires - self._now())


@dataclass(slots=True)
class _Call:
    status: int = 0


def _metadata(context: Context) -> Metadata:
    return [(name, value) for name, value in context.invocation_metadata() or ()]


def _text_metadata(context: Context) -> list[tuple[str, str]]:
    return [(name, value) for name, value in _metadata(context) if isinstance(value, str)]

"""One append, written piece by piece, committed or aborted as a whole.

The first piece opens the call. ``commit`` sends the commit mark; from that moment until the answer
the outcome is unknown, and an error then says so. Before it nothing can have been written: a stream
that ends without its mark is rolled back by the broker.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from windrow.journal.client.calls import Calls
from windrow.journal.client.errors import (
    AppendEnded,
    AppendNotWritten,
    CallFailed,
    InvalidAnswer,
    RegistersNeedContent,
)
from windrow.journal.client.requests import AppendRequest, Committed
from windrow.journal.client.retrying import is_refused
from windrow.journal.errors import AppendUnknown
from windrow.journal.not_written import FailureKind

if TYPE_CHECKING:
    from windrow.journal.wire import protocol_pb2 as pb

MAX_CHUNK = 256 * 1024
"""Content of one message; gRPC's limit is 4 MiB."""

ABORT_PATIENCE = 5.0


class Appender:
    """An append in progress.

    As a context manager it commits at the end of its block, and aborts if the block fails.
    """

    def __init__(
        self, calls: Calls, request: AppendRequest, attempt_timeout: float | None = None
    ) -> None:
        self.request = request
        self.committed: Committed | None = None
        """How it ended, once it has."""
        self.bytes_written = 0
        self._calls = calls
        self._timeout = attempt_timeout
        self._call: Any = None
        self._endpoint = ""
        self._is_marked = False
        self._has_ended = False

    async def write(self, content: bytes) -> None:
        """Send a piece of content.

        Raises:
            JournalStatusError: The broker refused the append already.
            Unreachable: The broker is gone; nothing was written.
            CallFailed: The broker ended the call; nothing was written.
        """
        from windrow.journal.client import translation

        if self._has_ended or self._is_marked:
            raise AppendEnded(self.request.journal)
        if not content:
            return  # on the wire it would be the commit mark
        await self._open()
        for begin in range(0, len(content), MAX_CHUNK):
            await self._send(translation.append_content(content[begin : begin + MAX_CHUNK]))
        self.bytes_written += len(content)

    async def commit(self) -> Committed:
        """Ask for all that was written to be committed, and wait until it is.

        Raises:
            JournalStatusError: The broker refused; nothing was written.
            AppendUnknown: The answer was lost.
        """
        from windrow.journal.client import translation

        if self._has_ended or self._is_marked:
            raise AppendEnded(self.request.journal)
        if self.request.changes_registers and not self.bytes_written:
            await self.abort()
            raise RegistersNeedContent(self.request.journal)
        await self._open()
        self._is_marked = True
        await self._send(translation.append_content(b""))
        await self._end_writing()
        answer = await self._answer()
        self.committed = translation.committed(self.request, answer)
        return self.committed

    async def abort(self) -> None:
        """Give the append up; when this returns the broker has rolled it back, or is gone."""
        if self._call is None or self._has_ended:
            self._has_ended = True
            return
        self._has_ended = True
        import grpc

        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
            async with asyncio.timeout(ABORT_PATIENCE):
                await self._end_writing()
                await self._call
        self._call.cancel()

    def cancel(self) -> None:
        """Give the append up without waiting; the broker rolls it back when it hears of it."""
        self._has_ended = True
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Appender:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            self.cancel()
        elif error is not None:
            await self.abort()
        elif not self._has_ended:
            await self.commit()

    async def _open(self) -> None:
        if self._call is not None:
            return
        from windrow.journal.client import translation

        first = translation.append_request(self.request, self._calls.min_revision)
        self._endpoint, self._call = self._calls.append(self.request.journal, self._timeout)
        await self._send(first)

    async def _send(self, message: pb.AppendRequest) -> None:
        import grpc

        try:
            await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._on_early_end()

    async def _end_writing(self) -> None:
        """Close our side; of a call that has ended meanwhile the answer tells why."""
        import grpc

        with suppress(asyncio.InvalidStateError, grpc.aio.InternalError):
            await self._call.done_writing()

    async def _on_early_end(self) -> None:
        """The broker ended the call before we did: its answer says why."""
        from windrow.journal.client import translation

        if self._is_marked:
            return  # commit() reads the answer
        translation.with_status(self.request.journal, await self._answer())
        raise InvalidAnswer("Append", "it was committed before its commit mark was sent")

    async def _answer(self) -> pb.AppendResponse:
        import grpc

        try:
            answer: pb.AppendResponse = await self._call
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error
        finally:
            self._has_ended = True
        self._calls.on_answer(self.request.journal, self._endpoint, answer.header)
        return answer

    def _failure(self, error: Any) -> Exception:
        journal = self.request.journal
        failure = self._calls.on_error("Append", journal, self._endpoint, error)
        kind = FailureKind.of(error.trailing_metadata())
        if kind is not FailureKind.UNKNOWN and isinstance(failure, CallFailed):
            return AppendNotWritten(
                failure.rpc,
                failure.address,
                failure.code,
                failure.details,
                is_passing=kind is FailureKind.PASSING,
            )
        is_certain = kind is not FailureKind.UNKNOWN or is_refused(error.code().name)
        if self._is_marked and not is_certain:
            return AppendUnknown(journal, str(failure))
        return failure

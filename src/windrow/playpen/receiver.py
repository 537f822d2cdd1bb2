"""The receiver: keeps what it gets, knows what came twice, and misbehaves if it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from windrow.inbox.answers import MemoryAnswers
from windrow.inbox.receiver import IdempotentReceiver
from windrow.playpen.arrivals import Arrivals, Kept, Page
from windrow.playpen.errors import BadRequest
from windrow.playpen.faults import Dice, Fault, Mode, parse_fault
from windrow.playpen.gaps import compare, parse_ids
from windrow.playpen.messages import Message, parse_message
from windrow.playpen.openapi import RECEIVER
from windrow.playpen.producer_list import heroes_of
from windrow.playpen.web import (
    as_json,
    call,
    common_routes,
    error_handlers,
    in_thread,
    number,
    read_body,
)
from windrow.telemetry import get_logger

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

MAX_PAGE = 10_000
MAX_SEQ = 2**63 - 1

_log = get_logger("windrow.playpen.receiver")


class Receiver:
    """What answers the receiver's requests."""

    def __init__(
        self, arrivals: Arrivals, producer_url: str | None = None, *, idempotent: bool = False
    ) -> None:
        from starlette.routing import request_response

        self.arrivals = arrivals
        self.producer_url = producer_url
        self._dice = Dice(Fault())
        self._readers = ThreadPoolExecutor(4, "readers")
        # Faults are outside of the inbox: what is lost on the way is lost to it too.
        self._inbox = (
            IdempotentReceiver(request_response(self._keep_request), MemoryAnswers())
            if idempotent
            else None
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Open the file, and write what waits before the end."""
        self.arrivals.open()
        yield
        self._readers.shutdown()
        self.arrivals.close()

    async def receive(self, request: Request) -> Response:
        """Keep a message, and answer once it is on the disk; or do what the fault says."""
        body = await read_body(request)
        fault, is_hit = self._dice.fault, self._dice.hits()
        if is_hit and fault.when == "before":
            answer = await _suffer(fault, request)
            if answer is not None:
                return answer
        if self._inbox is None:
            kept = await self._keep(request.headers, body)
        else:
            kept = await call(self._inbox, request, body)
        if is_hit and fault.when == "after":
            return await _suffer(fault, request) or kept
        return kept

    async def _keep(self, headers: Mapping[str, str], body: bytes) -> Response:
        message = parse_message(headers, body)
        kept = await asyncio.wrap_future(self.arrivals.keep(message))
        _log_kept(message, kept)
        known = {"id": message.id, "msg": message.msg, "correlation": message.correlation}
        return as_json(known | {"seq": kept.seq, "copy": kept.copy})

    async def _keep_request(self, request: Request) -> Response:
        return await self._keep(request.headers, await read_body(request))

    async def list_messages(self, request: Request) -> Response:
        """What came, in that order."""
        query = request.query_params
        page = Page(
            after=number(request, "after", 0, MAX_SEQ),
            limit=number(request, "limit", 100, MAX_PAGE),
            id=query.get("id"),
            msg=query.get("msg"),
            correlation=query.get("correlation"),
            newest_first=query.get("order") == "newest",
        )
        messages = await in_thread(self._readers, self.arrivals.page, page)
        is_full = bool(messages) and len(messages) == page.limit and not page.newest_first
        return as_json({"messages": messages, "next": messages[-1]["seq"] if is_full else None})

    async def list_duplicates(self, request: Request) -> Response:
        """What came more than once."""
        limit = number(request, "limit", 100, MAX_PAGE)
        found = await in_thread(self._readers, self.arrivals.duplicates, limit)
        stats = await in_thread(self._readers, self.arrivals.stats)
        return as_json({"duplicates": stats["duplicates"], "messages": found})

    async def stats(self, request: Request) -> Response:
        """Counts."""
        counts = await in_thread(self._readers, self.arrivals.stats)
        return as_json(counts | {"fault": self._dice.fault.mode})

    async def gaps(self, request: Request) -> Response:
        """What the producer has and never came, by the producer's own list."""
        url = request.query_params.get("producer", self.producer_url)
        if url is None:
            raise BadRequest("say which producer: /gaps?producer=http://127.0.0.1:3000")
        heroes = await heroes_of(url)
        found = await in_thread(self._readers, compare, self.arrivals, heroes)
        return as_json(found)

    async def gaps_of_list(self, request: Request) -> Response:
        """Which of the posted ids never came."""
        ids = parse_ids(await read_body(request))
        missing = await in_thread(self._readers, lambda: list(self.arrivals.missing(ids)))
        arrived = len(ids) - len(missing)
        return as_json({"expected": len(ids), "arrived": arrived, "missing": missing})

    async def show_faults(self, request: Request) -> Response:
        """The fault that is set, and how many messages suffered it."""
        return as_json(self._dice.fault.as_object() | {"applied": self._dice.applied})

    async def set_faults(self, request: Request) -> Response:
        """Misbehave from now on in another way, or not at all."""
        self._dice = Dice(parse_fault(await read_body(request)))
        _log.info("fault set", **self._dice.fault.as_object())
        return await self.show_faults(request)


def receiver_app(receiver: Receiver) -> Starlette:
    """The application, for any ASGI server."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    routes = [
        Route("/receive", receiver.receive, methods=["POST"]),
        Route("/messages", receiver.list_messages, methods=["GET"]),
        Route("/duplicates", receiver.list_duplicates, methods=["GET"]),
        Route("/gaps", receiver.gaps, methods=["GET"]),
        Route("/gaps", receiver.gaps_of_list, methods=["POST"]),
        Route("/stats", receiver.stats, methods=["GET"]),
        Route("/faults", receiver.show_faults, methods=["GET"]),
        Route("/faults", receiver.set_faults, methods=["PUT"]),
        *common_routes("receiver.html", RECEIVER),
    ]
    return Starlette(routes=routes, lifespan=receiver.lifespan, exception_handlers=error_handlers())


async def _suffer(fault: Fault, request: Request) -> Response | None:
    """The fault itself; None if things then go on as if nothing had been."""
    _log.info("fault", mode=fault.mode, when=fault.when, id=request.headers.get("ce-id"))
    match fault.mode:
        case Mode.FAIL | Mode.REJECT:
            return as_json({"error": f"asked to {fault.mode}"}, fault.status)
        case Mode.STALL:
            time.sleep(fault.seconds)  # noqa: ASYNC251 - the loop is to be blocked
        case Mode.HOLD:
            if await _gives_up(request, fault.seconds):
                return as_json({"error": "held until the client gave up"}, 503)
        case Mode.NONE:
            pass
    return None


async def _gives_up(request: Request, seconds: float) -> bool:
    """Wait for the client to leave; false if it is still there after so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                pass
            return True
    return False


def _log_kept(message: Message, kept: Kept) -> None:
    said: dict[str, Any] = {"id": message.id, "correlation": message.correlation}
    if kept.copy == 1:
        _log.info("message kept", msg=message.msg, seq=kept.seq, **said)
    else:
        _log.warning("message came again", msg=message.msg, copy=kept.copy, **said)

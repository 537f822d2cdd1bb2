"""The producer: heroes are created with their message in one transaction, or, as a control, not."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from windrow.playpen.errors import BadRequest
from windrow.playpen.heroes import Hero, Heroes, Via
from windrow.playpen.messages import binary_form, correlation_of, parse_hero
from windrow.playpen.openapi import PRODUCER
from windrow.playpen.web import as_json, common_routes, error_handlers, in_thread, number, read_body
from windrow.telemetry import get_logger

if TYPE_CHECKING:
    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

MAX_PAGE = 10_000
MAX_ID = 2**63 - 1

_log = get_logger("windrow.playpen.producer")


class Producer:
    """What answers the producer's requests; ``heroes`` are prepared."""

    def __init__(self, heroes: Heroes, receiver_url: str, sync_timeout: float = 5.0) -> None:
        self.heroes = heroes
        self.receive_url = receiver_url.rstrip("/") + "/receive"
        self.sync_timeout = sync_timeout
        self._pool = ThreadPoolExecutor(heroes.concurrency, "heroes")
        # Apart, so that whoever looks does not wait behind those who write.
        self._readers = ThreadPoolExecutor(2, "readers")
        self._client: httpx.AsyncClient | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Let go of everything at the end."""
        import httpx

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        # No proxy of the environment: what is sent here stays on this machine.
        async with httpx.AsyncClient(
            timeout=self.sync_timeout, limits=limits, trust_env=False
        ) as self._client:
            _log.info("producer ready", database=self.heroes.database)
            yield
        self._pool.shutdown()
        self._readers.shutdown()
        self.heroes.close()

    async def create(self, request: Request) -> Response:
        """Hero and message in one transaction."""
        hero = await self._write(request, "outbox")
        return _created(hero)

    async def create_sync(self, request: Request) -> Response:
        """The hero, and then a call to the receiver: what can go wrong in between, does."""
        hero = await self._write(request, "sync")
        problem = await self._call_receiver(hero)
        if problem is None:
            return _created(hero)
        _log.warning(
            "receiver not told", hero=hero.id, correlation=hero.correlation, reason=problem
        )
        answer = {"error": f"the hero is written, its message is lost: {problem}"}
        return as_json(answer | {"hero": hero.as_object()}, 502, _correlation_header(hero))

    async def list_heroes(self, request: Request) -> Response:
        """Heroes in the order of their ids, or the newest first."""
        limit = number(request, "limit", 100, MAX_PAGE)
        if request.query_params.get("order") == "newest":
            heroes = await in_thread(self._readers, self.heroes.last, limit)
            return as_json({"heroes": [hero.as_object() for hero in heroes], "next": None})
        after, via = number(request, "after", 0, MAX_ID), _via(request)
        heroes = await in_thread(self._readers, self.heroes.page, after, limit, via)
        following = heroes[-1].id if heroes and len(heroes) == limit else None
        return as_json({"heroes": [hero.as_object() for hero in heroes], "next": following})

    async def show_outbox(self, request: Request) -> Response:
        """What waits in the outbox."""
        limit = number(request, "limit", 100, MAX_PAGE)
        waiting = await in_thread(self._readers, self.heroes.waiting, limit)
        counts = await in_thread(self._readers, self.heroes.counts)
        return as_json({"waiting": counts["waiting"], "dead": counts["dead"], "messages": waiting})

    async def stats(self, request: Request) -> Response:
        """Counts."""
        counts: dict[str, Any] = await in_thread(self._readers, self.heroes.counts)
        return as_json(counts | {"database": self.heroes.database})

    async def _write(self, request: Request, via: Via) -> Hero:
        correlation = correlation_of(request.headers) or str(uuid.uuid4())
        wanted = parse_hero(await read_body(request))
        hero = await in_thread(self._pool, self.heroes.create, wanted, correlation, via)
        _log.info("hero created", hero=hero.id, via=via, correlation=correlation)
        return hero

    async def _call_receiver(self, hero: Hero) -> str | None:
        """Post the message; returns what went wrong, if anything."""
        import httpx

        assert self._client is not None, "the application has started"
        headers, body = binary_form(hero.message, hero.payload["createdAt"], str(hero.id))
        try:
            answer = await self._client.post(self.receive_url, headers=headers, content=body)
        except httpx.HTTPError as error:
            return f"{type(error).__name__} {error}".strip()
        return None if answer.is_success else f"it answered {answer.status_code}"


def producer_app(producer: Producer) -> Starlette:
    """The application, for any ASGI server."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    routes = [
        Route("/hero/create", producer.create, methods=["POST"]),
        Route("/hero/create-sync", producer.create_sync, methods=["POST"]),
        Route("/heroes", producer.list_heroes, methods=["GET"]),
        Route("/outbox", producer.show_outbox, methods=["GET"]),
        Route("/stats", producer.stats, methods=["GET"]),
        *common_routes("producer.html", PRODUCER),
    ]
    return Starlette(routes=routes, lifespan=producer.lifespan, exception_handlers=error_handlers())


def _created(hero: Hero) -> Response:
    return as_json(hero.as_object(), 201, _correlation_header(hero))


def _correlation_header(hero: Hero) -> dict[str, str]:
    return {"correlation-id": hero.correlation}


def _via(request: Request) -> Via | None:
    match request.query_params.get("via"):
        case None:
            return None
        case "outbox" | "sync" as via:
            return via
        case _:
            raise BadRequest("via must be outbox or sync")

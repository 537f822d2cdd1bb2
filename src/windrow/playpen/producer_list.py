"""Ask a producer which heroes it has."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from windrow.extras import require
from windrow.playpen.errors import BadRequest

_LOCAL = ("127.0.0.1", "localhost", "::1")
_PAGE = 5_000


async def heroes_of(producer_url: str) -> list[dict[str, Any]]:
    """All heroes that the producer has.

    Raises:
        BadRequest: The producer is not on this machine, or does not answer as one (502).
    """
    if urlsplit(producer_url).hostname not in _LOCAL:
        raise BadRequest(f"the producer must be on this machine: one of {', '.join(_LOCAL)}")
    httpx = require("httpx")
    heroes: list[dict[str, Any]] = []
    after: int | None = 0
    async with httpx.AsyncClient(timeout=30.0, trust_env=False) as client:
        try:
            while after is not None:
                url = f"{producer_url.rstrip('/')}/heroes?after={after}&limit={_PAGE}"
                answer = (await client.get(url)).raise_for_status().json()
                heroes += answer["heroes"]
                after = answer["next"]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError) as error:
            reason = f"{type(error).__name__} {error}".strip()
            raise BadRequest(
                f"the producer does not say which heroes it has: {reason}", 502
            ) from None
    return heroes

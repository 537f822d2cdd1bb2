"""What was written at the producer and never came to the receiver. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from windrow.playpen.errors import BadRequest

_EXAMPLES = 100


class Known(Protocol):
    """What knows which messages came."""

    def missing(self, ids: Iterable[str]) -> Iterable[str]:
        """Those of the ids that never came."""


def compare(known: Known, heroes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How many heroes' messages came and did not, by the way they were to take."""
    ways: dict[str, list[str]] = defaultdict(list)
    for hero in heroes:
        ways[hero["via"]].append(hero["messageId"])
    return {way: _count(known, ways.get(way, [])) for way in ("outbox", "sync")}


def _count(known: Known, ids: list[str]) -> dict[str, Any]:
    missing = list(known.missing(ids))
    return {
        "expected": len(ids),
        "arrived": len(ids) - len(missing),
        "missing": len(missing),
        "examples": missing[:_EXAMPLES],
    }


def parse_ids(body: bytes) -> list[str]:
    """The ids of ``{"ids": […]}``.

    Raises:
        BadRequest: It is something else.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    ids = given.get("ids") if isinstance(given, dict) else None
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise BadRequest('the body must be {"ids": ["…", "…"]}', 422)
    return ids

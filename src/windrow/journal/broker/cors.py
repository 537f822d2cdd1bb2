"""Which web pages may use the gateway: the headers that browsers ask for. Pure.

A browser keeps what a page of another origin asked for from it, unless the answer names the page's
origin. Before a request that is not a plain one it asks with OPTIONS whether it may be sent at all.
"""

from __future__ import annotations

from collections.abc import Collection

from windrow.journal.broker.http1 import Request

ANY_ORIGIN = "*"
_METHODS = "GET, HEAD, PUT, POST"
_TAKEN = "Authorization, Content-Type"
_SHOWN = (
    "Content-Range, Location, X-Close-Error, X-Commit-Begin, X-Commit-End, X-Commit-SHA1-Sum,"
    " X-Fragment-Last-Modified, X-Fragment-Location, X-Fragment-Name, X-Route-Token, X-Write-Head"
)
_REMEMBERED_SECONDS = 600


def origin_headers(request: Request, allowed: Collection[str]) -> dict[str, str]:
    """What every answer to the page says; nothing if it is of an origin that is not allowed."""
    origin = request.headers.get("origin", "")
    if not origin or not ({origin, ANY_ORIGIN} & set(allowed)):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": _SHOWN,
        "Vary": "Origin",
    }


def is_preflight(request: Request) -> bool:
    """Whether a browser asks what it may send."""
    return request.method == "OPTIONS" and "access-control-request-method" in request.headers


def preflight_headers() -> dict[str, str]:
    """What it may send."""
    return {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": _TAKEN,
        "Access-Control-Max-Age": str(_REMEMBERED_SECONDS),
    }

"""An application of ASGI and a client of it, without a server between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from windrow.inbox.receiver import App, Receive, Scope, Send


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


async def post(
    app: App, headers: dict[str, str] | None = None, path: str = "/receive", method: str = "POST"
) -> Reply:
    """Send a request; returns the whole of the answer."""
    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": pairs}
    reply = Reply()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            reply.body += message.get("body", b"")

    await app(scope, receive, send)
    return reply


class Counter:
    """An application that answers with how often it was asked."""

    def __init__(self, *statuses: int, chunks: int = 1, size: int = 0) -> None:
        self.statuses = list(statuses)
        self.calls = 0
        self.chunks, self.size = chunks, size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        status = self.statuses.pop(0) if self.statuses else 201
        headers = [(b"x-call", str(self.calls).encode()), (b"date", b"today")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in range(self.chunks):
            body = f"{self.calls}.{chunk} ".encode() + b"x" * self.size
            more = chunk + 1 < self.chunks
            await send({"type": "http.response.body", "body": body, "more_body": more})

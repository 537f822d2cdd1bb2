"""ASGI middleware that makes an HTTP receiver idempotent: a repeat gets the first answer again.

Three things may have become of the first. It was answered: the repeat gets that answer. It is still
being worked on: the repeat waits for it, and in the end gets 503 with Retry-After. Not 409, which
senders take for a refusal that lasts: they would bury a message whose work may yet fail. Or it
failed, by a 5xx or by the death of the process: the repeat is worked on as if it were the first.

That last case is why this alone is not exactly once: a process may die when the work is committed
and its answer not yet kept, and the repeat is worked on again. An ``Inbox.claim`` in the work's own
transaction closes that gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from windrow.inbox.answers import Answer, AnswerStore, Begun
from windrow.inbox.keys import KEY_HEADERS, UnusableKey, request_key

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
LONGEST_BODY = 64 * 1024
LOOK_INTERVAL = 0.05
REPLAYED = (b"idempotent-replayed", b"true")
HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server"})
"""Headers of one exchange, or which the server writes itself."""


class IdempotentReceiver:
    """Wraps an application so that each request of one key is worked on once.

    Args:
        app: The application.
        store: Where answers are kept: ``PostgresAnswers``, or ``MemoryAnswers`` for one process.
        key_headers: Headers that name a request, the best first.
        require_key: Answer 400 to a request without any of them; by default it passes through.
        wait: Seconds that a repeat waits for the first request.
        hold: Seconds after which a request without an answer is taken for dead; longer than any
            may take.
        longest_body: Bytes of an answer that are kept; a longer one is given again without body.
        caller_of: Tells callers apart whose keys may be the same, such as tenants.
    """

    def __init__(
        self,
        app: App,
        store: AnswerStore,
        *,
        key_headers: Sequence[str] = KEY_HEADERS,
        require_key: bool = False,
        wait: float = 5.0,
        hold: float = 60.0,
        longest_body: int = LONGEST_BODY,
        caller_of: Callable[[Scope], str] | None = None,
    ) -> None:
        self._app, self._store = app, store
        self._key_headers = tuple(name.lower() for name in key_headers)
        self._require_key, self._wait, self._hold = require_key, wait, hold
        self._longest_body, self._caller_of = longest_body, caller_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, anew or again."""
        if scope["type"] != "http" or scope["method"] in SAFE:
            await self._app(scope, receive, send)
            return
        try:
            key = self._key(scope)
        except UnusableKey as error:
            await _say(send, 400, str(error))
            return
        if key is not None:
            await self._answer(key, scope, receive, send)
        elif self._require_key:
            await _say(send, 400, f"one of these headers is needed: {', '.join(self._key_headers)}")
        else:
            await self._app(scope, receive, send)

    def _key(self, scope: Scope) -> str | None:
        caller = "" if self._caller_of is None else self._caller_of(scope)
        path = scope.get("root_path", "") + scope["path"]
        return request_key(scope["method"], path, scope["headers"], self._key_headers, caller)

    async def _answer(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        deadline = time.monotonic() + self._wait
        while True:
            state = await self._store.begin(key, self._hold)
            if isinstance(state, Begun):
                await self._work(key, state.token, scope, receive, send)
                return
            if isinstance(state, Answer):
                await _give_again(send, state)
                return
            if time.monotonic() >= deadline:
                retry_after = (b"retry-after", str(max(1, math.ceil(self._wait))).encode())
                await _say(send, 503, "the same request is being worked on", retry_after)
                return
            await asyncio.sleep(LOOK_INTERVAL)

    async def _work(
        self, key: str, token: uuid.UUID, scope: Scope, receive: Receive, send: Send
    ) -> None:
        kept = _KeptAnswer(self._store, key, token, send, self._longest_body)
        try:
            await self._app(scope, receive, kept.send)
        finally:
            if not kept.is_finished:
                # Also when the request was cancelled: another is to find it free.
                with contextlib.suppress(Exception):
                    await asyncio.shield(self._store.abandon(key, token))


class _KeptAnswer:
    """Passes an answer on once it is kept, so that nobody has seen one that can change.

    An answer of 5xx passes as it comes and is not kept; one that grows too long passes from then
    on, up to its end, which waits until it is kept.
    """

    def __init__(
        self, store: AnswerStore, key: str, token: uuid.UUID, send: Send, longest_body: int
    ) -> None:
        self._store, self._key, self._token = store, key, token
        self._send, self._longest_body = send, longest_body
        self._status = 0
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._waiting: list[Message] = []
        self._size = 0
        self.is_finished = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            pairs = ((bytes(name), bytes(text)) for name, text in message.get("headers", ()))
            self._headers = tuple(p for p in pairs if p[0].lower() not in HOP_BY_HOP)
        if self._status >= 500 or message["type"] not in (
            "http.response.start",
            "http.response.body",
        ):
            await self._send(message)
            return
        self._size += len(message.get("body", b""))
        self._waiting.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._finish()
        elif self._size > self._longest_body:
            await self._pass_on()

    async def _finish(self) -> None:
        is_whole = self._size <= self._longest_body
        body = b"".join(message.get("body", b"") for message in self._waiting)
        answer = Answer(self._status, self._headers, body if is_whole else None)
        await self._store.finish(self._key, self._token, answer)
        self.is_finished = True
        await self._pass_on()

    async def _pass_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            await self._send(message)


async def _give_again(send: Send, answer: Answer) -> None:
    headers = list(answer.headers)
    body = answer.body
    if body is None:
        # The length would be that of what is not there.
        headers = [pair for pair in headers if pair[0].lower() != b"content-length"]
        headers.append((b"content-length", b"0"))
        body = b""
    await _send_whole(send, answer.status, [*headers, REPLAYED], body)


async def _say(send: Send, status: int, text: str, *more: tuple[bytes, bytes]) -> None:
    body = f"{text}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *more,
    ]
    await _send_whole(send, status, headers, body)


async def _send_whole(
    send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})

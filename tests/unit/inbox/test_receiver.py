"""A receiver that works on each message once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest

from tests.unit.inbox.asgi import Counter, post
from windrow.inbox import Answer, IdempotentReceiver, MemoryAnswers
from windrow.inbox.receiver import Receive, Scope, Send

T = TypeVar("T")
KEY = {"Idempotency-Key": "6f9a"}


def run(work: Awaitable[T]) -> T:
    async def all_of_it() -> T:
        return await work

    return asyncio.run(all_of_it())


async def post_twice(receiver: Any, headers: dict[str, str] = KEY) -> tuple[Any, Any]:
    return await post(receiver, headers), await post(receiver, headers)


def test_a_repeat_gets_the_first_answer_again() -> None:
    app = Counter(chunks=3)
    first, second = run(post_twice(IdempotentReceiver(app, MemoryAnswers())))
    assert app.calls == 1
    assert (first.status, first.body) == (201, b"1.0 1.1 1.2 ")
    assert (second.status, second.body) == (first.status, first.body)
    assert second.headers == {"x-call": "1", "idempotent-replayed": "true"}


@pytest.mark.parametrize("status", [200, 204, 302, 400, 404, 422])
def test_any_answer_but_a_failure_is_remembered(status: int) -> None:
    app = Counter(status)
    first, second = run(post_twice(IdempotentReceiver(app, MemoryAnswers())))
    assert (first.status, second.status, app.calls) == (status, status, 1)


def test_a_failure_is_not_remembered() -> None:
    app = Counter(500, 503, 201)

    async def scenario() -> list[int]:
        receiver = IdempotentReceiver(app, MemoryAnswers())
        return [(await post(receiver, KEY)).status for _ in range(4)]

    assert run(scenario()) == [500, 503, 201, 201]
    assert app.calls == 3


def test_a_crash_is_not_remembered() -> None:
    calls = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append(scope)
        if len(calls) == 1:
            raise RuntimeError("struck down")
        await Counter()(scope, receive, send)

    async def scenario() -> int:
        receiver = IdempotentReceiver(app, MemoryAnswers())
        with pytest.raises(RuntimeError, match="struck down"):
            await post(receiver, KEY)
        return (await post(receiver, KEY)).status

    assert run(scenario()) == 201


def test_a_cancelled_request_leaves_the_next_free_to_begin() -> None:
    is_inside = asyncio.Event()
    calls = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append(scope)
        if len(calls) == 1:
            is_inside.set()
            await asyncio.Event().wait()
        await Counter()(scope, receive, send)

    async def scenario() -> int:
        receiver = IdempotentReceiver(app, MemoryAnswers(), wait=0)
        first = asyncio.create_task(post(receiver, KEY))
        await is_inside.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return (await post(receiver, KEY)).status

    assert run(scenario()) == 201


def test_a_concurrent_repeat_waits_for_the_first_answer() -> None:
    may_go, is_inside = asyncio.Event(), asyncio.Event()
    app = Counter()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        is_inside.set()
        await may_go.wait()
        await app(scope, receive, send)

    async def scenario() -> list[Any]:
        receiver = IdempotentReceiver(slow, MemoryAnswers(), wait=60)
        first = asyncio.create_task(post(receiver, KEY))
        await is_inside.wait()
        second = asyncio.create_task(post(receiver, KEY))
        await asyncio.sleep(0)
        may_go.set()
        return [await first, await second]

    first, second = run(scenario())
    assert app.calls == 1
    assert second.body == first.body


def test_a_concurrent_repeat_that_waited_in_vain_is_asked_to_come_back() -> None:
    """By 503, which a relay takes for an outage; 409 it would take for a refusal for good."""
    may_go, is_inside = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        is_inside.set()
        await may_go.wait()
        await Counter()(scope, receive, send)

    async def scenario() -> tuple[Any, Any]:
        receiver = IdempotentReceiver(slow, MemoryAnswers(), wait=0)
        first = asyncio.create_task(post(receiver, KEY))
        await is_inside.wait()
        second = await post(receiver, KEY)
        may_go.set()
        return await first, second

    first, second = run(scenario())
    assert first.status == 201
    assert (second.status, second.headers["retry-after"]) == (503, "1")


def test_the_hold_of_a_dead_process_ends_and_its_late_answer_is_not_kept() -> None:
    now = [0.0]
    answers = MemoryAnswers(monotonic=lambda: now[0])

    async def scenario() -> Any:
        dead: Any = await answers.begin("k", hold=10)
        now[0] = 11
        alive: Any = await answers.begin("k", hold=10)
        await answers.finish("k", dead.token, Answer(200, (), b"late"))
        await answers.abandon("k", dead.token)
        await answers.finish("k", alive.token, Answer(201, (), b"right"))
        return await answers.begin("k", hold=10)

    assert run(scenario()) == Answer(201, (), b"right")


def test_an_answer_too_long_to_keep_is_given_again_without_its_body() -> None:
    app = Counter(chunks=4, size=100)
    receiver = IdempotentReceiver(app, MemoryAnswers(), longest_body=150)
    first, second = run(post_twice(receiver))
    assert len(first.body) > 400
    assert (second.status, second.body, second.headers["content-length"]) == (201, b"", "0")
    assert app.calls == 1


def test_a_request_without_a_key_passes_through_or_is_refused_by_choice() -> None:
    app = Counter()
    run(post_twice(IdempotentReceiver(app, MemoryAnswers()), {}))
    assert app.calls == 2
    strict = IdempotentReceiver(app, MemoryAnswers(), require_key=True)
    refused, _ = run(post_twice(strict, {}))
    assert (refused.status, app.calls) == (400, 2)
    assert b"idempotency-key" in refused.body


def test_a_key_that_cannot_be_kept_is_refused() -> None:
    receiver = IdempotentReceiver(Counter(), MemoryAnswers())
    for key in ("", "x" * 600):
        assert run(post(receiver, {"Idempotency-Key": key})).status == 400


def test_other_paths_callers_and_sources_are_other_requests() -> None:
    app = Counter()

    async def scenario() -> None:
        receiver = IdempotentReceiver(
            app,
            MemoryAnswers(),
            caller_of=lambda scope: dict(scope["headers"]).get(b"x-tenant", b"").decode(),
        )
        for _ in range(2):
            await post(receiver, KEY, "/a")
            await post(receiver, KEY, "/b")
            await post(receiver, KEY, "/" + "long" * 500)
            await post(receiver, KEY | {"X-Tenant": "t"}, "/a")
            await post(receiver, {"ce-id": "1", "ce-source": "/eu"})
            await post(receiver, {"ce-id": "1", "ce-source": "/us"})
            await post(receiver, {"webhook-id": "1"})

    run(scenario())
    assert app.calls == 7


def test_reading_is_never_remembered() -> None:
    app = Counter()

    async def scenario() -> None:
        receiver = IdempotentReceiver(app, MemoryAnswers())
        for _ in range(2):
            await post(receiver, KEY, method="GET")

    run(scenario())
    assert app.calls == 2


def test_memory_forgets_the_oldest_and_what_is_too_old() -> None:
    now = [0.0]
    answers = MemoryAnswers(retention=100, limit=3, monotonic=lambda: now[0])

    async def work_on(key: str) -> str:
        state: Any = await answers.begin(key, hold=1)
        if isinstance(state, Answer):
            return "again"
        await answers.finish(key, state.token, Answer(200, (), b""))
        return "first"

    async def scenario() -> list[str]:
        said = [await work_on(key) for key in ("a", "b", "c", "d", "a", "d")]
        now[0] = 200
        return [*said, await work_on("d")]

    assert run(scenario()) == ["first"] * 5 + ["again", "first"]

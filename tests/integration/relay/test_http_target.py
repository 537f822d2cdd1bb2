"""Messages over HTTP, to receivers that work, and to all sorts that do not."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tests.integration.relay.http_receiver import Receiver, misbehaving, serving
from windrow.config.http import HttpDelivery
from windrow.config.secrets import Secret
from windrow.relay.competing.contract import Claim, Delivered, Later, Outcome, Refused
from windrow.relay.targets.http import (
    AddressForbidden,
    HttpTarget,
    NowhereToSend,
    new_secret,
    verify_signature,
)
from windrow.relay.targets.http.resolving import look_up

LONG = 60.0
SHORT = 1.0
"""Time-outs of one try: one that must not be reached, and one that must."""


def claim(number: int = 1, topic: str = "orders", **others: Any) -> Claim:
    created = datetime(2026, 1, 1, 12, tzinfo=UTC)
    given: dict[str, Any] = {"key": "k", "value": b'{"n":1}', "headers": (), **others}
    return Claim(number, f"id-{number}", topic, created=created, attempts=0, **given)


@asynccontextmanager
async def target_to(
    url: str, *, within: float = LONG, find: Any = look_up, **settings: Any
) -> AsyncIterator[HttpTarget]:
    delivery = HttpDelivery(**{"url": url, "allow_private": True, **settings})
    target = HttpTarget(delivery, within, find=find)
    await target.open()
    try:
        yield target
    finally:
        await target.close()


async def send_one(receiver: Receiver, message: Claim | None = None, **settings: Any) -> Outcome:
    async with serving(receiver), target_to(receiver.url, **settings) as target:
        return await target.send(message or claim())


async def _send_to(url: str, **settings: Any) -> Outcome:
    async with target_to(url, **settings) as target:
        return await target.send(claim())


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def later(outcome: Outcome) -> Later:
    assert isinstance(outcome, Later), outcome
    return outcome


# -- what is sent ---------------------------------------------------------------------------------


def test_a_message_arrives_as_a_cloud_event_that_its_signature_vouches_for() -> None:
    secret, receiver = new_secret(), Receiver()
    message = claim(
        headers=(("correlation-id", "c-1"), ("traceparent", f"00-{1:032x}-{2:016x}-01"))
    )
    settings = {"secret": Secret(secret), "headers": {"Authorization": "Bearer t"}}
    assert run(send_one(receiver, message, **settings)) == Delivered()
    [seen] = receiver.seen
    assert seen.body == b'{"n":1}'
    assert seen.headers["ce-id"] == seen.headers["idempotency-key"] == "id-1"
    assert (seen.headers["ce-type"], seen.headers["ce-subject"]) == ("orders", "k")
    assert seen.headers["authorization"] == "Bearer t"
    assert seen.headers["correlation-id"] == "c-1"
    assert seen.headers["traceparent"] == f"00-{1:032x}-{2:016x}-01"
    assert verify_signature(seen.headers, seen.body, secret) == "id-1"


def test_a_structured_message_arrives_whole_and_signed() -> None:
    secret, receiver = new_secret(), Receiver()
    run(send_one(receiver, mode="structured", secret=Secret(secret)))
    [seen] = receiver.seen
    assert json.loads(seen.body)["data"] == {"n": 1}
    assert verify_signature(seen.headers, seen.body, secret) == "id-1"


def test_a_tombstone_is_delivered_with_an_empty_body() -> None:
    receiver = Receiver()
    assert run(send_one(receiver, claim(value=None))) == Delivered()
    assert receiver.seen[0].body == b""
    assert receiver.seen[0].headers["content-length"] == "0"


def test_topics_go_where_their_routes_lead() -> None:
    async def scenario() -> None:
        receiver = Receiver()
        async with serving(receiver):
            routes = {"mails": f"http://{receiver.address}/mails?to=all%20of%20us"}
            async with target_to("", routes=routes) as target:
                assert await target.send(claim(topic="mails")) == Delivered()
                unrouted = await target.send(claim(topic="orders"))
                assert target.destination("mails") == f"http://{receiver.address}"
        assert [seen.path for seen in receiver.seen] == ["/mails"]
        assert later(unrouted).is_outage
        assert "relay.http.routes" in later(unrouted).reason

    run(scenario())


# -- what is answered -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (204, {}, Delivered()),
        (429, {"Retry-After": "7"}, Later("it answered 429 Too Many Requests", 7.0)),
        (500, {}, Later("it answered 500 Internal Server Error")),
        (503, {}, Later("it answered 503 Service Unavailable", is_outage=True)),
        (422, {}, Refused("it answered 422 Unprocessable Entity")),
        (410, {}, Refused("it answered 410 Gone")),
    ],
)
def test_the_answer_decides(status: int, headers: dict[str, str], outcome: Outcome) -> None:
    async def answer(request: Request) -> Response:
        return Response(status_code=status, headers=headers)

    assert run(send_one(Receiver(answer))) == outcome


def test_a_redirect_is_not_followed() -> None:
    async def answer(request: Request) -> Response:
        return RedirectResponse("/elsewhere", 307)

    receiver = Receiver(answer)
    assert isinstance(run(send_one(receiver)), Refused)
    assert [seen.path for seen in receiver.seen] == ["/receive"]


def test_an_endless_answer_is_not_read_to_its_end() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 99999999999\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async def scenario() -> Outcome:
        async with misbehaving(endless) as url:
            return await _send_to(url)

    assert run(scenario()) == Delivered()


# -- connections ----------------------------------------------------------------------------------


def test_one_after_the_other_travel_on_one_connection() -> None:
    async def scenario() -> None:
        receiver = Receiver()
        async with serving(receiver), target_to(receiver.url, keep_alive=LONG) as target:
            for number in range(50):
                assert await target.send(claim(number)) == Delivered()
        assert len(receiver.seen) == 50
        assert receiver.connections == 1

    run(scenario())


def test_no_more_are_on_their_way_to_a_host_than_its_limit_and_connections_are_used_again() -> None:
    async def scenario() -> None:
        is_full = asyncio.Event()

        async def answer(request: Request) -> Response:
            if receiver.now == 4:
                is_full.set()
            await is_full.wait()
            return Response(status_code=202)

        receiver = Receiver(answer)
        async with (
            serving(receiver),
            target_to(receiver.url, per_host=4, keep_alive=LONG) as target,
        ):
            outcomes = await asyncio.gather(*(target.send(claim(n)) for n in range(60)))
        assert outcomes == [Delivered()] * 60
        assert receiver.most == 4
        assert receiver.connections == 4

    run(scenario())


def test_a_host_that_is_full_for_longer_than_the_time_out_burns_no_attempt() -> None:
    async def scenario() -> None:
        async def answer(request: Request) -> Response:
            await asyncio.Event().wait()
            raise AssertionError

        receiver = Receiver(answer)
        async with serving(receiver), target_to(receiver.url, per_host=1, within=SHORT) as target:
            first, second = await asyncio.gather(target.send(claim(1)), target.send(claim(2)))
        assert later(first).reason == "no answer within 1 s"
        assert not later(first).is_outage
        assert later(second).is_outage
        assert len(receiver.seen) == 1

    run(scenario())


def test_a_cancelled_send_gives_its_slot_back() -> None:
    async def scenario() -> None:
        may_go = asyncio.Event()

        async def answer(request: Request) -> Response:
            await may_go.wait()
            return Response(status_code=202)

        receiver = Receiver(answer)
        async with serving(receiver), target_to(receiver.url, per_host=1) as target:
            first = asyncio.create_task(target.send(claim(1)))
            await receiver.until(lambda: receiver.now == 1)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            may_go.set()
            assert await target.send(claim(2)) == Delivered()

    run(scenario())


# -- receivers that misbehave ---------------------------------------------------------------------


def test_headers_that_come_too_slowly_are_a_time_out_that_counts() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def scenario() -> Outcome:
        async with misbehaving(drip) as url, target_to(url, within=SHORT) as target:
            return await target.send(claim())

    outcome = later(run(scenario()))
    assert (outcome.reason, outcome.is_outage) == ("no answer within 1 s", False)


def test_a_reset_after_the_request_was_read_counts() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async def scenario() -> Outcome:
        async with misbehaving(reset) as url, target_to(url) as target:
            return await target.send(claim())

    outcome = later(run(scenario()))
    assert outcome.reason.startswith("no answer: ")
    assert not outcome.is_outage


def test_what_is_no_http_counts_and_ends_nothing() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()

    async def scenario() -> Outcome:
        async with misbehaving(babble) as url, target_to(url) as target:
            return await target.send(claim())

    assert not later(run(scenario())).is_outage


def test_nobody_listening_is_an_outage() -> None:
    async def scenario() -> Outcome:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and does not listen
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
            async with target_to(url) as target:
                return await target.send(claim())

    outcome = later(run(scenario()))
    assert outcome.is_outage
    assert outcome.reason.startswith("cannot connect: ")


def test_a_connection_that_is_never_agreed_on_is_an_outage() -> None:
    """One that speaks no TLS; the connection is there, and never ready."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scenario() -> Outcome:
        async with misbehaving(silent) as url:
            secure = url.replace("http://", "https://")
            async with target_to(secure, connect_timeout=SHORT) as target:
                return await target.send(claim())

    outcome = later(run(scenario()))
    assert (outcome.reason, outcome.is_outage) == ("no connection within 1 s", True)


def test_a_receiver_without_tls_where_tls_is_wanted_is_an_outage() -> None:
    async def scenario() -> Outcome:
        receiver = Receiver()
        async with serving(receiver) as served:
            return await _send_to(served.url.replace("http://", "https://"))

    assert later(run(scenario())).is_outage


def test_a_name_that_nobody_knows_is_an_outage() -> None:
    async def find(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def scenario() -> Outcome:
        async with target_to("http://shop.example/", find=find) as target:
            return await target.send(claim())

    assert later(run(scenario())).is_outage


# -- addresses that must not be sent to -----------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0/",
    ],
)
def test_an_address_in_a_url_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(AddressForbidden, match=r"relay\.http\.allowed_hosts"):
        HttpTarget(HttpDelivery(routes={"orders": url}))


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f000001", "localhost"])
def test_other_ways_to_write_an_address_get_no_further(host: str) -> None:
    async def scenario() -> None:
        receiver = Receiver()
        async with serving(receiver):
            port = receiver.address.rpartition(":")[2]
            async with target_to(f"http://{host}:{port}/", allow_private=False) as target:
                later(await target.send(claim()))
        assert receiver.seen == []

    run(scenario())


def test_a_name_that_is_at_a_private_address_is_refused_and_nothing_is_sent() -> None:
    async def find(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def scenario() -> None:
        receiver = Receiver()
        async with serving(receiver):
            url = receiver.url.replace("127.0.0.1", "shop.example")
            async with target_to(url, find=find, allow_private=False) as target:
                outcome = later(await target.send(claim()))
        assert receiver.seen == []
        assert outcome.is_outage
        assert "shop.example is at 127.0.0.1, a loopback address" in outcome.reason

    run(scenario())


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that is public when it is asked for and private a moment later gains nothing."""
    asked: list[str] = []

    async def find(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async def scenario() -> None:
        receiver = Receiver()
        async with serving(receiver):
            url = receiver.url.replace("127.0.0.1", "shop.example")
            hosts = ["shop.example"]
            settings: dict[str, Any] = {
                "allow_private": False,
                "allowed_hosts": hosts,
                "keep_alive": LONG,
            }
            async with target_to(url, find=find, **settings) as target:
                assert await target.send(claim()) == Delivered()
        # Known by no other resolver: that it arrived shows which address was used.
        assert receiver.seen[0].headers["host"].startswith("shop.example:")
        assert asked == ["shop.example"]

    run(scenario())


def test_of_several_addresses_only_those_that_may_be_sent_to_are_tried() -> None:
    async def find(host: str, port: int) -> Sequence[str]:
        return ["169.254.169.254", "127.0.0.1"]

    async def scenario() -> None:
        receiver = Receiver()
        async with serving(receiver):
            url = receiver.url.replace("127.0.0.1", "shop.example")
            async with target_to(url, find=find) as target:
                assert await target.send(claim()) == Delivered()

    run(scenario())


def test_a_target_without_any_url_is_refused() -> None:
    with pytest.raises(NowhereToSend, match=r"relay\.http\.url"):
        HttpTarget(HttpDelivery())


def test_what_goes_wrong_never_tells_a_secret() -> None:
    secret = new_secret()

    async def scenario() -> str:
        headers = {"Authorization": "Bearer hunter2"}
        settings: dict[str, Any] = {"secret": Secret(secret), "headers": headers}
        async with target_to("http://127.0.0.1:1/", **settings) as target:
            return later(await target.send(claim())).reason

    reason = run(scenario())
    assert "hunter2" not in reason
    assert secret not in reason

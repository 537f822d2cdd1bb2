"""The HTTP gateway: journals for whoever has no gRPC at hand."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Caller, Stage, play, spec
from windrow.journal.broker.server import BrokerServer
from windrow.journal.broker.tokens import Authority, Capability

KEYS = base64.b64encode(b"a key of at least thirty-two bytes, for HS256").decode()


async def one_journal(there: Stage, **settings: Any) -> tuple[BrokerServer, Caller]:
    server, caller = await there.broker(**settings)
    await caller.apply(spec())
    await caller.appended(b"0123456789")
    return server, caller


def browser(server: BrokerServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.http_port}", trust_env=False)


def test_get_streams_from_an_offset_and_tells_where_it_came_from(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await one_journal(there)
        async with browser(server) as http:
            answer = await http.get("/a/journal", params={"offset": 4})
        assert answer.status_code == 206
        assert answer.content == b"456789"
        assert answer.headers["content-range"] == "bytes 4-9223372036854775807/*"
        assert answer.headers["x-write-head"] == "10"
        assert answer.headers["location"] == f"{server.endpoint}/a/journal"
        digest = hashlib.sha1(b"0123456789").hexdigest()
        assert answer.headers["x-fragment-name"] == f"{0:016x}-{10:016x}-{digest}.raw"

    play(tmp_path, story)


def test_head_tells_the_same_without_content(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await one_journal(there)
        async with browser(server) as http:
            answer = await http.head("/a/journal", params={"offset": -1})
            assert answer.status_code == 416
            assert answer.headers["x-write-head"] == "10"
            answer = await http.head("/a/journal")
            assert (answer.status_code, answer.content) == (206, b"")

    play(tmp_path, story)


def test_put_appends_the_body_as_one_transaction(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await one_journal(there)

        async def pieces() -> AsyncIterator[bytes]:
            yield b"in "
            yield b"pieces"

        async with browser(server) as http:
            answer = await http.put("/a/journal", content=b"whole, ")
            assert answer.status_code == 204
            assert answer.headers["x-commit-begin"] == "10"
            assert answer.headers["x-commit-end"] == "17"
            assert answer.headers["x-commit-sha1-sum"] == hashlib.sha1(b"whole, ").hexdigest()
            answer = await http.put("/a/journal", content=pieces())
            assert answer.headers["x-commit-begin"] == "17"
        assert await caller.content(offset=10) == b"whole, in pieces"

    play(tmp_path, story)


def test_a_put_that_breaks_off_appends_nothing(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await one_journal(there)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        writer.write(b"PUT /a/journal HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\npart")
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        await writer.wait_closed()
        assert (await caller.append(b"!")).commit.begin == 10
        assert await caller.content() == b"0123456789!"
        assert reader is not None

    play(tmp_path, story)


def test_a_blocking_get_follows_the_journal(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await one_journal(there)
        got = b""
        async with (
            browser(server) as http,
            http.stream("GET", "/a/journal", params={"offset": 8, "block": "true"}) as answer,
        ):
            async for piece in answer.aiter_bytes():
                got += piece
                if got == b"89":
                    await caller.append(b"abc")
                if got == b"89abc":
                    break

    play(tmp_path, story)


def test_statuses_and_mistakes_have_their_codes(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await one_journal(there)
        await caller.apply(spec("b/wants-more", replication=3))
        async with browser(server) as http:
            assert (await http.get("/no/such")).status_code == 404
            assert (await http.get("/a/journal?offset=99")).status_code == 416
            assert (await http.put("/b/wants-more", content=b"x")).status_code == 503
            assert (await http.get("/a/journal?offset=x")).status_code == 400
            assert (await http.get("/a//journal")).status_code == 400
            assert (await http.delete("/a/journal")).status_code == 405

    play(tmp_path, story)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x00\xa5 not TLS here\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ],
    ids=["empty", "short", "version", "header", "long", "tls", "half-preface"],
)
def test_rubbish_is_answered_or_dropped_and_the_broker_goes_on(
    tmp_path: Path, rubbish: bytes
) -> None:
    async def story(there: Stage) -> None:
        server, caller = await one_journal(there)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        writer.write(rubbish)
        async with asyncio.timeout(10):
            answer = await reader.read(100)
        writer.close()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4") or answer[:12] == b"HTTP/1.1 505"
        assert await caller.content() == b"0123456789"

    play(tmp_path, story)


def test_tokens_hold_for_http_too(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker(auth_keys=KEYS)
        authority = Authority(KEYS)

        def bearer(capability: Capability) -> dict[str, str]:
            return {"Authorization": f"Bearer {authority.sign(capability)}"}

        async with browser(server) as http:
            assert (await http.get("/a/journal")).status_code == 401
            refused = await http.get("/a/journal", headers=bearer(Capability.APPEND))
            assert refused.status_code == 403
            assert "lacks READ" in refused.text
            allowed = await http.get("/a/journal", headers=bearer(Capability.READ))
            assert allowed.status_code == 404
            assert (await http.get("/debug/ready")).status_code == 200

    play(tmp_path, story)


def test_lists_and_reads_come_as_json_lines(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await one_journal(there)
        async with browser(server) as http:
            answer = await http.post("/v1/journals/list", json={})
            [line] = answer.text.splitlines()
            [journal] = json.loads(line)["result"]["journals"]
            assert journal["spec"]["name"] == "a/journal"
            answer = await http.post("/v1/journals/read", json={"journal": "a/journal"})
            results = [json.loads(line)["result"] for line in answer.text.splitlines()]
            content = [base64.b64decode(result.get("content", "")) for result in results]
            assert b"".join(content) == b"0123456789"
            refused = await http.post("/v1/journals/list", json={"nonsense": 1})
            assert refused.status_code == 400

    play(tmp_path, story)


def test_metrics_count_calls_and_bytes(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, caller = await one_journal(there)
        await caller.read()
        async with browser(server) as http:
            text = (await http.get("/metrics")).text
        assert 'windrow_journal_calls_started_total{operation="Read"} 1.0' in text
        assert "windrow_journal_append_bytes_total 10.0" in text
        assert "windrow_journal_read_bytes_total 10.0" in text
        assert "windrow_journal_replicas 1.0" in text
        assert "windrow_journal_primaries 1.0" in text

    play(tmp_path, story)


def test_a_broker_that_leaves_is_not_ready(tmp_path: Path, cluster_etcd: EtcdPrefix) -> None:
    async def story(there: Stage) -> None:
        server, _ = await there.broker("broker-0")
        await there.broker("broker-1")
        async with browser(server) as http:
            assert (await http.get("/debug/ready")).text == "ready\n"
            await server.leave()
            answer = await http.get("/debug/ready")
        assert (answer.status_code, answer.text) == (503, "leaving\n")

    play(tmp_path, story, cluster_etcd)


def test_the_gateway_may_have_a_port_of_its_own(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        server, _ = await one_journal(there, gateway="off", http_port=0)
        assert server.http_port != server.port
        async with browser(server) as http:
            assert (await http.get("/a/journal")).content == b"0123456789"

    play(tmp_path, story)


@pytest.mark.parametrize("allowed", ["https://page.example", "*"])
def test_pages_of_an_allowed_origin_may_read_and_append(tmp_path: Path, allowed: str) -> None:
    async def story(there: Stage) -> None:
        server, _ = await one_journal(there, allow_origins=(allowed,))
        page = {"Origin": "https://page.example"}
        async with browser(server) as http:
            asked = {**page, "Access-Control-Request-Method": "PUT"}
            preflight = await http.options("/a/journal", headers=asked)
            assert preflight.status_code == 204
            assert "PUT" in preflight.headers["access-control-allow-methods"]
            assert "Authorization" in preflight.headers["access-control-allow-headers"]
            for answer in (
                preflight,
                await http.get("/a/journal", headers=page),
                await http.get("/not/there", headers=page),
            ):
                assert answer.headers["access-control-allow-origin"] == "https://page.example"
                assert answer.headers["vary"] == "Origin"
            assert "X-Write-Head" in answer.headers["access-control-expose-headers"]

    play(tmp_path, story)


@pytest.mark.parametrize("allowed", [(), ("https://other.example",)])
def test_pages_of_other_origins_are_told_nothing(tmp_path: Path, allowed: tuple[str, ...]) -> None:
    async def story(there: Stage) -> None:
        server, _ = await one_journal(there, allow_origins=allowed)
        page = {"Origin": "https://page.example"}
        async with browser(server) as http:
            answers = [
                await http.get("/a/journal", headers=page),
                await http.get("/a/journal"),
                await http.options(
                    "/a/journal", headers={**page, "Access-Control-Request-Method": "PUT"}
                ),
            ]
        assert not any("access-control-allow-origin" in answer.headers for answer in answers)

    play(tmp_path, story)

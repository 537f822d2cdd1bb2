"""A running broker, called with bytes written by hand, and what it answers, byte by byte.

No generated code is between: what a client of another language sends and gets is this.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Stage, play, until
from tests.integration.journal.wire_by_hand import fixed32, fixed64, num, sub, text
from windrow.journal.broker.server import BrokerServer
from windrow.journal.spec import INCARNATION_LABEL

JOURNAL, STORE = "shop/orders", "file:///store/"
NONE_CODEC = 1
PROCESS = text(1, "zone") + text(2, "broker")
UNROUTED = num(2, -1)
COMMIT_MARK = b""


def label(name: str, value: str) -> bytes:
    return sub(1, text(1, name), text(2, value))


def spec(*labels: bytes) -> bytes:
    fragment = num(1, 1 << 20) + num(2, NONE_CODEC) + text(3, STORE) + sub(4, num(1, 60))
    return text(1, JOURNAL) + num(2, 1) + sub(3, *labels) + sub(4, fragment, sub(5), sub(6))


def fragment_of(content: bytes, begin: int = 0) -> bytes:
    one, two, three = struct.unpack(">QQI", hashlib.sha1(content).digest())
    return (
        text(1, JOURNAL)
        + (num(2, begin) if begin else b"")
        + num(3, begin + len(content))
        + sub(4, fixed64(1, one), fixed64(2, two), fixed32(3, three))
        + num(5, NONE_CODEC)
    )


class Wire:
    """Calls as they are on the wire."""

    def __init__(self, server: BrokerServer, channel: Any) -> None:
        self.server = server
        self._channel = channel

    async def call(self, method: str, *messages: bytes) -> bytes:
        """The answer to a call that has one."""
        path = f"/protocol.Journal/{method}"
        if method == "Append":
            answer: bytes = await self._channel.stream_unary(path)(_sent(messages), timeout=20)
        else:
            [message] = messages
            answer = await self._channel.unary_unary(path)(message, timeout=20)
        return answer

    async def stream(self, method: str, *messages: bytes, count: int = 0) -> list[bytes]:
        """The answers to a call that has many; all of them, or so many and no more."""
        path = f"/protocol.Journal/{method}"
        if method == "Replicate":
            call = self._channel.stream_stream(path)(_sent(messages), timeout=20)
        else:
            [message] = messages
            call = self._channel.unary_stream(path)(message, timeout=20)
        answers: list[bytes] = []
        async for answer in call:
            answers.append(answer)
            if len(answers) == count:
                break
        call.cancel()
        return answers

    def header(self, route: bytes, revision: int = 0) -> bytes:
        """What comes with an answer: who it is, the route, and four numbers of etcd."""
        etcd = self.server.assembly.resolver.etcd_header()
        numbers = (etcd.cluster_id, etcd.member_id, revision or etcd.revision, etcd.raft_term)
        assert 0 not in numbers
        tagged = b"".join(num(tag, value) for tag, value in enumerate(numbers, start=1))
        return sub(1, PROCESS) + sub(2, route) + sub(3, tagged)

    def headed(self, route: bytes, status: int = 0, rest: bytes = b"") -> list[bytes]:
        """An answer with a header, at each revision there has been: keys may change meanwhile."""
        before = num(1, status) if status else b""
        now = self.server.assembly.resolver.etcd_header().revision
        headers = (self.header(route, revision) for revision in range(1, now + 1))
        return [before + sub(2, header) + rest for header in headers]

    @property
    def route(self) -> bytes:
        """The route of a journal of which this broker is all there is; its primary is 0."""
        return sub(1, PROCESS) + text(3, self.server.endpoint)


async def _sent(messages: Iterable[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


@asynccontextmanager
async def wire(there: Stage) -> AsyncIterator[Wire]:
    (there.files / "store").mkdir()
    server, _ = await there.broker()
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield Wire(server, channel)


async def created(wired: Wire) -> None:
    """The journal, once it takes appends; its assignment has been written by then."""
    applied = await wired.call("Apply", sub(1, sub(2, spec(label("app", "shop")))))
    assert applied in wired.headed(UNROUTED)

    async def is_served() -> bool:
        barrier = await wired.call("Append", text(2, JOURNAL), COMMIT_MARK)
        return not barrier.startswith(b"\x08")  # a status that is not OK comes first

    await until(is_served)


def test_an_empty_listing_and_a_watch_of_nothing(tmp_path: Path) -> None:
    """Status and header even so; the end of the snapshot is a message of no bytes at all."""

    async def story(there: Stage) -> None:
        async with wire(there) as wired:
            [empty] = await wired.stream("List", b"")
            assert empty in wired.headed(UNROUTED)
            [first, mark] = await wired.stream("List", num(4, 1), count=2)
            assert first in wired.headed(UNROUTED)
            assert mark == b""

    play(tmp_path, story)


def test_a_journal_is_applied_and_listed_with_its_labels_sorted(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        async with wire(there) as wired:
            await created(wired)
            view = wired.server.assembly.resolver.view(JOURNAL)
            assert view.spec is not None
            assert view.item is not None
            given = label(INCARNATION_LABEL, view.spec.incarnation or "")
            journal = (
                sub(1, spec(label("app", "shop"), given))
                + num(2, view.item.mod_revision)
                + sub(3, wired.route)
                + num(4, view.item.create_revision)
            )
            [found] = await wired.stream("List", sub(1, sub(1, label("app", "shop"))))
            assert found in wired.headed(UNROUTED, rest=sub(3, journal))
            stale = await wired.call("Apply", sub(1, sub(2, spec())))
            assert stale in wired.headed(UNROUTED, 9)

    play(tmp_path, story)


def test_appends_answer_with_their_span_and_with_registers_though_they_are_empty(
    tmp_path: Path,
) -> None:
    async def story(there: Stage) -> None:
        async with wire(there) as wired:
            await created(wired)
            first = await wired.call("Append", text(2, JOURNAL), sub(4, b"hello"), COMMIT_MARK)
            committed = sub(3, fragment_of(b"hello")) + sub(4) + num(5, 2)
            assert first in wired.headed(wired.route, rest=committed)
            request = text(2, JOURNAL) + sub(7, label("owner", "us"))
            second = await wired.call("Append", request, sub(4, b" you"), COMMIT_MARK)
            registers = sub(4, label("owner", "us"))
            committed = sub(3, fragment_of(b" you", 5)) + registers + num(5, 2)
            assert second in wired.headed(wired.route, rest=committed)
            checking = text(2, JOURNAL) + sub(6, sub(1, label("owner", "them")))
            refused = await wired.call("Append", checking, sub(4, b"x"), COMMIT_MARK)
            assert refused in wired.headed(wired.route, 13, registers)
            wrong = await wired.call("Append", text(2, JOURNAL) + num(5, 4), COMMIT_MARK)
            assert wrong in wired.headed(wired.route, 11)
            unknown = await wired.call("Append", text(2, "no/such"), COMMIT_MARK)
            assert unknown in wired.headed(UNROUTED, 1)

    play(tmp_path, story)


def test_a_read_describes_its_fragment_once_and_its_content_stands_alone(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        async with wire(there) as wired:
            await created(wired)
            await wired.call("Append", text(2, JOURNAL), sub(4, b"hello"), COMMIT_MARK)
            metadata, content, end = await wired.stream("Read", text(2, JOURNAL) + num(3, 2))
            described = num(3, 2) + num(4, 5) + sub(5, fragment_of(b"hello"))
            assert metadata in wired.headed(wired.route, rest=described)
            assert content == num(3, 2) + sub(7, b"llo")
            assert end == num(1, 6) + num(3, 5) + num(4, 5)
            [head] = await wired.stream("Read", text(2, JOURNAL) + num(3, -1) + num(6, 1))
            assert head in wired.headed(wired.route, 6, num(3, 5) + num(4, 5))
            [unknown] = await wired.stream("Read", text(2, "no/such"))
            assert unknown in wired.headed(UNROUTED, 1)

    play(tmp_path, story)


def test_fragments_and_the_health_of_a_store(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        async with wire(there) as wired:
            await created(wired)
            await wired.call("Append", text(2, JOURNAL), sub(4, b"hello"), COMMIT_MARK)
            page = await wired.call("ListFragments", text(2, JOURNAL))
            listed = sub(3, sub(1, fragment_of(b"hello")))
            assert page in wired.headed(wired.route, rest=listed)
            beyond = await wired.call("ListFragments", text(2, JOURNAL) + num(5, 6))
            assert beyond in wired.headed(wired.route)
            healthy = await wired.call("FragmentStoreHealth", text(1, STORE))
            assert healthy in wired.headed(UNROUTED)
            ailing = await wired.call("FragmentStoreHealth", text(1, "file:///gone/"))
            [told] = [one for one in wired.headed(UNROUTED, 15) if ailing.startswith(one)]
            reason = ailing[ailing.index(b"fragment store file:///gone/") :]
            assert ailing == told + sub(3, reason)

    play(tmp_path, story)


def test_a_primary_of_another_route_is_answered_with_ours(tmp_path: Path) -> None:
    async def story(there: Stage) -> None:
        async with wire(there) as wired:
            await created(wired)
            both = sub(1, PROCESS) + sub(1, text(1, "zone-2") + text(2, "another"))
            nothing = text(1, JOURNAL) + sub(4) + num(5, NONE_CODEC)
            proposal = sub(1, wired.header(both)) + sub(3, nothing) + num(6, 1) + sub(7)
            [answer] = await wired.stream("Replicate", proposal)
            assert answer in wired.headed(wired.route, 7)

    play(tmp_path, story)


def test_what_is_kept_in_etcd(tmp_path: Path, cluster_etcd: EtcdPrefix) -> None:
    """Durations of zero are written, a primary of zero and endpoints are not."""

    async def story(there: Stage) -> None:
        async with wire(there) as wired:
            await created(wired)
            keys = wired.server.keys
            kvs = (await wired.server.store.load(keys.prefix + "/")).kvs
            values = {kv.key.removeprefix(keys.prefix): kv for kv in kvs}
            view = wired.server.assembly.resolver.view(JOURNAL)
            assert view.spec is not None
            given = label(INCARNATION_LABEL, view.spec.incarnation or "")
            item = values["/items/shop/orders"]
            assert (item.value, item.lease) == (spec(label("app", "shop"), given), 0)
            assert item.value.endswith(bytes.fromhex("2a003200"))
            member = values["/members/zone#broker"]
            announced = sub(1, sub(1, PROCESS), text(2, wired.server.endpoint)) + num(2, 1024)
            assert (member.value, member.lease) == (announced, wired.server.lease.id)
            assignment = values["/assign/shop/orders#zone#broker#0"]
            assert (assignment.value, assignment.lease) == (sub(1, PROCESS), member.lease)

    play(tmp_path, story, cluster_etcd)

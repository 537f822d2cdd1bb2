"""Whatever a running broker is sent: a status or a sentence, and nothing has changed afterwards.

Each kind of bad input goes to every call that takes it, in fixed and in random forms. ``Witness``
takes down all that a mistake could change: keys, registers, content, and files.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError

from tests.integration.journal.stage import Caller, Stage, labels, play, spec, until
from tests.integration.journal.test_golden_bytes import committed
from tests.integration.journal.wire_by_hand import varint
from windrow.journal.broker.server import BrokerServer
from windrow.journal.broker.tokens import Authority, Capability
from windrow.journal.errors import InvalidField
from windrow.journal.frames.format import HELLO, Kind, Opening, frame
from windrow.journal.messages import check_apply_request
from windrow.journal.wire import protocol_pb2 as pb

JOURNAL, CONTENT = "a/journal", b"what was there"
KEYS = base64.b64encode(b"a key of at least thirty-two bytes, for HS256").decode()
OTHER_KEYS = base64.b64encode(b"another one, as long as the first, for HS256").decode()
LIMIT = 100_000
METHODS = {
    "List": "unary_stream",
    "Apply": "unary_unary",
    "Read": "unary_stream",
    "Append": "stream_unary",
    "Replicate": "stream_stream",
    "ListFragments": "unary_unary",
    "FragmentStoreHealth": "unary_unary",
}
REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.INTERNAL,  # gRPC's own, for bytes that are no message
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
}


@dataclass
class Witness:
    """A broker with one journal, and what there is of it."""

    server: BrokerServer
    caller: Caller
    channel: Any
    root: Path

    async def all_there_is(self) -> dict[str, Any]:
        """Everything that bad input must not change."""
        kvs = (await self.server.store.load("")).kvs
        answer = await self.caller.append(b"")  # a barrier: it writes nothing and tells registers
        assert answer.status == pb.Status.OK
        return {
            "keys": {kv.key: (kv.value, kv.mod_revision, kv.lease) for kv in kvs},
            "registers": answer.registers.SerializeToString(),
            "end": answer.commit.end,
            "content": await self.caller.content(),
            "files": {
                str(path.relative_to(self.root)): path.read_bytes()
                for top in ("fragments", "outside")
                for path in sorted((self.root / top).rglob("*"))
                if path.is_file()
            },
        }

    async def send(
        self, method: str, *messages: bytes, metadata: Any = None, patience: float = 10.0
    ) -> list[bytes]:
        """Call with bytes as they are; the answers, or the error.

        A client of gRPC that is refused while it still sends may know no more than that its own
        sending failed: then it asks again.
        """
        for _ in range(9):
            try:
                return await self._send(method, messages, metadata, patience)
            except grpc.aio.AioRpcError as error:
                if error.details() != "Internal error from Core":
                    raise
        return await self._send(method, messages, metadata, patience)

    async def _send(
        self, method: str, messages: Sequence[bytes], metadata: Any, patience: float
    ) -> list[bytes]:
        kind = METHODS[method]
        call = getattr(self.channel, kind)(f"/protocol.Journal/{method}")
        metadata = self.caller.metadata if metadata is None else metadata
        sent: Any = _each(messages) if kind.startswith("stream") else messages[0]
        running = call(sent, timeout=patience, metadata=metadata)
        is_one = kind.endswith("unary")
        answering = asyncio.create_task(_one(running) if is_one else _all(running))
        await asyncio.wait([answering])
        if answering.cancelled():  # what gRPC makes of a deadline while it still sends
            raise TimeoutError
        return answering.result()

    async def refusal(self, method: str, *messages: bytes, metadata: Any = None) -> str:
        """Why a call is refused: the name of a status, or a sentence."""
        try:
            answers = await self.send(method, *messages, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            return details_of(error)
        # A status that is not OK is the first field of an answer.
        assert answers
        assert answers[0].startswith(b"\x08"), (method, answers)
        return pb.Status.Name(answers[0][1])


def details_of(error: grpc.aio.AioRpcError) -> str:
    """The sentence of an error, which has to be one of a refusal."""
    assert error.code() in REFUSALS, error
    assert error.details()
    return error.details() or ""


async def _one(running: Any) -> list[bytes]:
    return [await running]


async def _all(running: Any) -> list[bytes]:
    return [answer async for answer in running]


async def _each(messages: Iterable[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


Story = Callable[[Witness], Awaitable[None]]


def unchanged(tmp_path: Path, story: Story, **settings: Any) -> None:
    """Tell a story to a broker with content, registers and a store; all must stay as it was."""

    async def told(there: Stage) -> None:
        async with witness(there, **settings) as seen:
            before = await seen.all_there_is()
            assert before["content"] == CONTENT
            await story(seen)
            assert await seen.all_there_is() == before
            # And it goes on: nothing was left behind that stands in the way of a good append.
            done = await seen.caller.append(b", and more", offset=len(CONTENT))
            assert (done.status, done.commit.begin) == (pb.Status.OK, len(CONTENT))

    play(tmp_path, told)


@asynccontextmanager
async def witness(there: Stage, **settings: Any) -> AsyncIterator[Witness]:
    for path in ("fragments/store", "outside"):
        (there.root / path).mkdir(parents=True)
    (there.root / "outside" / "secret").write_bytes(b"secret")
    (there.root / "fragments" / "link").symlink_to(there.root / "outside")
    server, caller = await there.broker(pulse_interval=600.0, **settings)
    if settings.get("auth_keys"):
        token = Authority(KEYS).sign(Capability(62), ttl=600)
        caller = await there.caller(server, metadata=(("authorization", f"Bearer {token}"),))
    await caller.apply(spec(stores=["file:///store/"]))
    await caller.appended(CONTENT[:4])
    done = await caller.append(CONTENT[4:], union_registers=labels(owner="us"))
    assert done.status == pb.Status.OK
    async with grpc.aio.insecure_channel(server.address) as channel:
        stored = there.root / "fragments/store/a/journal"

        async def is_stored() -> bool:  # the first fragment was closed by the second append
            names = os.listdir(stored) if stored.is_dir() else ["."]
            return bool(names) and not any(name.startswith(".") for name in names)

        await until(is_stored)
        yield Witness(server, caller, channel, there.root)


def request_of(method: str, journal: str = JOURNAL, header: pb.Header | None = None) -> bytes:
    """A good first message, but for what the test puts into it."""
    match method:
        case "Read":
            return pb.ReadRequest(journal=journal, header=header).SerializeToString()
        case "Append":
            return pb.AppendRequest(journal=journal, header=header).SerializeToString()
        case "ListFragments":
            return pb.FragmentsRequest(journal=journal, header=header).SerializeToString()
    proposal = pb.Fragment(journal=journal, compression_codec=pb.NONE)
    return pb.ReplicateRequest(
        header=header, proposal=proposal, registers=pb.LabelSet(), acknowledge=True
    ).SerializeToString()


# -- malformed frames ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_messages_that_are_spoiled_are_refused_and_change_nothing(
    tmp_path: Path, seed: int
) -> None:
    """Random bytes, and good messages cut, changed or grown, to each call."""
    dice = random.Random(seed)
    good = [data for data in committed().values() if len(data) > 4]

    def spoiled() -> bytes:
        if dice.random() < 0.3:
            return dice.randbytes(dice.randrange(1, 60))
        data = bytearray(dice.choice(good))
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(data) + 1)
            data[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        return bytes(data)

    async def story(seen: Witness) -> None:
        refused = 0
        for _ in range(30):
            for method in METHODS:
                sent = [spoiled() for _ in range(3 if "Append" in method else 1)]
                if method == "Apply" and _is_good_apply(sent[0]):
                    continue  # it is still one, and may do what it says
                try:
                    await seen.send(method, *sent, patience=0.3)
                except TimeoutError:
                    continue
                except grpc.aio.AioRpcError as error:
                    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                        continue  # it became a watch, or a read of what is still to come
                    details_of(error)
                    refused += 1
        assert refused > 100

    unchanged(tmp_path, story)


def _is_good_apply(data: bytes) -> bool:
    try:
        check_apply_request(pb.ApplyRequest.FromString(data))
    except (DecodeError, InvalidField):
        return False
    return True


def test_an_append_that_goes_wrong_anywhere_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story(seen: Witness) -> None:
        first = request_of("Append")
        chunk = pb.AppendRequest(content=b"never").SerializeToString()
        registers = pb.AppendRequest(journal=JOURNAL, union_registers=labels(owner="them"))
        for messages in (
            (),
            (b"",),
            (chunk,),
            (first,),
            (first, chunk),
            (first, chunk, first),
            (first, chunk, b"\xff\xff\xff"),
            (first, chunk, b"", chunk),
            (registers.SerializeToString(), b""),
            (registers.SerializeToString(), chunk),
            (registers.SerializeToString(), chunk, b"", b""),
        ):
            assert await seen.refusal("Append", *messages)

    unchanged(tmp_path, story)


@pytest.mark.parametrize("seed", range(3))
def test_frames_of_our_own_that_are_spoiled_are_dropped_and_change_nothing(
    tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    opening = frame(Kind.OPEN, Opening("Append", ()).encode())
    request = frame(Kind.MESSAGE, request_of("Append"))
    chunk = frame(Kind.MESSAGE, pb.AppendRequest(content=b"never").SerializeToString())
    mark, done = frame(Kind.MESSAGE, b""), frame(Kind.DONE, b"")

    def spoiled() -> bytes:
        match dice.randrange(4):
            case 0:
                return dice.randbytes(dice.randrange(1, 80))
            case 1:  # all of an append but its mark, in any order, so that it may never be one
                parts = [opening, request, chunk, done, frame(Kind.MESSAGE, b"\xff\xff")]
                dice.shuffle(parts)
                return b"".join(parts)
            case 2:
                return (opening + request + chunk)[: dice.randrange(5, 60)]
            case _:  # behind the mark there is more than the end
                return opening + request + chunk + mark + chunk + done

    async def story(seen: Witness) -> None:
        for _ in range(60):
            reader, writer = await asyncio.open_connection(*seen.server.address.split(":"))
            writer.write(HELLO + spoiled())
            await writer.drain()
            writer.write_eof()
            async with asyncio.timeout(10):
                answer = await reader.read()
            assert answer.startswith(HELLO)
            writer.close()

    unchanged(tmp_path, story)


# -- over-long names -------------------------------------------------------------------------------


def test_over_long_names_are_refused_by_every_call_and_change_nothing(tmp_path: Path) -> None:
    dice = random.Random(1)
    lengths = [513, 600, 5_000, *(dice.randrange(513, 50_000) for _ in range(5))]

    async def story(seen: Witness) -> None:
        header = (await seen.caller.read(metadata_only=True))[0].header
        for length in lengths:
            name = "n" * length
            for method in ("Read", "Append", "ListFragments", "Replicate"):
                sent = request_of(method, name, header)
                assert f"invalid length ({length};" in await seen.refusal(method, sent, b"")
            meta = request_of("Read", f"{JOURNAL};{name}")
            assert f"invalid length ({length};" in await seen.refusal("Read", meta)
            for change in (
                pb.ApplyRequest.Change(upsert=spec(name)),
                pb.ApplyRequest.Change(delete=name, expect_mod_revision=-1),
                pb.ApplyRequest.Change(
                    upsert=spec("b/journal", labels=pb.LabelSet(labels=[pb.Label(name=name)]))
                ),
            ):
                good = pb.ApplyRequest.Change(upsert=spec("c/journal"))
                sent = pb.ApplyRequest(changes=[good, change]).SerializeToString()
                assert f"invalid length ({length};" in await seen.refusal("Apply", sent)
            selector = pb.LabelSelector(include=pb.LabelSet(labels=[pb.Label(name=name)]))
            listing = pb.ListRequest(selector=selector).SerializeToString()
            assert f"invalid length ({length};" in await seen.refusal("List", listing)

    unchanged(tmp_path, story)


# -- another cluster -------------------------------------------------------------------------------


def test_requests_of_another_cluster_or_for_another_broker_change_nothing(tmp_path: Path) -> None:
    dice = random.Random(2)

    async def story(seen: Witness) -> None:
        ours = (await seen.caller.read(metadata_only=True))[0].header
        chunk = pb.AppendRequest(content=b"never").SerializeToString()
        for _ in range(20):
            foreign, stranger = pb.Header(), pb.Header()
            foreign.CopyFrom(ours)
            foreign.etcd.cluster_id = dice.randrange(1, 2**64)
            stranger.CopyFrom(ours)
            stranger.process_id.suffix = f"stranger-{dice.randrange(1_000)}"
            for header, told in ((foreign, "cluster"), (stranger, "stranger")):
                for method in ("Read", "Append", "ListFragments", "Replicate"):
                    sent = [request_of(method, header=header)]
                    sent += [chunk, b""] if method == "Append" else []
                    assert told in await seen.refusal(method, *sent)

    unchanged(tmp_path, story)


# -- messages that are too large -------------------------------------------------------------------


def test_messages_beyond_the_limit_are_refused_by_every_call_and_change_nothing(
    tmp_path: Path,
) -> None:
    dice = random.Random(3)

    async def story(seen: Witness) -> None:
        for size in [LIMIT + 1, *(dice.randrange(LIMIT + 1, 9 * LIMIT) for _ in range(3))]:
            for method in METHODS:
                # As a field that nobody knows, so that nothing else is wrong with it.
                large = bytes.fromhex("8a7d") + varint(size) + bytes(size)
                first = request_of("Append") if method == "Append" else b""
                sent = [first, large, b""] if first else [large]
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await seen.send(method, *sent)
                assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            content = pb.AppendRequest(content=bytes(size)).SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await seen.send("Append", request_of("Append"), content, b"")
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    unchanged(tmp_path, story, max_message_bytes=LIMIT)


def test_frames_beyond_the_limit_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def story(seen: Witness) -> None:
        opening = frame(Kind.OPEN, Opening("Append", ()).encode())
        content = pb.AppendRequest(content=bytes(LIMIT + 1)).SerializeToString()
        for large in (frame(Kind.MESSAGE, content), frame(Kind.OPEN, bytes(LIMIT + 1))):
            reader, writer = await asyncio.open_connection(*seen.server.address.split(":"))
            writer.write(HELLO + opening + frame(Kind.MESSAGE, request_of("Append")) + large[:9])
            await writer.drain()
            async with asyncio.timeout(10):  # it is refused before the rest of it is there
                answer = await reader.read()
            assert b"INVALID_ARGUMENT" in answer
            assert f"at most {LIMIT}".encode() in answer
            writer.close()

    unchanged(tmp_path, story, max_message_bytes=LIMIT)


# -- tokens ----------------------------------------------------------------------------------------


def test_bad_tokens_are_refused_by_every_call_and_change_nothing(tmp_path: Path) -> None:
    dice = random.Random(4)
    good = Authority(KEYS).sign(Capability(62), ttl=600)

    def tokens() -> Iterable[str]:
        yield from ("", "x", "..", "a.b.c", good[:-1], good + "A", good.replace(".", "", 1))
        yield Authority(OTHER_KEYS).sign(Capability(62), ttl=600)
        yield Authority(KEYS, now=lambda: 1_000_000.0).sign(Capability(62), ttl=600)
        head, body, signature = good.split(".")
        for _ in range(10):
            changed = list(body)
            changed[dice.randrange(len(changed))] = dice.choice("ABCDwxyz0189-_")
            if "".join(changed) != body:
                yield f"{head}.{''.join(changed)}.{signature}"
        unsigned = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
        yield f"{unsigned}.{body}."

    def headers() -> Iterable[Any]:
        yield ()
        yield (("authorization", good),)
        yield (("authorization", f"Basic {good}"),)
        for token in tokens():
            yield (("authorization", f"Bearer {token}"),)

    upsert = pb.ApplyRequest.Change(upsert=spec("b/journal"))
    delete = pb.ApplyRequest.Change(delete=JOURNAL, expect_mod_revision=-1)
    store = pb.FragmentStoreHealthRequest(fragment_store="file:///store/", check_delete=True)
    chunk = pb.AppendRequest(content=b"never").SerializeToString()

    async def story(seen: Witness) -> None:
        header = (await seen.caller.read(metadata_only=True))[0].header
        for metadata in headers():
            for method, messages in {
                "List": [b""],
                "Apply": [pb.ApplyRequest(changes=[upsert, delete]).SerializeToString()],
                "Read": [request_of("Read")],
                "Append": [request_of("Append"), chunk, b""],
                "Replicate": [request_of("Replicate", header=header)],
                "ListFragments": [request_of("ListFragments")],
                "FragmentStoreHealth": [store.SerializeToString()],
            }.items():
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await seen.send(method, *messages, metadata=metadata)
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
                details = refused.value.details() or ""
                assert "token" in details or "Bearer" in details
                assert good.rpartition(".")[2] not in details  # what it holds is not repeated

    unchanged(tmp_path, story, auth_keys=KEYS)


def test_frames_with_a_bad_token_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def story(seen: Witness) -> None:
        content = pb.AppendRequest(content=b"never").SerializeToString()
        messages = (request_of("Append"), content, b"")
        for metadata in ((), (("authorization", "Bearer a.b.c"),)):
            reader, writer = await asyncio.open_connection(*seen.server.address.split(":"))
            writer.write(HELLO + frame(Kind.OPEN, Opening("Append", metadata).encode()))
            writer.write(b"".join(frame(Kind.MESSAGE, one) for one in messages))
            writer.write(frame(Kind.DONE, b""))
            writer.write_eof()
            async with asyncio.timeout(10):
                assert b"UNAUTHENTICATED" in await reader.read()
            writer.close()

    unchanged(tmp_path, story, auth_keys=KEYS)


# -- paths -----------------------------------------------------------------------------------------

TRICKS = [
    "file:///../outside/",
    "file:///store/../../outside/",
    "file:///%2e%2e/outside/",
    "file:///store/%2e%2e/%2e%2e/outside/",
    "file:///store/..%2f..%2foutside/",
    "file:///./store/",
    "file:///link/",
    "file:///store/../link/",
    "file:////outside/",
    "file://outside/",
    "file:///store/?find=.test/&replace=../../outside/",
    "file:///store/\x00/",
    "file:///store/..\\..\\outside/",
    "file:store/",
    "file:///store",
]
PREFIXES = ["../", "../../outside/", "/outside/", "a/../../../outside/", "a//b/", "./", "a\x00/"]


def test_stores_that_lead_elsewhere_are_refused_and_no_file_is_touched(tmp_path: Path) -> None:
    dice = random.Random(5)
    parts = ["..", ".", "%2e%2e", "%2E.", "store", "link", "outside", "", "..%2f..", "\\.."]
    mixed = [f"file:///{'/'.join(dice.choices(parts, k=4))}/" for _ in range(60)]

    async def story(seen: Witness) -> None:
        for url in [*TRICKS, *mixed]:
            health = pb.FragmentStoreHealthRequest(fragment_store=url, check_delete=True)
            assert await seen.refusal("FragmentStoreHealth", health.SerializeToString()), url
        for prefix in PREFIXES:
            health = pb.FragmentStoreHealthRequest(
                fragment_store="file:///store/", check_delete=True, check_delete_prefix=prefix
            )
            refused = await seen.refusal("FragmentStoreHealth", health.SerializeToString())
            is_told = refused.startswith("CheckDeletePrefix: ")
            assert is_told or refused == "FRAGMENT_STORE_UNHEALTHY"
        assert os.listdir(seen.root / "outside") == ["secret"]

    unchanged(tmp_path, story)


def _is_up(url: str) -> bool:
    """Whether the path itself says so; a replacement is found out when it is made."""
    return "?" not in url and ("/../" in url or "%2e" in url)


def test_specs_whose_names_stores_or_postfixes_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    bad = [
        *(spec("b/journal", stores=[url]) for url in TRICKS if _is_up(url)),
        *(spec(name) for name in ("../outside", "a/../../x", "/outside/x", "a//b", "a/./b")),
        *(
            spec("b/journal", path_postfix_template=template)
            for template in ("../up", "/abs", "a/../../b", "{{ .Nope }}")
        ),
    ]

    async def story(seen: Witness) -> None:
        for one in bad:
            change = pb.ApplyRequest.Change(upsert=one, expect_mod_revision=-1)
            request = pb.ApplyRequest(changes=[change])
            assert await seen.refusal("Apply", request.SerializeToString()), one
        for name in ("../outside/secret", "a/../../outside/secret", "/outside/secret", "link/x#"):
            for method in ("Read", "Append", "ListFragments"):
                assert await seen.refusal(method, request_of(method, name), b"")

    unchanged(tmp_path, story)

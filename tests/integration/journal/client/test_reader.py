"""One read, message by message: what the broker says and what the reader makes of it."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
import grpc
import pytest

from tests.fixtures.journal_server import Fault, JournalServer
from tests.integration.journal.client.serving import JOURNAL, with_server
from windrow.errors import Unreachable, WindrowError
from windrow.journal.client.client import JournalClient
from windrow.journal.client.errors import (
    CallFailed,
    FragmentTorn,
    FragmentUnreachable,
    OffsetJump,
)
from windrow.journal.client.reader import Reader
from windrow.journal.client.requests import Chunk, ReadRequest
from windrow.journal.codec import Codec
from windrow.journal.errors import JournalStatusError, OffsetNotYetAvailable
from windrow.journal.fragments.errors import CorruptFragment
from windrow.journal.messages import codec_to_pb
from windrow.journal.status import Status
from windrow.journal.wire import protocol_pb2 as pb

CONTENT = bytes(range(256)) * 1000


def scripted(server: JournalServer, *messages: pb.ReadResponse) -> None:
    """Have the server answer every read with exactly these messages."""
    if messages:
        messages[0].header.CopyFrom(server.header())

    async def read(request: Any, context: Any) -> AsyncIterator[pb.ReadResponse]:
        server.calls.append(("Read", request))
        for message in messages:
            yield message

    server.reads = read


def described(begin: int, end: int, offset: int, url: str = "") -> pb.ReadResponse:
    fragment = pb.Fragment(journal=JOURNAL, begin=begin, end=end, compression_codec=pb.NONE)
    fragment.sum.part1 = 1
    return pb.ReadResponse(offset=offset, write_head=end, fragment=fragment, fragment_url=url)


def content(offset: int, text: bytes) -> pb.ReadResponse:
    return pb.ReadResponse(offset=offset, content=text)


async def outcome(reader: Reader) -> list[Chunk | str]:
    """Every chunk, and every error by its name until one repeats or the call ends."""
    seen: list[Chunk | str] = []
    while True:
        try:
            chunk = await reader.next()
        except WindrowError as error:
            seen.append(type(error).__name__)
            if not isinstance(error, OffsetJump):
                return seen
            continue
        if chunk is None:
            return seen
        seen.append(chunk)


@pytest.mark.parametrize(
    ("offset", "messages", "expected"),
    [
        (0, [], []),
        (0, [described(0, 9, 0)], []),
        (
            0,
            [described(0, 9, 0), content(0, b"abc"), content(3, b"def")],
            [Chunk(0, b"abc"), Chunk(3, b"def")],
        ),
        (
            0,
            [described(0, 3, 0), content(0, b"abc"), described(3, 6, 3), content(3, b"def")],
            [Chunk(0, b"abc"), Chunk(3, b"def")],
        ),
        (-1, [described(0, 9, 7), content(7, b"ab")], [Chunk(7, b"ab")]),
        (2, [described(5, 9, 5), content(5, b"abcd")], ["OffsetJump", Chunk(5, b"abcd")]),
        (
            0,
            [described(0, 9, 0), content(0, b"abc"), content(5, b"f"), content(6, b"g")],
            [Chunk(0, b"abc"), "OffsetJump", Chunk(5, b"f"), Chunk(6, b"g")],
        ),
        (5, [described(0, 9, 3)], ["InvalidAnswer"]),
        (
            0,
            [described(0, 9, 0), content(0, b"abc"), content(1, b"x")],
            [Chunk(0, b"abc"), "InvalidAnswer"],
        ),
        (0, [described(3, 9, 0)], ["InvalidAnswer"]),
        (0, [pb.ReadResponse(offset=0)], ["InvalidAnswer"]),
        (0, [pb.ReadResponse(status=pb.JOURNAL_NOT_FOUND)], ["JournalNotFound"]),
        (
            0,
            [described(0, 9, 0), content(0, b"abc"), pb.ReadResponse(status=pb.SUSPENDED)],
            [Chunk(0, b"abc"), "Suspended"],
        ),
    ],
)
def test_what_a_broker_says_is_what_is_read(
    offset: int, messages: list[pb.ReadResponse], expected: list[Chunk | str]
) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        scripted(server, *messages)
        assert await outcome(client.reader(ReadRequest(JOURNAL, offset))) == expected

    with_server(test)


def test_a_jump_names_what_is_gone_and_the_reader_goes_on_behind_it() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        scripted(server, described(5, 9, 5), content(5, b"abcd"))
        reader = client.reader(ReadRequest(JOURNAL, 2))
        with pytest.raises(OffsetJump, match=r"\[2, 5\)") as raised:
            await reader.next()
        assert (raised.value.offset, raised.value.to) == (2, 5)
        assert await reader.next() == Chunk(5, b"abcd")

    with_server(test)


def test_content_that_came_before_an_error_is_given_and_then_the_error() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        async def read(request: Any, context: Any) -> AsyncIterator[pb.ReadResponse]:
            first = described(0, 9, 0)
            first.header.CopyFrom(server.header())
            yield first
            yield content(0, b"part")
            await context.abort(grpc.StatusCode.UNKNOWN, "disk on fire")

        server.reads = read
        reader = client.reader(ReadRequest(JOURNAL))
        assert await reader.next() == Chunk(0, b"part")
        with pytest.raises(CallFailed, match="disk on fire"):
            await reader.next()
        assert reader.offset == 4

    with_server(test)


def test_what_describes_a_fragment_stands_for_all_of_its_content() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        scripted(
            server,
            described(0, 6, 2),
            content(2, b"cd"),
            content(4, b"ef"),
            described(6, 9, 6),
            content(6, b"ghi"),
        )
        reader = client.reader(ReadRequest(JOURNAL, 2))
        seen = []
        while (chunk := await reader.next()) is not None:
            assert reader.fragment is not None
            seen.append((chunk.offset, reader.fragment.begin, reader.fragment.end))
        assert seen == [(2, 0, 6), (4, 0, 6), (6, 6, 9)]
        assert reader.write_head == 9

    with_server(test)


def test_a_read_tells_where_the_next_one_goes() -> None:
    """Its first message carries the route, which is kept."""

    async def test(server: JournalServer, client: JournalClient) -> None:
        async with JournalServer() as member:
            member.journals = server.journals
            await client.append(JOURNAL, b"12345")
            member.route = server.route = member.own_route()
            before = len(server.calls)
            for _ in range(3):
                assert await client.read(JOURNAL) == b"12345"
            assert len(server.calls) == before + 1
            assert [rpc for rpc, _ in member.calls] == ["Read", "Read"]

    with_server(test)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_every_status_of_a_read_has_its_error(status: Status) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Read"].append(Fault(status=status))
        with pytest.raises(JournalStatusError) as raised:
            await client.reader(ReadRequest(JOURNAL)).next()
        assert raised.value.status is status

    with_server(test)


def test_a_read_at_the_head_tells_where_that_is() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"12345")
        with pytest.raises(OffsetNotYetAvailable, match="write head is 5") as raised:
            await client.reader(ReadRequest(JOURNAL, 5)).next()
        assert raised.value.write_head == 5
        assert await client.write_head(JOURNAL) == 5

    with_server(test)


def test_nothing_beyond_the_end_offset_is_given() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        scripted(server, described(0, 9, 0), content(0, b"abcdef"), content(6, b"ghi"))
        reader = client.reader(ReadRequest(JOURNAL, 0, end_offset=4))
        assert await outcome(reader) == [Chunk(0, b"abcd")]

    with_server(test)


def test_metadata_alone_says_which_fragment_it_is() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        await client.append(JOURNAL, b"12345")
        reader = client.reader(ReadRequest(JOURNAL, 2, metadata_only=True))
        assert await reader.next() is None
        assert reader.fragment is not None
        assert (reader.fragment.begin, reader.fragment.end, reader.write_head) == (0, 5, 5)

    with_server(test)


def test_a_broker_that_is_lost_is_unreachable() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        server.faults["Read"].append(Fault(code=grpc.StatusCode.UNAVAILABLE))
        with pytest.raises(Unreachable, match="broker"):
            await client.reader(ReadRequest(JOURNAL)).next()

    with_server(test)


# -- stored fragments, read from their store -------------------------------------------------------


def stored(server: JournalServer, url: str, codec: int, begin: int = 0) -> None:
    fragment = pb.Fragment(
        journal=JOURNAL,
        begin=begin,
        end=begin + len(CONTENT),
        compression_codec=codec_to_pb(Codec(codec)),
        backing_store="file:///",
    )
    fragment.sum.part1 = 1
    journal = server.journals[JOURNAL]
    journal.content[:] = bytes(begin) + CONTENT + b"tail"
    journal.fragments = [(fragment, url)]


def two_members(data: bytes) -> bytes:
    return gzip.compress(data[:1000]) + gzip.compress(data[1000:])


CODECS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (pb.NONE, lambda data: data),
    (pb.GZIP, two_members),
    (pb.ZSTANDARD, lambda data: bytes(cramjam.zstd.compress(data))),
    (pb.SNAPPY, lambda data: bytes(cramjam.snappy.compress(data))),
]


@pytest.mark.parametrize(("codec", "compress"), CODECS)
@pytest.mark.parametrize("offset", [100, 100 + 4711])
def test_a_stored_fragment_is_read_from_its_file(
    tmp_path: Path, codec: int, compress: Callable[[bytes], bytes], offset: int
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a fragment").write_bytes(compress(CONTENT))

    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, "file:///store/a%20fragment", codec, begin=100)
        reader = client.reader(ReadRequest(JOURNAL, offset, direct=True))
        chunks = [c for c in await outcome(reader) if isinstance(c, Chunk)]
        assert b"".join(c.content for c in chunks) == CONTENT[offset - 100 :]
        assert chunks[0].offset == offset
        assert server.calls[-1][1].do_not_proxy

    with_server(test, file_root=tmp_path)


def test_reading_goes_on_through_the_broker_behind_a_stored_fragment(tmp_path: Path) -> None:
    (tmp_path / "fragment").write_bytes(CONTENT)

    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, "file:///fragment", pb.NONE)
        assert await client.read(JOURNAL, direct=True) == CONTENT + b"tail"
        assert await client.read(JOURNAL, 10, 20, direct=True) == CONTENT[10:20]

    with_server(test, file_root=tmp_path)


@pytest.mark.parametrize(
    ("written", "error"),
    [(CONTENT[:-1], FragmentTorn), (CONTENT + b"x", FragmentTorn)],
)
def test_a_file_of_the_wrong_length_is_torn(
    tmp_path: Path, written: bytes, error: type[WindrowError]
) -> None:
    (tmp_path / "fragment").write_bytes(written)

    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, "file:///fragment", pb.NONE)
        reader = client.reader(ReadRequest(JOURNAL, direct=True))
        assert (await outcome(reader))[-1] == error.__name__

    with_server(test, file_root=tmp_path)


def test_a_file_cut_off_inside_its_compression_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "fragment").write_bytes(gzip.compress(CONTENT)[:-4])

    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, "file:///fragment", pb.GZIP)
        reader = client.reader(ReadRequest(JOURNAL, direct=True))
        assert (await outcome(reader))[-1] == CorruptFragment.__name__

    with_server(test, file_root=tmp_path)


@pytest.mark.parametrize(
    "url", ["file:///../secret", "file:///%2e%2e/secret", "gs://bucket/fragment", "file:///link"]
)
def test_a_url_that_leads_elsewhere_is_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")

    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, url, pb.NONE)
        with pytest.raises(FragmentUnreachable):
            await client.reader(ReadRequest(JOURNAL, direct=True)).next()

    with_server(test, file_root=tmp_path / "root")


def test_without_a_root_the_client_says_what_to_set() -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, "file:///fragment", pb.NONE)
        with pytest.raises(FragmentUnreachable, match="file_root"):
            await client.reader(ReadRequest(JOURNAL, direct=True)).next()

    with_server(test)


@pytest.fixture
def store_url(tmp_path: Path) -> Iterator[str]:
    """An HTTP server over ``tmp_path``; what ends in ``.packed`` it declares as gzip."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path))

        def end_headers(self) -> None:
            if self.path.endswith(".packed"):
                self.send_header("Content-Encoding", "gzip")
            super().end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "codec", "written"),
    [
        ("plain", pb.NONE, CONTENT),
        ("zipped", pb.GZIP, two_members(CONTENT)),
        ("sent.packed", pb.GZIP_OFFLOAD_DECOMPRESSION, gzip.compress(CONTENT)),
        ("unpacked", pb.GZIP_OFFLOAD_DECOMPRESSION, CONTENT),
    ],
)
def test_a_stored_fragment_is_fetched_by_http(
    tmp_path: Path, store_url: str, name: str, codec: int, written: bytes
) -> None:
    (tmp_path / name).write_bytes(written)

    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, f"{store_url}/{name}", codec)
        assert await client.read(JOURNAL, 5, direct=True) == CONTENT[5:] + b"tail"

    with_server(test)


def test_a_store_that_lacks_the_fragment_is_unreachable(store_url: str) -> None:
    async def test(server: JournalServer, client: JournalClient) -> None:
        stored(server, f"{store_url}/gone", pb.NONE)
        with pytest.raises(Unreachable, match="404"):
            await client.reader(ReadRequest(JOURNAL, direct=True)).next()

    with_server(test)

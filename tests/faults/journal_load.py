"""Writers and readers of journals, as one process that nobody kills: it keeps the ledger.

Started with the path of a ``LoadPlan`` as JSON. It works until the file ``stop`` appears beside the
plan, then reads every journal whole from every broker, and leaves:

- ``appends``: every append of every writer, as ``windrow.verify.journal_ledger`` has them, with the
  moment behind each line; ``ledger``: the same for the counting of faults.
- ``acked``: how many were acknowledged so far.
- ``read-<journal>-<broker>``: the journal as that broker gave it out in the end.
- ``seen-<journal>``: how far readers have seen it so far.
- ``changes``: bytes that were seen by a reader and were not the same later.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from hashlib import sha1
from pathlib import Path
from random import Random

from tests.faults.until_told import is_told_to_stop
from windrow.errors import OutcomeUnknown, WindrowError
from windrow.journal.client.client import JournalClient
from windrow.journal.client.errors import OffsetJump
from windrow.journal.client.requests import AppendRequest, Committed, ReadRequest, Upsert
from windrow.journal.errors import AppendUnknown
from windrow.journal.spec import Codec, FragmentSpec, JournalSpec
from windrow.lines import append, open_lines
from windrow.verify import Ledger
from windrow.verify import journal_ledger as lines
from windrow.verify.journal_contents import make_content
from windrow.verify.journal_ledger import Append
from windrow.verify.sightings import Sightings

ATTEMPT_TIMEOUT = 3.0
"""Longer than a peer may take, so that a primary can say itself what went wrong."""
FRAGMENT_LENGTH = 1 << 20
READ_FOR = 0.8
OVERLAP = 20_000


@dataclass(frozen=True)
class LoadPlan:
    """What to do. ``endpoints`` are the brokers; ``links`` lead to them, in the same order."""

    journals: list[str]
    endpoints: list[str]
    links: list[str]
    seed: int = 0
    retries: bool = False
    """Whether the client tries again by itself, and nothing but an acknowledgement will do."""
    pace: float = 0.02
    patience: float = 60.0
    """Seconds for a whole read of a journal in the end."""
    large: int = 300_000

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> LoadPlan:
        return cls(**json.loads(path.read_text()))


def spec_of(journal: str) -> JournalSpec:
    """Two replicas, and fragments that fill in seconds."""
    fragment = FragmentSpec(
        length=FRAGMENT_LENGTH, codec=Codec.NONE, stores=("file:///",), refresh_interval=1.0
    )
    return JournalSpec(journal, replication=2, fragment=fragment)


class Account:
    """The ledger of all writers, on disk."""

    def __init__(self, directory: Path) -> None:
        self._ledger = Ledger(directory / "ledger")
        self._appends = open_lines(directory / "appends")
        self._acked = os.open(directory / "acked", os.O_RDWR | os.O_CREAT, 0o644)
        self.acked = 0
        self.spans: dict[str, list[tuple[int, int, bytes]]] = {}

    def maybe(self, journal: str, one: Append) -> None:
        self._ledger.maybe([(f"{journal} {one.writer}", one.number)])
        self._write(lines.maybe_line(journal, one))

    def on_acked(self, journal: str, one: Append, committed: Committed) -> None:
        fragment = committed.fragment
        self._ledger.written([(f"{journal} {one.writer}", one.number)])
        self._write(lines.acked_line(journal, one, fragment.begin, fragment.end, fragment.sum))
        self.spans.setdefault(journal, []).append((fragment.begin, fragment.end, one.sum))
        self.acked += 1
        os.pwrite(self._acked, b"%d" % self.acked, 0)

    def on_refused(self, journal: str, one: Append, why: str) -> None:
        self._ledger.undone([(f"{journal} {one.writer}", one.number)])
        self._write(lines.refused_line(journal, one), why)

    def on_unknown(self, journal: str, one: Append, why: str) -> None:
        self._write(lines.maybe_line(journal, one), why)

    def _write(self, line: str, why: str = "") -> None:
        told = json.loads(line) + [round(time.monotonic(), 4)] + ([why] if why else [])
        append(self._appends, json.dumps(told).encode() + b"\n")


class Writer:
    """Sends one append after the other to one journal."""

    def __init__(self, load: Load, journal: str, name: str, client: JournalClient) -> None:
        self.load, self.journal, self.name, self.client = load, journal, name, client
        self.random = Random(f"{load.plan.seed} {journal} {name}")
        self.number = 0

    async def run(self) -> None:
        while not self.load.is_stopping:
            try:
                await self.write_one()
            except WindrowError:
                # The cluster is between two routes, or the broker is gone: look again soon.
                await asyncio.sleep(self.random.uniform(0.03, 0.1))
            await asyncio.sleep(self.random.uniform(0.25, 1.75) * self.load.plan.pace)

    async def write_one(self) -> None:
        content = make_content(self.name, self.number, self.size())
        one = Append(self.name, self.number, sha1(content, usedforsecurity=False).digest())
        self.number += 1
        account = self.load.account
        account.maybe(self.journal, one)
        try:
            committed = await self.send(content)
        except OutcomeUnknown as error:
            account.on_unknown(self.journal, one, str(error))
            raise
        except WindrowError as error:
            account.on_refused(self.journal, one, str(error))
            raise
        if committed is None:
            account.on_refused(self.journal, one, "given up")
        else:
            account.on_acked(self.journal, one, committed)

    def size(self) -> int:
        return self.random.randrange(40, 4_000)

    async def send(self, content: bytes) -> Committed | None:
        if self.load.plan.retries:
            return await self.client.append(self.journal, content)
        request = AppendRequest(self.journal)
        return await self.client.append_once(request, content, ATTEMPT_TIMEOUT)


class StreamingWriter(Writer):
    """Sends in pieces, with the others' appends in between; sometimes more than fits a group."""

    def size(self) -> int:
        if self.random.random() < 0.05:
            return self.load.plan.large
        return self.random.randrange(10_000, 50_000)

    async def send(self, content: bytes) -> Committed | None:
        if self.load.plan.retries:
            return await super().send(content)
        appender = self.client.appender(self.journal, attempt_timeout=ATTEMPT_TIMEOUT)
        async with appender:
            for begin in range(0, len(content), 16_384):
                await appender.write(content[begin : begin + 16_384])
                await asyncio.sleep(self.random.uniform(0.0, 0.006))
        return appender.committed


class ContraryWriter(Writer):
    """Sends what must never be seen: appends without their commit mark, or that are refused."""

    async def send(self, content: bytes) -> Committed | None:
        await asyncio.sleep(self.load.plan.pace * 3)
        if self.random.random() < 0.3:
            request = AppendRequest(self.journal, offset=1)
            return await self.client.append_once(request, content, ATTEMPT_TIMEOUT)
        appender = self.client.appender(self.journal, attempt_timeout=ATTEMPT_TIMEOUT)
        await appender.write(content)
        await asyncio.sleep(self.random.uniform(0.0, 0.01))
        if self.random.random() < 0.5:
            appender.cancel()
        else:
            await appender.abort()
        return None


class Watcher:
    """Reads one journal as it grows, from one broker after the other, and each stretch twice."""

    def __init__(self, load: Load, journal: str) -> None:
        self.load, self.journal = load, journal
        self.random = Random(f"{load.plan.seed} {journal}")
        self.sightings = Sightings()
        name = f"seen-{load.plan.journals.index(journal)}"
        self._seen = os.open(load.directory / name, os.O_RDWR | os.O_CREAT, 0o644)

    async def run(self) -> None:
        while not self.load.is_stopping:
            address = await self._choose()
            try:
                async with (
                    asyncio.timeout(READ_FOR),
                    JournalClient(address, follow_routes=False) as client,
                ):
                    await self._follow(client)
            except (TimeoutError, WindrowError):
                await asyncio.sleep(0.02)

    async def _choose(self) -> str:
        """Mostly a member that is not the primary; now and then any broker."""
        addresses = self.load.plan.endpoints
        if self.random.random() < 0.4:
            return self.random.choice(addresses)
        try:
            async with asyncio.timeout(1.0), JournalClient(addresses) as client:
                listing = await client.list(f"name={self.journal}")
        except (TimeoutError, WindrowError):
            return self.random.choice(addresses)
        route = listing.journals[0].route if listing.journals else None
        others = (
            [
                endpoint
                for member, endpoint in zip(route.members, route.endpoints, strict=True)
                if endpoint and member != route.primary_id
            ]
            if route is not None
            else []
        )
        return self.random.choice(others or addresses)

    async def _follow(self, client: JournalClient) -> None:
        offset = max(0, self.sightings.end - self.random.randrange(OVERLAP))
        request = ReadRequest(self.journal, offset, block=True)
        async with client.retry_reader(request) as reader:
            while not self.load.is_stopping:
                try:
                    chunk = await reader.next()
                except OffsetJump:
                    return  # elsewhere it may be there; in the end it must be
                if chunk is not None:
                    self.sightings.saw(chunk.offset, chunk.content)
                    os.pwrite(self._seen, b"%d" % self.sightings.end, 0)


class Prober:
    """Reads acknowledged appends again, at any broker and any time."""

    def __init__(self, load: Load) -> None:
        self.load, self.random = load, Random(f"{load.plan.seed} prober")
        self.differing: list[str] = []

    async def run(self) -> None:
        while not self.load.is_stopping:
            await asyncio.sleep(0.05)
            spans = self.load.account.spans
            if not spans:
                continue
            journal = self.random.choice(sorted(spans))
            await self._probe(journal, *self.random.choice(spans[journal][-2000:]))

    async def _probe(self, journal: str, begin: int, end: int, expected: bytes) -> None:
        address = self.random.choice(self.load.plan.endpoints)
        request = ReadRequest(journal, begin, block=True, end_offset=end)
        try:
            async with (
                asyncio.timeout(2.0),
                JournalClient(address, follow_routes=False) as client,
                client.retry_reader(request) as reader,
            ):
                content = b"".join([chunk.content async for chunk in reader])
        except (TimeoutError, WindrowError):
            return
        found = sha1(content, usedforsecurity=False).digest()
        if found != expected:
            told = f"{journal} [{begin}, {end}) at {address}: {found.hex()}, not {expected.hex()}"
            self.differing.append(told)


class Load:
    """All writers and readers."""

    def __init__(self, plan: LoadPlan, directory: Path) -> None:
        self.plan, self.directory = plan, directory
        self.account = Account(directory)
        self.is_stopping = False
        self.watchers = {journal: Watcher(self, journal) for journal in plan.journals}
        self.prober = Prober(self)

    async def run(self) -> None:
        async with (
            JournalClient(self.plan.endpoints) as near,
            # Otherwise every append of it takes the way through a broker that need not be primary.
            JournalClient(self.plan.links, follow_routes=self.plan.retries) as linked,
        ):
            await near.apply([Upsert(spec_of(journal), -1) for journal in self.plan.journals])
            writers: list[Writer] = []
            for journal in self.plan.journals:
                writers += [
                    Writer(self, journal, "direct", near),
                    Writer(self, journal, "linked", linked),
                    StreamingWriter(self, journal, "streaming", near),
                ]
                if not self.plan.retries:
                    writers.append(ContraryWriter(self, journal, "contrary", linked))
            runs = [asyncio.create_task(writer.run()) for writer in writers]
            runs += [asyncio.create_task(watcher.run()) for watcher in self.watchers.values()]
            runs.append(asyncio.create_task(self.prober.run()))
            while not is_told_to_stop(self.directory):
                await asyncio.sleep(0.05)
                if failed := [run for run in runs if run.done()]:
                    failed[0].result()
                    raise AssertionError("a part of the load ended by itself")
            self.is_stopping = True
            await asyncio.gather(*runs)
        await self._conclude()

    async def _conclude(self) -> None:
        changes = [f"probe of {told}" for told in self.prober.differing]
        for journal, watcher in self.watchers.items():
            contents = [
                await self._read_whole(journal, number)
                for number in range(len(self.plan.endpoints))
            ]
            for content in contents:
                watcher.sightings.close(content)
            changes += [f"{journal} at {c.offset}: {c.why}" for c in watcher.sightings.changes]
        (self.directory / "changes").write_text(json.dumps(changes))

    async def _read_whole(self, journal: str, broker: int) -> bytes:
        content = b""
        async with JournalClient(self.plan.endpoints[broker], follow_routes=False) as client:
            try:
                async with asyncio.timeout(self.plan.patience):
                    head = (await self._barrier(client, journal)).end
                    request = ReadRequest(journal, 0, block=True, end_offset=head)
                    content = await self._read(client, request)
            except (TimeoutError, WindrowError) as error:
                print(f"{journal} cannot be read whole: {error!r}", file=sys.stderr)
        name = f"read-{self.plan.journals.index(journal)}-{broker}"
        (self.directory / name).write_bytes(content)
        return content

    async def _barrier(self, client: JournalClient, journal: str) -> Committed:
        while True:
            try:
                return await client.append(journal)
            except AppendUnknown:
                await asyncio.sleep(0.1)

    async def _read(self, client: JournalClient, request: ReadRequest) -> bytes:
        while True:
            try:
                async with client.retry_reader(request) as reader:
                    return b"".join([chunk.content async for chunk in reader])
            except OffsetJump:
                await asyncio.sleep(0.5)  # an upload, or the listing of it, is on its way


if __name__ == "__main__":
    plan_path = Path(sys.argv[1])
    asyncio.run(Load(LoadPlan.load(plan_path), plan_path.parent).run())

"""How fast content gets onto three disks, and back out of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from windrow.bench.errors import NotDelivered
from windrow.bench.journal.stage import Stage

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient

MEBIBYTE = 1 << 20
CHUNK = 64 * 1024
KIBIBYTE = 1024
REPLICATION = 3


def bulk_rate(stage: Stage, appends: int) -> float:
    """Megabytes a second of appends of 16 MiB, in chunks of 64 KiB."""

    async def work() -> float:
        async with stage.client() as client:
            (journal,) = await stage.new_journals(client, 1, REPLICATION)
            chunk = bytes(CHUNK)
            began = time.perf_counter()
            for _ in range(appends):
                await client.append(journal, [chunk] * (16 * MEBIBYTE // CHUNK))
            seconds = time.perf_counter() - began
            _check(await client.write_head(journal), appends * 16 * MEBIBYTE)
            return appends * 16 * MEBIBYTE / seconds / 1e6

    return stage.run(work())


def record_rate(stage: Stage, records: int) -> float:
    """Records of 1 KiB a second through the batching client, all of them committed."""

    async def work() -> float:
        from windrow.journal.client.append_service import AppendService

        async with stage.client() as client:
            (journal,) = await stage.new_journals(client, 1, REPLICATION)
            service = AppendService(client)
            record = bytes(KIBIBYTE)
            began = time.perf_counter()
            for n in range(records):
                await service.enqueue(journal, record)
                if n % 1_000 == 0:
                    await asyncio.sleep(0)  # callers come from elsewhere: let others have a turn
            await service.flush()
            seconds = time.perf_counter() - began
            _check(await client.write_head(journal), records * KIBIBYTE)
            await service.close()
            return records / seconds

    return stage.run(work())


def small_appends(stage: Stage, clients: int, seconds: float) -> tuple[float, float]:
    """Appends of 1 KiB a second by so many clients at once, and the median time of one in ms."""

    async def work() -> tuple[float, float]:
        async with stage.client() as client:
            (journal,) = await stage.new_journals(client, 1, REPLICATION)
            times: list[float] = []
            content = bytes(KIBIBYTE)

            async def appending(until: float) -> None:
                while (began := time.perf_counter()) < until:
                    await client.append(journal, content)
                    times.append(time.perf_counter() - began)

            began = time.perf_counter()
            await asyncio.gather(*(appending(began + seconds) for _ in range(clients)))
            took = time.perf_counter() - began
            await _await_end(client, journal, len(times) * KIBIBYTE)
            return len(times) / took, median(times) * 1000

    return stage.run(work())


def read_rate(stage: Stage, mebibytes: int) -> float:
    """Megabytes a second that one reader gets from a broker's own spool."""

    async def work() -> float:
        async with stage.client() as client:
            (journal,) = await stage.new_journals(client, 1, REPLICATION)
            for _ in range(mebibytes // 16):
                await client.append(journal, list(_chunks(16 * MEBIBYTE)))
            end = await client.write_head(journal)
            began = time.perf_counter()
            content = await client.read(journal, 0, end)
            seconds = time.perf_counter() - began
            _check(len(content), end)
            return end / seconds / 1e6

    return stage.run(work())


def _chunks(length: int) -> Iterator[bytes]:
    for begin in range(0, length, CHUNK):
        yield begin.to_bytes(8, "big") * (CHUNK // 8)


async def _await_end(client: JournalClient, journal: str, expected: int) -> None:
    """See that all is there; a replica may show the last append a moment later."""
    for _ in range(100):
        if await client.write_head(journal) == expected:
            return
        await asyncio.sleep(0.005)
    _check(await client.write_head(journal), expected)


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise NotDelivered(f"the journal ends at {found} instead of {expected}", 0)

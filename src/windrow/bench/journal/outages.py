"""What a cluster costs while nothing happens, and how long it stands still when a broker dies."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from windrow.bench.journal.stage import Stage
from windrow.journal.errors import AppendUnknown

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient


def idle_cpu(stage: Stage, journals: int, seconds: float) -> float:
    """Percent of a processor that one broker takes with so many journals and nothing to do."""

    async def work() -> float:
        async with stage.client() as client:
            await stage.new_journals(client, journals, 1)
            await asyncio.sleep(5.0)  # what making them set off has to be over
            before = stage.cpu_seconds()
            await asyncio.sleep(seconds)
            return (stage.cpu_seconds() - before) / seconds / len(stage.brokers) * 100

    return stage.run(work())


def fail_over(stage: Stage) -> float:
    """Seconds from the kill of a journal's primary to the next append that commits."""

    async def work() -> float:
        async with stage.client() as client:
            (journal,) = await stage.new_journals(client, 1, 2)
            await client.append(journal, b"before")
            (listed,) = (await client.list(f"name={journal}")).journals
            primary = listed.route.primary_id
            assert primary is not None
            (broker,) = [b for b in stage.brokers if b.id == primary.suffix]
            broker.kill()
            killed = time.perf_counter()
            await _append(client, journal)
            return time.perf_counter() - killed

    seconds = stage.run(work())
    stage.heal()
    return seconds


async def _append(client: JournalClient, journal: str) -> None:
    """Append until it is known to have gone through; how often does not matter here."""
    while True:
        try:
            await client.append(journal, b"after", attempt_timeout=5.0)
            return
        except AppendUnknown:
            continue

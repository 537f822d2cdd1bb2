"""Durable spools against the real thing: kill -9, and disks that are full."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.journal.fragments.spooling import (
    Remembering,
    commit,
    durable_spool,
    everything,
    flush,
    fragment,
    recovered,
    roll,
)
from windrow.journal.fragments.errors import SpoolWriteFailed
from windrow.journal.fragments.spool import Spool
from windrow.journal.fragments.spool_file import DurableFiles

ROUNDS = 12

WRITER = """
import asyncio, os, random, sys
from pathlib import Path

from tests.unit.journal.fragments.spooling import Remembering, commit, roll
from windrow.journal.fragments import DurableFiles, Spool, recover_journal
from windrow.journal.labels import LabelSet

directory, seed = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)
files, observer = DurableFiles(directory), Remembering()
found = recover_journal(directory, "a/journal")
spool = found.resume(files, observer) if found else Spool("a/journal", files, observer)


async def flush_and_report():
    end = spool.fragment.end
    await spool.flush()
    print(end, flush=True)


async def run():
    tasks = set()
    while True:
        for _ in range(chance.randint(1, 4)):
            content = chance.randbytes(chance.choice([10, 1000, 70_000]))
            end = spool.fragment.end + len(content)
            commit(spool, content, LabelSet.of({"end": str(end)}), term=5)
            task = asyncio.create_task(flush_and_report())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if chance.random() < 0.15:
            roll(spool)
        await asyncio.sleep(chance.choice([0, 0, 0.001]))
        if len(tasks) > 20:
            await asyncio.gather(*tasks)


asyncio.run(run())
"""


def reported_until_killed(directory: Path, seed: int, seconds: float) -> int:
    """Start the writer, kill it after a while, and return the last end it reported as flushed."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert writer.stdout is not None
    first = writer.stdout.readline()
    assert first, "the writer ended before it committed anything"
    time.sleep(seconds)  # how long it runs is the point, not a wait for something
    writer.send_signal(signal.SIGKILL)
    lines = [first, *writer.stdout.read().split("\n")]
    writer.wait()
    writer.stdout.close()
    # The last line may be cut off in the middle: it was not reported.
    return max(int(line) for line in lines[:-1] if line)


def test_kill_9_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    chance = random.Random(20_240_307)
    reported = 0
    for seed in range(ROUNDS):
        reported = max(reported, reported_until_killed(tmp_path, seed, chance.uniform(0, 0.12)))
        found = recovered(tmp_path)
        spool = found.resume(DurableFiles(tmp_path), Remembering())
        assert spool.fragment.end >= reported
        assert spool.registers.value("end") == str(spool.fragment.end)
        assert spool.term == 5
        content = everything(spool)
        if content:
            assert hashlib.sha1(content).digest() == spool.fragment.sum
        covered = 0
        for completed in found.completed:
            assert completed.fragment.begin == covered
            covered = completed.fragment.end
        assert covered == spool.fragment.begin
        reported = spool.fragment.end


def fill(spool: Spool) -> None:
    for _ in range(10):
        spool.apply_content(b"x" * 20_000, spool.delta)


@pytest.mark.parametrize("room", [100_000, 33_000])
def test_file_that_may_not_grow_fails_the_append_and_not_the_spool(
    tmp_path: Path, room: int
) -> None:
    spool, _ = durable_spool(tmp_path)
    commit(spool, b"before")
    flush(spool)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(SpoolWriteFailed, match="File too large"):
            fill(spool)
        spool.rollback()
        commit(spool, b" after")
        flush(spool)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    commit(spool, b" all")
    flush(spool)
    again = recovered(tmp_path).resume(DurableFiles(tmp_path), Remembering())
    assert everything(again) == b"before after all"


def test_roll_that_finds_no_room_leaves_the_spool_as_it_was(tmp_path: Path) -> None:
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"before")
    flush(spool)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(SpoolWriteFailed, match="File too large"):
            roll(spool)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (spool.fragment, observer.completed) == (fragment(0, b"before"), [])
    commit(spool, b" after")
    roll(spool)
    flush(spool)
    assert [c.fragment.end for c in recovered(tmp_path).completed] == [12]


def test_reader_keeps_its_bytes_when_the_file_is_gone(tmp_path: Path) -> None:
    spool, observer = durable_spool(tmp_path)
    commit(spool, b"content")
    held = spool.content
    roll(spool)
    flush(spool)
    observer.completed[0].on_persisted()
    observer.completed.clear()
    assert not os.path.exists(held.file.path)
    assert held.read_at(0, 7) == b"content"


def test_descriptors_are_let_go_with_their_last_holder(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    async def scenario() -> None:
        spool, observer = durable_spool(tmp_path)
        for _ in range(50):
            commit(spool, b"content")
            roll(spool)
            await spool.flush()
            observer.completed.pop().on_persisted()

    asyncio.run(scenario())
    assert len(os.listdir("/proc/self/fd")) <= before + 2

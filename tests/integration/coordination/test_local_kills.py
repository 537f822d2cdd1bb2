"""A local store whose process is killed at any moment keeps whatever it acknowledged."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.integration.coordination.local_writer import SLOTS
from windrow.coordination.errors import DirectoryInUse
from windrow.coordination.local import LocalStore
from windrow.coordination.store import Snapshot

ROOT = Path(__file__).parents[3]
KILLS = 12


def start_writer(directory: Path) -> subprocess.Popen[str]:
    module = "tests.integration.coordination.local_writer"
    return subprocess.Popen(
        [sys.executable, "-m", module, str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def acknowledged_until_killed(directory: Path, seconds: float) -> tuple[int, int]:
    """Let a writer work that long, kill it, and return the last number and revision it told."""
    with start_writer(directory) as writer:
        try:
            assert writer.stdout is not None
            lines = [writer.stdout.readline()]
            time.sleep(seconds)
            assert writer.poll() is None
        finally:
            writer.kill()
        lines += writer.stdout.readlines()
    if not lines[-1].endswith("\n"):
        lines.pop()  # killed amid the line
    number, revision = lines[-1].split()
    return int(number), int(revision)


def read_store(directory: Path) -> Snapshot:
    async def read() -> Snapshot:
        store = LocalStore(directory)
        try:
            return await store.load("")
        finally:
            await store.close()

    return asyncio.run(read())


def test_killed_process_loses_no_acknowledged_transaction_and_leaves_no_half_one(
    tmp_path: Path,
) -> None:
    random, last_revision = Random(7), 0
    for _ in range(KILLS):
        number, revision = acknowledged_until_killed(tmp_path, random.uniform(0.0, 0.15))
        snapshot = read_store(tmp_path)
        values = {kv.key: kv.value for kv in snapshot.kvs}
        found = int(values["counter"])
        # What was on its way when the process died may have happened, unknown to anybody.
        assert found in (number, number + 1)
        assert snapshot.revision == revision + (found - number) > last_revision
        for n in range(max(1, found - SLOTS + 1), found + 1):
            assert values[f"slot/{n % SLOTS}"] == str(n).encode() * 20
        last_revision = snapshot.revision


def test_store_of_a_living_process_is_refused_and_that_of_a_killed_one_is_not(
    tmp_path: Path,
) -> None:
    with start_writer(tmp_path) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline()
            with pytest.raises(DirectoryInUse):
                LocalStore(tmp_path)
        finally:
            writer.kill()
    assert read_store(tmp_path).kvs

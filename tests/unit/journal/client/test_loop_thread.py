from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from windrow.journal.client.loop_thread import LoopThread

FORK = """
import asyncio, os
from windrow.journal.client.loop_thread import LoopThread

LoopThread().stop()  # its loop waits for the next, in this process
if child := os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(LoopThread().run(asyncio.sleep(0, 7)))
"""

INTERRUPT = """
import asyncio, os, signal
from windrow.journal.client.loop_thread import LoopThread

async def items():
    try:
        yield "first"
        os.kill(os.getpid(), signal.SIGINT)  # whoever iterates waits for the second
        await asyncio.sleep(3600)
    finally:
        for _ in range(100):
            await asyncio.sleep(0)
        print("ended")

try:
    for item in LoopThread().iterate(items()):
        print(item)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_what_still_runs_is_ended_with_the_thread() -> None:
    """GRPC has tasks of its own; one that outlives its client would work for the next."""
    thread = LoopThread()

    async def leave_something() -> asyncio.Task[None]:
        return asyncio.create_task(asyncio.sleep(3600))

    task = thread.run(leave_something())
    thread.stop()
    assert task.cancelled()


def test_stopped_loop_runs_on_for_what_comes_late_and_for_the_next() -> None:
    first = LoopThread()
    first.stop()
    assert first.loop.is_running()
    second = LoopThread()
    assert second.loop is first.loop
    assert second.run(asyncio.sleep(0, 7)) == 7
    second.stop()


def test_stopped_thread_takes_no_more_work() -> None:
    """Its loop may be another's by now."""
    thread = LoopThread()
    thread.stop()
    with pytest.raises(RuntimeError, match="closed"):
        thread.run(asyncio.sleep(0))


def test_forked_process_takes_no_loop_whose_thread_stayed_behind() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], timeout=60, check=False)
    assert done.returncode == 7


def test_iteration_that_is_interrupted_ends_with_the_interrupt_and_not_before_its_items() -> None:
    """An end that takes more than one turn of the loop is waited for."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT], timeout=60, check=False, capture_output=True, text=True
    )
    assert (done.stdout.split(), done.stderr) == (["first", "ended", "interrupted"], "")

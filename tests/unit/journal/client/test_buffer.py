from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.client.buffer import SpillBuffer


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A full disk, as far as this process is concerned."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@given(
    pieces=st.lists(st.tuples(st.binary(max_size=30), st.booleans())),
    memory=st.integers(0, 60),
    size=st.integers(1, 20),
)
def test_what_was_written_and_not_rolled_back_comes_back(
    pieces: list[tuple[bytes, bool]], memory: int, size: int
) -> None:
    buffer, expected = SpillBuffer(memory), b""
    for content, is_kept in pieces:
        before = buffer.length
        buffer.write(content)
        if is_kept:
            expected += content
        else:
            buffer.roll_back(before)
    assert b"".join(buffer.chunks(size)) == expected
    assert b"".join(buffer.chunks(size)) == expected
    assert buffer.length == len(expected)
    buffer.close()


def test_much_content_goes_to_a_file_without_a_name() -> None:
    buffer = SpillBuffer(memory=10)
    before = set(os.listdir("/proc/self/fd"))
    buffer.write(b"0123456789")
    assert set(os.listdir("/proc/self/fd")) == before
    buffer.write(b"x")
    assert buffer.is_spilled
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    buffer.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_full_disk_costs_only_what_was_being_written() -> None:
    buffer = SpillBuffer(memory=0)
    buffer.write(b"kept")
    with files_of_at_most(100), pytest.raises(OSError, match="too large"):
        buffer.write(b"x" * 1000)
    buffer.roll_back(4)
    buffer.write(b" too")
    assert b"".join(buffer.chunks()) == b"kept too"
    buffer.close()


def test_a_disk_that_is_full_when_it_is_first_needed_leaves_memory_as_it_was() -> None:
    buffer = SpillBuffer(memory=10)
    buffer.write(b"kept")
    with files_of_at_most(1), pytest.raises(OSError, match="too large"):
        buffer.write(b"x" * 1000)
    assert b"".join(buffer.chunks()) == b"kept"
    buffer.close()

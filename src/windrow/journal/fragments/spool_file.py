"""The file under a spool: durable with two commit slots at its head, or anonymous.

A durable file is laid out as ``slot 0 | slot 1 | content``. Its name,
``<directory>/<escaped journal>/<generation>-<begin>.spool``, is new for every spool, so that
nothing durable is ever written over: neither content that a slot still vouches for, nor a whole
file. The generation grows with every file of a journal: that with the largest one is the last.

One sync makes any number of commits durable. Their content is in the page cache by then; the
record of the last of them goes into the slot that does *not* hold the last durable record, and one
``fdatasync`` takes both down. If the machine stops in between, the other slot still verifies. No
slot is written outside a sync: a record written while a sync runs would have to go over either the
record that is being made durable or the one that already is.

Space is taken ahead of the content in growing steps: a sync that does not also have to extend the
file has less of the file system's journal to wait for.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from windrow.journal.fragments.slot import SLOT_SIZE, CommitRecord, encode_slot

CONTENT_START = 2 * SLOT_SIZE
SUFFIX = ".spool"
QUARANTINED = ".quarantined"

_FIRST_STEP = 64 * 1024
_LAST_STEP = 16 * 1024 * 1024
_NAME_LIMIT = 200


class SpoolFile(Protocol):
    """Content of one spool, by position from its beginning. Valid while held, unlinked or not."""

    is_durable: bool
    path: str

    def write(self, content: bytes, position: int) -> None:
        """Write all of it. Raises OSError; what lies before ``position`` is untouched then."""

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""

    def sync(self, record: CommitRecord) -> None:
        """Make content and record durable. Blocks; raises OSError, after which nothing is known."""

    def release_space(self, length: int) -> None:
        """Give back what was taken ahead of ``length`` bytes of content."""

    def remove(self) -> None:
        """Unlink it; reading goes on."""

    def quarantine(self) -> None:
        """Rename it so that no recovery takes it up; reading goes on."""


class SpoolFiles(Protocol):
    """Makes the files of a broker's spools, and says where their syncs run."""

    is_durable: bool
    executor: Executor | None

    def create(self, journal: str, begin: int) -> SpoolFile:
        """A new, empty file. Raises OSError."""


class _File:
    """A descriptor that lives as long as somebody holds it."""

    def __init__(self, descriptor: int, path: str, content_start: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._content_start = content_start
        weakref.finalize(self, os.close, descriptor)

    def write(self, content: bytes, position: int) -> None:
        """Write all of it."""
        _write_all(self._descriptor, content, self._content_start + position)

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        return os.pread(self._descriptor, size, self._content_start + position)


class MemoryFile(_File):
    """An anonymous file: its content is gone with the process."""

    is_durable = False

    def sync(self, record: CommitRecord) -> None:
        """Nothing to do."""

    def release_space(self, length: int) -> None:
        """Nothing to do."""

    def remove(self) -> None:
        """Nothing to do: it has no name."""

    def quarantine(self) -> None:
        """Nothing to do: it has no name."""


class DurableFile(_File):
    """A named file whose head holds two commit slots, written in turn."""

    is_durable = True

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, path, CONTENT_START)
        self._sequence = 0
        self._is_named = False
        self._allocated = os.fstat(descriptor).st_size
        self._step = _FIRST_STEP

    def continue_after(self, sequence: int) -> None:
        """The record to build on is this one: the next must go into the other slot."""
        self._sequence = sequence
        self._is_named = True

    def write(self, content: bytes, position: int) -> None:
        """Write all of it, taking space ahead where the file has to grow."""
        self._take_space(CONTENT_START + position + len(content))
        super().write(content, position)

    def sync(self, record: CommitRecord) -> None:
        """Make content and record durable, and the file's name with the first record."""
        sequence = self._sequence + 1
        slot = encode_slot(replace(record, sequence=sequence))
        _write_all(self._descriptor, slot, sequence % 2 * SLOT_SIZE)
        os.fdatasync(self._descriptor)
        self._sequence = sequence
        if not self._is_named:
            # The journal's directory may be as new as the file. Here, since a sync has a thread.
            home = os.path.dirname(self.path)
            sync_directory(home)
            sync_directory(os.path.dirname(home))
            self._is_named = True

    def release_space(self, length: int) -> None:
        """Give back what was taken ahead of ``length`` bytes of content."""
        self._allocated = CONTENT_START + length
        # Only thrift: a file that keeps its spare space is as good.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._allocated)

    def remove(self) -> None:
        """Unlink it; reading goes on."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def quarantine(self) -> None:
        """Rename it so that no recovery takes it up; reading goes on."""
        with contextlib.suppress(FileNotFoundError):  # an upload was quicker, and it is gone
            self.path = set_aside(self.path)

    def _take_space(self, end: int) -> None:
        if end <= self._allocated:
            return
        step = max(self._step, end - self._allocated)
        # A disk too full for the step may still hold the content, which the write will tell.
        with contextlib.suppress(OSError):
            os.posix_fallocate(self._descriptor, self._allocated, step)
            self._allocated += step
            self._step = min(2 * self._step, _LAST_STEP)


class MemoryFiles:
    """Anonymous files in the machine's temporary directory: a restart begins from nothing."""

    is_durable = False
    executor: Executor | None = None

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def create(self, journal: str, begin: int) -> SpoolFile:
        """A new, empty file that no name leads to."""
        descriptor, path = tempfile.mkstemp(prefix="windrow-spool-", dir=self._directory)
        os.unlink(path)
        return MemoryFile(descriptor, f"(memory spool of {journal})", 0)


class DurableFiles:
    """Named files below one directory; their syncs run in one pool that all spools share."""

    is_durable = True

    def __init__(self, directory: Path, executor: Executor | None = None) -> None:
        self.directory = directory
        self.executor: Executor | None = executor or ThreadPoolExecutor(8, "windrow-spool-sync")

    def create(self, journal: str, begin: int) -> SpoolFile:
        """A new file with room for its slots, whose name is durable with its first sync."""
        home = self.directory / escaped(journal)
        home.mkdir(parents=True, exist_ok=True)
        path = str(home / f"{_last_generation(home) + 1:08x}-{begin:016x}{SUFFIX}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        return _unless_it_fails(descriptor, path)


def _unless_it_fails(descriptor: int, path: str) -> DurableFile:
    """The slots' space is taken now, so that a full disk is found before anything depends on it."""
    try:
        os.posix_fallocate(descriptor, 0, CONTENT_START)
    except OSError:
        os.close(descriptor)
        os.unlink(path)
        raise
    return DurableFile(descriptor, path)


def _last_generation(home: Path) -> int:
    """Of every file there is, those set aside too, so that no name is ever used twice."""
    generations = (name.split("-")[0] for name in os.listdir(home) if SUFFIX in name)
    return max((int(generation, 16) for generation in generations), default=0)


def escaped(journal: str) -> str:
    """The directory name of a journal. One-way for long names: the records hold the real one."""
    name = quote(journal, safe="")
    if len(name) <= _NAME_LIMIT:
        return name
    return f"{name[: _NAME_LIMIT - 65]}~{sha256(journal.encode()).hexdigest()}"


def set_aside(path: str) -> str:
    """Rename a spool file out of recovery's sight, durably, and return its new name."""
    number = 0
    aside = path + QUARANTINED
    while os.path.exists(aside):
        number += 1
        aside = f"{path}{QUARANTINED}-{number}"
    os.rename(path, aside)
    sync_directory(os.path.dirname(path))
    return aside


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes, position: int) -> None:
    written = os.pwrite(descriptor, content, position)
    while written < len(content):  # a signal, or a disk that is just full: ask again to learn which
        written += os.pwrite(descriptor, memoryview(content)[written:], position + written)

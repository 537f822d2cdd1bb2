"""What the tests of spools share: an observer that remembers, and appends in one line."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from windrow.journal.codec import Codec
from windrow.journal.fragment import ZERO_SUM, Fragment
from windrow.journal.fragments.content import CompletedSpool
from windrow.journal.fragments.errors import SpoolBroken
from windrow.journal.fragments.recover import RecoveredSpool, recover_spools
from windrow.journal.fragments.spool import Spool
from windrow.journal.fragments.spool_file import DurableFiles, MemoryFiles
from windrow.journal.labels import EMPTY, LabelSet
from windrow.journal.status import Status

JOURNAL = "a/journal"


class Remembering:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.commits: list[Fragment] = []
        self.completed: list[CompletedSpool] = []
        self.broken: list[SpoolBroken] = []

    def on_commit(self, fragment: Fragment) -> None:
        self.commits.append(fragment)

    def on_complete(self, spool: CompletedSpool) -> None:
        self.completed.append(spool)

    def on_broken(self, error: SpoolBroken) -> None:
        self.broken.append(error)


def memory_spool() -> tuple[Spool, Remembering]:
    observer = Remembering()
    return Spool(JOURNAL, MemoryFiles(), observer), observer


def durable_spool(directory: Path) -> tuple[Spool, Remembering]:
    observer = Remembering()
    return Spool(JOURNAL, DurableFiles(directory), observer, create_revision=7), observer


def fragment(begin: int, content: bytes = b"", codec: Codec = Codec.NONE) -> Fragment:
    total = hashlib.sha1(content).digest() if content else ZERO_SUM
    return Fragment(JOURNAL, begin, begin + len(content), total, codec)


def commit(spool: Spool, content: bytes, registers: LabelSet | None = None, term: int = 0) -> None:
    spool.apply_content(content, spool.delta)
    wanted = spool.registers if registers is None else registers
    status = spool.propose(spool.next(), wanted, primary=True, term=term, now=1_000.0)
    assert status is Status.OK


def roll(spool: Spool, codec: Codec = Codec.NONE) -> None:
    empty = Fragment(JOURNAL, spool.fragment.end, spool.fragment.end, codec=codec)
    assert spool.propose(empty, spool.registers, primary=True) is Status.OK


def rewind(spool: Spool, end: int, registers: LabelSet = EMPTY, term: int = 0) -> Status:
    empty = Fragment(JOURNAL, end, end, codec=spool.fragment.codec)
    return spool.propose(empty, registers, primary=False, term=term, rewind=True)


def flush(spool: Spool) -> None:
    asyncio.run(spool.flush())


def recovered(directory: Path) -> RecoveredSpool:
    (found,) = recover_spools(directory)
    return found


def everything(spool: Spool) -> bytes:
    return spool.read_at(spool.fragment.begin, spool.fragment.length)

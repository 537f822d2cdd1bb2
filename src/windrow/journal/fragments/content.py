"""Local content: what reads bytes of a journal out of a spool's file, current or completed."""

from __future__ import annotations

import hashlib
from typing import Protocol

from windrow.journal.fragment import ZERO_SUM, Fragment
from windrow.journal.fragments.errors import SpoolBroken
from windrow.journal.fragments.slot import CommitRecord
from windrow.journal.fragments.spool_file import SpoolFile

_CHUNK = 1024 * 1024


class SpoolContent:
    """The bytes of one spool file, by journal offset. Valid while held, whatever becomes of it."""

    __slots__ = ("begin", "file")

    def __init__(self, begin: int, file: SpoolFile) -> None:
        self.begin, self.file = begin, file

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``.

        It does not know how much is committed or acknowledged: ask for nothing beyond the fragment
        it was handed out with.
        """
        return self.file.read(offset - self.begin, size)

    def sum_to(self, end: int) -> bytes:
        """The sum of a fragment that ends there."""
        return self.hash_to(end).digest() if end > self.begin else ZERO_SUM

    def hash_to(self, end: int) -> hashlib._Hash:
        """The running SHA-1 of everything before ``end``."""
        running = hashlib.sha1(usedforsecurity=False)
        offset = self.begin
        while offset < end:
            chunk = self.read_at(offset, min(_CHUNK, end - offset))
            if not chunk:
                break  # the file ends early, which the caller sees in the sum
            running.update(chunk)
            offset += len(chunk)
        return running


class CompletedSpool:
    """A fragment that is rolled and will not change: to be read, and uploaded.

    The file of a durable one is kept until ``on_persisted``, and beyond that until the file that
    follows it is durable: until then it alone holds the journal's registers.
    """

    def __init__(self, record: CommitRecord, content: SpoolContent, *, primary: bool) -> None:
        self.record = record
        self.content = content
        self.primary = primary
        self._is_persisted = False
        self._is_sealed = record.is_sealed or not content.file.is_durable

    @property
    def fragment(self) -> Fragment:
        """What it holds."""
        return self.record.fragment

    @property
    def first_append_time(self) -> float:
        """When its first bytes were committed, in seconds since the epoch."""
        return self.record.first_append_time

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``, none beyond the fragment's end."""
        return self.content.read_at(offset, min(size, self.fragment.end - offset))

    def on_persisted(self) -> None:
        """A store has it: its file may go."""
        self._is_persisted = True
        self._remove_if_done()

    def on_sealed(self) -> None:
        """The file that follows is durable."""
        self._is_sealed = True
        self._remove_if_done()

    def _remove_if_done(self) -> None:
        if self._is_persisted and self._is_sealed:
            self.content.file.remove()

    def __repr__(self) -> str:
        return f"<CompletedSpool {self.fragment.journal} {self.fragment.content_name()}>"


class SpoolObserver(Protocol):
    """Who is told what a spool adopted. Called in the middle of ``propose``: be quick."""

    def on_commit(self, fragment: Fragment) -> None:
        """Content was committed; durable only after the next flush, acknowledged even later."""

    def on_complete(self, spool: CompletedSpool) -> None:
        """A fragment was rolled."""

    def on_broken(self, error: SpoolBroken) -> None:
        """A sync failed, whether anybody waited for it or not."""

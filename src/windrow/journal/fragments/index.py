"""The index of one replica: which fragments exist, local and remote, and which serves a read.

It only ever learns of bytes that every replica has acknowledged: what it shows can be read, and
what can be read must not go away again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from windrow.journal.fragment import Fragment
from windrow.journal.fragments.content import SpoolContent
from windrow.journal.fragments.cover_set import CoverSet, Entry
from windrow.journal.status import Status

JUMP_AGE = 6 * 3600.0
"""How old a persisted fragment must be for a gap before it to be taken for permanent."""

WRITE_HEAD = -1
"""The offset that stands for the present end of the journal."""


class Asked(Protocol):
    """What a read asks the index for."""

    @property
    def offset(self) -> int:
        """From where, or ``WRITE_HEAD``."""

    @property
    def begin_mod_time(self) -> int:
        """Leave out what was persisted before this moment (Unix seconds); 0 for all."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the index has at an offset."""

    status: Status
    offset: int
    """Where to read: beyond what was asked for if there is nothing to be had before it."""
    write_head: int
    entry: Entry | None = None

    @property
    def is_gap(self) -> bool:
        """Whether there is content at the offset, which is not to be had here."""
        return self.entry is None and self.offset < self.write_head


class Index:
    """Fragments of one journal. Used from one event loop."""

    def __init__(
        self, jump_age: float = JUMP_AGE, unix_time: Callable[[], float] = time.time
    ) -> None:
        self._jump_age, self._unix_time = jump_age, unix_time
        self._local = CoverSet()
        self._all = CoverSet()
        self._changed: asyncio.Event | None = None
        self._is_listed = False
        self._known_end = 0

    @property
    def begin_offset(self) -> int:
        """Where the first fragment begins; 0 if there is none."""
        return self._all.begin_offset

    @property
    def end_offset(self) -> int:
        """Where the last fragment ends, or the journal itself, if that is known; else 0."""
        return max(self._all.end_offset, self._known_end)

    @property
    def entries(self) -> list[Entry]:
        """Every fragment, in order."""
        return list(self._all)

    @property
    def local_entries(self) -> list[Entry]:
        """The fragments that only this broker and its peers have."""
        return list(self._local)

    @property
    def is_listed(self) -> bool:
        """Whether the stores have been listed at least once."""
        return self._is_listed

    def add_local(self, fragment: Fragment, content: SpoolContent) -> None:
        """Every replica has acknowledged the fragment: show it."""
        entry = Entry(fragment, content)
        self._local.add(entry)
        if self._all.add(entry):
            self._wake()

    def know_end(self, end: int) -> None:
        """The journal reaches that far, whoever has its content.

        A replica that came late has no fragment of what was written before it.
        """
        if end > self.end_offset:
            self._known_end = end
            self._wake()

    def replace_remote(self, fragments: Iterable[Fragment]) -> None:
        """The stores were listed, and this is all they have.

        Local fragments that it covers are dropped, which lets go of their files.
        """
        remote = CoverSet(Entry(fragment) for fragment in fragments)
        self._local = self._local.difference(remote)
        self._all = CoverSet([*remote, *self._local])
        self._is_listed = True
        self._wake()

    async def wait_listed(self) -> None:
        """Return once the stores have been listed."""
        while not self._is_listed:
            await self.changed.wait()

    @property
    def changed(self) -> asyncio.Event:
        """Set with the next change: take hold of it before looking, so as not to miss one."""
        if self._changed is None:
            self._changed = asyncio.Event()
        return self._changed

    def query(self, asked: Asked) -> Answer:
        """The fragment to read at an offset, if there is one."""
        offset = self.end_offset if asked.offset == WRITE_HEAD else asked.offset
        return self._look_up(offset, asked.begin_mod_time)

    def _look_up(self, offset: int, begin_mod_time: int) -> Answer:
        while True:
            index, found = self._all.find(offset)
            if not found and self._may_jump_to(index):
                offset, found = self._all[index].fragment.begin, True
            if not found:
                return Answer(Status.OFFSET_NOT_YET_AVAILABLE, offset, self.end_offset)
            entry = self._all[index]
            if not entry.fragment.mod_time or entry.fragment.mod_time >= begin_mod_time:
                return Answer(Status.OK, offset, self.end_offset, entry)
            offset = entry.fragment.end

    def _may_jump_to(self, index: int) -> bool:
        """Whether the gap before a fragment is there to stay.

        A gap in the middle may be filled by an upload still on its way; one at the beginning is
        what pruning leaves, and is never filled.
        """
        if index == len(self._all) or not self._all[index].fragment.mod_time:
            return False
        horizon = self._unix_time() - self._jump_age
        return index == 0 or self._all[index].fragment.mod_time < horizon

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def page_of(
    entries: Iterable[Entry],
    *,
    begin_mod_time: int = 0,
    end_mod_time: int = 0,
    token: int = 0,
    limit: int = 1_000,
) -> tuple[list[Entry], int]:
    """The fragments of one page of a listing, and the token of the next; 0 if there is none.

    Both bounds are inclusive. Local fragments are new: they pass a lower bound, and no upper one.
    """
    page: list[Entry] = []
    for entry in entries:
        fragment = entry.fragment
        if fragment.begin < token or not _is_within(fragment, begin_mod_time, end_mod_time):
            continue
        if len(page) == limit:
            return page, fragment.begin
        page.append(entry)
    return page, 0


def _is_within(fragment: Fragment, begin_mod_time: int, end_mod_time: int) -> bool:
    if not fragment.mod_time:
        return not end_mod_time
    if fragment.mod_time < begin_mod_time:
        return False
    return not end_mod_time or fragment.mod_time <= end_mod_time

"""Recovery: what the spool files of a stopped broker say.

The last file of a journal (by generation) is its current spool, the earlier ones are completed and
wait for their upload. Of a file's two slots the later one counts if the content behind it has the
SHA-1 it names, else the other: the sync of the later one never returned.

A stop in the middle of a roll or a rewind leaves traces that are put right here:

- A last file that does not verify, behind one that is not sealed, was never durable: it goes, and
  the one before it is still the current spool. Behind a *sealed* one it was durable once, so
  something acknowledged is lost: it is set aside, and the journal has no current spool.
- A file that is not sealed, and has a verified one behind it, is sealed; an empty one goes.

Recovery must not run on a journal whose spool is in use.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

from windrow.journal.fragment import ZERO_SUM
from windrow.journal.fragments.content import CompletedSpool, SpoolContent, SpoolObserver
from windrow.journal.fragments.slot import SLOT_SIZE, CommitRecord, decode_slot
from windrow.journal.fragments.spool import Spool
from windrow.journal.fragments.spool_file import (
    CONTENT_START,
    SUFFIX,
    DurableFile,
    SpoolFiles,
    escaped,
    set_aside,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpoolOnDisk:
    """One verified file: its last durable record, the content behind it, and its running SHA-1.

    The sum is kept because it goes on from there: to read the whole content again when a replica
    opens would stop the broker for long enough to lose its lease.
    """

    record: CommitRecord
    content: SpoolContent
    running: hashlib._Hash


@dataclass(frozen=True, slots=True)
class RecoveredSpool:
    """All that is left of a journal on this broker's disk."""

    journal: str
    create_revision: int
    current: SpoolOnDisk | None
    """None if it was set aside, before or now: the replica starts from nothing."""
    completed: tuple[CompletedSpool, ...]
    """To be added to the index, and uploaded."""

    def resume(self, files: SpoolFiles, observer: SpoolObserver) -> Spool:
        """The spool as of its last durable commit."""
        if self.current is None:
            return Spool(self.journal, files, observer, create_revision=self.create_revision)
        current = self.current
        return Spool.resumed(current.record, current.content, current.running, files, observer)

    def quarantine(self) -> None:
        """Set everything aside: it is of a journal that was deleted, and maybe created anew."""
        for completed in self.completed:
            completed.content.file.quarantine()
        if self.current is not None:
            self.current.content.file.quarantine()


def recover_spools(directory: Path) -> list[RecoveredSpool]:
    """Every journal that has spool files below ``directory``; reads all of their content."""
    if not directory.is_dir():
        return []
    homes = sorted(home for home in directory.iterdir() if home.is_dir())
    found = (_recover_home(home) for home in homes)
    return [recovered for recovered in found if recovered is not None]


def recover_journal(directory: Path, journal: str) -> RecoveredSpool | None:
    """The same for one journal, or None if it has left nothing."""
    home = directory / escaped(journal)
    return _recover_home(home) if home.is_dir() else None


def inspect_file(path: Path) -> SpoolOnDisk | None:
    """What a spool file verifiably holds, or None; changes nothing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    slots = (os.pread(descriptor, SLOT_SIZE, at) for at in (0, SLOT_SIZE))
    records = [record for record in map(decode_slot, slots) if record is not None]
    file = DurableFile(descriptor, str(path))
    for record in sorted(records, key=lambda record: -record.sequence):
        content = SpoolContent(record.fragment.begin, file)
        running = content.hash_to(record.fragment.end)
        found = ZERO_SUM if record.fragment.is_empty else running.digest()
        if found == record.fragment.sum:
            file.continue_after(record.sequence)
            return SpoolOnDisk(record, content, running)
    return None


def _recover_home(home: Path) -> RecoveredSpool | None:
    paths = sorted(path for path in home.iterdir() if path.name.endswith(SUFFIX))
    spools = [(path, inspect_file(path)) for path in paths]
    verified = [(path, spool) for path, spool in spools if spool is not None]
    if not verified:
        for path in paths:
            _give_up(path)
        return None
    last = verified[-1][1]
    for path in paths:
        if path > verified[-1][0]:
            _drop_unverified(path, last.record)
        elif path not in dict(verified):
            _give_up(path)
    current = None if last.record.is_sealed else last
    earlier = [spool for _, spool in verified if spool is not current]
    return RecoveredSpool(
        journal=last.record.fragment.journal,
        create_revision=last.record.create_revision,
        current=current,
        completed=_completed(earlier),
    )


def _drop_unverified(path: Path, before: CommitRecord) -> None:
    """A file behind the last one that verifies."""
    if before.is_sealed:
        _give_up(path)
    else:
        path.unlink()


def _give_up(path: Path) -> None:
    if _was_never_written(path):
        path.unlink()
        return
    aside = set_aside(str(path))
    log.error("spool file %s does not verify; it was set aside as %s", path, aside)


def _was_never_written(path: Path) -> bool:
    with path.open("rb") as file:
        return not any(file.read(CONTENT_START))


def _completed(earlier: list[SpoolOnDisk]) -> tuple[CompletedSpool, ...]:
    kept = []
    for spool in earlier:
        if spool.record.fragment.is_empty:
            spool.content.file.remove()
            continue
        record = replace(spool.record, is_sealed=True)
        if record != spool.record:
            spool.content.file.sync(record)
        kept.append(CompletedSpool(record, spool.content, primary=False))
    return tuple(kept)

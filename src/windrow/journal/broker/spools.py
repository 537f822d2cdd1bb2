"""Where the spools of replicas come from: files of an earlier process, or new ones."""

from __future__ import annotations

from pathlib import Path

from windrow.journal.codec import Codec
from windrow.journal.fragments.content import CompletedSpool, SpoolObserver
from windrow.journal.fragments.recover import RecoveredSpool, recover_journal, recover_spools
from windrow.journal.fragments.spool import Spool
from windrow.journal.fragments.spool_file import DurableFiles, MemoryFiles, SpoolFiles
from windrow.telemetry import get_logger

_log = get_logger(__name__)


class SpoolHouse:
    """All spools of a broker, and what was recovered at its start."""

    def __init__(self, directory: Path | None) -> None:
        """Keep spools in a directory, or in memory if there is none."""
        self._directory = directory
        self.files: SpoolFiles = MemoryFiles() if directory is None else DurableFiles(directory)
        self._recovered: dict[str, RecoveredSpool] = {}
        self._taken: set[str] = set()

    def recover(self) -> None:
        """Read back what the last process left; reads all of it, so not on the event loop."""
        if self._directory is None:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        self._recovered = {found.journal: found for found in recover_spools(self._directory)}
        if self._recovered:
            _log.info("spools recovered", journals=len(self._recovered))

    @property
    def completed(self) -> list[CompletedSpool]:
        """All fragments that were recovered, and have still to be uploaded."""
        return [spool for found in self._recovered.values() for spool in found.completed]

    def source(self, journal: str, create_revision: int, codec: Codec) -> SpoolHome:
        """The spools of one replica."""
        found = self._find(journal)
        if found is not None and found.create_revision != create_revision:
            _log.warning("spool of an earlier journal set aside", journal=journal)
            found.quarantine()
            found = None
        return SpoolHome(journal, create_revision, codec, self.files, found)

    def _find(self, journal: str) -> RecoveredSpool | None:
        if journal not in self._taken:
            self._taken.add(journal)
            return self._recovered.pop(journal, None)
        # It was here before, in this very process, and comes back.
        return None if self._directory is None else recover_journal(self._directory, journal)


class SpoolHome:
    """The spools of one replica."""

    def __init__(
        self,
        journal: str,
        create_revision: int,
        codec: Codec,
        files: SpoolFiles,
        recovered: RecoveredSpool | None,
    ) -> None:
        self._journal, self._create_revision, self._codec = journal, create_revision, codec
        self._files, self._recovered = files, recovered

    @property
    def completed(self) -> tuple[CompletedSpool, ...]:
        """Fragments that were rolled and not uploaded before the last process ended."""
        return () if self._recovered is None else self._recovered.completed

    def open(self, observer: SpoolObserver) -> Spool:
        """The journal's spool as it was recovered, or a new and empty one at offset zero."""
        if self._recovered is not None:
            return self._recovered.resume(self._files, observer)
        return self._new(observer)

    def _new(self, observer: SpoolObserver) -> Spool:
        return Spool(
            self._journal,
            self._files,
            observer,
            create_revision=self._create_revision,
            codec=self._codec,
        )

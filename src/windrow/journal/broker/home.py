"""The data directory of a broker: one process at a time, and an identity that outlives it."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

from windrow.errors import Failed
from windrow.journal.process import ProcessId

_WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "kelp", "lark")


class DataDirInUse(Failed):
    """Another broker runs on the data directory."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return f"another broker runs on {self.directory}; end it, or give each its own --data-dir"


class Home:
    """An opened data directory. Held until ``close``, or until the process ends."""

    def __init__(self, directory: Path) -> None:
        """Make the directory if it is not there, and take hold of it.

        Raises:
            DataDirInUse: Another process has it.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise DataDirInUse(str(directory)) from error

    @property
    def spools(self) -> Path:
        """Where spool files are."""
        return self.directory / "spools"

    @property
    def keys(self) -> Path:
        """Where an embedded broker keeps its keys."""
        return self.directory / "keys"

    def process_id(self, zone: str, suffix: str) -> ProcessId:
        """Who this broker is: as told, else as before, else somebody new.

        Spools count for a journal by the id of the broker that has them, so one that comes back
        to its directory has to be the same as before.
        """
        kept = self.directory / "id"
        if not suffix and kept.exists():
            suffix = kept.read_text(encoding="utf-8").strip()
        suffix = suffix or f"{secrets.choice(_WORDS)}-{secrets.token_hex(4)}"
        process = ProcessId(zone, suffix)
        process.validate()
        _write_whole(kept, suffix + "\n")
        return process

    @property
    def last_lease(self) -> int:
        """That of the broker which had this directory before, and so is no more; 0 if unknown."""
        kept = self.directory / "lease"
        text = kept.read_text(encoding="utf-8").strip() if kept.exists() else ""
        return int(text) if text.isdecimal() else 0

    def keep_lease(self, id: int) -> None:
        """Note our own lease, for whoever comes after us."""
        _write_whole(self.directory / "lease", f"{id}\n")

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._lock)


def _write_whole(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)

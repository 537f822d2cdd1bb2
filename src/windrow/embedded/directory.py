"""Temporary directories that are gone when their maker is, whatever happens."""

from __future__ import annotations

import pwd
import secrets
import shutil
import tempfile
from os import chown
from pathlib import Path

from windrow.embedded.reaper import reaper


def create_directory(name: str, owner: str | None = None) -> Path:
    """Make an empty directory that only its owner can enter.

    Args:
        name: Becomes a part of its name.
        owner: Whom it belongs to, if not us.
    """
    path = Path(tempfile.gettempdir()).resolve() / f"windrow-{name}-{secrets.token_hex(6)}"
    reaper.guard_directory(path)  # before it exists: killed in between, we leave nothing behind
    path.mkdir(mode=0o700)
    if owner is not None:
        entry = pwd.getpwnam(owner)
        chown(path, entry.pw_uid, entry.pw_gid)
    return path


def remove_directory(path: Path) -> None:
    """Remove it with all it holds; does nothing if it is gone."""
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        reaper.release_directory(path)  # otherwise the reaper tries once more

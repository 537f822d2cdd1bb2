"""Which code a test run was of, and when."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def today() -> str:
    """The date, in UTC."""
    return datetime.now(UTC).date().isoformat()


def commit_of(root: Path) -> str:
    """The commit checked out there, with ``+`` if files have changed since; else ``unknown``."""
    described = _git(root, "rev-parse", "--short", "HEAD")
    if not described:
        return "unknown"
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return described + ("+" if changed else "")


def write_json(path: Path, content: Any) -> None:
    """Write it whole or not at all, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _git(root: Path, *arguments: str) -> str:
    try:
        finished = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return finished.stdout.strip()

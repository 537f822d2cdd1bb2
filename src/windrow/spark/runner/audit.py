"""Who mended what, when and why? One line of JSON each, beside the checkpoints, never rewritten."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from windrow.spark.runner.checkpoint import graph_path
from windrow.spark.runner.files import Files

FILE = "repairs.jsonl"


def note_repair(
    files: Files, checkpoint: str, graph: str, action: str, facts: Mapping[str, Any]
) -> None:
    """Add a line: when, who, where, what was done, and to what."""
    line = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "by": os.environ.get("USER", ""),
        "host": socket.gethostname(),
        "action": action,
        **facts,
    }
    files.append(_path(checkpoint, graph), (json.dumps(line, ensure_ascii=False) + "\n").encode())


def read_repairs(files: Files, checkpoint: str, graph: str) -> list[dict[str, Any]]:
    """All lines, the latest last; one that was cut short is left out."""
    found = []
    for line in (files.read(_path(checkpoint, graph)) or b"").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _path(checkpoint: str, graph: str) -> str:
    return f"{graph_path(checkpoint, graph)}/{FILE}"

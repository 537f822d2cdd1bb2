"""A file or standard output as a target: one JSON object per line, durable before it is acked."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from windrow.lines import append, open_lines
from windrow.outbox.marked import Marked
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.machine import Lane
from windrow.relay.targets.message import Malformed, headers_of

STDOUT = "-"


class JsonlTarget:
    """Appends records to a file, or to standard output for ``-``.

    A file is brought to the disk before its records are acknowledged; standard output is somebody
    else's, and there the write is all that can be known.
    """

    def __init__(self, path: str = STDOUT) -> None:
        self.acknowledged: deque[Lane] = deque()
        self.failed: deque[tuple[Lane, Failure]] = deque()
        self._path = path
        self._file = -1
        self._settled = threading.Event()
        self._writing = threading.Lock()  # both the reading and the purging thread send

    def open(self) -> None:
        """Open the file, or make it; what a killed relay left torn at its end is cut off."""
        if self._path == STDOUT:
            sys.stdout.flush()
            self._file = os.dup(sys.stdout.fileno())
        else:
            self._file = open_lines(Path(self._path))

    def send(self, lanes: list[Lane]) -> None:
        """Write the heads of these lanes in one piece; they are acknowledged when that is done."""
        lines, written = [], []
        for lane in lanes:
            try:
                lines.append(encode(lane.head))
            except Malformed as error:
                failure = Failure(FailureKind.PERMANENT, "malformed", str(error))
                self.failed.append((lane, failure))
            else:
                written.append(lane)
        try:
            self._write(b"".join(lines))
        except OSError as error:
            failure = Failure(FailureKind.UNKNOWN, f"errno {error.errno}", error.strerror or "")
            self.failed.extend((lane, failure) for lane in written)
        else:
            self.acknowledged.extend(written)
        self._settled.set()

    def _write(self, data: bytes) -> None:
        with self._writing:
            append(self._file, data)
        if self._path != STDOUT:
            os.fdatasync(self._file)

    def poll(self, timeout: float) -> int:
        """Wait for something to have settled."""
        settled = self._settled.wait(timeout)
        self._settled.clear()
        return int(settled)

    def close(self, timeout: float) -> int:
        """Close the file; nothing is ever on its way."""
        with contextlib.suppress(OSError):
            os.close(self._file)
        self._file = -1
        return 0


def encode(row: Marked) -> bytes:
    """A record as a line of JSON; a value that is not text is given as base64.

    Raises:
        Malformed: Its headers do not match.
    """
    record: dict[str, Any] = {"id": row.id, "topic": row.topic, "key": row.key}
    record |= _value(row.value)
    if row.header_keys or row.header_values:
        record["headers"] = headers_of(row)
    if row.partition is not None:
        record["partition"] = row.partition
    if row.timestamp is not None:
        record["timestamp"] = row.timestamp
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _value(value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {"value": None}
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value).decode()}

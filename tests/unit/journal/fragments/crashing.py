"""A disk that can lose power: records what a spool asks of it, and shows what might be left.

Between two syncs of a file the disk owes nothing: each write since the last one may be there, be
missing, or be torn anywhere, independently of the others. A name is certain once its directory was
synced. What a model of the real thing forgets (sizes, order within a file) is all allowed here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Operation:
    name: str
    path: str
    position: int = 0
    content: bytes = b""


class RecordingOs:
    """Stands in for the ``os`` of the module under test."""

    def __init__(self) -> None:
        self.log: list[Operation] = []
        self._paths: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags, mode)
        self._paths[descriptor] = path
        if flags & os.O_CREAT:
            self.log.append(Operation("create", path))
        return descriptor

    def pwrite(self, descriptor: int, content: bytes, position: int) -> int:
        written = os.pwrite(descriptor, content, position)
        path = self._paths[descriptor]
        self.log.append(Operation("write", path, position, bytes(content)))
        return written

    def fdatasync(self, descriptor: int) -> None:
        self.log.append(Operation("sync", self._paths[descriptor]))

    def fsync(self, descriptor: int) -> None:
        self.log.append(Operation("sync directory", self._paths[descriptor]))

    def unlink(self, path: str) -> None:
        os.unlink(path)
        self.log.append(Operation("unlink", path))


class Inline(Executor):
    """Runs at once what it is given: every order of events is then the test's own."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def leave_behind(
    log: list[Operation], root: Path, copy: Path, tear: Callable[[Operation], tuple[int, int]]
) -> None:
    """Write to ``copy`` what a stop after ``log`` may leave of ``root``.

    ``tear`` says which span of an unsynced write arrived, and by a span of nothing that an
    unsynced name or an unlink was lost.
    """
    files: dict[str, bytearray] = {}
    for number, operation in enumerate(log):
        later = log[number + 1 :]
        if operation.name == "create":
            home = os.path.dirname(operation.path)
            certain = any(o.name == "sync directory" and o.path == home for o in later)
            if certain or tear(operation) != (0, 0):
                files[operation.path] = bytearray()
        elif operation.name == "write" and operation.path in files:
            certain = any(o.name == "sync" and o.path == operation.path for o in later)
            span = (0, len(operation.content)) if certain else tear(operation)
            _write(files[operation.path], operation, *span)
        elif operation.name == "unlink" and tear(operation) != (0, 0):
            files.pop(operation.path, None)
    for path, content in files.items():
        target = copy / Path(path).relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _write(file: bytearray, operation: Operation, begin: int, end: int) -> None:
    position = operation.position + begin
    piece = operation.content[begin:end]
    if len(file) < position + len(piece):
        file.extend(bytes(position + len(piece) - len(file)))
    file[position : position + len(piece)] = piece

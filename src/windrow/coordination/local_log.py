"""How do the keys of a local store survive a crash? A snapshot, and a log of what came after.

::

    <directory>/lock            held as long as the store is open
    <directory>/snapshot        one frame: identity, revision, keys; replaced as a whole
    <directory>/<revision>.log  one frame for each change after the snapshot of that revision

A frame is its length, a CRC-32 and JSON. A change is acknowledged once its frame is synced, and the
next frame is written only then. So a bad frame with nothing good behind it was never acknowledged
and is cut off, while one with a good frame behind it is damage, and is refused.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windrow.coordination.errors import DirectoryInUse, LogDamaged, StoreBroken, StoreFull
from windrow.coordination.store import Event, EventKind, KeyValue

FRAME: Final = struct.Struct(">II")
FORMAT: Final = 1
COMPACT_AT: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this store is: as random as a cluster's id, and as lasting."""

    cluster_id: int
    member_id: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found on disk: a snapshot and the changes after it."""

    identity: Identity
    revision: int
    kvs: tuple[KeyValue, ...]
    changes: tuple[tuple[Event, ...], ...]


class LocalLog:
    """The files of one local store; every method blocks until its work is durable."""

    def __init__(self, directory: Path, new_identity: Identity, compact_at: int = COMPACT_AT):
        """Open the directory, or make it.

        Raises:
            DirectoryInUse: Another process has it open.
            LogDamaged: Something acknowledged cannot be read any more.
        """
        self.directory = directory
        self._compact_at = compact_at
        directory.mkdir(parents=True, exist_ok=True)
        self._lock: int | None = _lock(directory)
        self._file: int | None = None
        self._failure: OSError | None = None
        try:
            self.recovered = self._recover(new_identity)
        except BaseException:
            self.close()
            raise

    def append(self, events: Sequence[Event]) -> None:
        """Make one change durable.

        Raises:
            StoreFull: There was no room; nothing was changed.
            StoreBroken: It may be durable or not, and nothing more is taken.
        """
        self._check()
        assert self._file is not None, "a closed log takes nothing"
        frame = encode_frame([_event_to_json(event) for event in events])
        try:
            _write(self._file, frame, self._size)
        except OSError as error:
            self._take_back(error)
            raise StoreFull(str(self.directory), str(error)) from error
        self._sync(self._file)
        self._size += len(frame)

    def wants_compaction(self) -> bool:
        """Whether the log is long, and longer than what a new snapshot would take."""
        return self._size > max(self._compact_at, 2 * self._snapshot_size)

    def compact(self, revision: int, kvs: Iterable[KeyValue]) -> None:
        """Begin a new log after a snapshot of these keys.

        Raises:
            StoreFull: There was no room for the snapshot; the old log goes on.
            StoreBroken: It is unclear which snapshot counts, and nothing more is taken.
        """
        self._check()
        try:
            prepared = self._prepare_snapshot(self.recovered.identity, revision, kvs)
        except OSError as error:
            with suppress(OSError):
                self._log_path(revision).unlink()
            raise StoreFull(str(self.directory), str(error)) from error
        try:
            os.replace(prepared, self.directory / "snapshot")
            _sync_directory(self.directory)
        except OSError as error:
            raise self._break(error) from error
        self._open_log(revision)
        self._forget_old_logs(revision)

    def close(self) -> None:
        """Let go of the files; another process may open them."""
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    # -- opening ---------------------------------------------------------------------------------

    def _recover(self, new_identity: Identity) -> Recovered:
        snapshot = self.directory / "snapshot"
        if not snapshot.exists():
            self._begin(new_identity)
        identity, revision, kvs = self._read_snapshot(snapshot)
        self._open_log(revision)
        changes = self._read_log(revision)
        self._forget_old_logs(revision)
        return Recovered(identity, revision, kvs, changes)

    def _begin(self, identity: Identity) -> None:
        """Make an empty store, unless there are changes here whose snapshot has gone."""
        for log in self.directory.glob("*.log"):
            if log.stat().st_size:
                raise LogDamaged(str(log), 0, "the snapshot it belongs to is missing")
        prepared = self._prepare_snapshot(identity, 1, ())
        os.replace(prepared, self.directory / "snapshot")
        _sync_directory(self.directory)

    def _read_snapshot(self, path: Path) -> tuple[Identity, int, tuple[KeyValue, ...]]:
        data = path.read_bytes()
        self._snapshot_size = len(data)
        contents = [content for _, content in read_frames(data)]
        if len(contents) != 1:
            raise LogDamaged(str(path), 0, "the snapshot does not match its checksum")
        found = contents[0]
        if found["format"] != FORMAT:
            raise LogDamaged(str(path), 0, f"format {found['format']} is not known here")
        identity = Identity(found["cluster_id"], found["member_id"])
        return identity, found["revision"], tuple(map(_kv_from_json, found["kvs"]))

    def _read_log(self, revision: int) -> tuple[tuple[Event, ...], ...]:
        path = self._log_path(revision)
        data = path.read_bytes()
        changes = []
        end = 0
        for end, content in read_frames(data):  # noqa: B007 - where the last good one ended
            changes.append(tuple(map(_event_from_json, content)))
        if end < len(data):
            if has_frame_behind(data, end):
                raise LogDamaged(str(path), end, "a change that was acknowledged cannot be read")
            assert self._file is not None, "the log is open"
            os.ftruncate(self._file, end)
            self._sync(self._file)
        self._size = end
        return tuple(changes)

    # -- writing ---------------------------------------------------------------------------------

    def _prepare_snapshot(self, identity: Identity, revision: int, kvs: Iterable[KeyValue]) -> Path:
        """Write a snapshot under another name, and the empty log that goes with it."""
        content = {
            "format": FORMAT,
            "cluster_id": identity.cluster_id,
            "member_id": identity.member_id,
            "revision": revision,
            "kvs": [_kv_to_json(kv) for kv in kvs],
        }
        frame = encode_frame(content)
        prepared = self.directory / "snapshot.new"
        for path, data in ((prepared, frame), (self._log_path(revision), b"")):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                _write(descriptor, data, 0)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        # The log's name has to be durable before the snapshot that leads to it is.
        _sync_directory(self.directory)
        self._snapshot_size = len(frame)
        return prepared

    def _open_log(self, revision: int) -> None:
        if self._file is not None:
            os.close(self._file)
        try:
            self._file = os.open(self._log_path(revision), os.O_RDWR)
        except FileNotFoundError:
            path = str(self._log_path(revision))
            raise LogDamaged(path, 0, "it is missing, and the snapshot leads to it") from None
        self._size = 0

    def _take_back(self, error: OSError) -> None:
        """Cut off what a failed write has left, so that the log ends as before."""
        assert self._file is not None, "only an open log is written to"
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            raise self._break(error) from error

    def _sync(self, descriptor: int) -> None:
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            # What the kernel could not write it has forgotten: a second try would lie.
            raise self._break(error) from error

    def _break(self, error: OSError) -> StoreBroken:
        self._failure = error
        return StoreBroken(str(self.directory), str(error))

    def _check(self) -> None:
        if self._failure is not None:
            raise StoreBroken(str(self.directory), str(self._failure))

    def _forget_old_logs(self, revision: int) -> None:
        current = self._log_path(revision)
        for log in self.directory.glob("*.log"):
            if log != current:
                log.unlink()

    def _log_path(self, revision: int) -> Path:
        return self.directory / f"{revision}.log"


def encode_frame(content: Any) -> bytes:
    """Content with its length and checksum before it."""
    payload = json.dumps(content, separators=(",", ":")).encode()
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def read_frames(data: bytes) -> Iterator[tuple[int, Any]]:
    """Where each good frame ends and what it holds, up to the first that is not good."""
    at = 0
    while (frame := _frame_at(data, at)) is not None:
        at, content = frame
        yield at, content


def has_frame_behind(data: bytes, bad: int) -> bool:
    """Whether a good frame begins anywhere behind a bad one."""
    return any(_frame_at(data, at) is not None for at in range(bad + 1, len(data)))


def _frame_at(data: bytes, at: int) -> tuple[int, Any] | None:
    begin = at + FRAME.size
    if begin > len(data):
        return None
    length, checksum = FRAME.unpack_from(data, at)
    # Never empty: a run of zeros, as a crash can leave, is no frame.
    if not length or begin + length > len(data):
        return None
    payload = memoryview(data)[begin : begin + length]
    if zlib.crc32(payload) != checksum:
        return None
    return begin + length, json.loads(bytes(payload))


def _kv_to_json(kv: KeyValue) -> list[Any]:
    value = base64.b64encode(kv.value).decode()
    return [kv.key, value, kv.create_revision, kv.mod_revision, kv.version, kv.lease]


def _kv_from_json(fields: list[Any]) -> KeyValue:
    key, value, *numbers = fields
    return KeyValue(key, base64.b64decode(value), *numbers)


def _event_to_json(event: Event) -> list[Any]:
    return [event.kind.value, _kv_to_json(event.kv)]


def _event_from_json(fields: list[Any]) -> Event:
    kind, kv = fields
    return Event(EventKind(kind), _kv_from_json(kv))


def _lock(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DirectoryInUse(str(directory)) from None
    return descriptor


def _write(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

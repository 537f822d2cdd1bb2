"""Keys and changes as a store would tell them."""

from __future__ import annotations

from windrow.coordination.store import DELETE, PUT, Event, KeyValue, Snapshot, WatchBatch

CLUSTER = 77


def kv(
    key: str, value: bytes = b"v", at: int = 1, created: int | None = None, version: int = 1
) -> KeyValue:
    return KeyValue(key, value, created or at, at, version)


def snapshot(revision: int, *kvs: KeyValue, cluster_id: int = CLUSTER) -> Snapshot:
    return Snapshot(revision, tuple(sorted(kvs, key=lambda kv: kv.key)), cluster_id)


def put(key: str, value: bytes = b"v", *, at: int, created: int = 0, version: int = 1) -> Event:
    return Event(PUT, kv(key, value, at, created or at, version))


def delete(key: str, *, at: int) -> Event:
    return Event(DELETE, KeyValue(key, b"", 0, at, 0))


def batch(*events: Event, cluster_id: int = CLUSTER) -> WatchBatch:
    return WatchBatch(max(event.kv.mod_revision for event in events), events, cluster_id)


def progress(revision: int) -> WatchBatch:
    return WatchBatch(revision, (), CLUSTER)

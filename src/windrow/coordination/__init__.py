"""Who is there and who does what: keys with revisions, on etcd or in a directory."""

from windrow.coordination.announce import Announcement
from windrow.coordination.endpoints import TlsFiles
from windrow.coordination.etcd import EtcdStore
from windrow.coordination.keyspace import KeySpace
from windrow.coordination.local import LocalStore
from windrow.coordination.mirror import Mirror
from windrow.coordination.store import (
    Compare,
    Delete,
    KeyValue,
    Lease,
    Put,
    Snapshot,
    Store,
    StoreHeader,
    TxnResult,
    WatchBatch,
)

__all__ = [
    "Announcement",
    "Compare",
    "Delete",
    "EtcdStore",
    "KeySpace",
    "KeyValue",
    "Lease",
    "LocalStore",
    "Mirror",
    "Put",
    "Snapshot",
    "Store",
    "StoreHeader",
    "TlsFiles",
    "TxnResult",
    "WatchBatch",
]

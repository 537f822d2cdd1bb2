"""Stores of fragments: a directory, or a bucket."""

from windrow.journal.fragments.stores.file import FileStore
from windrow.journal.fragments.stores.fragments import (
    list_all,
    list_fragments,
    persist,
    read_stored,
    read_stored_async,
)
from windrow.journal.fragments.stores.health import StoreHealth, check_delete, check_store
from windrow.journal.fragments.stores.open import Stores
from windrow.journal.fragments.stores.s3 import S3Store
from windrow.journal.fragments.stores.store import Store, Stored

__all__ = [
    "FileStore",
    "S3Store",
    "Store",
    "StoreHealth",
    "Stored",
    "Stores",
    "check_delete",
    "check_store",
    "list_all",
    "list_fragments",
    "persist",
    "read_stored",
    "read_stored_async",
]

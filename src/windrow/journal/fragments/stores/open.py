"""Which store a URL names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from windrow.journal.fragments.errors import InvalidStore
from windrow.journal.fragments.stores.file import FileStore
from windrow.journal.fragments.stores.s3 import S3Store
from windrow.journal.fragments.stores.store import Store
from windrow.journal.store_url import store_scheme, valid_store

SCHEMES = ("s3", "gs", "azure", "azure-ad", "file")


class Stores:
    """The stores of a broker, each opened once.

    ``file_root`` is where ``file`` stores lie; without one they are refused. With ``file_only``
    every other kind is taken for a ``file`` store of the same path: for tests and trials.
    """

    def __init__(self, file_root: Path | None = None, *, file_only: bool = False) -> None:
        self._file_root = file_root
        self._open: dict[str, Store] = {}
        self._openers: dict[str, Callable[[str], Store]] = {
            "file": self._file_store,
            "s3": S3Store,
        }
        if file_only:
            self._openers = dict.fromkeys(SCHEMES, self._file_store)

    def open(self, url: str) -> Store:
        """The store of a URL.

        Raises:
            InvalidField: It is not the URL of a store.
            InvalidStore: This broker cannot use it.
        """
        if url not in self._open:
            valid_store(url)
            scheme = store_scheme(url)
            opener = self._openers.get(scheme)
            if opener is None:
                raise InvalidStore(url, f"{scheme} stores are not supported; use s3 or file")
            self._open[url] = opener(url)
        return self._open[url]

    def drop(self, url: str) -> None:
        """Forget a store that no journal uses any more."""
        self._open.pop(url, None)

    def _file_store(self, url: str) -> Store:
        if self._file_root is None:
            raise InvalidStore(url, "file stores need a root; start the broker with --file-root")
        return FileStore(url, self._file_root)

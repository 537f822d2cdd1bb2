"""Fragments as files below a directory of this machine, or one that is mounted."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from windrow.journal.fragments.errors import InvalidStore, StoreError, StoreForbidden
from windrow.journal.fragments.stores.rewrite import StoreAddress
from windrow.journal.fragments.stores.store import Stored

PARTIAL = ".partial-"

_CHUNK = 1024 * 1024


class FileStore:
    """A ``file:///path/`` store: ``path`` below the root directory the broker was given."""

    def __init__(self, url: str, root: Path) -> None:
        self.url = url
        # One that stands in for a store of another kind carries arguments that are not for us.
        known = frozenset[str]() if url.startswith("file:") else None
        self._address = StoreAddress.parse(url, known)
        self._root = os.path.realpath(root)

    def exists(self, path: str) -> bool:
        """Whether there is a file of that path."""
        return os.path.isfile(self._file(path))

    def put(self, path: str, content: Iterable[bytes], encoding: str = "") -> None:
        """Write a file aside, make it durable, and give it its name."""
        target = self._file(path)
        with self._diagnosed("put"):
            self._check_base()
            home, name = os.path.split(target)
            os.makedirs(home, mode=0o750, exist_ok=True)
            descriptor, partial = tempfile.mkstemp(prefix=f"{PARTIAL}{name}-", dir=home)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.writelines(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(partial, 0o640)
                os.rename(partial, target)
                _sync_directory(home)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(partial)
                raise

    def get(self, path: str) -> Iterator[bytes]:
        """The file, in pieces."""
        with self._diagnosed("get"), open(self._file(path), "rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    def list(self, path: str) -> Iterator[Stored]:
        """Every file below a directory, those still being written left out."""
        home = self._file(path)
        with self._diagnosed("list"):
            self._check_base()
            for directory, _, names in os.walk(home):
                for name in names:
                    if not name.startswith(PARTIAL):
                        yield from _stored(home, os.path.join(directory, name))

    def remove(self, path: str) -> None:
        """Unlink the file."""
        with self._diagnosed("remove"), contextlib.suppress(FileNotFoundError):
            os.unlink(self._file(path))

    def signed_url(self, path: str, lifetime: float) -> str:
        """The file's URL below the root. It carries no signature: the file system guards it."""
        return f"file://{quote(self._address.key(path))}"

    def _file(self, path: str) -> str:
        """The file of a path, which must lie below the root whatever links lead there."""
        file = self._root + self._address.key(path)
        if os.path.commonpath([self._root, os.path.realpath(file)]) != self._root:
            raise InvalidStore(self.url, f"path {path!r} leads out of {self._root}")
        return file

    def _check_base(self) -> None:
        """A base that is missing is most often one that is not mounted: never make it."""
        base = self._root + self._address.path
        if not os.path.isdir(base):
            raise StoreError(self.url, "access", f"directory {base} does not exist; create it")

    @contextmanager
    def _diagnosed(self, operation: str) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise StoreForbidden(self.url, operation, str(error)) from error
        except OSError as error:
            raise StoreError(self.url, operation, str(error)) from error


def _stored(home: str, file: str) -> Iterator[Stored]:
    with contextlib.suppress(FileNotFoundError):  # it was pruned while we walked
        yield Stored(os.path.relpath(file, home), int(os.stat(file).st_mtime))


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

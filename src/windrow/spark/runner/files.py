"""How are the files of a checkpoint reached: on a local disk, or wherever Spark can write?"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from windrow.errors import Failed, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):")


class NoFiles(UsageError):
    """A checkpoint lies where only Spark can reach, and Spark does not run."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is reached through Spark only; give --master where it can be"


class FilesFailed(Failed):
    """A file of a checkpoint could not be read or written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot use {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a directory holds."""

    name: str
    is_directory: bool


class Files(Protocol):
    """Files by their paths, small ones as a whole."""

    def entries(self, path: str) -> list[Entry]:
        """What a directory holds, by name; nothing if there is none."""
        ...

    def read(self, path: str) -> bytes | None:
        """The content of a file, if there is one."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Put a file there, as a whole or not at all; directories are made."""
        ...

    def append(self, path: str, content: bytes) -> None:
        """Add to the end of a file; directories are made."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; does nothing if none is there."""
        ...


class LocalFiles:
    """On this machine."""

    def entries(self, path: str) -> list[Entry]:
        """What a directory holds, by name; nothing if there is none."""
        directory = _local(path)
        try:
            found = sorted(directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(path, error) from error
        return [Entry(each.name, each.is_dir()) for each in found]

    def read(self, path: str) -> bytes | None:
        """The content of a file, if there is one."""
        try:
            return _local(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(path, error) from error

    def write(self, path: str, content: bytes) -> None:
        """Put a file there, as a whole or not at all; directories are made."""
        target = _local(path)
        draft = target.with_name(f".{target.name}.draft")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(content)
            draft.replace(target)
        except OSError as error:
            raise _failed(path, error) from error

    def append(self, path: str, content: bytes) -> None:
        """Add to the end of a file; directories are made."""
        target = _local(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as file:
                file.write(content)
        except OSError as error:
            raise _failed(path, error) from error

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; does nothing if none is there."""
        target = _local(path)
        try:
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
        except OSError as error:
            raise _failed(path, error) from error


class HadoopFiles:
    """Wherever the file systems of Spark reach: HDFS, an object store, a shared disk."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm: Any = session.sparkContext._jvm
        self._conf: Any = session.sparkContext._jsc.hadoopConfiguration()

    def entries(self, path: str) -> list[Entry]:
        """What a directory holds, by name; nothing if there is none."""
        where, system = self._open(path)
        if not system.exists(where):
            return []
        found = [
            Entry(status.getPath().getName(), status.isDirectory())
            for status in system.listStatus(where)
        ]
        return sorted(found, key=lambda entry: entry.name)

    def read(self, path: str) -> bytes | None:
        """The content of a file, if there is one."""
        where, system = self._open(path)
        if not system.exists(where):
            return None
        stream = system.open(where)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> None:
        """Put a file there, as a whole or not at all; directories are made."""
        where, system = self._open(path)
        draft, _ = self._open(f"{_parent(path)}/.{_name(path)}.draft")
        stream = system.create(draft, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        system.delete(where, False)
        if not system.rename(draft, where):
            raise FilesFailed(path, f"{draft} could not be renamed to it")

    def append(self, path: str, content: bytes) -> None:
        """Add to the end of a file, which is written anew: not every store can append."""
        self.write(path, (self.read(path) or b"") + content)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; does nothing if none is there."""
        where, system = self._open(path)
        system.delete(where, True)

    def _open(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where, where.getFileSystem(self._conf)


def files_of(root: str, session: SparkSession | None = None) -> Files:
    """The way to the files below a directory.

    Raises:
        NoFiles: They are reached through Spark only, and there is no session.
    """
    if is_local(root):
        return LocalFiles()
    if session is None:
        raise NoFiles(root)
    return HadoopFiles(session)


def is_local(path: str) -> bool:
    """Whether a path is one of this machine."""
    scheme = _SCHEME.match(path)
    return scheme is None or scheme[1] == "file"


def _local(path: str) -> Path:
    return Path(re.sub(r"^file:(?://)?", "", path))


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _failed(path: str, error: OSError) -> FilesFailed:
    return FilesFailed(path, error.strerror or str(error))

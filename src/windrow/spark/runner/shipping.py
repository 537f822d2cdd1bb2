"""How do Windrow and a user's modules get to the workers of a cluster?

On one machine the workers have the driver's environment. Elsewhere Windrow is sent as a zip, from
which Python imports; what it depends on has to be there, or in an archive that is sent along.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import windrow
from windrow.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZIP_NAME: Final = "windrow.zip"
_LEFT_OUT: Final = frozenset({"__pycache__"})
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


class NothingToShip(UsageError):
    """A file that was to be sent to the workers is not there."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path!r} is to be sent to the workers, but there is no such file"


def ship(
    session: SparkSession,
    directory: Path,
    *,
    py_files: Iterable[str] = (),
    archives: Iterable[str] = (),
) -> None:
    """Send modules and archives to the workers, and Windrow itself if they are elsewhere.

    Args:
        session: Whose workers.
        directory: Where the zip of Windrow is made; it has to stay while the session lives.
        py_files: Modules, zips and wheels.
        archives: Unpacked beside every worker, ``path#name`` under that name.

    Raises:
        NothingToShip: One of them is not there.
    """
    context = session.sparkContext
    if not str(context.master).startswith("local"):
        context.addPyFile(str(zip_package(directory / ZIP_NAME)))
    for path in py_files:
        context.addPyFile(_existing(path))
    for archive in archives:
        _existing(archive.partition("#")[0])
        context.addArchive(archive)


def zip_package(target: Path) -> Path:
    """Windrow as a zip that Python imports from; the same bytes for the same code."""
    package = Path(windrow.__file__).parent
    modules = sorted(package.parent.glob("pyspark_windrow_*.py"))
    files = [path for path in sorted(package.rglob("*")) if _is_wanted(path)]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [*modules, *files]:
            entry = zipfile.ZipInfo(str(path.relative_to(package.parent)), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return target


def _is_wanted(path: Path) -> bool:
    return path.is_file() and not _LEFT_OUT.intersection(path.parts)


def _existing(path: str) -> str:
    if "://" not in path and not Path(path).exists():
        raise NothingToShip(path)
    return path

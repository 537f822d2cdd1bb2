"""Archives of Java classes: a JVM maps one into memory, where it would load each class from a jar.

An archive fits one Java and one class path, so it is made where it is used. A JVM that finds that
it does not fit goes on without it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windrow.embedded.process import find_program

_QUIET: Final = "-Xlog:cds*=off"


def java_home() -> Path:
    """Of the Java that is used: the one of ``JAVA_HOME``, or else of the search path."""
    if "JAVA_HOME" in os.environ:
        return Path(os.environ["JAVA_HOME"]).resolve()
    return find_program("java", "openjdk-17-jre-headless").resolve().parent.parent


def digest_of(java: Path, *facts: object) -> str:
    """What tells archives of this Java, and of these facts, from all others."""
    release = java / "release"
    told = [java, release.read_text() if release.exists() else "", *facts]
    return hashlib.sha256("\n".join(map(str, told)).encode()).hexdigest()[:12]


def options_to_use(place: Path) -> list[str]:
    """What has a JVM use the archive; nothing where there is none."""
    return [f"-XX:SharedArchiveFile={place}", _QUIET] if place.is_file() else []


@contextmanager
def making(place: Path) -> Iterator[list[str]]:
    """Gives what has a JVM write the archive when it ends, which it has to do within the block."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        yield ["-XX:TieredStopAtLevel=1", f"-XX:ArchiveClassesAtExit={draft}", _QUIET]
        draft.rename(place)
    finally:
        draft.unlink(missing_ok=True)

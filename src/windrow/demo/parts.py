"""Which version of every part is installed here?"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from windrow.embedded.jars import place_of
from windrow.embedded.process import find_program
from windrow.errors import NotInstalled
from windrow.version import __version__

_ANSWER_TIMEOUT = 20.0
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the road; without a version it is not installed."""

    name: str
    version: str | None


def installed_parts() -> list[Part]:
    """Every part beside the embedded PostgreSQL, asked at the same time."""
    questions: dict[str, Callable[[], str | None]] = {
        "Python": platform.python_version,
        "Windrow": lambda: __version__,
        "Java": lambda: _said_by("java", "-version"),
        "Kafka": _kafka_jars,
        "Spark": _pyspark,
    }
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda ask: ask(), questions.values())
        return [Part(name, answer) for name, answer in zip(questions, answers, strict=True)]


def _said_by(program: str, flag: str) -> str | None:
    try:
        path = find_program(program, program)
        run = subprocess.run(
            [path, flag],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_ANSWER_TIMEOUT,
        )
    except (NotInstalled, OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(run.stdout)
    return version.group() if version and run.returncode == 0 else None


def _kafka_jars() -> str | None:
    return version_of_kafka(place_of("kafka", os.environ))


def version_of_kafka(directory: Path) -> str | None:
    """The version that the broker's own jar bears, if it is there."""
    names = (re.fullmatch(r"kafka_2\.13-(.+)\.jar", path.name) for path in directory.glob("*.jar"))
    return next((name[1] for name in names if name), None)


def _pyspark() -> str | None:
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return None

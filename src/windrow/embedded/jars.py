"""Where are the jars of Kafka and of Spark's Kafka connector?

In the user's cache, once per version of the ``pom.xml`` that names them. Maven fetches them into a
directory beside the final one, which is renamed when Maven has succeeded: a directory under its
final name is whole, and a download that was cut off is never taken for one.

``python -m windrow.embedded.jars`` fetches whatever is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import IO, Final, Literal, get_args

from windrow.embedded.process import find_program
from windrow.errors import Failed, WindrowError

JarSet = Literal["kafka", "spark-kafka"]
"""``kafka``: a broker with all it needs. ``spark-kafka``: what a Spark session adds to PySpark."""

JAR_SETS: Final[tuple[JarSet, ...]] = get_args(JarSet)
FETCH_TIMEOUT: Final = 600.0
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class FetchFailed(Failed):
    """Maven could not bring the jars."""

    def __init__(self, name: str, reason: str, output: str = "") -> None:
        super().__init__(name, reason, output)
        self.name, self.reason, self.output = name, reason, output

    def __str__(self) -> str:
        tail = f"\n{self.output}" if self.output else ""
        return (
            f"cannot fetch the jars of {self.name!r}: {self.reason};"
            f" run: python -m windrow.embedded.jars{tail}"
        )


def fetch(name: JarSet) -> Path:
    """The directory that holds the jars; they are fetched when they are not there yet.

    Processes that ask at the same time wait for one of them to fetch.

    Raises:
        NotInstalled: They have to be fetched, and there is no Maven.
        FetchFailed: Maven did not succeed; nothing is left behind.
    """
    place = place_of(name, os.environ)
    if not place.is_dir():
        maven = find_program("mvn", "maven")
        place.parent.mkdir(parents=True, exist_ok=True)
        with _only_fetcher(place.parent) as lock:
            if not place.is_dir():  # another process may have fetched while this one waited
                _fetch_into_place(name, maven, place, lock)
    return place


def jar_files(name: JarSet) -> list[Path]:
    """The jars one by one, sorted; fetched when needed."""
    return sorted(fetch(name).glob("*.jar"))


def place_of(name: JarSet, environ: Mapping[str, str]) -> Path:
    """Where the jars of the present ``pom.xml`` belong, fetched or not."""
    digest = hashlib.sha256(_pom(name)).hexdigest()[:12]
    return cache_directory(environ) / "jars" / f"{name}-{digest}"


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where this user keeps what is fetched or made once, for all environments."""
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
    return Path(cache, "windrow")


def _pom(name: JarSet) -> bytes:
    folder = resources.files("windrow.embedded") / "poms" / name.replace("-", "_")
    return (folder / "pom.xml").read_bytes()


@contextmanager
def _only_fetcher(root: Path) -> Iterator[IO[bytes]]:
    """Hold the cache's lock. One for all sets, since Maven's own cache knows no locking."""
    with open(root / ".lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def _fetch_into_place(name: JarSet, maven: Path, place: Path, lock: IO[bytes]) -> None:
    partial = place.with_name(place.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a fetcher that was killed
    partial.mkdir()
    try:
        (partial / "pom.xml").write_bytes(_pom(name))
        _run_maven(name, maven, partial, lock)
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run_maven(name: JarSet, maven: Path, directory: Path, lock: IO[bytes]) -> None:
    argv = [str(maven), "-q", "-B", "--strict-checksums"]
    # By its full name: asked for "dependency", Maven hides why it could not fetch the plugin.
    goal = ["org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"]
    goal += ["-DincludeScope=runtime", "-DoutputDirectory=."]
    try:
        done = subprocess.run(
            [*argv, *goal],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=FETCH_TIMEOUT,
            # Maven outlives a killed parent and goes on writing: so it holds the lock as well.
            pass_fds=[lock.fileno()],
        )
    except subprocess.TimeoutExpired as error:
        raise FetchFailed(name, f"mvn took more than {FETCH_TIMEOUT:.0f} s") from error
    if done.returncode != 0:
        tail = "\n".join(_COLOUR.sub("", done.stdout).strip().splitlines()[-15:])
        raise FetchFailed(name, f"mvn ended with exit code {done.returncode}", tail)


def main() -> int:
    """Fetch whatever is missing; say nothing when nothing is."""
    for name in JAR_SETS:
        if place_of(name, os.environ).is_dir():
            continue
        print(f"fetching the jars of {name} (once)", file=sys.stderr)
        try:
            fetch(name)
        except WindrowError as error:
            print(error, file=sys.stderr)
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

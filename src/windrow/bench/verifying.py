"""Part ``verify``: how many records per second ``windrow verify`` compares, and in what memory.

Each figure is a process of its own, from its first record to its verdict; a record counts once,
though it is read on both sides.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.bench import tallying
from windrow.bench.errors import NotDelivered
from windrow.bench.measurement import Figure, at_least, at_most
from windrow.bench.parts import Progress
from windrow.embedded.postgres import PostgresServer
from windrow.extras import require

KEYS = 1000
TABLE = "table:records"
_DSN = "WINDROW_BENCH_DSN"
_COLUMNS = "(id bigint PRIMARY KEY, key text NOT NULL)"


@dataclass(frozen=True, slots=True)
class Run:
    """One comparison: records per second, and the most memory it took, in MB."""

    rate: float
    megabytes: float


def measure(quick: bool, progress: Progress) -> list[Figure]:
    """Compare lines of JSON, SQLite and PostgreSQL, each with itself."""
    records, repeats = (200_000, 1) if quick else (2_000_000, 5)
    progress(0.0, "comparing record by record")
    tallied = tallying.measure(quick, lambda done, what: progress(0.3 * done, what))
    with tempfile.TemporaryDirectory(prefix="windrow-bench-") as place, _postgres(records) as dsn:
        directory = Path(place)
        progress(0.35, f"writing {records:,} records")
        ends = {
            "lines of JSON": (_lines(directory, records), ""),
            "SQLite": (TABLE, _sqlite(directory, records)),
            "PostgreSQL": (TABLE, dsn),
        }
        runs: dict[str, list[Run]] = {name: [] for name in ends}
        for n in range(repeats):
            for name, (source, address) in ends.items():
                progress(0.4 + 0.6 * n / repeats, f"windrow verify, {name}")
                runs[name].append(_verify(source, address, records, directory))
    rates = [
        Figure(
            f"windrow verify, {name}",
            "records/s",
            tuple(run.rate for run in some),
            at_least(200_000),
        )
        for name, some in runs.items()
    ]
    peaks = tuple(run.megabytes for some in runs.values() for run in some)
    return [*tallied, *rates, Figure("windrow verify, peak memory", "MB", peaks, at_most(500))]


def _verify(source: str, dsn: str, records: int, directory: Path) -> Run:
    argv = [sys.executable, "-m", "windrow", "verify", "--written", source, "--arrived", source]
    if dsn:
        argv += ["--written-dsn-env", _DSN, "--arrived-dsn-env", _DSN]
    with subprocess.Popen(
        [*argv, "--json"], cwd=directory, env={**os.environ, _DSN: dsn}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or (found := json.loads(printed))["written"] != records:
        raise NotDelivered(f"windrow verify of {source} ended with {process.returncode}", 0)
    return Run(records / found["seconds"], usage.ru_maxrss / 1000)


def _lines(directory: Path, records: int) -> str:
    with (directory / "records.jsonl").open("w") as file:
        file.writelines(
            f'{{"key": "key-{n % KEYS}", "id": {n}, "value": {{"name": "hero {n}"}}}}\n'
            for n in range(records)
        )
    return "jsonl:records.jsonl"


def _sqlite(directory: Path, records: int) -> str:
    path = directory / "records.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE records {_COLUMNS}")
        connection.executemany(
            "INSERT INTO records VALUES (?, ?)", ((n, f"key-{n % KEYS}") for n in range(records))
        )
        connection.commit()
    return f"sqlite:///{path}"


@contextmanager
def _postgres(records: int) -> Iterator[str]:
    psycopg: Any = require("psycopg")
    with PostgresServer.start() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLE records {_COLUMNS}")
            connection.execute(
                f"INSERT INTO records SELECT n, 'key-' || n % {KEYS}"
                f" FROM generate_series(0, {records - 1}) AS n"
            )
            connection.execute("VACUUM ANALYZE records")
        yield server.dsn()

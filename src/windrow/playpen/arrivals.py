"""What the receiver got, in the order in which it came, in a file that outlives it.

Each arrival is a row, a message that comes again included; ``copy`` says which of its id it is. All
that wait at the same moment are committed together, each is answered only then. The file is brought
to the disk with every commit.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from windrow.playpen.errors import UnusableFile
from windrow.playpen.messages import Message

_SCHEMA = """
CREATE TABLE IF NOT EXISTS arrivals (
  seq         INTEGER PRIMARY KEY,
  id          TEXT NOT NULL,
  msg         TEXT NOT NULL,
  correlation TEXT,
  payload     TEXT NOT NULL,
  form        TEXT NOT NULL,
  received    REAL NOT NULL,
  copy        INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS arrivals_id ON arrivals (id, seq);
CREATE INDEX IF NOT EXISTS arrivals_doubled ON arrivals (seq) WHERE copy > 1;
"""
_INSERT = """
INSERT INTO arrivals (id, msg, correlation, payload, form, received, copy)
SELECT :id, :msg, :correlation, :payload, :form, :received,
       1 + (SELECT count(*) FROM arrivals WHERE id = :id)
RETURNING seq, copy
"""
_COLUMNS = "seq, id, msg, correlation, payload, form, received, copy"
_LARGEST_BATCH = 500
_EXAMPLES = 100


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a message was put: its number, and which copy of its id it is, from 1 on."""

    seq: int
    copy: int


@dataclass(frozen=True, slots=True)
class Page:
    """Which arrivals to show: those after a number that bear all that is given."""

    after: int = 0
    limit: int = 100
    id: str | None = None
    msg: str | None = None
    correlation: str | None = None
    newest_first: bool = False


class Arrivals:
    """The file, a thread that writes to it, and connections of their own for who reads."""

    def __init__(self, path: Path, *, once: bool = False) -> None:
        """Make the file, if it is not there; ``open`` makes it ready to be written to.

        Args:
            path: The file.
            once: Whether a message that is there already is not kept again: the claim of an inbox,
                in the same transaction as the data.

        Raises:
            UnusableFile: It cannot be made, or is none of ours.
        """
        self.path, self._once = path, once
        self._waiting: queue.SimpleQueue[tuple[Message, Future[Kept]] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="arrivals")
        try:
            with closing(_connect(path)) as connection:
                connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise UnusableFile(str(path), str(error)) from None

    def open(self) -> Self:
        """Get ready to keep messages."""
        self._writer.start()
        return self

    def keep(self, message: Message) -> Future[Kept]:
        """Store a message; the future is done when it is on the disk."""
        done: Future[Kept] = Future()
        self._waiting.put((message, done))
        return done

    def close(self) -> None:
        """Write what waits, and end."""
        self._waiting.put(None)
        self._writer.join()

    def stats(self) -> dict[str, Any]:
        """How many came, how many of them are different, and how many came again."""
        with self._reading() as connection:
            (arrivals,) = connection.execute("SELECT count(*) FROM arrivals").fetchone()
            (doubled,) = connection.execute(
                "SELECT count(*) FROM arrivals WHERE copy > 1"
            ).fetchone()
            last = connection.execute(
                "SELECT received FROM arrivals ORDER BY seq DESC LIMIT 1"
            ).fetchone()
        return {
            "received": arrivals,
            "messages": arrivals - doubled,
            "duplicates": doubled,
            "lastReceivedAt": None if last is None else _moment(last[0]),
        }

    def page(self, page: Page) -> list[dict[str, Any]]:
        """Arrivals, in the order in which they came."""
        wanted = {"id": page.id, "msg": page.msg, "correlation": page.correlation}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(["seq > :after", *(f"{name} = :{name}" for name in given)])
        order = "DESC" if page.newest_first else "ASC"
        sql = f"SELECT {_COLUMNS} FROM arrivals WHERE {where} ORDER BY seq {order} LIMIT :limit"
        with self._reading() as connection:
            rows = connection.execute(sql, given | {"after": page.after, "limit": page.limit})
            return [_as_object(row) for row in rows]

    def duplicates(self, limit: int = _EXAMPLES) -> list[dict[str, Any]]:
        """The messages that came more than once, those that did last first."""
        sql = (
            "SELECT a.id, a.msg, a.correlation, max(a.copy), min(b.received), max(a.received)"
            " FROM arrivals AS a JOIN arrivals AS b ON b.id = a.id AND b.copy = 1"
            " WHERE a.copy > 1 GROUP BY a.id ORDER BY max(a.seq) DESC LIMIT ?"
        )
        with self._reading() as connection:
            return [
                {
                    "id": id,
                    "msg": msg,
                    "correlation": correlation,
                    "times": times,
                    "firstReceivedAt": _moment(first),
                    "lastReceivedAt": _moment(last),
                }
                for id, msg, correlation, times, first, last in connection.execute(sql, (limit,))
            ]

    def missing(self, ids: Iterable[str]) -> Iterator[str]:
        """Those of the ids that never came."""
        with self._reading() as connection:
            for id in ids:
                found = connection.execute("SELECT 1 FROM arrivals WHERE id = ? LIMIT 1", (id,))
                if found.fetchone() is None:
                    yield id

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(_connect(self.path)) as connection:
            connection.execute("BEGIN")  # all that is read here is of one moment
            yield connection

    def _write(self) -> None:
        with closing(_connect(self.path)) as connection:
            while batch := self._next_batch():
                self._commit(connection, batch)

    def _next_batch(self) -> list[tuple[Message, Future[Kept]]]:
        """All that wait by now; none when it is time to end."""
        batch = []
        entry = self._waiting.get()
        while entry is not None:
            batch.append(entry)
            if len(batch) == _LARGEST_BATCH:
                break
            try:
                entry = self._waiting.get_nowait()
            except queue.Empty:
                break
        else:
            if batch:
                self._waiting.put(None)  # for the next look
        return batch

    def _commit(
        self, connection: sqlite3.Connection, batch: list[tuple[Message, Future[Kept]]]
    ) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            kept = [self._insert(connection, message) for message, _ in batch]
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for _, done in batch:
                done.set_exception(error)
        else:
            for (_, done), where in zip(batch, kept, strict=True):
                done.set_result(where)

    def _insert(self, connection: sqlite3.Connection, message: Message) -> Kept:
        if self._once:
            known = connection.execute(
                "SELECT seq, copy FROM arrivals WHERE id = ? ORDER BY seq LIMIT 1", (message.id,)
            ).fetchone()
            if known is not None:
                return Kept(*known)
        return Kept(*connection.execute(_INSERT, _as_row(message)).fetchone())


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _as_row(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "msg": message.msg,
        "correlation": message.correlation,
        "payload": json.dumps(message.payload),
        "form": message.form,
        "received": time.time(),
    }


def _as_object(row: tuple[Any, ...]) -> dict[str, Any]:
    seq, id, msg, correlation, payload, form, received, copy = row
    return {
        "seq": seq,
        "id": id,
        "msg": msg,
        "payload": json.loads(payload),
        "correlation": correlation,
        "form": form,
        "receivedAt": _moment(received),
        "copy": copy,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")

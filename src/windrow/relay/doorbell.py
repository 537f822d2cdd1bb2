"""Waiting for something to read: until it is time to look again, or until a writer rings.

A writer rings only for a relay that has said it sleeps, so that a busy one costs writers nothing. A
ring may be missed, by a writer that looked a moment before the relay lay down and commits a moment
after: then the record waits for the next look, as it would without a doorbell.
"""

from __future__ import annotations

import contextlib
import threading

from windrow.errors import Unreachable, WindrowError
from windrow.extras import require
from windrow.outbox.doorbell import channel_of
from windrow.outbox.errors import DatabaseFailed
from windrow.outbox.queries import load_queries
from windrow.outbox.stores.session import Session
from windrow.outbox.table import Table, in_format, quote

DROWSY = 0.1
"""Who would wait so long before looking again lies down to sleep."""
SLEEP, TURN = 60.0, 30.0
"""For how long a relay says it sleeps, and how often it says so again: should it die meanwhile,
writers stop ringing for it after that."""
LISTEN_INTERVAL = 0.5


class Doorbell:
    """One that only the relay itself rings."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def set(self) -> None:
        """Ring: whoever waits looks at once."""
        self._rung.set()

    def wait(self, delay: float) -> None:
        """Wait so long, or until it rings."""
        self._rung.wait(delay)
        self._rung.clear()

    def on_rows(self) -> None:
        """There was something to read: awake."""

    def open(self) -> None:
        """Begin to listen."""

    def close(self) -> None:
        """Listen no more."""


class PostgresDoorbell(Doorbell):
    """One that writers ring by NOTIFY.

    Args:
        dsn: The outbox database; not by way of a transaction pooler.
        session: A connection of the thread that waits.
        table: The outbox.
        shard: Whose relay sleeps.
    """

    def __init__(self, dsn: str, session: Session, table: Table, shard: int = 0) -> None:
        super().__init__()
        self._dsn, self._session, self._table = dsn, session, table
        self._shard = shard
        names = {"doorbell": in_format(table.companion("_doorbell"))}
        raw = load_queries("windrow.relay", "doorbell.sql")
        self._queries = {name: query.format(**names) for name, query in raw.items()}
        # Until it is known: who led before may have died in its sleep.
        self._is_asleep = True
        self._say_again_in = 0.0
        self._ended = threading.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="windrow-doorbell", daemon=True)

    def open(self) -> None:
        """Begin to listen, in a thread of its own."""
        self._thread.start()

    def wait(self, delay: float) -> None:
        """Wait so long, or until it rings; who lies down looks once more before it sleeps."""
        if delay < DROWSY or not self._listens.is_set():
            super().wait(delay)
        elif self._is_asleep and self._say_again_in > 0:
            self._say_again_in -= delay
            super().wait(delay)
        else:
            self._say("sleep")

    def on_rows(self) -> None:
        """Say that nobody needs to ring any more."""
        if self._is_asleep:
            self._say("wake")

    def _say(self, what: str) -> None:
        """Without an answer it stays as it was said last, and the clock wakes us as ever."""
        with contextlib.suppress(DatabaseFailed, Unreachable):
            self._session.run(self._queries[what], {"shard": self._shard, "seconds": SLEEP})
            self._is_asleep, self._say_again_in = what == "sleep", TURN

    def _listen(self) -> None:
        driver = require("psycopg")
        while not self._ended.is_set():
            try:
                with driver.connect(self._dsn, autocommit=True) as connection:
                    connection.execute(f"LISTEN {quote(channel_of(self._table))}")
                    self._listens.set()
                    while not self._ended.is_set():
                        for _ in connection.notifies(timeout=LISTEN_INTERVAL, stop_after=1):
                            self.set()
            except (driver.Error, WindrowError):
                self._listens.clear()  # back to the clock alone, until there is a connection
                self._ended.wait(1.0)

    def close(self) -> None:
        """Listen no more; whoever leads next says for itself whether it sleeps."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(2 * LISTEN_INTERVAL)
        self._session.close()

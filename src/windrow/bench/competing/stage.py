"""PostgreSQL, an outbox, a receiver and relays: what the measures of competing mode stand on."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windrow.bench.errors import NotDelivered
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.postgres_binaries import debian_binaries
from windrow.embedded.process import Child
from windrow.extras import require
from windrow.outbox.schema import migrate
from windrow.outbox.table import Table

PATIENCE = 300.0
START_PATIENCE = 30.0
NAME = "bench-relay"

FILL = """
INSERT INTO outbox (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys,
                    kafka_header_values)
SELECT now(), 'HERO_CREATED', 'key-' || n, rpad(n::text, 200, 'x'), '{correlation-id}',
       ARRAY[n::text]
FROM generate_series(1, %(rows)s) AS n
"""


@dataclass
class Stage:
    """The servers, and the connection that looks at them."""

    postgres: PostgresServer
    connection: Any
    receiver_port: int
    directory: Path
    _running: list[Child] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where messages go."""
        return f"http://{LOOPBACK}:{self.receiver_port}/"

    def fill(self, rows: int) -> None:
        """A backlog that nobody takes before ``go``, and a receiver that knows nothing of it."""
        self.pause()
        self._ask("DELETE")
        self.connection.execute("TRUNCATE outbox")
        self.connection.execute(FILL, {"rows": rows})
        self.connection.execute("VACUUM ANALYZE outbox")
        self.connection.execute("CHECKPOINT")

    def pause(self) -> None:
        """Keep relays from claiming."""
        self.connection.execute(
            "INSERT INTO outbox_hold (what, name, reason) VALUES ('relay', '', 'paused')"
            " ON CONFLICT DO NOTHING"
        )

    def go(self) -> None:
        """Let them claim."""
        self.connection.execute("DELETE FROM outbox_hold WHERE reason = 'paused' AND name = ''")

    def wait_until_delivered(self, rows: int) -> None:
        """Wait for the last message, then see that each came once.

        Raises:
            NotDelivered: One is missing, or came twice: no figure is worth that.
        """
        self.wait(lambda: self.arrived()["messages"] >= rows, f"{rows} messages arrive")
        self.wait(self._is_empty, f"{rows} rows are gone")
        found = self.arrived()
        if found != {"messages": rows, "different": rows}:
            raise NotDelivered(f"{found} of {rows} messages", 0)

    def arrived(self) -> dict[str, int]:
        """How many messages the receiver has, and how many different ones."""
        found: dict[str, int] = json.loads(self._ask("GET"))
        return found

    @contextmanager
    def relays(self, count: int) -> Iterator[Sequence[Child]]:
        """So many relays, each in a process of its own, connected and looking."""
        with ExitStack() as stack:
            stack.callback(self._running.clear)
            for number in range(count):
                child = self._start_relay(f"{NAME}-{number}")
                stack.callback(child.stop)
                self._running.append(child)
            self.wait(lambda: self._connected() >= count, "all relays are connected")
            yield self._running

    def _start_relay(self, name: str) -> Child:
        dsn = self.postgres.dsn()
        named = f"{dsn}{'&' if '?' in dsn else '?'}application_name={name}"
        env = {
            "WINDROW__DATABASE__DSN": named,
            # A disk that stands still is the machine's affair: no relay is to end of it here.
            "WINDROW__DATABASE__ANSWER_TIMEOUT": f"{PATIENCE:g}s",
            "WINDROW__RELAY__MODE": "competing",
            "WINDROW__RELAY__NAME": name,
            "WINDROW__RELAY__HTTP__URL": self.url,
            "WINDROW__RELAY__HTTP__ALLOW_PRIVATE": "true",
            "WINDROW__LOG__LEVEL": "error",
        }
        argv = [sys.executable, "-m", "windrow", "relay"]
        log = self.directory / f"{name}.log"
        return Child.start(name, argv, cwd=self.directory, log=log, env=env)

    def _connected(self) -> int:
        (count,) = self.connection.execute(
            "SELECT count(DISTINCT application_name) FROM pg_stat_activity"
            f" WHERE application_name LIKE '{NAME}%'"
        ).fetchone()
        return int(count)

    def _is_empty(self) -> bool:
        (found,) = self.connection.execute("SELECT EXISTS (SELECT FROM outbox)").fetchone()
        return not found

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something to become true.

        Raises:
            NotDelivered: It did not, or a relay has ended and so it never will.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition():
            for relay in self._running:
                if not relay.is_alive():
                    raise NotDelivered(f"{what}; {relay.name} has ended: {relay.log_tail()}", 0)
            if time.monotonic() > deadline:
                count = self.arrived()["messages"]
                raise NotDelivered(f"{what}; {count} messages have arrived", PATIENCE)
            time.sleep(0.02)  # servers set no event: they have to be asked again

    def _ask(self, method: str) -> bytes:
        connection = http.client.HTTPConnection(LOOPBACK, self.receiver_port, timeout=30)
        try:
            connection.request(method, "/")
            return connection.getresponse().read()
        finally:
            connection.close()

    def is_receiving(self) -> bool:
        """Whether the receiver has come up."""
        with suppress(OSError):
            return self._ask("GET") != b""
        return False


@contextmanager
def stage() -> Iterator[Stage]:
    """PostgreSQL, durable, with an outbox ready to be filled, and a receiver."""
    with ExitStack() as stack:
        directory = create_directory("bench")
        stack.callback(remove_directory, directory)
        postgres = stack.enter_context(PostgresServer.start(binaries=debian_binaries()))
        connection = stack.enter_context(
            require("psycopg").connect(postgres.dsn(), autocommit=True)
        )
        migrate(connection, Table())
        port = free_port()
        argv = [sys.executable, "-m", "windrow.bench.competing.receiver", str(port)]
        child = Child.start("receiver", argv, cwd=directory, log=directory / "receiver.log")
        stack.callback(child.stop)
        on = Stage(postgres, connection, port, directory)
        child.wait_until(on.is_receiving, START_PATIENCE, "answer")
        yield on

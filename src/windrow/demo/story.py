"""The road as far as it is built: orders and their events, two relays, a kill, and the count.

A service places orders, each with its event in the same transaction, and rolls some back. Two
relays stand ready; the one that leads is killed in the middle. In the end the events that arrived
are counted against the table of orders, which no part of the road has ever written to.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.demo.errors import DemoStalled
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.postgres_binaries import embedded_binaries
from windrow.embedded.process import Child
from windrow.extras import require
from windrow.outbox import Outbox, Record, Table
from windrow.outbox.schema import migrate
from windrow.verify import Tally, tally
from windrow.verify.tally import Arrival, Entry

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

CUSTOMERS = 20
PATIENCE = 60.0
SETTINGS = {
    "relay.target": "jsonl",
    "relay.election.lease_ttl": "1s",
    "relay.election.margin": "100ms",
    "relay.delivery_timeout": "200ms",
}


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What happened, and the verdict on it."""

    postgres_version: str
    rolled_back: int
    killed: str
    verdict: Tally

    @property
    def holds(self) -> bool:
        """Whether every committed order arrived, in order, and only what may be repeated was."""
        return self.verdict.is_clean and self.verdict.written > 0


def demonstrate(
    say: Callable[[str], None], advance: Callable[[float], None], orders: int = 600
) -> Demonstration:
    """Tell the story on parts of its own, which are gone when it ends.

    Args:
        say: Takes each step as a sentence, as it is done.
        advance: Told how much of the orders is placed, from 0 to 1.
        orders: How many orders to place.

    Raises:
        MissingExtra: The driver or the embedded PostgreSQL is not installed.
        StartFailed: PostgreSQL did not come up.
        DemoStalled: The relays did not empty the outbox.
    """
    binaries = embedded_binaries()  # first: the extra that brings it brings the driver too
    driver = require("psycopg")
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer.start(binaries=binaries))
        say(f"PostgreSQL {server.version} runs, as process {server.pid}")
        connection = stack.enter_context(driver.connect(server.dsn()))
        create_tables(connection)
        say("outbox created beside the table of orders")
        directory = create_directory("demo")
        stack.callback(remove_directory, directory)
        relays = {name: start_relay(name, server.dsn(), directory) for name in ("first", "second")}
        for relay in relays.values():
            stack.callback(relay.kill)
        rolled_back, killed, may_repeat = place_orders(
            connection, orders, lambda: kill_leader(connection, relays, say), advance
        )
        say(f"{orders} orders placed, {rolled_back} of them rolled back")
        wait_until_empty(connection)
        for relay in relays.values():
            relay.stop()
        verdict = tally(
            list(written(connection)), list(arrived(directory / "events.jsonl")), may_repeat
        )
    return Demonstration(server.version, rolled_back, killed, verdict)


def create_tables(connection: Connection) -> None:
    """The data's own table, and the outbox."""
    connection.execute(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT NOT NULL, total NUMERIC)"
    )
    connection.commit()
    migrate(connection, Table())
    connection.commit()


def place_order(connection: Connection, number: int) -> None:
    """Write an order and its event on the caller's transaction, which stays open."""
    customer = f"customer-{number % CUSTOMERS}"
    connection.execute("INSERT INTO orders VALUES (%s, %s, %s)", (number, customer, 19.90))
    Outbox().stash(connection, Record("orders", customer, json.dumps({"order": number})))


def place_orders(
    connection: Connection,
    orders: int,
    strike: Callable[[], tuple[str, list[Arrival]]],
    advance: Callable[[float], None],
) -> tuple[int, str, list[Arrival]]:
    """Place them one by one, roll every tenth back, strike in the middle."""
    rolled_back, killed, may_repeat = 0, "", list[Arrival]()
    for number in range(1, orders + 1):
        place_order(connection, number)
        if number % 10 == 0:
            connection.rollback()
            rolled_back += 1
        else:
            connection.commit()
        if number == orders // 2:
            killed, may_repeat = strike()
        advance(number / orders)
    return rolled_back, killed, may_repeat


def start_relay(name: str, dsn: str, directory: Path) -> Child:
    """A relay in a process of its own, that writes events to a file."""
    settings = SETTINGS | {
        "database.dsn": dsn,
        "relay.name": name,
        "relay.path": str(directory / "events.jsonl"),
    }
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    argv = [sys.executable, "-m", "windrow", "relay", *flags]
    return Child.start(f"relay {name}", argv, cwd=directory, log=directory / f"{name}.log")


def kill_leader(
    connection: Connection, relays: dict[str, Child], say: Callable[[str], None]
) -> tuple[str, list[Arrival]]:
    """SIGKILL whoever leads; returns its name and the records that may come twice for it."""
    name = leader(connection)
    pid = relays[name].pid
    relays[name].kill()
    say(f"relay {name!r} leads: process {pid} killed with SIGKILL, the other one takes over")
    rows = connection.execute(
        "SELECT DISTINCT ON (kafka_key) kafka_key, kafka_value FROM outbox"
        " WHERE leader_id IS NOT NULL ORDER BY kafka_key, id"
    ).fetchall()
    connection.commit()
    return name, [(key, json.loads(value)["order"]) for key, value in rows]


def leader(connection: Connection) -> str:
    """The name of the relay that holds the lease; waits for one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        row = connection.execute(
            "SELECT leader FROM outbox_epoch JOIN outbox_lease USING (shard)"
            " WHERE starts_with(holder, leader || ' ') AND expires_at > clock_timestamp()"
        ).fetchone()
        connection.commit()
        if row is not None:
            return str(row[0])
        time.sleep(0.02)
    raise DemoStalled("no relay took the lead", PATIENCE)


def wait_until_empty(connection: Connection) -> None:
    """Wait for the relays to have delivered everything."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        row = connection.execute("SELECT count(*) FROM outbox").fetchone()
        connection.commit()
        if row is not None and row[0] == 0:
            return
        time.sleep(0.02)
    raise DemoStalled("the outbox was not emptied", PATIENCE)


def written(connection: Connection) -> Iterator[Entry]:
    """What the service committed: its own table, in the order of each customer."""
    for number, customer in connection.execute("SELECT id, customer FROM orders ORDER BY id"):
        yield Entry(customer, number)


def arrived(path: Path) -> Iterator[Arrival]:
    """What the last consumer got, in order."""
    for line in path.read_text().splitlines():
        event = json.loads(line)
        yield event["key"], json.loads(event["value"])["order"]

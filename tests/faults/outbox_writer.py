"""A service that stashes events for ever and keeps a ledger of it, until told to stop.

Several transactions are open at a time, each with keys of its own, and they commit in another order
than they began; some are rolled back. So ids appear late and with gaps, as they do in life.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import psycopg

from tests.faults.until_told import is_told_to_stop
from windrow.outbox import Outbox, Record
from windrow.verify import Ledger

OPEN_TRANSACTIONS = 3


class Service:
    def __init__(self, dsn: str, topic: str, ledger: Ledger, keys: int, seed: int) -> None:
        self.topic, self.ledger = topic, ledger
        self.random = random.Random(seed)
        self.outbox = Outbox()
        self.dsn = dsn
        # A key belongs to one connection: whoever holds an entity's lock stashes its events.
        self.keys = [
            [f"key-{seed}-{n}" for n in range(c, keys, OPEN_TRANSACTIONS)]
            for c in range(OPEN_TRANSACTIONS)
        ]
        self.open: dict[int, tuple[psycopg.Connection, list[tuple[str, int]]]] = {}
        self.connections: dict[int, psycopg.Connection] = {}
        self.number = 0

    def step(self) -> None:
        slot = self.random.randrange(OPEN_TRANSACTIONS)
        try:
            if slot in self.open:
                self.finish(slot)
            else:
                self.begin(slot)
        except psycopg.OperationalError:
            self.forget(slot)

    def begin(self, slot: int) -> None:
        connection = self.connections.get(slot)
        if connection is None or connection.closed:
            connection = self.connections[slot] = psycopg.connect(self.dsn)
        records = []
        for key in self.random.choices(self.keys[slot], k=self.random.randint(1, 4)):
            self.number += 1
            self.outbox.stash(connection, Record(self.topic, key, str(self.number)))
            records.append((key, self.number))
        self.open[slot] = connection, records

    def finish(self, slot: int) -> None:
        connection, records = self.open.pop(slot)
        if self.random.random() < 0.1:
            connection.rollback()
            return
        self.ledger.maybe(records)
        connection.commit()
        self.ledger.written(records)

    def forget(self, slot: int) -> None:
        """The link broke: what was being committed stays a maybe, all else never happened."""
        self.open.pop(slot, None)
        connection = self.connections.pop(slot, None)
        if connection is not None:
            connection.close()
        time.sleep(0.05)

    def stop(self) -> None:
        for connection in self.connections.values():
            connection.close()


def main(dsn: str, topic: str, directory: Path, rate: float, keys: int, seed: int) -> None:
    with Ledger(directory / f"ledger-{seed}") as ledger:
        service = Service(dsn, topic, ledger, keys, seed)
        while not is_told_to_stop(directory):
            service.step()
            time.sleep(1 / rate)  # the load is the point here, not a wait for something
        service.stop()


if __name__ == "__main__":
    dsn, topic, directory, rate, keys, seed = sys.argv[1:]
    main(dsn, topic, Path(directory), float(rate), int(keys), int(seed))

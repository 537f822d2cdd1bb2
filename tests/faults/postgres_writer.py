"""A process that commits one row after the other and keeps a ledger of it, until told to stop.

It lives through the death of the server. With ``wrong`` it makes a mistake that services make:

- ``hasty`` believes that a row is written before the commit has said so;
- ``careless`` asks the server not to wait for the disk;
- ``retrying`` writes a row again when the connection broke, though the commit may have happened.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psycopg

from tests.faults.until_told import is_told_to_stop
from windrow.points import Points
from windrow.verify import Ledger

KEYS = 8
BEFORE_COMMIT, AFTER_COMMIT = "before-commit", "after-commit"


class Writer:
    def __init__(self, dsn: str, ledger: Ledger, points: Points, wrong: str) -> None:
        self.dsn, self.ledger, self.points, self.wrong = dsn, ledger, points, wrong
        self.connection = self.connect()

    def connect(self) -> psycopg.Connection:
        while True:
            try:
                connection = psycopg.connect(self.dsn)
                if self.wrong == "careless":
                    connection.execute("SET synchronous_commit = off")
                    connection.commit()
                return connection
            except psycopg.OperationalError:
                time.sleep(0.01)

    def write(self, key: str, number: int) -> None:
        """Commit the row, or leave it a maybe: a commit that breaks off may have happened."""
        record = [(key, number)]
        while True:
            try:
                self.connection.execute("INSERT INTO arrived (key, id) VALUES (%s, %s)", record[0])
                note = self.ledger.written if self.wrong == "hasty" else self.ledger.maybe
                note(record)
                self.points.pass_by(BEFORE_COMMIT)
                self.connection.commit()
                self.points.pass_by(AFTER_COMMIT)
                if self.wrong == "retrying":
                    self.connection.execute("SELECT 1")
                if self.wrong != "hasty":
                    self.ledger.written(record)
            except psycopg.OperationalError:
                self.connection.close()
                self.connection = self.connect()
                if self.wrong != "retrying":
                    return
            else:
                return


def main(dsn: str, directory: Path, wrong: str) -> None:
    with Ledger(directory / "ledger") as ledger:
        writer = Writer(dsn, ledger, Points(directory), wrong)
        number = 0
        while not is_told_to_stop(directory):
            writer.write(f"key-{number % KEYS}", number)
            number += 1
        writer.connection.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])

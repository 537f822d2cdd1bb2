"""A service that stashes messages for ever and keeps a ledger of it, until told to stop.

``python -m tests.faults.competing.writer DIRECTORY RATE``, the address of its database in the
environment. Each message has a key of its own: competing relays keep no order.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from tests.contract.claim_places import Place
from tests.faults.until_told import is_told_to_stop
from windrow.outbox import Outbox, Record
from windrow.verify import Ledger


def record_of(number: int) -> Record:
    key = f"key-{number}"
    return Record("heroes", key, json.dumps({"key": key, "number": number}))


def main(dsn: str, directory: Path, rate: float) -> None:
    outbox, dice, number = Outbox(), random.Random(0), 0
    with (
        Ledger(directory / "ledger") as ledger,
        Place(dsn).connect(autocommit=False) as connection,
    ):
        while not is_told_to_stop(directory):
            records = [record_of(number + n) for n in range(dice.randint(1, 4))]
            noted = [(f"key-{number + n}", number + n) for n in range(len(records))]
            number += len(records)
            outbox.stash_many(connection, records)
            if dice.random() < 0.1:
                connection.rollback()
                continue
            ledger.maybe(noted)
            connection.commit()
            ledger.written(noted)
            time.sleep(len(records) / rate)  # the load is the point here


if __name__ == "__main__":
    main(os.environ["WRITER_DSN"], Path(sys.argv[1]), float(sys.argv[2]))

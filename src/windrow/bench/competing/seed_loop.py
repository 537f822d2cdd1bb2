"""The loop that is often written first: take one row, send it, delete it, sleep for 10 ms.

For comparison only. It has no lease, no back-off and no stop.
"""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

from windrow.bench.competing.stage import Stage

PAUSE = 0.01
TAKE = "SELECT id, kafka_value FROM outbox ORDER BY create_time LIMIT 1 FOR UPDATE SKIP LOCKED"


def seed_rate(on: Stage, rows: int) -> float:
    """Messages a second of such a loop."""
    on.fill(rows)
    address = urlsplit(on.url)
    began = time.perf_counter()
    for _ in range(rows):
        with on.connection.transaction():
            row, value = on.connection.execute(TAKE).fetchone()
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        connection.request("POST", "/", value, {"idempotency-key": str(row)})
        connection.getresponse().read()
        connection.close()
        on.connection.execute("DELETE FROM outbox WHERE id = %s", (row,))
        time.sleep(PAUSE)  # as the loop does, also when there is a backlog
    rate = rows / (time.perf_counter() - began)
    on.wait_until_delivered(rows)
    return rate

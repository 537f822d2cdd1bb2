"""The format windrow-http: rows are posted, with a key by which a receiver knows them again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.sink_streams import Numbered
from windrow.config.journal import Journal
from windrow.embedded.broker import Broker
from windrow.spark.places import Connections, Place
from windrow.spark.queues.clients import close_clients
from windrow.spark.queues.create import ensure_journals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Receiver(ThreadingHTTPServer):
    """Keeps what was posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posted: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/prices"

    @property
    def texts(self) -> list[str]:
        return [json.loads(body)["text"] for _, body in self.posted]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.posted.append((self.headers["Idempotency-Key"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def numbered(spark: SparkSession, tmp_path: Path) -> Numbered:
    return Numbered(spark, tmp_path)


def replay(numbered: Numbered, options: dict[str, str]) -> None:
    frame = numbered.frame.repartition(1)
    numbered.add(range(2))
    numbered.add(range(2, 5))
    numbered.run(frame, "windrow-http", options)
    numbered.forget_last_commit()
    numbered.run(frame, "windrow-http", options)


def test_replayed_batch_is_posted_again_under_the_same_keys(
    numbered: Numbered, receiver: Receiver
) -> None:
    """The control of the other sinks' replays, too: without marks a replay doubles."""
    replay(numbered, {"url": receiver.url, "uid": "posting"})
    assert receiver.texts == ["t0", "t1", "t2", "t3", "t4", "t2", "t3", "t4"]
    assert receiver.posted[2:5] == receiver.posted[5:]
    assert len({key for key, _ in receiver.posted}) == 5


def test_replayed_batch_is_not_posted_again_where_progress_is_kept(
    numbered: Numbered, receiver: Receiver
) -> None:
    with Broker.start() as broker:
        connections = Connections(journal=Journal(address=broker.address))
        ensure_journals([Place("p", "journal", "progress/posting", 1, {}, connections)])
        options = {"progress": "progress/posting", "address": broker.address}
        replay(numbered, {"url": receiver.url, "uid": "posting", **options})
        close_clients()
    assert receiver.texts == ["t0", "t1", "t2", "t3", "t4"]

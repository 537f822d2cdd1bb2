"""A URL as an effect: tried again while that helps, under the same key."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from windrow.embedded.ports import LOOPBACK, free_port
from windrow.errors import Unreachable
from windrow.graph.positions import Position
from windrow.graph.sink_rows import SinkRow
from windrow.spark.places import Place
from windrow.spark.stores import Content
from windrow.spark.targets.errors import RowRefused, TargetUnusable
from windrow.spark.targets.http import HttpEffect, HttpOptions
from windrow.spark.targets.open import open_effect, open_target


class Receiver(ThreadingHTTPServer):
    """Answers as it is told to, and with 200 when it is told nothing."""

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.seen: list[tuple[str, bytes, str, str | None]] = []
        self.url = f"http://{LOOPBACK}:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key, kind = self.headers["Idempotency-Key"], self.headers["Content-Type"]
        self.server.seen.append((key, body, kind, self.headers.get("Authorization")))
        status, headers = self.server.answers.pop(0) if self.server.answers else (200, {})
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def effect(receiver: Receiver, pauses: list[float]) -> Iterator[HttpEffect]:
    effect = HttpEffect(receiver.url, HttpOptions(attempts=3), pauses.append)
    yield effect
    effect.close()


def post(index: int, ordinal: int = 0) -> SinkRow:
    at = Position("orders", "first", 0, index, ordinal)
    return SinkRow((at,), Content(b'{"n": %d}' % index, delivery_hash=f"{index:064x}"))


def test_rows_are_posted_in_order_under_their_hashes(
    receiver: Receiver, effect: HttpEffect
) -> None:
    effect([post(0), post(1), post(1, 1)])
    keys = [key for key, _, _, _ in receiver.seen]
    assert keys == [f"{0:064x}", f"{1:064x}", f"{1:064x}-1"]
    assert receiver.seen[0][1:3] == (b'{"n": 0}', "application/json")


def test_refusals_that_pass_are_tried_again_under_the_same_key(
    receiver: Receiver, effect: HttpEffect, pauses: list[float]
) -> None:
    receiver.answers = [(503, {}), (429, {"Retry-After": "7"})]
    effect([post(0)])
    assert len(receiver.seen) == 3
    assert len({key for key, _, _, _ in receiver.seen}) == 1
    assert pauses == [0.2, 7.0]


def test_server_that_goes_on_failing_is_given_up_and_the_task_fails(
    receiver: Receiver, effect: HttpEffect
) -> None:
    receiver.answers = [(500, {})] * 3
    with pytest.raises(Unreachable, match="it answered 500 Internal Server Error, 3 times"):
        effect([post(0), post(1)])
    assert len(receiver.seen) == 3


def test_refusal_for_good_names_the_position(receiver: Receiver, effect: HttpEffect) -> None:
    receiver.answers = [(200, {}), (422, {})]
    with pytest.raises(RowRefused, match=r'"orders" partition 0 index 1: it answered 422'):
        effect([post(0), post(1), post(2)])
    assert len(receiver.seen) == 2


def test_nobody_there_is_unreachable(pauses: list[float]) -> None:
    effect = HttpEffect(f"http://{LOOPBACK}:{free_port()}/", HttpOptions(attempts=2), pauses.append)
    with pytest.raises(Unreachable, match="cannot reach HTTP at"):
        effect([post(0)])
    effect.close()
    assert pauses == [0.2]


def test_secret_headers_are_sent_and_not_shown(receiver: Receiver) -> None:
    options = {"secret_headers": {"Authorization": "Bearer hunter2"}, "content_type": "text/plain"}
    place = Place("hook", "http", receiver.url, 1, options)
    effect = open_effect(place)
    effect([post(0)])
    effect.close()
    assert receiver.seen[0][2:] == ("text/plain", "Bearer hunter2")
    assert "hunter2" not in repr(place) + repr(HttpOptions.read(receiver.url, options))


def test_url_is_no_target_and_a_topic_no_effect(receiver: Receiver) -> None:
    with pytest.raises(TargetUnusable, match="no high-water can be kept there"):
        open_target(Place("hook", "http", receiver.url))
    with pytest.raises(TargetUnusable, match="it is no URL to post to"):
        open_effect(Place("hook", "kafka", "topic"))

"""What the receiver answered for is kept; it misbehaves exactly as it is asked to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest
from starlette.routing import Route

from tests.fixtures.processes import eventually
from tests.integration.playpen.conftest import plain, post, request
from windrow.errors import StartFailed
from windrow.playpen.arrivals import Arrivals
from windrow.playpen.heroes import Heroes
from windrow.playpen.openapi import PRODUCER, RECEIVER, describe
from windrow.playpen.producer import Producer, producer_app
from windrow.playpen.receiver import Receiver, receiver_app
from windrow.playpen.services import PlaypenReceiver


@pytest.fixture(scope="module")
def shared() -> Iterator[PlaypenReceiver]:
    """One for the tests that use ids of their own and set the fault they need."""
    with PlaypenReceiver.start() as receiver:
        yield receiver


@pytest.fixture
def kind(shared: PlaypenReceiver) -> Iterator[PlaypenReceiver]:
    """The shared one, without a fault."""
    shared.set_fault("none")
    yield shared
    shared.set_fault("none")


def copies(receiver: PlaypenReceiver, id: str) -> int:
    return len(receiver.get(f"/messages?id={id}")["messages"])


def test_every_message_that_was_answered_survives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with PlaypenReceiver.start(path) as receiver:
        answered: list[str] = []

        def send(sender: int) -> None:
            for number in range(10_000):
                id = f"{sender}-{number}"
                try:
                    if post(receiver, "/receive", plain(id)).status == 200:
                        answered.append(id)
                except (OSError, HTTPException):
                    return

        senders = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
        for sender in senders:
            sender.start()
        assert eventually(lambda: len(answered) > 100, 60.0)
        receiver.kill()
        for sender in senders:
            sender.join()
        receiver.restart()
        known = request(receiver, "POST", "/gaps", {"ids": answered}).json
        assert (known["expected"], known["missing"]) == (len(answered), [])
        assert post(receiver, "/receive", plain(answered[0])).json["copy"] == 2
        assert receiver.get("/stats")["duplicates"] == 1
    assert path.exists(), "a file that was asked for is not removed with the receiver"


def test_message_that_comes_again_is_shown_with_how_often_it_came(kind: PlaypenReceiver) -> None:
    before = kind.get("/duplicates")["duplicates"]
    for _ in range(3):
        assert post(kind, "/receive", plain("again")).status == 200
    found = kind.get("/duplicates")
    assert found["duplicates"] == before + 2
    assert found["messages"][0]["id"] == "again"
    assert found["messages"][0]["times"] == 3


def test_cloud_events_are_taken_in_both_modes(kind: PlaypenReceiver) -> None:
    binary = post(
        kind,
        "/receive",
        {"name": "x"},
        ce_specversion="1.0",
        ce_id="binary",
        ce_type="HERO_CREATED",
    )
    assert binary.status == 200
    event = {"specversion": "1.0", "id": "structured", "source": "x", "type": "HERO_CREATED"}
    answer = post(kind, "/receive", event, content_type="application/cloudevents+json")
    assert answer.status == 200
    assert post(kind, "/receive", b"nonsense").status == 400
    (kept,) = kind.get("/messages?id=binary")["messages"]
    assert (kept["form"], kept["payload"], kept["correlation"]) == ("binary", {"name": "x"}, None)


@pytest.mark.parametrize(("mode", "status"), [("fail", 503), ("reject", 400)])
def test_failure_before_keeps_nothing_and_one_after_keeps_it(
    kind: PlaypenReceiver, mode: str, status: int
) -> None:
    kind.set_fault(mode, when="before")
    assert post(kind, "/receive", plain(f"{mode}-before")).status == status
    kind.set_fault(mode, when="after", status=status + 1)
    assert post(kind, "/receive", plain(f"{mode}-after")).status == status + 1
    assert kind.get("/faults")["applied"] == 1
    kind.set_fault("none")
    assert copies(kind, f"{mode}-before") == 0
    assert copies(kind, f"{mode}-after") == 1
    assert post(kind, "/receive", plain(f"{mode}-after")).json["copy"] == 2


def test_seeded_failures_strike_the_same_messages_again(kind: PlaypenReceiver) -> None:
    runs = []
    for run in range(2):
        kind.set_fault("fail", rate=0.5, seed=11)
        runs.append(
            [post(kind, "/receive", plain(f"seeded-{run}-{number}")).status for number in range(20)]
        )
    assert runs[0] == runs[1]
    assert set(runs[0]) == {200, 503}


@pytest.mark.parametrize(("when", "kept"), [("before", 0), ("after", 1)])
def test_held_request_is_not_answered_until_the_client_gives_up(
    kind: PlaypenReceiver, when: str, kept: int
) -> None:
    kind.set_fault("hold", when=when)
    with pytest.raises(TimeoutError):
        request(kind, "POST", "/receive", plain(f"held-{when}"), timeout=0.3)
    assert kind.get("/stats")["fault"] == "hold", "it answers others meanwhile"
    kind.set_fault("none")
    assert post(kind, "/receive", plain("next")).status == 200
    assert copies(kind, f"held-{when}") == kept


def test_request_held_for_a_while_goes_on_as_if_nothing_had_been(kind: PlaypenReceiver) -> None:
    kind.set_fault("hold", seconds=0.05)
    assert post(kind, "/receive", plain("held-shortly")).status == 200
    assert copies(kind, "held-shortly") == 1


def test_stalled_event_loop_answers_nobody_and_then_everybody(kind: PlaypenReceiver) -> None:
    kind.set_fault("stall", seconds=2.5)
    stalled: list[int] = []
    sender = threading.Thread(
        target=lambda: stalled.append(post(kind, "/receive", plain("stalled")).status)
    )
    sender.start()
    # In the loop's hands or not yet: a look that comes too early is simply answered.
    assert eventually(lambda: not answers_at_once(kind)), "nobody is answered while it stalls"
    sender.join()
    assert stalled == [200]
    assert copies(kind, "stalled") == 1


def answers_at_once(receiver: PlaypenReceiver) -> bool:
    try:
        return request(receiver, "GET", "/healthz", timeout=0.3).status == 200
    except TimeoutError:
        return False


def test_fault_that_does_not_exist_is_refused_and_changes_nothing(kind: PlaypenReceiver) -> None:
    for fault in ({"mode": "offline"}, {"mode": "explode"}, {"mode": "fail", "rate": 2}):
        assert request(kind, "PUT", "/faults", fault).status == 422
    assert kind.get("/faults")["mode"] == "none"


def test_openapi_documents_name_the_routes_there_are(tmp_path: Path) -> None:
    producer = Producer(Heroes(f"sqlite:///{tmp_path}/heroes.db"), "http://127.0.0.1:9")
    receiver = Receiver(Arrivals(tmp_path / "receiver.db"))
    apps = [(producer_app(producer), PRODUCER), (receiver_app(receiver), RECEIVER)]
    for app, description in apps:
        routes = {
            (method, route.path)
            for route in app.routes
            if isinstance(route, Route)
            for method in (route.methods or set()) - {"HEAD"}
        }
        described = {
            (method.upper(), path)
            for path, methods in describe(description)["paths"].items()
            for method in methods
        }
        assert routes == described, description.title


def test_documents_are_served(kind: PlaypenReceiver) -> None:
    assert kind.get("/openapi.json")["info"]["title"] == "Play-pen receiver"
    docs = request(kind, "GET", "/docs")
    assert docs.headers["content-type"].startswith("text/html")
    assert b"/faults" in docs.content


def test_port_that_is_taken_is_named_without_a_traceback(kind: PlaypenReceiver) -> None:
    with pytest.raises(StartFailed, match="something else listens there") as refusal:
        PlaypenReceiver.start(port=kind.port)
    assert "Traceback" not in str(refusal.value)


def test_behind_an_inbox_no_message_is_kept_twice(tmp_path: Path) -> None:
    """Not even if the answer was lost, or the receiver killed in between."""
    with PlaypenReceiver.start(tmp_path / "kept.db", idempotent=True) as receiver:
        headers = {"ce_specversion": "1.0", "ce_id": "once", "ce_type": "HERO_CREATED"}
        receiver.set_fault("fail", when="after")
        assert post(receiver, "/receive", {"name": "x"}, **headers).status == 503
        receiver.set_fault("none")
        first = post(receiver, "/receive", {"name": "x"}, **headers)
        again = post(receiver, "/receive", {"name": "x"}, **headers)
        assert (first.status, again.status) == (200, 200)
        assert again.json == first.json
        assert again.headers["idempotent-replayed"] == "true"
        receiver.kill()
        receiver.restart()
        assert post(receiver, "/receive", {"name": "x"}, **headers).status == 200
        assert post(receiver, "/receive", b"nonsense").status == 400
        stats = receiver.get("/stats")
        assert (stats["received"], stats["duplicates"]) == (1, 0)

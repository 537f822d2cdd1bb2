"""A hero and its message are written together, whatever happens; the control's are not."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.fixtures.processes import eventually
from tests.integration.playpen.conftest import HERO, post, request
from windrow.embedded.postgres import PostgresServer
from windrow.playpen.heroes import BEFORE_COMMIT, COMMITTED, HERO_WRITTEN
from windrow.playpen.services import PlaypenProducer, PlaypenReceiver
from windrow.points import VARIABLE, Points, Strike

NOBODY = "http://127.0.0.1:9"
"""The port of the discard service, which nobody runs."""
EARLY = (HERO_WRITTEN, BEFORE_COMMIT)


def create_until_struck(producer: PlaypenProducer, path: str) -> None:
    with pytest.raises((http.client.HTTPException, OSError)):
        post(producer, path, HERO)
    assert eventually(lambda: not producer.is_alive())


def test_hero_and_message_are_written_and_the_dead_leave_neither(dsn: str, tmp_path: Path) -> None:
    """On each database: a kill before the commit leaves nothing, one after it leaves both."""
    points = Points(tmp_path)
    with PlaypenProducer.start(dsn, NOBODY, env={VARIABLE: str(tmp_path)}) as producer:
        created = post(producer, "/hero/create", HERO)
        assert created.status == 201
        assert created.json["id"] == 1
        for point in EARLY if dsn.startswith("postgres") else EARLY[1:]:
            points.want(point, Strike("exit"))
            create_until_struck(producer, "/hero/create")
            points.release(point)
            producer.restart()
            counts = producer.get("/stats")
            assert (counts["heroes"], counts["waiting"]) == (1, 1), point
        points.want(COMMITTED, Strike("exit"))
        create_until_struck(producer, "/hero/create")
        points.release(COMMITTED)
        producer.restart()
        counts = producer.get("/stats")
        assert (counts["heroes"], counts["waiting"], counts["dead"]) == (2, 2, 0)
        outbox = producer.get("/outbox")
        assert [each["msg"] for each in outbox["messages"]] == ["HERO_CREATED"] * 2
        assert [each["attempts"] for each in outbox["messages"]] == [0, 0]


def test_control_that_dies_before_its_call_loses_the_message(
    database: str, receiver: PlaypenReceiver, tmp_path: Path
) -> None:
    """Which the message of an outbox, killed right there, survives: see above."""
    points = Points(tmp_path)
    env = {VARIABLE: str(tmp_path)}
    with PlaypenProducer.start(database, receiver.url, env=env) as producer:
        points.want(COMMITTED, Strike("exit"))
        create_until_struck(producer, "/hero/create-sync")
        points.release(COMMITTED)
        producer.restart()
        gaps = receiver.get(f"/gaps?producer={producer.url}")
        assert (gaps["sync"]["expected"], gaps["sync"]["missing"]) == (1, 1)


def test_control_loses_its_message_while_the_receiver_is_away(
    producer: PlaypenProducer, receiver: PlaypenReceiver
) -> None:
    assert post(producer, "/hero/create-sync", HERO).status == 201
    receiver.end()
    lost = post(producer, "/hero/create-sync", HERO, correlation_id="lost-1")
    assert lost.status == 502
    assert lost.json["hero"]["name"] == "Batman"
    assert post(producer, "/hero/create", HERO).status == 201
    receiver.restart()
    gaps = receiver.get(f"/gaps?producer={producer.url}")
    assert gaps["sync"]["examples"] == [lost.json["hero"]["messageId"]]
    waiting = producer.get("/outbox")["waiting"]
    assert waiting > 0
    assert gaps["outbox"]["missing"] == waiting, "the outbox's message is not lost: it waits"
    refused = request(receiver, "GET", "/gaps?producer=http://elsewhere.example")
    assert (refused.status, "this machine" in refused.json["error"]) == (400, True)


def test_correlation_goes_from_the_request_to_log_answer_and_message(
    producer: PlaypenProducer, receiver: PlaypenReceiver
) -> None:
    answer = post(producer, "/hero/create-sync", HERO, x_correlation_id="request-7")
    assert answer.headers["correlation-id"] == "request-7"
    (message,) = receiver.get("/messages?correlation=request-7")["messages"]
    assert message["id"] == answer.json["messageId"]
    assert message["payload"] == {key: answer.json[key] for key in message["payload"]}
    assert "request-7" in producer.log.read_text()
    assert "request-7" in receiver.log.read_text()
    made_up = post(producer, "/hero/create", HERO)
    assert made_up.json["correlation"] == made_up.headers["correlation-id"]


def test_bad_requests_are_answered_in_json_and_write_nothing(producer: PlaypenProducer) -> None:
    before = producer.get("/stats")["heroes"]
    refusals = [
        (400, post(producer, "/hero/create", b"{")),
        (422, post(producer, "/hero/create", {"name": ""})),
        (400, post(producer, "/hero/create", HERO, correlation_id="a b")),
        (413, post(producer, "/hero/create", {"name": "x" * 2_000_000})),
        (400, request(producer, "GET", "/heroes?after=-1")),
        (400, request(producer, "GET", "/heroes?via=pigeon")),
        (404, request(producer, "GET", "/villains")),
        (405, request(producer, "GET", "/hero/create")),
    ]
    for expected, answer in refusals:
        assert answer.status == expected, answer
        assert answer.json["error"]
    assert producer.get("/stats")["heroes"] == before


def test_heroes_are_listed_page_by_page(producer: PlaypenProducer) -> None:
    made = [post(producer, "/hero/create", {"name": f"hero-{number}"}) for number in range(5)]
    first = producer.get(f"/heroes?limit=3&after={made[0].json['id'] - 1}")
    assert [hero["name"] for hero in first["heroes"]] == ["hero-0", "hero-1", "hero-2"]
    rest = producer.get(f"/heroes?limit=3&after={first['next']}")
    assert [hero["name"] for hero in rest["heroes"]] == ["hero-3", "hero-4"]
    assert rest["next"] is None
    newest = producer.get("/heroes?limit=1&order=newest")
    assert [hero["name"] for hero in newest["heroes"]] == ["hero-4"]
    assert producer.get(f"/heroes?via=sync&after={made[0].json['id']}")["heroes"] == []


def test_producer_outlives_its_database_and_says_that_nothing_was_written() -> None:
    with (
        PostgresServer.start() as server,
        PlaypenProducer.start(server.dsn(), NOBODY) as producer,
    ):
        assert post(producer, "/hero/create", HERO).status == 201
        server.kill()
        away = post(producer, "/hero/create", HERO)
        assert (away.status, away.json["outcome"]) == (503, "not written")
        server.restart()
        assert eventually(lambda: post(producer, "/hero/create", HERO).status == 201, 30.0)
        written = [hero["id"] for hero in producer.get("/heroes")["heroes"]]
        assert len(written) == 2


def test_password_of_the_database_is_in_no_process_list_and_no_log(mariadb_database: str) -> None:
    password = mariadb_database.split(":")[2].split("@")[0]
    with PlaypenProducer.start(mariadb_database, NOBODY) as producer:
        post(producer, "/hero/create", HERO)
        command = Path(f"/proc/{producer.pid}/cmdline").read_text()
        assert "playpen" in command
        assert password not in command
        assert password not in producer.log.read_text()

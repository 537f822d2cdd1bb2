"""Rows that are under way while their service dies are there once when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.faults.sql_link import Lost, SqlLink
from tests.fixtures.services import start_service
from tests.integration.spark.target_stages import (
    ROUTING,
    JournalStage,
    KafkaStage,
    PostgresStage,
    Stage,
    row,
    texts,
)
from windrow.config import Dsn
from windrow.embedded.broker import Broker
from windrow.embedded.kafka import KafkaBroker
from windrow.embedded.link import Link
from windrow.embedded.link_rules import Action, Chunk, Direction
from windrow.embedded.ports import LOOPBACK
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.service import Service
from windrow.errors import Failed, Unreachable
from windrow.graph.sink_task import TaskDone, WriteUnknown
from windrow.graph.snapshot import ProcessorUid
from windrow.journal.client.sync import connect
from windrow.journal.message.framing import MAGIC
from windrow.spark.places import Connections, Place
from windrow.spark.queues.clients import close_clients
from windrow.spark.targets.journal import JournalTarget
from windrow.spark.targets.postgres import PostgresTarget

STEPS = 40
PATIENCE = 120.0

Made = tuple[Service, Stage]


@pytest.fixture(params=["journal", "kafka", "postgres"])
def made(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[Made]:
    """A service of the test's own, and a stage on it."""
    starts: dict[str, Callable[[], Any]] = {
        "journal": Broker.start,
        "kafka": KafkaBroker.start,
        "postgres": PostgresServer.start,
    }
    with start_service(pytestconfig, request.param, starts[request.param]) as service:
        match service:
            case Broker():
                yield service, JournalStage(service.address)
                close_clients()
            case KafkaBroker():
                yield service, KafkaStage(service.bootstrap)
            case PostgresServer():
                yield service, PostgresStage(service.dsn())


def test_rows_under_way_while_the_service_is_killed_are_written_once(made: Made) -> None:
    service, stage = made
    rows = [row(index) for index in range(10 * STEPS)]
    done = threading.Event()

    def deliver() -> None:
        deadline = time.monotonic() + PATIENCE
        with stage.opened() as target:
            for step in range(1, STEPS + 1):
                while time.monotonic() < deadline:
                    with suppress(Failed):  # as a task that failed: it is tried again
                        stage.run(target, rows[: 10 * step], rows_per_write=3)
                        break
                if step == 10:
                    done.set()

    thread = threading.Thread(target=deliver)
    thread.start()
    assert done.wait(PATIENCE)
    service.kill()
    service.restart()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert stage.contents(0) == texts(range(10 * STEPS))
    with stage.opened() as target:
        assert stage.run(target, rows) == TaskDone(0, 0, len(rows))


@pytest.fixture
def linked(pytestconfig: pytest.Config) -> Iterator[tuple[PostgresStage, SqlLink]]:
    """A table behind a link that can lose a statement, or the answer to it."""
    with start_service(pytestconfig, "PostgreSQL (own)", PostgresServer.start) as server:
        strikes = SqlLink()
        stage = PostgresStage(server.dsn())
        with Link.start((LOOPBACK, server.port), strikes) as link:
            connections = Connections(postgres_dsn=Dsn(server.dsn(port=link.port)))
            stage.place = Place("priced", "postgres", "priced", 2, {}, connections)
            yield stage, strikes


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_commit_whose_answer_is_lost_is_unknown_and_then_read_back(
    linked: tuple[PostgresStage, SqlLink], lost: Lost
) -> None:
    stage, strikes = linked
    with stage.opened() as target:
        stage.run(target, [row(0)])
        held = target.read_high_water(stage.uid, 0)
        strikes.strike_at("COMMIT", lost)
        outcome = target.write([row(1)], held, held.over([row(1).positions], ROUTING))
        assert outcome == WriteUnknown()
        assert stage.contents(0) == texts([0, 1] if lost == "answer" else [0])
        strikes.strike_at("COMMIT", lost)
        stage.run(target, [row(1), row(2)])
        assert strikes.struck.is_set()
        assert stage.contents(0) == texts([0, 1, 2])


def test_connection_lost_before_the_commit_is_made_anew(
    linked: tuple[PostgresStage, SqlLink],
) -> None:
    stage, strikes = linked
    with stage.opened() as target:
        for index, statement in enumerate(("INSERT INTO", "SELECT body", "UPDATE")):
            strikes.strike_at(statement, "answer")
            stage.run(target, [row(index)])
            assert strikes.struck.is_set()
    assert stage.contents(0) == texts([0, 1, 2])


def test_append_whose_answer_is_lost_is_written_once() -> None:
    """The link breaks with the first bytes that come back after the rows went out."""
    is_armed = threading.Event()
    went_out = threading.Event()

    def strike(chunk: Chunk) -> Action:
        if chunk.direction is Direction.TO_SERVICE:
            if is_armed.is_set() and MAGIC in chunk.payload:
                went_out.set()
        elif went_out.is_set():
            went_out.clear()
            is_armed.clear()
            return Action.RESET
        return Action.PASS

    with Broker.start() as broker, Link.start((LOOPBACK, broker.port), strike) as link:
        stage = JournalStage(broker.address)
        with connect(link.address, follow_routes=False, patience=30.0) as client:
            target = JournalTarget(stage.place, client)
            for step in range(5):
                link.acted.clear()
                is_armed.set()
                stage.run(target, [row(index) for index in range(10 * step, 10 * step + 10)])
                assert link.acted.is_set()
        assert stage.contents(0) == texts(range(50))
        close_clients()


def test_database_that_is_away_is_unreachable_and_its_password_is_not_told() -> None:
    dsn = Dsn(f"postgresql://windrow:hunter2@{LOOPBACK}:1/shop")
    target = PostgresTarget(Place("p", "postgres", "p", 1, {}, Connections(postgres_dsn=dsn)))
    with pytest.raises(Unreachable, match="cannot reach PostgreSQL at") as caught:
        target.read_high_water(ProcessorUid("shop", "price"), 0)
    assert "hunter2" not in str(caught.value)

"""Break, stall and slow down the links of a relay at every statement, and count at a consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.relay_bench import (
    STEADY_LEASE,
    RelayBench,
    RelayProcess,
    make_outbox,
    relay_bench,
    through,
)
from tests.faults.sql_link import Lost, SqlLink, start_sql_link
from tests.fixtures.relaying import OutboxDatabase
from tests.fixtures.services import start_service
from windrow.embedded import Link, PostgresServer
from windrow.embedded.link_rules import Action
from windrow.testing import FaultLog, FaultPart

BARRIER = {
    "connect": "SET enable_seqscan",
    "stand": 'UPDATE "outbox_lease"',
    "mark": '"leader_id" <> ',
    "purge": 'DELETE FROM "outbox" WHERE "id" = ANY',
}
TRANSACTIONAL = {
    "connect": "SET enable_seqscan",
    "stand": 'UPDATE "outbox_lease"',
    "begin": "BEGIN",
    "purge batch": 'DELETE FROM "outbox" WHERE "leader_id" = ',
    "mark batch": 'UPDATE "outbox" SET "leader_id" = ',
    "commit": "COMMIT",
    "look at the epoch": 'SELECT epoch FROM "outbox_epoch"',
}
STATEMENTS = {"barrier": BARRIER, "transactional": TRANSACTIONAL}
RENEWAL = "SET epoch = epoch + 1 WHERE"
"""What follows a statement of unknown outcome."""
IMPATIENT = STEADY_LEASE | {
    "database.connect_timeout": "1s",
    "database.answer_timeout": "1s",
    "relay.drain_timeout": "2s",
}
A_FEW_SECONDS = 15.0  # to end on a busy machine: what is not bounded takes for ever
modes = pytest.mark.parametrize("mode", ["barrier", "transactional"])


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    with start_service(pytestconfig, "PostgreSQL (embedded)", PostgresServer.start) as server:
        yield server


@pytest.fixture
def outbox(server: PostgresServer) -> OutboxDatabase:
    return make_outbox(server)


@dataclass
class LinkedBench:
    """One relay whose database is behind a link; the services write past it."""

    bench: RelayBench
    part: FaultPart
    link: Link
    hook: SqlLink
    relay: RelayProcess

    def strike(self, text: str, lost: Lost, *, first: bool = False) -> None:
        """Lose the next such statement or its answer, with all connections of the relay."""

        def act() -> None:
            self.hook.strike_at(text, lost)
            if first:  # it is not said again unless something has gone wrong before
                self.link.reset()
            assert self.hook.struck.wait(20.0), f"nothing like {text!r} was ever said"

        self.part.inject(f"{lost} lost", self.relay, act, work=self.bench.progress)


@contextmanager
def linked_bench(
    part: FaultPart, outbox: OutboxDatabase, kafka: str, topic: str, path: Path, **settings: str
) -> Iterator[LinkedBench]:
    from urllib.parse import urlsplit

    link, hook = start_sql_link(urlsplit(outbox.dsn).port or 0)
    with link, relay_bench(outbox, kafka, topic, path, **settings) as bench:
        bench.start_writers()
        relay = bench.start_relay(**{"database.dsn": through(outbox.dsn, link.port)})
        assert bench.leader() is relay
        yield LinkedBench(bench, part, link, hook, relay)


@modes
def test_a_connection_cut_at_any_statement_loses_doubles_and_reorders_nothing(
    mode: str,
    faults: FaultLog,
    outbox: OutboxDatabase,
    kafka: str,
    topic: str,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    """Request lost: it was never done. Answer lost: it was, and nobody knows."""
    part = faults.part(f"relay {mode}")
    settings = {"relay.mode": mode, **IMPATIENT}
    with linked_bench(part, outbox, kafka, topic, tmp_path, **settings) as linked:
        for _ in range(20 if pytestconfig.getoption("soak") else 1):
            losses: tuple[Lost, ...] = ("request", "answer")
            for lost in losses:
                for name, text in STATEMENTS[mode].items():
                    linked.strike(text, lost, first=name in ("connect", "look at the epoch"))
                # While the last loss is being mended, the mending is lost as well.
                linked.strike(RENEWAL, lost, first=True)
        # The last statement of all, which is said twice if need be; a right that has run out by
        # then, as it may on a busy machine, is not given up at all.
        linked.hook.strike_at("'-infinity'", "request")
        part.inject("terminate", linked.relay, linked.relay.stop, work=linked.bench.progress)
        linked.bench.start_relay()
        linked.bench.settle(part)


@modes
def test_a_stalled_link_is_given_up_and_what_it_held_changes_nothing_later(
    mode: str, faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    """The link takes bytes and passes none; when it goes on, stale statements reach the server."""
    part = faults.part(f"relay {mode}")
    settings = {"relay.mode": mode, **IMPATIENT}
    with linked_bench(part, outbox, kafka, topic, tmp_path, **settings) as linked:
        bench, link, hook, relay = linked.bench, linked.link, linked.hook, linked.relay
        for name in ("mark", "purge") if mode == "barrier" else ("purge batch", "commit"):

            def stall(text: str = STATEMENTS[mode][name]) -> None:
                hook.strike_at(text, "request", Action.STALL)
                bench.wait_for_log(relay, "no answer within 1 s", timeout=10.0)

            part.inject("stall", relay, stall, work=bench.progress)
            link.resume()
            bench.wait_for_progress("the relay goes on")
        part.inject("cut", relay, link.cut, work=bench.progress)
        check_stop_is_bounded(relay)
        if mode == "barrier":
            bench.may_repeat += bench.unacknowledged()
        bench.start_relay()
        bench.settle(part)


@modes
def test_a_standby_takes_over_from_a_stalled_leader_whose_stop_is_bounded_all_the_same(
    mode: str, faults: FaultLog, outbox: OutboxDatabase, kafka: str, topic: str, tmp_path: Path
) -> None:
    """In the middle of a transaction its locks would keep everybody else from leading."""
    part = faults.part(f"relay {mode}")
    settings = {"relay.mode": mode, **IMPATIENT}
    text = STATEMENTS[mode]["purge" if mode == "barrier" else "commit"]
    with linked_bench(part, outbox, kafka, topic, tmp_path, **settings) as linked:
        bench, relay = linked.bench, linked.relay
        bench.wait_for_start(bench.start_relay())

        def stall() -> None:
            linked.hook.strike_at(text, "request", Action.STALL)
            assert linked.hook.struck.wait(10.0)

        part.inject("stall", relay, stall, work=bench.progress)
        if mode == "barrier":
            bench.may_repeat += bench.unacknowledged()
        check_stop_is_bounded(relay)
        bench.wait_for_another(relay)
        bench.wait_for_progress("the standby sends", timeout=10.0)
        linked.link.resume()
        bench.settle(part)


def check_stop_is_bounded(relay: RelayProcess) -> None:
    """It ends soon after its drain time-out, and calls that an orderly end."""
    began = time.monotonic()
    assert relay.stop(timeout=30.0) == 0
    assert time.monotonic() - began < 2.0 + A_FEW_SECONDS

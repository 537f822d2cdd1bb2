"""What ``check`` finds in a real database, and that what it advises helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures.relaying import OutboxDatabase
from tests.fixtures.services import start_service
from tests.integration.outbox.writers import RECORDS
from windrow.embedded.postgres import PostgresServer
from windrow.outbox import Outbox, Table
from windrow.outbox.facts import check, read_facts
from windrow.outbox.health import Finding, judge
from windrow.outbox.schema import migrate, migrations


def problems(connection: psycopg.Connection[Any], table: Table) -> list[Finding]:
    return [finding for finding in check(connection, table) if finding.level != "note"]


def test_an_outbox_of_the_current_schema_is_as_it_should_be(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection:
        assert check(connection, outbox.table) == []


@pytest.mark.parametrize(
    ("spoil", "level", "subject", "text"),
    [
        ("ALTER SEQUENCE outbox_id_seq CACHE 20", "problem", "outbox_id_seq", "20 ids at a time"),
        ("ALTER SEQUENCE outbox_id_seq CYCLE", "problem", "outbox_id_seq", "begins anew"),
        ("ALTER TABLE outbox SET (fillfactor = 100)", "advice", "fillfactor", "is 100"),
        ("ALTER TABLE outbox RESET (fillfactor)", "advice", "fillfactor", "is 100"),
        (
            "ALTER TABLE outbox RESET (autovacuum_vacuum_scale_factor)",
            "advice",
            "autovacuum",
            "scale_factor = default",
        ),
        ("ALTER TABLE outbox SET (autovacuum_enabled = off)", "problem", "autovacuum", "off"),
        ("CREATE INDEX ours ON outbox (leader_id, id)", "advice", "index ours", "leader_id"),
        ("CREATE INDEX ours ON outbox (id) WHERE leader_id IS NULL", "advice", "ours", "leader_id"),
        ("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey", "problem", "index", "begins with id"),
        ("ALTER TABLE outbox SET UNLOGGED", "problem", "table outbox", "crash"),
        ("DROP TABLE outbox_hold", "problem", "outbox_hold", "missing"),
        ("ALTER TABLE outbox DROP COLUMN attempts", "problem", "column attempts", "missing"),
        ("ALTER TABLE outbox DROP COLUMN leader_id", "problem", "column leader_id", "missing"),
        ("ALTER TABLE outbox DROP COLUMN kafka_header_keys", "problem", "header_keys", "missing"),
        ("ALTER TABLE outbox ALTER COLUMN id TYPE integer", "problem", "column id", "integer"),
        ("ALTER TABLE outbox ALTER COLUMN id DROP DEFAULT; DROP SEQUENCE outbox_id_seq",
         "problem", "sequence", "no sequence"),
    ],
)  # fmt: skip
def test_what_is_off_is_found_and_the_advice_mends_it(
    outbox: OutboxDatabase, spoil: str, level: str, subject: str, text: str
) -> None:
    with outbox.connect() as connection:
        connection.execute(spoil)
        (finding,) = problems(connection, outbox.table)
        assert finding.level == level
        assert subject in finding.subject
        assert text in finding.text
        statement, _, command = finding.next.partition("; then: ")
        connection.execute(statement)
        if command:
            assert command == "windrow migrate"
            migrate(connection, outbox.table)
        assert check(connection, outbox.table) == []


def test_a_sequence_that_caches_gives_a_later_transaction_a_smaller_id(
    outbox: OutboxDatabase,
) -> None:
    """Why CACHE is checked: here each stashes after the other has committed."""
    with outbox.connect() as connection:
        connection.execute("ALTER SEQUENCE outbox_id_seq CACHE 20")
    with psycopg.connect(outbox.dsn) as one, psycopg.connect(outbox.dsn) as other:
        ids = []
        for connection in (one, other, one):
            ids.append(Outbox().stash(connection, RECORDS[0]))
            connection.commit()
    assert ids != sorted(ids)


def test_the_lengths_of_goharvests_columns_are_noted(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        migrate(connection, Table())
        connection.execute(
            "ALTER TABLE outbox ALTER kafka_key TYPE varchar(100),"
            " ALTER kafka_value TYPE varchar(10000), ALTER kafka_topic TYPE varchar(249)"
        )
        notes = check(connection, Table())
    assert [(note.level, note.subject) for note in notes] == [
        ("note", "column kafka_key"),
        ("note", "column kafka_value"),
    ]
    assert "takes 100 characters" in notes[0].text
    assert notes[0].next == 'ALTER TABLE "outbox" ALTER COLUMN "kafka_key" TYPE varchar'


def test_goharvests_own_table_is_told_what_it_lacks_in_one_line(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(migrations()[0].statement(Table()))
        (finding,) = check(connection, Table())
        assert (finding.level, finding.next) == ("problem", "windrow migrate")
        assert "0002 extension, 0003 companions" in finding.text
        migrate(connection, Table(), companions_only=True)
        (finding,) = check(connection, Table())
        assert finding.level == "advice"


def test_a_table_that_is_missing_is_one_finding(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        (finding,) = check(connection, Table("Out Box", "s"))
    assert finding.next == """windrow init --table 's."Out Box"'"""


def hold_by_transaction(dsn: str) -> psycopg.Connection[Any]:
    holder = psycopg.connect(dsn)
    holder.execute("SELECT pg_current_xact_id()")
    return holder


def hold_by_prepared(dsn: str) -> psycopg.Connection[Any]:
    holder = psycopg.connect(dsn, autocommit=True)
    holder.execute("BEGIN")
    holder.execute("SELECT pg_current_xact_id()")
    holder.execute("PREPARE TRANSACTION 'it''s forgotten'")
    return holder


@pytest.fixture(scope="module")
def own_server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A server whose horizon nobody else holds, and whose settings may be unusual."""

    def start() -> PostgresServer:
        settings = {"wal_level": "logical", "max_prepared_transactions": "2"}
        return PostgresServer.start(settings=settings)

    with start_service(pytestconfig, "PostgreSQL (embedded)", start) as server:
        yield server


@pytest.mark.parametrize(
    ("hold", "subject", "remedy"),
    [
        (hold_by_transaction, "transaction of pid", "SELECT pg_terminate_backend({pid})"),
        (hold_by_prepared, "prepared transaction", "ROLLBACK PREPARED 'it''s forgotten'"),
    ],
)
def test_who_holds_the_horizon_is_found_once_it_is_old(
    own_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    hold: Callable[[str], psycopg.Connection[Any]],
    subject: str,
    remedy: str,
) -> None:
    dsn = own_server.dsn()
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection, Table())
        with hold(dsn) as holder:
            assert problems(connection, Table()) == []
            monkeypatch.setattr("windrow.outbox.health.OLD_TRANSACTION", 0.0)
            (finding,) = problems(connection, Table())
            assert finding.level == "problem"
            assert finding.subject.startswith(subject)
            assert "rows purged since cannot be removed" in finding.text
            statement = remedy.format(pid=holder.info.backend_pid)
            assert statement in finding.next
            holder.rollback()
        connection.execute(statement)
        assert problems(connection, Table()) == []


def test_a_slot_that_nobody_reads_is_found(own_server: PostgresServer) -> None:
    with psycopg.connect(own_server.dsn(), autocommit=True) as connection:
        migrate(connection, Table())
        connection.execute("SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')")
        (finding,) = problems(connection, Table())
        assert (finding.level, finding.subject) == ("advice", "replication slot forgotten")
        assert "grows until the disk is full" in finding.text
        connection.execute(finding.next)
        assert problems(connection, Table()) == []


def test_logical_wal_is_noted_with_what_to_do(own_server: PostgresServer) -> None:
    with psycopg.connect(own_server.dsn(), autocommit=True) as connection:
        migrate(connection, Table())
        (note,) = check(connection, Table())
    assert (note.level, note.subject) == ("note", "wal_level")
    assert "reader diff" in note.next


def test_facts_are_read_without_a_change_to_anything(outbox: OutboxDatabase) -> None:
    with outbox.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        facts = read_facts(connection, outbox.table)
    assert judge(outbox.table, facts, migrations()) == []

"""Roles with the least rights, and each part at work under its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fixtures.relaying import OutboxDatabase
from tests.integration.outbox.writers import RECORDS
from windrow.outbox import Outbox
from windrow.outbox.facts import check
from windrow.outbox.grants import Roles, grants
from windrow.outbox.stores.postgres import PostgresStore
from windrow.relay.election.postgres_lease import PostgresLease, lease_session

Act = Callable[[psycopg.Connection[Any]], Any]


@pytest.fixture
def roles(outbox: OutboxDatabase) -> Iterator[Roles]:
    """Three roles of this test's own, granted to twice: that has to be safe as well."""
    name = psycopg.conninfo.conninfo_to_dict(outbox.dsn)["dbname"]
    made = Roles(f"{name}_writer", f"{name}_relay", f"{name}_reader")
    with outbox.connect() as connection:
        # From PostgreSQL 15 on this is the rule for new databases, and older ones may have it.
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        for statement in grants(outbox.table, made) * 2:
            connection.execute(statement)
    yield made
    with outbox.connect() as connection:
        for role in (made.writer, made.relay, made.reader):
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


@contextmanager
def acting_as(outbox: OutboxDatabase, role: str) -> Iterator[psycopg.Connection[Any]]:
    with outbox.connect() as connection:
        connection.execute(f"SET ROLE {role}")
        yield connection


def test_the_writer_can_stash_and_nothing_else(outbox: OutboxDatabase, roles: Roles) -> None:
    with acting_as(outbox, roles.writer) as connection:
        with connection.transaction():
            Outbox().stash(connection, RECORDS[0])
            Outbox().stash_many(connection, RECORDS)
        for statement in (
            "SELECT kafka_value FROM outbox",
            "UPDATE outbox SET kafka_value = ''",
            "DELETE FROM outbox",
            "SELECT * FROM outbox_epoch",
            "INSERT INTO outbox_hold VALUES ('relay', '', 'paused')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    assert outbox.count() == 5


def test_the_relay_can_do_all_its_work_and_add_no_record(
    outbox: OutboxDatabase, roles: Roles
) -> None:
    with outbox.connect() as connection, connection.transaction():
        Outbox().stash_many(connection, RECORDS)
    dsn = make_conninfo(outbox.dsn, options=f"-c role={roles.relay}")
    lease = PostgresLease(lease_session(dsn), outbox.table, "relay")
    assert lease.pulse() is not None
    readers: list[Literal["mark", "diff"]] = ["mark", "diff"]
    for reader in readers:
        with PostgresStore(dsn, outbox.table, reader=reader) as store:
            store.raise_epoch("relay")
            rows = store.read(uuid4(), 100)
            assert len(rows) == 4
            store.note(rows[0].id, 1, "tried")
            assert store.reset([row.id for row in rows]) == 4
            store.check_fence()
    with PostgresStore(dsn, outbox.table) as store:
        store.raise_epoch("relay")
        rows = store.read(uuid4(), 100)
        store.hold("b", [rows[1].id], "buried", "tried")
        assert store.bury_lanes() == 1
        store.bury([rows[2].id], 1, "tried")
        assert store.purge([rows[0].id, rows[3].id]) == 2
        assert store.backlog()[0] == 0
    lease.resign()
    lease.close()
    with (
        acting_as(outbox, roles.relay) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        connection.transaction(),
    ):
        Outbox().stash(connection, RECORDS[0])


def test_the_reader_sees_how_things_stand_and_no_payload(
    outbox: OutboxDatabase, roles: Roles
) -> None:
    with acting_as(outbox, roles.reader) as connection:
        connection.execute("SELECT kafka_topic, kafka_key, create_time FROM outbox")
        connection.execute("SELECT * FROM outbox_epoch, outbox_lease, outbox_hold, outbox_audit")
        connection.execute("SELECT kafka_key, last_error FROM outbox_dead")
        findings = check(connection, outbox.table)
        assert [finding.subject for finding in findings] == ["other sessions"]
        for statement in (
            "SELECT kafka_value FROM outbox",
            "SELECT kafka_header_values FROM outbox_dead",
            "DELETE FROM outbox",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)

"""What the tests of the outbox share."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.databases import Postgres
from tests.fixtures.relaying import OutboxDatabase
from windrow.outbox.schema import migrate
from windrow.outbox.table import Table


@pytest.fixture(scope="session")
def _one_outbox(postgres_server: Postgres) -> Iterator[OutboxDatabase]:
    name = f"test_{secrets.token_hex(6)}"
    dsn = postgres_server.create_database(name, template="template0")
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection, Table())
    yield OutboxDatabase(dsn)
    postgres_server.drop_database(name)


@pytest.fixture
def shared_outbox(_one_outbox: OutboxDatabase) -> Iterator[OutboxDatabase]:
    """An outbox that many tests use one after the other, each finding and leaving it empty."""
    assert _one_outbox.count() == 0
    yield _one_outbox
    with _one_outbox.connect() as connection:
        connection.execute("TRUNCATE outbox")

"""What the tests of the inbox share."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.databases import Postgres
from windrow.inbox import migrate
from windrow.outbox.table import Table


@pytest.fixture(scope="session")
def inbox_database(postgres_server: Postgres) -> Iterator[str]:
    """A database with an inbox, shared: tests use ids of their own."""
    name = f"test_{secrets.token_hex(6)}"
    dsn = postgres_server.create_database(name, template="template0")
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection, Table("inbox"))
    yield dsn
    postgres_server.drop_database(name)


@pytest.fixture
def message_id() -> str:
    return secrets.token_hex(8)

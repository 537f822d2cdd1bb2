"""An effect that is noted in the transaction that brings it about happens once."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
import sqlalchemy
import sqlalchemy.orm

from windrow.spark.targets.errors import NoTransaction
from windrow.spark.targets.once import once

HASH = "ab" * 32


def test_effect_is_noted_with_the_change_or_not_at_all(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert once(connection, HASH)
        assert not once(connection, HASH)
        connection.rollback()
        assert once(connection, HASH)
        connection.commit()
        assert not once(connection, HASH)
        assert once(connection, "cd" * 32)
        assert once(connection, HASH, table='"Other 100%"')


def test_second_attempt_waits_for_the_first_and_then_does_nothing(database: str) -> None:
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        once(first, "00" * 32)
        first.commit()
        assert once(first, HASH)
        answers: list[bool] = []
        thread = threading.Thread(target=lambda: answers.append(once(second, HASH)))
        thread.start()
        thread.join(0.3)
        assert answers == []
        first.commit()
        thread.join(10)
        assert answers == [False]


def test_statement_that_would_be_committed_by_itself_is_refused(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        with pytest.raises(NoTransaction, match="begin a transaction first"):
            once(connection, HASH)
        with connection.transaction():
            assert once(connection, HASH)
        with connection.transaction():
            assert not once(connection, HASH)


def test_any_connection_of_postgres_will_do(database: str) -> None:
    engine = sqlalchemy.create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    connection: Any
    with engine.begin() as connection:
        assert once(connection, HASH)
    with sqlalchemy.orm.Session(engine) as session, session.begin():
        assert not once(session, HASH)
        assert once(session, "cd" * 32)
    engine.dispose()

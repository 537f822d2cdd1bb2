"""What can be claimed, and by which SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from windrow.inbox import (
    CannotClaimOn,
    ClaimOutsideTransaction,
    Inbox,
    InvalidMessageId,
    NoInbox,
    schema_sql,
)
from windrow.inbox.schema import migrations
from windrow.inbox.statements import claim_sql
from windrow.outbox.table import Table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(schema_sql(system="sqlite"))
        connection.executescript(schema_sql(system="sqlite"))
    return file


def test_in_sqlite_a_claim_is_ours_once_and_again_after_a_rollback(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert Inbox().claim(connection, "6f9a")
        connection.rollback()
        assert Inbox().claim(connection, "6f9a")
        connection.commit()
        assert not Inbox().claim(connection, "6f9a")
        assert Inbox(consumer="mails").claim(connection, "6f9a")


def test_in_sqlite_claims_are_purged_by_age_and_in_batches(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for number in range(5):
            Inbox().claim(connection, str(number))
        connection.execute("UPDATE inbox SET claimed_at = '2020-01-01' WHERE message_id < '4'")
        assert [Inbox().purge(connection, 60, batch=3) for _ in range(3)] == [3, 1, 0]
        assert not Inbox().claim(connection, "4")


def test_outside_a_transaction_a_claim_is_refused(path: Path) -> None:
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
        pytest.raises(ClaimOutsideTransaction, match="outside a transaction"),
    ):
        Inbox().claim(connection, "6f9a")


def test_a_missing_inbox_is_told_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "empty.db")) as connection,
        pytest.raises(NoInbox, match="windrow inbox init"),
    ):
        Inbox().claim(connection, "6f9a")


def test_what_is_no_connection_is_refused_by_its_name() -> None:
    with pytest.raises(CannotClaimOn, match="cannot claim on a builtins object"):
        Inbox().claim(object(), "6f9a")  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("message_id", ["", "x" * 513, "ü" * 300, "a\x00b", "\ud800"])
def test_an_id_that_no_table_could_hold_is_refused(message_id: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, pytest.raises(InvalidMessageId):
        Inbox().claim(connection, message_id)


def test_a_purge_of_everything_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for older_than, batch in ((0, 1), (-1, 1), (1, 0)):
            with pytest.raises(ValueError, match="purge"):
                Inbox().purge(connection, older_than, batch)


def test_a_percent_sign_in_a_name_is_no_parameter() -> None:
    table = Table("in%box")
    assert '"in%%box"' in claim_sql(table, "format")
    assert '"in%box"' in claim_sql(table, "numeric_dollar")


def test_the_printed_schema_holds_every_step_and_quotes_names() -> None:
    text = schema_sql('shop."in""box"')
    assert '"shop"."in""box"' in text
    for step in migrations():
        assert f"VALUES ({step.number}, '{step.name}')" in text

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windrow.outbox import Outbox, Record, UnsupportedConnection
from windrow.outbox.refusals import sqlstate_of, wrong_schema
from windrow.outbox.table import Table

RECORD = Record("orders", "k", "v")


class Oracle:
    """Stands for a connection of a database that holds no outboxes."""

    __module__ = "oracledb.connection"

    def cursor(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


def test_another_database_is_refused_by_its_name() -> None:
    with pytest.raises(
        UnsupportedConnection, match=r"cannot stash on a oracledb Oracle: .* in PostgreSQL"
    ):
        Outbox().stash(Oracle(), RECORD)


@pytest.mark.parametrize("thing", [object(), None, "postgresql://localhost"])
def test_what_is_no_connection_is_refused(thing: Any) -> None:
    with pytest.raises(UnsupportedConnection, match="not a connection that windrow knows"):
        Outbox().stash(thing, RECORD)
    with pytest.raises(UnsupportedConnection, match="not an asynchronous connection"):
        asyncio.run(Outbox().stash_async(thing, RECORD))


class NoDriver:
    """Has a cursor, in a module that says nothing about parameters."""

    def cursor(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


def test_a_driver_that_does_not_tell_its_style_is_refused() -> None:
    with pytest.raises(UnsupportedConnection, match="has no paramstyle"):
        Outbox().stash(NoDriver(), RECORD)


class FromServer(Exception):
    sqlstate = "42P01"


class FromPsycopg2(Exception):
    pgcode = "42703"


def wrapped(error: Exception) -> Exception:
    """As a library does that has errors of its own."""
    outer = RuntimeError("something failed")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (FromServer(), "42P01"),
        (FromPsycopg2(), "42703"),
        (Exception({"C": "23502", "M": "null value"}), "23502"),
        (wrapped(FromServer()), "42P01"),
        (wrapped(wrapped(FromPsycopg2())), "42703"),
        (Exception("no idea"), None),
        (Exception(), None),
    ],
)
def test_the_servers_code_is_found_however_it_is_wrapped(
    error: Exception, state: str | None
) -> None:
    assert sqlstate_of(error) == state


def test_errors_that_go_round_in_a_circle_end() -> None:
    error = Exception("loop")
    error.__cause__ = error
    assert sqlstate_of(error) is None


def test_only_what_the_table_lacks_is_a_matter_of_the_schema() -> None:
    assert wrong_schema(Exception({"C": "23505"}), Table(), [RECORD]) is None
    assert wrong_schema(Exception({"C": "23502"}), Table(), [RECORD]) is None
    keyless = Record("orders", None, "v")
    assert wrong_schema(Exception({"C": "23502"}), Table(), [RECORD, keyless]) is not None

"""Claims in the consumer's own transaction, with every driver it may bring."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pymysql
import pytest

from tests.integration.outbox.kinds import ASYNC_KINDS, SYNC_KINDS
from tests.integration.outbox.test_outside_transaction import ASYNC_OUTSIDE, OUTSIDE
from windrow.embedded.mariadb import connect_arguments
from windrow.inbox import CannotClaimOn, ClaimOutsideTransaction, Inbox, NoInbox, schema_sql

PATIENCE = 60.0


class _Undone(Exception):
    """Ends a transaction that is not to be."""


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_a_message_is_claimed_once_and_free_again_after_a_rollback(
    inbox_database: str, message_id: str, kind: str
) -> None:
    inbox, connect = Inbox(), SYNC_KINDS[kind]
    with contextlib.suppress(_Undone), connect(inbox_database) as connection:
        assert inbox.claim(connection, message_id)
        raise _Undone
    with connect(inbox_database) as connection:
        assert inbox.claim(connection, message_id)
        assert not inbox.claim(connection, message_id)
    with connect(inbox_database) as connection:
        assert not inbox.claim(connection, message_id)
        assert Inbox(consumer="mails").claim(connection, message_id)


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_a_message_is_claimed_once_asynchronously_too(
    inbox_database: str, message_id: str, kind: str
) -> None:
    inbox, connect = Inbox(), ASYNC_KINDS[kind]

    async def scenario() -> None:
        with contextlib.suppress(_Undone):
            async with connect(inbox_database) as connection:
                assert await inbox.claim_async(connection, message_id)
                raise _Undone
        async with connect(inbox_database) as connection:
            assert await inbox.claim_async(connection, message_id)
        async with connect(inbox_database) as connection:
            assert not await inbox.claim_async(connection, message_id)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", OUTSIDE)
def test_outside_a_transaction_a_claim_is_refused(
    inbox_database: str, message_id: str, kind: str
) -> None:
    with OUTSIDE[kind](inbox_database) as connection, pytest.raises(ClaimOutsideTransaction):
        Inbox().claim(connection, message_id)
    assert is_free(inbox_database, message_id)


@pytest.mark.parametrize("kind", ASYNC_OUTSIDE)
def test_outside_a_transaction_an_asynchronous_claim_is_refused(
    inbox_database: str, message_id: str, kind: str
) -> None:
    async def scenario() -> None:
        async with ASYNC_OUTSIDE[kind](inbox_database) as connection:
            with pytest.raises(ClaimOutsideTransaction):
                await Inbox().claim_async(connection, message_id)

    asyncio.run(scenario())
    assert is_free(inbox_database, message_id)


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_second_of_two_claims_waits_for_what_becomes_of_the_first(
    inbox_database: str, message_id: str, is_committed: bool
) -> None:
    outcomes: list[bool] = []

    def claim() -> None:
        with psycopg.connect(inbox_database, application_name=f"w-{message_id}") as connection:
            outcomes.append(Inbox().claim(connection, message_id))

    with psycopg.connect(inbox_database) as first:
        assert Inbox().claim(first, message_id)
        second = threading.Thread(target=claim)
        second.start()
        until(lambda: is_waiting(inbox_database, f"w-{message_id}"))
        assert outcomes == []
        if is_committed:
            first.commit()
        else:
            first.rollback()
        second.join(PATIENCE)
    assert outcomes == [not is_committed]


def test_of_many_claims_at_once_one_is_ours(inbox_database: str, message_id: str) -> None:
    outcomes: list[bool] = []
    gate = threading.Barrier(8)

    def claim() -> None:
        with psycopg.connect(inbox_database) as connection:
            gate.wait(PATIENCE)
            outcomes.append(Inbox().claim(connection, message_id))

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(outcomes) == [False] * 7 + [True]


CLAIM_AND_WAIT = """
import os, sys, psycopg
from windrow.inbox import Inbox
connection = psycopg.connect(os.environ["INBOX_DSN"])
print(Inbox().claim(connection, sys.argv[1]), flush=True)
sys.stdin.read()
"""


def test_a_consumer_killed_between_its_claim_and_its_commit_leaves_the_message_free(
    inbox_database: str, message_id: str
) -> None:
    consumer = subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_WAIT, message_id],
        env=os.environ | {"INBOX_DSN": inbox_database},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == "True\n"
    consumer.send_signal(signal.SIGKILL)
    consumer.communicate()
    # The server may take a moment to notice; the claim waits for that by itself.
    assert is_free(inbox_database, message_id)


def test_a_missing_inbox_is_told_with_the_command_that_makes_it(
    inbox_database: str, message_id: str
) -> None:
    elsewhere = Inbox("elsewhere")
    for kind in ("psycopg, implicit", "Django", "SQLAlchemy, begin", "DB-API, format"):
        # Whatever the end of a failed transaction says, the claim said it first.
        with (
            pytest.raises(NoInbox, match="windrow inbox init"),
            SYNC_KINDS[kind](inbox_database) as connection,
        ):
            elsewhere.claim(connection, message_id)

    async def scenario() -> None:
        for connect in ASYNC_KINDS.values():
            with pytest.raises(NoInbox):
                async with connect(inbox_database) as connection:
                    await elsewhere.claim_async(connection, message_id)

    asyncio.run(scenario())


def test_the_wrong_colour_is_refused_with_the_method_to_use(
    inbox_database: str, message_id: str
) -> None:
    async def scenario() -> None:
        async with ASYNC_KINDS["asyncpg"](inbox_database) as connection:
            with pytest.raises(CannotClaimOn, match=r"cannot claim on .* use the _async methods"):
                Inbox().claim(connection, message_id)

    asyncio.run(scenario())


# -- MariaDB --------------------------------------------------------------------------------------


@contextmanager
def mariadb_connection(url: str) -> Iterator[Any]:
    with pymysql.connect(**connect_arguments(url)) as connection:
        yield connection


def test_in_mariadb_a_claim_waits_and_ends_with_its_transaction(mariadb_database: str) -> None:
    outcomes: list[bool] = []
    inbox = Inbox()

    def claim() -> None:
        with mariadb_connection(mariadb_database) as connection:
            outcomes.append(inbox.claim(connection, "6f9a"))
            connection.commit()

    with mariadb_connection(mariadb_database) as first:
        with pytest.raises(NoInbox):
            inbox.claim(first, "6f9a")
        with first.cursor() as cursor:
            cursor.execute(schema_sql(system="mysql").rstrip(";\n"))
        assert inbox.claim(first, "6f9a")
        assert inbox.claim(first, "6f9A ")
        second = threading.Thread(target=claim)
        second.start()
        until(lambda: mariadb_waits(mariadb_database))
        first.rollback()
        second.join(PATIENCE)
        assert outcomes == [True]
        assert not inbox.claim(first, "6f9a")
        first.autocommit(True)
        first.commit()
        with pytest.raises(ClaimOutsideTransaction):
            inbox.claim(first, "other")


def mariadb_waits(url: str) -> bool:
    # What it shows is as old as the last look if that was less than 0.1 s ago: look less often.
    time.sleep(0.2)
    with mariadb_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM information_schema.innodb_lock_waits")
        return bool(cursor.fetchone()[0])


# -- waiting --------------------------------------------------------------------------------------


def is_free(dsn: str, message_id: str) -> bool:
    with psycopg.connect(dsn) as connection:
        was_free = Inbox().claim(connection, message_id)
        connection.rollback()
    return was_free


def is_waiting(dsn: str, application: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND wait_event_type = 'Lock'",
            (application,),
        ).fetchone()
    return bool(row and row[0])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "not within a minute"
        time.sleep(0.01)

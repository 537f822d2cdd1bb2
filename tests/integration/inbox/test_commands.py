"""``windrow inbox`` on real databases, and the purge behind it."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from windrow.cli.main import main
from windrow.inbox import Inbox, migrate, schema_sql
from windrow.inbox.schema import migrations
from windrow.outbox.table import Table

Run = Callable[..., tuple[int, str, str]]
AGED = "UPDATE inbox SET claimed_at = now() - interval '8 days' WHERE message_id < '50'"


@pytest.fixture
def run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit code, standard output and standard error of a command line on that database."""
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDROW__DATABASE__DSN", database)

    def run(*argv: str) -> tuple[int, str, str]:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = main(argv)
        return code, out.getvalue(), err.getvalue()

    return run


def test_init_makes_an_inbox_and_running_it_again_changes_nothing(run: Run, database: str) -> None:
    code, out, _ = run("inbox", "init", "--json")
    assert (code, json.loads(out)["applied"]) == (0, [step.name for step in migrations()])
    code, out, _ = run("inbox", "init", "--json")
    assert (code, json.loads(out)["applied"]) == (0, [])
    with psycopg.connect(database) as connection:
        assert Inbox().claim(connection, "6f9a")


def test_the_printed_sql_makes_the_same_inbox(run: Run, database: str) -> None:
    code, out, _ = run("inbox", "init", "--print", "--table", "shop.in%box")
    assert code == 0
    assert out.strip() == schema_sql("shop.in%box").strip()
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(2):
            connection.execute(out)
        assert migrate(connection, Table.parse("shop.in%box")) == []
        with connection.transaction():
            assert Inbox("shop.in%box").claim(connection, "6f9a")


def test_purge_takes_what_is_older_and_nothing_younger_in_batches(run: Run, database: str) -> None:
    run("inbox", "init")
    with psycopg.connect(database) as connection:
        for number in range(100):
            Inbox().claim(connection, f"{number:02}")
        connection.execute(AGED)
    code, out, _ = run("inbox", "purge", "--older-than", "7d", "--batch", "20", "--json")
    assert (code, json.loads(out)) == (0, {"claims": 50, "answers": 0})
    with psycopg.connect(database) as connection:
        assert [Inbox().claim(connection, f"{number:02}") for number in (0, 49, 50, 99)] == [
            True,
            True,
            False,
            False,
        ]


def test_a_purge_deletes_no_more_than_its_batch_and_steps_over_another(
    run: Run, database: str
) -> None:
    run("inbox", "init")
    with psycopg.connect(database) as connection:
        for number in range(50):
            Inbox().claim(connection, f"{number:02}")
        connection.execute(AGED)
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        assert Inbox().purge(first, 3600, batch=30) == 30
        assert Inbox().purge(second, 3600, batch=30) == 20


def test_in_sqlite_and_without_a_database_the_commands_say_what_they_did(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW__DATABASE__DSN", f"sqlite:///{tmp_path}/shop.db")
    for _ in range(2):
        assert run("inbox", "init")[0] == 0
    assert run("inbox", "purge", "--older-than", "7d")[:2] == (
        0,
        "purged: 0 claims, 0 answers\n",
    )


@pytest.mark.parametrize("age", ["0s", "7", "-1d", "soon"])
def test_a_wrong_age_is_a_mistake_of_usage(run: Run, age: str) -> None:
    code, _, err = run("inbox", "purge", f"--older-than={age}")
    assert code == 2
    assert "--older-than" in err


def test_a_purge_without_an_inbox_names_the_command_that_makes_it(run: Run) -> None:
    code, _, err = run("inbox", "purge", "--older-than", "7d")
    assert code == 1
    assert "windrow inbox init" in err

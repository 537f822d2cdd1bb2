"""``windrow init``, ``migrate`` and ``check`` on a real database."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from windrow.cli import nouns
from windrow.cli.main import main
from windrow.outbox.schema import migrations
from windrow.outbox.table import Table

NOUNS = (
    nouns.Noun("init", "windrow.cli.outbox:init_app", "Create the outbox."),
    nouns.Noun("migrate", "windrow.cli.outbox:migrate_app", "Bring the outbox up to date."),
    nouns.Noun("check", "windrow.cli.outbox:check_app", "Find what is off with the outbox."),
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit code, standard output and standard error of a command line on that database."""
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDROW__DATABASE__DSN", database)
    monkeypatch.setattr(nouns, "NOUNS", NOUNS)

    def run(*argv: str) -> tuple[int, str, str]:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = main(argv)
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def _without_roles(database: str) -> Iterator[None]:
    yield
    with psycopg.connect(database, autocommit=True) as connection:
        for role in ("windrow_writer", "windrow_relay", "windrow_reader"):
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


def test_init_makes_an_outbox_that_check_finds_nothing_wrong_with(run: Run) -> None:
    code, out, _ = run("init")
    assert code == 0
    assert out.splitlines() == [
        "applied: 0001 goharvest",
        "applied: 0002 extension",
        "applied: 0003 companions",
        "applied: 0004 shards",
        "applied: 0005 doorbell",
        "applied: 0006 source",
    ]
    assert run("init") == (0, "outbox outbox is up to date\n", "")
    assert run("check") == (0, "outbox outbox is as it should be\n", "")
    assert run("check", "--json") == (0, "[]\n", "")


def test_outbox_for_competing_relays_is_made_with_their_indexes(
    run: Run, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init")
    monkeypatch.setenv("WINDROW__RELAY__MODE", "competing")
    monkeypatch.setenv("WINDROW__RELAY__HTTP__URL", "http://127.0.0.1:1/receive")
    code, out, _ = run("check", "--json")
    assert code == 1
    assert [finding["subject"] for finding in json.loads(out)] == [
        "index outbox_untried",
        "index outbox_topics",
        "index outbox_again",
    ]
    assert run("init") == (0, "outbox outbox is up to date\n", "")
    assert run("check") == (0, "outbox outbox is as it should be\n", "")
    assert 'CREATE INDEX IF NOT EXISTS "outbox_again"' in run("init", "--print")[1]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP INDEX outbox_again")
        connection.execute(json.loads(run("check", "--json")[1])[0]["next"])
    assert run("check")[0] == 0


def test_migrate_tells_what_it_would_do_does_it_and_is_done(run: Run, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(migrations()[0].statement(Table()))
    code, out, _ = run("migrate", "--dry-run", "--json")
    assert code == 0
    assert [step["number"] for step in json.loads(out)] == [1, 2, 3, 4, 5, 6]
    code, out, _ = run("migrate", "--dry-run")
    assert out.splitlines()[0] == "would be applied: 0001 goharvest"
    assert run("check")[0] == 1
    code, out, _ = run("migrate")
    assert (code, out.splitlines()[-1]) == (0, "applied: 0006 source")
    assert run("migrate") == (0, "outbox outbox is up to date\n", "")


def test_migrate_makes_no_outbox_where_there_is_none(run: Run) -> None:
    code, out, err = run("migrate", "--table", "outbocks")
    assert (code, out) == (1, "")
    assert err == "windrow: error: table outbocks does not exist; run: windrow init\n"


def test_check_exits_one_with_each_problem_and_the_next_command(run: Run, database: str) -> None:
    code, out, _ = run("check", "--json")
    assert code == 1
    (finding,) = json.loads(out)
    assert finding == {
        "level": "problem",
        "subject": "table outbox",
        "text": "does not exist",
        "next": "windrow init",
    }
    run("init")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE outbox SET (fillfactor = 90)")
    code, out, _ = run("check")
    assert code == 0  # advice: it works, more slowly
    assert "advice" in out
    assert 'ALTER TABLE "outbox" SET (fillfactor = 45)' in out


def test_companions_only_leaves_the_outbox_as_it_is(run: Run, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(migrations()[0].statement(Table()))
        out = run("init", "--companions-only")[1]
        assert out.splitlines() == [
            "applied: 0003 companions",
            "applied: 0004 shards",
            "applied: 0005 doorbell",
            "applied: 0006 source",
        ]
        row = connection.execute(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = 'outbox'::regclass AND attnum > 0"
        ).fetchone()
    assert row == (8,)


@pytest.mark.usefixtures("_without_roles")
def test_what_init_prints_is_what_it_would_do(run: Run, database: str) -> None:
    code, printed, err = run("init", "--table", "box.outbox", "--grants", "--print")
    assert (code, err) == (0, "")
    with psycopg.connect(database, autocommit=True) as connection:
        row = connection.execute("SELECT to_regclass('box.outbox') IS NULL").fetchone()
        assert row == (True,)  # printing runs nothing
        connection.execute(printed.encode())
        row = connection.execute(
            "SELECT has_table_privilege('windrow_writer', 'box.outbox', 'INSERT'),"
            " has_table_privilege('windrow_writer', 'box.outbox', 'DELETE')"
        ).fetchone()
    assert row == (True, False)
    code, out, _ = run("init", "--table", "box.outbox", "--grants")
    assert code == 0
    assert out.splitlines() == [
        "outbox box.outbox is up to date",
        "granted: windrow_writer, windrow_relay, windrow_reader",
        "next: GRANT windrow_writer TO the role of your service",
    ]
    assert run("check", "--table", "box.outbox")[0] == 0


def test_printing_needs_no_database(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDROW__DATABASE__DSN", "postgresql://127.0.0.1:1/none")
    code, out, _ = run("init", "--print")
    assert code == 0
    assert out.startswith("BEGIN;\n")


def test_what_the_server_refuses_is_one_line(run: Run, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE outbox_migrations (something INTEGER)")
    code, out, err = run("init")
    assert (code, out) == (1, "")
    assert err.startswith("windrow: error: the outbox database failed: column")
    assert err.count("\n") == 1


def test_a_database_that_does_not_answer_is_one_line(run: Run) -> None:
    for noun in ("init", "migrate", "check"):
        code, out, err = run(noun, "--dsn", "postgresql://me:s3cret@127.0.0.1:1/none")
        assert (code, out) == (1, "")
        assert err.startswith("windrow: error: cannot reach PostgreSQL at 127.0.0.1:1")
        assert err.count("\n") == 1
        assert "s3cret" not in err

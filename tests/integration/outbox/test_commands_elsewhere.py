"""``windrow init``, ``migrate`` and ``check`` on MariaDB and SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.contract.claim_places import Place
from tests.integration.outbox.test_commands import Run, run
from windrow.outbox import Record

__all__ = ["run"]  # the fixture of the commands; it runs on our ``database``


@pytest.fixture(params=["mysql", "sqlite"])
def database(request: pytest.FixtureRequest) -> str:
    """In place of a database of PostgreSQL."""
    if request.param == "mysql":
        return str(request.getfixturevalue("mariadb_database"))
    return f"sqlite:///{request.getfixturevalue('tmp_path')}/shop.db"


@pytest.fixture
def place(database: str) -> Iterator[Place]:
    place = Place(database)
    with place.stack:
        yield place


def test_init_makes_an_outbox_that_check_finds_nothing_wrong_with(run: Run, place: Place) -> None:
    assert run("init") == (0, "applied: 0001 outbox\n", "")
    assert run("init") == (0, "outbox outbox is up to date\n", "")
    assert run("init", "--json") == (0, "[]\n", "")
    assert run("check") == (0, "outbox outbox is as it should be\n", "")
    place.open()
    assert place.stash(Record("t")) == [1]


def test_message_ids_stay_when_init_is_run_again(run: Run, place: Place) -> None:
    run("init")
    before = place.sql(f"SELECT * FROM {place.name('_source')}")
    run("init")
    assert place.sql(f"SELECT * FROM {place.name('_source')}") == before
    assert len(before) == 1


def test_migrate_tells_what_it_would_do_does_it_and_is_done(run: Run, place: Place) -> None:
    run("init")
    assert run("migrate", "--table", "outbocks")[2].endswith("does not exist; run: windrow init\n")
    place.sql(f"DELETE FROM {place.name('_migrations')}")
    code, out, _ = run("check", "--json")
    assert (code, json.loads(out)[0]["next"]) == (1, "windrow migrate")
    assert run("migrate", "--dry-run") == (0, "would be applied: 0001 outbox\n", "")
    assert run("migrate") == (0, "applied: 0001 outbox\n", "")
    assert run("migrate") == (0, "outbox outbox is up to date\n", "")


def test_check_names_what_is_missing(run: Run, place: Place) -> None:
    run("init")
    assert run("check", "--table", "outbocks")[0] == 1
    place.sql(f"DROP TABLE {place.name('_dead')}")
    place.sql("ALTER TABLE {outbox} DROP COLUMN last_error")
    code, out, _ = run("check", "--json")
    assert code == 1
    assert [(found["subject"], found["text"]) for found in json.loads(out)] == [
        ("column last_error", "is missing"),
        ("table outbox_dead", "is missing"),
    ]


def test_check_judges_how_the_table_is_kept(run: Run, place: Place) -> None:
    run("init")
    if place.system == "mysql":
        place.sql("ALTER TABLE {outbox} ENGINE = MyISAM")
        assert run("check")[0] == 1
        assert "ENGINE = InnoDB" in run("check")[1]
    else:
        place.sql("PRAGMA journal_mode = DELETE")
        code, out, _ = run("check")
        assert (code, "PRAGMA journal_mode = WAL" in out) == (0, True)


def test_what_init_prints_is_what_it_would_do(run: Run, place: Place) -> None:
    script = run("init", "--print")[1]
    assert "0001" not in run("check")[1]
    if place.system == "sqlite":
        run("init", "--table", "other")  # makes the file
    for statement in script.split(";\n"):
        if statement.strip():
            place.sql(statement.replace("{", "{{").replace("}", "}}"))
    assert run("check") == (0, "outbox outbox is as it should be\n", "")
    place.open()


@pytest.mark.parametrize("option", ["--grants", "--companions-only"])
def test_options_of_postgresql_are_refused(run: Run, option: str) -> None:
    code, _, err = run("init", option)
    assert code == 2
    assert f"{option} is for an outbox in PostgreSQL" in err


def test_error_of_the_database_is_told_in_a_line_without_the_password(
    run: Run, database: str
) -> None:
    run("init")
    for dsn in ("mysql://me:q7secret@127.0.0.1:1/x", database.replace("root:", "nobody:q7secret")):
        if not dsn.startswith("sqlite"):
            code, out, err = run("check", "--dsn", dsn)
            assert (code, out, len(err.splitlines())) == (1, "", 1)
            assert "q7secret" not in err

"""What a person can get wrong: one clear line each, and the right exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.verify import ends
from tests.integration.verify.test_sources import HEROES, Ran, Run, run

__all__ = ["run"]


@pytest.fixture
def arrived(tmp_path: Path) -> list[str]:
    return ["--arrived", ends.fill_jsonl(tmp_path / "arrived.jsonl", HEROES)]


def told(ran: Ran) -> tuple[int, str]:
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1, ran.err
    return ran.code, ran.err


def test_a_source_that_is_none_is_refused(run: Run, arrived: list[str]) -> None:
    code, line = told(run("--written", "jsonk:x", *arrived))
    assert code == 2
    assert 'did you mean "jsonl:"?' in line


def test_a_file_that_is_not_there_is_named(run: Run, arrived: list[str]) -> None:
    code, line = told(run("--written", "jsonl:nowhere", *arrived))
    assert (code, "No such file" in line, "jsonl:nowhere" in line) == (1, True, True)


@pytest.mark.parametrize("bad", [b"{oops\n", b"[1]\n", b"7\n"])
def test_a_line_that_is_no_object_is_named(
    run: Run, arrived: list[str], tmp_path: Path, bad: bytes
) -> None:
    good = b'{"key": "a", "id": 1}\n'
    (tmp_path / "written").write_bytes(good * 3 + bad + good)
    code, line = told(run("--written", "jsonl:written", *arrived))
    assert (code, "line 4 is no JSON object" in line) == (1, True)


@pytest.mark.parametrize("bad", [b'{"key": "a"}\n', b'{"key": "a", "id": null}\n'])
def test_a_record_without_an_id_is_named(
    run: Run, arrived: list[str], tmp_path: Path, bad: bytes
) -> None:
    (tmp_path / "written").write_bytes(b'{"key": "a", "id": 1}\n' + bad)
    code, line = told(run("--written", "jsonl:written", *arrived))
    assert (code, "record 2 of 'jsonl:written' has no id" in line) == (1, True)


def test_a_record_written_twice_is_refused(run: Run, arrived: list[str], tmp_path: Path) -> None:
    written = ends.fill_jsonl(tmp_path / "written", [("a", 1), ("a", 2), ("a", 1)])
    code, line = told(run("--written", written, *arrived))
    assert (code, "record '1' of key 'a' is in the ledger twice" in line) == (2, True)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("table:arrived?key=nope&id=hero", "nope"),
        ("table:nowhere", "nowhere"),
        ("sql:SELECT * FROM arrived", "it gives 3 columns"),
        ("sql:SELECT hero FROM arrived WHERE", ""),
    ],
)
@pytest.mark.parametrize("service", ["sqlite", "postgres", "mariadb"])
def test_what_a_database_does_not_have_is_told_in_its_words(
    service: str,
    source: str,
    said: str,
    run: Run,
    arrived: list[str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    match service:
        case "sqlite":
            dsn = f"sqlite:///{tmp_path}/x.db"
            ends.fill_sqlite(tmp_path / "x.db", HEROES)
        case "postgres":
            dsn = request.getfixturevalue("database")
            ends.fill_postgres(dsn, HEROES)
        case _:
            dsn = request.getfixturevalue("mariadb_database")
            ends.fill_mariadb(dsn, HEROES)
    monkeypatch.setenv("WRITTEN", dsn)
    code, line = told(run("--written", source, "--written-dsn-env", "WRITTEN", *arrived))
    assert (code, said in line, "cannot be read" in line) == (2, True, True), line


def test_a_query_that_would_write_is_refused_by_the_database(
    run: Run, arrived: list[str], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    ends.fill_postgres(database, HEROES)
    monkeypatch.setenv("WINDROW__DATABASE__DSN", database)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION gone() RETURNS TABLE (team text, hero int) LANGUAGE sql AS"
            " 'DELETE FROM arrived RETURNING team, hero'"
        )
        code, line = told(run("--written", "sql:SELECT * FROM gone()", *arrived))
        assert (code, "read-only transaction" in line) == (2, True), line
        assert connection.execute("SELECT count(*) FROM arrived").fetchone() == (20,)


def test_a_query_that_fails_on_the_way_is_not_taken_for_its_end(
    run: Run, arrived: list[str], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW__DATABASE__DSN", database)
    query = "sql:SELECT n, 1 / (50000 - n) FROM generate_series(1, 100000) AS n"
    code, line = told(run("--written", query, *arrived))
    assert (code, "division by zero" in line) == (2, True), line


def test_a_source_that_is_given_up_in_the_middle_leaves_nothing_behind(
    run: Run, arrived: list[str], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW__DATABASE__DSN", database)
    query = "sql:SELECT n, nullif(n, 7) FROM generate_series(1, 1000000) AS n"
    code, line = told(run("--written", query, *arrived))
    assert (code, "record 7 of" in line, "has no id" in line) == (1, True, True), line


@pytest.mark.parametrize(
    "dsn", ["postgresql://me:hunter2@127.0.0.1:1/x", "mysql://me:hunter2@127.0.0.1:1/x"]
)
def test_a_database_that_does_not_answer_is_named_without_its_password(
    dsn: str, run: Run, arrived: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRITTEN", dsn)
    code, line = told(run("--written", "table:t", "--written-dsn-env", "WRITTEN", *arrived))
    assert (code, "cannot reach" in line, "127.0.0.1:1" in line) == (1, True, True)
    assert "hunter2" not in line


def test_a_missing_sqlite_file_is_not_made(run: Run, arrived: list[str], tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("sqlite:///nowhere.db")
    code, line = told(run("--written", "table:t", "--written-dsn-file", "dsn", *arrived))
    assert (code, "cannot reach SQLite at nowhere.db" in line) == (1, True)
    assert not (tmp_path / "nowhere.db").exists()


def test_a_variable_that_is_not_set_is_named(run: Run, arrived: list[str]) -> None:
    code, line = told(run("--written", "table:t", "--written-dsn-env", "NOWHERE", *arrived))
    assert (code, "NOWHERE is not set" in line) == (2, True)


def test_a_malformed_dsn_is_not_repeated(run: Run, arrived: list[str], tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("postgresql://me:hun/ter2@host/x")
    code, line = told(run("--written", "table:t", "--written-dsn-file", "dsn", *arrived))
    assert (code, "ter2" in line) == (2, False)


def test_a_topic_that_is_not_there_is_named(
    run: Run, arrived: list[str], kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW__KAFKA__BOOTSTRAP", kafka)
    code, line = told(run("--written", "kafka:no-such-topic", *arrived))
    assert (code, "there is no topic 'no-such-topic'" in line) == (2, True)


def test_a_receiver_that_does_not_answer_is_named(run: Run, arrived: list[str]) -> None:
    code, line = told(run("--written", "receiver:http://127.0.0.1:1", *arrived))
    assert (code, "cannot reach the receiver at http://127.0.0.1:1" in line) == (1, True)

"""One suite for people at an outbox that competing relays share, in MariaDB and in SQLite."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.contract.claim_places import Place, new_place
from windrow.cli.main import main
from windrow.outbox import Record
from windrow.outbox.claims import Burial, Topics

Run = Callable[..., "Ran"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def told(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="module", params=("mysql", "sqlite"))
def shared_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with new_place(request.param, request) as place:
        yield place


@pytest.fixture
def place(shared_place: Place) -> Iterator[Place]:
    yield shared_place
    shared_place.clear()


@pytest.fixture
def run(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDROW__DATABASE__DSN", place.dsn)

    def run_windrow(*words: str) -> Ran:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = main(list(words))
        return Ran(code, out.getvalue(), err.getvalue())

    return run_windrow


def bury(place: Place, *records: Record) -> list[int]:
    """The numbers of the dead letters that these records have become."""
    rows, token, store = place.stash(*records), uuid4(), place.open()
    store.claim(token, len(rows), 600.0, Topics())
    store.finish(token, [], [], [Burial(row, "the receiver said 400") for row in rows])
    return [number for (number,) in place.sql("SELECT dead_id FROM {dead} ORDER BY dead_id")]


def test_status_counts_what_waits_and_what_is_dead(place: Place, run: Run) -> None:
    bury(place, Record("t", "k"))
    place.stash(Record("t", "hot"), Record("t", "hot"), Record("t", "k"), Record("t"))
    place.open().claim(uuid4(), 1, 600.0, Topics())
    told = run("status", "--json").told
    assert (told["backlog"], told["in_flight"], told["dead_letters"]) == (4, 1, 1)
    assert told["hottest"] == [{"key": "hot", "rows": 2}, {"key": "k", "rows": 1}]
    assert 0 <= told["oldest_age"] < 600
    assert told["last_dead_letter"] is not None
    assert (told["leaders"], told["problems"]) == ([], [])


def test_status_of_an_empty_outbox_is_in_order(run: Run) -> None:
    ran = run("status", "--max-age", "1s", "--max-backlog", "0")
    assert (ran.code, ran.err) == (0, "")
    assert "backlog    0 rows; 0 in flight" in ran.out


def test_status_ends_with_one_past_a_threshold(place: Place, run: Run) -> None:
    place.fill(3)
    ran = run("status", "--max-backlog", "2")
    assert (ran.code, "3 rows wait, more than 2" in ran.out) == (1, True)


def test_letters_are_listed_with_their_reason_and_shown_whole(place: Place, run: Run) -> None:
    record = Record("orders", "k ☃", b"\x00\xff", [("a", "1"), ("b", None)])
    first, _ = bury(place, record, Record("mails", "x", "text"))
    (entry,) = run("deadletter", "list", "--topic", "orders", "--json").told
    assert (entry["kind"], entry["id"], entry["key"]) == ("dead", first, "k ☃")
    assert (entry["attempts"], entry["error"]) == (1, "the receiver said 400")
    assert run("deadletter", "list", "--key", "nobody", "--json").told == []
    shown = run("deadletter", "show", str(first), "--payload", "--json").told
    assert (shown["topic"], shown["bytes"], shown["value_base64"]) == ("orders", 2, "AP8=")
    assert shown["headers"] == [["a", "1"], ["b", None]]
    missing = run("deadletter", "show", "999")
    assert (missing.code, "there is no dead letter 999" in missing.err) == (1, True)


def test_letter_that_is_retried_is_claimed_again_as_it_was(place: Place, run: Run) -> None:
    record = Record("orders", "k", "text ☃", [("a", "1")])
    (number,) = bury(place, record)
    tried = run("deadletter", "retry", str(number), "--dry-run", "--json").told
    assert (tried["would_change"], tried["changed"], place.count()) == (True, False, 0)
    assert run("deadletter", "retry", str(number), "--json").told["changed"]
    assert place.sql("SELECT count(*) FROM {dead}") == [(0,)]
    (claim,) = place.open().claim(uuid4(), 9, 600.0, Topics())
    assert (claim.topic, claim.key, claim.value) == ("orders", "k", "text ☃".encode())
    assert (claim.headers, claim.attempts) == ((("a", "1"),), 0)
    again = run("deadletter", "retry", str(number), "--json").told
    assert (again["changed"], place.count()) == (False, 1)


def test_letter_that_is_discarded_is_gone(place: Place, run: Run) -> None:
    first, second = bury(place, Record("t", "a"), Record("t", "b"))
    assert not run("deadletter", "discard", str(first), "--dry-run", "--json").told["changed"]
    assert run("deadletter", "discard", str(first), "--yes", "--json").told["changed"]
    assert place.sql("SELECT dead_id FROM {dead}") == [(second,)]
    assert place.count() == 0


@pytest.mark.parametrize(
    "words", [("retry", "k"), ("skip", "k"), ("discard", "k", "--yes"), ("replay", "k")]
)
def test_key_is_refused_with_what_to_name_instead(run: Run, words: tuple[str, ...]) -> None:
    ran = run("deadletter", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "MariaDB or MySQL" in ran.err or "SQLite" in ran.err
    assert "see: windrow deadletter list" in ran.err


def test_outbox_that_is_not_there_is_named_with_what_to_run(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW__DATABASE__TABLE", "nowhere")
    for words in (("status",), ("deadletter", "list")):
        ran = run(*words)
        assert (ran.code, "nowhere does not exist; run: windrow init" in ran.err) == (1, True)

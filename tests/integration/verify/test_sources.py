"""Every kind of source, on the real service: what is planted is found, and named."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fixtures.services import start_service
from tests.integration.verify import ends
from tests.integration.verify.ends import Pair
from windrow.cli.main import main
from windrow.embedded.broker import Broker
from windrow.verify import Ledger

HEROES: list[Pair] = [("ab"[n % 2] * 3, n) for n in range(1, 21)]
DELETED = [hero for hero in HEROES if hero != ("bbb", 5)]
DOUBLED = [*HEROES, HEROES[-1]]
SWAPPED = [*HEROES[:6], HEROES[8], HEROES[7], HEROES[6], *HEROES[9:]]

KINDS = (
    "jsonl",
    "postgres query",
    "postgres table",
    "mariadb",
    "mariadb table",
    "sqlite",
    "sqlite table",
    "kafka value",
    "kafka header",
    "journal value",
    "journal header",
    "journal parts",
    "journal lines",
    "receiver",
)

Run = Callable[..., "Ran"]
Fill = Callable[[Sequence[Pair]], list[str]]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def found(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.out)
        return answer

    def named(self, trouble: str) -> list[tuple[str, str]]:
        return [(each["key"], each["id"]) for each in self.found["examples"][trouble]]


@pytest.fixture(scope="session")
def verify_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run_verify(*words: str) -> Ran:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = main(["verify", *words])
        assert "Traceback" not in err.getvalue()
        return Ran(code, out.getvalue(), err.getvalue())

    return run_verify


@pytest.fixture
def written(tmp_path: Path) -> list[str]:
    return ["--written", ends.fill_jsonl(tmp_path / "written.jsonl", HEROES)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def fill(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fill]:
    """Fills an end of that kind, and returns what ``windrow verify`` is told of it."""
    service, _, how = kind.partition(" ")
    table = "table:arrived?key=team&id=hero&order=place"
    query = "sql:SELECT team, hero FROM arrived ORDER BY place"
    with ExitStack() as stack:

        def fill_it(records: Sequence[Pair]) -> list[str]:
            match service:
                case "jsonl":
                    return [ends.fill_jsonl(tmp_path / "arrived.jsonl", records)]
                case "postgres":
                    dsn = request.getfixturevalue("database")
                    ends.fill_postgres(dsn, records)
                    monkeypatch.setenv("WINDROW__DATABASE__DSN", dsn)
                    return [table if how == "table" else query]
                case "mariadb":
                    url = request.getfixturevalue("mariadb_database")
                    ends.fill_mariadb(url, records)
                    monkeypatch.setenv("ARRIVED", url)
                    return [table if how == "table" else query, "--arrived-dsn-env", "ARRIVED"]
                case "sqlite":
                    path = tmp_path / "arrived.db"
                    ends.fill_sqlite(path, records)
                    (tmp_path / "dsn").write_text(f"sqlite:///{path}\n")
                    return [table if how == "table" else query, "--arrived-dsn-file", "dsn"]
                case "kafka":
                    topic = request.getfixturevalue("topic")
                    bootstrap = request.getfixturevalue("kafka")
                    ends.fill_kafka(bootstrap, topic, records, aborted=HEROES[:3])
                    monkeypatch.setenv("WINDROW__KAFKA__BOOTSTRAP", bootstrap)
                    return [f"kafka:{topic}" + ("?id=header:message-id" if how == "header" else "")]
                case "journal":
                    broker = request.getfixturevalue("verify_broker")
                    monkeypatch.setenv("WINDROW__JOURNAL__ADDRESS", broker.address)
                    name = ends.fill_journal(
                        broker.address,
                        records,
                        as_lines=how == "lines",
                        parts=2 if how == "parts" else 1,
                    )
                    picks = "?key=key&id=header:message-id" if how == "header" else ""
                    return [f"journal:{name}{picks}"]
            url = stack.enter_context(ends.serve_receiver(records))
            return [f"receiver:{url}?key=/payload/team"]

        yield fill_it


def test_all_that_was_written_and_nothing_else_is_clean(
    fill: Fill, run: Run, written: list[str]
) -> None:
    ran = run(*written, "--arrived", *fill(HEROES), "--json")
    assert (ran.code, ran.err) == (0, "")
    assert {name: ran.found[name] for name in ("written", "arrived", "missing", "clean")} == {
        "written": 20,
        "arrived": 20,
        "missing": 0,
        "clean": True,
    }


def test_a_deleted_record_is_missed_by_name(fill: Fill, run: Run, written: list[str]) -> None:
    ran = run(*written, "--arrived", *fill(DELETED), "--json")
    assert (ran.code, ran.found["missing"], ran.found["clean"]) == (1, 1, False)
    assert ran.named("missing") == [HEROES_NAMED[4]]


def test_a_record_inserted_again_is_doubled_by_name(
    fill: Fill, run: Run, written: list[str]
) -> None:
    ran = run(*written, "--arrived", *fill(DOUBLED), "--json")
    assert (ran.code, ran.found["doubled"], ran.found["missing"]) == (1, 1, 0)
    assert ran.named("doubled") == [HEROES_NAMED[-1]]


def test_two_records_of_one_key_swapped_are_misordered_by_name(
    fill: Fill, run: Run, written: list[str]
) -> None:
    ran = run(*written, "--arrived", *fill(SWAPPED), "--json")
    assert (ran.code, ran.found["misordered"], ran.found["missing"]) == (1, 1, 0)
    assert ran.named("misordered") == [HEROES_NAMED[6]]


HEROES_NAMED = [(team, str(hero)) for team, hero in HEROES]


def test_a_ledger_is_what_was_written(run: Run, tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.maybe(HEROES)
        ledger.written(HEROES[:10])
        ledger.undone(HEROES[10:15])
    arrived = ends.fill_jsonl(tmp_path / "arrived.jsonl", HEROES[1:16])
    ran = run("--written", "ledger:ledger", "--arrived", arrived, "--json")
    counts = [ran.found[name] for name in ("written", "arrived", "missing", "unexpected")]
    assert (ran.code, counts) == (1, [11, 15, 1, 5])


def test_without_order_every_repeat_is_doubled_and_can_be_forgiven(
    run: Run, written: list[str], tmp_path: Path
) -> None:
    arrived = ends.fill_jsonl(tmp_path / "arrived.jsonl", [*reversed(HEROES), HEROES[3]])
    ran = run(*written, "--arrived", arrived, "--no-order", "--json")
    assert (ran.code, ran.found["doubled"], ran.found["misordered"]) == (1, 1, 0)
    assert ran.named("doubled") == [HEROES_NAMED[3]]
    forgiven = run(*written, "--arrived", arrived, "--no-order", "--allow-repeats", "--json")
    assert (forgiven.code, forgiven.found["forgiven"], forgiven.found["clean"]) == (0, 1, True)


def test_people_are_shown_a_table_and_a_verdict(
    run: Run, written: list[str], tmp_path: Path
) -> None:
    ran = run(*written, "--arrived", ends.fill_jsonl(tmp_path / "arrived.jsonl", DELETED))
    assert "missing      1         bbb/5" in ran.out
    assert "verdict: BROKEN" in ran.out

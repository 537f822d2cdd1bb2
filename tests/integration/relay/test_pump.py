"""``windrow pump``'s work on a real outbox, and a ledger that tells what must arrive."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.fixtures.relaying import OutboxDatabase, RelayKit, consume, wait_for
from windrow.config import Dsn
from windrow.embedded.ports import free_port
from windrow.errors import Unreachable
from windrow.outbox.errors import DatabaseFailed, WrongSchema
from windrow.outbox.table import Table
from windrow.relay.load import Load, transactions
from windrow.relay.pumping import Progress, Pump
from windrow.verify import Ledger, LedgerFile, tally


def pump(outbox: OutboxDatabase, load: Load, **more: object) -> Pump:
    return Pump(Dsn(outbox.dsn), outbox.table, load, **more)  # type: ignore[arg-type]


def test_all_records_are_in_the_outbox_in_the_order_of_their_keys(outbox: OutboxDatabase) -> None:
    load = Load(25, 1_000, skew=0.8, workers=4, seed=3)
    done = pump(outbox, load).run()
    assert (done.written, done.rolled_back) == (1_000, 0)
    assert done.commits == len(list(transactions(load)))
    with outbox.connect() as connection:
        rows = connection.execute(
            "SELECT kafka_key, kafka_header_values[1]::int FROM outbox ORDER BY id"
        ).fetchall()
    numbers: dict[str, list[int]] = defaultdict(list)
    for key, number in rows:
        numbers[key].append(number)
    assert sum(map(len, numbers.values())) == 1_000
    assert all(found == sorted(found) for found in numbers.values())


def test_what_was_rolled_back_is_neither_in_the_outbox_nor_in_the_ledger(
    outbox: OutboxDatabase, tmp_path: Path
) -> None:
    load = Load(10, 2_000, rollbacks=0.3, seed=3, workers=2)
    with Ledger(tmp_path / "ledger") as ledger:
        done = pump(outbox, load, book=ledger).run()
    assert done.rolled_back > 0
    assert done.written + done.rolled_back == 2_000
    assert outbox.count() == done.written
    entries = list(LedgerFile(tmp_path / "ledger"))
    assert len(entries) == done.written
    assert not any(entry.maybe for entry in entries)


def test_a_ledger_and_a_consumer_agree_after_the_relay(
    outbox: OutboxDatabase, kafka: str, topic: str, relay_kit: RelayKit, tmp_path: Path
) -> None:
    load = Load(20, 2_000, topic, skew=1.0, sizes=(10, 300), rollbacks=0.1, workers=3, seed=5)
    relay_kit.start()
    with Ledger(tmp_path / "ledger") as ledger:
        done = pump(outbox, load, book=ledger).run()
    wait_for(lambda: outbox.count() == 0, "the outbox is empty")
    arrived = [
        (seen.key, int(dict(seen.headers)["Seq"] or b"-1")) for seen in consume(kafka, topic)
    ]
    verdict = tally(LedgerFile(tmp_path / "ledger"), arrived)
    assert verdict.is_clean
    assert verdict.delivered == done.written


def test_a_rate_is_kept(outbox: OutboxDatabase) -> None:
    began = time.monotonic()
    pump(outbox, Load(5, 200, per_transaction=5), rate=400.0).run()
    assert time.monotonic() - began > 0.4


def test_progress_is_told_on_the_way(outbox: OutboxDatabase) -> None:
    told: list[Progress] = []
    pump(outbox, Load(5, 400)).run(told.append)
    counts = [progress.written for progress in told]
    assert counts == sorted(counts)
    assert counts[-1] == 400


def test_blank_records_are_written_without_a_value(outbox: OutboxDatabase) -> None:
    pump(outbox, Load(5, 40, is_blank=True)).run()
    assert outbox.count("kafka_value IS NULL") == 40


def test_a_missing_outbox_ends_it_with_the_next_command(outbox: OutboxDatabase) -> None:
    with pytest.raises(WrongSchema, match="windrow init"):
        Pump(Dsn(outbox.dsn), Table("elsewhere"), Load(5, 40_000, workers=3)).run()


def test_an_unreachable_database_ends_it_without_the_password(outbox: OutboxDatabase) -> None:
    dsn = Dsn(f"postgresql://me:hunter2@127.0.0.1:{free_port()}/x")
    with pytest.raises(Unreachable, match=r"cannot reach PostgreSQL at 127\.0\.0\.1") as refused:
        Pump(dsn, outbox.table, Load(5, 40, workers=2)).run()
    assert "hunter2" not in str(refused.value)
    assert refused.value.__context__ is None


def test_a_database_that_goes_away_ends_it(outbox: OutboxDatabase) -> None:
    """What was committed is counted; what was under way may have been written."""
    running = pump(outbox, Load(5, 100_000, workers=2), rate=20_000.0)
    cuts: list[int] = []

    def cut(progress: Progress) -> None:
        if progress.commits >= 20 and not cuts:
            cuts.append(progress.commits)
            with outbox.connect() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    with pytest.raises(DatabaseFailed):
        running.run(cut)
    assert running.progress.written <= outbox.count() < 100_000

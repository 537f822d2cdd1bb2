"""Outbox to journal: kill relays and their broker at the worst moments, and count there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.faults.relay_bench import QUICK_LEASE, RelayBench
from tests.faults.test_relay_kills import BATCH_POINTS, kills
from tests.fixtures.relaying import OutboxDatabase
from windrow.embedded.broker import Broker
from windrow.errors import WindrowError
from windrow.journal.client.requests import Upsert
from windrow.journal.client.sync import SyncJournalClient, connect
from windrow.journal.codec import Codec
from windrow.journal.labels import LabelSet
from windrow.journal.message.record import decode_records
from windrow.journal.spec import SEQUENCED_LABEL, FragmentSpec, JournalSpec
from windrow.testing import FaultLog
from windrow.verify.tally import Arrival

JOURNAL = "relayed/heroes"


@dataclass
class JournalRelayBench(RelayBench):
    """Relays that publish to one journal of a broker, which can be killed, too."""

    broker: Broker = field(kw_only=True)
    client: SyncJournalClient = field(kw_only=True)

    def target_settings(self) -> dict[str, str]:
        return {
            "relay.target": "journal",
            "relay.journal": JOURNAL,
            "journal.address": self.broker.address,
        }

    def progress(self) -> int:
        with suppress(WindrowError):  # no broker, no news
            self._progress = self.client.write_head(JOURNAL)
        return self._progress

    def arrived(self) -> list[Arrival]:
        records = decode_records(self.client.read(JOURNAL))
        assert [record.seq for record in records] == list(range(len(records)))
        return [((record.key or b"").decode(), int(record.value or b"")) for record in records]


@pytest.fixture
def bench(outbox: OutboxDatabase, tmp_path: Path) -> Iterator[JournalRelayBench]:
    with Broker.start() as broker, connect(broker.address) as client:
        fragment = FragmentSpec(length=1 << 26, codec=Codec.NONE, stores=(), refresh_interval=60.0)
        labels = LabelSet.of({SEQUENCED_LABEL: "yes"})
        client.apply([Upsert(JournalSpec(JOURNAL, 1, labels=labels, fragment=fragment))])
        bench = JournalRelayBench(
            outbox, "", "heroes", tmp_path, dict(QUICK_LEASE), broker=broker, client=client
        )
        try:
            yield bench
        finally:
            bench.close()


@pytest.mark.proves("relay-journal")
def test_killed_leaders_lose_and_repeat_nothing_in_the_journal(
    bench: JournalRelayBench, faults: FaultLog, pytestconfig: pytest.Config
) -> None:
    part = faults.part("relay journal")
    bench.start_writers()
    bench.start_relay()
    bench.start_relay()
    for moment in part.kill_times(kills(pytestconfig, 10, 150), BATCH_POINTS):
        bench.kill(part, bench.leader(), moment)
        bench.may_repeat.clear()  # nothing may
        bench.start_relay()
    bench.settle(part)


@pytest.mark.proves("relay-journal")
def test_a_zombie_that_wakes_up_appends_nothing_more(
    bench: JournalRelayBench, faults: FaultLog
) -> None:
    """Above all one that was about to append: its batch is fenced off, and relayed by the next."""
    part = faults.part("relay journal")
    bench.start_writers()
    bench.start_relay()
    bench.start_relay()
    bench.wake_zombies(part, [None, *BATCH_POINTS])
    bench.settle(part)


@pytest.mark.proves("relay-journal")
def test_a_killed_broker_loses_and_repeats_nothing(
    bench: JournalRelayBench, faults: FaultLog, pytestconfig: pytest.Config
) -> None:
    """Appends under way are of unknown outcome: the relay reads back what became of them."""
    part = faults.part("relay journal")
    bench.start_writers()
    bench.start_relay()
    for moment in part.kill_times(kills(pytestconfig, 5, 50), BATCH_POINTS):
        leader, point = bench.leader(), moment.point
        part.inject(
            "kill",
            bench.broker,
            bench.broker.kill,
            work=bench.progress,
            at=moment,
            reach=partial(leader.points.reach, point) if point else None,
        )
        if point:
            leader.points.release(point)
        bench.broker.restart()
        bench.wait_for_progress("appends go on")
    bench.settle(part)

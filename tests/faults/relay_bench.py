"""What the fault tests of the relay stand on: services that write, relays to kill, a consumer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from windrow.points import VARIABLE, Points
from windrow.testing import FaultPart, Moment
from windrow.verify import LedgerFile
from windrow.verify.tally import Arrival

ROOT = Path(__file__).parents[2]
QUICK_LEASE = {
    "relay.election.lease_ttl": "1s",
    "relay.election.margin": "100ms",
    "relay.delivery_timeout": "400ms",
}


@dataclass
class RelayProcess:
    """``windrow relay`` as the world runs it: a process, to be killed."""

    name: str
    process: subprocess.Popen[bytes]
    points: Points

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self, timeout: float = 30.0) -> int:
        self.process.terminate()
        return self.process.wait(timeout)


@dataclass
class RelayBench:
    """One outbox, services that write to it, and relays that come and go."""

    outbox: OutboxDatabase
    bootstrap: str
    topic: str
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    relays: dict[str, RelayProcess] = field(default_factory=dict)
    may_repeat: list[Arrival] = field(default_factory=list)
    _writers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _watcher: Any = None

    # -- services --------------------------------------------------------------------------------

    def start_writers(self, count: int = 2, rate: float = 400.0, keys: int = 30) -> None:
        for seed in range(count):
            argv = ["tests.faults.outbox_writer", self.outbox.dsn, self.topic, str(self.directory)]
            self._writers.append(
                subprocess.Popen(
                    [sys.executable, "-m", *argv, str(rate), str(keys), str(seed)], cwd=ROOT
                )
            )

    def stop_writers(self) -> None:
        (self.directory / "stop").touch()
        for writer in self._writers:
            assert writer.wait(30) == 0

    @property
    def ledgers(self) -> list[Path]:
        return [self.directory / f"ledger-{seed}" for seed in range(len(self._writers))]

    # -- relays ----------------------------------------------------------------------------------

    def start_relay(self, **more: str) -> RelayProcess:
        name = f"relay-{len(list(self.directory.glob('points-*')))}"
        points = self.directory / f"points-{name}"
        points.mkdir()
        settings = {
            "database.dsn": self.outbox.dsn,
            "kafka.bootstrap": self.bootstrap,
            "kafka.state_topic": f"state-{self.topic}",
            "relay.name": name,
            **self.settings,
            **more,
        }
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        log = (self.directory / f"{name}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "windrow", "relay", *flags],
                env={**os.environ, VARIABLE: str(points)},
                stderr=log,
                cwd=ROOT,
            )
        self.relays[name] = RelayProcess(name, process, Points(points))
        return self.relays[name]

    def wait_for_start(self, relay: RelayProcess) -> None:
        log = self.directory / f"{relay.name}.log"
        wait_for(lambda: "relay started" in log.read_text(), f"{relay.name} stands for leadership")

    def leader(self) -> RelayProcess:
        """The relay that holds the lease; waits for one that does."""
        found: list[RelayProcess] = []

        def look() -> bool:
            with self.outbox.connect() as connection:
                row = connection.execute(
                    "SELECT leader FROM outbox_epoch JOIN outbox_lease USING (shard, epoch)"
                    " WHERE expires_at > clock_timestamp()"
                ).fetchone()
            # Behind its name a holder has a token of its own.
            name = row[0].partition(" ")[0] if row else ""
            found[:] = [self.relays[name]] if name in self.relays else []
            return bool(found)

        wait_for(look, "a relay leads")
        return found[0]

    # -- faults ----------------------------------------------------------------------------------

    def kill(self, part: FaultPart, victim: RelayProcess, moment: Moment | None = None) -> None:
        """Kill it at that moment, and remember what may come twice because of it."""
        point = moment.point if moment else None
        part.inject(
            "kill",
            victim,
            victim.kill,
            work=self.progress,
            at=moment,
            reach=(lambda: victim.points.reach(point)) if point else None,
        )
        del self.relays[victim.name]
        self.may_repeat += self.unacknowledged()

    def unacknowledged(self) -> list[Arrival]:
        """The first record of each key that was taken: at most that one can be on its way."""
        # The diff reader leaves no mark: whatever comes first may have been taken.
        taken = "true" if self.settings.get("relay.reader") == "diff" else "leader_id IS NOT NULL"
        with self.outbox.connect() as connection:
            rows = connection.execute(
                "SELECT DISTINCT ON (kafka_key) kafka_key, kafka_value FROM outbox"
                f" WHERE {taken} ORDER BY kafka_key, id"
            ).fetchall()
        return [(key, int(value)) for key, value in rows]

    def progress(self) -> int:
        """How much the topic holds: moves while a relay publishes."""
        from confluent_kafka import Consumer, TopicPartition

        if self._watcher is None:
            self._watcher = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "watch"})
        partitions = self._watcher.list_topics(self.topic, timeout=10).topics[self.topic].partitions
        ends = [
            self._watcher.get_watermark_offsets(TopicPartition(self.topic, p), timeout=10)[1]
            for p in partitions
        ]
        return sum(ends)

    def wait_for_progress(self, what: str, timeout: float = 30.0) -> None:
        before = self.progress()
        wait_for(lambda: self.progress() > before, what, timeout)

    def wait_for_another(self, than: RelayProcess) -> None:
        wait_for(lambda: self.leader() is not than, f"another than {than.name} leads")

    # -- the end ---------------------------------------------------------------------------------

    def settle(self, part: FaultPart, timeout: float = 60.0) -> None:
        """Stop writing, let the relays deliver the rest, and count at a consumer."""
        self.stop_writers()
        wait_for(lambda: self.outbox.count() == 0, "the outbox is empty", timeout)
        part.settle(self.ledgers, self.arrived(), self.may_repeat)

    def arrived(self) -> list[Arrival]:
        return [(seen.key, int(seen.value or 0)) for seen in consume(self.bootstrap, self.topic)]

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        for writer in self._writers:
            writer.kill()
            writer.wait(30)
        for relay in self.relays.values():
            relay.resume()
            relay.kill()


@contextmanager
def relay_bench(
    outbox: OutboxDatabase, kafka: str, topic: str, directory: Path, **settings: str
) -> Iterator[RelayBench]:
    bench = RelayBench(outbox, kafka, topic, directory, {**QUICK_LEASE, **settings})
    try:
        yield bench
    finally:
        bench.close()


def ledger_progress(bench: RelayBench) -> int:
    return sum(LedgerFile(path).progress() for path in bench.ledgers)

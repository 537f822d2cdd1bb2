"""What the fault tests of the relay stand on: services that write, relays to kill, a consumer."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.fixtures.databases import Postgres
from tests.fixtures.relaying import OutboxDatabase, consume, wait_for
from windrow.embedded import PostgresServer
from windrow.outbox.table import Table
from windrow.points import VARIABLE, Points, Strike
from windrow.testing import FaultPart, Moment
from windrow.verify import LedgerFile
from windrow.verify.tally import Arrival

ROOT = Path(__file__).parents[2]
LAST_WORDS = 20
"""Lines of a relay's log that a failed test shows."""
PATIENCE = 60.0
"""Seconds for what has to happen at all: on a busy machine a relay takes long to start."""
QUICK_LEASE = {
    "relay.election.lease_ttl": "1s",
    "relay.election.margin": "100ms",
    "relay.delivery_timeout": "400ms",
}
STEADY_LEASE = {
    "relay.election.lease_ttl": "2s",
    "relay.election.margin": "100ms",
    "relay.delivery_timeout": "1s",
}
"""On a busy machine a record that was written is not given up for a late acknowledgement."""


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
    _progress: int = 0

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
            "relay.name": name,
            **self.target_settings(),
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

    def target_settings(self) -> dict[str, str]:
        """Where relays publish to; what arrived there is read by ``progress`` and ``arrived``."""
        return {"kafka.bootstrap": self.bootstrap, "kafka.state_topic": f"state-{self.topic}"}

    def log_of(self, relay: RelayProcess) -> str:
        return (self.directory / f"{relay.name}.log").read_text()

    def print_logs(self) -> None:
        """What every relay said last, for whoever has to find out why a test failed."""
        for log in sorted(self.directory.glob("relay-*.log")):
            print(f"{log.name}:", *log.read_text().splitlines()[-LAST_WORDS:], sep="\n  ")

    def wait_for_log(self, relay: RelayProcess, text: str, timeout: float = PATIENCE) -> None:
        """Wait until it writes this to its log, from now on."""
        seen = self.log_of(relay).count(text)
        what = f"{relay.name} says {text!r}"
        wait_for(lambda: self.log_of(relay).count(text) > seen, what, timeout)

    def wait_for_start(self, relay: RelayProcess) -> None:
        what = f"{relay.name} stands for leadership"
        wait_for(lambda: "relay started" in self.log_of(relay), what, PATIENCE)

    def leader(self) -> RelayProcess:
        """The relay that holds the lease; waits for one that does."""
        found: list[RelayProcess] = []

        def look() -> bool:
            with self.outbox.connect() as connection:
                row = connection.execute(
                    "SELECT holder FROM outbox_lease WHERE expires_at > clock_timestamp()"
                ).fetchone()
            # Behind its name a holder has a token of its own.
            name = row[0].partition(" ")[0] if row else ""
            found[:] = [self.relays[name]] if name in self.relays else []
            return bool(found)

        wait_for(look, "a relay leads", PATIENCE)
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

    def wake_zombies(self, part: FaultPart, points: Sequence[str | None]) -> None:
        """Pause a leader at each of these points until another one leads, and let it wake up."""
        for point in points:
            zombie = self.leader() if point is None else self._leader_at(point)
            part.inject("pause", zombie, zombie.pause, work=lambda: ledger_progress(self))
            self.wait_for_another(zombie)
            self.wait_for_progress("the new leader sends")
            if point is not None:
                zombie.points.release(point)
            zombie.resume()
            # It finds itself replaced, and somebody leads on: as a rule the one that took over. But
            # a zombie that slept in the middle of shutting out others at Kafka goes on with that.
            self.wait_for_progress("the leader goes on")

    def _leader_at(self, point: str) -> RelayProcess:
        """A leader that waits at a point; one that loses the lead on its way there is let go."""
        while not self._comes_to(leader := self.leader(), point):
            leader.points.release(point)
        return leader

    def _comes_to(self, leader: RelayProcess, point: str) -> bool:
        leader.points.want(point, Strike("wait"))
        wait_for(
            lambda: bool(leader.points.struck(point)) or self.leader() is not leader,
            f"{leader.name} comes to {point}, or another leads",
            PATIENCE,
        )
        return bool(leader.points.struck(point))

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
        """How much the topic holds: moves while a relay publishes, stands while nobody answers."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        if self._watcher is None:
            config = {"bootstrap.servers": self.bootstrap, "group.id": "watch", "log_level": 0}
            self._watcher = Consumer(config)
        try:
            topics = self._watcher.list_topics(self.topic, timeout=5).topics
            self._progress = sum(
                self._watcher.get_watermark_offsets(TopicPartition(self.topic, p), timeout=5)[1]
                for p in topics[self.topic].partitions
            )
        except KafkaException:
            pass  # no broker, no news
        return self._progress

    def wait_for_progress(self, what: str, timeout: float = PATIENCE) -> None:
        before = self.progress()
        wait_for(lambda: self.progress() > before, what, timeout)

    def wait_for_another(self, than: RelayProcess) -> None:
        wait_for(lambda: self.leader() is not than, f"another than {than.name} leads", PATIENCE)

    # -- the end ---------------------------------------------------------------------------------

    def settle(self, part: FaultPart, timeout: float = PATIENCE) -> None:
        """Stop writing, let the relays deliver the rest, and count at a consumer."""
        self.stop_writers()
        self._drain(timeout)
        part.settle(self.ledgers, self.arrived(), self.may_repeat)

    def _drain(self, timeout: float) -> None:
        """Until the outbox is empty. What was left may be much; that nothing moves is the fault."""
        while rows := self.outbox.count():
            what = f"fewer than {rows} rows are left in the outbox"
            # Seldom: to count very many rows takes a processor away from those who deliver them.
            wait_for(partial(self._has_fewer_than, rows), what, timeout, every=0.25)

    def _has_fewer_than(self, rows: int) -> bool:
        return self.outbox.count() < rows

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
    except BaseException:
        bench.print_logs()
        raise
    finally:
        bench.close()


def make_outbox(server: Postgres, name: str | None = None) -> OutboxDatabase:
    """A migrated outbox in a database of its own.

    On a server of the test's own its address is a port, so that it can be reached by way of a link
    or a pooler too.
    """
    import psycopg

    from windrow.outbox.schema import migrate

    name = name or f"test_{secrets.token_hex(6)}"
    dsn = server.create_database(name, template="template0")
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection, Table())
    if isinstance(server, PostgresServer):
        dsn = server.dsn(name, port=server.port)
    return OutboxDatabase(dsn)


def through(dsn: str, port: int) -> str:
    """The same database by way of another port of the loopback interface."""
    address = urlsplit(dsn)
    login = address.netloc.rpartition(":")[0]
    return address._replace(netloc=f"{login}:{port}").geturl()


def ledger_progress(bench: RelayBench) -> int:
    return sum(LedgerFile(path).progress() for path in bench.ledgers)

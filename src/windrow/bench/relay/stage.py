"""PostgreSQL, Kafka, an outbox to fill and a relay to run: what every measure of it stands on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.bench.errors import NotDelivered
from windrow.bench.processor_time import cpu_seconds
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.kafka import KafkaBroker
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.postgres_binaries import debian_binaries
from windrow.embedded.process import Child
from windrow.extras import require
from windrow.outbox.schema import migrate
from windrow.outbox.table import Table

PARTITIONS = 10
VALUE_BYTES = 1024
PATIENCE = 300.0
STOP_PATIENCE = 30.0
ROOM_FOR_MARKS, NO_ROOM = 45, 100
"""Fillfactors: what an outbox has, and what one is to have that nobody marks."""
Settings = Mapping[str, str]
"""What a relay is told, by the names of its configuration."""

FILL = """
INSERT INTO outbox (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys,
                    kafka_header_values)
SELECT now(), %(topic)s, 'key-' || (n %% %(keys)s), rpad(n::text, %(bytes)s, 'x'),
       '{source,trace}', '{bench,none}'
FROM generate_series(1, %(rows)s) AS n
"""


@dataclass
class Stage:
    """The servers, and the connection that looks at them."""

    postgres: PostgresServer
    kafka: KafkaBroker
    connection: Any
    directory: Path
    fillfactor: int = ROOM_FOR_MARKS
    """How full pages are when rows are written."""
    repeats: int = 0
    """Records that came twice in all drains so far, though nothing was killed."""
    _topics: int = 0
    _relays: int = 0

    def new_topic(self) -> str:
        """An empty topic."""
        self._topics += 1
        name = f"bench-{self._topics}"
        self.kafka.create_topic(name, partitions=PARTITIONS)
        return name

    def fill(self, topic: str, rows: int, keys: int, *, analyse: bool = True) -> None:
        """A backlog of that many rows, as if a relay had been away for a while."""
        self.connection.execute("TRUNCATE outbox")
        self.connection.execute(f"ALTER TABLE outbox SET (fillfactor = {self.fillfactor:d})")
        parameters = {"topic": topic, "rows": rows, "keys": keys, "bytes": VALUE_BYTES}
        self.connection.execute(FILL, parameters)
        if analyse:
            self.connection.execute("VACUUM ANALYZE outbox")
        self.connection.execute("CHECKPOINT")

    def wait_until_relayed(self, topic: str, rows: int) -> None:
        """Wait for the last row to have gone.

        The table is looked at only when the topic is full: a look walks over all the rows that are
        dead by then, and what that costs would be booked to the relay.
        """
        watcher = Watcher(self.new_consumer, topic)
        self.wait(lambda: watcher.written() >= rows, f"{rows} rows arrive", step=0.05)
        watcher.close()
        self.wait(self.is_empty, f"{rows} rows are purged", step=0.005)

    def purges(self) -> tuple[int, int]:
        """How many purges there were since the server started, and how many rows they took."""
        return tuple(
            self.connection.execute(
                "SELECT coalesce(sum(calls), 0)::int8, coalesce(sum(rows), 0)::int8"
                r" FROM pg_stat_statements WHERE query ~ 'DELETE FROM \S*outbox\S* ' AND rows > 0"
            ).fetchone()
        )

    def is_empty(self) -> bool:
        """Whether nothing waits in the outbox."""
        (found,) = self.connection.execute("SELECT EXISTS (SELECT FROM outbox)").fetchone()
        return not found

    def pause(self) -> None:
        """Keep relays from reading."""
        self.connection.execute(
            "INSERT INTO outbox_hold (what, name, reason) VALUES ('relay', '', 'paused')"
            " ON CONFLICT DO NOTHING"
        )

    def go(self) -> None:
        """Let them read."""
        self.connection.execute("DELETE FROM outbox_hold")

    @contextmanager
    def relay(self, settings: Settings) -> Iterator[Child]:
        """A relay that leads, in a process of its own as users run it, and ends with the block."""
        epoch = self._epoch()
        with self.standby(settings) as relay:
            relay.wait_until(lambda: self._epoch() > epoch, PATIENCE, "lead")
            yield relay

    @contextmanager
    def standby(self, settings: Settings) -> Iterator[Child]:
        """The same, where another one leads."""
        self._relays += 1
        name = f"relay-{self._relays}"
        given = {
            "database.dsn": self.postgres.dsn(),
            "kafka.bootstrap": self.kafka.bootstrap,
            # Why a record came twice, or a drain took long, is told there.
            "log.level": "warning",
            **settings,
        }
        relay = Child.start(
            name,
            [sys.executable, "-m", "windrow", "relay"],
            cwd=self.directory,
            log=self.directory / f"{name}.log",
            env={f"WINDROW__{key.upper().replace('.', '__')}": given[key] for key in given},
        )
        try:
            yield relay
        finally:
            relay.stop(STOP_PATIENCE)

    def _epoch(self) -> int:
        """Raised by whoever comes to lead, however it was elected."""
        (epoch,) = self.connection.execute("SELECT epoch FROM outbox_epoch").fetchone()
        return int(epoch)

    def wait(
        self,
        condition: Callable[[], bool],
        what: str,
        patience: float = PATIENCE,
        step: float = 0.01,
    ) -> None:
        """Wait for something to become true.

        Raises:
            NotDelivered: It did not.
        """
        deadline = time.monotonic() + patience
        while not condition():
            if time.monotonic() > deadline:
                raise NotDelivered(what, patience)
            time.sleep(step)  # servers set no event: they have to be asked again

    def check_arrival(self, topic: str, rows: int) -> int:
        """See at a consumer that every row arrived, each key in its order; returns the repeats.

        Raises:
            NotDelivered: A record is missing or out of order: no figure is worth that.
        """
        last: dict[bytes, int] = {}
        delivered = repeats = 0
        for message in self.messages(topic):
            number, key = int(message.value().rstrip(b"x")), message.key()
            before = last.get(key, 0)
            if number < before:
                raise NotDelivered(f"{topic}: {key!r} goes back from {before} to {number}", 0)
            last[key] = number
            repeats += number == before
            delivered += number > before
        if delivered != rows:
            raise NotDelivered(f"{topic} holds {delivered} records of {rows}", 0)
        return repeats

    def messages(self, topic: str) -> Iterator[Any]:
        """All that the topic holds now, as a reader of committed records sees it."""
        kafka = require("confluent_kafka")
        consumer = self.new_consumer()
        consumer.assign([kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    yield message
                elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        consumer.close()

    def new_consumer(self) -> Any:
        """A consumer of committed records that waits for nothing."""
        return require("confluent_kafka").Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": f"bench-{time.monotonic_ns()}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 1,
            }
        )

    def postgres_cpu(self) -> float:
        """Seconds of processor time of all server processes so far, ended ones included."""
        root = self.postgres.pid
        return cpu_seconds(root, with_ended_children=True) + sum(
            cpu_seconds(pid) for pid in _children(root)
        )


class Watcher:
    """Asks again and again how much a topic holds."""

    def __init__(self, new_consumer: Callable[[], Any], topic: str) -> None:
        self._new_consumer, self._topic = new_consumer, topic
        self._consumer = new_consumer()

    def written(self) -> int:
        """How much its partitions hold, markers of transactions included.

        A broker that stood still does not know for a while what it leads, and says so by errors of
        several kinds: then it is nothing yet, and whoever waits for more has a deadline. A client
        may go on asking by what it learned before that, and be refused for ever: so the next look
        is another's.
        """
        kafka = require("confluent_kafka")
        ends = (
            self._consumer.get_watermark_offsets(kafka.TopicPartition(self._topic, p), timeout=10)
            for p in range(PARTITIONS)
        )
        try:
            return sum(high for _, high in ends)
        except kafka.KafkaException:
            self.close()
            self._consumer = self._new_consumer()
            return 0

    def close(self) -> None:
        """Let go of the client."""
        self._consumer.close()


def arrivals(consumer: Any) -> list[Any]:
    """What has arrived, as soon as anything has; nothing if that takes long.

    ``consume`` alone would wait for as many as it is asked for, or for its time-out, and every
    delay would have half of that in it.
    """
    first = consumer.poll(0.1)
    messages = [] if first is None else [first, *consumer.consume(1_000, 0)]
    return [message for message in messages if message.error() is None]


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if Path(f"/proc/{child}").exists()]


@contextmanager
def stage() -> Iterator[Stage]:
    """Both servers, durable, with an outbox ready to be filled."""
    with ExitStack() as stack:
        directory = create_directory("bench")
        stack.callback(remove_directory, directory)
        settings = {
            "shared_buffers": "1GB",
            "max_wal_size": "8GB",
            "shared_preload_libraries": "pg_stat_statements",
        }
        postgres = stack.enter_context(
            PostgresServer.start(binaries=debian_binaries(), settings=settings)
        )
        kafka = stack.enter_context(KafkaBroker.start(jvm=()))
        connection = stack.enter_context(
            require("psycopg").connect(postgres.dsn(), autocommit=True)
        )
        connection.execute("CREATE EXTENSION pg_stat_statements")
        migrate(connection, Table())
        yield Stage(postgres, kafka, connection, directory)

"""The parts of the road as child processes: how each is started, killed and started again."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.config import Config
from windrow.demo import graph, tables
from windrow.demo.errors import PartEnded
from windrow.demo.waiting import wait_for
from windrow.embedded.broker import Broker
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.ports import LOOPBACK
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.postgres_binaries import embedded_binaries
from windrow.embedded.process import Child, find_program
from windrow.embedded.service import Service
from windrow.extras import require
from windrow.graph.declaration import Graph
from windrow.outbox import Table, migrate
from windrow.spark.places import Place, connections_of, place_of

if TYPE_CHECKING:
    import psycopg

    from windrow.embedded.kafka import KafkaBroker
    from windrow.playpen import PlaypenProducer
    from windrow.spark.stores import QueueReader

    Connection = psycopg.Connection[tuple[Any, ...]]

RELAYS: Final = ("first", "second")
LOG_LINES: Final = 4
NO_RECEIVER: Final = f"http://{LOOPBACK}:9"
"""The producer's control calls one; nobody here uses it."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One SIGKILL: of what, which process that was, and who goes on."""

    part: str
    pid: int
    successor: str

    def __str__(self) -> str:
        return f"{self.part}: process {self.pid} killed with SIGKILL, {self.successor}"


def check_installed(*, on_kafka: bool) -> None:
    """See to it that nothing is missing before anything is started.

    Raises:
        MissingExtra: A package of Python is not installed; the error says what to run.
        NotInstalled: There is no Java.
    """
    embedded_binaries()  # first: the extra that brings it brings the driver too
    modules = ["psycopg", "grpc", "google.protobuf", "pyspark", "pyarrow", "starlette", "uvicorn"]
    for module in [*modules, "httpx", *(["confluent_kafka"] if on_kafka else [])]:
        require(module)
    if "JAVA_HOME" not in os.environ:
        find_program("java", "openjdk-17-jre-headless")


class Road:
    """All processes, and where they keep what they know."""

    def __init__(
        self, postgres: PostgresServer, broker: Broker, kafka: KafkaBroker | None, directory: Path
    ) -> None:
        self.postgres, self.broker, self.kafka, self.directory = postgres, broker, kafka, directory
        self.config_file = directory / "windrow.toml"
        self.config_file.write_text(settings(self.dsn, broker.address, self._bootstrap, directory))
        self._producer: PlaypenProducer | None = None
        self._relays: dict[str, Child] = {}
        self._driver: Child | None = None

    # -- where things are ------------------------------------------------------------------------

    @property
    def dsn(self) -> str:
        """The database, by its socket: there is no password in it."""
        return self.postgres.dsn()

    @property
    def log_name(self) -> str:
        """What lies between the relay and Spark."""
        return "journal" if self.kafka is None else "Kafka"

    @property
    def graph(self) -> Graph:
        """The one that runs here."""
        return graph.on_journals if self.kafka is None else graph.on_kafka

    @property
    def _bootstrap(self) -> str | None:
        return None if self.kafka is None else self.kafka.bootstrap

    def place(self, queue: str) -> Place:
        """Where a queue of the graph lives."""
        where: dict[str, Any] = {
            "database": {"dsn": self.dsn},
            "journal": {"address": self.broker.address},
            "kafka": {} if self._bootstrap is None else {"bootstrap": self._bootstrap},
        }
        return place_of(self.graph, queue, connections_of(Config.model_validate(where)))

    def reader(self, queue: str) -> QueueReader:
        """What reads a queue of the graph."""
        from windrow.spark.queues.open import open_queue

        return open_queue(self.place(queue))

    @property
    def producer(self) -> PlaypenProducer:
        """Who creates heroes."""
        assert self._producer is not None, "the road was opened with a producer"
        return self._producer

    def addresses(self) -> dict[str, str]:
        """Where to look at it while it runs."""
        found = {"producer": self.producer.url, "PostgreSQL": self.dsn}
        found["journal broker"] = self.broker.address
        if self._bootstrap is not None:
            found["Kafka"] = self._bootstrap
        return {**found, "configuration": str(self.config_file)}

    def comparisons(self) -> dict[str, list[str]]:
        """What ``windrow verify`` is asked, for each end of the road."""
        written = ["--config", str(self.config_file), "--written", f"sql:{tables.WRITTEN}"]
        audit = self.place("audit")
        return {
            "table": [*written, "--arrived", f"sql:{tables.ARRIVED}"],
            "audit": [*written, "--arrived", f"{audit.backend}:{audit.address}"],
        }

    def logs(self) -> str:
        """What relays and driver logged last, where most reasons are to be found."""
        return "\n".join(
            line for child in self._children for line in own_lines(child.log_tail(400))
        )

    # -- processes -------------------------------------------------------------------------------

    def start_producer(self) -> PlaypenProducer:
        """The producer, which makes its tables."""
        from windrow.playpen import PlaypenProducer

        self._producer = PlaypenProducer.start(self.dsn, NO_RECEIVER)
        return self._producer

    def start_relay(self, name: str) -> None:
        """A relay, which leads or stands by."""
        self._relays[name] = self._child(f"relay {name}", "relay", "--set", f"relay.name={name}")

    def start_driver(self) -> None:
        """The driver of Spark, which runs the graph."""
        which = "on_journals" if self.kafka is None else "on_kafka"
        self._driver = self._child("Spark driver", "graph", "run", f"{graph.__name__}:{which}")

    def _child(self, name: str, *arguments: str) -> Child:
        log = self.directory / f"{name.replace(' ', '-')}.log"
        argv = [sys.executable, "-m", "windrow", *arguments]
        return Child.start(name, argv, cwd=self.directory, log=log)

    @property
    def _children(self) -> list[Child]:
        return [*self._relays.values(), *([self._driver] if self._driver else [])]

    def check_alive(self) -> None:
        """See to it that nobody ends but by our hand.

        Raises:
            PartEnded: Somebody did.
        """
        for child in self._children:
            if not child.is_alive():
                raise PartEnded(child.name, child.log_tail(5))

    def stop(self) -> None:
        """End relays and driver at once, whatever they do; does nothing the second time."""
        for child in self._children:
            child.kill()

    # -- kills -----------------------------------------------------------------------------------

    def kill_relay(self, connection: Connection) -> Kill:
        """SIGKILL whichever relay leads; the other one takes over."""
        victim = self._relays.pop(leader(connection))
        victim.kill()
        (successor,) = self._relays
        return Kill(victim.name, victim.pid, f"relay {successor} takes over")

    def kill_broker(self) -> Kill:
        """SIGKILL the broker that holds the events, and start it again on its data."""
        server = self.broker if self.kafka is None else self.kafka
        pid = server.pid
        server.kill()
        server.restart()
        name = "broker" if self.kafka is None else "Kafka broker"
        return Kill(name, pid, f"and started again on its data as {server.pid}")

    def kill_driver(self) -> Kill:
        """SIGKILL the driver of Spark with its JVM and its workers, and start another one."""
        assert self._driver is not None, "the road was opened with a driver"
        victim = self._driver
        victim.kill()
        self.start_driver()
        return Kill(victim.name, victim.pid, f"and started again as {self._driver.pid}")


def own_lines(log: str) -> list[str]:
    """The last lines that Windrow wrote, out of those of Java as well."""
    return [line for line in log.splitlines() if "[windrow." in line][-LOG_LINES:]


def settings(dsn: str, broker: str, bootstrap: str | None, directory: Path) -> str:
    """What all processes of the road are configured with."""
    target = (
        'target = "journal"\njournal = "demo/heroes"'
        if bootstrap is None
        else 'target = "kafka"\nmode = "transactional"'
    )
    kafka = "" if bootstrap is None else f"[kafka]\nbootstrap = {json.dumps(bootstrap)}\n"
    return f"""\
[database]
dsn = {json.dumps(dsn)}

[journal]
address = {json.dumps(broker)}

{kafka}
[relay]
{target}

[relay.election]
lease_ttl = "1s"
margin = "100ms"

[graph]
checkpoint = {json.dumps(str(directory / "checkpoints"))}
watch_interval = "200ms"
interval = "100ms" # five queries that look for more all the time would want a core for themselves

[graph.conf]
# For short runs: what the second compiler gains in speed it loses in the start.
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"""


@contextmanager
def open_road(say: Callable[[str], None], missions: int, *, on_kafka: bool) -> Iterator[Road]:
    """Start every part; all of them are gone afterwards, whatever happens.

    Args:
        say: Told of each part as it has come up.
        missions: How many there are for heroes to be joined with.
        on_kafka: Whether events go over Kafka; if not, over journals.

    Raises:
        StartFailed: A part did not come up; the tail of its log is in the error.
    """
    with ExitStack() as stack:
        postgres, broker, kafka = _start_servers(stack, on_kafka=on_kafka)
        say(f"PostgreSQL {postgres.version} runs, as process {postgres.pid}")
        say(f"a journal broker runs, as process {broker.pid}")
        if kafka is not None:
            say(f"Kafka {kafka.version} runs, as process {kafka.pid}")
        directory = create_directory("demo")
        stack.callback(remove_directory, directory)
        road = Road(postgres, broker, kafka, directory)
        stack.callback(road.stop)
        _prepare(road, missions)
        road.start_driver()
        say("a graph on Spark is starting")
        for name in RELAYS:
            road.start_relay(name)
        say("two relays are starting")
        producer = stack.enter_context(road.start_producer())
        say(f"the producer of heroes runs at {producer.url}, as process {producer.pid}")
        yield road


def _start_servers(
    stack: ExitStack, *, on_kafka: bool
) -> tuple[PostgresServer, Broker, KafkaBroker | None]:
    """All at once: each of them waits for a disk or for itself most of the time.

    Those that came up end with the stack, even if another did not. They are killed then: nobody
    reads what they would put in order.
    """
    starters: list[Callable[[], Service]] = [PostgresServer.start, Broker.start]
    if on_kafka:
        from windrow.embedded.kafka import KafkaBroker

        starters.append(KafkaBroker.start)
    with ThreadPoolExecutor() as pool:
        starting = [pool.submit(start) for start in starters]
        try:
            wait(starting)
        finally:
            for each in starting:
                if each.exception() is None:
                    stack.enter_context(each.result())
                    stack.callback(_kill, each.result())
    postgres, broker, *kafka = (each.result() for each in starting)
    return postgres, broker, kafka[0] if kafka else None  # type: ignore[return-value]


def _kill(server: Service) -> None:
    if server.is_alive():
        server.kill()


def _prepare(road: Road, missions: int) -> None:
    """Make the tables and queues that are there before anybody uses them."""
    with require("psycopg").connect(road.dsn, autocommit=True) as connection:
        tables.create_sink(connection)
        migrate(connection, Table())
    _fill(road, missions)


def _fill(road: Road, missions: int) -> None:
    """Make the queues that are filled from outside, and write the missions."""
    from windrow.journal.message.record import Record
    from windrow.spark.queues.clients import journal_client
    from windrow.spark.queues.create import ensure_journals, ensure_topics

    places = [road.place("heroes"), road.place("missions")]
    ensure_journals(places)
    ensure_topics(places)
    now = time.time_ns() // 1000
    client = journal_client(places[1].connections.journal)
    client.sequenced(places[1].address, "demo").append(
        [
            Record(value=json.dumps({"mission": f"mission {n}"}).encode(), time=now)
            for n in range(missions)
        ]
    )


def leader(connection: Connection) -> str:
    """The name of the relay that holds the lease; waits for one."""

    def holder() -> str | None:
        row = connection.execute(
            "SELECT leader FROM outbox_epoch JOIN outbox_lease USING (shard)"
            " WHERE starts_with(holder, leader || ' ') AND expires_at > clock_timestamp()"
        ).fetchone()
        connection.commit()
        return None if row is None else str(row[0])

    return wait_for(holder, "no relay took the lead")

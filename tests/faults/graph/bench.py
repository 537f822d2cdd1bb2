"""What the fault tests of graphs stand on.

A journal broker, a driver that can be struck and killed, and a reader that knows nothing of Spark
and compares every queue with what it must hold.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import pytest

from tests.faults.graph.driver import connections_from
from tests.faults.graph.shapes import EFFECTS, SHAPES, Shape, effects_in, key_of, said, value_of
from tests.fixtures.relaying import wait_for
from tests.fixtures.services import start_service
from windrow.embedded.broker import Broker
from windrow.embedded.groups import kill_family, pause_family, resume_family
from windrow.graph.backing import Record, Retried, decode
from windrow.graph.declaration import Graph
from windrow.graph.messages import encode_value
from windrow.graph.snapshot import ProcessorUid
from windrow.graph.staging import staging_queue
from windrow.journal.client.requests import Delete
from windrow.journal.client.sync import SyncJournalClient, connect
from windrow.journal.errors import InsufficientBrokers
from windrow.journal.fragment import Fragment
from windrow.journal.message.record import Record as JournalRecord
from windrow.journal.message.record import decode_records
from windrow.points import VARIABLE, Points, Strike, Struck
from windrow.spark.places import Connections, JournalSettings, Place, place_of
from windrow.spark.queues.create import ensure_journals, ensure_topics
from windrow.testing import FaultPart, Moment
from windrow.verify import Ledger, Tally

ROOT = Path(__file__).parents[3]
PATIENCE = 180.0
"""Seconds to wait for a session of Spark and its first batch, on a machine that has more to do."""
SENT_AT_ONCE = 10_000
FLAGS = {"persist-tick": "200ms"}
TRIMMED = JournalSettings(
    stores=("file:///",), fragment_length=1024, codec="none", refresh_interval=1.0
)
"""Of journals that are stored in small pieces, so that some can be taken away."""
ROLES = {
    "tests.faults.graph.driver": "driver",
    "python_streaming_source_runner": "source",
    "python_streaming_sink_runner": "commit",
    "write_into_data_source": "planner",
    "pyspark.worker": "task",
}


def role_of(struck: Struck) -> str:
    """Which part of a query a process plays, by the program that it runs."""
    named = (role for program, role in ROLES.items() if program in struck.program)
    return next(named, struck.program)


@dataclass(frozen=True)
class Answer:
    """How a run ended: with nothing left to be read, or with an error."""

    error: str = ""
    reason: str = ""
    kind: str = ""

    @property
    def is_clean(self) -> bool:
        return not self.error


class Driver:
    """The driver's process: takes orders, and can be killed."""

    def __init__(self, directory: Path, points: Path, told: Mapping[str, Any]) -> None:
        self.log = directory / f"driver-{secrets.token_hex(3)}.log"
        env = {VARIABLE: str(points), "PYTHONPATH": str(ROOT), "GRPC_VERBOSITY": "NONE"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.graph.driver", json.dumps(told)],
                cwd=directory,
                env={**os.environ, **env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.jvm = 0
        self._tickets = 0
        self._answers: dict[int, Answer] = {}
        self._heard = Condition()
        self._has_ended = False
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Return when it has a session."""
        self._hear(lambda: self.jvm > 0)

    def ask(self, order: Mapping[str, Any]) -> int:
        """Begin to do something; ``answer`` tells how it ended."""
        self.wait_until_ready()
        self._tickets += 1
        self._say({"ticket": self._tickets, **order})
        return self._tickets

    def ask_to_stop(self, ticket: int) -> None:
        """Have a graph that runs on end in good order."""
        self._say({"stop": ticket})

    def answer(self, ticket: int) -> Answer:
        """How it ended; waits for it."""
        self._hear(lambda: ticket in self._answers)
        return self._answers[ticket]

    def is_over(self, ticket: int) -> bool:
        """Whether it is known how something ended."""
        return ticket in self._answers

    def check_runs(self, ticket: int) -> None:
        """See that something that was asked for is not over yet."""
        early = self._answers.get(ticket)
        assert early is None, f"it ended too early: {early}\n{self.tail()}"

    def tail(self) -> str:
        """The last that it, and all that it started, had to say."""
        return self.log.read_text(errors="replace")[-6000:]

    def _say(self, said: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                told = json.loads(line[1:])
                ticket = told.pop("ticket", None)
                with self._heard:
                    if ticket is None:
                        self.jvm = told["jvm"]
                    else:
                        self._answers[ticket] = Answer(**told)
                    self._heard.notify_all()
        with self._heard:
            self._has_ended = True
            self._heard.notify_all()

    def _hear(self, condition: Callable[[], bool]) -> None:
        with self._heard:
            known = self._heard.wait_for(lambda: condition() or self._has_ended, 2 * PATIENCE)
        assert known, f"the driver gave no answer:\n{self.tail()}"
        assert condition(), f"the driver has ended:\n{self.tail()}"

    def kill(self) -> None:
        """SIGKILL the driver; all that it started ends with it."""
        with self._process as process:
            process.kill()

    def kill_jvm(self) -> None:
        """SIGKILL the JVM and all it started, but not the driver."""
        kill_family(self.jvm)

    def pause(self) -> None:
        """SIGSTOP the driver and all that it started."""
        for pid in (self.pid, self.jvm):
            pause_family(pid)

    def resume(self) -> None:
        """Let all of it go on."""
        for pid in (self.jvm, self.pid):
            resume_family(pid)

    def stop(self) -> None:
        """End it in good order; does nothing if it has ended."""
        with self._process as process:
            if process.poll() is None:
                assert process.stdin is not None
                process.stdin.close()
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise


@dataclass
class GraphBench:
    """A broker, and whoever runs graphs on it."""

    broker: Broker
    client: SyncJournalClient
    directory: Path
    points: Points
    master: str = "local[2,2]"
    conf: Mapping[str, str] = field(default_factory=dict)
    kafka: str = ""
    _driver: Driver | None = None

    @property
    def connections(self) -> Connections:
        return connections_from(self._told())

    @property
    def driver(self) -> Driver:
        """The driver; another one if the last was killed."""
        if self._driver is None:
            self._driver = self.another_driver()
        self._driver.wait_until_ready()
        return self._driver

    def another_driver(self) -> Driver:
        """A driver beside the one there is; it begins while this returns."""
        return Driver(self.directory, self.points.directory, self._told())

    def kill_driver(self) -> None:
        """SIGKILL; the next one begins at once, since that takes a while."""
        self.driver.kill()
        self._driver = self.another_driver()

    def stop(self) -> None:
        """End the driver."""
        if self._driver is not None:
            self._driver.stop()
            self._driver = None

    def scene(self, shape: str, *, is_trimmed: bool = False, **options: Any) -> Scene:
        """A graph of its own, with empty queues; only those made for it can be trimmed."""
        for left in self.points.directory.glob("*.wanted"):
            left.unlink()  # by a test that did not come to its end
        name = f"{shape}-{secrets.token_hex(4)}"
        directory = self.directory / name
        directory.mkdir()
        scene = Scene(self, shape, name, directory, dict(options), is_trimmed=is_trimmed)
        scene.make_queues()
        return scene

    def read(self, journal: str) -> list[JournalRecord]:
        """Everything in a journal, by the plainest means."""
        fragments = self.client.fragments(journal)
        begin = min((each.fragment.begin for each in fragments), default=0)
        return decode_records(self.client.read(journal, begin), begin)

    def append(self, journal: str, records: Iterable[JournalRecord]) -> None:
        """As any writer of records would."""
        writer, rest = self.client.sequenced(journal, "sender"), iter(records)
        while some := list(islice(rest, SENT_AT_ONCE)):
            writer.append(some)

    def produce(self, topic: str, records: Iterable[JournalRecord], first: int) -> None:
        """As the relay would: numbered without a gap."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for number, record in enumerate(records, first):
            headers: dict[str, str | bytes | None] = {"windrow-seq": str(number)}
            producer.produce(topic, record.value, record.key, 0, headers=headers)
        assert producer.flush(30) == 0

    def consume(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Everything that is committed in a topic, partition by partition."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"group.id": secrets.token_hex(4), "isolation.level": "read_committed"}
        consumer = Consumer({"bootstrap.servers": self.kafka, **settings})
        found = []
        try:
            for number in consumer.list_topics(topic, 10).topics[topic].partitions:
                partition = TopicPartition(topic, number, 0)
                _, end = consumer.get_watermark_offsets(partition, 10)
                consumer.assign([partition])
                # The end of a transaction takes an offset, and is no message.
                while consumer.position([partition])[0].offset < end:
                    message = consumer.poll(0.1)
                    if message is not None:
                        assert message.error() is None
                        found.append((message.key(), message.value()))
                    elif end == 0:
                        break
        finally:
            consumer.close()
        return found

    def _told(self) -> dict[str, Any]:
        return {
            "journal": self.broker.address,
            "kafka": self.kafka,
            "master": self.master,
            "conf": dict(self.conf),
        }


@dataclass
class Scene:
    """One graph on the bench, what it was given and what became of it."""

    bench: GraphBench
    shape_name: str
    name: str
    directory: Path
    options: dict[str, Any]
    given: dict[str, int] = field(default_factory=dict)
    checkpoint: str = "checkpoint"
    is_trimmed: bool = False

    def __post_init__(self) -> None:
        self.switches.mkdir()
        system = {name: str(self.directory / name) for name in ("effects", "switches", "naive")}
        self.options["system"] = system | self.options.get("system", {})
        self.given = dict.fromkeys(self.sources, 0)

    @property
    def shape(self) -> Shape:
        return SHAPES[self.shape_name]

    @property
    def sources(self) -> Sequence[str]:
        sources: Sequence[str] = self.options.get("sources", self.shape.sources)
        return sources

    @property
    def graph(self) -> Graph:
        return self.shape.graph(self.name, self.options)

    @property
    def effects(self) -> Path:
        return self.directory / "effects"

    @property
    def naive(self) -> Path:
        return self.directory / "naive"

    @property
    def switches(self) -> Path:
        return self.directory / "switches"

    def checkpoints(self) -> Path:
        return self.directory / self.checkpoint

    def place(self, queue: str) -> Place:
        return place_of(self.graph, queue, self.bench.connections)

    def journals(self, queue: str) -> tuple[str, ...]:
        return self.place(queue).journals

    def make_queues(self) -> None:
        """Make its journals and topics, those of them that are not there."""
        graph, connections = self.graph, self.bench.connections
        uids = (ProcessorUid.parse(graph.uid_of(each)) for each in graph.working)
        if self.is_trimmed:
            connections = replace(connections, journals=TRIMMED)
        names = [*graph.queue_names(), *map(staging_queue, uids)]
        places = [place_of(graph, name, connections) for name in names]
        ensure_journals(places)
        ensure_topics(places)

    # -- what is given ---------------------------------------------------------------------------

    def send(self, count: int, *sources: str) -> None:
        """Fill the sources, all of them by default, with further messages."""
        for source in sources or self.sources:
            begin = self.given.setdefault(source, 0)
            records = (_record(source, n) for n in range(begin, begin + count))
            place = self.place(source)
            if place.backend == "kafka":
                self.bench.produce(place.address, records, begin)
            else:
                self.bench.append(place.address, records)
            self.given[source] += count

    def repeat(self, count: int) -> None:
        """Fill the source with messages that it was given before."""
        again = (_record(self.sources[0], n) for n in range(count))
        self.bench.append(self.place(self.sources[0]).address, again)

    def read_others(self, inputs: Sequence[str]) -> None:
        """Have its processor choose among other inputs, in another order."""
        self.options["sources"] = sorted(inputs)
        self.options["settings"] = {"alts": list(inputs)}
        self.make_queues()

    # -- what is done ----------------------------------------------------------------------------

    def order(self, **changes: Any) -> dict[str, Any]:
        return {
            "shape": self.shape_name,
            "name": self.name,
            "options": self.options,
            "checkpoint": str(self.checkpoints()),
            **changes,
        }

    def drain(self, **changes: Any) -> Answer:
        """Run every query until nothing is left to be read, or one fails."""
        driver = self.bench.driver
        return driver.answer(driver.ask(self.order(**changes)))

    def finish(self, **changes: Any) -> None:
        """The same, and nothing may fail."""
        answer = self.drain(**changes)
        assert answer.is_clean, f"{answer}\n{self.bench.driver.tail()}"

    def strike(self, part: FaultPart, point: str, strike: Strike, **changes: Any) -> Answer:
        """Run it, have whoever comes by that point struck, and see how it ends."""
        points, driver = self.bench.points, self.bench.driver
        points.want(point, strike)
        ticket = driver.ask(self.order(**changes))
        self.count(part, strike.act, point, ticket)
        answer = driver.answer(ticket)
        points.release(point)
        return answer

    def count(self, part: FaultPart, act: str, point: str, ticket: int) -> None:
        """Account for a fault that a process brings upon itself at a point, once it is there."""
        points = self.bench.points
        part.inject(
            act,
            self.bench.driver.pid,
            lambda: points.wait_for(point, PATIENCE),
            work=partial(self.passed, point, ticket),
            at=Moment(point=point),
            reach=partial(self.wait_for, point, ticket),
            patience=PATIENCE,
        )

    def passed(self, point: str, ticket: int) -> int:
        """How many came by a point, as long as what was asked for is not over without any."""
        passed = self.bench.points.passed(point)
        if not passed:
            self.bench.driver.check_runs(ticket)
        return passed

    def wait_for(self, point: str, ticket: int) -> None:
        """Return when somebody was struck at a point, unless all is over without that."""

        def is_struck() -> bool:
            is_over = self.bench.driver.is_over(ticket)
            if self.bench.points.struck(point):
                return True
            if is_over:
                self.bench.driver.check_runs(ticket)
            return False

        wait_for(is_struck, f"{point} is reached", PATIENCE)

    def count_run(self, part: FaultPart, kind: str, error: str = "", **changes: Any) -> None:
        """Run it to its failure, with a fault in the function itself, and account for that."""
        driver = self.bench.driver
        ticket = driver.ask(self.order(**changes))

        def act() -> None:
            answer = driver.answer(ticket)
            assert not answer.is_clean
            assert error in ("", answer.error), answer

        part.inject(kind, driver.pid, act, work=self.progress, patience=PATIENCE)

    def progress(self) -> int:
        """How much its queries have written down so far."""
        written = 0
        for each in self.bench.client.list(f"prefix=_backing/{self.name}/").journals:
            with suppress(InsufficientBrokers):  # it has only just been made
                written += self.bench.client.write_head(each.spec.name)
        return written

    # -- what became of it -----------------------------------------------------------------------

    def records(self, leg: str = "") -> list[Record]:
        """What the backing journals of its queries hold, of one of them or of all."""
        listed = self.bench.client.list(f"prefix=_backing/{self.name}/").journals
        names = [each.spec.name for each in listed]
        return [
            decode(record.value or b"")
            for name in names
            if name.endswith(leg)
            for record in self.bench.read(name)
        ]

    def retries(self) -> int:
        """How often a snapshot was attempted again."""
        return sum(isinstance(record, Retried) for record in self.records())

    def effects_done(self) -> list[tuple[str, str, str]]:
        """Every effect: the key, what was done, and under which hash."""
        return list(effects_in(self.effects))

    def found(self, queue: str) -> list[tuple[str, str]]:
        """What a queue holds: keys and what their messages say."""
        if queue == EFFECTS:
            return [(key, what) for key, what, _ in self.effects_done()]
        place = self.place(queue)
        if place.backend == "kafka":
            pairs = self.bench.consume(place.address)
        else:
            read = chain.from_iterable(map(self.bench.read, place.journals))
            pairs = [(record.key, record.value) for record in read]
        return [
            said(key.decode() if key else None, json.loads(value or b"null"))
            for key, value in pairs
        ]

    def settle(
        self,
        part: FaultPart,
        *,
        maybe: Iterable[tuple[str, str]] = (),
        may_repeat: Iterable[tuple[str, str]] = (),
        also: Iterable[tuple[str, str, str]] = (),
        is_partial: bool = False,
    ) -> Tally:
        """Compare every queue with what it must hold.

        Args:
            part: Where it is counted.
            maybe: What may be missing: pairs of a queue and what a message says.
            may_repeat: What may be there once more, named likewise, as often as it is named.
            also: What must be there beside: a queue, a key and what the message says.
            is_partial: Anything may be missing, since it was refused to go on.
        """
        path = self.directory / f"ledger-{secrets.token_hex(3)}"
        wanted = [
            (queue, self._place_of(key, what), what)
            for queue, messages in self.shape.expect(self.given).items()
            for key, what in messages
        ]
        wanted += also
        optional = set(maybe)
        with Ledger(path) as ledger:
            for is_optional, some in groupby(
                wanted, lambda one: is_partial or (one[0], one[2]) in optional
            ):
                note = ledger.maybe if is_optional else ledger.written
                note((f"{queue}/{key}", what) for queue, key, what in some)
        arrived = [
            (f"{queue}/{self._place_of(key, what)}", what)
            for queue in self.shape.outputs
            for key, what in self.found(queue)
        ]
        keys = {(queue, what): key for queue, key, what in wanted}
        allowed = [(f"{queue}/{keys[queue, what]}", what) for queue, what in may_repeat]
        return part.settle(path, arrived, allowed)

    def _place_of(self, key: str, what: str) -> str:
        """By what the order of a message is known: its key; without an order, it is alone."""
        return key if self.shape.is_ordered else what

    # -- what is done to its files and journals ----------------------------------------------------

    def lose_checkpoint(self) -> None:
        """Remove all that Spark remembers."""
        shutil.rmtree(self.checkpoints())

    def copy_checkpoint(self) -> Path:
        """Keep what Spark remembers now."""
        return Path(shutil.copytree(self.checkpoints(), self.directory / "older"))

    def lose_journal(self, journal: str) -> None:
        """Delete a journal with all that it holds."""
        (found,) = self.bench.client.list(f"name={journal}").journals
        self.bench.client.apply([Delete(journal, found.mod_revision)])

    def tear(self, log: str) -> None:
        """Cut the last file of one of Spark's logs in half."""
        files = [each for each in self.checkpoints().rglob(f"{log}/*") if each.name.isdigit()]
        last = max(files, key=lambda each: int(each.name))
        last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
        # Its checksum, too, would have been half of it.
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def trim(self, journal: str) -> None:
        """Remove all stored fragments of a journal but the last."""

        def stored() -> list[Fragment]:
            listed = (each.fragment for each in self.bench.client.fragments(journal))
            persisted = (each for each in listed if each.is_persisted)
            return sorted(persisted, key=lambda fragment: fragment.begin)

        wait_for(lambda: len(stored()) > 1, f"{journal} has fragments to trim")
        for fragment in stored()[:-1]:
            (self.bench.broker.directory / "fragments" / fragment.content_path()).unlink()
        first = stored()[-1].begin
        wait_for(lambda: stored()[0].begin >= first, f"the broker knows that {journal} is trimmed")


def _record(source: str, number: int) -> JournalRecord:
    return JournalRecord(
        key=key_of(source, number).encode(), value=encode_value(value_of(source, number), "json")
    )


@contextmanager
def graph_bench(config: pytest.Config, directory: Path, **settings: Any) -> Iterator[GraphBench]:
    """A bench with an empty broker; its driver begins at once."""
    points = directory / "points"
    points.mkdir()
    with (
        start_service(config, "broker", partial(Broker.start, flags=FLAGS)) as broker,
        connect(broker.address) as client,
    ):
        bench = GraphBench(broker, client, directory, Points(points), **settings)
        try:
            yield bench
        finally:
            bench.stop()

"""What the fault tests of journals stand on: three brokers on an etcd, links between all of them,
a load that keeps the ledger, and a checker that reads everything back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.faults import journal_waits
from tests.faults.journal_load import LoadPlan
from tests.faults.linked_broker import LINKS_VARIABLE, PLANT_VARIABLE
from tests.faults.spool_compare import (
    Snapshot,
    Span,
    compare,
    copy_spools,
    merged,
    stored_fragments,
)
from tests.fixtures.etcd_gateway import call, decode, encode, prefix_range
from tests.fixtures.relaying import wait_for
from tests.fixtures.services import start_service
from windrow.embedded.broker import Broker
from windrow.embedded.directory import create_directory
from windrow.embedded.errors import NotRunning
from windrow.embedded.etcd import Etcd
from windrow.embedded.link import Link
from windrow.embedded.ports import LOOPBACK
from windrow.embedded.process import Child
from windrow.journal.broker.head import Head
from windrow.journal.keys import Keys
from windrow.points import VARIABLE, Points
from windrow.testing import FaultPart, Moment
from windrow.verify.journal_contents import Found, find_contents
from windrow.verify.journal_ledger import Append, JournalVerdict, check_journal, read_lines
from windrow.verify.tally import Arrival

ROOT = Path(__file__).parents[2]
PREFIX = "/gazette/cluster"
KEYS = Keys(PREFIX)
LEASE = 2.0
ZONES = ("a", "b", "c")
JOURNALS = ("bench/one", "bench/two", "bench/three")

SENDING_POINTS = (
    "journal.content-unsent",
    "journal.proposed",
    "journal.acks-unread",
    "journal.acknowledged",
)
"""Of a primary, in the order in which an append passes them."""
REPLICA_POINTS = ("journal.replica-adopted", "journal.replica-flushed")
SYNC_POINTS = ("journal.promised", "journal.decided")
"""Of a primary whose route has changed."""


def rounds(config: pytest.Config, few: int, many: int) -> int:
    """How many faults: a few in every run of the tests, many to soak."""
    return many if config.getoption("soak") else few


def at_once(act: Callable[[BenchBroker], None], brokers: Iterable[BenchBroker]) -> None:
    """Do the same to all of them, without one waiting for the other."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(act, brokers))


class BenchBroker(Broker):
    """A broker that reaches its peers over links, and can be made to wait at points."""

    def __init__(self, zone: str, etcd_url: str, file_root: Path) -> None:
        flags = {
            "etcd-address": etcd_url,
            "etcd-prefix": PREFIX,
            "etcd-lease": f"{LEASE}s",
            "zone": zone,
            "id": f"broker-{zone}",
            "file-root": str(file_root),
            "drain-timeout": "10s",
            "pulse-interval": "1s",
            "peer-timeout": "1500ms",
            "persist-tick": "500ms",
        }
        super().__init__(create_directory("broker"), zone, flags)
        self.zone, self.member = zone, f"{zone}#broker-{zone}"
        points = self.directory / "points"
        points.mkdir()
        self.points = Points(points)
        self.links: dict[str, Link] = {}
        """By zone: the way to a peer."""

    def come_up(self, urls: dict[str, str], plant: str) -> None:
        ways = {urls[zone]: f"http://{link.address}" for zone, link in self.links.items()}
        self._env = {
            VARIABLE: str(self.points.directory),
            LINKS_VARIABLE: json.dumps(ways),
            PLANT_VARIABLE: plant,
            "PYTHONPATH": str(ROOT),
        }
        self._begin()

    def _launch(self) -> Child:
        # A point that was wanted of the process before is not wanted of this one.
        for left in self.points.directory.iterdir():
            left.unlink()
        argv = [sys.executable, "-m", "tests.faults.linked_broker", "journal", "serve"]
        argv += [f"--data-dir={self.data}", f"--host={LOOPBACK}", f"--port={self.port}"]
        argv += [f"--{name}={value}" for name, value in self.flags.items()]
        return Child.start(self.name, argv, cwd=self.directory, log=self.log, env=self._env)

    def waits(self) -> str:
        """Where it waits, and who holds what; to be told when a journal is stuck."""
        if not self.is_alive():
            return "it is not alive"
        written = journal_waits.ask(self.pid, self.directory)
        with suppress(AssertionError):  # a paused one says nothing
            wait_for(written.exists, "a broker tells where it waits", 5.0)
        return written.read_text() if written.exists() else "it does not say"


@dataclass
class JournalBench:
    """A cluster, its load, and everything that can be done to them."""

    etcd: Etcd
    directory: Path
    file_root: Path
    brokers: dict[str, BenchBroker] = field(default_factory=dict)
    etcd_links: dict[str, Link] = field(default_factory=dict)
    client_links: dict[str, Link] = field(default_factory=dict)
    plan: LoadPlan | None = None
    fail_overs: list[float] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    journals: Sequence[str] = JOURNALS
    _load: subprocess.Popen[bytes] | None = None
    _supervised: Sequence[BenchBroker] = ()
    """A broker that was cut off, or too slow, for longer than its lease ends: these are started
    again."""

    # -- the cluster -----------------------------------------------------------------------------

    def start_brokers(
        self, plant: str = "", flags: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        for zone in ZONES:
            link = self.etcd_links[zone] = Link.start((LOOPBACK, self.etcd.port))
            url = f"http://{link.address}"
            self.brokers[zone] = broker = BenchBroker(zone, url, self.file_root)
            broker.flags.update(flags)
            self.client_links[zone] = Link.start((LOOPBACK, broker.port))
        urls = {zone: broker.url for zone, broker in self.brokers.items()}
        for zone, broker in self.brokers.items():
            broker.links = {
                other: Link.start((LOOPBACK, peer.port))
                for other, peer in self.brokers.items()
                if other != zone
            }
        at_once(lambda broker: broker.come_up(urls, plant), self.brokers.values())

    def start_load(self, **plan: Any) -> None:
        """Begin to write and read; returns when every journal takes appends."""
        self.plan = LoadPlan(
            journals=list(self.journals),
            endpoints=[broker.url for broker in self.brokers.values()],
            links=[link.address for link in self.client_links.values()],
            **plan,
        )
        self.plan.save(self.directory / "plan")
        with (self.directory / "load.log").open("wb") as log:
            argv = [sys.executable, "-m", "tests.faults.journal_load", str(self.directory / "plan")]
            # Connections that end are what this is about: no need to tell of each.
            env = {**os.environ, "GRPC_VERBOSITY": "NONE"}
            self._load = subprocess.Popen(argv, cwd=ROOT, stderr=log, env=env)
        self.wait_for_appends("the journals take appends")

    def broker_of(self, member: str) -> BenchBroker:
        return self.brokers[member.partition("#")[0]]

    def route(self, journal: str) -> list[str]:
        """The members of a journal, its primary first."""
        found = self._range(KEYS.assignments_of(journal))
        keys = (KEYS.parse_assignment(decode(kv["key"])) for kv in found)
        return [str(key.member) for key in sorted(keys, key=lambda key: key.slot)]

    def wait_for_balance(self) -> None:
        """Until journals are spread over all brokers again, and move no more for now.

        Whoever is chosen before that may have nothing to do with its journal when it is struck.
        """

        def is_even() -> bool:
            self.restart()  # one that was too slow to keep its lease ends at any time
            members = [member for journal in self.journals for member in self.route(journal)]
            return sorted(members) == sorted(2 * [b.member for b in self.brokers.values()])

        wait_for(is_even, "each broker has two of the journals")
        self.wait_for_appends("they are served where they are now")

    def primary(self, journal: str | None = None) -> BenchBroker:
        """The primary of a journal, once it has one that lives; of the first by default."""
        return self._member(journal or self.journals[0], 0)

    def replica(self, journal: str | None = None) -> BenchBroker:
        return self._member(journal or self.journals[0], 1)

    def leader(self) -> BenchBroker:
        """The broker that assigns journals to all."""
        members = self._range(KEYS.members)
        first = min(members, key=lambda kv: int(kv["create_revision"]))
        return self.broker_of(str(KEYS.parse_member(decode(first["key"]))))

    def _member(self, journal: str, slot: int) -> BenchBroker:
        found: list[BenchBroker] = []

        def look() -> bool:
            route = self.route(journal)
            if len(route) > slot and self.broker_of(route[slot]).is_alive():
                found[:] = [self.broker_of(route[slot])]
            return bool(found)

        wait_for(look, f"{journal} has a member {slot} that lives")
        return found[0]

    def _range(self, prefix: str) -> list[dict[str, str]]:
        asked = {**prefix_range(prefix), "keys_only": True}
        found: list[dict[str, str]] = call(self.etcd.url, "kv/range", asked).get("kvs", [])
        return found

    def restart(self, *brokers: BenchBroker) -> None:
        """Bring up again whoever of them is down."""
        down = [broker for broker in brokers or self.brokers.values() if not broker.is_alive()]
        at_once(BenchBroker.restart, down)

    # -- how the load fares ------------------------------------------------------------------------

    def progress(self) -> int:
        """How many appends were acknowledged."""
        with suppress(FileNotFoundError, ValueError):
            return int((self.directory / "acked").read_text())
        return 0

    def attempts(self) -> int:
        """A number that moves with every try, be it acknowledged or refused."""
        return (self.directory / "appends").stat().st_size

    def seen_end(self, journal: str) -> int:
        """How far readers have seen a journal."""
        return int((self.directory / f"seen-{self.journals.index(journal)}").read_text() or 0)

    def acked_spans(self) -> dict[str, list[Span]]:
        """What was acknowledged of each journal, in as few spans as there are gaps."""
        spans: dict[str, list[Span]] = {journal: [] for journal in self.journals}
        for kind, journal, _, _, *rest in self.appends():
            if kind == "acked":
                spans[journal].append((rest[1], rest[2]))
        return {journal: merged(acked) for journal, acked in spans.items()}

    def troubles(self, journal: str, writer: str | None = None) -> int:
        """Appends to a journal that came to nothing, or got no answer.

        Not those of the contrary writer, which wants no better.
        """
        return sum(
            isinstance(line[-1], str) and writer in (None, line[2]) and line[2] != "contrary"
            for line in self.appends()
            if line[1] == journal
        )

    def wait_for_trouble(self, journal: str, writer: str | None = None) -> None:
        """Until a fault was felt by an append."""
        before = self.troubles(journal, writer)
        try:
            wait_for(lambda: self.troubles(journal, writer) > before, f"{journal} gets no answer")
        except AssertionError as error:
            route = self.route(journal)
            raise AssertionError(f"{error}\n{route}\n{self._last_words([journal])}") from None

    def appends(self) -> Iterator[list[Any]]:
        """What writers noted, as they wrote it."""
        if (path := self.directory / "appends").exists():
            with path.open() as lines:
                # One that is half written is the last: what would be read next is its other half.
                yield from map(json.loads, takewhile(lambda line: line.endswith("\n"), lines))

    def wait_for_appends(
        self, what: str, journals: Sequence[str] | None = None, timeout: float = 60.0
    ) -> float:
        """Wait until each journal acknowledged an append begun from now on; returns the seconds."""
        began = time.monotonic()
        news = _News(self.directory / "appends", set(journals or self.journals))

        def look() -> bool:
            assert self._load is None or self._load.poll() is None, self._load_log()
            if self._supervised:
                self.restart(*self._supervised)
            return news.look()

        try:
            wait_for(look, what, timeout)
        except AssertionError as error:
            told = self._last_words(sorted(news.waiting))
            raise AssertionError(f"{error}\nwaiting: {news.waiting}\n{told}") from None
        return news.last - began

    def _last_words(self, journals: list[str]) -> str:
        """Why writers got nowhere, and what the brokers said last."""
        told = [line for line in self.appends() if line[1] in journals and line[0] != "acked"]
        words = [str(line) for line in told[-10:]]
        for zone, broker in self.brokers.items():
            tail = broker.log.read_text().splitlines()[-12:] if broker.log.exists() else []
            words += [f"-- broker {zone}, alive: {broker.is_alive()}", *tail]
            words += [f"-- broker {zone} waits", broker.waits()]
        return "\n".join(words)

    def _load_log(self) -> str:
        return (self.directory / "load.log").read_text()

    # -- faults ------------------------------------------------------------------------------------

    def kill(self, part: FaultPart, victim: BenchBroker, moment: Moment | None = None) -> None:
        """Kill it, at that moment."""
        point = moment.point if moment else None
        part.inject(
            "kill",
            victim,
            victim.kill,
            work=self.progress,
            at=moment,
            reach=partial(victim.points.reach, point) if point else None,
        )

    def kill_all(
        self,
        part: FaultPart,
        moment: Moment | None = None,
        work: Callable[[], object] | None = None,
    ) -> None:
        """Kill all brokers at once, and note what is on their disks before they come back."""

        def act() -> None:
            for broker in self.brokers.values():
                broker.kill()

        victim = self.primary()
        point = moment.point if moment else None
        reach = partial(victim.points.reach, point) if point else None
        part.inject("kill", victim, act, work=work or self.progress, at=moment, reach=reach)
        self.take_snapshot(is_quiet=False)

    def recover(
        self,
        what: str = "the journals take appends again",
        journals: Sequence[str] | None = None,
        *,
        without: BenchBroker | None = None,
        timeout: float = 60.0,
    ) -> float:
        """Bring up whoever is down or goes down, and wait until the journals are written to.

        One may be meant to stay as it is; on a slow machine another can end all the same.
        """
        self._supervised = [broker for broker in self.brokers.values() if broker is not without]
        try:
            return self.wait_for_appends(what, journals, timeout=timeout)
        finally:
            self._supervised = ()

    # -- the end -----------------------------------------------------------------------------------

    def take_snapshot(self, *, is_quiet: bool) -> None:
        """Note what is on the disks of brokers that are all down."""
        assert not any(broker.is_alive() for broker in self.brokers.values())
        number = len(self.snapshots)
        heads = {}
        for journal in self.journals:
            asked = {"key": encode(KEYS.head(journal))}
            [kv] = call(self.etcd.url, "kv/range", asked)["kvs"]
            heads[journal] = Head.decode(journal, decode(kv["value"]).encode(), 0)
        self.snapshots.append(
            Snapshot(
                spools={
                    broker.member: copy_spools(
                        broker.data, self.directory / f"spools-{number}-{zone}"
                    )
                    for zone, broker in self.brokers.items()
                },
                heads=heads,
                stored={j: stored_fragments(self.file_root, j) for j in self.journals},
                acked=self.acked_spans(),
                is_quiet=is_quiet,
            )
        )

    def stop_load(self, timeout: float = 240.0) -> None:
        """Let writers end, and have every journal read whole from every broker."""
        assert self._load is not None
        (self.directory / "stop").touch()
        assert self._load.wait(timeout) == 0, self._load_log()
        self._load = None

    def settle(self, part: FaultPart) -> None:
        """Stop, compare everything with everything, and count."""
        self.stop_load()
        for broker in self.brokers.values():
            broker.kill()
        self.take_snapshot(is_quiet=True)
        problems = self.problems()
        part.settle(self.directory / "ledger", self.arrived())
        assert not problems, "\n".join(problems)

    def problems(self) -> list[str]:
        """Everything that is wrong, by all that was read, seen and found on disks."""
        problems: list[str] = json.loads((self.directory / "changes").read_text())
        for number, journal in enumerate(self.journals):
            contents = [self.content(number, broker) for broker in range(len(self.brokers))]
            if len(set(contents)) > 1:
                sizes = ", ".join(str(len(content)) for content in contents)
                problems.append(f"{journal}: brokers gave out different contents ({sizes} bytes)")
            verdict = self.verdict(journal)
            if not verdict.is_clean:
                problems.append(f"{journal}: {verdict}")
            for at, snapshot in enumerate(self.snapshots):
                found = compare(snapshot, journal, contents[0])
                problems += [f"{journal}, snapshot {at}: {problem}" for problem in found]
        return problems

    def verdict(self, journal: str) -> JournalVerdict:
        content = self.content(self.journals.index(journal))
        return check_journal(self.ledger().get(journal, {}), content)

    def ledger(self) -> dict[str, dict[tuple[str, int], Append]]:
        with (self.directory / "appends").open() as lines:
            return read_lines(lines)

    def content(self, journal: int, broker: int = 0) -> bytes:
        return (self.directory / f"read-{journal}-{broker}").read_bytes()

    def arrived(self) -> Iterator[Arrival]:
        """The ids that were read, in the order in which they lie in the journals."""
        for number, journal in enumerate(self.journals):
            for part in find_contents(self.content(number)):
                if isinstance(part, Found):
                    yield f"{journal} {part.writer}", part.number

    def outcomes(self) -> dict[str, int]:
        """How the appends ended."""
        ledger = self.ledger()
        counts: dict[str, int] = {}
        for appends in ledger.values():
            for append in appends.values():
                counts[append.outcome] = counts.get(append.outcome, 0) + 1
        return counts

    def close(self) -> None:
        if self._load is not None:
            self._load.kill()
            self._load.wait(30)
        links = [*self.etcd_links.values(), *self.client_links.values()]
        for broker in self.brokers.values():
            with suppress(NotRunning, AssertionError):
                broker.resume()
                broker.kill()
            broker.stop()
            links += broker.links.values()
        for link in links:
            link.stop()


class _News:
    """Reads what writers note from now on, until each journal has taken an append."""

    def __init__(self, path: Path, journals: set[str]) -> None:
        self.path, self.waiting = path, journals
        self.last = time.monotonic()
        """When the last of the journals acknowledged its first."""
        self._at = path.stat().st_size if path.exists() else 0
        self._begun: set[tuple[str, str, int]] = set()

    def look(self) -> bool:
        if self.path.exists():
            with self.path.open("rb") as lines:
                lines.seek(self._at)
                new = lines.read()
            new = new[: new.rfind(b"\n") + 1]
            self._at += len(new)
            for line in new.splitlines():
                self._on_line(*json.loads(line))
        return not self.waiting

    def _on_line(self, kind: str, journal: str, writer: str, number: int, *rest: Any) -> None:
        if kind == "maybe":
            self._begun.add((journal, writer, number))
        elif (
            kind == "acked" and journal in self.waiting and (journal, writer, number) in self._begun
        ):
            self.waiting.discard(journal)
            self.last = max(self.last, rest[3])


@contextmanager
def journal_bench(
    config: pytest.Config,
    directory: Path,
    plant: str = "",
    flags: Mapping[str, str] = MappingProxyType({}),
    **plan: Any,
) -> Iterator[JournalBench]:
    """A cluster of three under load, its brokers with these flags beside the usual."""
    root = directory / "fragments"
    root.mkdir()
    with start_service(config, "etcd", Etcd.start) as etcd:
        bench = JournalBench(etcd, directory, root)
        try:
            bench.start_brokers(plant, flags)
            # Of hours of load everything has to be read back.
            plan.setdefault("pace", 0.1 if config.getoption("soak") else 0.02)
            bench.start_load(seed=config.option.fault_seed, **plan)
            yield bench
        finally:
            bench.close()

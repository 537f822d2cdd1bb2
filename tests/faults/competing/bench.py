"""What the fault tests of competing relays stand on: a writer, relays to kill, a receiver."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tests.contract.claim_places import Place
from tests.fixtures.relaying import wait_for
from windrow.embedded.ports import free_port, port_answers
from windrow.outbox.claims.identity import message_id
from windrow.points import VARIABLE, Points
from windrow.testing import FaultPart, Moment
from windrow.verify.tally import Arrival

ROOT = Path(__file__).parents[3]
POINTS = ("competing.before-claim", "competing.claimed", "competing.sending", "competing.sent")
SETTINGS = {
    "relay__mode": "competing",
    "relay__http__allow_private": "true",
    "relay__competing__batch": "16",
    "relay__competing__concurrency": "8",
    "relay__competing__idle_interval": "50ms",
    "relay__competing__lock_expiry": "2s",
    "relay__competing__retry_delay": "100ms",
    # A time-out on a busy machine would repeat what no kill excuses.
    "relay__competing__send_timeout": "60s",
    "relay__competing__max_retry_delay": "500ms",
    "relay__competing__circuit__open_for": "200ms",
    "log__format": "json",
}


class Noted(NamedTuple):
    """A line of the receiver's."""

    message_id: str
    key: str
    number: int
    sender: str


@dataclass
class RelayProcess:
    """``windrow relay`` as the world runs it: a process, to be killed."""

    name: str
    process: subprocess.Popen[bytes]
    points: Points
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def token(self) -> UUID | None:
        """What its claims are known by, once it has started."""
        found = re.search(r'"holder": ?"([0-9a-f-]{36})"', self.log.read_text())
        return UUID(found[1]) if found else None

    def wait_for_start(self) -> None:
        self.wait_until(lambda: self.token is not None, "starts")

    def wait_for_word(self, text: str) -> None:
        self.wait_until(lambda: text in self.log.read_text(), f"says {text!r}")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it, and no longer than the relay lives."""

        def look() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return condition()

        wait_for(look, f"{self.name} {what}", 60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def stop(self, timeout: float = 60.0) -> int:
        self.process.terminate()
        return self.process.wait(timeout)

    def leases_lost(self) -> list[int]:
        """The rows of which it says that their leases ended."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if "{" in line]
        return [
            row
            for line in lines
            if line.get("event") == "leases lost"
            for row in _rows(line["records"])
        ]


def _rows(shown: Any) -> list[int]:
    return list(ast.literal_eval(shown) if isinstance(shown, str) else shown)


@dataclass
class CompetingBench:
    """One outbox, a service that writes to it, relays that come and go, and a receiver."""

    place: Place
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    relays: list[RelayProcess] = field(default_factory=list)
    past: list[RelayProcess] = field(default_factory=list)
    held: list[tuple[str, Arrival]] = field(default_factory=list)
    """What relays had claimed when they died, with their names."""
    _others: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _writer: subprocess.Popen[bytes] | None = None

    # -- processes -------------------------------------------------------------------------------

    def start_receiver(self, **environment: str) -> subprocess.Popen[bytes]:
        argv = ["tests.faults.competing.receiver", str(self.port), str(self.directory)]
        process = self._start(argv, environment, self.directory / "receiver.log")
        self._others.append(process)
        wait_for(lambda: port_answers(self.port), "the receiver listens", 60)
        return process

    def start_writer(self, rate: float = 250.0) -> None:
        argv = ["tests.faults.competing.writer", str(self.directory), str(rate)]
        environment = {"WRITER_DSN": self.place.dsn}
        self._writer = self._start(argv, environment, self.directory / "writer.log")
        self._others.append(self._writer)

    def stop_writer(self) -> None:
        assert self._writer is not None
        (self.directory / "stop").touch()
        assert self._writer.wait(60) == 0, (self.directory / "writer.log").read_text()

    def start_relay(self, program: str = "windrow", **more: str) -> RelayProcess:
        name = f"relay-{len(self.relays) + len(self.past)}"
        points, log = self.directory / f"points-{name}", self.directory / f"{name}.log"
        points.mkdir()
        settings = {
            "database__dsn": self.place.dsn,
            "relay__name": name,
            "relay__http__source": name,
            "relay__http__url": f"http://127.0.0.1:{self.port}/receive",
            **SETTINGS,
            **self.settings,
            **more,
        }
        environment = {f"WINDROW__{key.upper()}": value for key, value in settings.items()}
        environment[VARIABLE] = str(points)
        process = self._start([program, "relay"], environment, log)
        relay = RelayProcess(name, process, Points(points), log)
        self.relays.append(relay)
        return relay

    def _start(
        self, argv: list[str], environment: dict[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", *argv],
                env={**os.environ, **environment},
                stdout=file,
                stderr=file,
                cwd=ROOT,
            )

    # -- faults ----------------------------------------------------------------------------------

    def kill(self, part: FaultPart, victim: RelayProcess, moment: Moment) -> None:
        """Kill it at that moment, and remember what it had claimed."""
        point = moment.point
        part.inject(
            "kill",
            victim,
            victim.kill,
            work=self.progress,
            at=moment,
            reach=(lambda: victim.points.reach(point)) if point else None,
        )
        self.remember(victim)

    def remember(self, victim: RelayProcess) -> None:
        self.relays.remove(victim)
        self.past.append(victim)
        self.held += [(victim.name, message) for message in self.held_by(victim)]

    def held_by(self, relay: RelayProcess) -> list[Arrival]:
        assert relay.token is not None, f"{relay.name} never started: nobody knows what it held"
        rows = self.place.sql(f"SELECT kafka_key FROM {{outbox}} WHERE leader_id = '{relay.token}'")
        return [(key, int(key.removeprefix("key-"))) for (key,) in rows]

    # -- what arrived ----------------------------------------------------------------------------

    def progress(self) -> int:
        path = self.directory / "arrivals"
        return path.stat().st_size if path.exists() else 0

    def arrivals(self) -> list[Noted]:
        """What the receiver has noted, in order of arrival."""
        path = self.directory / "arrivals"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Noted(*json.loads(line)) for line in lines]

    def arrived(self) -> list[Arrival]:
        return [(noted.key, noted.number) for noted in self.arrivals()]

    def wait_until_empty(self, timeout: float = 120.0) -> None:
        def look() -> bool:
            for relay in self.relays:
                assert relay.process.poll() is None, relay.log.read_text()
            return self.place.count() == 0

        wait_for(look, "the outbox is empty", timeout)

    def wait_for_arrivals(self, count: int) -> None:
        wait_for(lambda: len(self.arrivals()) >= count, f"{count} messages have arrived", 60)

    # -- the end ---------------------------------------------------------------------------------

    def settle(self, part: FaultPart) -> None:
        """Stop writing, let the relays deliver the rest, and count at the receiver."""
        self.stop_writer()
        self.wait_until_empty()
        self.stop_relays()
        part.settle(self.directory / "ledger", self.arrived(), self.allowed())
        self.check_ids()

    def allowed(self) -> list[Arrival]:
        """What may have come twice.

        That is what the dead had sent and not finished when they died, and what the living say they
        came too late for.
        """
        arrivals = self.arrivals()
        sent = {(noted.sender, (noted.key, noted.number)) for noted in arrivals}
        lost = Counter(row for relay in self.past for row in relay.leases_lost())
        ids = {message_id(self._incarnation(), row): times for row, times in lost.items()}
        messages = {noted.message_id: (noted.key, noted.number) for noted in arrivals}
        late = [messages[name] for name in ids if name in messages for _ in range(ids[name])]
        return [*(message for name, message in self.held if (name, message) in sent), *late]

    def check_ids(self) -> None:
        """Each message came under one id, whenever and from whomever it came."""
        pairs = {(noted.message_id, noted.key) for noted in self.arrivals()}
        assert len(pairs) == len({name for name, _ in pairs}) == len({key for _, key in pairs})

    def _incarnation(self) -> UUID:
        name = self.place.name("_source")
        return UUID(str(self.place.sql(f"SELECT incarnation FROM {name} WHERE shard = 0")[0][0]))

    def stop_relays(self) -> None:
        for relay in self.relays:
            relay.wait_for_start()  # before that, SIGTERM ends it as it ends any process
            relay.process.send_signal(signal.SIGTERM)
        while self.relays:
            relay = self.relays.pop()
            self.past.append(relay)
            assert relay.process.wait(60) == 0, relay.log.read_text()

    def close(self) -> None:
        for process in [*self._others, *(relay.process for relay in self.relays)]:
            process.kill()
            process.wait(30)


@contextmanager
def competing_bench(place: Place, directory: Path, **settings: str) -> Iterator[CompetingBench]:
    bench = CompetingBench(place, directory, settings)
    try:
        yield bench
    finally:
        bench.close()

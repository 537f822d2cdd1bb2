"""Contenders for leadership, in threads or processes of their own, and what each claimed when.

Everybody notes what each pulse said. The monotonic clock is one for all processes of a machine, so
the claims of all can be laid side by side: no two may overlap.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.fixtures.relaying import wait_for
from windrow.embedded.process import kill_process, pause_process, resume_process
from windrow.errors import WindrowError
from windrow.relay.election.leading import Election, HandsOver, Leading

ROOT = Path(__file__).parents[3]


class Note(NamedTuple):
    """What one contender knew at one moment: the epoch it leads under, if any, and until when."""

    at: float
    epoch: int | None
    until: float

    @property
    def is_valid(self) -> bool:
        return self.epoch is not None and self.until > self.at


class Claim(NamedTuple):
    """A time for which a contender held itself to be the leader."""

    begin: float
    end: float
    epoch: int
    who: str


def contend(election: Election, note: Callable[[Note], None], stop: threading.Event) -> None:
    """Pulse until told to stop, then resign; note what is claimed before acting on it."""

    def lost(shard: int = 0) -> None:
        note(Note(time.monotonic(), None, 0.0))

    if isinstance(election, HandsOver):
        election.bind(lost)
    while not stop.is_set():
        try:
            noted(election.pulse(), note)
        except WindrowError as error:
            print(error, flush=True)  # what was granted holds until it runs out
        stop.wait(election.pulse_interval)
    lost()
    election.resign()
    election.close()


def noted(leading: Leading | None, note: Callable[[Note], None]) -> None:
    now = time.monotonic()
    note(Note(now, None, 0.0) if leading is None else Note(now, leading.epoch, leading.valid_until))


class Contender(Protocol):
    name: str

    def notes(self) -> list[Note]:
        """All it noted so far."""


def leads(contender: Contender) -> bool:
    notes = contender.notes()
    return bool(notes) and notes[-1].epoch is not None and notes[-1].until > time.monotonic()


def leader_of(contenders: list[Any], timeout: float = 30.0) -> Any:
    """Wait until one of them leads."""
    wait_for(lambda: any(leads(contender) for contender in contenders), "one leads", timeout)
    return next(contender for contender in contenders if leads(contender))


def claims_of(contender: Contender) -> list[Claim]:
    claims: list[Claim] = []
    current: Claim | None = None
    for at, epoch, until in contender.notes():
        if current is not None and (epoch != current.epoch or at > current.end):
            claims.append(current._replace(end=min(at, current.end)))
            current = None
        if epoch is not None and until > at:
            begin = at if current is None else current.begin
            current = Claim(begin, until, epoch, contender.name)
    return claims if current is None else [*claims, current]


def check_disjoint(contenders: list[Any]) -> list[Claim]:
    """All claims in their order, after making sure that never two led at once."""
    claims = sorted(claim for contender in contenders for claim in claims_of(contender))
    for earlier, later in itertools.pairwise(claims):
        assert earlier.end <= later.begin, f"two led at once: {earlier} and {later}"
        assert earlier.who == later.who or earlier.epoch < later.epoch
    return claims


@dataclass(eq=False)
class ThreadContender:
    """A contender in a thread of this process."""

    name: str
    election: Election
    noted: list[Note] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        arguments = (self.election, self.noted.append, self.stopped)
        self.thread = threading.Thread(target=contend, args=arguments, name=self.name, daemon=True)
        self.thread.start()

    def notes(self) -> list[Note]:
        return list(self.noted)

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join(20.0)
        assert not self.thread.is_alive()


@dataclass(eq=False)
class ProcessContender:
    """A contender in a process of its own, which can be paused and killed."""

    name: str
    file: Path
    process: subprocess.Popen[bytes]

    def notes(self) -> list[Note]:
        if not self.file.exists():
            return []
        whole = self.file.read_text().rpartition("\n")[0]  # the last line may be half written
        return [Note(*json.loads(line)) for line in whole.splitlines()]

    def pause(self) -> None:
        pause_process(self.process.pid)

    def wake(self, seconds: float) -> list[Note]:
        """Let it go on; returns what it noted in the first seconds after that."""
        woken_at = time.monotonic()
        resume_process(self.process.pid)
        wait_for(lambda: self.notes()[-1].at > woken_at + seconds, "it pulses again")
        return [note for note in self.notes() if note.at >= woken_at]

    def kill(self) -> None:
        kill_process(self.process.pid)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0


@contextmanager
def started_process(name: str, directory: Path, kind: str, **more: Any) -> Iterator[Any]:
    """A contender of that kind; whatever the test does to it, it is gone in the end."""
    file = directory / f"{name}.notes"
    arguments = json.dumps({"name": name, **more})
    command = [sys.executable, "-m", "tests.integration.relay.contending", kind, str(file)]
    with subprocess.Popen([*command, arguments], cwd=ROOT) as process:
        try:
            yield ProcessContender(name, file, process)
        finally:
            process.kill()


# -- the process's own side ----------------------------------------------------------------------


def build_lease(name: str, dsn: str, lease_ttl: float) -> Election:
    from windrow.outbox.table import Table
    from windrow.relay.election.postgres_lease import PostgresLease, lease_session

    return PostgresLease(lease_session(dsn), Table(), name, lease_ttl=lease_ttl)


def build_neli(
    name: str, dsn: str, bootstrap: str, group: str, heartbeat_timeout: float
) -> Election:
    from windrow.outbox.stores.postgres import PostgresStore
    from windrow.outbox.table import Table
    from windrow.relay.election.neli import NeliElection
    from windrow.relay.election.neli_machine import NeliTiming
    from windrow.relay.election.neli_settings import NeliSettings

    store = PostgresStore(dsn, Table())
    store.open()
    timing = NeliTiming(heartbeat_timeout=heartbeat_timeout)
    settings = NeliSettings(group, name, timing=timing)
    return NeliElection(
        {"bootstrap.servers": bootstrap, "log_level": 0},
        settings,
        lambda shard: store.raise_epoch(name, shard),
    )


BUILDERS: dict[str, Callable[..., Election]] = {"lease": build_lease, "neli": build_neli}


def main(kind: str, file: str, arguments: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    with Path(file).open("a", buffering=1) as notes:
        contend(
            BUILDERS[kind](**json.loads(arguments)),
            lambda note: print(json.dumps(note), file=notes),
            stop,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

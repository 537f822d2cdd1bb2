"""etcd and three brokers: what every measure of the journals stands on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from windrow.bench.errors import NotDelivered
from windrow.bench.processor_time import cpu_seconds
from windrow.embedded.broker import Broker
from windrow.embedded.etcd import Etcd
from windrow.journal.codec import Codec
from windrow.journal.errors import JournalStatusError
from windrow.journal.spec import FragmentSpec, JournalSpec

if TYPE_CHECKING:
    from windrow.journal.client.client import JournalClient

T = TypeVar("T")

ZONES = ("a", "b", "c")
LEASE = "2s"
SETTLING = 5.0
PATIENCE = 120.0
FRAGMENT_LENGTH = 1 << 30  # nothing rolls while it is measured


@dataclass
class Stage:
    """The brokers of a cluster, and the journals made on it so far."""

    brokers: list[Broker]
    _made: int = field(default=0)

    @property
    def addresses(self) -> list[str]:
        """Where they answer."""
        return [broker.address for broker in self.brokers]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work of clients."""
        return asyncio.run(work)

    def client(self) -> JournalClient:
        """A client of all brokers."""
        from windrow.journal.client.client import JournalClient

        return JournalClient(self.addresses)

    async def new_journals(self, client: JournalClient, count: int, replication: int) -> list[str]:
        """Journals that take appends when this returns."""
        from windrow.journal.client.requests import Upsert

        first = self._made
        self._made += count
        names = [f"bench/journal-{first + n:06}" for n in range(count)]
        fragment = FragmentSpec(
            length=FRAGMENT_LENGTH, codec=Codec.NONE, stores=(), refresh_interval=300.0
        )
        specs = [JournalSpec(name, replication, fragment=fragment) for name in names]
        await client.apply([Upsert(spec) for spec in specs], batch=50)
        deadline = time.monotonic() + 60.0
        for name in (names[0], names[-1]):
            await self._await_appends(client, name, deadline)
        return names

    async def _await_appends(self, client: JournalClient, name: str, deadline: float) -> None:
        while True:
            try:
                await client.append(name)
                return
            except JournalStatusError as error:
                if time.monotonic() > deadline:
                    raise NotDelivered(f"{name} takes no appends: {error}", 60.0) from error
            await asyncio.sleep(0.05)

    def heal(self) -> None:
        """Bring up whoever is down, until all have outlived their leases.

        Raises:
            NotDelivered: Somebody ends again and again.
        """
        deadline = time.monotonic() + PATIENCE
        settled = 0.0
        while time.monotonic() < settled or not settled:
            if time.monotonic() > deadline:
                raise NotDelivered("all brokers stay up", PATIENCE)
            for broker in self.brokers:
                if not broker.is_alive():
                    broker.restart()
                    settled = 0.0
            settled = settled or time.monotonic() + SETTLING
            time.sleep(0.05)  # the end of a process sets no event here

    def cpu_seconds(self) -> float:
        """Of all brokers so far."""
        return sum(cpu_seconds(broker.pid) for broker in self.brokers)


@contextmanager
def stage() -> Iterator[Stage]:
    """Three brokers in three zones, with durable spools."""
    with ExitStack() as stack:
        etcd = stack.enter_context(Etcd.start())
        brokers = [
            stack.enter_context(
                Broker.start(
                    etcd_url=etcd.url, zone=zone, id=f"broker-{zone}", flags={"etcd-lease": LEASE}
                )
            )
            for zone in ZONES
        ]
        yield Stage(brokers)

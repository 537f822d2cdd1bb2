"""The same client before the scripted server and before a real broker."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.journal_server import JournalServer
from tests.fixtures.services import start_service
from windrow.embedded.broker import Broker
from windrow.journal.client.loop_thread import LoopThread
from windrow.journal.client.requests import Upsert
from windrow.journal.client.sync import SyncJournalClient, connect
from windrow.journal.codec import Codec
from windrow.journal.labels import LabelSet
from windrow.journal.spec import FragmentSpec, JournalSpec


class Served:
    """Journals at an address, whoever serves them."""

    def __init__(self, address: str, file_root: Path | None) -> None:
        self.address = address
        self.file_root = file_root

    def connect(self) -> SyncJournalClient:
        return connect(self.address, file_root=self.file_root)

    def create(self, client: SyncJournalClient, *, codec: Codec = Codec.NONE, **labels: str) -> str:
        """A journal nobody else uses."""
        name = f"test/{secrets.token_hex(6)}"
        stores = ("file:///store/",) if self.file_root else ()
        fragment = FragmentSpec(1 << 20, codec, stores, refresh_interval=1)
        spec = JournalSpec(name, 1, LabelSet.of(labels), fragment)
        client.apply([Upsert(spec)])
        return name


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One broker, alone with its keys."""
    broker = start_service(request.config, "broker", Broker.start)
    (Path(broker.flags["file-root"]) / "store").mkdir(parents=True, exist_ok=True)
    yield broker
    broker.stop()


@pytest.fixture
def scripted() -> Iterator[JournalServer]:
    """The scripted server in a thread of its own, as a broker is elsewhere."""
    thread = LoopThread()

    async def started() -> JournalServer:
        server = JournalServer()
        await server.start()
        return server

    server = thread.run(started())
    yield server
    thread.run(server.stop())
    thread.stop()


@pytest.fixture(params=["scripted", "broker"])
def served(request: pytest.FixtureRequest) -> Served:
    """A server of journals: first the one the other tests rely on, then the real thing."""
    if request.param == "scripted":
        server: JournalServer = request.getfixturevalue("scripted")
        return Served(server.address, None)
    broker: Broker = request.getfixturevalue("broker")
    return Served(broker.address, Path(broker.flags["file-root"]))


@pytest.fixture
def client(served: Served) -> Iterator[SyncJournalClient]:
    with served.connect() as client:
        yield client


@pytest.fixture
def journal(served: Served, client: SyncJournalClient) -> str:
    return served.create(client)

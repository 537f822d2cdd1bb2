"""Brokers behind TLS: the client trusts whom it was told to, and shows what it was given."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from tests.fixtures.certificates import make_certificates
from tests.fixtures.journal_server import JournalServer
from tests.integration.journal.client.serving import JOURNAL
from windrow.errors import Unreachable
from windrow.journal.client.client import JournalClient
from windrow.journal.client.dial import Tls
from windrow.journal.client.requests import AppendRequest


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


class SecureServer(JournalServer):
    """Wants a certificate of its own authority from every client."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def listen(self) -> int:
        def read(name: str) -> bytes:
            return (self.folder / name).read_bytes()

        pair = [(read("member.key"), read("member.pem"))]
        credentials = grpc.ssl_server_credentials(pair, read("ca.pem"), True)
        port: int = self._server.add_secure_port("127.0.0.1:0", credentials)
        return port

    @property
    def scheme(self) -> str:
        return "https"


def tls(folder: Path, name: str) -> Tls:
    pem, key = folder / f"{name}.pem", folder / f"{name}.key"
    return Tls((folder / "ca.pem").read_bytes(), pem.read_bytes(), key.read_bytes())


def test_a_client_with_a_certificate_is_served_also_over_routes(certificates: Path) -> None:
    async def test() -> None:
        async with SecureServer(certificates) as server:
            server.create(JOURNAL)
            async with JournalClient(server.address, tls=tls(certificates, "client")) as client:
                assert (await client.append(JOURNAL, b"x")).end == 1
                # The second goes where the first answer told: to an https endpoint.
                assert (await client.append(JOURNAL, b"y")).end == 2

    asyncio.run(test())


@pytest.mark.parametrize("given", ["stranger", ""])
def test_a_stranger_is_not_served(certificates: Path, given: str) -> None:
    async def test() -> None:
        async with SecureServer(certificates) as server:
            server.create(JOURNAL)
            authority = (certificates / "ca.pem").read_bytes()
            shown = tls(certificates, given) if given else Tls(authority)
            async with JournalClient(server.address, tls=shown) as client:
                with pytest.raises(Unreachable):
                    await client.append_once(AppendRequest(JOURNAL), b"x")
            assert server.calls == []

    asyncio.run(test())


def test_a_broker_of_another_authority_is_not_trusted(certificates: Path) -> None:
    async def test() -> None:
        async with SecureServer(certificates) as server:
            stranger = (certificates / "stranger.pem").read_bytes()
            async with JournalClient(server.address, tls=Tls(stranger)) as client:
                with pytest.raises(Unreachable):
                    await client.append_once(AppendRequest(JOURNAL), b"x")

    asyncio.run(test())

"""An etcd that wants certificates, and clients with and without them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.certificates import make_certificates
from tests.fixtures.services import do_without, start_service
from tests.integration.coordination.running import put, run
from windrow.coordination.endpoints import TlsFiles
from windrow.coordination.etcd import EtcdStore
from windrow.embedded.etcd import Etcd
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.process import Child, find_program
from windrow.errors import Unreachable, WindrowError


class SecureEtcd(Etcd):
    """An etcd that talks TLS only, and only with those whose certificate its authority signed."""

    certificates: Path

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self.certificates = self.directory / "certificates"
        self.certificates.mkdir()
        make_certificates(self.certificates)

    def _launch(self) -> Child:
        argv = [
            str(self._program),
            f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls=http://{LOOPBACK}:{free_port()}",
            "--client-cert-auth",
            f"--trusted-ca-file={self.certificates / 'ca.pem'}",
            f"--cert-file={self.certificates / 'member.pem'}",
            f"--key-file={self.certificates / 'member.key'}",
        ]
        return Child.start(self.name, argv, cwd=self.directory, log=self.log)

    def _is_ready(self, child: Child) -> bool:
        try:
            socket.create_connection((LOOPBACK, self.port), 1.0).close()
        except OSError:
            return False
        return True

    def tls(self, name: str) -> TlsFiles:
        folder = self.certificates
        return TlsFiles(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


@pytest.fixture(scope="module")
def secure_etcd(pytestconfig: pytest.Config) -> Iterator[SecureEtcd]:
    try:
        find_program("openssl", "openssl")
    except WindrowError as error:
        do_without(pytestconfig, str(error))
    with start_service(pytestconfig, "etcd", SecureEtcd.start) as server:
        yield server


def test_client_with_a_certificate_is_served(secure_etcd: SecureEtcd) -> None:
    async def scenario() -> None:
        store = EtcdStore(secure_etcd.url, tls=secure_etcd.tls("client"))
        await put(store, "key", b"value")
        lease = await store.grant_lease(5)
        await put(store, "leased", b"", lease.id)
        assert [kv.key for kv in (await store.load("")).kvs] == ["key", "leased"]
        await store.close()

    run(scenario())


@pytest.mark.parametrize("who", ["stranger", "nobody", "plain"])
def test_client_without_one_is_not_served(secure_etcd: SecureEtcd, who: str) -> None:
    async def scenario() -> None:
        tls = {
            "stranger": secure_etcd.tls("stranger"),
            "nobody": TlsFiles(secure_etcd.certificates / "ca.pem"),
            "plain": None,
        }[who]
        address = f"{LOOPBACK}:{secure_etcd.port}"
        store = EtcdStore(address, tls=tls, call_timeout=1.0)
        with pytest.raises(Unreachable):
            await store.load("")
        await store.close()

    run(scenario())


def test_member_whose_certificate_is_not_trusted_is_not_asked(secure_etcd: SecureEtcd) -> None:
    async def scenario() -> None:
        files = secure_etcd.tls("client")
        mistrusting = TlsFiles(
            secure_etcd.certificates / "stranger.pem", files.certificate, files.key
        )
        store = EtcdStore(secure_etcd.url, tls=mistrusting, call_timeout=1.0)
        with pytest.raises(Unreachable):
            await store.load("")
        await store.close()

    run(scenario())

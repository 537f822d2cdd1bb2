"""TLS and mutual TLS: towards clients, and among brokers."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.integration.journal.conftest import EtcdPrefix
from tests.integration.journal.stage import Stage, play, spec
from windrow.journal.broker.settings import TlsFiles
from windrow.journal.broker.tls import UnreadableTlsFile, server_context, server_credentials


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates of 127.0.0.1."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(exist_ok=True)
        self._directory, self._name = directory, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._subject = subject
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._builder(subject, self._key.public_key())
        signed = certificate.add_extension(constraints, critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = self._builder(subject, key.public_key())
        signed = builder.add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        pair = Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair

    def _builder(
        self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )


def client_credentials(authority: Authority, own: Pair | None = None) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        authority.file.read_bytes(),
        None if own is None else own.key.read_bytes(),
        None if own is None else own.certificate.read_bytes(),
    )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls", "authority")


@pytest.mark.parametrize("gateway", ["off", "shared"])
def test_a_client_that_trusts_the_authority_is_served(
    tmp_path: Path, authority: Authority, gateway: str
) -> None:
    own = authority.issue("broker")

    async def story(there: Stage) -> None:
        files = TlsFiles(certificate=own.certificate, key=own.key)
        server, plain = await there.broker(tls=files, gateway=gateway)
        assert server.endpoint.startswith("https://")
        caller = await there.caller(server, client_credentials(authority))
        await caller.apply(spec())
        await caller.appended(b"abc")
        assert await caller.content() == b"abc"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await plain.journals()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        stranger = Authority(tmp_path / "strange", "stranger")
        distrusting = await there.caller(server, client_credentials(stranger))
        with pytest.raises(grpc.aio.AioRpcError):
            await distrusting.journals()

    play(tmp_path, story)


@pytest.mark.parametrize("gateway", ["off", "shared"])
def test_with_a_client_authority_clients_must_show_a_certificate(
    tmp_path: Path, authority: Authority, gateway: str
) -> None:
    own, known = authority.issue("broker"), authority.issue("client")
    unknown = Authority(tmp_path / "strange", "stranger").issue("unknown")

    async def story(there: Stage) -> None:
        files = TlsFiles(certificate=own.certificate, key=own.key, client_authority=authority.file)
        server, _ = await there.broker(tls=files, gateway=gateway)
        welcome = await there.caller(server, client_credentials(authority, known))
        assert await welcome.names() == []
        for shown in (None, unknown):
            refused = await there.caller(server, client_credentials(authority, shown))
            with pytest.raises(grpc.aio.AioRpcError):
                await refused.names()

    play(tmp_path, story)


def test_brokers_show_each_other_their_certificates(
    tmp_path: Path, authority: Authority, cluster_etcd: EtcdPrefix
) -> None:
    client = authority.issue("client")

    async def story(there: Stage) -> None:
        callers = []
        for number in range(3):
            own = authority.issue(f"broker-{number}")
            files = TlsFiles(
                certificate=own.certificate, key=own.key, client_authority=authority.file
            )
            server, _ = await there.broker(f"broker-{number}", tls=files)
            callers.append(await there.caller(server, client_credentials(authority, client)))
        await callers[0].apply(spec(replication=2))
        for caller in callers:
            await caller.appended(b"abc")
        for caller in callers:
            assert await caller.content(end_offset=9, block=True) == b"abc" * 3

    play(tmp_path, story, cluster_etcd)


def test_http_is_served_on_the_same_port_by_tls(tmp_path: Path, authority: Authority) -> None:
    own = authority.issue("broker")

    async def story(there: Stage) -> None:
        server, _ = await there.broker(tls=TlsFiles(certificate=own.certificate, key=own.key))
        caller = await there.caller(server, client_credentials(authority))
        await caller.apply(spec())
        await caller.appended(b"abc")
        trusted = ssl.create_default_context(cafile=str(authority.file))
        async with httpx.AsyncClient(verify=trusted, trust_env=False) as http:
            answer = await http.get(f"{server.endpoint}/a/journal")
        assert answer.content == b"abc"

    play(tmp_path, story)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, authority: Authority) -> None:
    own = authority.issue("broker")
    missing = TlsFiles(certificate=tmp_path / "missing.crt", key=own.key)
    with pytest.raises(UnreadableTlsFile, match=r"missing\.crt: No such file"):
        server_credentials(missing)
    with pytest.raises(UnreadableTlsFile, match=r"missing\.crt"):
        server_context(missing)

"""Brokers that want TLS, a certificate and a token."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.journal.cli.conftest import Ran, Run, run_command
from tests.integration.journal.test_tls import Authority as CertificateAuthority
from windrow.embedded.broker import Broker
from windrow.journal.broker.tokens import Authority, Capability

KEY = base64.b64encode(b"a key that nobody else has, of 32 bytes or more").decode()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("certificates"), "authority")


@pytest.fixture(scope="module")
def guarded(certificates: CertificateAuthority) -> Iterator[Broker]:
    own = certificates.issue("broker")
    flags = {
        "tls-cert-file": str(own.certificate),
        "tls-key-file": str(own.key),
        "tls-client-ca-file": str(certificates.file),
        "auth-keys": KEY,
    }
    with Broker.start(flags=flags) as broker:
        yield broker


@pytest.fixture
def run_guarded(
    guarded: Broker,
    run: Run,
    certificates: CertificateAuthority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    monkeypatch.delenv("WINDROW__JOURNAL__ADDRESS")
    own = certificates.issue("client")
    (tmp_path / "windrow.toml").write_text(
        f'[journal]\naddress = "{guarded.address}"\npatience = "200ms"\n'
        f'[journal.tls]\nca_file = "{certificates.file}"\n'
        f'cert_file = "{own.certificate}"\nkey_file = "{own.key}"\n'
    )

    def run_with(*argv: str, token: str = "", stdin: bytes = b"") -> Ran:
        with monkeypatch.context() as patch:
            if token:
                patch.setenv("WINDROW__JOURNAL__TOKEN", token)
            return run_command(monkeypatch, stdin, *argv)

    return run_with


def test_a_command_calls_with_the_configured_certificate_and_token(run_guarded: Run) -> None:
    spec = (
        "name: a/journal\nreplication: 1\nfragment: {length: 1024, compression_codec: NONE,"
        " refresh_interval: 1m0s}\n"
    )
    authority = Authority(KEY)
    every = authority.sign(Capability.LIST | Capability.APPLY | Capability.READ | Capability.APPEND)
    assert run_guarded("apply", token=every, stdin=spec.encode()).code == 0
    assert run_guarded("append", "a/journal", token=every, stdin=b"content").code == 0
    assert run_guarded("read", "a/journal", token=every).raw == b"content"

    reader = authority.sign(Capability.LIST | Capability.READ)
    assert run_guarded("read", "a/journal", token=reader).raw == b"content"
    refused = run_guarded("append", "a/journal", token=reader, stdin=b"more")
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)
    assert "PERMISSION_DENIED" in refused.err
    assert reader not in refused.err
    assert run_guarded("read", "a/journal", token=every).raw == b"content"


def test_without_them_it_is_told_why_and_nothing_else(run_guarded: Run, guarded: Broker) -> None:
    missing = run_guarded("list", "--json")
    assert (missing.code, "bearer token" in missing.err) == (1, True), missing.err
    assert json.loads(missing.err)["error"]["type"] == "CallFailed"
    forged = Authority(
        base64.b64encode(b"another key, which is just as long as it should be").decode()
    ).sign(Capability.LIST)
    assert "UNAUTHENTICATED" in run_guarded("list", token=forged).err
    plain = run_guarded("list", "--broker", f"http://{guarded.address}")
    assert (plain.code, len(plain.err.splitlines())) == (1, 1)

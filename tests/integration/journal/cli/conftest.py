"""A broker as a child process, and the command line that talks to it."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.services import start_service
from windrow.cli.main import main
from windrow.embedded.broker import Broker

SPEC = """\
name: {name}
replication: 1
labels:
{labels}
fragment:
  length: {length}
  compression_codec: GZIP
  stores: ["file:///"]
  refresh_interval: 1s
  retention: {retention}
"""


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()


Run = Callable[..., Ran]
Create = Callable[..., str]


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    with start_service(pytestconfig, "broker", Broker.start) as broker:
        yield broker


@pytest.fixture
def run(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a verb of ``windrow journal`` against the broker."""
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDROW__JOURNAL__ADDRESS", broker.address)
    return lambda *argv, stdin=b"": run_command(monkeypatch, stdin, *argv)


def run_command(monkeypatch: pytest.MonkeyPatch, stdin: bytes, *argv: str) -> Ran:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["journal", *argv])
    assert isinstance(out.buffer, io.BytesIO)
    return Ran(code, out.buffer.getvalue(), err.getvalue())


@pytest.fixture
def create(run: Run) -> Create:
    """Creates a journal nobody else uses, and returns its name."""
    return lambda name="journal", labels=None, **how: create_journal(run, name, labels, **how)


def create_journal(
    run: Run,
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    length: int = 1 << 20,
    retention: str = "0s",
) -> str:
    full = f"{secrets.token_hex(6)}/{name}" if "/" not in name else name
    lines = [f"- {{name: {key}, value: {value!r}}}" for key, value in (labels or {}).items()]
    text = SPEC.format(
        name=full, labels="\n".join(lines) or "  []", length=length, retention=retention
    )
    created = run("apply", stdin=text.encode())
    assert created.code == 0, created.err
    return full


def wait_for(is_so: Callable[[], Any], seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.05)
    return found

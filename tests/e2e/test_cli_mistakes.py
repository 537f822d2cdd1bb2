"""The installed ``windrow``, as a user meets it when something is wrong."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import pq

from tests.fixtures.services import start_service
from windrow.config import Dsn, Secret
from windrow.embedded.postgres import PostgresServer

WINDROW = Path(sys.executable).with_name("windrow")


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("WINDROW__", "WINDROW_CONFIG"))]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A PostgreSQL whose password is known, and asked for on its port."""
    with start_service(pytestconfig, "PostgreSQL (embedded)", PostgresServer.start) as started:
        yield started


def windrow(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [WINDROW, *argv],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.proves("one-line-errors")
def test_wrong_config_key_is_one_clear_line_and_exit_code_two(tmp_path: Path) -> None:
    (tmp_path / "windrow.toml").write_text('[database]\ntabel = "outbox"\n')
    for command in (["config", "show"], ["config", "check"], ["doctor"]):
        done = windrow(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            'windrow: error: unknown key "database.tabel" in windrow.toml;'
            ' did you mean "database.table"?\n'
        )


@pytest.mark.proves("one-line-errors")
def test_unreachable_database_is_one_clear_line_and_exit_code_one() -> None:
    port = closed_port()
    done = windrow("doctor", "--dsn", f"postgresql://anna:q7secret@127.0.0.1:{port}/shop")
    assert (done.returncode, done.stderr) == (1, "")
    line = next(line for line in done.stdout.splitlines() if line.startswith("database"))
    assert line.split(maxsplit=2)[1] == "problem"
    assert f"cannot reach PostgreSQL at 127.0.0.1:{port}: Connection refused" in line
    assert "windrow config show" in line
    assert "q7secret" not in done.stdout


@pytest.mark.proves("one-line-errors")
def test_missing_extra_is_one_clear_line_and_exit_code_two(tmp_path: Path) -> None:
    """A module that is not there, whether or not this environment has it."""
    (tmp_path / "psycopg.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'psycopg'\", name='psycopg')\n"
    )
    for command in ("doctor", "demo"):
        done = windrow(command, PYTHONPATH=str(tmp_path))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "windrow: error: 'psycopg' is not installed; run: pip install 'windrow[postgres]'\n"
        )


def test_server_that_never_answers_is_given_up_after_the_connect_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        done = windrow(
            "doctor",
            "--json",
            WINDROW__DATABASE__DSN=f"postgresql://127.0.0.1:{port}/shop",
            WINDROW__DATABASE__CONNECT_TIMEOUT="2s",
        )
        took = time.monotonic() - began
    assert done.returncode == 1
    database = next(row for row in json.loads(done.stdout) if row["part"] == "database")
    assert database["state"] == "problem"
    assert database["detail"].startswith(f"cannot reach PostgreSQL at 127.0.0.1:{port}: ")
    assert "timeout" in database["detail"]
    assert 2 <= took < 20


def test_interrupt_ends_a_waiting_command_quietly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/shop"
        process = subprocess.Popen(
            [WINDROW, "doctor", "--dsn", dsn, "--set", "database.connect_timeout=60s"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            silent.settimeout(30)
            connection, _ = silent.accept()  # by now it waits for the server's answer
            with connection:
                process.send_signal(SIGINT)
                out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_doctor_finds_a_running_database_well(server: PostgresServer) -> None:
    done = windrow("doctor", "--json", "--dsn", server.dsn(port=server.port))
    assert (done.returncode, done.stderr) == (0, "")
    database = next(row for row in json.loads(done.stdout) if row["part"] == "database")
    assert database == {
        "part": "database",
        "state": "ok",
        "detail": f"PostgreSQL {server.version} at 127.0.0.1:{server.port}",
        "next": None,
    }


def test_password_from_a_file_opens_the_database(tmp_path: Path, server: PostgresServer) -> None:
    address = server.dsn(port=server.port)
    password = psycopg.conninfo.conninfo_to_dict(address)["password"]
    (tmp_path / "secret").write_text(f"{password}\n")
    (tmp_path / "windrow.toml").write_text(
        f'[database]\ndsn = "postgresql://postgres@127.0.0.1:{server.port}/postgres"\n'
        'password = {file = "secret"}\n'
    )
    assert windrow("doctor").returncode == 0
    shown = windrow("config", "show")
    assert "windrow.toml (file secret)" in shown.stdout
    assert str(password) not in shown.stdout


PASSWORDS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=4, max_size=30
).map(lambda text: f"q7{text}z9")


@pytest.mark.proves("secrets-redacted")
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(password=PASSWORDS, as_json=st.booleans(), debug=st.booleans(), as_pairs=st.booleans())
def test_refused_password_does_not_appear(
    server: PostgresServer, password: str, as_json: bool, debug: bool, as_pairs: bool
) -> None:
    plain = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    if as_pairs:
        plain = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
    dsn = Dsn(plain).with_password(Secret(password)).reveal()
    done = windrow(
        "doctor",
        *(["--json"] if as_json else []),
        WINDROW__DATABASE__DSN=dsn,
        WINDROW_DEBUG="1" if debug else "",
    )
    assert done.returncode == 1
    assert "password authentication failed" in done.stdout
    for form in (password, quote(password, safe=""), json.dumps(password)[1:-1]):
        assert form not in done.stdout + done.stderr


@settings(deadline=None)
@given(password=PASSWORDS)
def test_libpq_reads_the_same_password_that_we_hide(password: str) -> None:
    """What we take for the password and what the driver takes for it must not differ."""
    for plain in (
        "postgresql://anna@db:6543/shop?sslmode=require",
        "postgresql://anna:old@db:6543/shop",
        "host=db user=anna password='old one' port=6543",
    ):
        dsn = Dsn(plain).with_password(Secret(password))
        parsed = {
            option.keyword: option.val
            for option in pq.Conninfo.parse(dsn.reveal().encode())
            if option.val is not None
        }
        assert parsed[b"password"] == password.encode()
        assert (parsed[b"host"], parsed[b"port"], parsed[b"user"]) == (b"db", b"6543", b"anna")
        assert password not in str(dsn)


def test_every_option_of_the_driver_is_known() -> None:
    """One that we do not know would be refused as a misspelt password."""
    for option in pq.Conninfo.get_defaults():
        if not option.keyword.startswith(b"_"):
            Dsn(f"host=db {option.keyword.decode()}=1")

"""All of the play-pen: what is created arrives, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.processes import eventually
from tests.integration.playpen.conftest import HERO, post
from windrow.embedded.ports import free_port
from windrow.embedded.process import kill_process
from windrow.playpen.errors import CannotKeep, InvalidVariable
from windrow.playpen.ground import Database, Playpen
from windrow.playpen.services import ask

PATIENCE = 90.0
QUICK = {
    "RETRY_DELAY_MS": "200",
    "MAX_ATTEMPTS": "50",
    "WINDROW__RELAY__COMPETING__LOCK_EXPIRY": "2s",
    "WINDROW__RELAY__COMPETING__CIRCUIT__OPEN_FOR": "200ms",
}


class Running:
    """``windrow playpen up`` in a process of its own."""

    def __init__(self, *flags: str) -> None:
        self.producer, self.receiver = free_port(), free_port()
        argv = [sys.executable, "-m", "windrow", "playpen", "up", *flags]
        argv += [f"--producer-port={self.producer}", f"--receiver-port={self.receiver}"]
        self.output = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - closed in end()
        self.process = subprocess.Popen(
            argv, stdout=self.output, stderr=subprocess.STDOUT, env={**os.environ, **QUICK}
        )

    def said(self) -> str:
        return os.pread(self.output.fileno(), 1 << 24, 0).decode()

    def pids_of(self, part: str) -> list[int]:
        """All it ever had, in order."""
        return [
            int(pid) for pid in re.findall(rf"^{part}\b[^|\n]*process (\d+)", self.said(), re.M)
        ]

    def ask(self, port: int, method: str, path: str, body: object = None) -> Any:
        status, content = ask(port, method, path, json.dumps(body) if body else None)
        return json.loads(content) if 200 <= status < 300 else None

    def missing(self) -> int:
        """Messages of the outbox that have not arrived, or that nobody can tell yet of."""
        try:
            path = f"/gaps?producer=http://127.0.0.1:{self.producer}"
            gaps = self.ask(self.receiver, "GET", path)
        except (OSError, HTTPException):
            return -1
        return -1 if gaps is None else int(gaps["outbox"]["missing"])

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.output.close()


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running("--relays=2", "--revive-after=500ms")
    yield running
    if running.process.poll() is None:
        running.end()


def test_what_is_created_arrives_though_relays_and_receiver_are_killed(running: Running) -> None:
    assert eventually(lambda: "what arrived" in running.said(), PATIENCE), running.said()
    created = [
        running.ask(running.producer, "POST", "/hero/create", {"name": f"hero-{number}"})
        for number in range(30)
    ]
    assert all(created)
    for part in ("receiver", "relay-1"):
        kill_process(running.pids_of(part)[0])
    more = [
        running.ask(running.producer, "POST", "/hero/create", {"name": f"late-{number}"})
        for number in range(10)
    ]
    assert all(more)
    assert eventually(lambda: running.missing() == 0, PATIENCE), running.said()
    assert eventually(lambda: len(running.pids_of("receiver")) > 1, PATIENCE), running.said()
    assert eventually(lambda: len(running.pids_of("relay-1")) > 1, PATIENCE), running.said()
    stats = running.ask(running.receiver, "GET", "/stats")
    assert stats["messages"] == 40
    said = running.said()
    ended = re.findall(r"^(\S+) has ended", said, re.MULTILINE)
    assert sorted(ended) == ["receiver", "relay-1"], said  # nobody but who was killed
    assert re.search(r"^producer +\| .*hero created", said, re.M), "who does what is told"
    assert re.search(r"^receiver +\| .*message kept", said, re.M)
    assert running.end() == 0, said


@pytest.mark.parametrize("database", ["mariadb", "sqlite"])
def test_play_pen_runs_on_other_databases_too(database: Database) -> None:
    with Playpen.start(database=database, relays=2, environ=QUICK, idempotent=True) as playpen:
        ids = {post(playpen.producer, "/hero/create", HERO).json["messageId"] for _ in range(20)}
        assert eventually(lambda: playpen.producer.get("/stats")["waiting"] == 0, PATIENCE)
        arrived = [message["id"] for message in playpen.receiver.get("/messages")["messages"]]
        assert sorted(arrived) == sorted(ids)
        assert playpen.ended() == []


def test_kept_data_are_there_the_next_time() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o711)  # the database's own user has to reach what is below
        for expected in (1, 2):
            keep = Path(place, "data")
            with Playpen.start(relays=0, environ={}, keep=keep) as playpen:
                assert post(playpen.producer, "/hero/create", HERO).status == 201
                assert post(playpen.producer, "/hero/create-sync", HERO).status == 201
                assert playpen.producer.get("/stats")["outbox"] == expected
                assert playpen.receiver.get("/stats")["received"] == expected


def test_mistakes_are_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InvalidVariable, match="MAX_ATTEMPTS='many'"):
        Playpen.start(environ={"MAX_ATTEMPTS": "many"})
    with pytest.raises(CannotKeep, match="take postgres or sqlite"):
        Playpen.start(database="mariadb", keep=tmp_path, environ={})


def test_command_line_is_told_what_is_wrong_with_it() -> None:
    argv = [sys.executable, "-m", "windrow", "playpen"]
    nowhere = "--set=database.dsn=postgresql://127.0.0.1:9/heroes"
    for flags, status, said in (
        (["up", "--database=oracle"], 2, "one of postgres, mariadb, sqlite"),
        (["producer", "--sync-timeout=5"], 2, "write it as 250ms"),
        (["producer", "--port=0", nowhere], 1, "cannot reach PostgreSQL at 127.0.0.1:9"),
        (["receiver", "--port=0", "--data=/proc/nowhere.db"], 1, "give another file with --data"),
        (["send", "--count=2", f"--producer=http://127.0.0.1:{free_port()}"], 1, "undone"),
    ):
        run = subprocess.run([*argv, *flags], capture_output=True, text=True, timeout=PATIENCE)
        assert run.returncode == status, run.stderr
        assert said in run.stdout + run.stderr
        assert "Traceback" not in run.stderr

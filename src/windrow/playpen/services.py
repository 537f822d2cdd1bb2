"""The producer and the receiver as child processes, for the chaos kit, the demo and tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, ClassVar, Self

from windrow.embedded.directory import create_directory
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.process import Child
from windrow.embedded.service import Service
from windrow.errors import Unreachable
from windrow.version import __version__

ANSWER_TIMEOUT = 30.0


class PlaypenService(Service):
    """One of the two: a web service on a port of the loopback interface."""

    def __init__(
        self, directory: Path, port: int, flags: Mapping[str, str], env: Mapping[str, str]
    ) -> None:
        super().__init__(directory, __version__)
        self.port = port or free_port()
        self.flags, self._env = dict(flags), dict(env)

    @property
    def url(self) -> str:
        """Where it is, the same after every restart."""
        return f"http://{LOOPBACK}:{self.port}"

    def end(self) -> None:
        """End it in good order; what it keeps stays for ``restart``."""
        self._end()

    def get(self, path: str) -> Any:
        """The JSON that it shows there.

        Raises:
            Unreachable: It does not answer, or not with a 2xx.
        """
        return self._ask("GET", path)

    def put(self, path: str, value: object) -> Any:
        """Put a JSON value there; returns the answer.

        Raises:
            Unreachable: It does not answer, or not with a 2xx.
        """
        return self._ask("PUT", path, json.dumps(value))

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        try:
            status, content = ask(self.port, method, path, body)
        except (OSError, HTTPException) as error:
            raise Unreachable(self.name, self.url, str(error) or type(error).__name__) from error
        if not 200 <= status < 300:
            raise Unreachable(self.name, self.url + path, f"{status} {content[:200].decode()}")
        return json.loads(content)

    def _prepare(self) -> None:
        """There is nothing to make: each makes its tables when it starts."""

    def _launch(self) -> Child:
        command = self.name.removeprefix("playpen ")
        argv = [sys.executable, "-m", "windrow", "playpen", command, f"--port={self.port}"]
        argv += [f"--{name}={value}" if value else f"--{name}" for name, value in self._given()]
        return Child.start(self.name, argv, cwd=self.directory, log=self.log, env=self._env)

    def _given(self) -> list[tuple[str, str]]:
        return list(self.flags.items())

    def _is_ready(self, child: Child) -> bool:
        try:
            status, content = ask(self.port, "GET", "/healthz", timeout=2.0)
            # By its pid: whoever else has the port may be in good health too.
            return status == HTTPStatus.OK and json.loads(content).get("pid") == child.pid
        except (OSError, HTTPException, ValueError, AttributeError):
            return False


class PlaypenProducer(PlaypenService):
    """The producer, on a database that others may use as well."""

    name: ClassVar[str] = "playpen producer"

    @classmethod
    def start(
        cls,
        dsn: str,
        receiver_url: str,
        *,
        port: int = 0,
        table: str = "outbox",
        sync_timeout: float = 5.0,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Bring up a producer; its tables are there and it takes requests when this returns.

        Args:
            dsn: The database: PostgreSQL, MariaDB (``mysql://…``) or SQLite (``sqlite:///path``).
            receiver_url: Where ``/hero/create-sync`` calls; the receiver need not be there.
            port: Of the loopback interface; 0 takes a free one.
            table: The outbox.
            sync_timeout: How many seconds ``/hero/create-sync`` waits for the receiver.
            env: Further variables of its environment.

        Raises:
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        # Not on the command line, where everybody on the machine could read it.
        given = {"WINDROW__DATABASE__DSN": dsn, "WINDROW__DATABASE__TABLE": table}
        flags = {"receiver": receiver_url, "sync-timeout": f"{sync_timeout:g}s"}
        return cls(create_directory("producer"), port, flags, given | dict(env or {}))._begin()


class PlaypenReceiver(PlaypenService):
    """The receiver, with what it got in a file."""

    name: ClassVar[str] = "playpen receiver"

    @classmethod
    def start(
        cls,
        path: Path | None = None,
        port: int = 0,
        *,
        idempotent: bool = False,
        producer_url: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Bring up a receiver; it takes messages when this returns.

        Args:
            path: Where to keep what it gets; by default gone with ``stop``.
            port: Of the loopback interface; 0 takes a free one.
            idempotent: Whether an inbox stands before it, so that no message is kept twice.
            producer_url: Whom ``/gaps`` asks.
            env: Further variables of its environment.

        Raises:
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        directory = create_directory("receiver")
        flags = {"data": str(directory / "receiver.db" if path is None else path)}
        if producer_url is not None:
            flags["producer"] = producer_url
        if idempotent:
            flags["idempotent"] = ""
        return cls(directory, port, flags, env or {})._begin()

    def set_fault(self, mode: str, **fault: Any) -> None:
        """Have it misbehave from now on; ``none`` ends that. See ``windrow.playpen.faults``."""
        self.put("/faults", {"mode": mode, **fault})


def ask(
    port: int, method: str, path: str, body: str | None = None, timeout: float = ANSWER_TIMEOUT
) -> tuple[int, bytes]:
    """Status and body of one request to a port of the loopback interface."""
    connection = HTTPConnection(LOOPBACK, port, timeout=timeout)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()

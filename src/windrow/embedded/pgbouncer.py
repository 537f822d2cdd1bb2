"""PgBouncer, a pooler of connections, as a child process in front of a PostgreSQL of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from signal import SIGINT, Signals
from typing import ClassVar, Self
from urllib.parse import urlsplit

from windrow.embedded import databases
from windrow.embedded.directory import create_directory
from windrow.embedded.ports import LOOPBACK, free_port, port_answers
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.process import Child, find_program, unprivileged_user
from windrow.embedded.service import Service


class PgBouncer(Service):
    """A pooler on a port of the loopback interface, with the password of its server."""

    name: ClassVar[str] = "PgBouncer"
    stop_signal: ClassVar[Signals] = SIGINT

    def __init__(
        self,
        directory: Path,
        version: str,
        program: Path,
        server: PostgresServer,
        settings: Mapping[str, str | int],
    ) -> None:
        super().__init__(directory, version)
        self.port = free_port()
        self.settings = dict(settings)
        self._program, self._server = program, server
        self._user = unprivileged_user("postgres")

    @classmethod
    def start(
        cls, server: PostgresServer, *, settings: Mapping[str, str | int] | None = None
    ) -> Self:
        """Bring a pooler up, with a server connection per transaction.

        Args:
            server: Where it leads to; it may be down, or come and go.
            settings: Added to the section ``[pgbouncer]``, beside ours or in their place.

        Raises:
            NotInstalled: There is no PgBouncer on this machine.
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        program = find_program("pgbouncer", "pgbouncer", "/usr/sbin")
        directory = create_directory("pgbouncer", unprivileged_user("postgres"))
        version = _version_of(program)
        return cls(directory, version, program, server, settings or {})._begin()

    def dsn(self, dbname: str = "postgres") -> str:
        """The URI of a database of the server, by way of the pooler."""
        return databases.dsn_of(self._server.dsn(port=self.port), dbname)

    @property
    def _configuration(self) -> Path:
        return self.directory / "pgbouncer.ini"

    def _prepare(self) -> None:
        login = urlsplit(self._server.dsn(port=self.port))
        users = self.directory / "users"
        users.write_text(f'"{login.username}" "{login.password}"\n')
        settings = {
            "listen_addr": LOOPBACK,
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": users,
            "pool_mode": "transaction",
            **self.settings,
        }
        server = f"host={self._server.directory} port={self._server.port} user={login.username}"
        lines = ["[databases]", f"* = {server}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        self._configuration.write_text("\n".join(lines) + "\n")
        for file in (users, self._configuration):
            file.chmod(0o644)  # for the pooler's user; nobody else can enter the directory

    def _launch(self) -> Child:
        argv = [str(self._program), str(self._configuration)]
        return Child.start(self.name, argv, cwd=self.directory, log=self.log, user=self._user)

    def _is_ready(self, child: Child) -> bool:
        return port_answers(self.port)


def _version_of(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[1]

"""PostgreSQL as a child process."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from signal import SIGINT, Signals
from typing import ClassVar, Self
from urllib.parse import quote

from windrow.embedded import databases
from windrow.embedded.directory import create_directory
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.postgres_binaries import binaries_for, embedded_binaries, server_version
from windrow.embedded.process import Child, run_program, unprivileged_user
from windrow.embedded.service import Service

Setting = str | int | float | bool
_SUPERUSER = "postgres"


class PostgresServer(Service):
    """A PostgreSQL server on a unix socket, and on a port of the loopback interface.

    The socket lies in the private directory and asks for no password; the port, which everybody on
    the machine can reach, does.
    """

    name: ClassVar[str] = "PostgreSQL"
    stop_signal: ClassVar[Signals] = SIGINT  # do not wait for clients to leave

    def __init__(
        self, directory: Path, version: str, binaries: Path, settings: Mapping[str, Setting]
    ) -> None:
        super().__init__(directory, version)
        self.port = free_port()
        self.binaries, self.settings = binaries, dict(settings)
        self.data = directory / "data"
        self._user = unprivileged_user("postgres")
        self._password = secrets.token_urlsafe(16)

    @classmethod
    def start(
        cls, *, binaries: Path | None = None, settings: Mapping[str, Setting] | None = None
    ) -> Self:
        """Create an empty cluster and bring it up.

        Args:
            binaries: ``embedded_binaries()``, the default, or ``debian_binaries()``.
            settings: Added to ``postgresql.conf``, as ``{"wal_level": "logical"}``.

        Raises:
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        binaries = binaries or embedded_binaries()
        directory = create_directory("postgres", unprivileged_user("postgres"))
        return cls(directory, server_version(binaries), binaries, settings or {})._begin()

    def dsn(self, dbname: str = "postgres", *, port: int | None = None) -> str:
        """The URI of a database.

        Args:
            dbname: The database.
            port: Go by TCP, to ``self.port`` or to a link in front of it, instead of the socket.
        """
        database = quote(dbname, safe="")
        if port is not None:
            return f"postgresql://{_SUPERUSER}:{self._password}@{LOOPBACK}:{port}/{database}"
        socket_directory = quote(str(self.directory), safe="")
        return f"postgresql://{_SUPERUSER}@/{database}?host={socket_directory}&port={self.port}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, empty or copied from ``template``, and return its URI."""
        return databases.create_database(self.dsn(), name, template)

    def drop_database(self, name: str) -> None:
        """Drop a database, disconnecting whoever uses it."""
        databases.drop_database(self.dsn(), name)

    def _prepare(self) -> None:
        self.binaries = binaries_for(self._user, self.binaries, self.directory)
        password_file = self.directory / "password"
        password_file.write_text(self._password)
        password_file.chmod(0o644)  # for the server's user; nobody else can enter the directory
        run_program(
            f"{self.name} (initdb)",
            [
                str(self.binaries / "initdb"),
                f"--pgdata={self.data}",
                f"--username={_SUPERUSER}",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                f"--pwfile={password_file}",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",  # these files alone need not survive the machine
            ],
            cwd=self.directory,
            log=self.log,
            user=self._user,
        )
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(format_settings({**self._own_settings(), **self.settings}))

    def _own_settings(self) -> dict[str, Setting]:
        return {
            "listen_addresses": LOOPBACK,
            "port": self.port,
            "unix_socket_directories": str(self.directory),
            # In files of the data directory: a killed server leaves nothing in /dev/shm.
            "dynamic_shared_memory_type": "mmap",
        }

    def _launch(self) -> Child:
        return Child.start(
            self.name,
            [str(self.binaries / "postgres"), "-D", str(self.data)],
            cwd=self.directory,
            log=self.log,
            user=self._user,
        )

    def _is_ready(self, child: Child) -> bool:
        try:
            status = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file of a killed server is still there and says "ready" as well.
        return len(status) >= 8 and status[0] == str(child.pid) and status[7].strip() == "ready"


def format_settings(settings: Mapping[str, Setting]) -> str:
    """Lines of ``postgresql.conf``."""
    return "".join(f"{name} = '{_escaped(value)}'\n" for name, value in settings.items())


def _escaped(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).replace("\\", "\\\\").replace("'", "''")

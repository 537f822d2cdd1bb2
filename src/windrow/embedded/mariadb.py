"""MariaDB as a child process."""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import quote, unquote, urlsplit

from windrow.embedded.directory import create_directory
from windrow.embedded.ports import LOOPBACK, free_port
from windrow.embedded.process import Child, find_program, run_program, unprivileged_user
from windrow.embedded.service import Service

_PACKAGE = "mariadb-server"
_SUPERUSER = "root"


class MariaDB(Service):
    """A MariaDB server on a unix socket, and on a port of the loopback interface."""

    name: ClassVar[str] = "MariaDB"

    def __init__(self, directory: Path, version: str, program: Path) -> None:
        super().__init__(directory, version)
        self._program = program
        self.port = free_port()
        self.socket = directory / "socket"
        self._user = unprivileged_user("mysql")
        self._password = secrets.token_urlsafe(16)

    @classmethod
    def start(cls) -> Self:
        """Create an empty server and bring it up.

        Raises:
            NotInstalled: There is no MariaDB on this machine.
            StartFailed: It did not come up; the tail of its log is in the error.
        """
        program = find_program("mariadbd", _PACKAGE, "/usr/sbin")
        directory = create_directory("mariadb", unprivileged_user("mysql"))
        return cls(directory, _version_of(program), program)._begin()

    def url(self, dbname: str = "mysql", *, port: int | None = None) -> str:
        """The URL of a database; ``connect_arguments`` makes it palatable to PyMySQL.

        Args:
            dbname: The database.
            port: The port of a link in front of the server, instead of its own.
        """
        address = f"{LOOPBACK}:{self.port if port is None else port}"
        return f"mysql://{_SUPERUSER}:{self._password}@{address}/{quote(dbname, safe='')}"

    def _prepare(self) -> None:
        run_program(
            f"{self.name} (mariadb-install-db)",
            [
                str(find_program("mariadb-install-db", _PACKAGE)),
                "--no-defaults",
                f"--datadir={self.directory / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            cwd=self.directory,
            log=self.log,
            env=self._environment,
            user=self._user,
        )
        # Read at each start, before the first connection is taken.
        accounts = self.directory / "accounts.sql"
        accounts.write_text(_accounts(self._password))
        accounts.chmod(0o644)  # for the server's user; nobody else can enter the directory

    def _launch(self) -> Child:
        argv = [
            str(self._program),
            "--no-defaults",
            f"--datadir={self.directory / 'data'}",
            f"--socket={self.socket}",
            f"--pid-file={self.directory / 'pid'}",
            f"--bind-address={LOOPBACK}",
            f"--port={self.port}",
            f"--init-file={self.directory / 'accounts.sql'}",
            "--skip-name-resolve",
        ]
        return Child.start(
            self.name,
            argv,
            cwd=self.directory,
            log=self.log,
            env=self._environment,
            user=self._user,
        )

    @property
    def _environment(self) -> dict[str, str]:
        # A killed server leaves its temporary tables behind: here they go with the directory.
        return {"TMPDIR": str(self.directory)}

    def _is_ready(self, child: Child) -> bool:
        return _greets(self.socket)


def connect_arguments(url: str) -> dict[str, Any]:
    """What ``pymysql.connect`` wants to know, from ``mysql://user:secret@host:port/database``."""
    parts = urlsplit(url)
    return {
        "host": parts.hostname or LOOPBACK,
        "port": parts.port or 3306,
        "user": unquote(parts.username or _SUPERUSER),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.lstrip("/")),
    }


def _greets(path: Path) -> bool:
    """Whether the server speaks first, as it does once it takes connections.

    To connect is not enough: the kernel accepts connections long before the server does.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            return len(connection.recv(1)) == 1
        except OSError:
            return False


def _accounts(password: str) -> str:
    """The superuser's password: everybody on this machine can reach the port."""
    return "".join(
        f"CREATE OR REPLACE USER '{_SUPERUSER}'@'{host}' IDENTIFIED BY '{password}';\n"
        f"GRANT ALL PRIVILEGES ON *.* TO '{_SUPERUSER}'@'{host}' WITH GRANT OPTION;\n"
        for host in ("localhost", LOOPBACK)
    )


def _version_of(program: Path) -> str:
    said = subprocess.run(
        [program, "--no-defaults", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"Ver (\d+(?:\.\d+)+)", said)
    return found[1] if found else said.strip()

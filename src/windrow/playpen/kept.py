"""An embedded PostgreSQL whose data stay where the user wants them, for the next play-pen there."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Self

from windrow.embedded.postgres import PostgresServer, Setting, format_settings
from windrow.embedded.postgres_binaries import binaries_for, embedded_binaries, server_version
from windrow.embedded.process import unprivileged_user


class KeptPostgres(PostgresServer):
    """A server on a directory that is there before it, or made by it, and that outlives it."""

    @classmethod
    def start_in(cls, directory: Path) -> Self:
        """Bring up a server on the data in that directory, or on new ones.

        Raises:
            StartFailed: It did not come up; the data stay as they are.
        """
        binaries = embedded_binaries()
        _make(directory, unprivileged_user("postgres"))
        server = cls(directory.resolve(), server_version(binaries), binaries, {})
        server._prepare()
        server._come_up()
        return server

    def stop(self) -> None:
        """End the server in good order; its data stay."""
        self._end()

    def _prepare(self) -> None:
        if not (self.data / "PG_VERSION").exists():
            super()._prepare()
            return
        self._password = (self.directory / "password").read_text()
        self.binaries = binaries_for(self._user, self.binaries, self.directory)
        # The last line counts, and the port is another one each time.
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(format_settings({"port": self.port}))

    def _own_settings(self) -> dict[str, Setting]:
        # No socket: the path of a directory of the user's may be too long for one.
        return super()._own_settings() | {"unix_socket_directories": ""}


def _make(directory: Path, owner: str | None) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if owner is not None:
        entry = pwd.getpwnam(owner)
        os.chown(directory, entry.pw_uid, entry.pw_gid)

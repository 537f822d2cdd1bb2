"""A synchronous standby of a PostgreSQL of the test's own, to be promoted when that one dies."""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import psycopg

from tests.fixtures.relaying import wait_for
from windrow.embedded.directory import create_directory
from windrow.embedded.postgres import PostgresServer, format_settings
from windrow.embedded.process import run_program, unprivileged_user


class StandbyServer(PostgresServer):
    """A copy of a primary that follows it; once it does, no commit is done without it."""

    def __init__(self, directory: Path, primary: PostgresServer) -> None:
        super().__init__(directory, primary.version, primary.binaries, primary.settings)
        self._primary = primary
        self._password = urlsplit(primary.dsn(port=primary.port)).password or ""

    @classmethod
    def follow(cls, primary: PostgresServer) -> Self:
        """Copy the primary, come up, and have its commits wait for this one from now on."""
        directory = create_directory("standby", unprivileged_user("postgres"))
        standby = cls(directory, primary)._begin()
        with psycopg.connect(primary.dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            query = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_for(lambda: connection.execute(query).rowcount == 1, "the standby is synchronous")
        return standby

    def promote(self) -> None:
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            # What it inherited would have it wait for a standby of its own.
            connection.execute("SELECT pg_promote(true)")
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")

    def _prepare(self) -> None:
        run_program(
            f"{self.name} (pg_basebackup)",
            [
                str(self.binaries / "pg_basebackup"),
                f"--host={self._primary.directory}",
                f"--port={self._primary.port}",
                "--username=postgres",
                "--no-password",
                f"--pgdata={self.data}",
                "--checkpoint=fast",
                "--write-recovery-conf",
                "--no-sync",
            ],
            cwd=self.directory,
            log=self.log,
            user=self._user,
        )
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(format_settings(self._own_settings()))


def either(primary: PostgresServer, standby: PostgresServer, database: str) -> str:
    """The address of whichever of the two takes writes."""
    address = urlsplit(primary.dsn(database, port=primary.port))
    hosts = f"{address.netloc},127.0.0.1:{standby.port}"
    return address._replace(netloc=hosts, query="target_session_attrs=read-write").geturl()

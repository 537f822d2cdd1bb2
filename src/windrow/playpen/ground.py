"""All of the play-pen at once: a database, the producer, the receiver and relays between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self

from windrow.config import Dsn
from windrow.embedded.directory import create_directory, remove_directory
from windrow.embedded.mariadb import MariaDB
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.process import Child
from windrow.outbox.dialects.connecting import connected, run
from windrow.playpen.errors import CannotKeep
from windrow.playpen.kept import KeptPostgres
from windrow.playpen.relays import relay_variables, start_relay
from windrow.playpen.services import PlaypenProducer, PlaypenReceiver, PlaypenService

Database = Literal["postgres", "mariadb", "sqlite"]
Say = Callable[[str], None]
RELAY_STOP_TIMEOUT = 15.0
"""Longer than a relay waits for what it has sent."""


class Playpen:
    """What ``start`` has brought up; ``stop`` ends it in good order, the last part first."""

    def __init__(
        self,
        producer: PlaypenProducer,
        receiver: PlaypenReceiver,
        directory: Path,
        relays: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.producer, self.receiver, self.directory = producer, receiver, directory
        self._variables = relays
        self.relays: dict[str, Child] = {}
        self._parts = ExitStack()

    @classmethod
    def start(
        cls,
        *,
        database: Database = "postgres",
        relays: int = 2,
        producer_port: int = 0,
        receiver_port: int = 0,
        idempotent: bool = False,
        keep: Path | None = None,
        environ: Mapping[str, str],
        say: Say = lambda step: None,
    ) -> Self:
        """Bring up all of it, or nothing.

        Args:
            database: Where heroes and the outbox are.
            relays: How many compete.
            producer_port: 0 takes a free one.
            receiver_port: 0 takes a free one.
            idempotent: Whether an inbox stands before the receiver.
            keep: Where data and logs stay; by default nothing does.
            environ: What may hold ``POLL_INTERVAL_MS``, ``RETRY_DELAY_MS`` and ``MAX_ATTEMPTS``.
            say: Takes each step as a sentence, as it is done.

        Raises:
            InvalidVariable: One of these variables is no number.
            CannotKeep: The data of this database cannot be kept.
            StartFailed: A part did not come up; the tail of its log is in the error.
        """
        relay_variables("", "", "", environ)  # a slip of the pen is told before anything starts
        with ExitStack() as stack:
            directory = _directory(stack, keep)
            dsn = _start_database(stack, database, directory, keep is not None, say)
            receiver = stack.enter_context(
                PlaypenReceiver.start(
                    directory / "receiver.db", receiver_port, idempotent=idempotent
                )
            )
            say(f"receiver: process {receiver.pid}, {receiver.url}")
            producer = stack.enter_context(
                PlaypenProducer.start(dsn, receiver.url, port=producer_port)
            )
            say(f"producer: process {producer.pid}, {producer.url}")
            names = [f"relay-{number}" for number in range(1, relays + 1)]
            variables = {n: relay_variables(dsn, receiver.url, n, environ) for n in names}
            playpen = cls(producer, receiver, directory, variables)
            stack.callback(playpen._stop_relays)
            for name in names:
                say(f"{name}: process {playpen.revive(name)}")
            playpen._parts = stack.pop_all()
        return playpen

    @property
    def logs(self) -> dict[str, Path]:
        """Where each part tells what it does."""
        services = {name: service.log for name, service in self._services.items()}
        return services | {name: relay.log for name, relay in self.relays.items()}

    def ended(self) -> list[str]:
        """The parts that have ended though nobody stopped them."""
        parts: dict[str, PlaypenService | Child] = {**self._services, **self.relays}
        return [name for name, part in parts.items() if not part.is_alive()]

    def revive(self, name: str) -> int:
        """Start a part again that has ended, on what it had; returns its new process.

        Raises:
            StartFailed: It did not come up.
        """
        service = self._services.get(name)
        if service is not None:
            service.restart()
            return service.pid
        before = self.relays.get(name)
        if before is not None:
            before.kill()  # what is left of it
        relay = self.relays[name] = start_relay(name, self._variables[name], self.directory)
        return relay.pid

    @property
    def _services(self) -> dict[str, PlaypenService]:
        return {"producer": self.producer, "receiver": self.receiver}

    def stop(self) -> None:
        """End all parts; does nothing the second time."""
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _stop_relays(self) -> None:
        for relay in self.relays.values():
            relay.stop(RELAY_STOP_TIMEOUT)


def _directory(stack: ExitStack, keep: Path | None) -> Path:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return keep.resolve()
    directory = create_directory("playpen")
    stack.callback(remove_directory, directory)
    return directory


def _start_database(
    stack: ExitStack, database: Database, directory: Path, is_kept: bool, say: Say
) -> str:
    """Bring it up, and return its address."""
    if database == "sqlite":
        say("SQLite: a file beside the receiver's")
        return f"sqlite:///{directory / 'heroes.db'}"
    if database == "mariadb":
        if is_kept:
            raise CannotKeep(database)
        mariadb = stack.enter_context(MariaDB.start())
        say(f"MariaDB {mariadb.version}: process {mariadb.pid}")
        return _create_database(mariadb)
    if is_kept:
        server: PostgresServer = KeptPostgres.start_in(directory / "postgres")
    else:
        server = PostgresServer.start()
    stack.enter_context(server)
    say(f"PostgreSQL {server.version}: process {server.pid}")
    return server.dsn(port=server.port) if is_kept else server.dsn()


def _create_database(server: MariaDB) -> str:
    with connected(Dsn(server.url()), 5.0, 30.0) as connection:
        run(connection, "CREATE DATABASE playpen CHARACTER SET utf8mb4")
    return server.url("playpen")

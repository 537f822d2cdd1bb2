"""The producer's database: heroes and their messages, in one transaction or, for the control, not.

Blocking. Every thread that uses it has a connection of its own, opened anew after it was lost. What
differs between PostgreSQL, MariaDB and SQLite is in ``dialects``.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from windrow.config import Dsn
from windrow.errors import Unreachable
from windrow.outbox.record import Record
from windrow.outbox.writer import Outbox
from windrow.playpen.dialects import dialect_of, moment
from windrow.playpen.errors import MaybeWritten, NotWritten
from windrow.playpen.messages import HERO_CREATED, MESSAGE_ID_HEADER, Message, NewHero
from windrow.points import pass_by

Via = Literal["outbox", "sync"]

HERO_WRITTEN = "playpen.hero-written"
"""The hero is written, its message is not, and nothing is committed."""
BEFORE_COMMIT = "playpen.before-commit"
"""Hero and message are written, and nothing is committed."""
COMMITTED = "playpen.committed"
"""The transaction has ended, and nobody has been told."""


@dataclass(frozen=True, slots=True)
class Hero:
    """A hero as it is in the table, and the id of the message about it."""

    id: int
    name: str
    team: str | None
    created: datetime
    correlation: str
    message_id: str
    via: Via

    @property
    def payload(self) -> dict[str, Any]:
        """What its message tells."""
        return {
            "id": self.id,
            "name": self.name,
            "team": self.team,
            "createdAt": self.created.isoformat(timespec="microseconds"),
        }

    @property
    def message(self) -> Message:
        """That this hero was created."""
        return Message(self.message_id, HERO_CREATED, self.payload, self.correlation)

    def as_object(self) -> dict[str, Any]:
        """As the producer shows it."""
        return self.payload | {
            "correlation": self.correlation,
            "messageId": self.message_id,
            "via": self.via,
        }


class Heroes:
    """Heroes in one database."""

    def __init__(self, dsn: str, table: str = "outbox") -> None:
        self._dialect, self._address = dialect_of(dsn), Dsn(dsn).address
        self._outbox = Outbox(table)
        self._local = threading.local()
        self._all: list[Any] = []
        self._lock = threading.Lock()

    @property
    def database(self) -> str:
        """Which database it is: ``PostgreSQL``, ``MariaDB`` or ``SQLite``."""
        return self._dialect.name

    @property
    def concurrency(self) -> int:
        """How many threads may use it to some end."""
        return self._dialect.concurrency

    def prepare(self) -> None:
        """Make the tables that are not there yet, the outbox included.

        Raises:
            Unreachable: The database is not there, or refused.
        """
        try:
            self._dialect.prepare(self._outbox.table)
        except Unreachable:
            raise
        except self._dialect.errors as error:
            problem = Unreachable(self.database, self._address, self._dialect.say(error))
        else:
            return
        raise problem  # out here, so that the driver's error, with its address, is not its context

    def create(self, wanted: NewHero, correlation: str, via: Via = "outbox") -> Hero:
        """Write a hero and, ``via`` the outbox, its message in the same transaction.

        Raises:
            NotWritten: Nothing was committed.
            MaybeWritten: The connection was lost during the commit.
        """
        now = datetime.now(UTC)
        connection = self._connection()
        with self._told(connection):
            self._dialect.begin(connection)
            message_id = str(uuid.uuid4())
            id = self._dialect.insert_hero(
                connection, (wanted.name, wanted.team, now, correlation, message_id, via)
            )
            hero = Hero(id, wanted.name, wanted.team, now, correlation, message_id, via)
            pass_by(HERO_WRITTEN)
            if via == "outbox":
                self._outbox.stash(connection, _record(hero))
        pass_by(BEFORE_COMMIT)
        self._commit(connection)
        pass_by(COMMITTED)
        return hero

    def page(self, after: int = 0, limit: int = 100, via: Via | None = None) -> list[Hero]:
        """Heroes in the order of their ids.

        Raises:
            NotWritten: The database is not there.
        """
        where = "id > {}"
        parameters: list[Any] = [after, limit]
        if via is not None:
            where, parameters = "id > {} AND via = {}", [after, via, limit]
        sql = (
            "SELECT id, name, team, created_at, correlation, message_id, via FROM heroes"
            f" WHERE {where} ORDER BY id LIMIT {{}}"
        )
        return [_hero(row) for row in self._select(sql, parameters)]

    def last(self, limit: int) -> list[Hero]:
        """The newest heroes, the newest first."""
        sql = (
            "SELECT id, name, team, created_at, correlation, message_id, via FROM heroes"
            " ORDER BY id DESC LIMIT {}"
        )
        return [_hero(row) for row in self._select(sql, [limit])]

    def counts(self) -> dict[str, int]:
        """How many heroes there are of each way, how many messages wait, and how many are dead."""
        outbox = self._dialect.quoted(self._outbox.table, "")
        dead = self._dialect.quoted(self._outbox.table, "_dead")
        sql = (
            "SELECT (SELECT count(*) FROM heroes WHERE via = 'outbox'),"
            " (SELECT count(*) FROM heroes WHERE via = 'sync'),"
            f" (SELECT count(*) FROM {outbox}), (SELECT count(*) FROM {dead})"
        )
        ((by_outbox, by_sync, waiting, buried),) = self._select(sql, [])
        return {
            "outbox": by_outbox,
            "sync": by_sync,
            "heroes": by_outbox + by_sync,
            "waiting": waiting,
            "dead": buried,
        }

    def waiting(self, limit: int = 100) -> list[dict[str, Any]]:
        """What is in the outbox, the oldest first: how often it was tried, and why in vain."""
        outbox = self._dialect.quoted(self._outbox.table, "")
        sql = (
            "SELECT id, kafka_topic, kafka_key, create_time, attempts, last_error, not_before,"
            f" leader_id FROM {outbox} ORDER BY id LIMIT {{}}"
        )
        return [
            {
                "id": id,
                "msg": topic,
                "key": key,
                "createdAt": moment(created).isoformat(),
                "attempts": attempts,
                "lastError": last_error,
                "notBefore": None if not_before is None else moment(not_before).isoformat(),
                "isClaimed": token is not None,
            }
            for id, topic, key, created, attempts, last_error, not_before, token in self._select(
                sql, [limit]
            )
        ]

    def close(self) -> None:
        """Close all connections; nobody uses them any more."""
        with self._lock:
            for connection in self._all:
                with suppress(Exception):
                    connection.close()
            self._all.clear()

    def _select(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        connection = self._connection()
        with self._told(connection):
            rows = self._dialect.select(connection, sql, parameters)
            connection.rollback()  # or a snapshot would be kept until the thread's next request
            return rows

    def _connection(self) -> Any:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            with self._told():
                connection = self._local.connection = self._dialect.connect()
            with self._lock:
                self._all.append(connection)
        return connection

    def _commit(self, connection: Any) -> None:
        try:
            connection.commit()
        except self._dialect.errors as error:
            self._forget(connection)
            reason = self._dialect.say(error)
            # A lock that was not given is an answer; a connection that is gone is none.
            if self._dialect.is_refusal(error):
                raise NotWritten(reason) from None
            raise MaybeWritten(reason) from None

    @contextmanager
    def _told(self, connection: Any = None) -> Iterator[None]:
        """Tell what the driver says as our own error, without the address in it."""
        try:
            yield
        except self._dialect.errors as error:
            self._forget(connection)
            raise NotWritten(self._dialect.say(error)) from None
        except BaseException:
            self._forget(connection)
            raise

    def _forget(self, connection: Any) -> None:
        """Close it: what it had begun is rolled back, and the next request opens another."""
        if connection is None:
            return
        self._local.connection = None
        with self._lock:
            if connection in self._all:
                self._all.remove(connection)
        with suppress(Exception):
            connection.close()


def _record(hero: Hero) -> Record:
    headers = {"correlation-id": hero.correlation, MESSAGE_ID_HEADER: hero.message_id}
    return Record(HERO_CREATED, str(hero.id), json.dumps(hero.payload), headers)


def _hero(row: tuple[Any, ...]) -> Hero:
    id, name, team, created, correlation, message_id, via = row
    return Hero(id, name, team, moment(created), correlation, message_id, via)

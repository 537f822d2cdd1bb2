"""Where people look at an outbox and change it by hand: one transaction per act, written down."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from windrow.extras import require
from windrow.outbox.errors import Blocked, DatabaseFailed, WrongSchema
from windrow.outbox.queries import load_queries
from windrow.outbox.refusals import sqlstate_of
from windrow.outbox.stores.session import DURABLE_COMMIT, PLAN, Session
from windrow.outbox.table import Table, in_format

COMPANIONS = ("epoch", "lease", "hold", "dead", "audit")
LOCK_TIMEOUT = 5.0
ANSWER_TIMEOUT = 60.0
"""Longer than a relay waits: a key has no index, and its rows are looked for in all of them."""
LOCK_NOT_AVAILABLE = "55P03"

PLAIN_COLUMNS = (
    "create_time",
    "kafka_topic",
    "kafka_key",
    "kafka_value",
    "kafka_header_keys",
    "kafka_header_values",
)
ADDED_COLUMNS = ("kafka_value_bytes", "kafka_partition", "kafka_timestamp")
"""What a record is made of; the latter where the outbox has been migrated."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an act did, or would have done."""

    action: str
    subject: str
    changed: bool
    detail: str


class Act:
    """One transaction at the desk."""

    def __init__(
        self,
        run: Callable[[str, dict[str, Any]], Any],
        statement: Callable[[str], str],
        who: str,
    ) -> None:
        self._run, self._statement, self._who = run, statement, who

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement; returns what it gives."""
        cursor = self._run(self._statement(query), parameters)
        return list(cursor.fetchall()) if cursor.description else []

    def count(self, query: str, **parameters: Any) -> int:
        """Run a statement; returns how many rows it touched."""
        return int(self._run(self._statement(query), parameters).rowcount)

    def done(self, action: str, subject: str, detail: str) -> Outcome:
        """Write down that it was done."""
        self.rows("write_down", who=self._who, action=action, subject=subject, detail=detail)
        return Outcome(action, subject, True, detail)


class Desk:
    """A connection to the outbox's database, for people.

    Args:
        dsn: The database.
        table: The outbox.
        who: Whose name is written down, beside the database's own.
        connect_timeout: How long to wait for a connection.
        pooler: Whether a transaction pooler stands before the database.
    """

    def __init__(
        self,
        dsn: str,
        table: Table,
        *,
        who: str = "somebody",
        connect_timeout: float = 5.0,
        pooler: bool = False,
    ) -> None:
        self.table, self._who = table, who
        settings = PLAN | DURABLE_COMMIT | {"lock_timeout": f"{round(LOCK_TIMEOUT * 1000)}"}
        self._session = Session(
            dsn,
            settings,
            connect_timeout=connect_timeout,
            answer_timeout=ANSWER_TIMEOUT,
            pooler=pooler,
        )
        self._names: dict[str, str] = {}
        self._queries: dict[str, str] = {}
        self._load("desk.sql")

    def _load(self, file: str) -> None:
        self._queries |= load_queries("windrow.relay", file)

    def open(self, *files: str) -> Self:
        """Look at the outbox, and get the statements of these files ready.

        Raises:
            Unreachable: The database gives no answer.
            WrongSchema: There is no outbox, or it has not been migrated.
        """
        for file in files:
            self._load(file)
        names = {"outbox": self.table.sql}
        names |= {name: self.table.companion(f"_{name}") for name in COMPANIONS}
        ((has_outbox, has_hold),) = self._session.run(self._queries["is_present"], names).fetchall()
        if not has_outbox:
            raise WrongSchema(str(self.table), "does not exist", "windrow init")
        if not has_hold:
            raise WrongSchema(str(self.table), "has no companions beside it")
        present = {row[0] for row in self._session.run(self._queries["columns"], names)}
        self._names = _in_statements(names, present)
        return self

    def read(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Look, and change nothing."""
        return list(self._session.run(self._statement(query), parameters).fetchall())

    @contextlib.contextmanager
    def act(self, *, dry_run: bool = False) -> Iterator[Act]:
        """One transaction; on a dry run all of it is undone in the end.

        Raises:
            Blocked: Somebody holds the outbox and does not let go of it. Nothing was changed.
            DatabaseFailed: A statement or the commit failed.
        """
        try:
            with self._session.transaction() as run:
                yield Act(run, self._statement, self._who)
                if dry_run:
                    raise require("psycopg").Rollback
        except DatabaseFailed as error:
            if sqlstate_of(error) == LOCK_NOT_AVAILABLE:
                raise Blocked(str(self.table), LOCK_TIMEOUT, ()) from error
            raise

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _statement(self, query: str) -> str:
        return self._queries[query].format(**self._names)


def _in_statements(names: dict[str, str], present: set[str]) -> dict[str, str]:
    """What stands for what in a statement, for an outbox that has these columns."""
    fields = ", ".join((*PLAIN_COLUMNS, *(name for name in ADDED_COLUMNS if name in present)))
    pieces = {
        "fields": fields,
        "attempts": "attempts" if "attempts" in present else "0",
        "last_error": "last_error" if "last_error" in present else "NULL::text",
        "forget_attempts": "attempts = 0" if "attempts" in present else "leader_id = leader_id",
        "has_attempts": "attempts > 0" if "attempts" in present else "false",
    }
    return {name: in_format(text) for name, text in names.items()} | pieces

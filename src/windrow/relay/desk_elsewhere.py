"""Where people look at an outbox in MySQL or SQLite, and move its dead letters on.

Such an outbox is shared by competing relays: nobody leads, no key is held, and a letter goes back
whatever else there is of its key, since no order is promised. There is no table in which acts are
written down.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from windrow.config import Dsn
from windrow.outbox.claims.elsewhere import moment_of
from windrow.outbox.claims.session import ClaimSession, Run
from windrow.outbox.claims.sql import Statement
from windrow.outbox.dialects.names import MYSQL, Dialect
from windrow.outbox.dialects.schema import require_outbox
from windrow.outbox.table import Table
from windrow.relay.deadletters import Entry, Letter
from windrow.relay.desk import Outcome
from windrow.relay.status import COUNT_LIMIT, SAMPLE, TOP, Hot, Status

_FIELDS: Final = (
    "create_time, kafka_topic, kafka_key, kafka_value, kafka_value_bytes, kafka_header_keys,"
    " kafka_header_values, kafka_partition, kafka_timestamp"
)
"""What a letter takes back into the outbox."""


class DeskElsewhere:
    """A connection to such an outbox, for people.

    Args:
        dsn: The database.
        dialect: Which of the two it is.
        table: The outbox.
        connect_timeout: How long to wait for a connection.
        answer_timeout: How long to wait for an answer.
    """

    def __init__(
        self,
        dsn: Dsn,
        dialect: Dialect,
        table: Table,
        *,
        connect_timeout: float = 5.0,
        answer_timeout: float = 10.0,
    ) -> None:
        self._session = ClaimSession(dsn, dialect, connect_timeout, answer_timeout)
        self._dialect, self._table = dialect, table
        self._outbox = dialect.parametrised(table)
        self._dead = dialect.parametrised(table, "_dead")

    @property
    def system(self) -> str:
        """What the database is called."""
        return self._dialect.title

    def __enter__(self) -> Self:
        """Look at the schema.

        Raises:
            Unreachable: The database gives no answer.
            WrongSchema: There is no outbox, or it has not been migrated.
        """
        self._session.on_connection(
            lambda connection: require_outbox(connection, self._dialect, self._table)
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._session.close()

    # -- looking ---------------------------------------------------------------------------------

    def status(self, count_limit: int = COUNT_LIMIT) -> Status:
        """How it stands, by a few bounded statements."""
        backlog = self._count(f"SELECT 1 FROM {self._outbox} LIMIT {count_limit:d}")
        claimed = f"leader_id IS NOT NULL AND not_before > {self._dialect.now}"
        letters = f"SELECT buried_at FROM {self._dead} ORDER BY dead_id DESC LIMIT {count_limit:d}"
        ((dead, last_dead),) = self._read(
            f"SELECT COUNT(*), MAX(buried_at) FROM ({letters}) AS letters"
        )
        return Status(
            leaders=(),
            backlog=backlog,
            backlog_is_bounded=backlog >= count_limit,
            oldest_age=self._oldest_age(),
            in_flight=self._count(
                f"SELECT 1 FROM {self._outbox} WHERE {claimed} LIMIT {count_limit:d}"
            ),
            blocked=(),
            blocked_by_reason={},
            hottest=tuple(Hot(*row) for row in self._hottest()),
            dead_letters=dead,
            last_dead_letter=None if last_dead is None else moment_of(last_dead),
        )

    def _oldest_age(self) -> float | None:
        rows = self._read(
            f"SELECT create_time, {self._dialect.now} FROM {self._outbox} ORDER BY id LIMIT 1"
        )
        return (moment_of(rows[0][1]) - moment_of(rows[0][0])).total_seconds() if rows else None

    def _hottest(self) -> Sequence[tuple[Any, ...]]:
        head = f"SELECT kafka_key FROM {self._outbox} ORDER BY id LIMIT {SAMPLE:d}"
        return self._read(
            f"SELECT kafka_key, COUNT(*) FROM ({head}) AS head WHERE kafka_key IS NOT NULL"
            f" GROUP BY kafka_key ORDER BY COUNT(*) DESC, kafka_key LIMIT {TOP:d}"
        )

    def entries(self, *, key: str | None, topic: str | None, limit: int) -> list[Entry]:
        """The dead letters, the oldest first; no payloads."""
        tests = {"kafka_key": key, "kafka_topic": topic}
        given = {column: value for column, value in tests.items() if value is not None}
        where = " AND ".join(["1 = 1", *(f"{name} = {self._dialect.mark}" for name in given)])
        rows = self._read(
            f"SELECT dead_id, id, kafka_key, kafka_topic, attempts, last_error, buried_at"
            f" FROM {self._dead} WHERE {where} ORDER BY dead_id LIMIT {limit:d}",
            *given.values(),
        )
        return [
            Entry("dead", dead, record, key, topic, attempts, error, moment_of(since))
            for dead, record, key, topic, attempts, error, since in rows
        ]

    def letter(self, number: int) -> Letter | None:
        """A dead letter with all that is in it."""
        rows = self._read(
            f"SELECT dead_id, id, {_FIELDS}, attempts, last_error, buried_at"
            f" FROM {self._dead} WHERE dead_id = {self._dialect.mark}",
            number,
        )
        return self._letter(*rows[0]) if rows else None

    def _letter(
        self,
        dead: int,
        record: int,
        created: datetime | str,
        topic: str,
        key: str | None,
        text: str | None,
        data: bytes | None,
        names: str,
        values: str,
        partition: int | None,
        timestamp: datetime | str | None,
        attempts: int,
        error: str,
        buried_at: datetime | str,
    ) -> Letter:
        value = text.encode() if data is None and text is not None else data
        headers = tuple(zip(json.loads(names), json.loads(values), strict=False))
        moments = moment_of(created), moment_of(buried_at)
        return Letter(
            dead, record, moments[0], topic, key, value, headers, attempts, error, moments[1]
        )

    # -- acting ----------------------------------------------------------------------------------

    def retry_letter(self, number: int, *, dry_run: bool = False) -> Outcome:
        """Put one dead letter back, behind all that waits."""
        subject = f"dead letter {number}"

        def work(run: Run) -> Outcome:
            found = self._locked(run, number)
            if found is None:
                return Outcome("retry", subject, False, "there is none of that number")
            record, topic, _ = found
            what = f"record {record} of topic {topic}"
            if dry_run:
                return Outcome("retry", subject, True, what)
            of_it = f"WHERE dead_id = {self._dialect.mark}"
            back = f"INSERT INTO {self._outbox} ({_FIELDS}) SELECT {_FIELDS} FROM {self._dead}"
            run(Statement(f"{back} {of_it}", (number,)))
            last = "LAST_INSERT_ID()" if self._dialect is MYSQL else "last_insert_rowid()"
            ((new,),) = run(Statement(f"SELECT {last}"))
            run(Statement(f"DELETE FROM {self._dead} {of_it}", (number,)))
            return Outcome("retry", subject, True, f"{what}, now record {new}")

        return self._session.change(work)

    def discard_letter(self, number: int, *, dry_run: bool = False) -> Outcome:
        """Delete a dead letter for good."""
        subject = f"dead letter {number}"

        def work(run: Run) -> Outcome:
            found = self._locked(run, number)
            if found is None:
                return Outcome("discard", subject, False, "there is none of that number")
            if not dry_run:
                deletion = f"DELETE FROM {self._dead} WHERE dead_id = {self._dialect.mark}"
                run(Statement(deletion, (number,)))
            record, topic, key = found
            return Outcome(
                "discard", subject, True, f"record {record} of topic {topic}, key {key!r}"
            )

        return self._session.change(work)

    def _locked(self, run: Run, number: int) -> tuple[Any, ...] | None:
        """Record, topic and key of a letter that nobody else moves meanwhile."""
        rows = run(
            Statement(
                f"SELECT id, kafka_topic, kafka_key FROM {self._dead}"
                f" WHERE dead_id = {self._dialect.mark} {self._dialect.hold}",
                (number,),
            )
        )
        return rows[0] if rows else None

    def _read(self, sql: str, *parameters: object) -> Sequence[tuple[Any, ...]]:
        return self._session.read(Statement(sql, parameters))

    def _count(self, rows: str) -> int:
        return int(self._read(f"SELECT COUNT(*) FROM ({rows}) AS counted")[0][0])

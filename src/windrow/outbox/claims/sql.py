"""Which SQL claims rows of an outbox in MySQL or SQLite, and ends claims? Pure.

Both walk the index of what is due in two parts, as PostgreSQL does: rows that nobody has taken, by
id, and rows whose delay or lease has ended, by when it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from windrow.outbox.claims.contract import Burial, Retry, Suspects
from windrow.outbox.claims.reasons import storable
from windrow.outbox.dialects.names import MYSQL, Dialect
from windrow.outbox.table import Table

_KEPT = (
    "id, create_time, kafka_topic, kafka_key, kafka_value, kafka_value_bytes, kafka_header_keys,"
    " kafka_header_values, kafka_partition, kafka_timestamp"
)
"""What a dead letter takes over from its row as it is."""

FIELDS = (
    "id, kafka_topic, kafka_key, kafka_value, kafka_value_bytes, kafka_header_keys,"
    " kafka_header_values, create_time, attempts, leader_id"
)


class Statement(NamedTuple):
    """What to run, and with which parameters."""

    sql: str
    parameters: tuple[Any, ...] = ()


class ClaimStatements:
    """Every statement for one outbox."""

    def __init__(self, dialect: Dialect, table: Table) -> None:
        self.dialect = dialect
        self.outbox = dialect.parametrised(table)
        self.by_id = f"{self.outbox} {dialect.by_id}"
        self.dead = dialect.parametrised(table, "_dead")
        self.source = dialect.parametrised(table, "_source")

    def incarnation(self) -> Statement:
        """Which outbox it is."""
        return Statement(f"SELECT incarnation FROM {self.source} WHERE shard = 0")

    def next_topic(self, after: str) -> Statement:
        """The first topic after that one, by the index; no topic comes before the empty text."""
        sql = f"SELECT MIN(kafka_topic) FROM {self.outbox} WHERE kafka_topic > {self.dialect.mark}"
        return Statement(sql, (after,))

    def is_due(self, token: UUID, topics: Sequence[str], suspects: Suspects) -> Statement:
        """Whether there is a row to claim, of these topics or of any; locks nothing."""
        parts = [*self._untried("1", topics), self._again("1", token, topics, suspects)]
        if suspects.limit:
            parts.append(self._suspects("1", token, topics, suspects))
        tests = " OR ".join(f"EXISTS ({part.sql})" for part in parts)
        return Statement(f"SELECT {tests}", tuple(v for part in parts for v in part.parameters))

    def due(
        self, limit: int, token: UUID, topics: Sequence[str], suspects: Suspects
    ) -> list[Statement]:
        """Read the first of each part, and lock them where rows can be locked."""
        again = self._again(FIELDS, token, topics, suspects), "not_before, id", limit
        parts = [(part, "id", limit) for part in self._untried(FIELDS, topics)]
        if suspects.limit:
            suspected = self._suspects(FIELDS, token, topics, suspects)
            parts.append((suspected, "not_before, id", suspects.limit))
        return [
            Statement(f"{sql} ORDER BY {order} LIMIT {most:d} {self.dialect.lock}", parameters)
            for (sql, parameters), order, most in [*parts, again]
        ]

    def _untried(self, fields: str, topics: Sequence[str]) -> list[Statement]:
        """Rows that nobody has taken; the head of each topic, so that no other is walked over."""
        test = "not_before IS NULL AND leader_id IS NULL"
        if not topics:
            return [
                Statement(f"SELECT {fields} FROM {self.outbox} {self.dialect.by_due} WHERE {test}")
            ]
        head = f"SELECT {fields} FROM {self.outbox} {self.dialect.by_topic}"
        sql = f"{head} WHERE kafka_topic = {self.dialect.mark} AND {test}"
        return [Statement(sql, (topic,)) for topic in topics]

    def _again(
        self, fields: str, token: UUID, topics: Sequence[str], suspects: Suspects
    ) -> Statement:
        """Rows whose delay or lease has ended, but for suspects."""
        mark = self.dialect.mark
        test = f"(leader_id IS NULL OR leader_id = {mark} OR attempts + 1 < {mark})"
        return self._over(fields, test, (str(token), suspects.attempts), topics)

    def _suspects(
        self, fields: str, token: UUID, topics: Sequence[str], suspects: Suspects
    ) -> Statement:
        """Orphans with many counted tries."""
        test = f"leader_id <> {self.dialect.mark} AND attempts + 1 >= {self.dialect.mark}"
        return self._over(fields, test, (str(token), suspects.attempts), topics)

    def _over(
        self, fields: str, test: str, parameters: tuple[Any, ...], topics: Sequence[str]
    ) -> Statement:
        """Rows whose delay or lease has ended, and which pass a test."""
        sql = (
            f"SELECT {fields} FROM {self.outbox} {self.dialect.by_due}"
            f" WHERE not_before <= {self.dialect.now} AND {test}"
        )
        if topics:
            sql += f" AND kafka_topic IN ({self.dialect.marks(topics)})"
        return Statement(sql, (*parameters, *topics))

    def take(self, token: UUID, ids: Sequence[int], lease: float) -> Statement:
        """Lease these rows, which are locked; for orphans the try that nobody ended counts."""
        mark = self.dialect.mark
        return Statement(
            # The attempts first: MySQL would compare with the new holder.
            f"UPDATE {self.by_id}"
            f" SET attempts = attempts + CASE WHEN leader_id <> {mark} THEN 1 ELSE 0 END,"
            f" leader_id = {mark}, not_before = {self.dialect.later}"
            f" WHERE id IN ({self.dialect.marks(ids)})",
            (str(token), str(token), self.dialect.delay(lease), *ids),
        )

    def ours(self, token: UUID, ids: Sequence[int]) -> Statement:
        """Which of these are still claimed by that token; they are locked."""
        return Statement(
            f"SELECT id FROM {self.by_id} WHERE id IN ({self.dialect.marks(ids)})"
            f" AND leader_id = {self.dialect.mark} {self.dialect.hold}",
            (*ids, str(token)),
        )

    def purge(self, ids: Sequence[int]) -> Statement:
        """Remove rows, which are locked."""
        # The form for several tables: that for one takes no index from us.
        several = f"{self.outbox} FROM {self.by_id}"
        rows = several if self.dialect is MYSQL else f"FROM {self.outbox}"
        return Statement(f"DELETE {rows} WHERE id IN ({self.dialect.marks(ids)})", tuple(ids))

    def renew(self, ids: Sequence[int], lease: float) -> Statement:
        """Hold locked rows for longer."""
        return Statement(
            f"UPDATE {self.by_id} SET not_before = {self.dialect.later}"
            f" WHERE id IN ({self.dialect.marks(ids)})",
            (self.dialect.delay(lease), *ids),
        )

    def release(self, token: UUID, ids: Sequence[int]) -> Statement:
        """Give rows back."""
        return Statement(
            f"UPDATE {self.by_id} SET leader_id = NULL, not_before = NULL"
            f" WHERE id IN ({self.dialect.marks(ids)}) AND leader_id = {self.dialect.mark}",
            (*ids, str(token)),
        )

    def retry(self, retry: Retry) -> Statement:
        """Give a locked row back for the end of its delay."""
        mark = self.dialect.mark
        return Statement(
            f"UPDATE {self.by_id} SET leader_id = NULL, not_before = {self.dialect.later},"
            f" attempts = attempts + {mark}, last_error = {mark} WHERE id = {mark}",
            (self.dialect.delay(retry.delay), int(retry.counts), storable(retry.reason), retry.id),
        )

    def bury(self, burial: Burial) -> Statement:
        """Copy a locked row to the dead letters; a try that ended it counts."""
        mark = self.dialect.mark
        return Statement(
            f"INSERT INTO {self.dead} ({_KEPT}, attempts, last_error)"
            f" SELECT {_KEPT}, attempts + {mark}, {mark} FROM {self.by_id} WHERE id = {mark}",
            (int(burial.counts), storable(burial.reason), burial.id),
        )

    def end(
        self,
        ours: set[int],
        delivered: Iterable[int],
        retries: Iterable[Retry],
        burials: Iterable[Burial],
    ) -> list[Statement]:
        """End the claims that are still ours."""
        buried = [burial for burial in burials if burial.id in ours]
        gone = [row for row in delivered if row in ours] + [burial.id for burial in buried]
        return [
            *(self.bury(burial) for burial in buried),
            *(self.retry(retry) for retry in retries if retry.id in ours),
            *([self.purge(gone)] if gone else []),
        ]

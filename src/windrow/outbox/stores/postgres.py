"""The relay's side of an outbox in PostgreSQL: mark or diff, purge, reset, and the fence.

Two connections at the least, one to read and one to purge, so that neither waits for the other; a
``Session`` is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID

from windrow.outbox.errors import DatabaseFailed, Fenced, SharedByOthers, WrongSchema
from windrow.outbox.marked import Marked, as_marked
from windrow.outbox.stores.ranges import as_multirange
from windrow.outbox.stores.session import (
    ANSWER_TIMEOUT,
    DURABLE_COMMIT,
    LAZY_COMMIT,
    PLAN,
    Session,
)
from windrow.outbox.stores.statements import (
    QUERIES,
    build_statements,
    exclusion,
    unshare_statement,
)
from windrow.outbox.table import WINDROW, Columns, Table, found, in_format, quote


class PostgresStore:
    """An outbox table as one leader uses it.

    ``mark`` belongs to the reading thread, ``purge`` and ``reset`` to the purging one: each has a
    session of its own.
    """

    def __init__(
        self,
        dsn: str,
        table: Table,
        *,
        columns: Columns = WINDROW,
        reader: Literal["mark", "diff"] = "mark",
        durable_marks: bool = False,
        pooler: bool = False,
        connect_timeout: float = 5.0,
        answer_timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        self.table = table
        self._reader = reader
        self._columns = columns
        self._taken: set[int] = set()
        # Marks that a crash of the server undoes do no harm to a leader whose connection breaks
        # with it: it begins anew. A pooler hides the crash, so behind one they have to last.
        marks = DURABLE_COMMIT if durable_marks or pooler else LAZY_COMMIT
        self._new_session = partial(
            Session,
            dsn,
            connect_timeout=connect_timeout,
            answer_timeout=answer_timeout,
            pooler=pooler,
        )
        self._reading = self._new_session(PLAN | marks)
        self._purging = self._new_session(PLAN | DURABLE_COMMIT)
        self._queries: dict[str, str] = {}
        self._sharded_queries: dict[str, str] = {}
        self._unsharded_queries: dict[str, str] = {}
        self._mine = ""
        self._plan: dict[str, int] = {}
        self.shard, self.epoch = 0, 0
        self._granted_epoch = 0
        self._epoch_in_doubt = False

    def open(self) -> None:
        """Look at the table once and build the statements that fit it.

        Raises:
            Unreachable: The database gives no answer.
            WrongSchema: The table or its companions are missing.
            SharedByOthers: Competing relays share it; see ``windrow.outbox.claims.postgres``.
        """
        names = {"outbox": self.table.sql, "epoch": self.table.companion("_epoch")}
        is_present = self._purging.run(QUERIES["is_present"], names).fetchone()
        if is_present is None or not is_present[0]:
            raise WrongSchema(str(self.table), "does not exist", "windrow init")
        if not is_present[1]:
            raise WrongSchema(str(self.table), "has no fence beside it")
        if not is_present[2]:
            raise WrongSchema(str(self.table), "has a fence that knows of no shards")
        present = frozenset(row[0] for row in self._purging.run(QUERIES["columns"], names))
        self._columns = found(self._columns, present)
        missing = self._columns.used - present
        if missing:
            raise WrongSchema(str(self.table), f"has no column {quote(min(missing))}")
        self._unsharded_queries = build_statements(self.table, self._columns)
        self._sharded_queries = build_statements(self.table, self._columns, is_sharded=True)
        self._queries = self._unsharded_queries
        self._refuse_if_shared()
        self._exclusion = exclusion(self._columns)
        self._id = in_format(quote(self._columns.id))

    def _refuse_if_shared(self) -> None:
        if self._purging.run(self._queries["is_shared"], {}).fetchone() == (True,):
            raise SharedByOthers(str(self.table), unshare_statement(self.table))

    # -- the fence -------------------------------------------------------------------------------

    def raise_epoch(self, name: str, shard: int = 0) -> int:
        """Fence whoever led this shard before; returns the epoch that now holds."""
        row = self._purging.run(
            self._queries["raise_epoch"], {"shard": shard, "name": name}
        ).fetchone()
        if row is None:
            raise WrongSchema(str(self.table), f"has no fence for shard {shard}")
        epoch: int = row[0]
        self.enter_epoch(epoch, shard)
        return epoch

    def enter_epoch(
        self, epoch: int, shard: int = 0, *, shards: int = 1, generation: int = 1
    ) -> None:
        """Read and reset under this epoch from now on, with nothing taken yet.

        Of several shards only the rows of this one are read; a leader of the only shard pays
        nothing for the question.
        """
        self._taken.clear()
        is_sharded = shards > 1
        self._queries = self._sharded_queries if is_sharded else self._unsharded_queries
        self._mine = f"AND {self._queries['mine']} " if is_sharded else ""
        self._plan = {"shards": shards, "generation": generation} if is_sharded else {}
        if (shard, epoch) != (self.shard, self._granted_epoch):
            # Otherwise it is still this leadership's, and may have been renewed since.
            self.shard, self._granted_epoch = shard, epoch
            self.epoch, self._epoch_in_doubt = epoch, False

    def _renew_epoch(self) -> None:
        """Shut out our own statements of unknown outcome, which may still be on their way.

        A mark that was held up on the link and lands among later ones would take their rows away,
        and they would be read a second time, behind themselves.

        Raises:
            Fenced: A later leader has raised the epoch, or this was done and the answer got lost.
            DatabaseFailed: It may have been done, or not.
        """
        with self._reading.transaction() as run:
            run("SET LOCAL synchronous_commit = on", {})
            row = run(self._queries["renew_epoch"], self._fence()).fetchone()
        if row is None:
            raise Fenced(str(self.table), self.epoch)
        self.epoch, self._epoch_in_doubt = row[0], False

    def check_fence(self) -> None:
        """See that this leader's epoch still holds.

        Raises:
            Fenced: A later leader has raised it.
        """
        row = self._reading.run(self._queries["read_epoch"], {"shard": self.shard}).fetchone()
        if row is None or row[0] != self.epoch:
            raise Fenced(str(self.table), self.epoch)

    # -- rows ------------------------------------------------------------------------------------

    def read(self, leader: UUID, limit: int, excluded_keys: Sequence[str] = ()) -> list[Marked]:
        """The earliest visible rows that this leader has not taken yet, in id order.

        Raises:
            Fenced: After a failure it was found that a later leader has raised the epoch.
            DatabaseFailed: Rows may have been marked, or not.
        """
        if self._epoch_in_doubt:
            self._renew_epoch()
        parameters = self._fence() | {"limit": limit, "leader": leader}
        filters = self._mine
        if excluded_keys:
            filters += self._exclusion
            parameters["excluded"] = list(excluded_keys)
        if self._reader == "diff":
            parameters["taken"] = as_multirange(self._taken)
        query = self._queries[self._reader].replace("{filters}", filters)
        try:
            rows = self._reading.run(query, parameters).fetchall()
        except DatabaseFailed:
            self._epoch_in_doubt = True
            raise
        rows.sort()
        if self._reader == "diff":
            self._taken.update(row[0] for row in rows)
        return as_marked(rows)

    def purge(self, ids: Sequence[int]) -> int:
        """Delete acknowledged rows, durably; returns how many were still there."""
        count = self._purging.run_with_ids(self._queries["purge"], ids)
        self._taken.difference_update(ids)
        return count

    def reset(self, ids: Sequence[int]) -> int:
        """Give rows back for a later mark; a fenced leader gives nothing back."""
        count = self._fenced("reset", {"ids": ids})
        self._taken.difference_update(ids)
        return count

    def hold(self, key: str, ids: Sequence[int], reason: str, note: str) -> None:
        """Keep a key out of every read until a person decides, and give its rows back."""
        self._fenced("hold", {"key": key, "ids": ids, "reason": reason, "note": note})
        self._taken.difference_update(ids)

    def bury(self, ids: Sequence[int], attempts: int, error: str) -> None:
        """Move records to the dead letters."""
        self._fenced("bury", {"ids": ids, "attempts": attempts, "error": error})
        self._taken.difference_update(ids)

    def bury_lanes(self) -> int:
        """Move what has arrived for buried keys to the dead letters; returns how many."""
        return self._purging.run(self._queries["bury_lanes"], self._fence()).rowcount

    def note(self, record: int, attempts: int, error: str) -> None:
        """Write down that a record has failed, where the table has room for it."""
        if self._columns.attempts and self._columns.last_error:
            parameters = {"id": record, "attempts": attempts, "error": error}
            self._purging.run(self._queries["note"], parameters)

    def _fence(self) -> dict[str, Any]:
        return {"shard": self.shard, "epoch": self.epoch, **self._plan}

    def _fenced(self, query: str, parameters: dict[str, Any]) -> int:
        try:
            return self._purging.run(self._queries[query], parameters | self._fence()).rowcount
        except DatabaseFailed:
            self._epoch_in_doubt = True
            raise

    def forget(self, ids: Sequence[int]) -> None:
        """These rows are no longer held in memory: the diff reader may return them again."""
        self._taken.difference_update(ids)

    def identity(self) -> str:
        """A name that no other outbox has, whatever it is called and wherever it lies."""
        row = self._purging.run(self._queries["identity"], {"outbox": self.table.sql}).fetchone()
        return "-".join(f"{int(part):x}" for part in row or ())

    def backlog(self, limit: int = 100_000) -> tuple[int, float]:
        """How many rows wait (counted up to ``limit``), and how long the first has waited."""
        row = self._purging.run(self._queries["backlog"], {"limit": limit}).fetchone()
        return (int(row[0]), float(row[1] or 0.0)) if row else (0, 0.0)

    def interrupt(self) -> None:
        """Break whatever statement is under way, from any thread."""
        self._reading.interrupt()
        self._purging.interrupt()

    def close(self) -> None:
        """Close both connections."""
        self._reading.close()
        self._purging.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

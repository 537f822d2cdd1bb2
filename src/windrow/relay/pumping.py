"""Write a load into an outbox: one connection per worker, each with keys of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from windrow.config import Dsn, redact
from windrow.errors import Unreachable
from windrow.extras import require
from windrow.outbox import Outbox, Table
from windrow.outbox.errors import DatabaseFailed, PostgresOnly
from windrow.relay.load import Load, Transaction, transactions

if TYPE_CHECKING:
    import psycopg

QUEUED = 8
"""Transactions that wait for one worker: enough to keep it busy."""


class Book(Protocol):
    """Where the writer keeps account of what it commits, such as a ledger."""

    def maybe(self, records: Iterable[tuple[str, int]]) -> None:
        """These are about to be committed."""

    def written(self, records: Iterable[tuple[str, int]]) -> None:
        """These were committed."""


@dataclass
class Progress:
    """How far a run has come."""

    written: int = 0
    rolled_back: int = 0
    commits: int = 0


class Pump:
    """Writes one load, from ``run`` to its end.

    Args:
        dsn: The database.
        table: The outbox.
        load: What to write.
        rate: Records a second; None for as fast as it goes.
        book: Where commits are written down.
        connect_timeout: How long to wait for a connection.
    """

    def __init__(
        self,
        dsn: Dsn,
        table: Table,
        load: Load,
        *,
        rate: float | None = None,
        book: Book | None = None,
        connect_timeout: float = 5.0,
    ) -> None:
        self._dsn, self._load, self._rate, self._book = dsn, load, rate, book
        self._outbox = Outbox(table)
        self._connect_timeout = connect_timeout
        self._progress = Progress()
        self._counting = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None

    @property
    def progress(self) -> Progress:
        """How far it has come, at this moment."""
        with self._counting:
            return Progress(**vars(self._progress))

    def run(self, on_progress: Callable[[Progress], None] = lambda progress: None) -> Progress:
        """Write it all; returns what was written.

        Args:
            on_progress: Told now and then how far it has come.

        Raises:
            Unreachable: The database gives no answer.
            WrongSchema: There is no outbox, or it lacks a column.
            DatabaseFailed: A commit failed; its records may have been written.
        """
        queues: list[queue.Queue[Transaction | None]] = [
            queue.Queue(QUEUED) for _ in range(self._load.workers)
        ]
        threads = [
            threading.Thread(target=self._guarded, args=(todo,), name="windrow-pump", daemon=True)
            for todo in queues
        ]
        for thread in threads:
            thread.start()
        try:
            self._feed(queues, on_progress)
        finally:
            self._finish(queues, threads)
        if self._error is not None:
            raise self._error
        on_progress(self.progress)
        return self.progress

    # -- the one who deals out -------------------------------------------------------------------

    def _feed(
        self,
        queues: list[queue.Queue[Transaction | None]],
        on_progress: Callable[[Progress], None],
    ) -> None:
        began, dealt = time.monotonic(), 0
        for transaction in transactions(self._load):
            if self._rate is not None:
                self._ended.wait(max(0.0, began + dealt / self._rate - time.monotonic()))
            if not self._put(queues[transaction.worker], transaction):
                return
            dealt += len(transaction.records)
            on_progress(self.progress)

    def _put(self, todo: queue.Queue[Transaction | None], transaction: Transaction | None) -> bool:
        while not self._ended.is_set():
            try:
                todo.put(transaction, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _finish(
        self, queues: list[queue.Queue[Transaction | None]], threads: list[threading.Thread]
    ) -> None:
        for todo in queues:
            self._put(todo, None)
        for thread in threads:
            thread.join()

    # -- the workers -----------------------------------------------------------------------------

    def _guarded(self, todo: queue.Queue[Transaction | None]) -> None:
        try:
            self._work(todo)
        except BaseException as error:
            self._error = self._error or error
            self._ended.set()

    def _work(self, todo: queue.Queue[Transaction | None]) -> None:
        driver: Any = require("psycopg")
        with self._connect(driver) as connection:
            while not self._ended.is_set():
                try:
                    transaction = todo.get(timeout=0.1)
                except queue.Empty:
                    continue
                if transaction is None:
                    return
                try:
                    self._write(connection, transaction)
                except driver.Error as error:
                    raise DatabaseFailed(self._line(error)) from error

    def _connect(self, driver: Any) -> psycopg.Connection[Any]:
        if self._dsn.system != "postgresql":
            raise PostgresOnly("made-up load", self._dsn.system)
        try:
            connection: psycopg.Connection[Any] = driver.connect(
                self._dsn.reveal(), connect_timeout=max(1, round(self._connect_timeout))
            )
        except driver.Error as error:
            problem = Unreachable("PostgreSQL", self._dsn.address, self._line(error))
        else:
            return connection
        # Raised out here so that the driver's error, which may quote the password, is no context.
        raise problem

    def _line(self, error: Exception) -> str:
        return redact(self._dsn.hide_in(str(error).partition("\n")[0].strip()))

    def _write(self, connection: psycopg.Connection[Any], transaction: Transaction) -> None:
        self._outbox.stash_many(connection, [record for _, record in transaction.records])
        if transaction.rolls_back:
            connection.rollback()
            self._count(Progress(rolled_back=len(transaction.records)))
            return
        self._note("maybe", transaction)
        connection.commit()
        self._note("written", transaction)
        self._count(Progress(written=len(transaction.records), commits=1))

    def _note(self, what: Literal["maybe", "written"], transaction: Transaction) -> None:
        if self._book is not None:
            with self._counting:  # one line after the other
                getattr(self._book, what)(transaction.arrivals)

    def _count(self, more: Progress) -> None:
        with self._counting:
            self._progress.written += more.written
            self._progress.rolled_back += more.rolled_back
            self._progress.commits += more.commits

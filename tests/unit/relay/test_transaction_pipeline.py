"""The shell of transactional mode: what it reads ahead and prepares, and when that is void."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from tests.unit.relay.scripted import POISON, wait_for
from windrow.outbox.errors import DatabaseFailed, Fenced
from windrow.outbox.marked import Marked
from windrow.relay.batch_machine import (
    BatchMachine,
    BatchName,
    Committed,
    CommitUnknown,
    ReadBack,
    Rejected,
)
from windrow.relay.transaction_pipeline import TransactionPipeline

Outcome = Committed | Rejected | CommitUnknown


class BatchTable:
    """An outbox whose rows carry names; a test can act before each of its marks."""

    def __init__(self, *keys: str) -> None:
        self.rows: dict[int, Marked] = {}
        for number, key in enumerate(keys, 1):
            self.add(number, key)
        self.held: set[str] = set()
        self.failures: deque[Exception] = deque()
        self.is_fenced = False
        self.looked_beside: list[list[int]] = []
        self.before_mark: Callable[[Sequence[int]], None] = lambda ahead: None
        self._names: dict[int, UUID] = {}

    def add(self, number: int, key: str) -> None:
        self.rows[number] = Marked(number, "topic", key, b"", None, None)

    def purge_and_mark(
        self,
        committed: tuple[UUID, int] | None,
        ids: Sequence[int],
        next_batch: UUID | None,
        limit: int,
        ahead: Sequence[Marked] = (),
    ) -> Sequence[Marked]:
        self.before_mark([row.id for row in ahead])
        if self.failures:
            raise self.failures.popleft()
        if committed is not None:
            purged = [n for n in self.rows if self._names.get(n) == committed[0]]
            assert len(purged) in (0, committed[1])
            for number in purged:
                del self.rows[number]
        if next_batch is None:
            return ()
        is_whole = ahead and all(row.id in self.rows for row in ahead)
        named = ahead if is_whole else self.look_ahead((), limit)
        self._names |= {row.id: next_batch for row in named}
        return named

    def look_ahead(self, beside: Sequence[int], limit: int) -> list[Marked]:
        free = [row for _, row in sorted(self.rows.items()) if row.key not in self.held]
        found = [row for row in free if row.id not in beside][:limit]
        self.looked_beside.append(list(beside))
        return found

    def check_fence(self) -> None:
        if self.is_fenced:
            raise Fenced("outbox", 1)

    def named_rows(self) -> tuple[int, int | None]:
        return 0, None

    def hold(self, key: str, ids: Sequence[int], reason: str, note: str) -> None:
        self.held.add(key)

    def bury(self, ids: Sequence[int], attempts: int, error: str) -> None:
        raise AssertionError("nothing is buried here")

    def bury_lanes(self) -> int:
        return 0

    def note(self, record: int, attempts: int, error: str) -> None:
        pass

    def interrupt(self) -> None:
        pass


class BatchLog:
    """A target with one transaction at a time; a test can say how a batch with rows ends.

    As with Kafka, a batch that was prepared is committed as it was prepared.
    """

    state_topic = "state"

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.prepared: tuple[BatchName, Sequence[Marked]] | None = None
        self.was_prepared: list[list[int]] = []
        self.fences = 0
        self.outcome_of: Callable[[Sequence[Marked]], Outcome] = lambda rows: Committed()
        self._last: BatchName | None = None

    def fence(self) -> CommitUnknown | None:
        self.fences += 1
        self.prepared = None
        return None

    def read_back(self) -> ReadBack | CommitUnknown:
        return ReadBack(self._last)

    def prepare(self, batch: BatchName, rows: Sequence[Marked]) -> None:
        assert self.prepared is None, "two transactions are open"
        self.prepared = batch, rows
        self.was_prepared.append([row.id for row in rows])

    def discard(self) -> None:
        self.prepared = None

    def publish(self, batch: BatchName, rows: Sequence[Marked]) -> Outcome:
        if self.prepared is not None:
            name, rows = self.prepared
            assert name == batch, "another batch is prepared"
        self.prepared = None
        outcome = self.outcome_of(rows) if rows else Committed()
        if isinstance(outcome, Committed):
            self.sent += [row.id for row in rows]
            self._last = batch
        return outcome


@contextmanager
def relaying(table: BatchTable, log: BatchLog, machine: BatchMachine) -> Iterator[None]:
    """A pipeline with batches of two rows; what ended it is raised."""
    pipeline = TransactionPipeline(table, log, machine, batch_size=2)
    pipeline.start()
    yield
    assert pipeline.stop(10.0)
    if pipeline.error is not None:
        raise pipeline.error


def test_the_next_batch_is_read_and_prepared_while_one_is_under_way() -> None:
    table, log = BatchTable(*"abcdef"), BatchLog()
    with relaying(table, log, BatchMachine()):
        wait_for(lambda: not table.rows, "all are purged")
    assert log.sent == [1, 2, 3, 4, 5, 6]
    assert log.was_prepared == [[3, 4], [5, 6]]
    assert log.prepared is None


def test_what_was_prepared_is_undone_if_the_database_names_other_rows() -> None:
    """After it was read ahead a row was taken away by hand, and two others committed late."""
    table, log = BatchTable(*"abcdef"), BatchLog()

    def change(ahead: Sequence[int]) -> None:
        if 4 in ahead:
            wait_for(lambda: [1, 2, 3, 4] in table.looked_beside, "what comes after is read too")
            del table.rows[4]
            table.add(-1, "late")
            table.add(0, "late")

    table.before_mark = change
    with relaying(table, log, BatchMachine()):
        wait_for(lambda: not table.rows, "all are purged")
    assert log.was_prepared[0] == [3, 4]
    assert log.sent == [1, 2, -1, 0, 3, 5, 6]


def test_what_was_prepared_is_undone_if_the_mark_fails() -> None:
    """An outage of the database would hold up whoever reads committed records."""
    table, log = BatchTable(*"abcd"), BatchLog()
    outages, open_at_the_next = deque([True]), list[bool]()

    def fail_once(ahead: Sequence[int]) -> None:
        if ahead and outages:
            table.failures.append(DatabaseFailed("simulated"))
            outages.pop()
        elif not outages:
            open_at_the_next.append(log.prepared is not None)

    table.before_mark = fail_once
    with relaying(table, log, BatchMachine()):
        wait_for(lambda: not table.rows, "all are purged")
    assert log.was_prepared == [[3, 4]]
    assert open_at_the_next[0] is False
    assert log.sent == [1, 2, 3, 4]


def test_what_was_read_ahead_is_void_when_the_batch_before_it_was_refused() -> None:
    """Its rows come again, and would be overtaken by those that were read after them."""
    table, log = BatchTable(*"abbbcc"), BatchLog()
    refusals = deque([True])

    def refuse_the_first(rows: Sequence[Marked]) -> Outcome:
        return Rejected([(rows[0], POISON)]) if refusals and refusals.popleft() else Committed()

    log.outcome_of = refuse_the_first
    with relaying(table, log, BatchMachine()):
        wait_for(lambda: list(table.rows) == [1], "all but the refused one are purged")
    assert table.held == {"a"}
    assert log.sent == [2, 3, 4, 5, 6]


def test_a_stop_undoes_what_was_prepared() -> None:
    """An open transaction would hold up whoever reads committed records."""
    table, log, machine = BatchTable(*"abcd"), BatchLog(), BatchMachine()
    is_prepared, may_mark = threading.Event(), threading.Event()

    def wait_to_be_told(ahead: Sequence[int]) -> None:
        if ahead:
            is_prepared.set()
            assert may_mark.wait(10.0)

    table.before_mark = wait_to_be_told
    with relaying(table, log, machine):
        assert is_prepared.wait(10.0)
        wait_for(lambda: log.prepared is not None, "the next batch is prepared")
        machine.request_stop()
        may_mark.set()
    assert log.prepared is None
    assert log.sent == [1, 2]
    assert list(table.rows) == [3, 4]


def test_a_leader_that_was_replaced_while_it_slept_does_not_shut_out_its_successor() -> None:
    table, log = BatchTable("a"), BatchLog()
    table.is_fenced = True
    pipeline = TransactionPipeline(table, log, BatchMachine())
    pipeline.start()
    wait_for(lambda: pipeline.error is not None, "it ends")
    pipeline.abandon()
    assert isinstance(pipeline.error, Fenced)
    assert log.fences == 0

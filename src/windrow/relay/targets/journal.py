"""A journal as a target: a batch and its name in one append.

The journal's registers hold who owns this relay's name there, and the batch that it appended last.
Each append checks both and moves the second, so a batch is there as a whole or not at all, and
once. To fence is to write: an append of the former leader that is still on its way lands before the
hand-over, and is then found by reading back, or is refused for ever.

One relay, or one shard of it, writes to one journal, since a batch has to be one append. The topic
travels with each record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from windrow.errors import OutcomeUnknown, UsageError, WindrowError
from windrow.extras import require
from windrow.outbox.marked import Marked
from windrow.points import pass_by
from windrow.relay.batch_machine import BatchName, Committed, CommitUnknown, ReadBack, Rejected
from windrow.relay.errors import JournalUnusable, LeaderFencedByTarget
from windrow.relay.failure import Failure, FailureKind
from windrow.relay.targets.message import Malformed, headers_of

if TYPE_CHECKING:
    from windrow.journal.client.sequence import Batch
    from windrow.journal.client.sequenced import OwnedWriter
    from windrow.journal.client.sync import SyncJournalClient
    from windrow.journal.message.record import Record

T = TypeVar("T")


class JournalTarget:
    """Publishes named batches, all or nothing, under one name in a journal's registers."""

    def __init__(
        self,
        connect: Callable[[], SyncJournalClient],
        journal: str,
        *,
        operation_timeout: float = 20.0,
    ) -> None:
        self._connect, self._journal = connect, journal
        self._operation_timeout = operation_timeout
        self._client: SyncJournalClient | None = None
        self._writer: OwnedWriter | None = None
        self._last: Batch | None = None
        self._name = "windrow"
        self._epoch = 0
        self.state_topic = f"the registers of journal {journal!r}"

    def open(self) -> None:
        """Connect, and see that the journal can be trusted with the names of batches.

        Raises:
            JournalUnusable: It does not exist, or is not labelled as sequenced.
            Unreachable: The brokers gave no answer.
        """
        require("grpc")
        from windrow.journal.spec import SEQUENCED_LABEL

        self._client = self._connect()
        found = self._client.list(f"name={self._journal}").journals
        if not found:
            raise JournalUnusable(self._journal, "it does not exist")
        if found[0].spec.labels.value(SEQUENCED_LABEL) is None:
            raise JournalUnusable(self._journal, f"it has no label {SEQUENCED_LABEL}")

    def identify(self, outbox: str, shard: int = 0) -> None:
        """Go by the name of an outbox and of its shard from now on."""
        self._name = f"{outbox}-{shard}"

    def enter(self, generation: int, epoch: int) -> None:
        """Lead under this epoch: the journal knows by it which of two leaders is the later one.

        Shards count their epochs for themselves, so a new generation comes before them all.
        """
        self._epoch = generation << 40 | epoch

    # -- the fence, and reading back -------------------------------------------------------------

    def fence(self) -> CommitUnknown | None:
        """Take the name over from whoever had it; None if that went well."""
        from windrow.journal.client.sequenced import OwnedWriter

        client = self._client = self._client or self._connect()
        self._writer = OwnedWriter(client.client, self._journal, self._name)
        # By a new name each time: what an earlier self of ours has on its way is fenced, too.
        owner = uuid4().hex
        outcome = self._run(self._writer.take_ownership(owner, self._epoch))
        if isinstance(outcome, CommitUnknown):
            return outcome
        self._last = outcome
        return None

    def read_back(self) -> ReadBack | CommitUnknown:
        """The batch that was committed last: taking over has found it."""
        last = self._last
        return ReadBack(None if last is None else BatchName(UUID(last.id), last.count))

    # -- publishing ------------------------------------------------------------------------------

    def prepare(self, batch: BatchName, rows: Sequence[Marked]) -> None:
        """Nothing: an append is one piece."""

    def discard(self) -> None:
        """Nothing is ever prepared."""

    def publish(
        self, batch: BatchName, rows: Sequence[Marked]
    ) -> Committed | Rejected | CommitUnknown:
        """Append the rows and the batch's name, all or nothing."""
        assert self._writer is not None
        records, refused = self._records(rows)
        if refused:
            return Rejected(refused)
        pass_by("relay.batch-produced")
        outcome = self._run(self._writer.append_batch(str(batch.uuid), records))
        return outcome if isinstance(outcome, CommitUnknown) else Committed()

    def _records(self, rows: Sequence[Marked]) -> tuple[list[Record], list[tuple[Marked, Failure]]]:
        now = time.time_ns() // 1000
        records, refused = [], []
        for row in rows:
            try:
                records.append(record_of(row, self._name, now))
            except Malformed as error:
                refused.append((row, Failure(FailureKind.PERMANENT, "malformed", str(error))))
        return records, refused

    def _run(self, work: Coroutine[Any, Any, T]) -> T | CommitUnknown:
        """Do the work in bounded time; what is left open by then is to be read back."""
        from windrow.journal.client.errors import WriterFenced

        assert self._client is not None
        try:
            return self._client.thread.run(asyncio.wait_for(work, self._operation_timeout))
        except TimeoutError:
            text = f"no answer within {self._operation_timeout:g} s"
            return CommitUnknown(Failure(FailureKind.TARGET_DOWN, "timeout", text))
        except WriterFenced as error:
            raise LeaderFencedByTarget(self._name) from error
        except UsageError:
            raise
        except (OutcomeUnknown, WindrowError) as error:
            return CommitUnknown(Failure(FailureKind.TARGET_DOWN, type(error).__name__, str(error)))

    def close(self) -> None:
        """Let go of the brokers; what is on its way is the next leader's to find."""
        if self._client is not None:
            self._client.close()
            self._client = self._writer = None


def record_of(row: Marked, source: str, now: int) -> Record:
    """A row as a record of a journal.

    Its UUID is made of the outbox and the row, so it is the same however often it is made.

    Raises:
        Malformed: Its headers do not match.
    """
    from windrow.journal.message.record import Record

    headers = headers_of(row) if row.header_keys or row.header_values else ()
    return Record(
        uuid=blake2b(f"{source}\0{row.id}".encode(), digest_size=16).digest(),
        key=None if row.key is None else row.key.encode(),
        headers=tuple((n, None if v is None else v.encode()) for n, v in headers),
        value=row.value,
        topic=row.topic,
        time=now if row.timestamp is None else row.timestamp * 1000,
    )

"""What can be wrong with a record, its table or the connection it is stashed on."""

from __future__ import annotations

from windrow.errors import Failed, OutcomeUnknown, UsageError


class InvalidRecord(UsageError):
    """A record that Kafka or the outbox table could never take."""

    def __init__(self, what: str, value: str, reason: str) -> None:
        super().__init__(what, value, reason)
        self.what, self.value, self.reason = what, value, reason

    def __str__(self) -> str:
        return f"record refused: {self.what} {self.value}: {self.reason}"


class NotInTransaction(UsageError):
    """A stash outside a transaction: the event would not share the fate of the data."""

    def __str__(self) -> str:
        return (
            "stash was called outside a transaction, so the event could exist without the data;"
            " open one around both, or pass outside_transaction='warn'"
        )


class TransactionEnded(UsageError):
    """The transaction of a collector ended before the collector did."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count

    def __str__(self) -> str:
        return (
            f"{self.count} collected records were not stashed: the transaction they belong to has"
            " ended; enter outbox.collect() inside it, and leave it before the commit"
        )


class UnsupportedConnection(UsageError):
    """A connection that nothing can be stashed on this way."""

    def __init__(self, kind: str, advice: str) -> None:
        super().__init__(kind, advice)
        self.kind, self.advice = kind, advice

    def __str__(self) -> str:
        return f"cannot stash on a {self.kind}: {self.advice}"


class InvalidIdentifier(UsageError):
    """A table, schema or column name that PostgreSQL would not take whole."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"invalid identifier {self.name!r}: {self.reason}"


class PostgresOnly(UsageError):
    """Something that an outbox in another database than PostgreSQL does not have."""

    def __init__(self, what: str, system: str) -> None:
        super().__init__(what, system)
        self.what, self.system = what, system

    def __str__(self) -> str:
        return (
            f"{self.what} is for an outbox in PostgreSQL, and this one is in {self.system};"
            " such an outbox is relayed with relay.mode = 'competing'"
        )


class WrongSchema(Failed):
    """The outbox table is missing, or lacks what this version needs."""

    def __init__(self, table: str, problem: str, command: str = "windrow migrate") -> None:
        super().__init__(table, problem, command)
        self.table, self.problem, self.command = table, problem, command

    def __str__(self) -> str:
        return f"table {self.table} {self.problem}; run: {self.command}"


class Blocked(Failed):
    """The schema cannot change now: somebody uses the table and does not let go of it."""

    def __init__(self, table: str, waited: float, holders: tuple[str, ...]) -> None:
        super().__init__(table, waited, holders)
        self.table, self.waited, self.holders = table, waited, holders

    def __str__(self) -> str:
        held_by = "; ".join(self.holders) or "somebody who has let go of it since"
        return (
            f"table {self.table} was not free within {self.waited:g} s, held by {held_by};"
            " nothing was changed. Wait until that has ended, then run it again"
        )


class Fenced(Failed):
    """Another leader has raised the epoch: this one changes nothing more."""

    def __init__(self, table: str, epoch: int) -> None:
        super().__init__(table, epoch)
        self.table, self.epoch = table, epoch

    def __str__(self) -> str:
        return f"leader of epoch {self.epoch} on {self.table} was fenced by a later one"


class DatabaseFailed(OutcomeUnknown):
    """A statement failed on the way or at the server; it may have been applied."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the outbox database failed: {self.reason}"


class BatchMismatch(Failed):
    """The outbox does not hold the rows that the target says it committed."""

    def __init__(self, batch: str, committed: int, present: int) -> None:
        super().__init__(batch, committed, present)
        self.batch, self.committed, self.present = batch, committed, present

    def __str__(self) -> str:
        return (
            f"the target committed batch {self.batch} with {self.committed} rows, but the outbox"
            f" holds {self.present} of it; nothing was changed. Find out who touched the outbox"
            " (a restored database, a hand-made UPDATE) before the relay is started again"
        )


class LedByOthers(Failed):
    """An ordered relay is at work, or has left something undone, where others want to compete."""

    def __init__(self, table: str, why: str, advice: str) -> None:
        super().__init__(table, why, advice)
        self.table, self.why, self.advice = table, why, advice

    def __str__(self) -> str:
        return f"table {self.table} cannot be shared by competing relays: {self.why}; {self.advice}"


class SharedByOthers(Failed):
    """Competing relays share the outbox that an ordered one wants to lead."""

    def __init__(self, table: str, statement: str) -> None:
        super().__init__(table, statement)
        self.table, self.statement = table, statement

    def __str__(self) -> str:
        return (
            f"table {self.table} is shared by competing relays: led by an ordered one as well, its"
            f" records would leave twice and in no order. Stop them all, then run: {self.statement}"
        )


class NoLongerShared(Failed):
    """Somebody has taken the outbox from the competing relays."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table

    def __str__(self) -> str:
        return (
            f"table {self.table} is no longer shared by competing relays: somebody gave it to"
            " ordered ones. Stop this relay, or those and start this one again"
        )

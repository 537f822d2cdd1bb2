"""What can go wrong with spools, fragments and their stores."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class SpoolError(Failed):
    """A spool could not do what was asked, and nothing was acknowledged."""


class DeltaMismatch(SpoolError):
    """Content arrived that does not follow what the spool holds: the stream has lost a frame."""

    def __init__(self, journal: str, expected: int, actual: int) -> None:
        super().__init__(journal, expected, actual)
        self.journal, self.expected, self.actual = journal, expected, actual

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: content at delta {self.actual} was offered,"
            f" but the spool holds {self.expected} uncommitted bytes; start the stream again"
        )


class SpoolWriteFailed(SpoolError):
    """The spool's file could not grow. The spool is as it was, and still usable."""

    def __init__(self, journal: str, offset: int, reason: str) -> None:
        super().__init__(journal, offset, reason)
        self.journal, self.offset, self.reason = journal, offset, reason

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: cannot write its spool at offset {self.offset}:"
            f" {self.reason}; make room in the spool directory and append again"
        )


class RegistersTooLarge(SpoolError):
    """The registers do not fit into a commit slot of a durable spool."""

    def __init__(self, journal: str, size: int, limit: int) -> None:
        super().__init__(journal, size, limit)
        self.journal, self.size, self.limit = journal, size, limit

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: a commit record with these registers takes {self.size}"
            f" bytes, and {self.limit} fit into a slot; remove registers or shorten their values"
        )


class SpoolBroken(SpoolError):
    """A sync of the spool's file failed: what the disk holds is unknown, and stays so.

    A second sync may succeed without having written the lost pages, so it is never tried again:
    the replica fails, and a restart reads back what the disk really has.
    """

    def __init__(self, journal: str, path: str, reason: str) -> None:
        super().__init__(journal, path, reason)
        self.journal, self.path, self.reason = journal, path, reason

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: sync of {self.path} failed: {self.reason};"
            " check the disk and restart the broker, which recovers what was written"
        )


class StoreError(Failed):
    """A fragment store refused, or could not be reached."""

    def __init__(self, store: str, operation: str, reason: str) -> None:
        super().__init__(store, operation, reason)
        self.store, self.operation, self.reason = store, operation, reason

    def __str__(self) -> str:
        return f"fragment store {self.store}: {self.operation} failed: {self.reason}"


class StoreForbidden(StoreError):
    """A fragment store refused our credentials."""


class InvalidStore(UsageError):
    """A fragment store's URL cannot be used."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store, self.reason = store, reason

    def __str__(self) -> str:
        return f"fragment store {self.store!r}: {self.reason}"


class InvalidTemplate(UsageError):
    """A path postfix template cannot be parsed, or names something that does not exist."""

    def __init__(self, template: str, reason: str) -> None:
        super().__init__(template, reason)
        self.template, self.reason = template, reason

    def __str__(self) -> str:
        return f"path postfix template {self.template!r}: {self.reason}"


class CorruptFragment(Failed):
    """Stored content cannot be decompressed, or ends before the fragment does."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what, self.reason = what, reason

    def __str__(self) -> str:
        return f"fragment {self.what}: {self.reason}; compare it with another replica's copy"

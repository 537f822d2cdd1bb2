"""What can be wrong with the evidence itself, before anything is counted."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class WrittenTwice(UsageError):
    """The ledger names one record of a key twice, so its place in the order is not known."""

    def __init__(self, key: str, record_id: int | str) -> None:
        super().__init__(key, record_id)
        self.key, self.record_id = key, record_id

    def __str__(self) -> str:
        return (
            f"record {self.record_id!r} of key {self.key!r} is in the ledger twice;"
            " give each record of a key an id of its own"
        )


class NotALedger(UsageError):
    """A line that a ledger does not contain, other than a torn last one."""

    def __init__(self, path: str, line_number: int, line: str) -> None:
        super().__init__(path, line_number, line)
        self.path, self.line_number, self.line = path, line_number, line

    def __str__(self) -> str:
        return (
            f"{self.path}, line {self.line_number}: {self.line!r} is not of a ledger;"
            ' lines look like ["written", "key", 17]'
        )


class BadSource(UsageError):
    """The text that names a source is not of the grammar."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source, self.reason = source, reason

    def __str__(self) -> str:
        return f"source {self.source!r}: {self.reason}; see: windrow verify --help"


class BadQuery(UsageError):
    """The database, or the schema of the data, does not have what a source asks for."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source, self.reason = source, reason

    def __str__(self) -> str:
        return f"source {self.source!r} cannot be read: {self.reason}"


class NoId(Failed):
    """A record without an id cannot be compared with anything."""

    def __init__(self, source: str, at: int) -> None:
        super().__init__(source, at)
        self.source, self.at = source, at

    def __str__(self) -> str:
        return (
            f"record {self.at:,} of {self.source!r} has no id where it was looked for;"
            " say where it is by id=…, or leave such records out"
        )


class UnreadableSource(Failed):
    """A source broke off, or holds what cannot be read."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source, self.reason = source, reason

    def __str__(self) -> str:
        return f"source {self.source!r} was not read to its end: {self.reason}"


class NoRoom(Failed):
    """What does not fit in memory could not be put into files."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return (
            f"cannot put records aside in {self.directory}: {self.reason};"
            " set TMPDIR to a place with room, or --memory higher"
        )

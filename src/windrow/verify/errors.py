"""What can be wrong with the evidence itself, before anything is counted."""

from __future__ import annotations

from windrow.errors import UsageError


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

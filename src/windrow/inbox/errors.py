"""What can be wrong with a claim."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class ClaimOutsideTransaction(UsageError):
    """A claim outside a transaction: it would stand though the work behind it failed."""

    def __str__(self) -> str:
        return (
            "claim was called outside a transaction, so the message could be marked as taken"
            " though its work is lost; open one around both"
        )


class CannotClaimOn(UsageError):
    """A connection that nothing can be claimed on this way."""

    def __init__(self, kind: str, advice: str) -> None:
        super().__init__(kind, advice)
        self.kind, self.advice = kind, advice

    def __str__(self) -> str:
        return f"cannot claim on a {self.kind}: {self.advice}"


class InvalidMessageId(UsageError):
    """An id that the inbox could not hold as it is."""

    def __init__(self, message_id: str, reason: str) -> None:
        super().__init__(message_id, reason)
        self.message_id, self.reason = message_id, reason

    def __str__(self) -> str:
        shown = self.message_id if len(self.message_id) <= 60 else f"{self.message_id[:60]}…"
        return f"message id {shown!r} {self.reason}"


class NoInbox(Failed):
    """The inbox's table is missing, or lacks what this version needs."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table

    def __str__(self) -> str:
        return f'inbox {self.table} does not exist or is not up to date; run "windrow inbox init"'

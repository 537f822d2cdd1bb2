"""What a client finds out that no broker told it.

What a broker answers is in ``windrow.journal.errors``. Here is the rest: calls that failed, reads
that jumped, services that were closed, and writers that found another one in their place.
"""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class CallFailed(Failed):
    """A call ended with an error instead of an answer; ``code`` is gRPC's name of it."""

    def __init__(self, rpc: str, address: str, code: str, details: str) -> None:
        super().__init__(rpc, address, code, details)
        self.rpc, self.address, self.code, self.details = rpc, address, code, details

    def __str__(self) -> str:
        return f"{self.rpc} at {self.address} failed: {self.details} [{self.code}]"


class AppendNotWritten(CallFailed):
    """An append failed, and its broker knows that nothing was written."""

    def __init__(self, rpc: str, address: str, code: str, details: str, is_passing: bool) -> None:
        super().__init__(rpc, address, code, details)
        self.args = (*self.args, is_passing)
        self.is_passing = is_passing
        """Whether the same append may work a little later."""

    def __str__(self) -> str:
        return f"{super().__str__()}; nothing was written"


class InvalidAnswer(Failed):
    """A broker's answer breaks the protocol."""

    def __init__(self, rpc: str, reason: str) -> None:
        super().__init__(rpc, reason)
        self.rpc, self.reason = rpc, reason

    def __str__(self) -> str:
        return f"the broker's answer to {self.rpc} makes no sense: {self.reason}"


class RegistersNeedContent(UsageError):
    """An append of no bytes was to change registers."""

    def __init__(self, journal: str) -> None:
        super().__init__(journal)
        self.journal = journal

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: an append without content cannot change registers;"
            " append at least one byte with the change"
        )


class AppendEnded(UsageError):
    """Something was written to an append that had been committed or aborted."""

    def __init__(self, journal: str) -> None:
        super().__init__(journal)
        self.journal = journal

    def __str__(self) -> str:
        return f"journal {self.journal!r}: this append has ended; begin another one"


class DependencyFailed(Failed):
    """What an append was to wait for has failed, so nothing more is appended to its journal."""

    def __init__(self, journal: str, dependency: str, reason: str) -> None:
        super().__init__(journal, dependency, reason)
        self.journal, self.dependency, self.reason = journal, dependency, reason

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: an append to {self.dependency!r} that had to come first"
            f" failed ({self.reason}); nothing more is appended through this service"
        )


class ServiceClosed(Failed):
    """The append service was closed before this append was done."""

    def __init__(self, journal: str) -> None:
        super().__init__(journal)
        self.journal = journal

    def __str__(self) -> str:
        return f"journal {self.journal!r}: the append service was closed before its commit"


class OffsetJump(Failed):
    """Content between two offsets is no longer there; the reader goes on at ``to``."""

    def __init__(self, journal: str, offset: int, to: int) -> None:
        super().__init__(journal, offset, to)
        self.journal, self.offset, self.to = journal, offset, to

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: [{self.offset}, {self.to}) is not there any more;"
            f" read on from {self.to}"
        )


class ContentMissing(Failed):
    """The broker has no content at an offset, though more has been written behind it."""

    def __init__(self, journal: str, offset: int, write_head: int) -> None:
        super().__init__(journal, offset, write_head)
        self.journal, self.offset, self.write_head = journal, offset, write_head

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: nothing to read at {self.offset}, and yet its write head is"
            f" {self.write_head}; the broker that holds it is away, or its fragment was not stored"
        )


class FragmentTorn(Failed):
    """A fragment's file does not hold what its name says."""

    def __init__(self, url: str, expected: int, found: int) -> None:
        super().__init__(url, expected, found)
        self.url, self.expected, self.found = url, expected, found

    def __str__(self) -> str:
        return (
            f"fragment {self.url} should end at offset {self.expected} and ends at {self.found};"
            " the file is damaged or incomplete"
        )


class FragmentUnreachable(UsageError):
    """A fragment lies where this client cannot read."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url, self.reason = url, reason

    def __str__(self) -> str:
        return f"cannot read fragment {self.url}: {self.reason}"


class NoJournals(UsageError):
    """A message was to be mapped to one of no journals."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"no journal to map key {self.key} to; does the selector match any journal?"


class NotSequenced(UsageError):
    """A journal with content has no registers to number its records by."""

    def __init__(self, journal: str, end: int = 0) -> None:
        super().__init__(journal, end)
        self.journal, self.end = journal, end

    def __str__(self) -> str:
        held = f"{self.end} bytes" if self.end else "content"
        return (
            f"journal {self.journal!r} holds {held} and no sequence registers:"
            ' they were lost, or others wrote to it; rebuild them by "windrow journal reset-head"'
        )


class WriterFenced(Failed):
    """Another process writes under this writer's name, or owns what it owned."""

    def __init__(self, journal: str, writer: str, expected: str, actual: str) -> None:
        super().__init__(journal, writer, expected, actual)
        self.journal, self.writer, self.expected, self.actual = journal, writer, expected, actual

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: {self.writer!r} was fenced: it expected"
            f" {self.expected!r} and found {self.actual!r}; stop, another process has taken over"
        )


class InvalidTail(Failed):
    """The end of a journal does not tell its sequence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot rebuild the sequence registers from this tail: {self.reason}"


class InvalidBatch(UsageError):
    """An id that no register can hold."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(what, text)
        self.what, self.text = what, text

    def __str__(self) -> str:
        return f"{self.what} {self.text!r} must be 1 to 128 of a-z, A-Z, 0-9, '.', '_', '+' and '-'"

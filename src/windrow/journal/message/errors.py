"""What can be wrong with messages, their frames and their identities."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class InvalidMessage(UsageError):
    """A message which its framing cannot carry."""

    def __init__(self, framing: str, reason: str) -> None:
        super().__init__(framing, reason)
        self.framing, self.reason = framing, reason

    def __str__(self) -> str:
        return f"cannot frame a message as {self.framing}: {self.reason}"


class UnknownContentType(UsageError):
    """A content type for which there is no framing."""

    def __init__(self, content_type: str, known: tuple[str, ...]) -> None:
        super().__init__(content_type, known)
        self.content_type, self.known = content_type, known

    def __str__(self) -> str:
        return (
            f"no framing for content type {self.content_type!r};"
            f" set the journal's label content-type to one of {', '.join(self.known)}"
        )


class TornFrame(Failed):
    """The content ended inside a frame."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__(begin, end)
        self.begin, self.end = begin, end

    def __str__(self) -> str:
        return (
            f"a frame that begins at offset {self.begin} is cut off at {self.end};"
            f" read on from {self.begin} once more has been written"
        )


class InvalidRecord(Failed):
    """A frame that holds no record."""

    def __init__(self, begin: int, end: int, reason: str) -> None:
        super().__init__(begin, end, reason)
        self.begin, self.end, self.reason = begin, end, reason

    def __str__(self) -> str:
        return f"the frame at [{self.begin}, {self.end}) holds no record: {self.reason}"


class InvalidUuid(UsageError):
    """Not a UUID of the kind that sequences messages."""

    def __init__(self, uuid: str, reason: str) -> None:
        super().__init__(uuid, reason)
        self.uuid, self.reason = uuid, reason

    def __str__(self) -> str:
        return f"{self.uuid!r} identifies no message: {self.reason}"


class SpanUnfinished(UsageError):
    """The sequencer still holds messages of a commit, and was asked for something else."""

    def __init__(self, asked: str, journal: str) -> None:
        super().__init__(asked, journal)
        self.asked, self.journal = asked, journal

    def __str__(self) -> str:
        return (
            f"{self.asked} while a commit of journal {self.journal!r} is being delivered;"
            " call step() until it returns None first"
        )


class ReplayIncomplete(Failed):
    """A replay did not bring the messages that it was to bring."""

    def __init__(self, journal: str, begin: int, end: int) -> None:
        super().__init__(journal, begin, end)
        self.journal, self.begin, self.end = journal, begin, end

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r}: the replay of [{self.begin}, {self.end}) does not begin"
            f" with the message at {self.begin}; is that content pruned, or read at another offset?"
        )

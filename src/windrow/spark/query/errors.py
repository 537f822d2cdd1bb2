"""What can go wrong in a query, beside what delivery itself refuses."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class StepFailed(Failed):
    """A function failed, and its processor stops before the message."""

    def __init__(self, processor: str, position: str, cause: str) -> None:
        super().__init__(processor, position, cause)
        self.processor, self.position, self.cause = processor, position, cause

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}" stops before {self.position}: {self.cause};'
            " mend the function, or give the processor an error queue"
        )


class MessageTooLarge(Failed):
    """A result is larger than its queue takes."""

    def __init__(self, queue: str, size: int, limit: int) -> None:
        super().__init__(queue, size, limit)
        self.queue, self.size, self.limit = queue, size, limit

    def __str__(self) -> str:
        return (
            f'a message for "{self.queue}" has {self.size} bytes, and it takes {self.limit};'
            " make it smaller, or raise max_message_bytes of the queue and of its place"
        )


class PoisonMessage(Failed):
    """A message ended every attempt at it; the function was not called again."""

    def __init__(self, position: str) -> None:
        super().__init__(position)
        self.position = position

    def __str__(self) -> str:
        return f"the message at {self.position} ended its worker on every attempt"


class PairMissing(Failed):
    """Inputs that are joined by position do not hold every position."""

    def __init__(self, queue: str, expected: int, found: int | None) -> None:
        super().__init__(queue, expected, found)
        self.queue, self.expected, self.found = queue, expected, found

    def __str__(self) -> str:
        found = "nothing" if self.found is None else f"index {self.found}"
        return (
            f'a join by position reads "{self.queue}" and finds {found} where index'
            f" {self.expected} should be: its indices have gaps, as those of a topic with"
            " transactions do; join through a journal"
        )


class PositionsLost(UsageError):
    """A function of batches or frames returned rows that nobody can tell the origin of."""

    def __init__(self, processor: str, found: str) -> None:
        super().__init__(processor, found)
        self.processor, self.found = processor, found

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}" returned {self.found}; keep the columns _source,'
            " _incarnation, _partition and _index of each row it was made from"
        )


class InvalidColumns(UsageError):
    """A function of batches or frames returned columns that are no messages."""

    def __init__(self, processor: str, reason: str) -> None:
        super().__init__(processor, reason)
        self.processor, self.reason = processor, reason

    def __str__(self) -> str:
        return f'processor "{self.processor}" returned rows that are no messages: {self.reason}'


class OutOfStep(Failed):
    """Spark asks for a batch that is not the one delivery is at."""

    def __init__(self, processor: str, asked: str, known: str) -> None:
        super().__init__(processor, asked, known)
        self.processor, self.asked, self.known = processor, asked, known

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": Spark asks for {self.asked}, and delivery is at'
            f" {self.known}; its checkpoint is not the one that recovery looked at: start again"
        )


class NotBegun(UsageError):
    """A query was started without recovery."""

    def __init__(self, processor: str) -> None:
        super().__init__(processor)
        self.processor = processor

    def __str__(self) -> str:
        return f'processor "{self.processor}": recovery comes before the query; use recover_leg'


class ByHandFailed(Failed):
    """What a function did by hand could not be kept."""

    def __init__(self, processor: str, queue: str, reason: str) -> None:
        super().__init__(processor, queue, reason)
        self.processor, self.queue, self.reason = processor, queue, reason

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": what was read from or written to "{self.queue}" by hand'
            f" was not kept ({self.reason}); it is done again"
        )


class StagedOtherwise(Failed):
    """A staged result is of a form that this version does not write."""

    def __init__(self, queue: str, index: int) -> None:
        super().__init__(queue, index)
        self.queue, self.index = queue, index

    def __str__(self) -> str:
        return (
            f'message {self.index} of the staging queue "{self.queue}" was staged by another'
            " version; run that version with --once until nothing is left there, then this one"
        )

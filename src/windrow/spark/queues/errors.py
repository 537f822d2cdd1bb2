"""What can be wrong with a queue that is to be read."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class QueueMissing(Failed):
    """The journals or the topic of a queue are not there."""

    def __init__(self, queue: str, what: str, create: str) -> None:
        super().__init__(queue, what, create)
        self.queue, self.what, self.create = queue, what, create

    def __str__(self) -> str:
        return f'queue "{self.queue}": {self.what} does not exist; create it: {self.create}'


class PartitionsDiffer(UsageError):
    """A queue has another number of partitions than was declared."""

    def __init__(self, queue: str, declared: int, found: int) -> None:
        super().__init__(queue, declared, found)
        self.queue, self.declared, self.found = queue, declared, found

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}" is declared with {self.declared} partitions and has'
            f" {self.found}; declare {self.found}, or leave the number out to take what is there"
        )


class NotReadable(UsageError):
    """A queue lives where nothing can be read from by position."""

    def __init__(self, queue: str, backend: str) -> None:
        super().__init__(queue, backend)
        self.queue, self.backend = queue, backend

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}" lives on {self.backend}, which cannot be read by position;'
            " read from a journal or a Kafka topic"
        )


class NotSequencedJournal(UsageError):
    """A journal is not labelled as one whose records are numbered."""

    def __init__(self, queue: str, journal: str, label: str) -> None:
        super().__init__(queue, journal, label)
        self.queue, self.journal, self.label = queue, journal, label

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}": journal {self.journal!r} has no label {self.label}, so its'
            " records have no contiguous numbers; add the label before its first record:"
            " windrow journal apply --help"
        )


class SequenceBroken(Failed):
    """The records of a journal are not numbered without a gap."""

    def __init__(self, queue: str, place: str, expected: int, found: int, offset: int) -> None:
        super().__init__(queue, place, expected, found, offset)
        self.queue, self.place, self.offset = queue, place, offset
        self.expected, self.found = expected, found

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}": {self.place} should go on with record {self.expected} and has'
            f" {self.found} near offset {self.offset}; someone wrote to it past its registers:"
            " look at it with windrow journal read"
        )


class NoSequence(UsageError):
    """Messages of a topic carry no number, where a join needs one."""

    def __init__(self, queue: str, topic: str, partition: int, offset: int, header: str) -> None:
        super().__init__(queue, topic, partition, offset, header)
        self.queue, self.topic, self.header = queue, topic, header
        self.partition, self.offset = partition, offset

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}": the message at {self.topic}[{self.partition}]@{self.offset} has'
            f" no header {self.header}; Kafka's offsets have gaps, so a join by position needs it:"
            " have the topic written by a graph, or put a pipe to a journal before the join"
        )


class ReadTimedOut(Failed):
    """Messages that are there did not arrive in time."""

    def __init__(self, queue: str, place: str, index: int, end: int, waited: float) -> None:
        super().__init__(queue, place, index, end, waited)
        self.queue, self.place = queue, place
        self.index, self.end, self.waited = index, end, waited

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}": {self.place} gave nothing for {self.waited:g} s at'
            f" {self.index}, though it should reach {self.end}; its brokers may be away: try again"
        )

"""What can go wrong in a relay, beside the record, the table and the target."""

from __future__ import annotations

import shlex

from windrow.errors import ConfigError, Failed, UsageError


class ImpossibleEvent(AssertionError):
    """Something happened that cannot, in this state: a fault of the relay itself."""

    def __init__(self, event: str, subject: object) -> None:
        super().__init__(event, subject)
        self.event, self.subject = event, subject

    def __str__(self) -> str:
        return f"impossible: {self.event} at {self.subject!r}"


class TargetBroken(Failed):
    """A target's client is of no more use and has to be made anew."""

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target, self.reason = target, reason

    def __str__(self) -> str:
        return f"the client of {self.target} broke: {self.reason}; a new one is made"


class LeaderFencedByTarget(Failed):
    """The target refuses this leader, because a later one has shut it out."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(transactional_id)
        self.transactional_id = transactional_id

    def __str__(self) -> str:
        return f"the target has fenced {self.transactional_id!r}: a later leader is at work"


class StateTopicUnusable(Failed):
    """The topic that says which batch was committed last cannot be trusted with it."""

    def __init__(self, topic: str, problem: str) -> None:
        super().__init__(topic, problem)
        self.topic, self.problem = topic, problem

    def __str__(self) -> str:
        return f"state topic {self.topic!r} cannot be used: {self.problem}"


class JournalUnusable(Failed):
    """The journal that records go to cannot be trusted with the names of batches."""

    def __init__(self, journal: str, problem: str) -> None:
        super().__init__(journal, problem)
        self.journal, self.problem = journal, problem

    def __str__(self) -> str:
        return (
            f"journal {self.journal!r} cannot be relayed to: {self.problem}; give it a"
            " specification with the label windrow.dev/sequenced: windrow journal apply --help"
        )


class BatchesForgotten(Failed):
    """The state topic knows no batch, and rows of the outbox carry the name of one."""

    def __init__(self, topic: str, rows: int, first: int) -> None:
        super().__init__(topic, rows, first)
        self.topic, self.rows, self.first = topic, rows, first

    def __str__(self) -> str:
        return (
            f"state topic {self.topic!r} is empty, but {self.rows} rows of the outbox, from id"
            f" {self.first} on, carry the name of a batch: it was deleted, and whether they were"
            " delivered cannot be known. Look for them at a consumer; then delete those that"
            " arrived, set leader_id to NULL on the others, and start the relay again"
        )


class NotBlocked(Failed):
    """A key or topic is not in the state that the command is for."""

    def __init__(self, subject: str, state: str, command: str) -> None:
        super().__init__(subject, state, command)
        self.subject, self.state, self.command = subject, state, command

    def __str__(self) -> str:
        return f"{self.subject} is {self.state}; run: {self.command}"


class LetterGone(Failed):
    """There is no dead letter of that number, or none any more."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"there is no dead letter {self.number}; run: windrow deadletter list"


class NoKeysWait(UsageError):
    """A key was named where none is ever held or buried."""

    def __init__(self, system: str) -> None:
        super().__init__(system)
        self.system = system

    def __str__(self) -> str:
        return (
            f"no key waits in an outbox in {self.system}, whose relays compete;"
            " name a dead letter by its id, see: windrow deadletter list"
        )


class NoSuchLetter(Failed):
    """A key has no dead letter of that number."""

    def __init__(self, key: str, number: int) -> None:
        super().__init__(key, number)
        self.key, self.number = key, number

    def __str__(self) -> str:
        return (
            f"dead letter {self.number} is none of key {self.key!r};"
            f" run: windrow deadletter list --key {shlex.quote(self.key)}"
        )


class OutOfOrder(Failed):
    """A dead letter would return behind later records of its key."""

    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self.subject = subject

    def __str__(self) -> str:
        return (
            f"{self.subject} cannot go back in time: later records of its key may have been"
            " delivered, and it would follow them. If that is right, add --out-of-order"
        )


class InvalidReaperFile(ConfigError):
    """A ``reaper.yaml`` that goharvest would not start with either."""

    def __init__(self, origin: str, message: str) -> None:
        super().__init__(origin, message)
        self.origin, self.message = origin, message

    def __str__(self) -> str:
        return f"{self.origin}: {self.message}"

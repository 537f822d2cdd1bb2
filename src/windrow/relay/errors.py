"""What can go wrong in a relay, beside the record, the table and the target."""

from __future__ import annotations

from windrow.errors import Failed


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
        return f"Kafka has fenced {self.transactional_id!r}: a later leader is at work"


class StateTopicUnusable(Failed):
    """The topic that says which batch was committed last cannot be trusted with it."""

    def __init__(self, topic: str, problem: str) -> None:
        super().__init__(topic, problem)
        self.topic, self.problem = topic, problem

    def __str__(self) -> str:
        return f"state topic {self.topic!r} cannot be used: {self.problem}"

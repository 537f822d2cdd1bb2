"""What can go wrong while somebody is elected."""

from __future__ import annotations

from windrow.errors import ConfigError, Failed


class ForcedProperty(ConfigError):
    """A client property that the election sets itself, because its safety hangs on it."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"cannot override configuration '{self.key}'"


class LeaderTopicUnusable(Failed):
    """The topic whose partitions are the locks is missing and cannot be made, or does not do."""

    def __init__(self, topic: str, problem: str, remedy: str) -> None:
        super().__init__(topic, problem, remedy)
        self.topic, self.problem, self.remedy = topic, problem, remedy

    def __str__(self) -> str:
        return f"leader topic {self.topic!r} {self.problem}; {self.remedy}"


class GroupRefused(Failed):
    """Kafka does not let this process into the group that elects the leader."""

    def __init__(self, group: str, reason: str, remedy: str) -> None:
        super().__init__(group, reason, remedy)
        self.group, self.reason, self.remedy = group, reason, remedy

    def __str__(self) -> str:
        return f"cannot stand for leadership in group {self.group!r}: {self.reason}; {self.remedy}"


class ElectionBroken(Failed):
    """A client of the election is of no more use; the next pulse makes new ones."""

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(group, reason)
        self.group, self.reason = group, reason

    def __str__(self) -> str:
        return f"the client of group {self.group!r} broke: {self.reason}; a new one is made"


class PlanNotReady(Failed):
    """A shard cannot be led yet: the outbox is being divided anew."""

    def __init__(self, table: str, shard: int, generation: int) -> None:
        super().__init__(table, shard, generation)
        self.table, self.shard, self.generation = table, shard, generation

    def __str__(self) -> str:
        return (
            f"shard {self.shard} of outbox {self.table!r} cannot be led in generation"
            f" {self.generation} yet: what earlier leaders sent is being settled"
        )


class AloneAmongShards(Failed):
    """A relay that was told to lead alone finds an outbox that several share."""

    def __init__(self, table: str, shards: int) -> None:
        super().__init__(table, shards)
        self.table, self.shards = table, shards

    def __str__(self) -> str:
        return (
            f"outbox {self.table!r} is divided into {self.shards} shards, and a relay with"
            " relay.election.kind=single leads one; stop the others, then run:"
            " windrow relay --set relay.election.kind=lease --set relay.shards=1 --until-empty"
        )

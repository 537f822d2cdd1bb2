"""What can stand in the way of a delivery: every refusal names the values and the way on."""

from __future__ import annotations

from windrow.errors import Failed, OutcomeUnknown, UsageError


class ImpossibleEvent(AssertionError):
    """Something happened that cannot, in this state: a fault of the machine or its shell."""

    def __init__(self, event: str, state: str) -> None:
        super().__init__(event, state)
        self.event, self.state = event, state

    def __str__(self) -> str:
        return f"impossible: {self.event} while {self.state}"


class InvalidOffsets(UsageError):
    """Offsets, spans or positions are not of their form."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what, self.reason = what, reason

    def __str__(self) -> str:
        return f"{self.what} cannot be read: {self.reason}"


class InvalidBacking(UsageError):
    """A record of a backing journal, or a stored mark, cannot be read."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what, self.reason = what, reason

    def __str__(self) -> str:
        return (
            f"{self.what} cannot be read: {self.reason};"
            " a newer version may have written it: run that one"
        )


class Refused(Failed):
    """A processor does not start, because going on would lose or double something."""


class IncarnationChanged(Refused):
    """A source was deleted and made again under its old name."""

    def __init__(self, source: str, partition: int, known: str, found: str, index: int) -> None:
        super().__init__(source, partition, known, found, index)
        self.source, self.partition, self.index = source, partition, index
        self.known, self.found = known, found

    def __str__(self) -> str:
        return (
            f'source "{self.source}" partition {self.partition} was read up to {self.index} as'
            f" incarnation {self.known}, but now it is {self.found}: it was deleted and made again;"
            f' run "windrow graph repair --accept-incarnation {self.source}" to read it from its'
            " beginning"
        )


class SourceTrimmed(Refused):
    """Messages that were not delivered yet are gone from their source."""

    def __init__(self, source: str, partition: int, wanted: int, first: int) -> None:
        super().__init__(source, partition, wanted, first)
        self.source, self.partition = source, partition
        self.wanted, self.first = wanted, first

    def __str__(self) -> str:
        return (
            f'source "{self.source}" partition {self.partition} begins at {self.first}, but'
            f" {self.first - self.wanted} messages from {self.wanted} on are not delivered yet;"
            f' restore them, or run "windrow graph repair --skip {self.source}:{self.partition}" to'
            " give them up"
        )


class SourceBehind(Refused):
    """A source ends before what was already delivered from it."""

    def __init__(self, source: str, partition: int, delivered: int, end: int) -> None:
        super().__init__(source, partition, delivered, end)
        self.source, self.partition = source, partition
        self.delivered, self.end = delivered, end

    def __str__(self) -> str:
        return (
            f'source "{self.source}" partition {self.partition} ends at {self.end}, but messages up'
            f" to {self.delivered} were delivered: it lost its tail, and new messages would take"
            " the positions of old ones; restore it, or delete it and make it again"
        )


class InputGone(Refused):
    """An attempt in doubt read an input that the processor no longer has."""

    def __init__(self, processor: str, number: int, inputs: tuple[str, ...]) -> None:
        super().__init__(processor, number, inputs)
        self.processor, self.number, self.inputs = processor, number, inputs

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.inputs)
        return (
            f'processor "{self.processor}": snapshot {self.number} is in doubt and reads {names},'
            " which it no longer has; start once with the old topology to finish it"
        )


class SinkLost(Refused):
    """The sink has forgotten what the backing journal says was delivered to it."""

    def __init__(self, processor: str, number: int) -> None:
        super().__init__(processor, number)
        self.processor, self.number = processor, number

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": {self.number} snapshots were delivered, but the sink'
            " knows of none: it was lost, emptied, or is another one; point to the right one, or"
            ' run "windrow graph repair --sink-lost" to deliver everything again'
        )


class SinkBehind(Refused):
    """The sink was set back to an earlier state."""

    def __init__(self, processor: str, sink_number: int, backing_number: int) -> None:
        super().__init__(processor, sink_number, backing_number)
        self.processor = processor
        self.sink_number, self.backing_number = sink_number, backing_number

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": the sink stands at snapshot {self.sink_number}, the'
            f" backing journal at {self.backing_number}: the sink was set back; run"
            ' "windrow graph repair --rewind" to deliver the difference again'
        )


class StateLost(Refused):
    """The checkpoint of a stateful processor is gone, or is not the one of its last delivery."""

    def __init__(self, processor: str, found: str) -> None:
        super().__init__(processor, found)
        self.processor, self.found = processor, found

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}" keeps state in its checkpoint, which {self.found};'
            ' restore the checkpoint, or run with "--accept-state-loss" to begin with empty state'
        )


class CodeChanged(Refused):
    """An attempt in doubt was half written by code of another version."""

    def __init__(self, processor: str, number: int, taken_with: str, running: str) -> None:
        super().__init__(processor, number, taken_with, running)
        self.processor, self.number = processor, number
        self.taken_with, self.running = taken_with, running

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": snapshot {self.number} was partly written by code'
            f" version {self.taken_with!r}, and version {self.running!r} could send the rest"
            f" elsewhere; start once with {self.taken_with!r}, or declare the processor as not"
            " deterministic so that its results are staged"
        )


class RoutingChanged(Refused):
    """Rows in doubt were sent to their targets by another rule."""

    def __init__(self, processor: str, target: int, stored: str, pinned: str) -> None:
        super().__init__(processor, target, stored, pinned)
        self.processor, self.target = processor, target
        self.stored, self.pinned = stored, pinned

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": target partition {self.target} holds rows of an'
            f" unfinished snapshot routed by {self.stored}, and this one routes by {self.pinned};"
            f" finish the snapshot with {self.stored} first"
        )


class UnknownRouting(Refused):
    """A snapshot pins a routing function that this version does not have."""

    def __init__(self, function: str, known: tuple[str, ...]) -> None:
        super().__init__(function, known)
        self.function, self.known = function, known

    def __str__(self) -> str:
        return (
            f"routing function {self.function!r} is not one of {', '.join(self.known)};"
            " finish the snapshot with the version that took it"
        )


class AttemptsExhausted(Refused):
    """A snapshot failed as often as its processor allows."""

    def __init__(self, processor: str, number: int, attempts: int, reason: str) -> None:
        super().__init__(processor, number, attempts, reason)
        self.processor, self.number = processor, number
        self.attempts, self.reason = attempts, reason

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": snapshot {self.number} failed {self.attempts} times,'
            f" last with: {self.reason}; mend the function and start again, or give the processor"
            " an error queue"
        )


class Fenced(Failed):
    """A later owner has taken the processor over; this one must not write any more."""

    def __init__(self, processor: str, epoch: int, found: int) -> None:
        super().__init__(processor, epoch, found)
        self.processor, self.epoch, self.found = processor, epoch, found

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": owner {self.epoch} was fenced by owner {self.found};'
            " it ends here, and nothing it had in hand is lost"
        )


class MarkConflict(Failed):
    """A sink refused a compare-and-set although nothing had changed: its marks are not ours."""

    def __init__(self, processor: str, target: int) -> None:
        super().__init__(processor, target)
        self.processor, self.target = processor, target

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": target partition {self.target} refused a write as out'
            " of date, but its high-water is what it was; two graphs may share one name there"
        )


class TargetShared(UsageError):
    """Two tasks of one batch wrote to the same target partition."""

    def __init__(self, target: int, tasks: tuple[int, ...]) -> None:
        super().__init__(target, tasks)
        self.target, self.tasks = target, tasks

    def __str__(self) -> str:
        return (
            f"target partition {self.target} was claimed by tasks {', '.join(map(str, self.tasks))}"
            " of one batch, and each would drop what the other wrote; repartition by the target"
        )


class LanesDiffer(UsageError):
    """Inputs that are joined by position have different partitions."""

    def __init__(self, lanes: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
        super().__init__(lanes)
        self.lanes = lanes

    def __str__(self) -> str:
        sides = ", ".join(f'"{name}" has {list(numbers)}' for name, numbers in self.lanes)
        return f"a join by position needs the same partitions on every input, but {sides}"


class BatchInterrupted(Failed):
    """A batch ended without being delivered; after a restart it is tried again."""

    def __init__(self, processor: str, number: int, reason: str) -> None:
        super().__init__(processor, number, reason)
        self.processor, self.number, self.reason = processor, number, reason

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": snapshot {self.number} was interrupted: {self.reason};'
            " it is tried again after a restart"
        )


class DeliveryUnknown(OutcomeUnknown):
    """Nobody knows whether a record was written; recovery finds out."""

    def __init__(self, processor: str, number: int, step: str, reason: str) -> None:
        super().__init__(processor, number, step, reason)
        self.processor, self.number = processor, number
        self.step, self.reason = step, reason

    def __str__(self) -> str:
        return (
            f'processor "{self.processor}": the outcome of step {self.step} of snapshot'
            f" {self.number} is unknown: {self.reason}; recovery reads it back"
        )

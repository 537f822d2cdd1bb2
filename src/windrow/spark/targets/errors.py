"""What can go wrong at a target, beside what the graph itself refuses."""

from __future__ import annotations

from windrow.errors import Failed, UsageError


class TargetUnusable(UsageError):
    """A place cannot be trusted with rows and their high-water."""

    def __init__(self, what: str, name: str, reason: str) -> None:
        super().__init__(what, name, reason)
        self.what, self.name, self.reason = what, name, reason

    def __str__(self) -> str:
        return f"cannot write to {self.what} {self.name!r}: {self.reason}"


class RowRefused(Failed):
    """A target will not take a row, however often it is offered; nothing was written."""

    def __init__(self, target: str, position: str, reason: str) -> None:
        super().__init__(target, position, reason)
        self.target, self.position, self.reason = target, position, reason

    def __str__(self) -> str:
        return (
            f"{self.target} refuses the row made from {self.position}: {self.reason};"
            " mend what makes the row, or the target, and start again"
        )


class NoTransaction(UsageError):
    """An effect was to be noted outside the transaction that brings it about."""

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return (
            "once() runs inside the transaction that brings about the effect, and this connection"
            " commits each statement by itself; begin a transaction first"
        )


class WriteFailed(Failed):
    """A target did not take a write, for a reason that may pass; nothing was written."""

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target, self.reason = target, reason

    def __str__(self) -> str:
        return f"{self.target} did not take a write: {self.reason}; it is safe to try again"


class PositionsMissing(UsageError):
    """A frame does not say where its rows come from."""

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__(missing)
        self.missing = missing

    def __str__(self) -> str:
        return (
            f"a row has no {', '.join(self.missing)}: without its position it could not be"
            " recognised on a replay and would be written again; keep the columns _source,"
            " _incarnation, _partition and _index of a Windrow source, or add them"
        )


class ValueMissing(UsageError):
    """A frame has no column to be written."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        super().__init__(columns)
        self.columns = columns

    def __str__(self) -> str:
        return (
            f'the frame has the columns {", ".join(self.columns)} and no "value"; make one,'
            " for instance by to_json(struct(…)) AS value"
        )


class PositionRepeated(UsageError):
    """Two rows of a batch have one position."""

    def __init__(self, source: str, partition: int, index: int, ordinal: int) -> None:
        super().__init__(source, partition, index, ordinal)
        self.source, self.partition = source, partition
        self.index, self.ordinal = index, ordinal

    def __str__(self) -> str:
        return (
            f'two rows come from "{self.source}" partition {self.partition} index {self.index} as'
            f" output {self.ordinal}, and one would be taken for a replay of the other; number the"
            " rows made from one message in a column _ordinal"
        )


class TargetOutOfRange(UsageError):
    """A row names a target that there is not."""

    def __init__(self, target: int | None, targets: int) -> None:
        super().__init__(target, targets)
        self.target, self.targets = target, targets

    def __str__(self) -> str:
        return f"_target is {self.target}, and there are {self.targets}, counted from 0"


class OverwriteRefused(UsageError):
    """A frame was to take the place of what is there."""

    def __init__(self, format_name: str) -> None:
        super().__init__(format_name)
        self.format_name = format_name

    def __str__(self) -> str:
        return (
            f"format {self.format_name} adds to what is there and never takes its place;"
            ' write with mode "append"'
        )

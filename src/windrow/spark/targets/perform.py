"""Who does what a sink task asks for? The whole shell around the pure machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import (
    Act,
    Acted,
    HighWaterRead,
    ReadHighWater,
    SinkEvent,
    SinkTask,
    TaskDone,
    WriteRows,
)
from windrow.graph.snapshot import ProcessorUid
from windrow.points import pass_by
from windrow.spark.stores import QueueTarget

Effect = Callable[[Sequence[SinkRow]], None]
"""Brings about what rows ask for; it returns when that is done, and raises if it is not."""


def run_sink_task(
    task: SinkTask, uid: ProcessorUid, target: QueueTarget, act: Effect | None = None
) -> TaskDone:
    """Perform a task to its end.

    Args:
        task: What to do.
        uid: The processor, by which the target keeps its marks.
        target: Where the rows and the marks go; of effects the marks alone.
        act: How effects are brought about, where the strategy asks for some.

    Raises:
        Fenced: A later writer is at work.
        Refused: Going on would lose or double something.
    """
    command = task.start()
    while not isinstance(command, TaskDone):
        command = task.handle(_perform(command, uid, target, act))
    return command


def _perform(
    command: ReadHighWater | WriteRows | Act,
    uid: ProcessorUid,
    target: QueueTarget,
    act: Effect | None,
) -> SinkEvent:
    match command:
        case ReadHighWater():
            return HighWaterRead(target.read_high_water(uid, command.target))
        case WriteRows():
            pass_by("graph.write-before")
            outcome = target.write(command.rows, command.expected, command.marks)
            pass_by("graph.write-after")
            return outcome
        case Act():
            if act is None:
                raise AssertionError("the strategy asks for an effect, and none was given")
            act(command.rows)
            return Acted()

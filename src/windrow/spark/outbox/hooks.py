"""What does a graph tell the outboxes among its queues? Other queues are left alone."""

from __future__ import annotations

from collections.abc import Iterable

from windrow.graph.positions import SourceOffsets
from windrow.spark.outbox.queue import OutboxQueue
from windrow.spark.stores import QueueReader


def lead(queues: Iterable[QueueReader], name: str) -> None:
    """Whoever plans takes the outboxes over, before it asks what is available.

    Without it an outbox only shows what has an index already, and that never becomes more.
    """
    for queue in _outboxes(queues):
        if not queue.leads:
            queue.lead(name)


def settle(queues: Iterable[QueueReader], delivered: SourceOffsets) -> None:
    """Purge what the delivered record of the sink says; whoever does not lead changes nothing."""
    for queue in _outboxes(queues):
        queue.settled(delivered)


def prepare_available_now(queues: Iterable[QueueReader]) -> None:
    """Give everything an index that is visible now, for a run that takes what is available."""
    for queue in _outboxes(queues):
        queue.reach_all()


def _outboxes(queues: Iterable[QueueReader]) -> Iterable[OutboxQueue]:
    return (queue for queue in queues if isinstance(queue, OutboxQueue))

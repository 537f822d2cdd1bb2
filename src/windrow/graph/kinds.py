"""What kind of processor is it? Its shape alone decides, and every shape has one answer."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The kinds, by how many messages a step takes and how many queues it may write."""

    SOURCE = "source"
    """Takes nothing: its queue is filled from outside."""
    PIPE = "pipe"
    """Takes one message, gives one or none."""
    EXPAND = "1→N"
    """Takes one message, gives a list of any length."""
    JOIN = "join"
    """Takes the next message of every input, gives one or none."""
    ALTS = "alts"
    """Takes one message of whichever input has one, gives one or none."""
    FORK = "fork"
    """Takes one message, gives to several queues, to each or not."""
    JOIN_FORK = "join-fork"
    """Takes the next message of every input, gives to several queues."""
    SINK = "sink"
    """Takes messages and writes to no queue: all it does are effects."""
    IMPERATIVE = "imperative"
    """Also reads or writes queues by hand, outside the delivery."""


def kind_of(*, joined: int, alternatives: int, outputs: int, by_hand: int, many: bool) -> Kind:
    """The kind of a processor with so many queues of each role.

    Args:
        joined: Queues it reads in lock-step.
        alternatives: Queues of which it reads one at a time.
        outputs: Queues it writes.
        by_hand: Queues that its function reads or writes by itself.
        many: Whether a step may write several messages to a queue.
    """
    if by_hand:
        return Kind.IMPERATIVE
    if not joined and not alternatives:
        return Kind.SOURCE
    if not outputs:
        # Before anything asks for alternatives: a sink of several queues is a sink.
        return Kind.SINK
    if outputs > 1:
        return Kind.JOIN_FORK if joined > 1 else Kind.FORK
    if joined > 1:
        return Kind.JOIN
    if alternatives:
        return Kind.ALTS
    return Kind.EXPAND if many else Kind.PIPE

"""What did a function of the form ``message`` give back, and for which queue?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.graph.errors import InvalidReturn
from windrow.graph.messages import Message, inherit_meta
from windrow.graph.processors import Processor

Outputs = dict[str, tuple[Message, ...]]
"""The messages for each queue, by the queue's name; a queue that gets none is left out."""


def outputs_of(processor: Processor, returned: Any) -> Outputs:
    """What a function returned, sorted by queue.

    With one output the function may return a message by itself; with several, a mapping of its
    names to messages. ``None`` is no message. Lists are for processors declared ``many``.

    Raises:
        InvalidReturn: It is none of these.
    """
    if returned is None:
        return {}
    if not isinstance(returned, Mapping):
        returned = _for_the_only_output(processor, returned)
    unknown = [name for name in returned if name not in processor.writes]
    if unknown:
        known = ", ".join(f'"{name}"' for name in processor.writes) or "nothing"
        raise InvalidReturn(
            processor.id,
            f"something for {unknown[0]!r}",
            f"it writes {known}; return a Message, or a mapping of those names to messages",
        )
    listed = {processor.writes[name]: _listed(processor, part) for name, part in returned.items()}
    return {queue: messages for queue, messages in listed.items() if messages}


def with_provenance(outputs: Outputs, inputs: Mapping[str, Message]) -> Outputs:
    """The outputs, each with the provenance of all inputs below its own."""
    return {queue: tuple(inherit_meta(messages, inputs)) for queue, messages in outputs.items()}


def _for_the_only_output(processor: Processor, returned: Any) -> dict[str, Any]:
    if not processor.writes:
        # A sink may end with whatever its effect gave back: nothing is written.
        return {}
    if len(processor.writes) > 1:
        raise InvalidReturn(
            processor.id,
            f"a {type(returned).__name__}",
            "it writes several queues; return a mapping of their names to messages",
        )
    return {next(iter(processor.writes)): returned}


def _listed(processor: Processor, part: Any) -> tuple[Message, ...]:
    if part is None:
        return ()
    if isinstance(part, Message):
        return (part,)
    if not isinstance(part, list | tuple):
        raise InvalidReturn(
            processor.id, f"a {type(part).__name__}", "return a Message, or None for no output"
        )
    if not processor.many:
        raise InvalidReturn(processor.id, "a list", "declare the processor with many=True")
    for message in part:
        if not isinstance(message, Message):
            raise InvalidReturn(
                processor.id, f"a list with a {type(message).__name__}", "list Messages"
            )
    return tuple(part)

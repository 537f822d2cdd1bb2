"""Which messages does a processor want?

A filter is applied to every input by itself. What does not pass is left out of the call; if nothing
is left the function is not called, and the step is delivered without output. In a join all inputs
are consumed all the same: a filter never shifts one input against another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from windrow.graph.messages import Message

Predicate = Callable[[Message], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a message must be to pass: everything that is set must hold."""

    types: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    where: Predicate | None = None

    @property
    def passes_all(self) -> bool:
        """Whether nothing is asked."""
        return self.types is None and self.topics is None and self.where is None

    def passes(self, message: Message) -> bool:
        """Whether the processor wants this message."""
        if self.types is not None and message.type not in self.types:
            return False
        if self.topics is not None and message.topic not in self.topics:
            return False
        return self.where is None or bool(self.where(message))

    def select(self, messages: Mapping[str, Message]) -> dict[str, Message]:
        """The inputs that pass; none left means that the function is not called."""
        return {name: message for name, message in messages.items() if self.passes(message)}


def names(given: str | Iterable[str] | None) -> frozenset[str] | None:
    """One name or several, as the set of them."""
    if given is None:
        return None
    return frozenset({given}) if isinstance(given, str) else frozenset(given)

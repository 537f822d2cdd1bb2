"""What is a graph to its user: an object that exists only if it can run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from windrow.graph.errors import InvalidGraph
from windrow.graph.outline import Outline
from windrow.graph.processors import Processor
from windrow.graph.queues import Queue
from windrow.graph.topology import Topology
from windrow.graph.validation import mistakes_in


@dataclass(frozen=True)
class Graph(Outline):
    """A graph of processors that has been found sound; `Outline` says what each field means.

    ::

        Graph("shop", [Source("orders"), price], queues=[Queue("orders", outbox="outbox")])

    Raises:
        InvalidGraph: It cannot run; the message has a sentence for each thing that is wrong.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if mistakes := mistakes_in(self):
            raise InvalidGraph(self.id, mistakes)

    @cached_property
    def topology(self) -> Topology:
        """What leads to what, and the fingerprint of it."""
        return Topology(self)

    @cached_property
    def all_queues(self) -> tuple[Queue, ...]:
        """Every queue of the graph, declared or by default, by name."""
        return tuple(self.queue(name) for name in self.queue_names())

    def processor(self, name: str) -> Processor:
        """The processor of that id.

        Raises:
            KeyError: There is none.
        """
        for processor in self.working:
            if processor.id == name:
                return processor
        raise KeyError(name)

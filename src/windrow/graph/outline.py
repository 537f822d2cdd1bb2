"""What was declared, checked or not: the parts of a graph, and what follows for each from the rest.

Validation and topology read an outline. `Graph` is an outline that has been found sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windrow.graph.kinds import Kind
from windrow.graph.policies import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    ErrorPolicy,
    OnError,
    Retry,
    Strategy,
    error_policy,
)
from windrow.graph.processors import Part, Processor, Source
from windrow.graph.queues import Queue, QueueMeta, meta_option


@dataclass(frozen=True)
class Outline:
    """The declaration of a graph.

    Attributes:
        id: Its name; progress is kept under it.
        processors: Its sources and processors, in any order.
        queues: Where its queues live; one that is not listed lives in the journal ``<id>/<name>``.
        source: Where a message goes that is sent to the graph; by default its only source.
        errors: The error queue of every processor that names none.
        on_error: What happens when a step fails for good: stop, drop or deadletter.
        strategy: exactly-once, at-least-once or at-most-once.
        system: What all functions share, as ``ctx.system``.
        retry: How often a step is tried, and how long to wait in between.
        queue_meta: Which provenance queues add; ``strip`` also keeps outputs from inheriting it.
    """

    id: str
    processors: Sequence[Part]
    queues: Sequence[Queue] = ()
    source: str | None = None
    errors: str | None = None
    on_error: OnError | None = None
    strategy: Strategy = EXACTLY_ONCE
    system: Mapping[str, Any] = field(default_factory=dict)
    retry: Retry = field(default_factory=Retry)
    queue_meta: QueueMeta = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "processors", tuple(self.processors))
        object.__setattr__(self, "queues", tuple(self.queues))
        object.__setattr__(self, "queue_meta", meta_option(self.queue_meta))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The queues that are filled from outside, in the order of their declaration."""
        return tuple(part for part in self.processors if isinstance(part, Source))

    @property
    def working(self) -> tuple[Processor, ...]:
        """The processors that have a function, in the order of their declaration."""
        return tuple(part for part in self.processors if isinstance(part, Processor))

    @property
    def default_source(self) -> str | None:
        """Where a message goes that is sent to the graph."""
        only = self.sources[0].id if len(self.sources) == 1 else None
        return self.source or only

    def queue_names(self) -> list[str]:
        """The name of every queue that anything reads, writes or fills, sorted."""
        used = {source.id for source in self.sources}
        for processor in self.working:
            used.update(queue for _, queue in self.read_by(processor))
            used.update(queue for _, queue in self.written_by(processor))
        return sorted(used)

    def queue(self, name: str) -> Queue:
        """The queue of that name, as it was declared or by default."""
        return next((queue for queue in self.queues if queue.name == name), Queue(name))

    def meta_of(self, name: str) -> QueueMeta:
        """Which provenance a queue adds."""
        own = self.queue(name).meta
        return self.queue_meta if own is None else own

    @property
    def inherits_meta(self) -> bool:
        """Whether outputs get the provenance of their inputs."""
        return self.queue_meta != "strip"

    def uid_of(self, processor: Processor) -> str:
        """Under which name the progress of a processor is kept."""
        return processor.uid or f"{self.id}/{processor.id}"

    def strategy_of(self, processor: Processor) -> Strategy:
        """How often the inputs of a processor are delivered.

        Where all that a function does are effects, exactly once can only be kept by the function
        itself, with its delivery hash: such a processor takes ``at-least-once`` from the graph.
        """
        if processor.strategy is not None:
            return processor.strategy
        has_effects = processor.kind in (Kind.SINK, Kind.IMPERATIVE)
        return AT_LEAST_ONCE if has_effects and self.strategy == EXACTLY_ONCE else self.strategy

    def errors_of(self, processor: Processor) -> ErrorPolicy:
        """What happens to an input of a processor that fails for good."""
        return error_policy(processor.errors, processor.on_error, self.errors, self.on_error)

    def retry_of(self, processor: Processor) -> Retry:
        """How often a step of a processor is tried; at most once is once."""
        if self.strategy_of(processor) == "at-most-once":
            return Retry(attempts=1, backoff=0.0)
        return processor.retry or self.retry

    def description_of(self, processor: Processor) -> dict[str, Any]:
        """What was declared of a processor, as plain data: for its errors, and for people."""
        wanted = processor.filter
        described = {
            "id": processor.id,
            "uid": self.uid_of(processor),
            "kind": processor.kind.value,
            "reads": dict(processor.reads),
            "alts": dict(processor.alts),
            "writes": dict(processor.writes),
            "tailers": dict(processor.tailers),
            "appenders": dict(processor.appenders),
            "types": sorted(wanted.types or ()),
            "topics": sorted(wanted.topics or ()),
            "errors": self.errors_of(processor).queue,
            "on_error": self.errors_of(processor).on_error,
            "strategy": self.strategy_of(processor),
            "version": processor.version,
        }
        return {name: value for name, value in described.items() if value}

    def read_by(self, processor: Processor) -> Iterator[tuple[str, str]]:
        """What a processor reads, in any way: the function's name and the queue."""
        yield from processor.reads.items()
        yield from processor.alts.items()
        yield from processor.tailers.items()

    def written_by(self, processor: Processor) -> Iterator[tuple[str, str]]:
        """What a processor writes, in any way, its error queue among it."""
        yield from processor.writes.items()
        yield from processor.appenders.items()
        error_queue = self.errors_of(processor).queue
        if error_queue:
            yield "errors", error_queue

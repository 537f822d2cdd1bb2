"""Queues that a function reads and writes by itself, outside the delivery: at least once.

An imperative function finds them in its context::

    def merge(msgs, ctx):
        while (price := ctx.tailers["prices"].read()) is not None:
            ctx.appenders["log"].append(price)

A tailer keeps its place when all messages of the part were run, an appender writes then: what is
done in between is done again if the part is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from windrow.graph.context import Context
from windrow.graph.high_water import HighWaters, Mark
from windrow.graph.messages import Message
from windrow.graph.planning import Available
from windrow.graph.positions import Position, Span
from windrow.graph.sink_rows import SinkRow
from windrow.graph.sink_task import Mismatched, WriterFenced, Written
from windrow.graph.snapshot import ProcessorUid
from windrow.spark.places import Place
from windrow.spark.query.encoding import encode, message_of, raw_rows
from windrow.spark.query.errors import ByHandFailed
from windrow.spark.query.leg_plan import LegPlan, QueueForm, progress_place, routing_of
from windrow.spark.query.opened import Stores
from windrow.spark.stores import Content, QueueReader, QueueTarget

_TRIES = 5


class Tailer:
    """Reads a queue from where it was last kept, across restarts."""

    def __init__(
        self, uid: ProcessorUid, queue: str, form: QueueForm, reader: QueueReader, kept: QueueTarget
    ) -> None:
        self._uid, self._queue, self._form = uid, queue, form
        self._reader, self._kept = reader, kept
        self._waters: HighWaters | None = None
        self._moved: HighWaters | None = None
        self._ahead: Iterator[tuple[Position, Message]] = iter(())

    def read(self) -> Message | None:
        """The next message; ``None`` if there is none now."""
        found = next(self._ahead, None)
        if found is None:
            self._ahead = self._look()
            found = next(self._ahead, None)
        if found is None:
            return None
        position, message = found
        assert self._moved is not None
        marks = {**self._moved.marks, position.origin: Mark(position.index + 1)}
        self._moved = HighWaters(self._uid, 0, marks, self._moved.routing, self._moved.epoch)
        return message

    def keep(self) -> None:
        """Have the place survive."""
        if self._waters is None or self._moved is None or self._moved == self._waters:
            return
        outcome = self._kept.write((), self._waters, self._moved)
        if not isinstance(outcome, Written):
            raise ByHandFailed(str(self._uid), self._queue, type(outcome).__name__)
        self._waters = self._moved

    def _look(self) -> Iterator[tuple[Position, Message]]:
        if self._moved is None:
            self._waters = self._moved = self._kept.read_high_water(self._uid, 0)
        for one in sorted(self._reader.available(), key=lambda each: each.origin):
            yield from self._messages(one)

    def _messages(self, one: Available) -> Iterator[tuple[Position, Message]]:
        assert self._moved is not None
        begin = max(self._moved.mark(one.origin).index, one.first)
        span = Span(one.source, one.incarnation, one.partition, begin, max(begin, one.end))
        if span:
            for batch in self._reader.read(span):
                for raw in raw_rows(batch):
                    yield span.position(raw.at), message_of(raw, self._queue, self._form)


class Appender:
    """Writes to a queue."""

    def __init__(self, uid: ProcessorUid, place: Place, form: QueueForm, target: QueueTarget):
        self._uid, self._place, self._form, self._target = uid, place, form, target
        self._waiting: dict[int, list[SinkRow]] = {}
        self._context: Context | None = None
        self._ordinal = 0

    def of(self, context: Context) -> Appender:
        """The same for the next call."""
        if self._context is None or self._context.delivery_hash != context.delivery_hash:
            self._context, self._ordinal = context, 0
        return self

    def append(self, message: Message) -> None:
        """Write a message, together with all others of the part."""
        context = self._context
        assert context is not None
        body = encode(message, self._place.queue, self._form, context.batch_time)
        at = context.positions[0]
        position = Position(at.source, at.incarnation, at.partition, at.index, self._ordinal)
        self._ordinal += 1
        routing = routing_of(self._place, self._target.targets())
        number = 0 if routing.targets == 1 else routing.route(body.key, position)
        content = Content(
            body.value,
            body.key,
            tuple(body.headers),
            body.topic,
            round(context.batch_time * 1_000_000),
            context.delivery_hash,
        )
        self._waiting.setdefault(number, []).append(SinkRow((position,), content))

    def keep(self) -> None:
        """Have all that was appended written."""
        waiting, self._waiting = self._waiting, {}
        for number, rows in sorted(waiting.items()):
            self._write(number, rows)

    def _write(self, number: int, rows: list[SinkRow]) -> None:
        for _ in range(_TRIES):
            waters = self._target.read_high_water(self._uid, number)
            outcome = self._target.write(rows, waters, waters)
            if isinstance(outcome, Written):
                return
            if not isinstance(outcome, Mismatched):
                break
        reason = "fenced" if isinstance(outcome, WriterFenced) else type(outcome).__name__
        raise ByHandFailed(str(self._uid), self._place.queue, reason)


@dataclass(frozen=True)
class ImperativeContext(Context):
    """What an imperative function is told.

    Attributes:
        tailers: The queues that it reads by itself, by its own names.
        appenders: The queues that it writes by itself.
    """

    tailers: Mapping[str, Tailer] = field(default_factory=dict)
    appenders: Mapping[str, Appender] = field(default_factory=dict)


class ByHand:
    """The queues of one task."""

    def __init__(self, plan: LegPlan, stores: Stores) -> None:
        base = plan.uid
        kept = progress_place(
            ProcessorUid(base.graph, base.processor, "tailers"), 1, plan.target.connections
        )
        if plan.processor.tailers:
            stores.ensure([kept])
        self.tailers = {
            name: Tailer(
                ProcessorUid(base.graph, base.processor, f"tailer/{queue}"),
                queue,
                plan.form(queue),
                stores.reader(plan.by_hand[queue]),
                stores.target(kept),
            )
            for name, queue in plan.processor.tailers.items()
        }
        self.appenders = {
            name: Appender(
                ProcessorUid(base.graph, base.processor, f"appender/{queue}"),
                plan.by_hand[queue],
                plan.form(queue),
                stores.target(plan.by_hand[queue]),
            )
            for name, queue in plan.processor.appenders.items()
        }

    @property
    def extend(self) -> Callable[[Context], Context]:
        """Makes of a context what an imperative function gets."""

        def extended(context: Context) -> Context:
            for appender in self.appenders.values():
                appender.of(context)
            return ImperativeContext(
                **vars(context),
                tailers=MappingProxyType(self.tailers),
                appenders=MappingProxyType(self.appenders),
            )

        return extended

    def keep(self) -> None:
        """Have what was appended written, and then the places of tailers kept."""
        for appender in self.appenders.values():
            appender.keep()
        for tailer in self.tailers.values():
            tailer.keep()

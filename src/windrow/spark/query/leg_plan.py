"""What does one query do? All that its source and its sink have to know, in one picklable value.

A processor is one query, or several if its results are staged: one leg each. What is declared of
the processor, and where its queues live, is put together here once; every process that takes part
in the query gets the same value as an option of its source and its sink.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from windrow.extras import require
from windrow.graph.declaration import Graph
from windrow.graph.delivery import DeliverySettings
from windrow.graph.errors import UnnamedFunction
from windrow.graph.filters import Filter
from windrow.graph.planning import Limits, Taking
from windrow.graph.policies import AT_LEAST_ONCE, EXACTLY_ONCE, OnError, Retry, Strategy
from windrow.graph.processors import Processor
from windrow.graph.queues import QueueMeta, Values
from windrow.graph.recovery import Recovered
from windrow.graph.references import Function, importable_reference_of, load_function
from windrow.graph.routing import SINGLE_TARGET, RoutingPin
from windrow.graph.snapshot import ProcessorUid
from windrow.graph.staging import Destination, Leg, legs_of
from windrow.spark.places import Connections, Place, place_of

Effect = Literal["function", "post", "frame"]
"""What the tasks of a sink do beside writing: call the function, post what it returned, or hand the
whole batch to a function of frames."""

OPTION: Final = "secret_plan"
"""The option that carries a plan; Spark shows none that is called secret."""

MAX_MESSAGE_BYTES: Final = "max_message_bytes"
"""The option of a queue that says how large a message it takes."""

_KAFKA_MAX_BYTES: Final = 1_000_000
_ROUTING: Final[Mapping[str, str]] = {"kafka": "murmur2-1"}


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """How much at once.

    Attributes:
        max_rows: In one batch; ``None`` is all there is.
        max_bytes: In one batch, by the mean size of messages.
        rows_per_task: The most that one task reads; ``None`` cuts at fragments only.
        rows_per_write: The most that goes into one atomic write; 0 is all of a target's.
        arrow_rows: The most rows of an Arrow batch that a function gets or a task hands on.
    """

    max_rows: int | None = 200_000
    max_bytes: int | None = 256 * 1024 * 1024
    rows_per_task: int | None = 100_000
    rows_per_write: int = 50_000
    arrow_rows: int = 10_000


@dataclass(frozen=True, slots=True)
class QueueForm:
    """How a queue writes its messages: the form of values, the provenance it adds, its limit."""

    values: Values = "json"
    meta: QueueMeta = None
    max_bytes: int | None = None


@dataclass(frozen=True)
class LegPlan:
    """One query of a graph.

    Attributes:
        graph: The id of the graph.
        leg: What it reads, and what it writes to.
        processor: The function, and what was declared of it.
        description: The same as plain data, for errors.
        strategy: How often this leg delivers; exactly once wherever its destination can.
        on_error: What becomes of a message whose function fails.
        retry: How often a batch is tried.
        system: What the graph gives to all functions.
        inherits_meta: Whether outputs get the provenance of their inputs.
        forms: Of every queue that is read or written.
        sources: Where the inputs live.
        target: Where rows go, and with them the marks; of effects, where only the marks are kept.
        outputs: Where the function's results end up, by queue.
        effect: What the sink's tasks do, if that is not writing to ``target``.
        by_hand: Where the queues live that a function reads or writes by itself.
        settings: How much at once.
        owner: Who runs it.
        epoch: Counts the owners; 0 before recovery.
        routing: To how many targets, by which function; known after recovery.
        recovered: Where it goes on; known after recovery.
    """

    graph: str
    leg: Leg
    processor: Processor
    target: Place
    sources: Mapping[str, Place]
    description: Mapping[str, Any] = field(default_factory=dict, repr=False)
    strategy: Strategy = EXACTLY_ONCE
    on_error: OnError = "stop"
    retry: Retry = field(default_factory=Retry)
    system: Mapping[str, Any] = field(default_factory=dict, repr=False)
    inherits_meta: bool = True
    forms: Mapping[str, QueueForm] = field(default_factory=dict)
    outputs: Mapping[str, Place] = field(default_factory=dict)
    effect: Effect | None = None
    by_hand: Mapping[str, Place] = field(default_factory=dict)
    settings: QuerySettings = field(default_factory=QuerySettings)
    owner: str = ""
    epoch: int = 0
    routing: RoutingPin = SINGLE_TARGET
    recovered: Recovered | None = None

    @property
    def uid(self) -> ProcessorUid:
        """By which its progress is kept."""
        return self.leg.uid

    @property
    def name(self) -> str:
        """What the query is called."""
        return str(self.uid)

    @property
    def taking(self) -> Taking:
        """How inputs are taken: a leg that fans out reads one queue, whatever the processor did."""
        is_join = len(self.processor.reads) > 1 and not self.leg.is_fan_out
        return "join" if is_join else "alts"

    @property
    def is_frame(self) -> bool:
        """Whether the function works on a whole DataFrame."""
        return self.processor.form == "dataframe" and not self.leg.is_fan_out

    @property
    def is_stateful(self) -> bool:
        """Whether Spark's checkpoint holds state."""
        return self.is_frame and self.processor.state in ("windowed", "stateful")

    @property
    def runs_in_source(self) -> bool:
        """Whether tasks of the source run the function, or take the part of a leg's destination."""
        return self.effect != "function" and not self.is_frame

    @property
    def limits(self) -> Limits:
        """How much one batch may take."""
        return Limits(self.settings.max_rows, self.settings.max_bytes)

    @property
    def delivery(self) -> DeliverySettings:
        """What the delivery machine wants to know."""
        return DeliverySettings(
            uid=self.uid,
            destination=self.leg.destination,
            routing=self.routing,
            code_version=self.code_version,
            strategy=self.strategy,
            on_error=self.on_error,
            retry=self.retry,
        )

    @property
    def code_version(self) -> str:
        """Of what runs here: a leg that fans out only copies, whatever the function is by now."""
        return "copy" if self.leg.is_fan_out else self.processor.code_version

    @property
    def backing(self) -> Place:
        """Where the records of its deliveries are kept."""
        return self._own("_backing")

    @property
    def suspects(self) -> Place:
        """Where it is noted which message is being run, while one of them is suspected."""
        return self._own("_suspects")

    def _own(self, prefix: str) -> Place:
        name = f"{prefix}/{self.uid}"
        return Place(name, "journal", name, None, {}, self.target.connections)

    def form(self, queue: str) -> QueueForm:
        """How a queue writes its messages."""
        return self.forms.get(queue, QueueForm())

    def begun(self, owner: str, epoch: int, routing: RoutingPin, recovered: Recovered) -> LegPlan:
        """The plan of a query that may start: recovery is over."""
        return replace(self, owner=owner, epoch=epoch, routing=routing, recovered=recovered)

    def to_option(self) -> str:
        """The plan as the value of an option."""
        named = replace(self, processor=_with_names(self.processor))
        cloudpickle = require("pyspark.cloudpickle")
        return base64.b64encode(cloudpickle.dumps(named)).decode()

    @classmethod
    def from_option(cls, option: str) -> LegPlan:
        """What ``to_option`` wrote."""
        plan: LegPlan = pickle.loads(base64.b64decode(option))
        return replace(plan, processor=_with_functions(plan.processor))


def plan_legs(
    graph: Graph, connections: Connections, settings: QuerySettings | None = None
) -> list[LegPlan]:
    """All queries of a graph, in the order of its declaration; the legs of one follow each other.

    Args:
        graph: What was declared.
        connections: How the places of its queues are reached.
        settings: How much at once.
    """
    plans: list[LegPlan] = []
    for processor in graph.working:
        plans += _plans_of(graph, processor, connections, settings or QuerySettings())
    return plans


def progress_place(uid: ProcessorUid, partitions: int, connections: Connections) -> Place:
    """Where the marks of effects are kept."""
    name = f"_progress/{uid}"
    return Place(name, "journal", name, partitions if partitions > 1 else None, {}, connections)


def _plans_of(
    graph: Graph, processor: Processor, connections: Connections, settings: QuerySettings
) -> Iterator[LegPlan]:
    policy, strategy = graph.errors_of(processor), graph.strategy_of(processor)
    destinations = [Destination(queue) for queue in processor.writes.values()]
    if policy.queue is not None:
        destinations.append(Destination(policy.queue, "error"))
    queues = [each.queue for each in destinations]
    by_hand = [*processor.tailers.values(), *processor.appenders.values()]
    is_claimed = strategy == "at-most-once"
    legs = legs_of(
        ProcessorUid.parse(graph.uid_of(processor)),
        processor.inputs.values(),
        # What may happen at most once is claimed before the function runs, and so all of it is an
        # effect of the task that claimed it: nothing is staged for a second try.
        () if is_claimed else destinations,
        processor.deterministic and processor.form != "dataframe",
    )
    common = LegPlan(
        graph=graph.id,
        leg=legs[0],
        processor=processor,
        target=progress_place(legs[0].uid, _partitions(graph, processor), connections),
        sources={},
        description=graph.description_of(processor),
        on_error=policy.on_error,
        retry=graph.retry_of(processor),
        system=graph.system,
        inherits_meta=graph.inherits_meta,
        forms={
            name: _form(graph, name, connections)
            for name in {*processor.inputs.values(), *queues, *by_hand}
        },
        outputs={name: place_of(graph, name, connections) for name in queues},
        by_hand={name: place_of(graph, name, connections) for name in by_hand},
        settings=settings,
    )
    for leg in legs:
        yield _plan_of(graph, leg, replace(common, leg=leg), connections, strategy)


def _plan_of(
    graph: Graph, leg: Leg, plan: LegPlan, connections: Connections, strategy: Strategy
) -> LegPlan:
    sources = {name: place_of(graph, name, connections) for name in leg.inputs}
    plan = replace(plan, sources=sources)
    if leg.destination is None:
        effect: Effect = "frame" if plan.is_frame else "function"
        return replace(plan, effect=effect, strategy=_of_effects(strategy))
    place = place_of(graph, leg.destination.queue, connections)
    if graph.queue(leg.destination.queue).backend.is_transactional or leg.is_stage:
        # Where the marks go in with the rows, exactly once is what at least once would get, too.
        on_error = "stop" if leg.is_fan_out else plan.on_error
        return replace(plan, target=place, strategy=EXACTLY_ONCE, on_error=on_error)
    marks = progress_place(leg.uid, 1, connections)
    effect = "frame" if place.backend == "spark" else "post"
    return replace(plan, target=marks, effect=effect, strategy=AT_LEAST_ONCE, on_error="stop")


def _of_effects(strategy: Strategy) -> Strategy:
    return AT_LEAST_ONCE if strategy == EXACTLY_ONCE else strategy


def _partitions(graph: Graph, processor: Processor) -> int:
    """How many tasks may act at once; one where queues are read and written by hand."""
    if processor.tailers or processor.appenders:
        return 1
    return max((graph.queue(name).partitions or 1 for name in processor.inputs.values()), default=1)


def _form(graph: Graph, name: str, connections: Connections) -> QueueForm:
    queue = graph.queue(name)
    place = place_of(graph, name, connections)
    limit = queue.options.get(MAX_MESSAGE_BYTES)
    if limit is None and place.backend == "kafka":
        limit = _KAFKA_MAX_BYTES
    return QueueForm(queue.values, graph.meta_of(name), None if limit is None else int(limit))


def routing_of(place: Place, targets: int) -> RoutingPin:
    """How new rows are sent to the partitions of a place: as its own clients would."""
    return RoutingPin(targets, _ROUTING.get(place.backend, "fnv1a-1"))


# -- functions on their way to other processes ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Named:
    """A function that the other process imports by itself."""

    reference: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return load_function(self.reference)(*args, **kwargs)


def _with_names(processor: Processor) -> Processor:
    """Functions that can be imported as their names: their modules stay where they are."""
    where = processor.filter.where
    named = Filter(
        processor.filter.types, processor.filter.topics, _named(where) if where else None
    )
    return replace(processor, function=_named(processor.function), filter=named)


def _with_functions(processor: Processor) -> Processor:
    where = processor.filter.where
    found = Filter(
        processor.filter.types, processor.filter.topics, _found(where) if where else None
    )
    return replace(processor, function=_found(processor.function), filter=found)


def _named(function: Function) -> Function:
    if getattr(function, "__module__", "__main__") == "__main__":
        return function  # the main program of another process is another one
    try:
        return _Named(importable_reference_of(function))
    except UnnamedFunction:
        return function


def _found(function: Function) -> Function:
    return load_function(function.reference) if isinstance(function, _Named) else function

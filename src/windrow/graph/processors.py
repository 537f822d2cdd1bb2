"""What does a user declare: sources, and functions that read queues and write queues.

The settings of a processor are written down once, in `Settings`, as a user gives them; a
`Processor` holds the same in one form each, and is what the rest of the package reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack

from windrow.graph.errors import InvalidBindings
from windrow.graph.filters import Filter, Predicate, names
from windrow.graph.kinds import Kind, kind_of
from windrow.graph.policies import OnError, Retry, Strategy
from windrow.graph.references import Function, reference_of

Form = Literal["message", "arrow", "dataframe"]
State = Literal["stateless", "windowed", "stateful"]

Bindings = str | Iterable[str] | Mapping[str, str]
"""Queues of a processor: one, several, or by the name under which its function knows them."""


class Settings(TypedDict, total=False):
    """Everything that can be said of a processor; all of it can be left out but its inputs.

    Attributes:
        id: Its name in the graph; by default that of the function.
        uid: Under which its progress is kept; by default ``<graph>/<id>``. Give the old
            ``graph/processor`` to rename either without losing its place.
        reads: What it reads: of several queues the next message of each, paired by position.
        alts: Two queues or more, of which it reads one message at a time, whichever has one.
        writes: Where its results go.
        tailers: Queues that the function reads by itself: at least once.
        appenders: Queues that the function writes by itself: at least once.
        types: Only messages of these types.
        topics: Only messages of these topics.
        where: Only messages for which this function says yes.
        errors: The error queue; by default the graph's.
        on_error: What happens when a step fails for good: stop, drop or deadletter.
        strategy: exactly-once, at-least-once or at-most-once; by default the graph's.
        form: What the function works on: each message, Arrow batches, or a DataFrame.
        state: For DataFrames: stateless, windowed or stateful.
        many: Whether a step may write several messages to a queue, as a list.
        deterministic: Whether the same inputs always give the same outputs. Results of others are
            stored before they are delivered, so that a replay cannot change them.
        version: Of the function's code; change it with what the function computes.
        retry: How often a step is tried; by default the graph's.
        options: Anything the function wants to know, as ``ctx.options``.
    """

    id: str
    uid: str
    reads: Bindings
    alts: Bindings
    writes: Bindings
    tailers: Bindings
    appenders: Bindings
    types: str | Iterable[str]
    topics: str | Iterable[str]
    where: Predicate
    errors: str
    on_error: OnError
    strategy: Strategy
    form: Form
    state: State
    many: bool
    deterministic: bool
    version: str
    retry: Retry
    options: Mapping[str, Any]


class Part:
    """What a graph is made of: a `Source` or a `Processor`."""

    __slots__ = ()

    id: str


@dataclass(frozen=True, slots=True)
class Source(Part):
    """A queue that is filled from outside the graph; its id is the name of the queue."""

    id: str

    @property
    def kind(self) -> Kind:
        """Always a source."""
        return Kind.SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor(Part):
    """A function, what it reads and what it writes; `Settings` says what each field means.

    It can be called as the function it was made from, which is how to test it.
    """

    id: str
    function: Function
    uid: str | None = None
    reads: Mapping[str, str] = field(default_factory=dict)
    alts: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    tailers: Mapping[str, str] = field(default_factory=dict)
    appenders: Mapping[str, str] = field(default_factory=dict)
    filter: Filter = field(default_factory=Filter)
    errors: str | None = None
    on_error: OnError | None = None
    strategy: Strategy | None = None
    form: Form = "message"
    state: State | None = None
    many: bool = False
    deterministic: bool = False
    version: str = "1"
    retry: Retry | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    @property
    def inputs(self) -> Mapping[str, str]:
        """What the delivery reads, joined or one at a time: the function's name to the queue."""
        return self.alts or self.reads

    @property
    def kind(self) -> Kind:
        """What kind of processor its shape makes it."""
        return kind_of(
            joined=len(self.reads),
            alternatives=len(self.alts),
            outputs=len(self.writes),
            by_hand=len(self.tailers) + len(self.appenders),
            many=self.many,
        )

    @property
    def code_version(self) -> str:
        """What must be equal for a replay to give the same results.

        The declared version, and a digest of what else in the declaration changes results: which
        function it is, and what it filters by.
        """
        facts = [
            reference_of(self.function),
            sorted(self.filter.types) if self.filter.types is not None else None,
            sorted(self.filter.topics) if self.filter.topics is not None else None,
            reference_of(self.filter.where) if self.filter.where else None,
            sorted(self.inputs.items()),
            sorted(self.writes.items()),
        ]
        digest = hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()
        return f"{self.version}+{digest[:16]}"


def processor(**settings: Unpack[Settings]) -> Callable[[Function], Processor]:
    """Declare the function below as a processor.

    ::

        @processor(reads="orders", writes="priced")
        def price(msgs, ctx):
            order = msgs["orders"]
            return order.having(value={**order.value, "total": 3 * order.value["count"]})

    The function gets its inputs by name and a context, and returns a message, ``None``, or one of
    these for each of its outputs by name; a processor declared ``many`` returns lists.
    """
    return lambda function: declare(function, **settings)


def declare(function: Function, **settings: Unpack[Settings]) -> Processor:
    """The processor of a function, as `processor` makes it.

    Raises:
        InvalidBindings: What it reads or writes are no names of queues.
    """
    given: dict[str, Any] = dict(settings)
    name = given.pop("id", None) or getattr(function, "__name__", type(function).__name__)
    for role in ("reads", "alts", "writes", "tailers", "appenders"):
        given[role] = _bindings(name, role, given.get(role, ()))
    given["filter"] = Filter(
        types=names(given.pop("types", None)),
        topics=names(given.pop("topics", None)),
        where=given.pop("where", None),
    )
    if isinstance(function, Processor):
        function = function.function
    return Processor(id=name, function=function, **given)


def _bindings(processor: str, role: str, given: Bindings) -> dict[str, str]:
    """What was given as a mapping of the function's names to queues."""
    if isinstance(given, str):
        return {given: given}
    if isinstance(given, Mapping):
        bound = list(given.items())
    elif isinstance(given, Iterable):
        bound = [(queue, queue) for queue in given]
    else:
        raise InvalidBindings(processor, role, repr(given))
    if not all(isinstance(part, str) for pair in bound for part in pair):
        raise InvalidBindings(processor, role, repr(given))
    if len({name for name, _ in bound}) < len(bound):
        raise InvalidBindings(processor, role, f"{given!r}, which names one twice")
    return dict(bound)

"""Functions that can be imported by name, and graphs made at random from them."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from windrow.graph import Message, Processor, Queue, Retry, Source, Strategy, declare, processor
from windrow.graph.outline import Outline

few = settings(max_examples=30)
"""Graphs are large to draw: for tests that draw whole ones."""


def keep(msgs: dict[str, Message], ctx: Any) -> None:
    """Do nothing, in a way that a file can name."""


def is_large(message: Message) -> bool:
    return bool(message.value["count"] > 10)


@processor(reads="orders", writes="priced", types="order.placed")
def price(msgs: dict[str, Message], ctx: Any) -> Message:
    order = msgs["orders"]
    return order.having(value={**order.value, "total": 3 * order.value["count"]})


def made(id: str, **settings: Any) -> Processor:
    """A processor that does nothing."""
    return declare(keep, id=id, **settings)


@st.composite
def outlines(draw: st.DrawFn) -> Outline:
    """Sound declarations: every queue is written before it is read, and no source is left over."""
    sources = [f"source-{n}" for n in range(draw(st.integers(1, 3)))]
    queues = list(sources)
    processors: list[Processor] = []
    unread = set(sources)
    for number in range(draw(st.integers(1, 6))):
        inputs = draw(st.lists(st.sampled_from(queues), min_size=1, max_size=3, unique=True))
        outputs = [f"q-{number}-{n}" for n in range(draw(st.integers(0, 2)))]
        processors.append(draw(_processor(f"p-{number}", inputs, outputs)))
        queues += outputs
        unread -= set(inputs)
    if unread:
        processors.append(made("rest", reads=sorted(unread)))
    declared = draw(st.lists(st.sampled_from(_all_used(sources, processors)), unique=True))
    return Outline(
        draw(st.sampled_from(["shop", "a.b-c"])),
        [*map(Source, sources), *processors],
        queues=[_queue(name, draw(st.sampled_from(["journal", "kafka"]))) for name in declared],
        errors=draw(st.sampled_from([None, "failed"])),
        retry=draw(st.sampled_from([Retry(), Retry(None, 0.25, 2.0)])),
        queue_meta=draw(st.sampled_from([None, "strip", ("t",), ("time", "tx")])),
    )


@st.composite
def _processor(draw: st.DrawFn, id: str, inputs: list[str], outputs: list[str]) -> Processor:
    role = draw(st.sampled_from(["reads", "alts"])) if len(inputs) > 1 else "reads"
    bound = {f"in{n}": queue for n, queue in enumerate(inputs)} if draw(st.booleans()) else inputs
    strategy = draw(st.sampled_from([None, "at-least-once", "at-most-once"]))
    return made(
        id,
        **{role: bound},
        writes=outputs,
        types=draw(st.sampled_from([None, "a", ["b", "a"], []])),
        where=draw(st.sampled_from([None, is_large])),
        many=draw(st.booleans()),
        deterministic=draw(st.booleans()),
        version=draw(st.sampled_from(["1", "2"])),
        strategy=strategy,
        errors=draw(st.sampled_from([None, f"failed-{id}"])),
        options=draw(st.sampled_from([{}, {"limit": 3, "deep er": {"x": [1.5, "ü\n", True]}}])),
    )


def _all_used(sources: list[str], processors: list[Processor]) -> list[str]:
    written = [queue for p in processors for queue in p.writes.values()]
    return [*sources, *written]


def _queue(name: str, place: str) -> Queue:
    return Queue(name, **{place: f"elsewhere.{name}"}, partitions=3, values="text")  # type: ignore[arg-type]


ANY_STRATEGY: tuple[Strategy, ...] = ("exactly-once", "at-least-once", "at-most-once")

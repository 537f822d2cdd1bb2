"""Plans of legs: what a graph comes to, and messages on their way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.graph import Graph, Queue, Source, processor
from windrow.graph.errors import InvalidMessage
from windrow.graph.messages import decode_value, encode_value
from windrow.graph.planning import Split
from windrow.graph.positions import Span, numbered
from windrow.graph.snapshot import ProcessorUid, delivery_hash
from windrow.spark.places import Connections
from windrow.spark.query.encoding import Encoded, from_json, from_plain, to_json, to_plain
from windrow.spark.query.hashing import SplitHasher
from windrow.spark.query.leg_plan import LegPlan, plan_legs


def plans_of(*parts: Any, **more: Any) -> dict[str, LegPlan]:
    graph = Graph("g", [Source("orders"), *parts], **more)
    return {plan.name: plan for plan in plan_legs(graph, Connections())}


def test_legs_deliver_as_their_destinations_can() -> None:
    @processor(reads="orders", writes=["prices", "hook"], errors="bad", strategy="at-least-once")
    def fork(msgs: Any, ctx: Any) -> None: ...

    @processor(reads="orders")
    def sink(msgs: Any, ctx: Any) -> None: ...

    @processor(reads="orders", writes="others", strategy="at-most-once")
    def once(msgs: Any, ctx: Any) -> None: ...

    queues = [Queue("hook", http="http://127.0.0.1/"), Queue("orders", partitions=4)]
    plans = plans_of(fork, sink, once, queues=queues)
    facts = {
        name: (plan.strategy, plan.effect, plan.target.address, plan.target.partitions)
        for name, plan in plans.items()
    }
    assert facts == {
        "g/fork": ("exactly-once", None, "_stage/g/fork", 4),
        "g/fork/output/prices": ("exactly-once", None, "g/prices", None),
        "g/fork/output/hook": ("at-least-once", "post", "_progress/g/fork/output/hook", None),
        "g/fork/error/bad": ("exactly-once", None, "g/bad", None),
        "g/sink": ("at-least-once", "function", "_progress/g/sink", 4),
        "g/once": ("at-most-once", "function", "_progress/g/once", 4),
    }


@given(st.integers(0, 3), st.integers(0, 2), st.integers(0, 10**12), st.text(), st.booleans())
def test_quick_hashes_are_the_delivery_hashes(
    nth: int, ordinal: int, start: int, name: str, is_join: bool
) -> None:
    spans = [Span(name, "i", 2, start, start + 5), Span("other", "j", 2, 7, 12)]
    split = Split(tuple(sorted(spans[: 1 + is_join])))
    uid = ProcessorUid("g", "p", "output/q")
    quick = SplitHasher(uid, split).hash(nth, ordinal)
    assert quick == delivery_hash(uid.base, numbered(split.positions(nth), ordinal))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_quick_json_is_the_json_of_messages(value: Any) -> None:
    try:
        expected = encode_value(value, "json")
    except InvalidMessage:
        with pytest.raises(InvalidMessage):
            to_json(value)
        return
    assert to_json(value) == expected
    assert from_json(expected) == decode_value(expected, "json")


@pytest.mark.parametrize("stored", [b"", b"{", b" 1 ", b"\xff", b"1 2"])
def test_json_that_is_odd_is_read_as_ever(stored: bytes) -> None:
    try:
        expected = decode_value(stored, "json")
    except InvalidMessage:
        with pytest.raises(InvalidMessage):
            from_json(stored)
    else:
        assert from_json(stored) == expected


@given(
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(), st.none() | st.binary())),
    st.none() | st.text(),
)
def test_messages_packed_into_one_value_come_back_as_they_were(
    value: bytes | None, key: bytes | None, headers: list[Any], topic: str | None
) -> None:
    try:
        json.dumps([topic, headers and headers[0][0]], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    body = Encoded(value, key, tuple(headers), topic)
    tree = json.loads(json.dumps(to_plain(body)))
    assert from_plain(tree) == body

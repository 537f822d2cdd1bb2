from __future__ import annotations

import pytest

from tests.unit.graph.shapes import is_large, made, price
from windrow.graph import (
    ErrorPolicy,
    Graph,
    InvalidGraph,
    Message,
    Queue,
    Retry,
    Source,
    processor,
)
from windrow.graph.errors import InvalidBindings


def test_a_declared_function_can_still_be_called() -> None:
    """Which is how its author tests it."""
    priced = price({"orders": Message({"count": 2})}, None)
    assert priced.value == {"count": 2, "total": 6}


def test_a_processor_is_named_after_its_function_unless_told_otherwise() -> None:
    @processor(id="other", reads="a")
    def named(msgs: object, ctx: object) -> None: ...

    assert (price.id, named.id) == ("price", "other")


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ("a", {"a": "a"}),
        (["a", "b"], {"a": "a", "b": "b"}),
        ({"left": "a", "right": "b"}, {"left": "a", "right": "b"}),
        ((), {}),
    ],
)
def test_queues_are_given_as_one_name_several_or_a_mapping(
    given: object, bound: dict[str, str]
) -> None:
    assert made("p", reads=given).reads == bound


@pytest.mark.parametrize("given", [5, [1], {"a": 1}, ["a", "a"]])
def test_what_names_no_queues_is_refused_where_it_is_written(given: object) -> None:
    with pytest.raises(InvalidBindings, match='processor "enrich": reads is '):
        made("enrich", reads=given)


def test_a_queue_that_is_not_declared_lives_in_a_journal_of_the_graph() -> None:
    graph = Graph("shop", [Source("orders"), price])
    assert [queue.name for queue in graph.all_queues] == ["orders", "priced"]
    assert graph.queue("priced").backend_name == "journal"
    assert graph.queue("priced").address_in(graph.id) == "shop/priced"


def test_a_processor_takes_from_its_graph_what_it_leaves_out() -> None:
    own = made(
        "own",
        reads="orders",
        writes="b",
        strategy="at-least-once",
        errors="mine",
        retry=Retry(2),
        uid="old/name",
    )
    graph = Graph(
        "shop",
        [Source("orders"), price, own],
        strategy="at-most-once",
        errors="failed",
        queue_meta=["t"],  # type: ignore[arg-type]  # any collection is taken
        queues=[Queue("b", meta="strip")],
    )
    assert graph.strategy_of(price) == "at-most-once"
    assert graph.strategy_of(own) == "at-least-once"
    assert graph.errors_of(price) == ErrorPolicy("deadletter", "failed")
    assert graph.errors_of(own) == ErrorPolicy("deadletter", "mine")
    assert graph.uid_of(price) == "shop/price"
    assert graph.uid_of(own) == "old/name"
    assert graph.meta_of("priced") == ("t",)
    assert graph.meta_of("b") == "strip"


def test_at_most_once_is_tried_once_whatever_the_graph_says() -> None:
    once = made("once", reads="orders", strategy="at-most-once")
    graph = Graph("shop", [Source("orders"), once, price], retry=Retry(9))
    assert graph.retry_of(once).attempts == 1
    assert graph.retry_of(price) == Retry(9)


def test_effects_are_at_least_once_where_the_graph_is_exactly_once() -> None:
    """Only the function can keep more than that, with its delivery hash."""
    sink = made("sink", reads="priced")
    by_hand = made("by-hand", reads="priced", appenders="aside")
    graph = Graph("shop", [Source("orders"), price, sink, by_hand])
    assert graph.strategy_of(price) == "exactly-once"
    assert graph.strategy_of(sink) == graph.strategy_of(by_hand) == "at-least-once"


def test_a_processor_is_described_by_what_was_declared_and_what_follows() -> None:
    graph = Graph("shop", [Source("orders"), price], errors="failed")
    assert graph.description_of(price) == {
        "id": "price",
        "uid": "shop/price",
        "kind": "pipe",
        "reads": {"orders": "orders"},
        "writes": {"priced": "priced"},
        "types": ["order.placed"],
        "errors": "failed",
        "on_error": "deadletter",
        "strategy": "exactly-once",
        "version": "1",
    }


def test_outputs_inherit_provenance_unless_the_graph_strips_it() -> None:
    parts = [Source("orders"), price]
    assert Graph("shop", parts).inherits_meta
    assert not Graph("shop", parts, queue_meta="strip").inherits_meta


def test_the_only_source_takes_what_is_sent() -> None:
    both = made("both", reads=["orders", "prices"])
    assert Graph("shop", [Source("orders"), price]).default_source == "orders"
    two = [Source("orders"), Source("prices"), both]
    assert Graph("shop", two).default_source is None
    assert Graph("shop", two, source="prices").default_source == "prices"


def test_the_code_version_changes_with_what_changes_results_and_nothing_else() -> None:
    def version(**settings: object) -> str:
        return made("p", **{"reads": "a", "writes": "b", **settings}).code_version

    assert version() == version(options={"x": 1}, retry=Retry(2), strategy="at-least-once")
    changed = {
        version(),
        version(version="2"),
        version(types="a"),
        version(topics="a"),
        version(types=[]),
        version(where=is_large),
        version(writes="c"),
        version(reads={"x": "a"}),
    }
    assert len(changed) == 8


def test_all_mistakes_are_told_at_once_with_the_graph_in_each() -> None:
    with pytest.raises(InvalidGraph) as raised:
        Graph("shop", [made("a", reads="x"), made("b", reads="y")])
    assert str(raised.value).splitlines() == [
        'graph "shop": processor "a" reads "x", which nothing writes',
        'graph "shop": processor "b" reads "y", which nothing writes',
    ]

from __future__ import annotations

import pytest

from tests.unit.graph.shapes import made, price
from windrow.graph import (
    Catalog,
    Graph,
    Message,
    Processor,
    Queue,
    Source,
    bind_catalog,
    merge_catalogs,
)
from windrow.graph.errors import UnknownInCatalog

BILLING = Catalog(
    [Source("orders"), price, made("watch", reads="failed", on_error="stop")],
    [Queue("orders", outbox="outbox")],
)


def test_of_parts_with_one_name_the_later_wins_in_the_place_of_the_earlier() -> None:
    dearer = made("price", reads="orders", writes="priced", version="2")
    merged = merge_catalogs(
        BILLING, Catalog([dearer, made("more", reads="priced")], [Queue("orders", kafka="orders")])
    )
    assert [part.id for part in merged.processors] == ["orders", "price", "watch", "more"]
    assert merged.processors[1] is dearer
    assert [queue.backend_name for queue in merged.queues] == ["kafka"]


def test_a_function_keeps_the_names_it_knows_when_its_queues_are_renamed() -> None:
    bound = bind_catalog(BILLING, queues={"orders": "eu/orders", "priced": "eu/priced"})
    pricing = bound.processors[1]
    assert isinstance(pricing, Processor)
    assert pricing.reads == {"orders": "eu/orders"}
    assert pricing.writes == {"priced": "eu/priced"}
    assert pricing({"orders": Message({"count": 1})}, None).value["total"] == 3
    assert bound.queues == (Queue("eu/orders", outbox="outbox"),)
    assert bound.processors[0] == Source("eu/orders")


def test_one_catalog_serves_twice_in_a_graph() -> None:
    catalog = Catalog([Source("orders"), made("p", reads="orders", writes="out", errors="bad")])
    copies = [
        bind_catalog(
            catalog,
            queues={name: f"{region}/{name}" for name in ("orders", "out", "bad")},
            processors={"p": f"p-{region}"},
        )
        for region in ("eu", "us")
    ]
    graph = Graph("shop", merge_catalogs(*copies).processors)
    assert graph.topology.order == ("eu/orders", "p-eu", "us/orders", "p-us")
    assert graph.errors_of(graph.processor("p-us")).queue == "us/bad"


def test_renaming_what_is_not_there_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownInCatalog, match='no queue "order"; did you mean "orders"'):
        bind_catalog(BILLING, queues={"order": "x"})
    with pytest.raises(UnknownInCatalog, match='no processor "orders"'):
        bind_catalog(BILLING, processors={"orders": "x"})

"""What a user writes to declare a graph, as the type checker has to accept it."""

from __future__ import annotations

from typing import Any

from windrow import Graph, Message, Queue, Source, processor


@processor(reads="orders", writes="priced", types="order.placed", deterministic=True)
def price(msgs: dict[str, Message], ctx: Any) -> Message:
    order = msgs["orders"]
    return order.having(value={"total": 3}, type="order.priced")


@processor(reads="priced")
def announce(msgs: dict[str, Message], ctx: Any) -> None:
    print(ctx.delivery_hash, msgs["priced"].value)


orders = Queue("orders", outbox="outbox")
shop = Graph("shop", [Source("orders"), price, announce], queues=[orders], errors="failed")
assert shop.topology.order

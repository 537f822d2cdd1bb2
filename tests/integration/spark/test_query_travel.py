"""What travels between processes: plans with their functions, and columns of headers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windrow.graph import Graph, Message, Source, processor
from windrow.spark.chunks import headers_of
from windrow.spark.places import Connections
from windrow.spark.query.leg_plan import LegPlan, plan_legs
from windrow.spark.query.rows import header_array


@processor(reads="orders", writes="priced", where=lambda message: True)
def price(msgs: Any, ctx: Any) -> Message:
    return msgs["orders"]  # type: ignore[no-any-return]


def plans_of(*parts: Any, **more: Any) -> dict[str, LegPlan]:
    graph = Graph("g", [Source("orders"), *parts], **more)
    return {plan.name: plan for plan in plan_legs(graph, Connections())}


def test_function_that_can_be_imported_travels_by_its_name() -> None:
    plan = plans_of(price)["g/price"]
    again = LegPlan.from_option(plan.to_option())
    assert again.processor.function is price.function
    assert again.leg == plan.leg
    assert again.code_version == plan.code_version
    assert again.processor.filter.where is not None


def test_function_that_was_made_on_the_spot_travels_whole() -> None:
    factor = 3

    @processor(reads="orders", writes="priced")
    def times(msgs: Any, ctx: Any) -> Any:
        return factor * msgs

    again = LegPlan.from_option(plans_of(times)["g/times"].to_option())
    assert again.processor(5, None) == 15
    assert again.code_version == plans_of(times)["g/times"].code_version


@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.binary()))))
def test_columns_of_headers_come_back_as_they_were(rows: list[Any]) -> None:
    headers = [tuple(row) for row in rows]
    column = header_array(headers)
    assert list(headers_of(column)) == headers
    assert list(headers_of(column[1:])) == headers[1:]

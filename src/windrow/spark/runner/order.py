"""In which order are the legs of a graph started? Each after those that write what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windrow.graph.cycles import ordered
from windrow.spark.runner.supervisor import Leg

if TYPE_CHECKING:
    from windrow.spark.query.leg_plan import LegPlan


def supervised(plans: Sequence[LegPlan]) -> list[Leg]:
    """The legs in the order of their starts, each with those it has to wait for."""
    by_name = {plan.name: plan for plan in plans}
    written = {name: _written_by(plan) for name, plan in by_name.items()}
    after = {
        name: frozenset(
            other for other in by_name if other != name and written[other] & set(plan.leg.inputs)
        )
        for name, plan in by_name.items()
    }
    following = {name: {other for other in by_name if name in after[other]} for name in by_name}
    return [
        Leg(name, by_name[name].processor.id, by_name[name].retry, after[name])
        for name in ordered(by_name.keys(), following)
    ]


def _written_by(plan: LegPlan) -> set[str]:
    """The queues a leg writes to: its destination, or what its function sends by itself."""
    if plan.leg.destination is not None:
        return {plan.leg.destination.queue}
    return {*plan.outputs, *plan.processor.appenders.values()}

"""What the verbs that look at a graph read: its legs, and how far each has come."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from windrow.config import Config
from windrow.extras import require
from windrow.graph.declaration import Graph
from windrow.graph.drawing import Figures

if TYPE_CHECKING:
    from windrow.spark.query.leg_plan import LegPlan
    from windrow.spark.runner.status import GraphReport


def read_report(graph: Graph, config: Config, now: float) -> GraphReport:
    """How every leg of a graph is doing.

    Raises:
        MissingExtra: What it takes to ask the brokers is not installed.
        NoFiles: The checkpoint is reached through Spark only.
    """
    with _connected():
        return _report(graph, config, now, _plans(graph, config))


def read_figures(graph: Graph, config: Config, now: float) -> tuple[Figures, str]:
    """The numbers for a drawing, and what kept some of them from being read."""
    from windrow.spark.places import places_of
    from windrow.spark.query.opened import STORES
    from windrow.spark.runner.facts import queue_ends
    from windrow.spark.runner.settings import connections_for
    from windrow.spark.runner.status import figures_of

    with _connected():
        plans = _plans(graph, config)
        report = _report(graph, config, now, plans)
        unread = [problem for leg in report.legs for problem in leg.problems]
        if unread:
            return Figures(), unread[0]
        places = places_of(graph, graph.queue_names(), connections_for(config))
        readers: dict[str, list[str]] = defaultdict(list)
        for plan in plans:
            for queue in plan.leg.inputs:
                readers[queue].append(plan.name)
        return figures_of(report, queue_ends(places.values(), STORES), readers), ""


def _plans(graph: Graph, config: Config) -> list[LegPlan]:
    from windrow.spark.query.leg_plan import plan_legs
    from windrow.spark.runner.order import supervised
    from windrow.spark.runner.settings import connections_for

    plans = {plan.name: plan for plan in plan_legs(graph, connections_for(config))}
    return [plans[leg.name] for leg in supervised(list(plans.values()))]


def _report(graph: Graph, config: Config, now: float, plans: list[LegPlan]) -> GraphReport:
    from windrow.spark.query.opened import STORES
    from windrow.spark.runner.facts import read_facts
    from windrow.spark.runner.files import files_of
    from windrow.spark.runner.standing import read_standing
    from windrow.spark.runner.status import report_graph

    root = config.graph.checkpoint
    standing = read_standing(files_of(root), root, graph.id)
    legs = [(plan.processor.id, plan.leg, read_facts(plan, STORES)) for plan in plans]
    return report_graph(graph.id, standing, now, legs)


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    """While the block runs connections may be made; they are closed afterwards."""
    require("grpc")
    require("pyarrow")
    try:
        yield
    finally:
        close_connections()


def close_connections() -> None:
    """Close what this process has opened."""
    from windrow.spark.queues.clients import close_clients
    from windrow.spark.queues.open import close_cached_queues
    from windrow.spark.targets.open import close_cached_targets

    close_cached_queues()
    close_cached_targets()
    close_clients()

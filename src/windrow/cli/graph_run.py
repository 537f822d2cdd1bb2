"""``windrow graph run``: run a graph on Spark until it is told to stop, or has nothing left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.foreground import served, stopped_by_signals
from windrow.cli.graph_finding import (
    CheckpointOption,
    ConfOption,
    GraphArgument,
    MasterOption,
    files_of_graph,
    find_graph,
    graph_config,
    graph_flags,
)
from windrow.cli.graph_progress import shown
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line
from windrow.config import Config
from windrow.extras import require
from windrow.graph.declaration import Graph
from windrow.telemetry import EventBus, Metrics

if TYPE_CHECKING:
    from windrow.spark.runner.run import GraphRunner, RunOutcome


def run(
    ctx: typer.Context,
    graph: GraphArgument,
    config_file: ConfigFile = None,
    settings: Settings = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    py_files: Annotated[
        list[str] | None,
        typer.Option(
            "--py-files",
            metavar="FILES",
            help="Modules, zips and wheels for the workers.",
            show_default=False,
        ),
    ] = None,
    archives: Annotated[
        list[str] | None,
        typer.Option(
            "--archives",
            metavar="FILES",
            help="Archives to unpack beside the workers, as env.tar.gz#env.",
            show_default=False,
        ),
    ] = None,
    checkpoint: CheckpointOption = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Deliver what is there, through the whole graph, and end."),
    ] = False,
    max_rows: Annotated[
        int | None,
        typer.Option("--max-rows", min=1, help="The most messages of a batch.", show_default=False),
    ] = None,
    accept_topology: Annotated[
        bool,
        typer.Option("--accept-topology", help="Go on though the graph is not what it was."),
    ] = False,
    accept_state_loss: Annotated[
        bool, typer.Option("--accept-state-loss", help="Begin with empty state where it is lost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run until SIGTERM, Ctrl-C or "windrow graph stop"; batches that run are waited for.

    Whatever died before, it goes on where it was. A second signal does not wait.
    """
    flags = graph_flags(
        master=master,
        conf=conf,
        checkpoint=checkpoint,
        py_files=py_files,
        archives=archives,
        max_rows=max_rows,
    )
    config = graph_config(ctx, config_file, settings, flags)
    found = find_graph(graph)
    require("pyspark")
    require("pyarrow")
    from windrow.spark.runner.run import GraphRunner, RunOptions
    from windrow.spark.runner.sessions import open_session

    options = RunOptions(
        is_once=once, accept_topology=accept_topology, accept_state_loss=accept_state_loss
    )
    if not accept_topology:
        _check_early(found, config)
    with open_session(found, config, files_of_graph(graph)) as session:
        bus, metrics = EventBus(), Metrics()
        runner = GraphRunner(found, config, session, options, bus=bus)
        outcome = _supervised(runner, config, bus, metrics)
    _tell(found, outcome, as_json=as_json)


def _check_early(graph: Graph, config: Config) -> None:
    """Refuse another topology before Spark is started, if that is not needed to know it."""
    from windrow.spark.runner.files import LocalFiles, is_local
    from windrow.spark.runner.topology_guard import check_topology

    if is_local(config.graph.checkpoint):
        check_topology(LocalFiles(), config.graph.checkpoint, graph)


def _supervised(runner: GraphRunner, config: Config, bus: EventBus, metrics: Metrics) -> RunOutcome:
    from windrow.spark.runner.reporting import count_events, log_events

    log_events(bus)
    count_events(bus, metrics)
    with (
        stopped_by_signals(lambda at_once: runner.stop(at_once=at_once)),
        served(config, metrics, "graph", runner.problem),
        shown(bus),
    ):
        return runner.run_or_fail()


def _tell(graph: Graph, outcome: RunOutcome, *, as_json: bool) -> None:
    if as_json:
        legs = {
            name: {"state": status.state.value, "messages": outcome.rows.get(name, 0)}
            for name, status in outcome.legs.items()
        }
        print_json({"graph": graph.id, "messages": sum(outcome.rows.values()), "legs": legs})
        return
    for name in outcome.legs:
        print_line(f"{name}: {outcome.rows.get(name, 0)} messages")

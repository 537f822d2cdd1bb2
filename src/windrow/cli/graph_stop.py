"""``windrow graph stop``: have a running graph end, wherever it runs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from windrow.cli.graph_finding import (
    CheckpointOption,
    GraphArgument,
    find_graph,
    graph_config,
    graph_flags,
)
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line
from windrow.types import parse_duration

LOOK_INTERVAL = 0.2


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--wait") from None


def stop(
    ctx: typer.Context,
    graph: GraphArgument,
    config_file: ConfigFile = None,
    settings: Settings = None,
    checkpoint: CheckpointOption = None,
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="How long; 0s only asks.")
    ] = "60s",
    as_json: AsJson = False,
) -> None:
    """Ask the runner of a graph to end, and wait until it has; batches that run are finished.

    It is asked by a file beside the checkpoint, so it may run on another machine.
    """
    from windrow.spark.runner.errors import StopUnanswered
    from windrow.spark.runner.files import files_of
    from windrow.spark.runner.standing import read_standing, request_stop

    seconds = _seconds(wait)
    config = graph_config(ctx, config_file, settings, graph_flags(checkpoint=checkpoint))
    found, root = find_graph(graph), config.graph.checkpoint
    files = files_of(root)
    standing = read_standing(files, root, found.id)
    if standing is None or not standing.is_alive(time.time()):
        _tell(found.id, "is not running", as_json=as_json)
        return
    request_stop(files, root, found.id, standing.owner)
    if not seconds:
        _tell(found.id, "was asked to stop", as_json=as_json)
        return
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        now = read_standing(files, root, found.id)
        if now is None or now.owner != standing.owner or now.is_ended:
            _tell(found.id, "has stopped", as_json=as_json)
            return
        time.sleep(LOOK_INTERVAL)  # the runner answers in a file, and files set no event
    raise StopUnanswered(found.id, seconds)


def _tell(graph: str, outcome: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"graph": graph, "outcome": outcome})
    else:
        print_line(f"graph {graph} {outcome}")

"""``windrow graph status``: what every processor has delivered, what waits, and what is wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from windrow.cli.graph_finding import (
    CheckpointOption,
    GraphArgument,
    find_graph,
    graph_config,
    graph_flags,
)
from windrow.cli.graph_reading import read_report
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import Row, print_json, print_line, print_rows

if TYPE_CHECKING:
    from windrow.spark.runner.status import GraphReport, LegReport


def status(
    ctx: typer.Context,
    graph: GraphArgument,
    config_file: ConfigFile = None,
    settings: Settings = None,
    checkpoint: CheckpointOption = None,
    as_json: AsJson = False,
) -> None:
    """Print how every processor is doing; exit 1 if one needs somebody."""
    config = graph_config(ctx, config_file, settings, graph_flags(checkpoint=checkpoint))
    found = find_graph(graph)
    report = read_report(found, config, time.time())
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    if report.problems:
        raise typer.Exit(1)


def _print(report: GraphReport) -> None:
    print_line(f"graph {report.graph}: {_runner(report)}")
    print_rows([_row(leg) for leg in report.legs], as_json=False)
    for problem in report.problems:
        print_line(f"problem: {problem}")


def _runner(report: GraphReport) -> str:
    standing = report.standing
    if standing is None:
        return "never ran here"
    where = f"process {standing.pid} on {standing.host}"
    if report.is_running:
        return f"running as {where}"
    return "not running" if standing.is_ended else f"not running; {where} died"


def _row(leg: LegReport) -> Row:
    return {
        "processor": leg.leg,
        "state": leg.state,
        "snapshot": leg.delivered,
        "lag": leg.lag,
        "in doubt": leg.in_doubt,
        "attempts": leg.attempts or None,
        "error": leg.error,
    }

"""``windrow graph repair``: find what keeps a graph from starting, and mend it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from windrow.cli.asking import ask
from windrow.cli.graph_finding import (
    CheckpointOption,
    ConfOption,
    GraphArgument,
    MasterOption,
    find_graph,
    graph_config,
    graph_flags,
)
from windrow.cli.graph_reading import close_connections
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line
from windrow.config import Config
from windrow.extras import require
from windrow.graph.declaration import Graph

if TYPE_CHECKING:
    from windrow.spark.runner.diagnosis import Finding, Permissions
    from windrow.spark.runner.repair import Examined
    from windrow.spark.runner.sessions import Session


def _skip(text: str) -> tuple[str, int]:
    source, colon, partition = text.rpartition(":")
    if not colon or not source or not partition.isdecimal():
        raise typer.BadParameter("write it as SOURCE:PARTITION", param_hint="--skip")
    return source, int(partition)


def repair(
    ctx: typer.Context,
    graph: GraphArgument,
    config_file: ConfigFile = None,
    settings: Settings = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    checkpoint: CheckpointOption = None,
    accept_incarnation: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-incarnation",
            metavar="SOURCE",
            help="Read a source that was made again from its beginning.",
            show_default=False,
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip",
            metavar="SOURCE:PARTITION",
            help="Give up messages that are gone from a source.",
            show_default=False,
        ),
    ] = None,
    sink_lost: Annotated[
        bool, typer.Option("--sink-lost", help="Deliver everything again to a sink that was lost.")
    ] = False,
    rewind: Annotated[
        bool, typer.Option("--rewind", help="Deliver again what a sink lost that was set back.")
    ] = False,
    accept_state_loss: Annotated[
        bool, typer.Option("--accept-state-loss", help="Drop a checkpoint whose state is damaged.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong and what will be done, ask, do it, and write it down.

    Exit 1 if something stays that keeps a processor from starting. What was done stands in
    repairs.jsonl beside the checkpoint, and in the backing journal where that was changed.
    """
    from windrow.spark.runner.diagnosis import Permissions

    permissions = Permissions(
        frozenset(accept_incarnation or ()),
        frozenset(map(_skip, skip or ())),
        sink_lost,
        rewind,
        accept_state_loss,
    )
    flags = graph_flags(master=master, conf=conf, checkpoint=checkpoint)
    config = graph_config(ctx, config_file, settings, flags)
    found = find_graph(graph)
    require("grpc")
    with _session(found, config) as session:
        try:
            examined = _mend(found, config, permissions, session, dry_run, yes, as_json)
        finally:
            close_connections()
    if examined.unmended or examined.problems:
        raise typer.Exit(1)


def _mend(
    graph: Graph,
    config: Config,
    permissions: Permissions,
    session: Session | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> Examined:
    from windrow.spark.runner.repair import Repair

    desk = Repair(graph, config, permissions, session=session)
    examined = desk.examine()
    if not as_json:
        _print(examined)
    remedies = examined.remedies
    if remedies and not dry_run:
        if not yes:
            ask(f"Do it ({len(remedies)})?", "repair")
        for finding in remedies:
            desk.apply(finding)
            if not as_json:
                print_line(f"done: {finding.action}")
    if as_json:
        print_json(_document(examined, is_done=not dry_run))
    return examined


def _print(examined: Examined) -> None:
    for finding in examined.findings:
        print_line(f"{finding.leg}: {finding.text}")
        if finding.remedy is not None:
            print_line(f"  will {finding.action}")
        elif finding.needs:
            print_line(f"  needs {finding.needs}")
    for problem in examined.problems:
        print_line(f"cannot look: {problem}")
    if not examined.findings and not examined.problems:
        print_line("nothing is wrong")


def _document(examined: Examined, *, is_done: bool) -> dict[str, object]:
    return {
        "findings": [_finding(finding, is_done) for finding in examined.findings],
        "problems": list(examined.problems),
    }


def _finding(finding: Finding, is_done: bool) -> dict[str, object]:
    return {
        "processor": finding.leg,
        "found": finding.text,
        "action": finding.action,
        "needs": finding.needs,
        "blocks": finding.is_blocking,
        "done": is_done and finding.remedy is not None,
    }


@contextlib.contextmanager
def _session(graph: Graph, config: Config) -> Iterator[Session | None]:
    """Spark, if the checkpoint is reached through nothing else."""
    from windrow.spark.runner.files import is_local

    if is_local(config.graph.checkpoint):
        yield None
        return
    from windrow.spark.runner.sessions import open_session

    with open_session(graph, config, []) as session:
        yield session

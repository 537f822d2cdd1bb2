"""``windrow graph show``: draw a graph, with its figures if the brokers answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from windrow.cli.graph_finding import (
    CheckpointOption,
    GraphArgument,
    find_graph,
    graph_config,
    graph_flags,
)
from windrow.cli.graph_reading import read_figures
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line
from windrow.errors import Failed, MissingExtra
from windrow.graph.declaration import Graph
from windrow.graph.drawing import Figures, draw_text
from windrow.graph.svg import draw_html, draw_svg

QUICK_PATIENCE = 2.0
"""How long a drawing waits for brokers; without them it has no figures."""


class CannotWrite(Failed):
    """A file could not be written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot write {self.path}: {self.reason}"


def show(
    ctx: typer.Context,
    graph: GraphArgument,
    config_file: ConfigFile = None,
    settings: Settings = None,
    checkpoint: CheckpointOption = None,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Write a drawing there.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page there.", show_default=False),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no broker for figures.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a graph: its processors, queues, and how far each has come."""
    config = graph_config(ctx, config_file, settings, graph_flags(checkpoint=checkpoint))
    found = find_graph(graph)
    figures, remark = Figures(), ""
    if not offline:
        quick = config.model_copy(
            update={
                "journal": config.journal.model_copy(
                    update={"patience": min(config.journal.patience, QUICK_PATIENCE)}
                )
            }
        )
        try:
            figures, remark = read_figures(found, quick, time.time())
        except MissingExtra as error:
            remark = str(error)
    if svg is not None:
        _write(svg, draw_svg(found, figures))
    if html is not None:
        _write(html, draw_html(found, figures))
    if as_json:
        print_json(_document(found, figures, remark))
    elif svg is None and html is None:
        print_line(draw_text(found, figures).rstrip("\n"))
        if remark:
            print_line(f"no figures: {remark}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotWrite(str(path), error.strerror or str(error)) from error


def _document(graph: Graph, figures: Figures, remark: str) -> dict[str, object]:
    return {
        "graph": graph.id,
        "fingerprint": graph.topology.fingerprint,
        "topology": graph.topology.canonical,
        "order": list(graph.topology.order),
        "processors": figures.processors,
        "queues": figures.queues,
        "problem": remark,
    }

"""``windrow graph send``: put messages into a source of a graph, once even if it is tried again."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from windrow.cli.graph_finding import GraphArgument, find_graph, graph_config
from windrow.cli.graph_reading import close_connections
from windrow.cli.options import AsJson, ConfigFile, Settings
from windrow.cli.output import print_json, print_line
from windrow.extras import require
from windrow.graph.declaration import Graph
from windrow.graph.errors import InvalidMessage
from windrow.graph.messages import Message

STDIN = "-"


def send(
    ctx: typer.Context,
    graph: GraphArgument,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="A source of the graph.")],
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="What to send; - is one for each line of input."),
    ] = STDIN,
    config_file: ConfigFile = None,
    settings: Settings = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="Messages of one key keep their order.", show_default=False),
    ] = None,
    type_: Annotated[
        str | None,
        typer.Option("--type", help="What processors filter by.", show_default=False),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="What it is about.", show_default=False)
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            metavar="TEXT",
            help="A second send with it appends nothing.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Append messages to a source; all of one command are one append to each partition.

    Without an idempotency key, what was sent by a command that failed may or may not be there.
    """
    config = graph_config(ctx, config_file, settings)
    found = find_graph(graph)
    texts = sys.stdin.read().splitlines() if value == STDIN else [value]
    messages = [
        Message(_value(found, queue, text), key=key, type=type_, topic=topic) for text in texts
    ]
    require("grpc")
    require("google.protobuf")
    from windrow.spark.runner.send import send as send_messages

    try:
        sent = send_messages(found, config, messages, queue, idempotency_key)
    finally:
        close_connections()
    if as_json:
        print_json(
            {
                "queue": sent.queue,
                "messages": sent.count,
                "was_there": sent.was_there,
                "positions": {str(number): index for number, index in sent.positions.items()},
            }
        )
        return
    where = ", ".join(f"{number}:{index}" for number, index in sorted(sent.positions.items()))
    done = "was there already" if sent.was_there else "sent"
    print_line(f"{sent.queue}: {sent.count} {done} at {where or 'nowhere: there was no message'}")


def _value(graph: Graph, queue: str, text: str) -> Any:
    """What a text is in the form of the queue."""
    match graph.queue(queue).values:
        case "json":
            try:
                return json.loads(text)
            except ValueError as error:
                raise InvalidMessage("json", f"{error}; quote text as JSON does") from error
        case "bytes":
            return text.encode("utf-8", "surrogateescape")
        case _:
            return text

"""``windrow graph``: run graphs of processors, look at them, and mend them."""

from __future__ import annotations

import typer

from windrow.cli.graph_repair import repair
from windrow.cli.graph_run import run
from windrow.cli.graph_send import send
from windrow.cli.graph_show import show
from windrow.cli.graph_status import status
from windrow.cli.graph_stop import stop

app = typer.Typer(
    help="Run graphs of processors, look at them, and mend them.",
    add_completion=False,
    no_args_is_help=True,
)

app.command("run")(run)
app.command("show")(show)
app.command("status")(status)
app.command("send")(send)
app.command("stop")(stop)
app.command("repair")(repair)

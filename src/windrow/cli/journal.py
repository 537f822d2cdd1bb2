"""``windrow journal``: brokers, and the journals they serve."""

from __future__ import annotations

import typer

from windrow.cli.journal_append import append
from windrow.cli.journal_apply import apply
from windrow.cli.journal_edit import edit
from windrow.cli.journal_fragments import fragments
from windrow.cli.journal_heads import reset_head
from windrow.cli.journal_list import list_journals
from windrow.cli.journal_prune import prune
from windrow.cli.journal_read import read
from windrow.cli.journal_serve import serve
from windrow.cli.journal_store_health import store_health
from windrow.cli.journal_suspend import suspend

app = typer.Typer(
    help="Run brokers, and work with their journals.", add_completion=False, no_args_is_help=True
)

app.command("serve")(serve)
app.command("list")(list_journals)
app.command("apply")(apply)
app.command("edit")(edit)
app.command("append")(append)
app.command("read")(read)
app.command("fragments")(fragments)
app.command("prune")(prune)
app.command("reset-head")(reset_head)
app.command("suspend")(suspend)
app.command("store-health")(store_health)
